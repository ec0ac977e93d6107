/* SPDX-License-Identifier: MIT
 * What convert refuses, and that a failure of any kind leaves nothing behind. */
#include "convert_help.h"

#include <fcntl.h>
#include <sys/mount.h>

#include "convert/transform.h"

static struct convert_config plain(void)
{
    return (struct convert_config){.type = DTYPE_Q8_0, .buffer_bytes = 256 * 1024, .threads = 2};
}

static void fault_existing_output_is_refused_unless_asked(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config config = plain();
    const char *path = help_path("there.gguf");
    help_write_file(path, "mine", 4);
    assert_int_equal(convert_run(help_golden("llama"), path, &config, false, &error), BERTH_ERR_IO);
    assert_non_null(strstr(error.message, "exists already"));
    assert_string_equal(error.path, path);
    size_t bytes;
    unsigned char *kept = help_read_file(path, &bytes);
    assert_int_equal(bytes, 4);
    assert_memory_equal(kept, "mine", 4);
    free(kept);
    help_ok(convert_run(help_golden("llama"), path, &config, true, &error), &error);
    struct opened opened;
    help_open(&opened, path);
    help_close(&opened);
    assert_int_equal(help_count_files(), 1);
    help_clear();
}

static void fault_one_existing_part_is_refused(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config config = plain();
    config.split_bytes = 64 * 1024;
    help_ok(convert_run(help_golden("llama"), help_path("m.gguf"), &config, false, &error), &error);
    unsigned parts = help_count_files();
    assert_true(parts > 2);
    char path[256];
    snprintf(path, sizeof path, "%s/m-00001-of-%05u.gguf", help_dir, parts);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(convert_run(help_golden("llama"), help_path("m.gguf"), &config, false, &error), BERTH_ERR_IO);
    assert_non_null(strstr(error.path, "m-00002-of-"));
    assert_int_equal(help_count_files(), parts - 1);
    help_clear();
}

/* Overwriting the very file that is being read: it is replaced only when the new one is complete. */
static void fault_in_place_conversion_works(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config wide = {.type = DTYPE_F32};
    struct convert_config config = plain();
    help_ok(convert_run(help_golden("mixtral"), help_path("m.gguf"), &wide, false, &error), &error);
    help_ok(convert_run(help_path("m.gguf"), help_path("other.gguf"), &config, false, &error), &error);
    help_ok(convert_run(help_path("m.gguf"), help_path("m.gguf"), &config, true, &error), &error);
    help_same_files(help_path("m.gguf"), help_path("other.gguf"));
    help_clear();
}

static void fault_output_directory_is_refused(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config config = plain();
    assert_int_equal(mkdir(help_path("dir.gguf"), 0700), 0);
    assert_int_equal(convert_run(help_golden("llama"), help_path("dir.gguf"), &config, true, &error), BERTH_ERR_IO);
    assert_non_null(strstr(error.message, "directory"));
    assert_int_equal(help_count_files(), 1);
    help_clear();
}

static void fault_missing_and_unwritable_directories(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config config = plain();
    assert_int_not_equal(convert_run(help_golden("llama"), help_path("no/such/out.gguf"), &config, false, &error),
                         BERTH_OK);
    assert_true(error.message[0] != '\0' && strstr(error.path, "no/such") != NULL);
    assert_int_equal(help_count_files(), 0);
    /* Root may write anywhere except where the file system itself says no. */
    assert_int_not_equal(convert_run(help_golden("llama"), "/proc/berth-test.gguf", &config, false, &error), BERTH_OK);
    assert_non_null(strstr(error.path, "/proc/"));
    if (geteuid() != 0) {
        assert_int_equal(mkdir(help_path("locked"), 0500), 0);
        assert_int_equal(convert_run(help_golden("llama"), help_path("locked/out.gguf"), &config, false, &error),
                         BERTH_ERR_IO);
    }
    help_clear();
}

static void fault_full_disk_is_named(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config config = plain();
    config.type = DTYPE_F32;
    char disk[128];
    snprintf(disk, sizeof disk, "%s", help_path("disk"));
    assert_int_equal(mkdir(disk, 0700), 0);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=512k") != 0) {
        print_message("SKIPPED: a full disk needs a small tmpfs, which only root may mount\n");
        help_clear();
        skip();
    }
    for (uint64_t split = 0; split <= 200 * 1024; split += 200 * 1024) {
        config.split_bytes = split;
        berth_status status = convert_run(help_golden("qwen3-moe"), help_path("disk/out.gguf"), &config, false, &error);
        assert_int_equal(status, BERTH_ERR_IO);
        assert_non_null(strstr(error.message, "No space left"));
        assert_non_null(strstr(error.path, "/disk/out"));
        DIR *dir = opendir(disk);
        for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
            assert_true(e->d_name[0] == '.'); /* nothing left */
        }
        closedir(dir);
    }
    assert_int_equal(umount(disk), 0);
    help_clear();
}

