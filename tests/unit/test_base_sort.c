/* SPDX-License-Identifier: MIT
 * base/sort.h against the definition: a permutation, in order, equals in their old order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/sort.h"

enum { MOST = 3000 };

static uint32_t keys[MOST];
static uint32_t compared;

static int compare(const void *user, uint32_t a, uint32_t b)
{
    const uint32_t *values = user;
    compared++;
    return (values[a] > values[b]) - (values[a] < values[b]);
}

static void check(const uint32_t *order, uint32_t count)
{
    static unsigned char seen[MOST];
    for (uint32_t i = 0; i < count; i++) {
        seen[i] = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_true(order[i] < count && seen[order[i]] == 0);
        seen[order[i]] = 1;
        if (i > 0) {
            assert_true(keys[order[i - 1]] < keys[order[i]] ||
                        (keys[order[i - 1]] == keys[order[i]] && order[i - 1] < order[i]));
        }
    }
}

static void both_sorts_are_stable(void **state)
{
    (void)state;
    static uint32_t order[MOST], spare[MOST];
    static struct sort_item items[MOST], items_spare[MOST];
    uint32_t random = 12345;
    for (uint32_t count = 0; count < MOST; count = count < 70 ? count + 1 : count * 2 + 1) {
        for (uint32_t range = 1; range <= 100000; range *= 10) {
            for (uint32_t i = 0; i < count; i++) {
                random = random * 1664525u + 1013904223u;
                keys[i] = (random >> 8) % range;
                /* the low digit goes to the minor key */
                items[i] = (struct sort_item){keys[i] / 3, keys[i] % 3, i};
            }
            sort_order(order, spare, count, compare, keys);
            check(order, count);
            sort_items(items, items_spare, count);
            for (uint32_t i = 0; i < count; i++) {
                order[i] = items[i].index;
            }
            check(order, count);
        }
    }
}

static void sorted_input_costs_one_comparison_an_item(void **state)
{
    (void)state;
    static uint32_t order[MOST], spare[MOST];
    for (uint32_t i = 0; i < MOST; i++) {
        keys[i] = i / 2;
    }
    compared = 0;
    sort_order(order, spare, MOST, compare, keys);
    check(order, MOST);
    assert_true(compared < MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sorts_are_stable),
        cmocka_unit_test(sorted_input_costs_one_comparison_an_item),
    };
    return cmocka_run_group_tests_name("sort", tests, NULL, NULL);
}
