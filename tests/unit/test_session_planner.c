/* SPDX-License-Identifier: MIT
 * Plans from headers that were read once are the plans of fresh reads, in any order of options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compute/pool.h"
#include "experts/io.h"
#include "support/budget.h"
#include "tool.h"

static const char *const paths[] = {BERTH_ROOT_DIR "/models/pocket-moe-q8_0.gguf", BERTH_TESTS_DIR "/golden/qwen3-moe",
                                    BERTH_TESTS_DIR "/golden/llama"};
static const uint32_t contexts[] = {64, 500, 8, 0, 499, 64};
static const uint32_t texts[] = {0, 1 << 20, 100, 0, 5 << 20, 1};

static void plans_are_those_of_fresh_reads(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof paths / sizeof paths[0]; m++) {
        tool_planner *planner = NULL;
        tool_checkpoint *checkpoint = NULL;
        tool_summary seen;
        tool_summary fresh_look;
        assert_int_equal(tool_planner_open(paths[m], &planner, NULL), BERTH_OK);
        assert_int_equal(tool_open(paths[m], &checkpoint, NULL), BERTH_OK);
        tool_summarise(tool_planner_checkpoint(planner), &seen);
        tool_summarise(checkpoint, &fresh_look);
        tool_close(checkpoint);
        assert_int_equal(seen.parameters, fresh_look.parameters);
        assert_int_equal(seen.tensor_bytes, fresh_look.tensor_bytes);
        assert_string_equal(seen.family, fresh_look.family);
        assert_string_equal(seen.fingerprint, fresh_look.fingerprint);
        for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++) {
            berth_model_config config = BERTH_MODEL_CONFIG_INIT;
            berth_plan fresh = BERTH_PLAN_INIT;
            berth_plan again = BERTH_PLAN_INIT;
            berth_error err;
            config.ctx_tokens = contexts[i];
            config.text_bytes = texts[i];
            config.threads = 2;
            config.kv_type = i % 2 == 0 ? BERTH_KV_F16 : BERTH_KV_F32;
            config.budget_bytes = i == 2 ? 1 << 20 : TEST_ROOMY_BYTES;
            assert_int_equal(berth_plan_memory(paths[m], &config, &fresh, &err), BERTH_OK);
            assert_int_equal(tool_planner_plan(planner, &config, &again, &err), BERTH_OK);
            assert_memory_equal(again.line_bytes, fresh.line_bytes, sizeof fresh.line_bytes);
            assert_int_equal(again.plan_bytes, fresh.plan_bytes);
            assert_int_equal(again.open_bytes, fresh.open_bytes);
            assert_int_equal(again.hard_floor_bytes, fresh.hard_floor_bytes);
            assert_int_equal(again.floor_bytes, fresh.floor_bytes);
            assert_int_equal(again.full_bytes, fresh.full_bytes);
            assert_int_equal(again.ctx_max_tokens, fresh.ctx_max_tokens);
            assert_int_equal(again.chunk_tokens, fresh.chunk_tokens);
            assert_int_equal(again.fits, fresh.fits);
        }
        tool_planner_close(planner);
    }
    tool_planner_close(NULL);
}

static void a_planner_survives_a_plan_that_fails(void **state)
{
    (void)state;
    tool_planner *planner = NULL;
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    berth_plan plan = BERTH_PLAN_INIT;
    berth_plan wanted = BERTH_PLAN_INIT;
    berth_error err;
    assert_int_equal(tool_planner_open(BERTH_TESTS_DIR "/nowhere", &planner, &err), BERTH_ERR_NOT_FOUND);
    assert_null(planner);
    assert_int_equal(tool_planner_open(paths[1], &planner, &err), BERTH_OK);
    config.isa = (berth_isa)99;
    assert_int_equal(tool_planner_plan(planner, &config, &plan, &err), BERTH_ERR_UNSUPPORTED);
    config.isa = BERTH_ISA_AUTO;
    config.ctx_tokens = 1 << 30;
    assert_int_equal(tool_planner_plan(planner, &config, &plan, &err), BERTH_ERR_ARGUMENT);
    config.mode = BERTH_OPEN_TEXT;
    assert_int_equal(tool_planner_plan(planner, &config, &plan, &err), BERTH_ERR_ARGUMENT);
    config.mode = BERTH_OPEN_FULL;
    config.ctx_tokens = 64;
    config.budget_bytes = TEST_ROOMY_BYTES;
    assert_int_equal(tool_planner_plan(planner, &config, &plan, &err), BERTH_OK);
    assert_int_equal(berth_plan_memory(paths[1], &config, &wanted, &err), BERTH_OK);
    assert_memory_equal(plan.line_bytes, wanted.line_bytes, sizeof plan.line_bytes);
    assert_int_equal(plan.open_bytes, wanted.open_bytes);
    tool_planner_close(planner);
}

/* At each limit, and one past it. */
static void limits_of_the_configuration(void **state)
{
    (void)state;
    berth_plan plan = BERTH_PLAN_INIT;
    berth_error err;
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.budget_bytes = UINT64_C(1) << 40;
    assert_int_equal(berth_plan_memory(paths[1], &config, &plan, &err), BERTH_OK);
    for (uint32_t past = 0; past < 2; past++) {
        const berth_status wanted = past ? BERTH_ERR_ARGUMENT : BERTH_OK;
        berth_model_config c = config;
        c.ctx_tokens = plan.ctx_max_tokens + past;
        berth_plan out = BERTH_PLAN_INIT;
        assert_int_equal(berth_plan_memory(paths[1], &c, &out, &err), wanted);
        c = config;
        c.threads = POOL_THREADS_MAX + past;
        assert_int_equal(berth_plan_memory(paths[1], &c, &out, &err), wanted);
        c = config;
        c.io_threads = IO_THREADS_MAX + past;
        assert_int_equal(berth_plan_memory(paths[1], &c, &out, &err), wanted);
        c = config;
        c.kv_type = past ? (berth_kv_type)(BERTH_KV_Q8_0 + 1) : BERTH_KV_F16;
        assert_int_equal(berth_plan_memory(paths[1], &c, &out, &err), wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_those_of_fresh_reads),
        cmocka_unit_test(a_planner_survives_a_plan_that_fails),
        cmocka_unit_test(limits_of_the_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
