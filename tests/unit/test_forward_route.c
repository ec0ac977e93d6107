/* SPDX-License-Identifier: MIT
 * Top-k selection. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "forward/forward.h"

static void select_ties_goes_to_lower_id(void **state)
{
    (void)state;
    const float p[] = {0.1f, 0.3f, 0.3f, 0.05f, 0.25f};
    uint16_t ids[3];
    float weights[3];
    route_select(p, 5, 3, false, ids, weights);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 2);
    assert_int_equal(ids[2], 4);
    assert_true(weights[0] == 0.3f && weights[2] == 0.25f);
    route_select(p, 5, 3, true, ids, weights);
    assert_true(fabs((double)(weights[0] + weights[1] + weights[2]) - 1) < 1e-6);
}

static void select_random_equals_a_full_sort(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 500; round++) {
        float p[128];
        uint16_t ids[16];
        float weights[16];
        uint32_t n = 1 + (uint32_t)rand() % 128;
        uint32_t k = 1 + (uint32_t)rand() % (n < 16 ? n : 16);
        for (uint32_t i = 0; i < n; i++) {
            p[i] = (float)(rand() % 50);
        }
        route_select(p, n, k, false, ids, weights);
        bool taken[128] = {false};
        for (uint32_t rank = 0; rank < k; rank++) {
            uint32_t best = n;
            for (uint32_t i = 0; i < n; i++) {
                best = !taken[i] && (best == n || p[i] > p[best]) ? i : best;
            }
            taken[best] = true;
            assert_int_equal(ids[rank], best);
        }
    }
}

static void select_nan_never_beats_a_number(void **state)
{
    (void)state;
    const float p[] = {NAN, 0.2f, NAN, 0.1f};
    uint16_t ids[3];
    float weights[3];
    route_select(p, 4, 3, false, ids, weights);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 3);
    assert_true(ids[2] == 0 || ids[2] == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(select_ties_goes_to_lower_id),
        cmocka_unit_test(select_random_equals_a_full_sort),
        cmocka_unit_test(select_nan_never_beats_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
