/* SPDX-License-Identifier: MIT
 * The vectors (compute/vec_math.h) of the AVX-512 row; one register holds the 16 virtual lanes. Included by *_avx512.c
 * only. */
#ifndef COMPUTE_X86_AVX512_H
#define COMPUTE_X86_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "base/bytes.h"
#include "compute/rows.h"
#include "compute/unroll.h"

#define ROW(name) avx512_##name

typedef __m512 vec;
typedef __mmask16 vec_choice;
enum { VEC = 16, LANE_VECS = 1 };

INLINE vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}

INLINE vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

INLINE void vec_store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

INLINE vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

INLINE vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

INLINE vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

INLINE vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

INLINE vec vec_fms(vec a, vec b, vec c)
{
    return _mm512_fmsub_ps(a, b, c);
}

INLINE vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

INLINE vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

/* ---- some of the elements ---- */

INLINE vec_choice vec_first(uint64_t count)
{
    uint32_t bits = count >= VEC ? 0xffffu : (1u << count) - 1u;
    return (__mmask16)bits;
}

INLINE vec_choice vec_between(uint64_t begin, uint64_t end)
{
    return (__mmask16)(vec_first(end) & ~(uint32_t)vec_first(begin));
}

INLINE vec vec_keep(vec before, vec now, vec_choice chosen)
{
    return _mm512_mask_mov_ps(before, chosen, now);
}

INLINE vec vec_load_some(const float *p, uint64_t left)
{
    return _mm512_maskz_loadu_ps(vec_first(left), p);
}

INLINE void vec_store_some(float *p, uint64_t left, vec v)
{
    _mm512_mask_storeu_ps(p, vec_first(left), v);
}

/* ---- stored floats, from any address; masked elements are not touched and read as 0 ---- */

INLINE vec vec_from_f32(const unsigned char *p)
{
    return _mm512_loadu_ps(p);
}

INLINE vec vec_from_f32_some(const unsigned char *p, __mmask16 mask)
{
    return _mm512_maskz_loadu_ps(mask, p);
}

INLINE vec vec_from_f16(const unsigned char *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

INLINE vec vec_from_f16_some(const unsigned char *p, __mmask16 mask)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p));
}

INLINE vec widen_bf16(__m256i v)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}

INLINE vec vec_from_bf16(const unsigned char *p)
{
    return widen_bf16(_mm256_loadu_si256((const void *)p));
}

INLINE vec vec_from_bf16_some(const unsigned char *p, __mmask16 mask)
{
    return widen_bf16(_mm256_maskz_loadu_epi16(mask, p));
}

/* ---- the fixed trees ---- */

INLINE float tree_sum(const vec lane[LANE_VECS])
{
    __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(lane[0]), _mm512_extractf32x8_ps(lane[0], 1));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* MAXPS a, b is a > b ? a : b: exactly the page's MAX. */
INLINE float tree_max(const vec lane[LANE_VECS])
{
    __m256 s8 = _mm256_max_ps(_mm512_extractf32x8_ps(lane[0], 1), _mm512_castps512_ps256(lane[0]));
    __m128 s4 = _mm_max_ps(_mm256_extractf128_ps(s8, 1), _mm256_castps256_ps128(s8));
    __m128 s2 = _mm_max_ps(_mm_movehl_ps(s4, s4), s4);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(s2), s2));
}

/* Four trees at once: element i of the result is the tree of v[i]. */
INLINE __m128 tree_sum4(const __m512 v[4])
{
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));
    __m512 s4 = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    __m512 s2 = _mm512_add_ps(s4, _mm512_permute_ps(s4, 0x4e));
    __m512 s1 = _mm512_add_ps(s2, _mm512_permute_ps(s2, 0xb1));
    const __m512i firsts = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, s1));
}

/* ---- parts of exp and sigmoid ---- */

INLINE __m512 power_of_two(__m512i n)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}

INLINE vec vec_times_two_to(vec p, vec t, vec magic)
{
    __m512i whole = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_castps_si512(magic));
    __m512i half = _mm512_srai_epi32(whole, 1);
    return vec_mul(vec_mul(p, power_of_two(half)), power_of_two(_mm512_sub_epi32(whole, half)));
}

INLINE vec vec_minus_magnitude(vec x)
{
    return _mm512_or_ps(x, vec_set(-0.0f));
}

INLINE vec vec_if_not_negative(vec x, vec yes, vec no)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GE_OQ), no, yes);
}

#include "compute/vec_math.h"

#endif
