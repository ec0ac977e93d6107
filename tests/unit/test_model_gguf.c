/* SPDX-License-Identifier: MIT
 * model/gguf.h and model/meta.h on handmade images: what is read, how it is read in pieces, and one case for every
 * refusal. Images are copied to exactly their size, so that the sanitizer sees reads past the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/gguf.h"
#include "support/build.h"

enum { SCRATCH_BYTES = 1 << 20, F32 = 0, Q8_0 = 8, Q4_K = 12 };

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
    unsigned char *ptr; /* exact copy of what was handed over */
    struct gguf_scan scan;
    struct meta meta;
    struct tensor_dir dir;
    uint64_t data_offset;
    unsigned steps;
};

/* Everything that checkpoint_open() does with one file, the bytes coming in pieces as small as they may be. */
static berth_status parse(const struct build *image, uint64_t file_bytes, struct parsed *out, berth_error *err)
{
    struct arena arena;
    bool complete = false;
    uint64_t have = 0;
    *out = (struct parsed){0};
    arena_carve(&arena, scratch_block, SCRATCH_BYTES);
    gguf_scan_begin(&out->scan, file_bytes);
    while (!complete) {
        uint64_t need = out->scan.need_bytes;
        if (out->steps > 0) {
            assert_true(need > have); /* progress */
        }
        have = need < image->bytes ? need : image->bytes;
        have = have < file_bytes ? have : file_bytes;
        free(out->ptr);
        out->ptr = malloc(have == 0 ? 1 : have);
        memcpy(out->ptr, image->ptr, have);
        TRY(gguf_scan_more(&out->scan, out->ptr, have, &complete, err));
        out->steps++;
    }
    assert_true(out->scan.header_bytes == have || out->scan.tensors_count + out->scan.pairs_count == 0);
    struct meta_pair *pairs = ARENA_NEW(&arena, struct meta_pair, out->scan.pairs_count);
    TRY(gguf_parse_meta(&out->scan, out->ptr, pairs, &arena, &out->meta, err));
    struct tensor *tensors = ARENA_NEW(&arena, struct tensor, out->scan.tensors_count);
    TRY(gguf_parse_tensors(&out->scan, out->ptr, &out->meta, 0, tensors, &out->data_offset, err));
    struct tensor_file file = {"x.gguf", out->data_offset, file_bytes, false};
    uint64_t used = arena.used_bytes;
    TRY(tensor_dir_build(&out->dir, tensors, out->scan.tensors_count, &file, 1, &arena, err));
    assert_int_equal(arena.used_bytes, used); /* work space was given back */
    return arena_check(&arena, "test", err);
}

static void put_float(struct build *b, float v)
{
    build_put(b, &v, sizeof v);
}

static void put_double(struct build *b, double v)
{
    build_put(b, &v, sizeof v);
}

/* Every type of value, three tensors, version as given. */
static void full_image(struct build *b, uint32_t version)
{
    build_head(b, version, 3, 18);
    build_key_str(b, "general.architecture", "test");
    build_key_u32(b, "general.alignment", 64);
    build_key(b, "u8", META_U8);
    build_u8(b, 200);
    build_key(b, "i8", META_I8);
    build_u8(b, 0xff);
    build_key(b, "u16", META_U16);
    build_put(b, "\x34\x12", 2);
    build_key(b, "i16", META_I16);
    build_put(b, "\xfe\xff", 2);
    build_key(b, "i32", META_I32);
    build_u32(b, (uint32_t)-3);
    build_key(b, "i32+", META_I32);
    build_u32(b, 7);
    build_key(b, "f32", META_F32);
    put_float(b, 12.0f);
    build_key(b, "f32/", META_F32);
    put_float(b, 0.5f);
    build_key(b, "f64", META_F64);
    put_double(b, -1e300);
    build_key(b, "bool", META_BOOL);
    build_u8(b, 1);
    build_key(b, "u64", META_U64);
    build_u64(b, UINT64_MAX);
    build_key(b, "i64", META_I64);
    build_u64(b, (uint64_t)INT64_MIN);
    build_array(b, "strings", META_STRING, 3);
    build_str(b, "a");
    build_str(b, "");
    build_str(b, "ccc");
    build_array(b, "numbers", META_I32, 3);
    build_u32(b, 1);
    build_u32(b, (uint32_t)-1);
    build_u32(b, 3);
    build_array(b, "none", META_STRING, 0);
    build_array(b, "floats", META_F32, 2);
    put_float(b, 1.5f);
    put_float(b, 2.0f);
    build_tensor(b, "z.weight", 2, (const uint64_t[]){64, 3}, Q8_0, 0); /* 2 blocks x 34 x 3 = 204 bytes */
    build_tensor(b, "a.bias", 1, (const uint64_t[]){5}, F32, 256);
    build_tensor(b, "m.experts", 3, (const uint64_t[]){256, 2, 4}, Q4_K, 320); /* 144 x 8 */
    build_pad(b, 64);
    build_zero(b, 320 + 144 * 8);
}

