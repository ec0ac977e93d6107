/* SPDX-License-Identifier: MIT
 * Stable sorts: no allocation, no recursion, n log n in the worst case, linear on sorted input. */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stdint.h>

/* Less than, equal to or greater than zero, for the items with indices a and b. */
typedef int sort_compare_fn(const void *user, uint32_t a, uint32_t b);

/* Fills order[count] with 0..count-1 in ascending order of the items. spare[count] is work space. */
void sort_order(uint32_t *order, uint32_t *spare, uint32_t count, sort_compare_fn *compare, const void *user);

/* The same for items whose order fits in numbers: by key, then by minor. Several times faster than sort_order(), as
 * nothing but the items is touched. */
struct sort_item {
    uint64_t key;
    uint32_t minor;
    uint32_t index; /* the caller's */
};
void sort_items(struct sort_item *items, struct sort_item *spare, uint32_t count);

#endif
