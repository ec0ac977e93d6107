/* SPDX-License-Identifier: MIT
 * The sampler's parts against independent computations: the generators against published outputs, exp against libm, the
 * heaps against a plain sort. */
#include "sample/candidates.h"
#include "sample/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void split_seed_1234567_gives_published_outputs(void **unused)
{
    (void)unused;
    uint64_t state = 1234567;
    assert_int_equal(random_split(&state), 6457827717110365317u);
    assert_int_equal(random_split(&state), 3203168211198807973u);
    assert_int_equal(random_split(&state), 9817491932198370423u);
}

static void next_state_1234_gives_published_outputs(void **unused)
{
    (void)unused;
    struct random_state random = {{1, 2, 3, 4}};
    const uint64_t want[] = {11520u, 0u, 1509978240u, 1215971899390074240u, 1216172134540287360u};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_int_equal(random_next(&random), want[i]);
    }
}

static void unit_many_draws_fill_the_interval_evenly(void **unused)
{
    (void)unused;
    struct random_state random;
    random_seed(&random, 0);
    enum { BINS = 64, DRAWS = 640000 };
    unsigned bins[BINS] = {0};
    for (int i = 0; i < DRAWS; i++) {
        double u = random_unit(&random);
        assert_true(u >= 0.0 && u < 1.0);
        bins[(int)(u * BINS)]++;
    }
    double chi = 0.0;
    for (int i = 0; i < BINS; i++) {
        double off = bins[i] - (double)DRAWS / BINS;
        chi += off * off / ((double)DRAWS / BINS);
    }
    assert_true(chi > 30.0 && chi < 105.0); /* 63 degrees of freedom: about 1e-4 on each side */
}

static void exp_whole_range_is_within_1e_15_of_libm(void **unused)
{
    (void)unused;
    assert_true(candidate_exp(0.0) == 1.0);
    assert_true(candidate_exp(-110.0) == 0.0);
    assert_true(candidate_exp(-(double)INFINITY) == 0.0);
    double worst = 0.0;
    for (int i = 0; i < 1000000; i++) {
        double x = -109.99 * (i / 1e6);
        double want = exp(x);
        double off = fabs(candidate_exp(x) - want) / want;
        worst = off > worst ? off : worst;
    }
    assert_true(worst < 1e-15);
    assert_true(worst > 0.0);
}

static int compare_best_first(const void *a, const void *b)
{
    const struct candidate *left = a;
    const struct candidate *right = b;
    if (left->value != right->value) {
        return left->value > right->value ? -1 : 1;
    }
    return left->id < right->id ? -1 : left->id > right->id;
}

enum { TOKENS = 1000 };

/* Few distinct values, so that ties are everywhere. */
static void fill_with_ties(struct candidate *list, uint64_t seed)
{
    struct random_state random;
    random_seed(&random, seed);
    for (int i = 0; i < TOKENS; i++) {
        list[i] = (struct candidate){(float)(random_next(&random) % 50u) - 25.0f, i};
    }
}

static void offer_any_limit_keeps_what_a_sort_puts_first(void **unused)
{
    (void)unused;
    const uint32_t limits[] = {1, 2, 3, 40, 999, 1000, 2000};
    for (size_t which = 0; which < sizeof limits / sizeof limits[0]; which++) {
        struct candidate all[TOKENS];
        struct candidate heap[TOKENS];
        fill_with_ties(all, which);
        uint32_t count = 0;
        for (int i = 0; i < TOKENS; i++) {
            candidates_offer(heap, &count, limits[which], all[i]);
        }
        qsort(all, TOKENS, sizeof all[0], compare_best_first);
        uint32_t want = limits[which] < TOKENS ? limits[which] : TOKENS;
        assert_int_equal(count, want);
        qsort(heap, count, sizeof heap[0], compare_best_first);
        for (uint32_t i = 0; i < want; i++) {
            assert_int_equal(heap[i].id, all[i].id);
        }
    }
}

static void keep_any_mass_is_the_shortest_sorted_prefix(void **unused)
{
    (void)unused;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct candidate list[TOKENS];
        struct candidate sorted[TOKENS];
        fill_with_ties(list, seed);
        double total = candidates_weigh(list, TOKENS, 3.0f);
        memcpy(sorted, list, sizeof sorted);
        qsort(sorted, TOKENS, sizeof sorted[0], compare_best_first);
        double mass = total * (double)seed / 19.0;
        double sum = 0.0;
        uint32_t want = 0;
        do {
            sum += (double)sorted[want++].value;
        } while (want < TOKENS && sum < mass);
        assert_int_equal(candidates_keep(list, TOKENS, mass), want);
        for (uint32_t i = 0; i < want; i++) {
            assert_int_equal(list[TOKENS - 1 - i].id, sorted[i].id);
        }
    }
}

static void weigh_finite_logits_equals_softmax_numerators(void **unused)
{
    (void)unused;
    struct candidate list[] = {{1.0f, 0}, {3.5f, 1}, {-2.0f, 2}, {-1000.0f, 3}};
    double sum = candidates_weigh(list, 4, 0.5f);
    assert_true(fabs((double)list[0].value - exp(-5.0)) < 1e-9);
    assert_true(list[1].value == 1.0f);
    assert_true(fabs((double)list[2].value - exp(-11.0)) < 1e-11);
    assert_true(list[3].value == 0.0f);
    assert_true(fabs(sum - (1.0 + exp(-5.0) + exp(-11.0))) < 1e-8);
}

static void weigh_infinities_shares_between_the_largest(void **unused)
{
    (void)unused;
    struct candidate up[] = {{INFINITY, 0}, {3.0f, 1}, {-INFINITY, 2}, {INFINITY, 3}};
    assert_true(candidates_weigh(up, 4, 1.0f) == 2.0);
    assert_true(up[0].value == 1.0f && up[1].value == 0.0f && up[2].value == 0.0f && up[3].value == 1.0f);
    struct candidate down[] = {{-INFINITY, 0}, {-INFINITY, 1}};
    assert_true(candidates_weigh(down, 2, 1.0f) == 2.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_seed_1234567_gives_published_outputs),
        cmocka_unit_test(next_state_1234_gives_published_outputs),
        cmocka_unit_test(unit_many_draws_fill_the_interval_evenly),
        cmocka_unit_test(exp_whole_range_is_within_1e_15_of_libm),
        cmocka_unit_test(offer_any_limit_keeps_what_a_sort_puts_first),
        cmocka_unit_test(keep_any_mass_is_the_shortest_sorted_prefix),
        cmocka_unit_test(weigh_finite_logits_equals_softmax_numerators),
        cmocka_unit_test(weigh_infinities_shares_between_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
