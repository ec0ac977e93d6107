/* SPDX-License-Identifier: MIT
 * Two hints that register tiles depend on: constant loops must disappear, so that arrays of vectors become registers.
 */
#ifndef COMPUTE_UNROLL_H
#define COMPUTE_UNROLL_H

#if defined(__clang__)
#define UNROLLED(i, n) _Pragma("clang loop unroll(full)") for (int i = 0; i < (n); i++)
#define INLINE static inline __attribute__((always_inline))
#elif defined(__GNUC__)
#define UNROLLED(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
#define INLINE static inline __attribute__((always_inline))
#else
#define UNROLLED(i, n) for (int i = 0; i < (n); i++)
#define INLINE static inline
#endif

#endif
