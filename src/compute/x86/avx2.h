/* SPDX-License-Identifier: MIT
 * The vectors (compute/vec_math.h) of the AVX2 row, with FMA and F16C; two registers hold the 16 virtual lanes, lanes
 * 0-7 and 8-15. Included by *_avx2.c only. */
#ifndef COMPUTE_X86_AVX2_H
#define COMPUTE_X86_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "base/bytes.h"
#include "compute/rows.h"
#include "compute/unroll.h"

#define ROW(name) avx2_##name

typedef __m256 vec;
typedef __m256i vec_choice;
enum { VEC = 8, LANE_VECS = 2 };

INLINE vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}

INLINE vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

INLINE void vec_store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

INLINE vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

INLINE vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

INLINE vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

INLINE vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

INLINE vec vec_fms(vec a, vec b, vec c)
{
    return _mm256_fmsub_ps(a, b, c);
}

INLINE vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

INLINE vec vec_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

/* ---- some of the elements ---- */

INLINE vec_choice vec_first(uint64_t count)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count < VEC ? (int)count : VEC), index);
}

INLINE vec_choice vec_between(uint64_t begin, uint64_t end)
{
    return _mm256_andnot_si256(vec_first(begin), vec_first(end));
}

INLINE vec vec_keep(vec before, vec now, vec_choice chosen)
{
    return _mm256_blendv_ps(before, now, _mm256_castsi256_ps(chosen));
}

INLINE vec vec_load_some(const float *p, uint64_t left)
{
    return _mm256_maskload_ps(p, vec_first(left));
}

INLINE void vec_store_some(float *p, uint64_t left, vec v)
{
    _mm256_maskstore_ps(p, vec_first(left), v);
}

/* ---- stored floats, from any address ---- */

INLINE vec vec_from_f32(const unsigned char *p)
{
    return _mm256_loadu_ps((const float *)(const void *)p);
}

INLINE vec vec_from_f16(const unsigned char *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

INLINE vec vec_from_bf16(const unsigned char *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16));
}

/* ---- the fixed trees ---- */

INLINE float tree_sum(const vec lane[LANE_VECS])
{
    __m256 s8 = _mm256_add_ps(lane[0], lane[1]);
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* MAXPS a, b is a > b ? a : b: exactly the page's MAX. */
INLINE float tree_max(const vec lane[LANE_VECS])
{
    __m256 s8 = _mm256_max_ps(lane[1], lane[0]);
    __m128 s4 = _mm_max_ps(_mm256_extractf128_ps(s8, 1), _mm256_castps256_ps128(s8));
    __m128 s2 = _mm_max_ps(_mm_movehl_ps(s4, s4), s4);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(s2), s2));
}

/* ---- parts of exp and sigmoid ---- */

INLINE __m256 power_of_two(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

INLINE vec vec_times_two_to(vec p, vec t, vec magic)
{
    __m256i whole = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(magic));
    __m256i half = _mm256_srai_epi32(whole, 1);
    return vec_mul(vec_mul(p, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
}

INLINE vec vec_minus_magnitude(vec x)
{
    return _mm256_or_ps(x, vec_set(-0.0f));
}

INLINE vec vec_if_not_negative(vec x, vec yes, vec no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GE_OQ));
}

#include "compute/vec_math.h"

#endif
