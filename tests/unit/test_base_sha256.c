/* SPDX-License-Identifier: MIT
 * SHA-256 against the examples of FIPS 180-4 and at every padding length; JavaScript's spelling of numbers and strings.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/js_text.h"
#include "base/sha256.h"

static void digest(const void *data, size_t bytes, size_t step, char text[SHA256_TEXT_BYTES])
{
    struct sha256 sha;
    sha256_begin(&sha);
    for (size_t at = 0; at < bytes; at += step) {
        sha256_add(&sha, (const char *)data + at, bytes - at < step ? bytes - at : step);
    }
    sha256_end_text(&sha, text);
}

static void test_examples(void **state)
{
    (void)state;
    static const struct {
        const char *text, *digest;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqr"
         "stu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    char text[SHA256_TEXT_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        digest(rows[i].text, strlen(rows[i].text), 1000, text);
        assert_string_equal(text, rows[i].digest);
    }
    char *million = malloc(1000000);
    assert_non_null(million);
    memset(million, 'a', 1000000);
    digest(million, 1000000, 977, text);
    assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* The digest of the digests of 0, 1, ... 199 bytes, made with an independent implementation; and pieces do not matter.
 */
static void test_padding(void **state)
{
    (void)state;
    unsigned char data[200];
    char text[SHA256_TEXT_BYTES];
    char again[SHA256_TEXT_BYTES];
    struct sha256 all;
    sha256_begin(&all);
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)(i * 7 + 3);
    }
    for (size_t bytes = 0; bytes < sizeof data; bytes++) {
        digest(data, bytes, 1000, text);
        sha256_add(&all, text, 64);
        for (size_t step = 1; step < 70; step += 13) {
            digest(data, bytes, step, again);
            assert_string_equal(again, text);
        }
    }
    sha256_end_text(&all, text);
    assert_string_equal(text, "466ee381bbc4a6de34133ad71e2d19bd7ac1efe7fbd78829b39564fb7a8e7d20");
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {-0.0, "0"},
        {1, "1"},
        {30, "30"},
        {30.5, "30.5"},
        {-1.25, "-1.25"},
        {0.1, "0.1"},
        {1e-6, "0.000001"},
        {1e-7, "1e-7"},
        {1.5e-7, "1.5e-7"},
        {123456789012345680000.0, "123456789012345680000"},
        {1e21, "1e+21"},
        {1.2345e25, "1.2345e+25"},
        {9007199254740993.0, "9007199254740992"},
        {5e-324, "5e-324"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {0.30000000000000004, "0.30000000000000004"},
        {1.0 / 3.0, "0.3333333333333333"},
        {0x1p-25, "2.9802322387695312e-8"}, /* a tie between two last digits: the even one */
        {0x1p-44, "5.684341886080802e-14"},
        {1e23, "1e+23"},
        {4.35, "4.35"},
        {(double)NAN, "null"},
        {(double)INFINITY, "null"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[JS_NUMBER_MAX + 1];
        text[js_number(rows[i].value, text)] = '\0';
        assert_string_equal(text, rows[i].text);
    }
}

static char spelled[256];

static void put(void *user, const void *text, size_t bytes)
{
    (void)user;
    strncat(spelled, text, bytes);
}

static void test_strings(void **state)
{
    (void)state;
    static const char raw[] = "a\"b\\c\b\f\n\r\t\x01\x1f/\x7f\xc3\xa9";
    js_put_string(&(struct js_out){put, NULL}, raw, sizeof raw - 1);
    assert_string_equal(spelled, "\"a\\\"b\\\\c\\b\\f\\n\\r\\t\\u0001\\u001f/\x7f\xc3\xa9\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples), cmocka_unit_test(test_padding),
                                       cmocka_unit_test(test_numbers), cmocka_unit_test(test_strings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