struct watch {
    unsigned calls, stop_at;
    uint64_t last, total;
    const char *truncate;
};

static bool progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct watch *watch = user;
    assert_non_null(what);
    assert_true(done > watch->last && done <= total);
    assert_true(watch->total == 0 || watch->total == total);
    watch->last = done;
    watch->total = total;
    watch->calls++;
    if (watch->truncate != NULL && watch->calls == 1) {
        assert_int_equal(truncate(watch->truncate, 64 * 1024), 0);
    }
    return watch->calls != watch->stop_at;
}

static void fault_cancel_anywhere_leaves_nothing(void **state)
{
    (void)state;
    berth_error error;
    struct watch whole = {.stop_at = 0};
    struct convert_config config = plain();
    config.progress = progress;
    config.progress_user = &whole;
    help_ok(convert_run(help_golden("olmoe"), help_path("out.gguf"), &config, false, &error), &error);
    assert_true(whole.calls > 50 && whole.last == whole.total);
    help_clear();
    for (unsigned at = 1; at <= whole.calls; at += whole.calls / 7) {
        struct watch watch = {.stop_at = at};
        config.progress_user = &watch;
        config.split_bytes = at % 2 == 0 ? 100 * 1024 : 0;
        assert_int_equal(convert_run(help_golden("olmoe"), help_path("out.gguf"), &config, false, &error),
                         BERTH_ERR_CANCELLED);
        assert_int_equal(watch.calls, at);
        assert_int_equal(help_count_files(), 0);
    }
}

/* The source shrinks after it was opened: the read must fail, not return what was in the buffer. */
static void fault_source_truncated_while_reading(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config make = {.type = DTYPE_F32};
    help_ok(convert_run(help_golden("qwen3-moe"), help_path("source.gguf"), &make, false, &error), &error);
    struct watch watch = {.truncate = help_path("source.gguf")};
    struct convert_config config = plain();
    config.progress = progress;
    config.progress_user = &watch;
    assert_int_equal(convert_run(help_path("source.gguf"), help_path("out.gguf"), &config, false, &error),
                     BERTH_ERR_IO);
    assert_non_null(strstr(error.path, "source.gguf"));
    assert_true(error.object[0] != '\0');
    assert_int_equal(help_count_files(), 1);
    help_clear();
}

static void fault_bad_configs_are_refused(void **state)
{
    (void)state;
    berth_error error;
    const char *path = help_path("out.gguf");
    struct convert_config config = plain();
    config.type = DTYPE_IQ2_XXS; /* no writer */
    assert_int_equal(convert_run(help_golden("llama"), path, &config, false, &error), BERTH_ERR_ARGUMENT);
    config.type = DTYPE_COUNT;
    assert_int_equal(convert_run(help_golden("llama"), path, &config, false, &error), BERTH_ERR_ARGUMENT);
    config = plain();
    static const uint32_t bad[] = {1, 16, 33, 48, 4095, 1u << 21, 1u << 31};
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        config.alignment = bad[i];
        assert_int_equal(convert_run(help_golden("llama"), path, &config, false, &error), BERTH_ERR_ARGUMENT);
    }
    config = plain();
    config.buffer_bytes = 256 * 1024 - 1;
    assert_int_equal(convert_run(help_golden("llama"), path, &config, false, &error), BERTH_ERR_ARGUMENT);
    config = plain();
    assert_int_equal(convert_run(help_golden("llama"), "", &config, false, &error), BERTH_ERR_ARGUMENT);
    config.split_bytes = 100; /* a part a tensor is fine; the limit is on their number */
    assert_int_equal(convert_run(help_golden("mixtral"), path, &config, false, &error), BERTH_OK);
    help_clear();
    assert_int_equal(convert_run(help_path("nothing.gguf"), path, &config, false, &error), BERTH_ERR_NOT_FOUND);
    assert_int_equal(help_count_files(), 0);
}

/* A golden with one bfloat16 weight replaced. */
static void make_patched(const char *dir, uint16_t value)
{
    size_t bytes;
    char from[600];
    char to[600];
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(from, sizeof from, "%s/config.json", help_golden("llama"));
    snprintf(to, sizeof to, "%s/config.json", dir);
    unsigned char *config = help_read_file(from, &bytes);
    help_write_file(to, config, bytes);
    free(config);
    snprintf(from, sizeof from, "%s/model.safetensors", help_golden("llama"));
    snprintf(to, sizeof to, "%s/model.safetensors", dir);
    unsigned char *model = help_read_file(from, &bytes);
    memcpy(model + bytes - 2 * 1000, &value, 2);
    help_write_file(to, model, bytes);
    free(model);
}

