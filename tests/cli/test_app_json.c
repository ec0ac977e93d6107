/* SPDX-License-Identifier: MIT
 * The JSON writer against an independent reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/json_out.h"

static json_t *read_back(FILE *file)
{
    rewind(file);
    json_error_t error;
    json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (root == NULL) {
        fail_msg("line %d: %s", error.line, error.text);
    }
    fclose(file);
    return root;
}

static void every_byte_survives_or_becomes_a_replacement(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    struct json_out json;
    json_out_begin(&json, file);
    json_out_array(&json, NULL, false);
    for (int c = 0; c < 256; c++) {
        char byte = (char)c;
        json_out_text(&json, NULL, &byte, 1);
    }
    json_out_string(&json, NULL, "\xe2\x82\xac\"\\\n\xf0\x9f\x98\x80");
    json_out_text(&json, NULL, "a\xe2\x82", 3);
    json_out_close(&json);
    json_out_end(&json);
    json_t *root = read_back(file);
    for (int c = 0; c < 256; c++) {
        const json_t *item = json_array_get(root, (size_t)c);
        if (c < 0x80) {
            char byte = (char)c;
            assert_int_equal(json_string_length(item), 1);
            assert_memory_equal(json_string_value(item), &byte, 1);
        } else {
            assert_string_equal(json_string_value(item), "\xef\xbf\xbd");
        }
    }
    assert_string_equal(json_string_value(json_array_get(root, 256)), "\xe2\x82\xac\"\\\n\xf0\x9f\x98\x80");
    assert_string_equal(json_string_value(json_array_get(root, 257)), "a\xef\xbf\xbd\xef\xbf\xbd");
    json_decref(root);
}

static void shapes_nest_and_numbers_read_back(void **state)
{
    (void)state;
    static const double reals[] = {0, -0.5, 1.0 / 3, 1e300, 5e-324, 123456789.123};
    FILE *file = tmpfile();
    assert_non_null(file);
    struct json_out json;
    json_out_begin(&json, file);
    json_out_object(&json, NULL);
    json_out_object(&json, "empty");
    json_out_close(&json);
    json_out_array(&json, "none", true);
    json_out_close(&json);
    json_out_array(&json, "reals", true);
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        json_out_real(&json, NULL, reals[i]);
    }
    json_out_close(&json);
    json_out_real(&json, "infinite", 1e308 * 10);
    json_out_u64(&json, "large", INT64_MAX);
    json_out_i64(&json, "negative", -7);
    json_out_bool(&json, "yes", true);
    json_out_null(&json, "nothing");
    json_out_array(&json, "objects", false);
    for (int i = 0; i < 2; i++) {
        json_out_object(&json, NULL);
        json_out_i64(&json, "i", i);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_string_begin(&json, "pieces");
    json_out_string_add(&json, "a\"", 2);
    json_out_string_add(&json, "b", 1);
    json_out_string_end(&json);
    json_out_close(&json);
    json_out_end(&json);
    json_t *root = read_back(file);
    assert_int_equal(json_object_size(root), 10);
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double got = json_number_value(json_array_get(json_object_get(root, "reals"), i));
        assert_memory_equal(&got, &reals[i], sizeof got);
    }
    assert_true(json_is_null(json_object_get(root, "infinite")));
    assert_true(json_integer_value(json_object_get(root, "large")) == INT64_MAX);
    assert_int_equal(json_integer_value(json_object_get(root, "negative")), -7);
    assert_true(json_is_true(json_object_get(root, "yes")));
    assert_int_equal(json_array_size(json_object_get(root, "objects")), 2);
    assert_string_equal(json_string_value(json_object_get(root, "pieces")), "a\"b");
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_survives_or_becomes_a_replacement),
        cmocka_unit_test(shapes_nest_and_numbers_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
