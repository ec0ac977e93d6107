/* SPDX-License-Identifier: MIT
 * The speed law against published runs (tests/golden/speed/decode.json), and by its own arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>

#include "berth.h"
#include "support/json_tree.h"

static berth_speed_machine machine_of(berth_speed_class kind, double gbs)
{
    berth_speed_machine machine = BERTH_SPEED_MACHINE_INIT;
    berth_speed_machine_class(kind, &machine);
    machine.memory_bytes_per_s = gbs * 1e9;
    return machine;
}

static void published_runs_are_within_15_per_cent(void **state)
{
    (void)state;
    const struct tree *root = tree_read(BERTH_TESTS_DIR "/golden/speed/decode.json");
    size_t covered = 0;
    double worst = 0;
    for (const struct tree *run = tree_need(root, "runs")->first; run != NULL; run = run->next) {
        if (tree_need(run, "spilled")->kind == JSON_TRUE) {
            continue;
        }
        bool unified = strcmp(tree_need(run, "class")->text, "unified") == 0;
        berth_speed_machine machine =
            machine_of(unified ? BERTH_SPEED_UNIFIED : BERTH_SPEED_GPU, tree_need(run, "bandwidth_gbs")->number);
        berth_speed_work work = BERTH_SPEED_WORK_INIT;
        work.trunk_bytes = tree_need(run, "bytes_read_per_token")->number;
        work.layers = (uint32_t)tree_need(run, "layers")->number;
        work.moe_layers = tree_need(run, "moe")->kind == JSON_TRUE ? work.layers : 0;
        berth_speed speed = BERTH_SPEED_INIT;
        assert_int_equal(berth_speed_decode(&work, &machine, 0, NULL, &speed, NULL), BERTH_OK);
        double measured = tree_need(run, "tok_s")->number;
        double error = speed.tokens_per_s / measured - 1;
        worst = fabs(error) > fabs(worst) ? error : worst;
        if (fabs(error) > 0.15 || measured < speed.low || measured > speed.high) {
            fail_msg("%s %s: predicted %.2f (%.2f to %.2f), measured %.2f", tree_need(run, "id")->text,
                     tree_need(run, "model")->text, speed.tokens_per_s, speed.low, speed.high, measured);
        }
        covered++;
    }
    print_message("%zu runs, worst error %+.1f %%\n", covered, 100 * worst);
    assert_int_equal(covered, 39);
}

static void hit_rates_follow_the_skew(void **state)
{
    (void)state;
    /* Recorded routes, default policy: share of experts held, hit rate. */
    static const double seen[][2] = {
        {0.0469, 0.356}, {0.094, 0.583}, {0.1875, 0.762}, {0.375, 0.931},  {0.0156, 0.168}, {0.0312, 0.437},
        {0.0625, 0.618}, {0.125, 0.739}, {0.1875, 0.832}, {0.0312, 0.334}, {0.0625, 0.480}, {0.125, 0.597},
        {0.25, 0.740},   {0.375, 0.835}, {0.125, 0.458},  {0.25, 0.654},   {0.5, 0.845}};
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        berth_speed_hit hit = berth_speed_hit_of(seen[i][0], 0);
        assert_true(hit.low <= hit.rate && hit.rate <= hit.high);
        assert_true(seen[i][1] >= hit.low - 0.03 && seen[i][1] <= hit.high + 0.03);
    }
    for (double share = 0.1; share < 1; share += 0.2) {
        for (double rate = share; rate < 1; rate += 0.07) {
            double skew = berth_speed_skew(share, rate);
            assert_true(skew > 0 && skew <= 1);
            assert_true(fabs(berth_speed_hit_of(share, skew).rate - rate) < 1e-12);
        }
    }
    assert_true(fabs(berth_speed_hit_of(0.3, 1).rate - 0.3) < 1e-12); /* uniform routing */
    assert_true(berth_speed_hit_of(0, 0).rate == 0 && berth_speed_hit_of(1, 0).rate == 1);
    assert_true(berth_speed_hit_of(1, 0).low == 1 && berth_speed_hit_of(7, 0.5).rate == 1);
    assert_true(berth_speed_hit_of((double)NAN, 0).rate == 0);
    assert_true(berth_speed_skew(0, 0.5) == 0 && berth_speed_skew(1, 0.5) == 0 && berth_speed_skew(0.5, 1) == 0);
}

static berth_speed_work some_work(void)
{
    berth_speed_work work = BERTH_SPEED_WORK_INIT;
    work.trunk_bytes = 1e9;
    work.expert_bytes = 1e9;
    work.experts_bytes = 16e9;
    work.kv_token_bytes = 1e5;
    work.macs = 2e9;
    work.kv_token_macs = 1e5;
    work.layers = work.moe_layers = 10;
    work.experts = 64;
    work.top_k = 4;
    return work;
}

static berth_speed_machine some_machine(void)
{
    return (berth_speed_machine){.struct_size = sizeof(berth_speed_machine),
                                 .memory_bytes_per_s = 100e9,
                                 .read_bytes_per_s = 5e9,
                                 .macs_per_s = 1e12,
                                 .prefill_macs_per_s = 4e12,
                                 .efficiency = 0.5,
                                 .layer_s = 1e-3,
                                 .moe_layer_s = 2e-3,
                                 .overlap = 0.25,
                                 .margin = 0.1};
}

