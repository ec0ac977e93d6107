/* SPDX-License-Identifier: MIT
 * The GGUF writer byte by byte: a file composed here by hand from the specification must come out of it. */
#include "convert_help.h"

#include "convert/gguf_write.h"

struct bytes {
    unsigned char data[4096];
    size_t count;
};

static void put(struct bytes *b, const void *data, size_t count)
{
    memcpy(b->data + b->count, data, count);
    b->count += count;
}

static void put_u32(struct bytes *b, uint32_t v)
{
    put(b, &v, 4);
}

static void put_u64(struct bytes *b, uint64_t v)
{
    put(b, &v, 8);
}

static void put_text(struct bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

static void put_pad(struct bytes *b, size_t alignment)
{
    while (b->count % alignment != 0) {
        b->data[b->count++] = 0;
    }
}

static unsigned char head_memory[8192], meta_memory[4096];
static struct os_writer writers[4];
static unsigned char buffers[4][GGUF_WRITER_BUFFER_BYTES];

static struct gguf_meta sample_meta(void)
{
    struct gguf_meta meta = {.bytes = {.ptr = meta_memory, .cap_bytes = sizeof meta_memory}};
    gguf_meta_str(&meta, "general.architecture", STR("x"));
    gguf_meta_u32(&meta, "x.u32", 7);
    gguf_meta_f32(&meta, "x.f32", 0.5f);
    gguf_meta_bool(&meta, "x.yes", true);
    gguf_meta_array(&meta, "x.list", META_STRING, 2);
    gguf_append_str(&meta.bytes, STR("one"));
    gguf_append_str(&meta.bytes, STR(""));
    return meta;
}

/* [2][3] F32, an empty tensor, [32] Q8_0 */
static void sample_tensors(struct gguf_tensor tensors[3])
{
    memset(tensors, 0, 3 * sizeof *tensors);
    tensors[0] =
        (struct gguf_tensor){.name = STR("first"), .dtype = DTYPE_F32, .dims_count = 2, .dims = {2, 3}, .bytes = 24};
    tensors[1] =
        (struct gguf_tensor){.name = STR("empty"), .dtype = DTYPE_F16, .dims_count = 1, .dims = {0}, .bytes = 0};
    tensors[2] =
        (struct gguf_tensor){.name = STR("last"), .dtype = DTYPE_Q8_0, .dims_count = 1, .dims = {32}, .bytes = 34};
}

static struct gguf_writer_config config_for(const char *path, const struct gguf_tensor *tensors, uint32_t parts,
                                            uint32_t alignment, const struct gguf_meta *meta, struct gguf_bytes *head)
{
    return (struct gguf_writer_config){.path = path,
                                       .tensors = tensors,
                                       .tensors_count = 3,
                                       .parts = parts,
                                       .alignment = alignment,
                                       .meta = meta,
                                       .head = head,
                                       .writers = writers,
                                       .buffers = buffers[0]};
}

static void expect_file(const char *path, const struct bytes *want)
{
    size_t bytes;
    unsigned char *got = help_read_file(path, &bytes);
    assert_int_equal(bytes, want->count);
    assert_memory_equal(got, want->data, bytes);
    free(got);
}

static void put_sample_meta(struct bytes *b)
{
    put_text(b, "general.architecture");
    put_u32(b, 8);
    put_text(b, "x");
    put_text(b, "x.u32");
    put_u32(b, 4);
    put_u32(b, 7);
    put_text(b, "x.f32");
    put_u32(b, 6);
    put(b, &(float){0.5f}, 4);
    put_text(b, "x.yes");
    put_u32(b, 7);
    put(b, "\x01", 1);
    put_text(b, "x.list");
    put_u32(b, 9);
    put_u32(b, 8);
    put_u64(b, 2);
    put_text(b, "one");
    put_text(b, "");
}

static void writer_one_file_matches_the_specification(void **state)
{
    (void)state;
    berth_error error;
    struct gguf_tensor tensors[3];
    struct gguf_meta meta = sample_meta();
    struct gguf_bytes head = {.ptr = head_memory, .cap_bytes = sizeof head_memory};
    struct gguf_writer writer;
    uint32_t parts = 0;
    unsigned char data[58];
    for (unsigned i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)(i + 1);
    }
    sample_tensors(tensors);
    help_ok(gguf_place(tensors, 3, 32, 0, &parts, &error), &error);
    assert_int_equal(parts, 1);
    struct gguf_writer_config config = config_for(help_path("one.gguf"), tensors, parts, 32, &meta, &head);
    help_ok(gguf_writer_open(&writer, &config, &error), &error);
    /* Across tensors in one put, and byte by byte. */
    help_ok(gguf_writer_put(&writer, data, 30, &error), &error);
    for (unsigned i = 30; i < sizeof data; i++) {
        help_ok(gguf_writer_put(&writer, data + i, 1, &error), &error);
    }
    assert_int_equal(gguf_writer_put(&writer, data, 1, &error), BERTH_ERR_INTERNAL);
    assert_int_not_equal(access(help_path("one.gguf"), F_OK), 0); /* not before it is complete */
    help_ok(gguf_writer_finish(&writer, &error), &error);
    gguf_writer_abandon(&writer);

    struct bytes want = {.count = 0};
    put(&want, "GGUF", 4);
    put_u32(&want, 3);
    put_u64(&want, 3);
    put_u64(&want, 5);
    put_sample_meta(&want);
    put_text(&want, "first");
    put_u32(&want, 2);
    put_u64(&want, 3); /* innermost first */
    put_u64(&want, 2);
    put_u32(&want, 0);
    put_u64(&want, 0);
    put_text(&want, "empty");
    put_u32(&want, 1);
    put_u64(&want, 0);
    put_u32(&want, 1);
    put_u64(&want, 32);
    put_text(&want, "last");
    put_u32(&want, 1);
    put_u64(&want, 32);
    put_u32(&want, 8);
    put_u64(&want, 32);
    put_pad(&want, 32);
    put(&want, data, 24);
    put_pad(&want, 32);
    put(&want, data + 24, 34);
    put_pad(&want, 32);
    expect_file(help_path("one.gguf"), &want);
    help_clear();
}

