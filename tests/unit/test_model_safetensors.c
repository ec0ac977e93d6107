/* SPDX-License-Identifier: MIT
 * model/safetensors.h on handmade images: what is read, and one case for every refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/safetensors.h"
#include "support/build.h"

enum { SCRATCH_BYTES = 1 << 20 };

static unsigned char *scratch_block;

static int make_scratch(void **state)
{
    (void)state;
    scratch_block = aligned_alloc(4096, SCRATCH_BYTES);
    return scratch_block == NULL ? -1 : 0;
}

static int free_scratch(void **state)
{
    (void)state;
    free(scratch_block);
    return 0;
}

struct parsed {
    char *ptr;
    uint64_t header_bytes;
    struct tensor_dir dir;
};

static berth_status parse(const struct build *image, uint64_t file_bytes, struct parsed *out, berth_error *err)
{
    struct arena arena;
    *out = (struct parsed){0};
    arena_carve(&arena, scratch_block, SCRATCH_BYTES);
    uint64_t have = image->bytes < file_bytes ? image->bytes : file_bytes;
    TRY(safetensors_header_bytes(image->ptr, have, file_bytes, &out->header_bytes, err));
    out->ptr = malloc(out->header_bytes);
    memcpy(out->ptr, image->ptr, out->header_bytes);
    uint32_t most = safetensors_most(out->ptr, out->header_bytes);
    struct tensor *tensors = ARENA_NEW(&arena, struct tensor, most);
    uint32_t count = 0;
    assert_non_null(tensors);
    TRY(safetensors_parse(out->ptr, out->header_bytes, file_bytes, 0, tensors, most, &count, err));
    struct tensor_file file = {"x.safetensors", out->header_bytes, file_bytes, true};
    return tensor_dir_build(&out->dir, tensors, count, &file, 1, &arena, err);
}

static void reads_names_shapes_and_places(void **state)
{
    (void)state;
    struct build image = {0};
    struct parsed p;
    build_safetensors(&image,
                      "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"y\"},"
                      "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
                      "\"a\":{\"data_offsets\":[0,8],\"shape\":[1,1,1,1,2,1],\"dtype\":\"F32\",\"extra\":[{}]},"
                      "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[20,20]},"
                      "\"empty too\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[8,8]},"
                      "\"c\\u00e9\\\"\\/\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[20,28]}}   ",
                      28);
    assert_int_equal(parse(&image, image.bytes, &p, NULL), BERTH_OK);
    assert_int_equal(p.dir.count, 5);
    const struct tensor *t = tensor_find(&p.dir, STR("b.weight"));
    assert_int_equal(t->dtype, DTYPE_BF16);
    assert_int_equal(t->dims_count, 2);
    assert_true(t->dims[0] == 2 && t->dims[1] == 3);
    assert_int_equal(t->offset, p.header_bytes + 8);
    assert_int_equal(t->bytes, 12);
    t = tensor_find(&p.dir, STR("a"));
    assert_true(t->dims_count == 6 && t->dims[4] == 2 && t->bytes == 8 && t->dtype == DTYPE_F32);
    t = tensor_find(&p.dir, STR("empty"));
    assert_true(t->bytes == 0 && tensor_elems(t) == 0);
    t = tensor_find(&p.dir, STR("c\xc3\xa9\"/"));
    assert_non_null(t);
    assert_true(t->dims_count == 0 && t->bytes == 8 && tensor_elems(t) == 1);
    for (uint32_t i = 1; i < p.dir.count; i++) {
        assert_true(memcmp(p.dir.items[i - 1].name.ptr, p.dir.items[i].name.ptr, 1) <= 0);
    }
    free(p.ptr);
    build_free(&image);

    build_safetensors(&image, "{}", 0);
    assert_int_equal(parse(&image, image.bytes, &p, NULL), BERTH_OK);
    assert_int_equal(p.dir.count, 0);
    free(p.ptr);
    build_free(&image);
}

static void refuse(const char *header, size_t data_bytes, berth_status wanted, const char *says, const char *object)
{
    struct build image = {0};
    struct parsed p;
    berth_error err = {0};
    build_safetensors(&image, header, data_bytes);
    berth_status status = parse(&image, image.bytes, &p, &err);
    if (status != wanted || strstr(err.message, says) == NULL || strcmp(err.object, object) != 0 ||
        err.offset > image.bytes) {
        fail_msg("%s\nstatus %d, \"%s\", object \"%s\", offset %llu; wanted %d, \"%s\", \"%s\"", header, status,
                 err.message, err.object, (unsigned long long)err.offset, wanted, says, object);
    }
    free(p.ptr);
    build_free(&image);
}

#define ONE(fields) "{\"t\":{" fields "}}"

static void refuses_bad_headers(void **state)
{
    (void)state;
    const berth_status format = BERTH_ERR_FORMAT;
    refuse("[]", 0, format, "does not begin with '{'", "");
    refuse(" {}", 0, format, "does not begin with '{'", "");
    refuse("{", 0, format, "a header of 1 bytes", "");
    refuse("{}x", 0, format, "text after the end", "");
    refuse("{\"t\":1}", 0, format, "entry is \"1\", wanted an object", "t");
    refuse("{\"t\":{}}", 0, format, "no dtype", "t");
    refuse("{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, format, "no data_offsets", "t");
    refuse("{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, format, "no shape", "t");
    refuse("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}", 4, format, "ends too early", "");
    refuse("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4", 4, format, "ends too early", "t");
    refuse("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],", 4, format, "ends too early", "t");
    refuse("{\"t\":{\"dtype\":\"F32\",\"odd\":[[,", 4, format, "expected a value", "t");
    refuse("{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, format, "is empty", "");
    refuse("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, format, "NUL byte", "a?b");
    refuse("{\"a\xff\":{}}", 4, format, "not UTF-8", "");
    refuse("{\"__metadata__\":[]}", 0, format, "wanted an object of strings", "__metadata__");
    refuse("{\"__metadata__\":{\"a\":1}}", 0, format, "\"1\", wanted a string", "__metadata__");
    refuse("{\"__metadata__\":{\"a\":{}}}", 0, format, "wanted a string", "__metadata__");
    refuse("{\"__metadata__\":{},\"__metadata__\":{}}", 0, format, "given twice", "");
    char deep[300] = "{\"t\":{\"odd\":";
    memset(deep + strlen(deep), '[', 200);
    refuse(deep, 0, format, "nested deeper than 64", "t");
}

static void refuses_bad_tensors(void **state)
{
    (void)state;
    const berth_status format = BERTH_ERR_FORMAT;
    refuse(ONE("\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]"), 4, BERTH_ERR_UNSUPPORTED, "dtype F33", "t");
    refuse(ONE("\"dtype\":\"Q8_0\",\"shape\":[32],\"data_offsets\":[0,34]"), 34, BERTH_ERR_UNSUPPORTED, "dtype Q8_0",
           "t");
    refuse(ONE("\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]"), 4, format, "dtype is \"7\"", "t");
    refuse(ONE("\"dtype\":\"F32\",\"dtype\":\"F32\""), 4, format, "dtype is given twice", "t");
    refuse(ONE("\"shape\":[1],\"shape\":[1]"), 4, format, "shape is given twice", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,4]"), 4, format, "wanted an array of dims", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]"), 4, format, "a dim is \"-1\"", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]"), 4, format, "a dim is \"1.5\"", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]"), 4, format, "a dim is", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,4]"), 4, format, "a dim is",
           "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[0,4]"), 4, BERTH_ERR_UNSUPPORTED,
           "more than 6 dims", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":4"), 4, format, "wanted two whole numbers", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4]"), 4, format, "wanted two whole numbers", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]"), 4, format, "wanted two whole numbers", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,-4]"), 4, format, "wanted two whole numbers", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"), 0, format,
           "more than 64 bits", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]"), 0, format,
           "more than 64 bits", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 4, format, "wanted 8 bytes", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]"), 4, format, "[4, 0] do not match", "t");
    /* The difference wraps to the right number of bytes. */
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18446744073709551612,0]"), 4, format, "do not match",
           "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18446744073709551612,18446744073709551615]"), 4,
           format, "do not match", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]"), 3, format, "ends at byte 4 of the data part",
           "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18446744073709551611,18446744073709551615]"), 4,
           format, "the file is cut off", "t");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]"), 5, format, "too long or damaged", "");
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]"), 8, format, "no holes", "t");
    refuse("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
           "\"u\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
           6, format, "overlaps t,", "u");
    refuse("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
           "\"u\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
           4, format, "overlaps t,", "u");
    refuse("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
           "\"u\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
           12, format, "begins at byte", "u");
    refuse("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
           "\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
           8, format, "two tensors have this name", "t");
    /* Different spellings, one name. */
    refuse("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
           "\"\\u0074\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
           8, format, "two tensors have this name", "t");
}