static void the_law_adds_up(void **state)
{
    (void)state;
    berth_speed_work work = some_work();
    berth_speed_machine machine = some_machine();
    berth_speed speed = BERTH_SPEED_INIT;
    assert_int_equal(berth_speed_decode(&work, &machine, 10000, NULL, &speed, NULL), BERTH_OK);
    assert_true(fabs(speed.memory_s - 3e9 / 50e9) < 1e-12); /* the context is read too */
    assert_true(fabs(speed.compute_s - 3e-3) < 1e-12 && fabs(speed.layers_s - 20e-3) < 1e-12 && speed.disk_s == 0);
    assert_true(fabs(1 / speed.tokens_per_s - 80e-3) < 1e-9);
    assert_true(fabs(speed.low * 1.1 - speed.tokens_per_s) < 1e-9);
    assert_string_equal(speed.binding, "memory");
    const berth_speed_hit hit = {.rate = 0.5, .low = 0.25, .high = 0.75};
    assert_int_equal(berth_speed_decode(&work, &machine, 10000, &hit, &speed, NULL), BERTH_OK);
    assert_true(fabs(speed.disk_s - 0.1) < 1e-12);
    assert_true(fabs(1 / speed.tokens_per_s - (0.1 + 0.75 * 0.08)) < 1e-9);
    assert_true(fabs(1 / speed.low - 1.1 * (0.15 + 0.75 * 0.08)) < 1e-9);
    assert_string_equal(speed.binding, "disk");
    machine.macs_per_s = 1e10;
    assert_int_equal(berth_speed_decode(&work, &machine, 0, NULL, &speed, NULL), BERTH_OK);
    assert_string_equal(speed.binding, "compute");
    assert_true(fabs(1 / speed.tokens_per_s - 0.22) < 1e-9);
}

static void what_is_unknown_stays_unknown(void **state)
{
    (void)state;
    berth_speed_work work = some_work();
    berth_speed_machine machine = some_machine();
    berth_speed speed = BERTH_SPEED_INIT;
    const berth_speed_hit hit = {.rate = 0.5, .low = 0.25, .high = 0.75};
    machine.read_bytes_per_s = 0;
    assert_int_equal(berth_speed_decode(&work, &machine, 0, &hit, &speed, NULL), BERTH_OK);
    assert_true(speed.tokens_per_s == 0 && speed.low == 0 && speed.high == 0);
    assert_string_equal(speed.binding, "unknown");
    assert_int_equal(berth_speed_decode(&work, &machine, 0, NULL, &speed, NULL), BERTH_OK);
    assert_true(speed.tokens_per_s > 0); /* no disk is needed */
    machine.memory_bytes_per_s = 0;
    assert_int_equal(berth_speed_decode(&work, &machine, 0, NULL, &speed, NULL), BERTH_OK);
    assert_true(speed.tokens_per_s == 0);
    berth_error err;
    work.trunk_bytes = (double)NAN;
    assert_int_equal(berth_speed_decode(&work, &machine, 0, NULL, &speed, &err), BERTH_ERR_ARGUMENT);
    work = some_work();
    work.expert_bytes = -1;
    assert_int_equal(berth_speed_decode(&work, &machine, 0, NULL, &speed, &err), BERTH_ERR_ARGUMENT);
    work = some_work();
    machine.efficiency = 0;
    assert_int_equal(berth_speed_decode(&work, &machine, 0, NULL, &speed, &err), BERTH_ERR_ARGUMENT);
    machine = some_machine();
    assert_int_equal(berth_speed_decode(&work, &machine, (double)INFINITY, NULL, &speed, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_speed_prefill(&work, &machine, 0, 64, 1, &speed, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_speed_prefill(&work, &machine, 1, 64, 2, &speed, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_speed_decode(NULL, &machine, 0, NULL, &speed, &err), BERTH_ERR_ARGUMENT);
}

static void prompts_stream_once_a_chunk(void **state)
{
    (void)state;
    berth_speed_work work = some_work();
    berth_speed_machine machine = some_machine();
    berth_speed one = BERTH_SPEED_INIT;
    berth_speed two = BERTH_SPEED_INIT;
    work.kv_token_bytes = work.kv_token_macs = 0;
    assert_int_equal(berth_speed_prefill(&work, &machine, 1, 64, 0, &one, NULL), BERTH_OK);
    assert_true(fabs(one.disk_s - 1e9 / 5e9) < 1e-9); /* one token: its own experts */
    assert_int_equal(berth_speed_prefill(&work, &machine, 1024, 512, 0, &two, NULL), BERTH_OK);
    assert_true(fabs(two.disk_s - 32e9 / 5e9) < 1e-3); /* two chunks: everything, twice */
    assert_string_equal(two.binding, "disk");
    assert_int_equal(berth_speed_prefill(&work, &machine, 1024, 512, 1, &two, NULL), BERTH_OK);
    assert_true(two.disk_s == 0);
    assert_int_equal(berth_speed_prefill(&work, &machine, 1024, 1024, 1, &one, NULL), BERTH_OK);
    assert_true(one.tokens_per_s > two.tokens_per_s && one.low < one.tokens_per_s && one.high > one.tokens_per_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_runs_are_within_15_per_cent),
        cmocka_unit_test(hit_rates_follow_the_skew),
        cmocka_unit_test(the_law_adds_up),
        cmocka_unit_test(what_is_unknown_stays_unknown),
        cmocka_unit_test(prompts_stream_once_a_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