static void writer_parts_match_the_specification(void **state)
{
    (void)state;
    berth_error error;
    struct gguf_tensor tensors[3];
    struct gguf_meta meta = sample_meta();
    struct gguf_bytes head = {.ptr = head_memory, .cap_bytes = sizeof head_memory};
    struct gguf_writer writer;
    uint32_t parts = 0;
    unsigned char data[58] = {9, 8, 7};
    sample_tensors(tensors);
    help_ok(gguf_place(tensors, 3, 64, 64, &parts, &error), &error);
    assert_int_equal(parts, 2);
    struct gguf_writer_config config = config_for(help_path("two.gguf"), tensors, parts, 64, &meta, &head);
    help_ok(gguf_writer_open(&writer, &config, &error), &error);
    assert_int_equal(gguf_writer_finish(&writer, &error), BERTH_ERR_INTERNAL); /* data is missing */
    help_ok(gguf_writer_put(&writer, data, sizeof data, &error), &error);
    help_ok(gguf_writer_finish(&writer, &error), &error);

    for (uint32_t part = 0; part < 2; part++) {
        struct bytes want = {.count = 0};
        char path[256];
        put(&want, "GGUF", 4);
        put_u32(&want, 3);
        put_u64(&want, part == 0 ? 2 : 1);
        put_u64(&want, part == 0 ? 9 : 4);
        if (part == 0) {
            put_sample_meta(&want);
        }
        put_text(&want, "general.alignment");
        put_u32(&want, 4);
        put_u32(&want, 64);
        put_text(&want, "split.no");
        put_u32(&want, 2);
        put(&want, &(uint16_t){(uint16_t)part}, 2);
        put_text(&want, "split.count");
        put_u32(&want, 2);
        put(&want, &(uint16_t){2}, 2);
        put_text(&want, "split.tensors.count");
        put_u32(&want, 5);
        put_u32(&want, 3);
        if (part == 0) {
            put_text(&want, "first");
            put_u32(&want, 2);
            put_u64(&want, 3);
            put_u64(&want, 2);
            put_u32(&want, 0);
            put_u64(&want, 0);
            put_text(&want, "empty");
            put_u32(&want, 1);
            put_u64(&want, 0);
            put_u32(&want, 1);
            put_u64(&want, 64);
        } else {
            put_text(&want, "last");
            put_u32(&want, 1);
            put_u64(&want, 32);
            put_u32(&want, 8);
            put_u64(&want, 0);
        }
        put_pad(&want, 64);
        put(&want, part == 0 ? data : data + 24, part == 0 ? 24 : 34);
        put_pad(&want, 64);
        snprintf(path, sizeof path, "%s/two-%05u-of-00002.gguf", help_dir, part + 1);
        expect_file(path, &want);
    }
    assert_int_equal(help_count_files(), 2);
    help_clear();
}

