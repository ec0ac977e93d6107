/* SPDX-License-Identifier: MIT
 * Plans from headers that were read once are the plans of fresh reads, in any order of options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
            assert_int_equal(tool_plan_again(paths[m], &planner, &config, &again, &err), BERTH_OK);
            assert_memory_equal(again.line_bytes, fresh.line_bytes, sizeof fresh.line_bytes);
            assert_int_equal(again.plan_bytes, fresh.plan_bytes);
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

static void a_failure_leaves_something_to_close(void **state)
{
    (void)state;
    tool_planner *planner = NULL;
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    berth_plan plan = BERTH_PLAN_INIT;
    berth_error err;
    assert_int_equal(tool_plan_again(BERTH_TESTS_DIR "/nowhere", &planner, &config, &plan, &err), BERTH_ERR_NOT_FOUND);
    assert_null(planner);
    config.ctx_tokens = 64;
    assert_int_equal(tool_plan_again(paths[1], &planner, &config, &plan, &err), BERTH_OK);
    config.ctx_tokens = 1 << 30;
    assert_int_equal(tool_plan_again(paths[1], &planner, &config, &plan, &err), BERTH_ERR_ARGUMENT);
    config.ctx_tokens = 64;
    assert_int_equal(tool_plan_again(paths[1], &planner, &config, &plan, &err), BERTH_OK);
    tool_planner_close(planner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_those_of_fresh_reads),
        cmocka_unit_test(a_failure_leaves_something_to_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