static void fault_values_beyond_f16_are_refused(void **state)
{
    (void)state;
    berth_error error;
    static const struct {
        uint16_t bits;
        enum dtype type;
        berth_status status;
    } cases[] = {
        {0x4780, DTYPE_F16, BERTH_ERR_FORMAT},  /* 65536 */
        {0x477f, DTYPE_F16, BERTH_OK},          /* 65280 */
        {0x4780, DTYPE_BF16, BERTH_OK},         /* fits the exponent */
        {0x7f80, DTYPE_Q8_0, BERTH_ERR_FORMAT}, /* infinity */
        {0x7fc0, DTYPE_F16, BERTH_ERR_FORMAT},  /* NaN */
        {0x4b00, DTYPE_Q8_0, BERTH_ERR_FORMAT}, /* 8388608 / 127 is above 65504 */
        {0x4a00, DTYPE_Q8_0, BERTH_OK},         /* 2097152 / 127 is not */
        {0x7f80, DTYPE_Q4_0, BERTH_ERR_FORMAT}, {0x7fc0, DTYPE_MXFP4, BERTH_ERR_FORMAT}, /* Q8_0 in a dense model */
        {0x4b00, DTYPE_Q4_0, BERTH_ERR_FORMAT},                                          /* 8388608 / 8 */
        {0x4880, DTYPE_Q4_0, BERTH_OK},                                                  /* 262144 / 8 */
        {0x4b00, DTYPE_Q4_1, BERTH_ERR_FORMAT}, {0x7fc0, DTYPE_Q4_K, BERTH_ERR_FORMAT},  /* rows of 64: Q5_0 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct convert_config config = {.type = cases[i].type};
        make_patched(help_path("bad"), cases[i].bits);
        assert_int_equal(convert_run(help_path("bad"), help_path("out.gguf"), &config, false, &error), cases[i].status);
        if (cases[i].status != BERTH_OK) {
            assert_non_null(strstr(error.message, "not finite, or too large"));
            assert_true(error.object[0] != '\0');
            assert_int_equal(help_count_files(), 1);
        }
        unlink(help_path("bad/config.json"));
        unlink(help_path("bad/model.safetensors"));
        help_clear();
    }
}

/* Finite numbers that round to BF16's infinity, and their neighbours. */
static void fault_values_beyond_bf16_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        enum dtype to;
        bool fine;
    } cases[] = {
        {0x7f7f0000u, DTYPE_BF16, true},  /* its largest, 3.3895e38 */
        {0x7f7f7fffu, DTYPE_BF16, true},  /* rounds down to it */
        {0x7f7f8000u, DTYPE_BF16, false}, /* half a step above: to even, which is infinity */
        {0xff7fffffu, DTYPE_BF16, false}, /* minus the largest of F32 */
        {0x7f7fffffu, DTYPE_F32, true},
        {0x7f800000u, DTYPE_BF16, true}, /* infinity itself is taken over, as before */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t in[32] = {0};
        uint32_t out[32];
        in[17] = cases[i].bits;
        const struct transform t = {
            .in = (const void *)in, .out = (void *)out, .from = DTYPE_F32, .to = cases[i].to, .k = 32};
        assert_int_equal(transform_rows(&t, 0, 1), cases[i].fine || cases[i].to == DTYPE_F32);
    }
}

/* A failed assertion must not leave the small disk mounted. */
static int teardown(void **state)
{
    umount2(help_path("disk"), MNT_DETACH);
    return help_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_existing_output_is_refused_unless_asked),
        cmocka_unit_test(fault_one_existing_part_is_refused),
        cmocka_unit_test(fault_in_place_conversion_works),
        cmocka_unit_test(fault_output_directory_is_refused),
        cmocka_unit_test(fault_missing_and_unwritable_directories),
        cmocka_unit_test(fault_full_disk_is_named),
        cmocka_unit_test(fault_cancel_anywhere_leaves_nothing),
        cmocka_unit_test(fault_source_truncated_while_reading),
        cmocka_unit_test(fault_bad_configs_are_refused),
        cmocka_unit_test(fault_values_beyond_f16_are_refused),
        cmocka_unit_test(fault_values_beyond_bf16_are_refused),
    };
    return cmocka_run_group_tests(tests, help_setup, teardown);
}
