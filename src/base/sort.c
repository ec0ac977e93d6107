/* SPDX-License-Identifier: MIT
 * Bottom-up merge sort. Neighbouring runs that are already in order are not merged, which makes the usual case (a file
 * written in name order) one comparison per item. */
#include "base/sort.h"

#include <stdbool.h>
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

/* ---- items ------------------------------------------------------------------------------------------ */

enum { SHORT_RUN = 8 };

static inline bool item_less(const struct sort_item *a, const struct sort_item *b)
{
    return a->key < b->key || (a->key == b->key && a->minor < b->minor);
}

static void insert_runs(struct sort_item *items, uint32_t count)
{
    for (uint32_t start = 0; start < count; start += SHORT_RUN) {
        uint32_t end = count - start < SHORT_RUN ? count : start + SHORT_RUN;
        for (uint32_t i = start + 1; i < end; i++) {
            struct sort_item item = items[i];
            uint32_t at = i;
            for (; at > start && item_less(&item, &items[at - 1]); at--) {
                items[at] = items[at - 1];
            }
            items[at] = item;
        }
    }
}

void sort_items(struct sort_item *items, struct sort_item *spare, uint32_t count)
{
    insert_runs(items, count);
    for (uint64_t width = SHORT_RUN; width < count; width *= 2) {
        for (uint64_t at = 0; at + width < count; at += 2 * width) {
            uint64_t mid = at + width;
            uint64_t end = mid + width < count ? mid + width : count;
            if (!item_less(&items[mid], &items[mid - 1])) {
                continue;
            }
            /* The left run moves out, so that the merge can fill from the front. */
            memcpy(spare, items + at, (size_t)width * sizeof *items);
            const struct sort_item *left = spare;
            const struct sort_item *left_end = spare + width;
            const struct sort_item *right = items + mid;
            const struct sort_item *right_end = items + end;
            struct sort_item *out = items + at;
            while (left < left_end && right < right_end) {
                *out++ = item_less(right, left) ? *right++ : *left++;
            }
            memcpy(out, left, (size_t)(left_end - left) * sizeof *out);
        }
    }
}