static void reads_every_type(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct build image = {0};
        struct parsed p;
        uint64_t n = 0;
        double real = 0;
        bool flag = false;
        struct str text;
        full_image(&image, version);
        assert_int_equal(parse(&image, image.bytes, &p, NULL), BERTH_OK);
        assert_true(p.steps > 20);
        const struct meta *meta = &p.meta;
        assert_int_equal(p.scan.version, version);
        assert_int_equal(meta->count, 18);
        assert_true(meta_str(meta, STR("general.architecture"), &text) && str_is(text, "test"));
        assert_true(meta_u64(meta, STR("u8"), &n) && n == 200);
        assert_false(meta_u64(meta, STR("i8"), &n));
        assert_true(meta_f64(meta, STR("i8"), &real) && real == -1);
        assert_true(meta_u64(meta, STR("u16"), &n) && n == 0x1234);
        assert_true(meta_f64(meta, STR("i16"), &real) && real == -2);
        assert_false(meta_u64(meta, STR("i32"), &n));
        assert_true(meta_f64(meta, STR("i32"), &real) && real == -3);
        assert_true(meta_u64(meta, STR("i32+"), &n) && n == 7);
        assert_true(meta_u64(meta, STR("f32"), &n) && n == 12);
        assert_false(meta_u64(meta, STR("f32/"), &n));
        assert_true(meta_f64(meta, STR("f32/"), &real) && real == 0.5);
        assert_true(meta_f64(meta, STR("f64"), &real) && real == -1e300);
        assert_false(meta_u64(meta, STR("f64"), &n));
        assert_true(meta_bool(meta, STR("bool"), &flag) && flag);
        assert_true(meta_u64(meta, STR("bool"), &n) && n == 1);
        assert_false(meta_bool(meta, STR("u8"), &flag));
        assert_true(meta_u64(meta, STR("u64"), &n) && n == UINT64_MAX);
        assert_false(meta_u64(meta, STR("i64"), &n));
        assert_true(meta_f64(meta, STR("i64"), &real) && real == -0x1p63);
        assert_false(meta_str(meta, STR("u8"), &text));
        assert_false(meta_u64(meta, STR("absent"), &n));
        assert_false(meta_u64(meta, STR("strings"), &n));
        assert_null(meta_find(meta, STR("u")));
        assert_null(meta_find(meta, STR("u88")));
        assert_null(meta_find(meta, STR("")));

        const struct meta_pair *numbers = meta_find(meta, STR("numbers"));
        assert_int_equal(numbers->count, 3);
        assert_true(meta_item_u64(numbers, 2, &n) && n == 3);
        assert_false(meta_item_u64(numbers, 1, &n));
        assert_true(meta_item_f64(numbers, 1, &real) && real == -1);
        assert_false(meta_item_u64(numbers, 3, &n));
        assert_false(meta_item_u64(meta_find(meta, STR("u8")), 0, &n));
        assert_false(meta_item_u64(meta_find(meta, STR("strings")), 0, &n));
        assert_true(meta_item_f64(meta_find(meta, STR("floats")), 0, &real) && real == 1.5);

        struct meta_strings walk;
        assert_false(meta_strings_begin(numbers, &walk));
        assert_true(meta_strings_begin(meta_find(meta, STR("strings")), &walk));
        assert_true(meta_strings_next(&walk, &text) && str_is(text, "a"));
        assert_true(meta_strings_next(&walk, &text) && str_is(text, ""));
        assert_true(meta_strings_next(&walk, &text) && str_is(text, "ccc"));
        assert_false(meta_strings_next(&walk, &text));
        unsigned char cut[8 + 2] = {3}; /* says three bytes, has two */
        walk = (struct meta_strings){cut, cut + sizeof cut, 1};
        assert_false(meta_strings_next(&walk, &text));
        cut[0] = 2;
        assert_true(meta_strings_next(&walk, &text) && text.bytes == 2);
        assert_true(meta_strings_begin(meta_find(meta, STR("none")), &walk));
        assert_false(meta_strings_next(&walk, &text));

        assert_int_equal(p.dir.count, 3);
        assert_int_equal(p.data_offset % 64, 0);
        assert_int_equal(p.data_offset, image.bytes - 320 - 144 * 8);
        const struct tensor *t = tensor_find(&p.dir, STR("m.experts"));
        assert_ptr_equal(t, &p.dir.items[1]);
        assert_int_equal(t->dims_count, 3);
        assert_true(t->dims[0] == 4 && t->dims[1] == 2 && t->dims[2] == 256);
        assert_int_equal(t->dtype, DTYPE_Q4_K);
        assert_int_equal(t->bytes, 144 * 8);
        assert_int_equal(t->offset, p.data_offset + 320);
        assert_int_equal(tensor_elems(t), 2048);
        t = tensor_find(&p.dir, STR("z.weight"));
        assert_int_equal(t->bytes, 204);
        assert_true(t->dims[0] == 3 && t->dims[1] == 64);
        assert_null(tensor_find(&p.dir, STR("z.weigh")));
        assert_null(tensor_find(&p.dir, STR("z.weights")));
        free(p.ptr);
        build_free(&image);
    }
}

