/* SPDX-License-Identifier: MIT
 * Sizes that come from input are added and multiplied only through these: true on overflow, like the compiler builtins.
 */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool u64_add_overflows(uint64_t a, uint64_t b, uint64_t *sum)
{
    return __builtin_add_overflow(a, b, sum);
}

static inline bool u64_mul_overflows(uint64_t a, uint64_t b, uint64_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

/* Rounds up to a power of two `align`; true when the result does not fit. */
static inline bool u64_round_up_overflows(uint64_t value, uint64_t align, uint64_t *rounded)
{
    if (__builtin_add_overflow(value, align - 1, rounded)) {
        return true;
    }
    *rounded &= ~(align - 1);
    return false;
}

/* For values known to be far from the limit. */
static inline size_t size_round_up(size_t value, size_t align)
{
    return (value + (align - 1)) & ~(align - 1);
}

#endif