static void name_limit_is_exact(void **state)
{
    (void)state;
    for (size_t length = TENSOR_NAME_MAX; length <= TENSOR_NAME_MAX + 1; length++) {
        char header[512] = "{\"";
        memset(header + 2, 'n', length);
        strcpy(header + 2 + length, "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}");
        struct build image = {0};
        struct parsed p;
        berth_error err;
        build_safetensors(&image, header, 4);
        berth_status status = parse(&image, image.bytes, &p, &err);
        assert_int_equal(status, length == TENSOR_NAME_MAX ? BERTH_OK : BERTH_ERR_FORMAT);
        if (status != BERTH_OK) {
            assert_non_null(strstr(err.message, "too long (257 bytes"));
        }
        free(p.ptr);
        build_free(&image);
    }
}

static void length_field_is_checked(void **state)
{
    (void)state;
    const struct {
        uint64_t length;
        uint64_t file_bytes;
        berth_status status;
        const char *says;
    } cases[] = {
        {UINT64_MAX, 1 << 20, BERTH_ERR_LIMIT, "18446744073709551615 bytes, at most"},
        {SAFETENSORS_HEADER_MAX + 1, 1 << 30, BERTH_ERR_LIMIT, "100000001 bytes, at most"},
        {SAFETENSORS_HEADER_MAX, 1 << 30, BERTH_OK, ""},
        {1 << 20, 1 << 20, BERTH_ERR_FORMAT, "cut off or damaged"},
        {(1 << 20) - 8, 1 << 20, BERTH_OK, ""},
        {0, 1 << 20, BERTH_ERR_FORMAT, "a header of 0 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct build image = {0};
        uint64_t header_bytes = 0;
        berth_error err = {0};
        build_u64(&image, cases[i].length);
        build_text(&image, "{\"");
        berth_status status =
            safetensors_header_bytes(image.ptr, image.bytes, cases[i].file_bytes, &header_bytes, &err);
        assert_int_equal(status, cases[i].status);
        assert_non_null(strstr(err.message, cases[i].says));
        assert_int_equal(header_bytes, status == BERTH_OK ? cases[i].length + 8 : 0);
        build_free(&image);
    }
    berth_error err;
    uint64_t header_bytes;
    assert_int_equal(safetensors_header_bytes("1234567", 7, 7, &header_bytes, &err), BERTH_ERR_FORMAT);
    assert_int_equal(safetensors_header_bytes("\x02\0\0\0\0\0\0", 8, 8, &header_bytes, &err), BERTH_ERR_FORMAT);
}

static void every_cut_is_found(void **state)
{
    (void)state;
    struct build image = {0};
    build_safetensors(&image, ONE("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]"), 16);
    for (size_t cut = 0; cut < image.bytes; cut++) {
        struct parsed p;
        berth_error err;
        assert_int_equal(parse(&image, cut, &p, &err), BERTH_ERR_FORMAT);
        free(p.ptr);
    }
    build_free(&image);
}

static void index_walk(void **state)
{
    (void)state;
    struct safetensors_index index;
    struct json_token key;
    struct json_token file;
    struct str good = STR("{\"metadata\":{\"weight_map\":1},\"weight_map\":{\"a\":\"x\",\"b\":\"y\"},\"more\":[]}");
    assert_true(safetensors_index_begin(&index, good));
    assert_true(safetensors_index_next(&index, &key, &file));
    assert_true(json_token_is(&key, "a") && json_token_is(&file, "x"));
    assert_true(safetensors_index_next(&index, &key, &file));
    assert_true(json_token_is(&key, "b") && json_token_is(&file, "y"));
    assert_false(safetensors_index_next(&index, &key, &file));
    assert_int_equal(safetensors_index_fail(&index, NULL), BERTH_OK);

    const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"x\"}", "ends too early"},
        {"{\"weight_map\":{\"a\":\"x\"},}", "expected a member name"},
        {"{\"weight_map\":{\"a\":1}}", "not a file name"},
        {"{\"weight_map\":{\"a\":\"x\",\"b\":[]}}", "not a file name"},
        {"{\"weight_map\":[]}", "no weight_map object"},
        {"{\"weight\":{}}", "no weight_map object"},
        {"[]", "no weight_map object"},
        {"", "ends too early"},
        {"{\"a\":1 2}", "expected ','"},
        {"{\"weight_map\":{\"a\"}}", "expected ':'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        berth_error err;
        if (safetensors_index_begin(&index, str_from(cases[i].text))) {
            while (safetensors_index_next(&index, &key, &file)) {
            }
        }
        assert_int_equal(safetensors_index_fail(&index, &err), BERTH_ERR_FORMAT);
        if (strstr(err.message, cases[i].says) == NULL) {
            fail_msg("%s: %s", cases[i].text, err.message);
        }
    }
}

