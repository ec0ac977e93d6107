/* SPDX-License-Identifier: MIT
 * Building blocks of the AVX2 row (with FMA and F16C); two registers hold the 16 virtual lanes, lanes 0-7 and 8-15.
 * Included by *_avx2.c only. */
#ifndef COMPUTE_X86_AVX2_H
#define COMPUTE_X86_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "compute/kernels.h"
#include "compute/unroll.h"

void avx2_matmul_f32(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
void avx2_matmul_f16(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
void avx2_matmul_bf16(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
void avx2_prepare_q8(const float *x, void *out, uint32_t k);
void avx2_prepare_q8_super(const float *x, void *out, uint32_t k);
void avx2_rmsnorm(const float *x, const float *weight, float eps, float *out, uint32_t n);
void avx2_rope(float *x, const float *cosines, const float *sines, uint32_t rotary, bool half);
void avx2_silu_mul(const float *gate, const float *up, float *out, uint64_t n);
void avx2_add(float *x, const float *y, uint64_t n);
void avx2_add_scaled(float *x, const float *y, float scale, uint64_t n);
void avx2_scale(float *x, float scale, uint64_t n);
void avx2_clamp(float *x, float limit, uint64_t n);
void avx2_softmax(float *x, uint32_t n);
void avx2_sigmoid(float *x, uint32_t n);
void avx2_to_f16(const float *x, uint16_t *out, uint64_t n);
void avx2_attend(const struct attend *a);

/* ---- groups of 8, of which `left` exist (0..8 and more) ---- */

INLINE __m256i mask8(uint64_t left)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(left < 8 ? (int)left : 8), index);
}

/* Absent elements are not touched and read as 0. */
INLINE __m256 load_some8(const float *p, __m256i mask)
{
    return _mm256_maskload_ps(p, mask);
}

INLINE void store_some8(float *p, __m256i mask, __m256 v)
{
    _mm256_maskstore_ps(p, mask, v);
}

/* `now` where the element exists, else `before`. */
INLINE __m256 keep8(__m256 before, __m256 now, __m256i mask)
{
    return _mm256_blendv_ps(before, now, _mm256_castsi256_ps(mask));
}

/* ---- 8 stored floats to binary32 ---- */

INLINE __m256 load_f32x8(const unsigned char *p)
{
    return _mm256_loadu_ps((const float *)(const void *)p);
}

INLINE __m256 load_f16x8(const unsigned char *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

INLINE __m256 load_bf16x8(const unsigned char *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16));
}

/* ---- the fixed trees ---- */

INLINE float tree_sum8(__m256 s8)
{
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

INLINE float tree_sum(__m256 low, __m256 high)
{
    return tree_sum8(_mm256_add_ps(low, high));
}

/* MAXPS a, b is a > b ? a : b: exactly the page's MAX. */
INLINE float tree_max(__m256 low, __m256 high)
{
    __m256 s8 = _mm256_max_ps(high, low);
    __m128 s4 = _mm_max_ps(_mm256_extractf128_ps(s8, 1), _mm256_castps256_ps128(s8));
    __m128 s2 = _mm_max_ps(_mm_movehl_ps(s4, s4), s4);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(s2), s2));
}

/* ---- exp and its relatives: docs/arithmetic.md, section 4 ---- */

INLINE __m256 power_of_two(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

INLINE __m256 exp_x8(__m256 x)
{
    const __m256 magic = _mm256_set1_ps(0x1.8p23f);
    x = _mm256_min_ps(_mm256_set1_ps(89.0f), x);
    x = _mm256_max_ps(_mm256_set1_ps(-104.0f), x);
    __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(0x1.715476p+0f), magic);
    __m256 n = _mm256_sub_ps(t, magic);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.62e43p-1f), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(0x1.05c61p-29f), r);
    __m256 p = _mm256_set1_ps(0x1.6a2434p-10f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.1239e2p-7f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.5558f2p-5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555492p-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.fffffcp-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i whole = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(magic));
    __m256i half = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(p, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
}

INLINE __m256 sigmoid_x8(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 e = exp_x8(_mm256_or_ps(x, _mm256_set1_ps(-0.0f)));
    __m256 positive = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GE_OQ);
    return _mm256_div_ps(_mm256_blendv_ps(e, one, positive), _mm256_add_ps(one, e));
}

#endif