static void empty_and_scalar_files(void **state)
{
    (void)state;
    struct build image = {0};
    struct parsed p;
    build_head(&image, 3, 0, 0);
    assert_int_equal(parse(&image, image.bytes, &p, NULL), BERTH_OK);
    assert_int_equal(p.dir.count + p.meta.count, 0);
    assert_int_equal(p.data_offset, 32);
    free(p.ptr);
    build_free(&image);
    build_head(&image, 3, 1, 0);
    build_tensor(&image, "scalar", 0, NULL, F32, 0);
    build_pad(&image, 32);
    build_zero(&image, 4);
    assert_int_equal(parse(&image, image.bytes, &p, NULL), BERTH_OK);
    assert_int_equal(p.dir.items[0].bytes, 4);
    assert_int_equal(tensor_elems(&p.dir.items[0]), 1);
    free(p.ptr);
    build_free(&image);
}

static void every_cut_is_found(void **state)
{
    (void)state;
    struct build image = {0};
    struct parsed p;
    berth_error err;
    full_image(&image, 3);
    size_t last_data = image.bytes - 1;
    for (size_t cut = 0; cut < image.bytes; cut++) {
        cut = cut == 1400 ? last_data : cut; /* the header has fewer bytes; no need to try all of the data */
        assert_int_equal(parse(&image, cut, &p, &err), BERTH_ERR_FORMAT);
        if (cut >= 4) {
            assert_non_null(strstr(err.message, "cut off"));
        }
        assert_true(err.offset <= image.bytes);
        if (cut == last_data) {
            assert_string_equal(err.object, "m.experts");
            char size[32];
            snprintf(size, sizeof size, "(%zu bytes)", cut);
            assert_non_null(strstr(err.message, size));
        }
        free(p.ptr);
    }
    assert_true(image.bytes > 1400 + 100);
    build_free(&image);
}

