/* SPDX-License-Identifier: MIT
 * GGUF to GGUF: identity, requantising, parts, alignment. */
#include "convert_help.h"

static void make(const char *family, const char *path, const struct convert_config *config)
{
    berth_error error;
    help_ok(convert_run(help_golden(family), path, config, false, &error), &error);
}

/* Same type: the copy is the same file, byte for byte, metadata in its order. */
static void copy_same_type_is_identical(void **state)
{
    (void)state;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_Q8_0};
    for (uint32_t f = 0; f < HELP_FAMILIES; f++) {
        for (uint32_t t = 0; t < 4; t++) {
            berth_error error;
            struct convert_config config = {.type = types[t]};
            make(help_families[f], help_path("a.gguf"), &config);
            help_ok(convert_run(help_path("a.gguf"), help_path("b.gguf"), &config, false, &error), &error);
            help_same_files(help_path("a.gguf"), help_path("b.gguf"));
            help_clear();
        }
    }
}

/* safetensors -> Q8_0 and safetensors -> F32 -> Q8_0 are the same file: bfloat16 to F32 loses nothing. */
static void copy_requantises_as_from_the_source(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < HELP_FAMILIES; f++) {
        berth_error error;
        struct convert_config wide = {.type = DTYPE_F32};
        struct convert_config small = {.type = DTYPE_Q8_0};
        make(help_families[f], help_path("wide.gguf"), &wide);
        make(help_families[f], help_path("direct.gguf"), &small);
        help_ok(convert_run(help_path("wide.gguf"), help_path("via.gguf"), &small, false, &error), &error);
        struct opened direct;
        struct opened via;
        help_open(&direct, help_path("direct.gguf"));
        help_open(&via, help_path("via.gguf"));
        assert_int_equal(direct.checkpoint.tensors.count, via.checkpoint.tensors.count);
        for (uint32_t i = 0; i < direct.checkpoint.tensors.count; i++) {
            const struct tensor *a = &direct.checkpoint.tensors.items[i];
            const struct tensor *b = &via.checkpoint.tensors.items[i];
            assert_true(str_equal(a->name, b->name));
            assert_int_equal(a->dtype, b->dtype);
            assert_int_equal(a->bytes, b->bytes);
            unsigned char *x = help_tensor_bytes(&direct, a);
            unsigned char *y = help_tensor_bytes(&via, b);
            assert_memory_equal(x, y, (size_t)a->bytes);
            free(x);
            free(y);
        }
        assert_int_equal(direct.checkpoint.meta.count, via.checkpoint.meta.count);
        help_close(&direct);
        help_close(&via);
        help_clear();
    }
}

static void same_tensors(const char *a_path, const char *b_path)
{
    struct opened a;
    struct opened b;
    help_open(&a, a_path);
    help_open(&b, b_path);
    assert_int_equal(a.checkpoint.tensors.count, b.checkpoint.tensors.count);
    for (uint32_t i = 0; i < a.checkpoint.tensors.count; i++) {
        const struct tensor *x = &a.checkpoint.tensors.items[i];
        const struct tensor *y = &b.checkpoint.tensors.items[i];
        assert_true(str_equal(x->name, y->name));
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->dims, y->dims, sizeof x->dims);
        unsigned char *p = help_tensor_bytes(&a, x);
        unsigned char *q = help_tensor_bytes(&b, y);
        assert_memory_equal(p, q, (size_t)x->bytes);
        free(p);
        free(q);
    }
    help_close(&a);
    help_close(&b);
}

static void copy_parts_hold_the_same_model(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config whole = {.type = DTYPE_BF16};
    struct convert_config split = {.type = DTYPE_BF16, .split_bytes = 100 * 1024};
    make("qwen3-moe", help_path("whole.gguf"), &whole);
    make("qwen3-moe", help_path("split.gguf"), &split);
    unsigned parts = help_count_files() - 1;
    assert_true(parts >= 5 && parts < 12);
    assert_int_not_equal(access(help_path("split.gguf"), F_OK), 0);
    char first[256];
    snprintf(first, sizeof first, "%s/split-00001-of-%05u.gguf", help_dir, parts);
    for (unsigned part = 1; part <= parts; part++) {
        char path[256];
        struct stat info;
        snprintf(path, sizeof path, "%s/split-%05u-of-%05u.gguf", help_dir, part, parts);
        assert_int_equal(stat(path, &info), 0);
        assert_true(info.st_size < 110 * 1024 + 16 * 1024); /* data limit, plus a header */
    }
    same_tensors(help_path("whole.gguf"), first);
    struct opened opened;
    help_open(&opened, first);
    assert_int_equal(opened.checkpoint.files_count, parts);
    help_close(&opened);
    /* And back into one file: the very same bytes. */
    help_ok(convert_run(first, help_path("joined.gguf"), &whole, false, &error), &error);
    help_same_files(help_path("whole.gguf"), help_path("joined.gguf"));
    help_clear();
}

static void copy_large_split_is_one_plain_file(void **state)
{
    (void)state;
    struct convert_config split = {.type = DTYPE_BF16, .split_bytes = (uint64_t)1 << 30};
    make("llama", help_path("one.gguf"), &split);
    assert_int_equal(access(help_path("one.gguf"), F_OK), 0);
    assert_int_equal(help_count_files(), 1);
    help_clear();
}

static void copy_alignment_is_kept_and_stated(void **state)
{
    (void)state;
    static const uint32_t alignments[] = {32, 64, 4096, 65536};
    struct convert_config plain = {.type = DTYPE_Q8_0};
    make("olmoe", help_path("plain.gguf"), &plain);
    for (uint32_t i = 0; i < 4; i++) {
        struct convert_config config = {.type = DTYPE_Q8_0, .alignment = alignments[i]};
        make("olmoe", help_path("aligned.gguf"), &config);
        same_tensors(help_path("plain.gguf"), help_path("aligned.gguf"));
        struct opened opened;
        help_open(&opened, help_path("aligned.gguf"));
        uint64_t stated = 0;
        bool has = meta_u64(&opened.checkpoint.meta, STR("general.alignment"), &stated);
        assert_int_equal(has, alignments[i] != 32);
        assert_true(!has || stated == alignments[i]);
        for (uint32_t t = 0; t < opened.checkpoint.tensors.count; t++) {
            assert_int_equal(opened.checkpoint.tensors.items[t].offset % alignments[i], 0);
        }
        help_close(&opened);
        unlink(help_path("aligned.gguf"));
    }
    help_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_same_type_is_identical),       cmocka_unit_test(copy_requantises_as_from_the_source),
        cmocka_unit_test(copy_parts_hold_the_same_model),    cmocka_unit_test(copy_large_split_is_one_plain_file),
        cmocka_unit_test(copy_alignment_is_kept_and_stated),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
