/* SPDX-License-Identifier: MIT
 * The reserve of the automatic budget, and what a refusal says about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fit/plan.h"

static const uint64_t mib = 1 << 20;

static void small_limits_keep_most(void **state)
{
    (void)state;
    assert_int_equal(budget_reserve(0), 0);
    assert_int_equal(budget_reserve(64 * mib), 16 * mib);
    assert_int_equal(budget_reserve(100 * mib), 25 * mib);
    assert_int_equal(budget_reserve(256 * mib), 64 * mib);
    assert_int_equal(budget_reserve(512 * mib), 64 * mib);
    assert_int_equal(budget_reserve(4096 * mib), 256 * mib);
    assert_int_equal(budget_reserve(16384 * mib), 1024 * mib);
    assert_int_equal(budget_reserve(1048576 * mib), 1024 * mib);
}

static void more_memory_is_never_less_budget(void **state)
{
    (void)state;
    uint64_t before = 0;
    for (uint64_t available = 0; available < 40000 * mib; available += 4 * mib - 1) {
        uint64_t budget = available - budget_reserve(available);
        assert_true(budget >= before && budget <= available);
        before = budget;
    }
}

static void a_refusal_names_the_reserve(void **state)
{
    (void)state;
    berth_plan plan = BERTH_PLAN_INIT;
    berth_error err;
    plan.hard_floor_bytes = 50 * mib;
    plan.budget_bytes = 48 * mib;
    snprintf(plan.binding, sizeof plan.binding, "memory.max");
    assert_int_equal(plan_refuse(&plan, "m.gguf", &err), BERTH_ERR_BUDGET);
    assert_non_null(
        strstr(err.message, "(memory.max, less a reserve for other programs: a budget that is given has none)"));
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.budget_bytes = plan.budget_bytes;
    assert_int_equal(budget_resolve(&config, &plan.budget_bytes, plan.binding, &err), BERTH_OK);
    assert_int_equal(plan_refuse(&plan, "m.gguf", &err), BERTH_ERR_BUDGET);
    assert_non_null(strstr(err.message, "(given budget)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_limits_keep_most),
        cmocka_unit_test(more_memory_is_never_less_budget),
        cmocka_unit_test(a_refusal_names_the_reserve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