/* ---- refusals --------------------------------------------------------------------------------------- */

static struct build bad;

static void expect_of(uint64_t file_bytes, berth_status wanted, const char *says, const char *object, uint64_t offset)
{
    struct parsed p;
    berth_error err = {0};
    berth_status status = parse(&bad, file_bytes, &p, &err);
    if (status != wanted || strstr(err.message, says) == NULL || strcmp(err.object, object) != 0 ||
        (offset != UINT64_MAX && err.offset != offset)) {
        fail_msg("status %d, \"%s\", object \"%s\", offset %llu; wanted %d, \"%s\", \"%s\", %llu", status, err.message,
                 err.object, (unsigned long long)err.offset, wanted, says, object, (unsigned long long)offset);
    }
    assert_int_equal(err.status, status);
    free(p.ptr);
    build_free(&bad);
}

static void expect(berth_status wanted, const char *says, const char *object, uint64_t offset)
{
    build_pad(&bad, 32);
    build_zero(&bad, 4096);
    expect_of(bad.bytes, wanted, says, object, offset);
}

static void refuses_bad_heads(void **state)
{
    (void)state;
    build_text(&bad, "GGML....................");
    expect(BERTH_ERR_FORMAT, "not a GGUF file", "", 0);
    build_text(&bad, "{\"a\"");
    expect_of(bad.bytes, BERTH_ERR_FORMAT, "not a GGUF file", "", 0);
    build_head(&bad, 1, 0, 0);
    expect(BERTH_ERR_UNSUPPORTED, "version 1, wanted 2 or 3", "", 4);
    build_head(&bad, 4, 0, 0);
    expect(BERTH_ERR_UNSUPPORTED, "version 4", "", 4);
    build_head(&bad, 0, 0, 0);
    expect(BERTH_ERR_UNSUPPORTED, "version 0", "", 4);
    build_head(&bad, 0x03000000, 0, 0);
    expect(BERTH_ERR_UNSUPPORTED, "big-endian GGUF file (version 3)", "", 4);
    build_head(&bad, 3, TENSORS_MAX + 1ull, 0);
    expect(BERTH_ERR_LIMIT, "1048577 tensors", "", 8);
    build_head(&bad, 3, UINT64_MAX, 0);
    expect(BERTH_ERR_LIMIT, "18446744073709551615 tensors", "", 8);
    build_head(&bad, 3, 0, GGUF_PAIRS_MAX + 1ull);
    expect(BERTH_ERR_LIMIT, "65537 metadata pairs", "", 16);
    build_head(&bad, 3, TENSORS_MAX, 0); /* the limit itself is fine, the entries are not there */
    expect(BERTH_ERR_FORMAT, "is empty", "", 24);
}

