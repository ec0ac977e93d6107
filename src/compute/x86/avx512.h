/* SPDX-License-Identifier: MIT
 * Building blocks of the AVX-512 row; one register holds the 16 virtual lanes. Included by *_avx512.c only. */
#ifndef COMPUTE_X86_AVX512_H
#define COMPUTE_X86_AVX512_H

#include <immintrin.h>

#include "compute/kernels.h"
#include "compute/unroll.h"

void avx512_matmul_f32(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
void avx512_matmul_f16(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
void avx512_matmul_bf16(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
void avx512_prepare_q8(const float *x, void *out, uint32_t k);
void avx512_prepare_q8_super(const float *x, void *out, uint32_t k);
void avx512_rmsnorm(const float *x, const float *weight, float eps, float *out, uint32_t n);
void avx512_rope(float *x, const float *cosines, const float *sines, uint32_t rotary, bool half);
void avx512_silu_mul(const float *gate, const float *up, float *out, uint64_t n);
void avx512_add(float *x, const float *y, uint64_t n);
void avx512_add_scaled(float *x, const float *y, float scale, uint64_t n);
void avx512_scale(float *x, float scale, uint64_t n);
void avx512_clamp(float *x, float limit, uint64_t n);
void avx512_softmax(float *x, uint32_t n);
void avx512_sigmoid(float *x, uint32_t n);
void avx512_to_f16(const float *x, uint16_t *out, uint64_t n);
void avx512_attend(const struct attend *a);

/* Mask of the elements that exist in a group of 16 of which `left` remain. */
INLINE __mmask16 mask_of(uint64_t left)
{
    uint32_t bits = left >= 16 ? 0xffffu : (1u << left) - 1u;
    return (__mmask16)bits;
}

/* ---- 16 stored floats to binary32; masked elements are not touched and read as 0 ---- */

INLINE __m512 load_f32x16(const unsigned char *p)
{
    return _mm512_loadu_ps(p);
}

INLINE __m512 load_f32x16_some(const unsigned char *p, __mmask16 mask)
{
    return _mm512_maskz_loadu_ps(mask, p);
}

INLINE __m512 load_f16x16(const unsigned char *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

INLINE __m512 load_f16x16_some(const unsigned char *p, __mmask16 mask)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p));
}

INLINE __m512 widen_bf16(__m256i v)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}

INLINE __m512 load_bf16x16(const unsigned char *p)
{
    return widen_bf16(_mm256_loadu_si256((const void *)p));
}

INLINE __m512 load_bf16x16_some(const unsigned char *p, __mmask16 mask)
{
    return widen_bf16(_mm256_maskz_loadu_epi16(mask, p));
}

/* ---- the fixed trees ---- */

INLINE float tree_sum(__m512 v)
{
    __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* MAXPS a, b is a > b ? a : b: exactly the page's MAX. */
INLINE float tree_max(__m512 v)
{
    __m256 s8 = _mm256_max_ps(_mm512_extractf32x8_ps(v, 1), _mm512_castps512_ps256(v));
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

/* ---- exp and its relatives: docs/arithmetic.md, section 4 ---- */

INLINE __m512 power_of_two(__m512i n)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}

INLINE __m512 exp_x16(__m512 x)
{
    const __m512 magic = _mm512_set1_ps(0x1.8p23f);
    x = _mm512_min_ps(_mm512_set1_ps(89.0f), x);
    x = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
    __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(0x1.715476p+0f), magic);
    __m512 n = _mm512_sub_ps(t, magic);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62e43p-1f), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(0x1.05c61p-29f), r);
    __m512 p = _mm512_set1_ps(0x1.6a2434p-10f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.1239e2p-7f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.5558f2p-5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555492p-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.fffffcp-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    __m512i whole = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_castps_si512(magic));
    __m512i half = _mm512_srai_epi32(whole, 1);
    return _mm512_mul_ps(_mm512_mul_ps(p, power_of_two(half)), power_of_two(_mm512_sub_epi32(whole, half)));
}

INLINE __m512 sigmoid_x16(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    __m512 e = exp_x16(_mm512_or_ps(x, _mm512_set1_ps(-0.0f)));
    __mmask16 positive = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GE_OQ);
    return _mm512_div_ps(_mm512_mask_blend_ps(positive, e, one), _mm512_add_ps(one, e));
}

#endif
