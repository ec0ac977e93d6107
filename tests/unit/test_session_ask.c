/* SPDX-License-Identifier: MIT
 * What a program may ask about a model that it has not opened: sums over its weights, and the work of a token. */
#define _GNU_SOURCE /* mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "berth.h"
#include "support/budget.h"
#include "tool.h"

static const char *const moe = BERTH_TESTS_DIR "/golden/qwen3-moe";
static const char *const dense = BERTH_TESTS_DIR "/golden/qwen3";
static const char *const mlx = BERTH_TESTS_DIR "/golden/packed/qwen3-moe-mlx-mixed";

static char root[] = "/tmp/berth-ask-XXXXXX";

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
    (void)state;
    return rmdir(root);
}

static void path_of(const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", root, name);
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    char path[128];
    path_of(name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void remove_file(const char *name)
{
    char path[128];
    path_of(name, path);
    assert_int_equal(unlink(path), 0);
}

/* ---- weights ---- */

static void sums_over_real_files(void **state)
{
    (void)state;
    berth_fit_weights sums = BERTH_FIT_WEIGHTS_INIT;
    berth_error err;
    assert_int_equal(berth_fit_weights_of(moe, &sums, &err), BERTH_OK);
    assert_int_equal(sums.files, 1);
    assert_true(sums.weights_bytes == 610032 && sums.experts_bytes == 393216 && sums.switch_bytes == 0);
    assert_true(!sums.has_vision_sidecar && sums.sidecar_bytes == 0);
    /* Nothing is left of the answer before. */
    assert_int_equal(berth_fit_weights_of(mlx, &sums, &err), BERTH_OK);
    assert_true(sums.weights_bytes == 116408 && sums.experts_bytes == 0 && sums.switch_bytes == 68608);
    assert_int_equal(sums.struct_size, sizeof sums);
}

static void sums_over_odd_files(void **state)
{
    (void)state;
    static const char header[] = "\x5a\0\0\0\0\0\0\0{\"a.experts.0.x\":{\"dtype\":\"U8\",\"shape\":[3],"
                                 "\"data_offsets\":[0,3]},\"b\":{\"data_offsets\":[9]}}";
    berth_fit_weights sums = BERTH_FIT_WEIGHTS_INIT;
    berth_error err;
    assert_int_equal(sizeof header - 1, 8 + 0x5a);
    assert_int_equal(berth_fit_weights_of(root, &sums, &err), BERTH_OK);
    assert_true(sums.files == 0 && sums.weights_bytes == 0);
    write_file("a.safetensors", header, sizeof header - 1);
    write_file("b.safetensors", "short", 5);                            /* no header: no experts */
    write_file("c.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff", 8); /* a header beyond the file: the same */
    write_file("optiq_vision.safetensors", header, sizeof header - 1);
    write_file("other.bin", header, sizeof header - 1);
    assert_int_equal(berth_fit_weights_of(root, &sums, NULL), BERTH_OK);
    assert_int_equal(sums.files, 3);
    assert_true(sums.weights_bytes == sizeof header - 1 + 5 + 8 && sums.experts_bytes == 3);
    assert_true(sums.has_vision_sidecar && sums.sidecar_bytes == sizeof header - 1);

    berth_fit_weights before = sums;
    write_file("b.safetensors", "\x02\0\0\0\0\0\0\0{]", 10);
    assert_int_equal(berth_fit_weights_of(root, &sums, &err), BERTH_ERR_FORMAT);
    assert_non_null(strstr(err.path, "/b.safetensors"));
    assert_memory_equal(&sums, &before, sizeof sums);
    assert_int_equal(berth_fit_weights_of(root, &sums, NULL), BERTH_ERR_FORMAT);
    remove_file("a.safetensors");
    remove_file("b.safetensors");
    remove_file("c.safetensors");
    remove_file("optiq_vision.safetensors");
    remove_file("other.bin");
}

static void sums_refuse(void **state)
{
    (void)state;
    berth_fit_weights sums = BERTH_FIT_WEIGHTS_INIT;
    berth_error err;
    char path[128];
    path_of("nothing", path);
    assert_int_equal(berth_fit_weights_of(path, &sums, &err), BERTH_ERR_NOT_FOUND);
    assert_non_null(strstr(err.path, "nothing"));
    assert_int_not_equal(berth_fit_weights_of(BERTH_ROOT_DIR "/models/pocket-moe-q8_0.gguf", &sums, &err), BERTH_OK);
    assert_non_null(strstr(err.path, "pocket"));
    assert_int_equal(berth_fit_weights_of(NULL, &sums, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_fit_weights_of(moe, NULL, &err), BERTH_ERR_ARGUMENT);
    sums.struct_size = 0;
    assert_int_equal(berth_fit_weights_of(moe, &sums, &err), BERTH_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "BERTH_FIT_WEIGHTS_INIT"));
}

/* ---- work ---- */

static berth_plan plan_of(const char *path, uint64_t budget, berth_open_mode mode)
{
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.budget_bytes = budget;
    config.ctx_tokens = 64;
    config.threads = 2;
    config.mode = mode;
    berth_plan plan = BERTH_PLAN_INIT;
    berth_error err = {0};
    if (berth_plan_memory(path, &config, &plan, &err) != BERTH_OK) {
        fail_msg("%s: %s", err.path, err.message);
    }
    return plan;
}

static void work_of_a_moe_model(void **state)
{
    (void)state;
    berth_plan plan = plan_of(moe, TEST_ROOMY_BYTES, BERTH_OPEN_FULL);
    berth_speed_work work = BERTH_SPEED_WORK_INIT;
    berth_error err;
    assert_int_equal(berth_speed_work_of(moe, &plan, &work, &err), BERTH_OK);
    /* config.json: 4 layers of 8 experts of 3 x 64 x 32 in bf16, 2 a token; 297,664 parameters with 384 x 64 that are
     * looked up; 2 key-value heads of 16 in f16. */
    assert_true(work.layers == 4 && work.moe_layers == 4 && work.experts == 8 && work.top_k == 2);
    assert_true(work.experts_bytes == 4 * 8 * 3 * 64 * 32 * 2);
    assert_true(work.expert_bytes == work.experts_bytes * 2 / 8);
    assert_true(work.macs == 297664 - 384 * 64 - 4 * 6 * 3 * 64 * 32);
    assert_true(work.kv_token_macs == 2 * 4 * 4 * 16);
    assert_true(work.kv_token_bytes == 4 * 2 * 2 * 16 * 2);
    /* Whatever the trunk holds beside its weights (alignment, float32 norms) is little. */
    double weights = 297664 * 2 - work.experts_bytes - 384 * 64 * 2;
    assert_true(work.trunk_bytes >= weights && work.trunk_bytes < weights + (64 << 10));
    assert_int_equal(work.struct_size, sizeof work);

    /* A plan that does not fit says the same of a token. */
    berth_plan small = plan_of(moe, 1 << 20, BERTH_OPEN_FULL);
    berth_speed_work again = BERTH_SPEED_WORK_INIT;
    assert_false(small.fits);
    assert_int_equal(berth_speed_work_of(moe, &small, &again, NULL), BERTH_OK);
    assert_memory_equal(&again, &work, sizeof work);

    /* The program's own way to it. */
    tool_checkpoint *checkpoint;
    tool_summary summary;
    assert_int_equal(tool_open(moe, &checkpoint, &err), BERTH_OK);
    tool_summarise(checkpoint, &summary);
    tool_close(checkpoint);
    tool_speed_work(&summary, &plan, &again);
    assert_memory_equal(&again, &work, sizeof work);

    /* And on to a prediction. */
    berth_speed_machine machine = BERTH_SPEED_MACHINE_INIT;
    berth_speed_machine_class(BERTH_SPEED_MEASURED, &machine);
    machine.memory_bytes_per_s = 10e9;
    berth_speed speed = BERTH_SPEED_INIT;
    assert_int_equal(berth_speed_decode(&work, &machine, plan.ctx_tokens, NULL, &speed, &err), BERTH_OK);
    assert_true(speed.low > 0 && speed.low < speed.tokens_per_s && speed.tokens_per_s < speed.high);
}

static void work_of_a_dense_model(void **state)
{
    (void)state;
    berth_plan plan = plan_of(dense, TEST_ROOMY_BYTES, BERTH_OPEN_FULL);
    berth_speed_work work = BERTH_SPEED_WORK_INIT;
    assert_int_equal(berth_speed_work_of(dense, &plan, &work, NULL), BERTH_OK);
    assert_true(work.layers > 0 && work.moe_layers == 0 && work.experts_bytes == 0 && work.expert_bytes == 0);
    assert_true(work.trunk_bytes > 0 && work.macs > 0 && work.macs <= 172736);
}

static void work_refuses(void **state)
{
    (void)state;
    berth_plan plan = plan_of(moe, TEST_ROOMY_BYTES, BERTH_OPEN_FULL);
    berth_speed_work work = BERTH_SPEED_WORK_INIT;
    berth_error err;
    work.macs = 7;
    assert_int_equal(berth_speed_work_of(dense, &plan, &work, &err), BERTH_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "not of this model"));
    assert_non_null(strstr(err.path, "/golden/qwen3"));
    berth_plan text = plan_of(moe, TEST_ROOMY_BYTES, BERTH_OPEN_TEXT);
    assert_int_equal(berth_speed_work_of(moe, &text, &work, &err), BERTH_ERR_ARGUMENT);
    text = plan_of(dense, TEST_ROOMY_BYTES, BERTH_OPEN_TEXT);
    assert_int_equal(berth_speed_work_of(dense, &text, &work, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_speed_work_of(BERTH_TESTS_DIR "/nothing", &plan, &work, &err), BERTH_ERR_NOT_FOUND);
    assert_non_null(strstr(err.path, "/nothing"));
    assert_true(work.macs == 7); /* untouched so far */
    assert_int_equal(berth_speed_work_of(NULL, &plan, &work, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_speed_work_of(moe, NULL, &work, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_speed_work_of(moe, &plan, NULL, &err), BERTH_ERR_ARGUMENT);
    plan.struct_size = 0;
    assert_int_equal(berth_speed_work_of(moe, &plan, &work, &err), BERTH_ERR_ARGUMENT);
    plan = plan_of(moe, TEST_ROOMY_BYTES, BERTH_OPEN_FULL);
    work.struct_size = 0;
    assert_int_equal(berth_speed_work_of(moe, &plan, &work, &err), BERTH_ERR_ARGUMENT);

    /* A family that this version cannot run. */
    static const char config[] = "{\"architectures\":[\"OddForCausalLM\"],\"model_type\":\"odd\"}";
    static const char header[] = "\x44\0\0\0\0\0\0\0{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[1],"
                                 "\"data_offsets\":[0,4]}}       1234";
    assert_int_equal(sizeof header - 1, 8 + 0x44 + 4);
    write_file("config.json", config, sizeof config - 1);
    write_file("model.safetensors", header, sizeof header - 1);
    work = BERTH_SPEED_WORK_INIT;
    assert_int_equal(berth_speed_work_of(root, &plan, &work, &err), BERTH_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "odd"));
    remove_file("config.json");
    remove_file("model.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_over_real_files), cmocka_unit_test(sums_over_odd_files),   cmocka_unit_test(sums_refuse),
        cmocka_unit_test(work_of_a_moe_model),  cmocka_unit_test(work_of_a_dense_model), cmocka_unit_test(work_refuses),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