static void refuses_bad_pairs(void **state)
{
    (void)state;
    build_head(&bad, 3, 0, 1);
    build_key(&bad, "k", 13);
    build_u64(&bad, 0);
    expect(BERTH_ERR_FORMAT, "type 13, wanted 0 to 12", "k", 33);
    build_head(&bad, 3, 0, 1);
    build_key_u32(&bad, "", 0);
    expect(BERTH_ERR_FORMAT, "key is empty", "", 24);
    build_head(&bad, 3, 0, 1);
    build_key_u32(&bad, "bad\xff", 0);
    expect(BERTH_ERR_FORMAT, "not UTF-8", "bad\xff", 24);
    build_head(&bad, 3, 0, 1);
    build_u64(&bad, 3);
    build_put(&bad, "a\0b", 3);
    build_u32(&bad, META_U32);
    expect(BERTH_ERR_FORMAT, "NUL", "a?b", 24);
    build_head(&bad, 3, 0, 1);
    build_u64(&bad, UINT64_MAX - 4); /* length */
    expect(BERTH_ERR_FORMAT, "cut off or damaged: metadata pair 0", "", 32);
    build_head(&bad, 3, 0, 1);
    build_key(&bad, "s", META_STRING);
    build_u64(&bad, UINT64_MAX);
    expect(BERTH_ERR_FORMAT, "metadata pair 0 runs past the end", "s", UINT64_MAX);
    build_head(&bad, 3, 0, 3);
    build_key_u32(&bad, "twice", 1);
    build_key_u32(&bad, "other", 1);
    build_key_u32(&bad, "twice", 2);
    expect(BERTH_ERR_FORMAT, "appears twice", "twice", UINT64_MAX);
    build_head(&bad, 3, 0, 1);
    build_u64(&bad, GGUF_KEY_MAX + 1);
    for (int i = 0; i <= GGUF_KEY_MAX; i++) {
        build_text(&bad, "k");
    }
    build_u32(&bad, META_U8);
    struct parsed p;
    berth_error err;
    assert_int_equal(parse(&bad, bad.bytes + 1, &p, &err), BERTH_ERR_FORMAT);
    assert_non_null(strstr(err.message, "too long (65536 bytes"));
    free(p.ptr);
    build_free(&bad);
}

static void refuses_bad_arrays(void **state)
{
    (void)state;
    build_head(&bad, 3, 0, 1);
    build_array(&bad, "deep", META_ARRAY, 1);
    expect(BERTH_ERR_UNSUPPORTED, "array of arrays", "deep", 40);
    build_head(&bad, 3, 0, 1);
    build_array(&bad, "odd", 99, 1);
    expect(BERTH_ERR_FORMAT, "items of type 99", "odd", UINT64_MAX);
    build_head(&bad, 3, 0, 1);
    build_array(&bad, "huge", META_U64, UINT64_MAX / 8 + 2); /* the product wraps */
    expect(BERTH_ERR_FORMAT, "does not fit in the file", "huge", UINT64_MAX);
    build_head(&bad, 3, 0, 1);
    build_array(&bad, "huge", META_U8, 100000);
    expect(BERTH_ERR_FORMAT, "100000 items does not fit", "huge", UINT64_MAX);
    build_head(&bad, 3, 0, 1);
    build_array(&bad, "strings", META_STRING, 1000); /* 8 bytes each at least */
    expect(BERTH_ERR_FORMAT, "1000 items does not fit", "strings", UINT64_MAX);
    build_head(&bad, 3, 0, 1);
    build_array(&bad, "strings", META_STRING, 3);
    build_str(&bad, "fine");
    build_u64(&bad, 1u << 30);
    expect(BERTH_ERR_FORMAT, "a string in metadata pair 0 runs past the end", "", UINT64_MAX);
}

static void one_tensor(const char *name, uint32_t dims_count, const uint64_t *dims, uint32_t type, uint64_t offset)
{
    build_head(&bad, 3, 1, 0);
    build_tensor(&bad, name, dims_count, dims, type, offset);
}