/* One for every tensor of what writers write; never fewer than there are. */
static void most_is_an_upper_bound(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        uint32_t most, count;
    } rows[] = {
        {"{}", 0, 0},
        {"{\"__metadata__\":{\"format\":\"pt\"}}", 0, 0},
        {"{\"__metadata__\":{\"x\":\"{\"},\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 2, 1},
        {"{\"{a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"__metadata__\":{}}", 3, 1},
        {"{ \"a\" : {\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct build image = {0};
        struct parsed p;
        build_safetensors(&image, rows[i].header, 0);
        assert_int_equal(safetensors_most((const char *)image.ptr, image.bytes), rows[i].most);
        assert_int_equal(parse(&image, image.bytes, &p, NULL), BERTH_OK);
        assert_int_equal(p.dir.count, rows[i].count);
        free(p.ptr);
        build_free(&image);
    }
}

/* Spelled as writers do or otherwise, the same is read; nearly right is not right. */
static void spellings_mean_the_same(void **state)
{
    (void)state;
    static const char first[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":";
    static const char *const same[] = {
        "{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]}",
        "{ \"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]}",
        "{\"dtype\": \"F32\", \"shape\": [2, 1], \"data_offsets\": [4, 12]}",
        "{\"shape\":[2,1],\"dtype\":\"F32\",\"data_offsets\":[4,12]}",
        "{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12],\"x\":[]}",
        "{\"dtype\":\"F32\",\"shape\":[2.0,1e0],\"data_offsets\":[4,1.2e1]}",
    };
    static const char *const wrong[] = {
        "{\"dtype\":\"F32\",\"shape\":[02,1],\"data_offsets\":[4,12]}",
        "{\"dtype\":\"F32\",\"shape\":[2,1,],\"data_offsets\":[4,12]}",
        "{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12,12]}",
        "{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,]}",
        "{\"dtype\":\"F32\",\"shape\":[,2,1],\"data_offsets\":[4,12]}",
        "{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,2,1],\"data_offsets\":[4,12]}",
        "{\"dtype\":\"F32\",\"shape\":[2,1000000000000000000000],\"data_offsets\":[4,12]}",
        "{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]",
        "{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]}]",
        "7",
    };
    char header[256];
    for (size_t i = 0; i < sizeof same / sizeof same[0] + sizeof wrong / sizeof wrong[0]; i++) {
        bool fine = i < sizeof same / sizeof same[0];
        struct build image = {0};
        struct parsed p;
        berth_error err;
        snprintf(header, sizeof header, "%s%s}", first, fine ? same[i] : wrong[i - sizeof same / sizeof same[0]]);
        build_safetensors(&image, header, 12);
        berth_status status = parse(&image, image.bytes, &p, &err);
        if (fine) {
            const struct tensor *t = tensor_find(&p.dir, STR("b"));
            assert_int_equal(status, BERTH_OK);
            assert_int_equal(t->dims_count, 2);
            assert_true(t->dims[0] == 2 && t->dims[1] == 1 && t->bytes == 8 && t->dtype == DTYPE_F32);
        } else {
            assert_true(status == BERTH_ERR_FORMAT || status == BERTH_ERR_UNSUPPORTED);
            assert_true(err.offset > 8);
        }
        free(p.ptr);
        build_free(&image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_names_shapes_and_places),
        cmocka_unit_test(refuses_bad_headers),
        cmocka_unit_test(refuses_bad_tensors),
        cmocka_unit_test(name_limit_is_exact),
        cmocka_unit_test(length_field_is_checked),
        cmocka_unit_test(every_cut_is_found),
        cmocka_unit_test(index_walk),
        cmocka_unit_test(most_is_an_upper_bound),
        cmocka_unit_test(spellings_mean_the_same),
    };
    return cmocka_run_group_tests_name("safetensors", tests, make_scratch, free_scratch);
}
