/* SPDX-License-Identifier: MIT
 * Stable sort of an index array: no allocation, no recursion, n log n in the worst case, linear on sorted input. */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stdint.h>

/* Less than, equal to or greater than zero, for the items with indices a and b. */
typedef int sort_compare_fn(const void *user, uint32_t a, uint32_t b);

/* Fills order[count] with 0..count-1 in ascending order of the items. spare[count] is work space. */
void sort_order(uint32_t *order, uint32_t *spare, uint32_t count, sort_compare_fn *compare, const void *user);

#endif
