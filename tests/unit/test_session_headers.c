/* SPDX-License-Identifier: MIT
 * Releases of hundreds of gigabytes, headers in front of holes (support/headers.h): the totals are those of what was
 * made, and of several files with faults the first by name is reported, whoever of the threads came first. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/folder.h"
#include "support/headers.h"
#include "tool.h"

static void make(struct headers_request request, struct headers_made *made)
{
    request.folder = folder;
    if (!headers_make(&request, made)) {
        if (errno == EFBIG || errno == ENOSPC || errno == EINVAL) {
            print_message("SKIP: no file of hundreds of gigabytes here: %s\n", strerror(errno));
            skip();
        }
        fail_msg("%s", strerror(errno));
    }
}

/* Scales lie beside the weights they belong to: bytes count, tensors and parameters do not. */
static void check_totals(const struct headers_made *made, const char *family, bool has_scales)
{
    tool_planner *planner = NULL;
    tool_model *model = NULL;
    berth_error err;
    tool_summary seen;
    tool_model_info info;
    if (tool_planner_open(made->path, &planner, &err) != BERTH_OK) {
        fail_msg("%s: %s", err.path, err.message);
    }
    tool_summarise(tool_planner_checkpoint(planner), &seen);
    assert_int_equal(tool_model_of(tool_planner_checkpoint(planner), &model, &err), BERTH_OK);
    tool_model_describe(model, &info);
    assert_string_equal(seen.family, family);
    assert_int_equal(seen.files, made->files);
    assert_int_equal(seen.tensor_bytes, made->tensor_bytes);
    assert_true(has_scales ? seen.tensors < made->tensors && seen.parameters < made->parameters
                           : seen.tensors == made->tensors && seen.parameters == made->parameters);
    assert_int_equal(info.tensors, seen.tensors);
    assert_int_equal(info.parameters, seen.parameters);
    uint64_t total = 0;
    for (int i = 0; i < TOOL_WEIGHTS_COUNT; i++) {
        total += info.weight_bytes[i];
    }
    assert_int_equal(total, made->tensor_bytes);
    /* A block for further tokens has experts, too, which are not loaded. */
    uint64_t experts = info.weight_bytes[TOOL_WEIGHTS_EXPERTS];
    assert_true(info.mtp_layers > 0 && has_scales ? experts < made->expert_bytes && experts > made->expert_bytes / 2
                                                  : experts == made->expert_bytes);
    tool_model_close(model);
    tool_planner_close(planner);
}

static void sixty_thousand_tensors_in_sixty_files(void **state)
{
    (void)state;
    struct headers_made made;
    make((struct headers_request){.shape = "qwen3-moe"}, &made);
    assert_true(made.tensors == 59832 && made.files == 60 && made.tensor_bytes > 700ull * 1000 * 1000 * 1000);
    check_totals(&made, "qwen3-moe", false);
    /* and its plan, of which every expert is a part */
    tool_planner *planner = NULL;
    berth_plan plan = BERTH_PLAN_INIT;
    berth_error err;
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.budget_bytes = 64ull << 30;
    config.threads = 2;
    assert_int_equal(tool_planner_open(made.path, &planner, &err), BERTH_OK);
    assert_int_equal(tool_planner_plan(planner, &config, &plan, &err), BERTH_OK);
    assert_int_equal(plan.experts_count, 77 * 256);
    assert_true(plan.fits && plan.full_bytes > made.tensor_bytes);
    tool_planner_close(planner);
}

static void other_formats_and_shapes(void **state)
{
    (void)state;
    struct headers_made made;
    make((struct headers_request){.shape = "deepseek-v3", .files = 13, .layers = 6, .experts = 64}, &made);
    check_totals(&made, "", true);
    make((struct headers_request){.shape = "deepseek-v3", .gguf = true, .layers = 6, .experts = 64}, &made);
    check_totals(&made, "", false);
    make((struct headers_request){.shape = "qwen3-moe", .gguf = true, .layers = 5}, &made);
    check_totals(&made, "", false); /* an expert a tensor, which is not run from such a file */
    make((struct headers_request){.shape = "qwen3-moe", .files = 3, .layers = 5, .experts = 16}, &made);
    check_totals(&made, "qwen3-moe", false);
}

/* ---- faults ----------------------------------------------------------------------------------------- */

static const char *shard(uint32_t number, uint32_t files)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/model-%05u-of-%05u.safetensors", folder, (unsigned)number, (unsigned)files);
    return path;
}

static void overwrite(const char *path, long at, const char *text)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/* Every turn damages another file, earlier than all before it, which is then the one that is named. */
static void the_first_of_many_faults_is_reported(void **state)
{
    (void)state;
    static const struct {
        uint32_t number;
        const char *message;
    } faults[] = {
        {38, "dtype Q16"},  {33, "dtype Q16"},   {30, "dtype Q16"}, {29, "cut off"},
        {20, "begin with"}, {11, "cannot open"}, {3, "begin with"},
    };
    enum { AGAIN = 8 };
    struct headers_made made;
    make((struct headers_request){.shape = "qwen3-moe", .files = 40, .layers = 3}, &made);
    assert_true(made.files >= 38);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const char *path = shard(faults[i].number, made.files);
        if (strstr(faults[i].message, "dtype") != NULL) {
            char front[512] = {0};
            FILE *file = fopen(path, "rb");
            assert_non_null(file);
            assert_true(fread(front, 1, sizeof front - 1, file) > 400);
            fclose(file);
            const char *found = strstr(front + 8, "\"BF16\"");
            assert_non_null(found);
            overwrite(path, found - front, "\"Q16\" ");
        } else if (strcmp(faults[i].message, "cut off") == 0) {
            assert_int_equal(truncate(path, 1000), 0);
        } else if (strcmp(faults[i].message, "cannot open") == 0) {
            assert_int_equal(remove(path), 0);
        } else {
            overwrite(path, 8, "[");
        }
        for (int again = 0; again < AGAIN; again++) {
            tool_checkpoint *checkpoint = NULL;
            berth_error err;
            assert_true(tool_open(folder, &checkpoint, &err) != BERTH_OK);
            if (strstr(err.path, path + 2) == NULL || strstr(err.message, faults[i].message) == NULL) {
                fail_msg("fault %zu: %s: %s", i, err.path, err.message);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sixty_thousand_tensors_in_sixty_files, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(other_formats_and_shapes, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_first_of_many_faults_is_reported, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