static void writer_failures_leave_nothing(void **state)
{
    (void)state;
    berth_error error;
    struct gguf_tensor tensors[3];
    struct gguf_meta meta = sample_meta();
    struct gguf_bytes small = {.ptr = head_memory, .cap_bytes = 300};
    struct gguf_bytes head = {.ptr = head_memory, .cap_bytes = sizeof head_memory};
    struct gguf_writer writer;
    uint32_t parts;
    sample_tensors(tensors);
    help_ok(gguf_place(tensors, 3, 32, 32, &parts, &error), &error);
    struct gguf_writer_config config = config_for(help_path("x.gguf"), tensors, parts, 32, &meta, &small);
    assert_int_equal(gguf_writer_open(&writer, &config, &error), BERTH_ERR_LIMIT);
    assert_int_equal(help_count_files(), 0);
    config.head = &head;
    help_ok(gguf_writer_open(&writer, &config, &error), &error);
    assert_int_equal(help_count_files(), parts); /* temporary files */
    gguf_writer_abandon(&writer);
    assert_int_equal(help_count_files(), 0);
    gguf_writer_abandon(&writer);
    /* The second part's place is taken by a directory: the rename fails, the parts renamed before are taken back. */
    unsigned char data[58] = {0};
    help_ok(gguf_writer_open(&writer, &config, &error), &error);
    assert_int_equal(mkdir(help_path("x-00001-of-00002.gguf"), 0700), 0);
    help_ok(gguf_writer_put(&writer, data, sizeof data, &error), &error);
    assert_int_equal(gguf_writer_finish(&writer, &error), BERTH_ERR_IO);
    gguf_writer_abandon(&writer);
    assert_int_equal(help_count_files(), 1);
    help_clear();
}

static void writer_limits(void **state)
{
    (void)state;
    berth_error error;
    static struct gguf_tensor tensors[GGUF_PARTS_MAX + 1];
    uint32_t parts = 0;
    char path[64];
    for (uint32_t i = 0; i <= GGUF_PARTS_MAX; i++) {
        tensors[i] =
            (struct gguf_tensor){.name = STR("t"), .dtype = DTYPE_F32, .dims_count = 1, .dims = {8}, .bytes = 32};
    }
    help_ok(gguf_place(tensors, GGUF_PARTS_MAX, 32, 32, &parts, &error), &error);
    assert_int_equal(parts, GGUF_PARTS_MAX);
    assert_int_equal(gguf_place(tensors, GGUF_PARTS_MAX + 1, 32, 32, &parts, &error), BERTH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "larger parts"));
    tensors[0].bytes = UINT64_MAX - 40;
    assert_int_equal(gguf_place(tensors, 2, 32, 0, &parts, &error), BERTH_ERR_LIMIT);
    help_ok(gguf_part_path("a/b", 0, 1, path, sizeof path, &error), &error);
    assert_string_equal(path, "a/b");
    help_ok(gguf_part_path("a/b", 1, 3, path, sizeof path, &error), &error);
    assert_string_equal(path, "a/b-00002-of-00003.gguf");
    help_ok(gguf_part_path("a/b.gguf", 0, 3, path, sizeof path, &error), &error);
    assert_string_equal(path, "a/b-00001-of-00003.gguf");
    assert_int_equal(gguf_part_path("a/b.gguf", 0, 3, path, 23, &error), BERTH_ERR_LIMIT);
    help_ok(gguf_part_path("a/b.gguf", 0, 3, path, 24, &error), &error);
    struct gguf_bytes tiny = {.ptr = head_memory, .cap_bytes = 9};
    gguf_append_u64(&tiny, 1);
    assert_false(tiny.failed);
    gguf_append_u32(&tiny, 1);
    assert_true(tiny.failed && tiny.used_bytes == 8);
    gguf_append(&tiny, "x", 1); /* sticky */
    assert_int_equal(tiny.used_bytes, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writer_one_file_matches_the_specification),
        cmocka_unit_test(writer_parts_match_the_specification),
        cmocka_unit_test(writer_failures_leave_nothing),
        cmocka_unit_test(writer_limits),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
