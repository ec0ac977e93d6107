/* SPDX-License-Identifier: MIT
 * From a configuration and the size of its file to tokens a second, against published runs of llama.cpp
 * (tests/golden/speed/llama.json). */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/json_text.h"
#include "tool.h"

static const struct tree *root;
static const struct tree *shapes;
static char dir[] = "/tmp/berth-llama-speed-XXXXXX";
static char config_path[64];

static tool_model *open_model(const char *name, double weights, double experts)
{
    const struct tree *config = tree_get(tree_need(root, "models"), name);
    const struct json_text *text = json_text(config != NULL ? config : tree_need(shapes, name));
    tool_model *model;
    berth_error err;
    FILE *file = fopen(config_path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text->ptr, 1, text->bytes, file), text->bytes);
    assert_int_equal(fclose(file), 0);
    if (tool_model_open(config_path, (uint64_t)weights, (uint64_t)experts, &model, &err) != BERTH_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    return model;
}

static berth_speed_class class_named(const char *name)
{
    return strcmp(name, "gpu") == 0       ? BERTH_SPEED_GPU
           : strcmp(name, "unified") == 0 ? BERTH_SPEED_UNIFIED
                                          : BERTH_SPEED_SHARED;
}

static berth_speed predict(const struct tree *run, tool_model_info *info)
{
    tool_model *model =
        open_model(tree_need(run, "model")->text, tree_number(run, "weights_bytes"), tree_number(run, "experts_bytes"));
    berth_speed_work work;
    berth_speed speed = BERTH_SPEED_INIT;
    berth_speed_machine machine = BERTH_SPEED_MACHINE_INIT;
    tool_model_describe(model, info);
    assert_int_equal(tool_model_work(model, &(tool_llama){.slots = 1}, 64, &work, NULL), BERTH_OK);
    tool_model_close(model);
    berth_speed_machine_class(class_named(tree_need(run, "class")->text), &machine);
    machine.memory_bytes_per_s = tree_number(run, "bandwidth_gbs") * 1e9;
    assert_int_equal(berth_speed_decode(&work, &machine, 64, NULL, &speed, NULL), BERTH_OK);
    tool_model_widen(info, &speed);
    return speed;
}

/* The law's own runs within 15 per cent; of others, by machines that it was not fitted to, the range must hold. */
static void published_runs(void **state)
{
    (void)state;
    size_t covered = 0;
    size_t others = 0;
    double worst = 0;
    for (const struct tree *run = tree_need(root, "runs")->first; run != NULL; run = run->next) {
        tool_model_info info;
        berth_speed speed = predict(run, &info);
        double measured = tree_number(run, "tok_s");
        double error = speed.tokens_per_s / measured - 1;
        bool is_covered = tree_need(run, "covered")->kind == JSON_TRUE;
        worst = is_covered && fabs(error) > fabs(worst) ? error : worst;
        if (measured < speed.low || measured > speed.high || (is_covered && fabs(error) > 0.15)) {
            fail_msg("%s %s on %s: predicted %.2f (%.2f to %.2f), measured %.2f", tree_need(run, "id")->text,
                     tree_need(run, "model")->text, tree_need(run, "hardware")->text, speed.tokens_per_s, speed.low,
                     speed.high, measured);
        }
        covered += is_covered ? 1 : 0;
        others += is_covered ? 0 : 1;
    }
    print_message("%zu runs, worst error %+.1f %%; %zu others in their range\n", covered, 100 * worst, others);
    assert_int_equal(covered, 39);
    assert_int_equal(others, 18);
}

/* What a token reads, by hand. */
static void work_adds_up(void **state)
{
    (void)state;
    tool_model *model = open_model("gpt-oss-20b", 12e9, 10e9);
    berth_speed_work work;
    assert_int_equal(tool_model_work(model, &(tool_llama){.slots = 4}, 8192, &work, NULL), BERTH_OK);
    tool_model_close(model);
    assert_int_equal(work.layers, 24);
    assert_int_equal(work.moe_layers, 24);
    assert_true(work.expert_bytes == 10e9 * 4 / 32 && work.experts_bytes == 10e9);
    /* 12 layers keep everything, 12 a window of 128 and a micro-batch: 768 cells; 2 x 8 heads x 64 x 2 B. */
    assert_true(fabs(work.kv_token_bytes * 8192 - 12 * 2048.0 * (8192 + 768)) < 1);
    /* Of 20.9 billion parameters those outside the experts have the 2e9 bytes: 24 x 32 x 3 x 2880 x 2880 and biases. */
    double others = 20914757184.0 - 24 * 32 * (3 * 2880.0 * 2880 + 3 * 2880);
    double tables = 2e9 * (201088.0 * 2880 / others);
    assert_true(fabs(work.trunk_bytes - (2e9 - tables)) < 2 && work.state_bytes == 0);
    model = open_model("qwen3.5-27b", 17e9, 0);
    tool_model_info info;
    tool_model_describe(model, &info);
    assert_true(info.has_linear);
    assert_int_equal(tool_model_work(model, &(tool_llama){.slots = 3}, 0, &work, NULL), BERTH_OK);
    assert_true(work.kv_token_bytes == 0 && work.state_bytes == 2 * 156893184.0); /* of one slot, read and written */
    tool_model_close(model);
}

int main(void)
{
    root = tree_read(BERTH_TESTS_DIR "/golden/speed/llama.json");
    shapes = tree_need(tree_read(BERTH_TESTS_DIR "/golden/fit_shapes.json"), "models");
    if (mkdtemp(dir) == NULL) {
        return 1;
    }
    snprintf(config_path, sizeof config_path, "%s/config.json", dir);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_runs),
        cmocka_unit_test(work_adds_up),
    };
    int code = cmocka_run_group_tests(tests, NULL, NULL);
    remove(config_path);
    rmdir(dir);
    return code;
}
