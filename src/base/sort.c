/* SPDX-License-Identifier: MIT
 * Bottom-up merge sort. Neighbouring runs that are already in order are not merged, which makes the usual case (a file
 * written in name order) one comparison per item. */
#include "base/sort.h"

#include <string.h>

static void merge(uint32_t *out, const uint32_t *left, const uint32_t *mid, const uint32_t *end,
                  sort_compare_fn *compare, const void *user)
{
    const uint32_t *a = left;
    const uint32_t *b = mid;
    while (a < mid && b < end) {
        *out++ = compare(user, *b, *a) < 0 ? *b++ : *a++;
    }
    while (a < mid) {
        *out++ = *a++;
    }
    while (b < end) {
        *out++ = *b++;
    }
}

void sort_order(uint32_t *order, uint32_t *spare, uint32_t count, sort_compare_fn *compare, const void *user)
{
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (uint64_t width = 1; width < count; width *= 2) {
        for (uint64_t at = 0; at + width < count; at += 2 * width) {
            uint64_t mid = at + width;
            uint64_t end = mid + width < count ? mid + width : count;
            if (compare(user, order[mid - 1], order[mid]) <= 0) {
                continue;
            }
            merge(spare + at, order + at, order + mid, order + end, compare, user);
            memcpy(order + at, spare + at, (size_t)(end - at) * sizeof *order);
        }
    }
}
