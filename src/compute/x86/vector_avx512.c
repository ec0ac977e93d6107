/* SPDX-License-Identifier: MIT
 * Kernels over one vector, AVX-512: docs/arithmetic.md, sections 4 and 5. Tails are masked. */
#include <math.h>

#include "compute/x86/avx512.h"

void avx512_rmsnorm(const float *x, const float *weight, float eps, float *out, uint32_t n)
{
    __m512 sum = _mm512_setzero_ps();
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        sum = _mm512_mask3_fmadd_ps(v, v, sum, mask);
    }
    __m512 r = _mm512_set1_ps(1.0f / sqrtf(tree_sum(sum) / (float)n + eps));
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), r);
        _mm512_mask_storeu_ps(out + i, mask, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, weight + i)));
    }
}

static void rope_halves(float *x, const float *cosines, const float *sines, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i += 16) {
        __mmask16 mask = mask_of(pairs - i);
        __m512 c = _mm512_maskz_loadu_ps(mask, cosines + i);
        __m512 s = _mm512_maskz_loadu_ps(mask, sines + i);
        __m512 x0 = _mm512_maskz_loadu_ps(mask, x + i);
        __m512 x1 = _mm512_maskz_loadu_ps(mask, x + pairs + i);
        _mm512_mask_storeu_ps(x + i, mask, _mm512_fmsub_ps(x0, c, _mm512_mul_ps(x1, s)));
        _mm512_mask_storeu_ps(x + pairs + i, mask, _mm512_fmadd_ps(x1, c, _mm512_mul_ps(x0, s)));
    }
}

static void rope_neighbours(float *x, const float *cosines, const float *sines, uint32_t pairs)
{
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    for (uint32_t i = 0; i < pairs; i += 8) {
        __mmask16 mask = mask_of((uint64_t)(pairs - i) * 2);
        __mmask16 half = (__mmask16)(mask_of(pairs - i) & 0xff);
        __m512 c = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(half, cosines + i));
        __m512 s = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(half, sines + i));
        __m512 v = _mm512_maskz_loadu_ps(mask, x + (size_t)i * 2);
        __m512 swapped = _mm512_permute_ps(v, 0xb1);
        /* Even elements subtract: x0 c - x1 s; odd ones add: x1 c + x0 s. */
        v = _mm512_fmaddsub_ps(v, c, _mm512_mul_ps(swapped, s));
        _mm512_mask_storeu_ps(x + (size_t)i * 2, mask, v);
    }
}

void avx512_rope(float *x, const float *cosines, const float *sines, uint32_t rotary, bool half)
{
    if (half) {
        rope_halves(x, cosines, sines, rotary / 2);
    } else {
        rope_neighbours(x, cosines, sines, rotary / 2);
    }
}

void avx512_silu_mul(const float *gate, const float *up, float *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        __m512 g = _mm512_maskz_loadu_ps(mask, gate + i);
        __m512 silu = _mm512_mul_ps(g, sigmoid_x16(g));
        _mm512_mask_storeu_ps(out + i, mask, _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(mask, up + i)));
    }
}

void avx512_add(float *x, const float *y, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        __m512 v = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_maskz_loadu_ps(mask, y + i));
        _mm512_mask_storeu_ps(x + i, mask, v);
    }
}

void avx512_add_scaled(float *x, const float *y, float scale, uint64_t n)
{
    const __m512 s = _mm512_set1_ps(scale);
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        v = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, y + i), s, v);
        _mm512_mask_storeu_ps(x + i, mask, v);
    }
}

void avx512_scale(float *x, float scale, uint64_t n)
{
    const __m512 s = _mm512_set1_ps(scale);
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        _mm512_mask_storeu_ps(x + i, mask, _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), s));
    }
}

void avx512_clamp(float *x, float limit, uint64_t n)
{
    const __m512 high = _mm512_set1_ps(limit);
    const __m512 low = _mm512_set1_ps(-limit);
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        __m512 v = _mm512_min_ps(high, _mm512_maskz_loadu_ps(mask, x + i));
        _mm512_mask_storeu_ps(x + i, mask, _mm512_max_ps(low, v));
    }
}

void avx512_softmax(float *x, uint32_t n)
{
    __m512 highest = _mm512_set1_ps(-INFINITY);
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        highest = _mm512_mask_max_ps(highest, mask, _mm512_maskz_loadu_ps(mask, x + i), highest);
    }
    const __m512 max = _mm512_set1_ps(tree_max(highest));
    __m512 sum = _mm512_setzero_ps();
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        __m512 e = exp_x16(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), max));
        sum = _mm512_mask_add_ps(sum, mask, sum, e);
        _mm512_mask_storeu_ps(x + i, mask, e);
    }
    const __m512 total = _mm512_set1_ps(tree_sum(sum));
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        _mm512_mask_storeu_ps(x + i, mask, _mm512_div_ps(_mm512_maskz_loadu_ps(mask, x + i), total));
    }
}

void avx512_sigmoid(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        _mm512_mask_storeu_ps(x + i, mask, sigmoid_x16(_mm512_maskz_loadu_ps(mask, x + i)));
    }
}

void avx512_to_f16(const float *x, uint16_t *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_of(n - i);
        __m256i half = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm256_mask_storeu_epi16(out + i, mask, half);
    }
}
