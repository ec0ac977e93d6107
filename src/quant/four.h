/* SPDX-License-Identifier: MIT
 * Four floats at a time for the searches of the writers: SSE2, which every x86-64 has, or plain C with the same bits.
 */
#ifndef QUANT_FOUR_H
#define QUANT_FOUR_H

#if defined(__SSE2__)
#include <emmintrin.h>

typedef __m128 four;

static inline four four_load(const float *p)
{
    return _mm_loadu_ps(p);
}
static inline void four_store(float *p, four v)
{
    _mm_storeu_ps(p, v);
}
static inline four four_all(float v)
{
    return _mm_set1_ps(v);
}
static inline four four_add(four a, four b)
{
    return _mm_add_ps(a, b);
}
static inline four four_subtract(four a, four b)
{
    return _mm_sub_ps(a, b);
}
static inline four four_multiply(four a, four b)
{
    return _mm_mul_ps(a, b);
}
/* b where a is NaN */
static inline four four_min(four a, four b)
{
    return _mm_min_ps(a, b);
}
static inline four four_max(four a, four b)
{
    return _mm_max_ps(a, b);
}
/* value where a > b, 0 elsewhere */
static inline four four_where_over(four a, four b, four value)
{
    return _mm_and_ps(_mm_cmpgt_ps(a, b), value);
}

#else

typedef struct {
    float v[4];
} four;

#define FOUR_EACH(expression)     \
    four r;                       \
    for (int i = 0; i < 4; i++) { \
        r.v[i] = (expression);    \
    }                             \
    return r

static inline four four_load(const float *p)
{
    FOUR_EACH(p[i]);
}
static inline void four_store(float *p, four v)
{
    for (int i = 0; i < 4; i++) {
        p[i] = v.v[i];
    }
}
static inline four four_all(float v)
{
    FOUR_EACH(v);
}
static inline four four_add(four a, four b)
{
    FOUR_EACH(a.v[i] + b.v[i]);
}
static inline four four_subtract(four a, four b)
{
    FOUR_EACH(a.v[i] - b.v[i]);
}
static inline four four_multiply(four a, four b)
{
    FOUR_EACH(a.v[i] * b.v[i]);
}
static inline four four_min(four a, four b)
{
    FOUR_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}
static inline four four_max(four a, four b)
{
    FOUR_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
static inline four four_where_over(four a, four b, four value)
{
    FOUR_EACH(a.v[i] > b.v[i] ? value.v[i] : 0.0f);
}

#endif

/* Nearest integer, ties to even, of values that have been limited to some hundreds. */
static inline four four_nearest(four v)
{
    const four big = four_all(0x1.8p23f);
    return four_subtract(four_add(v, big), big);
}

static inline float four_total(four a)
{
    float v[4];
    four_store(v, a);
    return (v[0] + v[2]) + (v[1] + v[3]);
}

#endif