static void refuses_bad_tensors(void **state)
{
    (void)state;
    const uint64_t small[] = {32, 2, 1, 1, 1};
    char name[TENSOR_NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[TENSOR_NAME_MAX + 1] = '\0';
    one_tensor(name, 1, small, F32, 0);
    struct parsed p;
    berth_error err;
    build_zero(&bad, 4096);
    assert_int_equal(parse(&bad, bad.bytes, &p, &err), BERTH_ERR_FORMAT);
    assert_non_null(strstr(err.message, "too long (257 bytes, 1 to 256"));
    free(p.ptr);
    build_free(&bad);
    name[TENSOR_NAME_MAX] = '\0'; /* the limit itself */
    one_tensor(name, 1, small, F32, 0);
    build_zero(&bad, 4096);
    assert_int_equal(parse(&bad, bad.bytes, &p, &err), BERTH_OK);
    free(p.ptr);
    build_free(&bad);

    one_tensor("", 1, small, F32, 0);
    expect(BERTH_ERR_FORMAT, "tensor is empty", "", 24);
    one_tensor("\xc3(", 1, small, F32, 0);
    expect(BERTH_ERR_FORMAT, "not UTF-8", "\xc3(", 24);
    one_tensor("t", 5, small, F32, 0);
    expect(BERTH_ERR_FORMAT, "5 dims", "t", 33);
    build_head(&bad, 3, 1, 0);
    build_str(&bad, "t");
    build_u32(&bad, UINT32_MAX);
    expect(BERTH_ERR_FORMAT, "4294967295 dims", "t", 33);
    one_tensor("t", 2, (const uint64_t[]){32, 0}, F32, 0);
    expect(BERTH_ERR_FORMAT, "dim 1 of the tensor is 0", "t", 45);
    one_tensor("t", 1, small, 4, 0);
    expect(BERTH_ERR_UNSUPPORTED, "element type 4,", "t", UINT64_MAX);
    one_tensor("t", 1, small, UINT32_MAX, 0);
    expect(BERTH_ERR_UNSUPPORTED, "element type 4294967295", "t", UINT64_MAX);
    one_tensor("t", 2, (const uint64_t[]){33, 1}, Q8_0, 0);
    expect(BERTH_ERR_FORMAT, "33 elements are not whole blocks of Q8_0", "t", UINT64_MAX);
    one_tensor("t", 4, (const uint64_t[]){1u << 20, 1u << 20, 1u << 20, 1u << 20}, F32, 0);
    expect(BERTH_ERR_FORMAT, "more than 64 bits", "t", UINT64_MAX);
    one_tensor("t", 2, (const uint64_t[]){1ull << 62, 1}, F32, 0); /* elements fit, bytes do not */
    expect(BERTH_ERR_FORMAT, "more than 64 bits", "t", UINT64_MAX);
    one_tensor("t", 1, small, F32, 8);
    expect(BERTH_ERR_FORMAT, "8 is not a multiple of 32", "t", UINT64_MAX);
    one_tensor("t", 1, small, F32, 1 << 20);
    expect(BERTH_ERR_FORMAT, "past the end of the file", "t", UINT64_MAX);
    one_tensor("t", 1, small, F32, UINT64_MAX - 31);
    expect(BERTH_ERR_FORMAT, "past the end of the file", "t", UINT64_MAX);
    one_tensor("t", 1, (const uint64_t[]){1ull << 61}, F32, UINT64_MAX / 2 + 1);
    expect(BERTH_ERR_FORMAT, "past the end of the file", "t", UINT64_MAX);

    build_head(&bad, 3, 2, 0);
    build_tensor(&bad, "same", 1, small, F32, 0);
    build_tensor(&bad, "same", 1, small, F32, 128);
    expect(BERTH_ERR_FORMAT, "two tensors have this name", "same", UINT64_MAX);
    build_head(&bad, 3, 3, 0);
    build_tensor(&bad, "b", 1, small, F32, 96); /* 128 bytes from 96 */
    build_tensor(&bad, "a", 1, small, F32, 0);
    build_tensor(&bad, "c", 1, small, F32, 224);
    expect(BERTH_ERR_FORMAT, "overlaps a,", "b", UINT64_MAX);
    build_head(&bad, 3, 2, 0);
    build_tensor(&bad, "x", 1, small, F32, 64);
    build_tensor(&bad, "y", 1, small, F32, 64);
    expect(BERTH_ERR_FORMAT, "overlaps", "y", UINT64_MAX);
}

static void alignment_rules(void **state)
{
    (void)state;
    const uint64_t small[] = {8};
    const struct {
        uint32_t value;
        bool fine;
    } cases[] = {{1, true},
                 {2, true},
                 {4, true},
                 {8, true},
                 {24, true},
                 {4096, true},
                 {0, false},
                 {12, false},
                 {7, false},
                 {1u << 30, false},
                 {(1u << 30) + 8, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct parsed p;
        berth_error err;
        build_head(&bad, 3, 1, 1);
        build_key_u32(&bad, "general.alignment", cases[i].value);
        build_tensor(&bad, "t", 1, small, F32, 0);
        size_t header = bad.bytes;
        build_zero(&bad, 9000);
        berth_status status = parse(&bad, bad.bytes, &p, &err);
        if (cases[i].fine) {
            if (status != BERTH_OK) {
                fail_msg("alignment %u: %s", cases[i].value, err.message);
            }
            uint64_t a = cases[i].value;
            assert_int_equal(p.data_offset, (header + a - 1) / a * a);
        } else {
            assert_int_equal(status, BERTH_ERR_FORMAT);
            assert_string_equal(err.object, cases[i].value == 1u << 30 ? "t" : "general.alignment");
        }
        free(p.ptr);
        build_free(&bad);
    }
    build_head(&bad, 3, 0, 1);
    build_key_str(&bad, "general.alignment", "32");
    expect(BERTH_ERR_FORMAT, "not a number", "general.alignment", UINT64_MAX);
}

/* Any single byte of a header changed: never a crash, and whatever is accepted lies inside the file. */
static void damaged_bytes_are_contained(void **state)
{
    (void)state;
    struct build image = {0};
    full_image(&image, 3);
    for (size_t at = 0; at < image.bytes - (320 + 144 * 8); at++) {
        static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
        unsigned char old = image.ptr[at];
        for (size_t v = 0; v < sizeof values; v++) {
            struct parsed p;
            image.ptr[at] = values[v];
            if (parse(&image, image.bytes, &p, NULL) == BERTH_OK) {
                for (uint32_t i = 0; i < p.dir.count; i++) {
                    assert_true(p.dir.items[i].offset >= p.data_offset);
                    assert_true(p.dir.items[i].offset + p.dir.items[i].bytes <= image.bytes);
                }
            }
            free(p.ptr);
        }
        image.ptr[at] = old;
    }
    build_free(&image);
}

static void scratch_that_is_too_small_is_reported(void **state)
{
    (void)state;
    struct build image = {0};
    struct gguf_scan scan;
    struct arena arena;
    struct meta meta;
    struct meta_pair pairs[18];
    bool complete;
    berth_error err;
    full_image(&image, 3);
    gguf_scan_begin(&scan, image.bytes);
    assert_int_equal(gguf_scan_more(&scan, image.ptr, image.bytes, &complete, NULL), BERTH_OK);
    assert_true(complete);
    arena_carve(&arena, scratch_block, 512);
    assert_int_equal(gguf_parse_meta(&scan, image.ptr, pairs, &arena, &meta, &err), BERTH_ERR_LIMIT);
    struct tensor tensors[3];
    arena_carve(&arena, scratch_block, SCRATCH_BYTES);
    assert_int_equal(gguf_parse_meta(&scan, image.ptr, pairs, &arena, &meta, &err), BERTH_OK);
    uint64_t data_offset;
    assert_int_equal(gguf_parse_tensors(&scan, image.ptr, &meta, 0, tensors, &data_offset, &err), BERTH_OK);
    struct tensor_dir dir;
    struct tensor_file file = {"x", data_offset, image.bytes, false};
    arena_carve(&arena, scratch_block, 32);
    assert_int_equal(tensor_dir_build(&dir, tensors, 3, &file, 1, &arena, &err), BERTH_ERR_LIMIT);
    build_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_type),
        cmocka_unit_test(empty_and_scalar_files),
        cmocka_unit_test(every_cut_is_found),
        cmocka_unit_test(refuses_bad_heads),
        cmocka_unit_test(refuses_bad_pairs),
        cmocka_unit_test(refuses_bad_arrays),
        cmocka_unit_test(refuses_bad_tensors),
        cmocka_unit_test(alignment_rules),
        cmocka_unit_test(damaged_bytes_are_contained),
        cmocka_unit_test(scratch_that_is_too_small_is_reported),
    };
    return cmocka_run_group_tests_name("gguf", tests, make_scratch, free_scratch);
}
