/* SPDX-License-Identifier: MIT
 * Kernels over one vector, AVX2: docs/arithmetic.md, sections 4 and 5. Tails are masked. */
#include <math.h>

#include "compute/x86/avx2.h"

/* Sums and maxima go through the 16 lanes as two halves h = 0, 1: elements i + 8h .. of a group of 16. */
#define HALVES(i, n) UNROLLED(h, 2) if ((uint64_t)(i) + (uint64_t)h * 8 < (n))

void avx2_rmsnorm(const float *x, const float *weight, float eps, float *out, uint32_t n)
{
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (uint64_t i = 0; i < n; i += 16) {
        HALVES(i, n)
        {
            uint64_t at = i + (uint64_t)h * 8;
            __m256i mask = mask8(n - at);
            __m256 v = load_some8(x + at, mask);
            sum[h] = _mm256_fmadd_ps(v, v, sum[h]); /* absent: + 0 to a sum that is no -0 */
        }
    }
    const __m256 r = _mm256_set1_ps(1.0f / sqrtf(tree_sum(sum[0], sum[1]) / (float)n + eps));
    for (uint64_t i = 0; i < n; i += 8) {
        __m256i mask = mask8(n - i);
        __m256 v = _mm256_mul_ps(load_some8(x + i, mask), r);
        store_some8(out + i, mask, _mm256_mul_ps(v, load_some8(weight + i, mask)));
    }
}

static void rope_halves(float *x, const float *cosines, const float *sines, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i += 8) {
        __m256i mask = mask8(pairs - i);
        __m256 c = load_some8(cosines + i, mask);
        __m256 s = load_some8(sines + i, mask);
        __m256 x0 = load_some8(x + i, mask);
        __m256 x1 = load_some8(x + pairs + i, mask);
        store_some8(x + i, mask, _mm256_fmsub_ps(x0, c, _mm256_mul_ps(x1, s)));
        store_some8(x + pairs + i, mask, _mm256_fmadd_ps(x1, c, _mm256_mul_ps(x0, s)));
    }
}

static void rope_neighbours(float *x, const float *cosines, const float *sines, uint32_t pairs)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    for (uint32_t i = 0; i < pairs; i += 4) {
        __m256i mask = mask8((uint64_t)(pairs - i) * 2);
        __m256i half = mask8(pairs - i < 4 ? pairs - i : 4);
        __m256 c = _mm256_permutevar8x32_ps(load_some8(cosines + i, half), twice);
        __m256 s = _mm256_permutevar8x32_ps(load_some8(sines + i, half), twice);
        __m256 v = load_some8(x + (size_t)i * 2, mask);
        __m256 swapped = _mm256_permute_ps(v, 0xb1);
        /* Even elements subtract: x0 c - x1 s; odd ones add: x1 c + x0 s. */
        store_some8(x + (size_t)i * 2, mask, _mm256_fmaddsub_ps(v, c, _mm256_mul_ps(swapped, s)));
    }
}

void avx2_rope(float *x, const float *cosines, const float *sines, uint32_t rotary, bool half)
{
    if (half) {
        rope_halves(x, cosines, sines, rotary / 2);
    } else {
        rope_neighbours(x, cosines, sines, rotary / 2);
    }
}

void avx2_silu_mul(const float *gate, const float *up, float *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        __m256i mask = mask8(n - i);
        __m256 g = load_some8(gate + i, mask);
        __m256 silu = _mm256_mul_ps(g, sigmoid_x8(g));
        store_some8(out + i, mask, _mm256_mul_ps(silu, load_some8(up + i, mask)));
    }
}

void avx2_add(float *x, const float *y, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        __m256i mask = mask8(n - i);
        store_some8(x + i, mask, _mm256_add_ps(load_some8(x + i, mask), load_some8(y + i, mask)));
    }
}

void avx2_add_scaled(float *x, const float *y, float scale, uint64_t n)
{
    const __m256 s = _mm256_set1_ps(scale);
    for (uint64_t i = 0; i < n; i += 8) {
        __m256i mask = mask8(n - i);
        store_some8(x + i, mask, _mm256_fmadd_ps(load_some8(y + i, mask), s, load_some8(x + i, mask)));
    }
}

void avx2_scale(float *x, float scale, uint64_t n)
{
    const __m256 s = _mm256_set1_ps(scale);
    for (uint64_t i = 0; i < n; i += 8) {
        __m256i mask = mask8(n - i);
        store_some8(x + i, mask, _mm256_mul_ps(load_some8(x + i, mask), s));
    }
}

void avx2_clamp(float *x, float limit, uint64_t n)
{
    const __m256 high = _mm256_set1_ps(limit);
    const __m256 low = _mm256_set1_ps(-limit);
    for (uint64_t i = 0; i < n; i += 8) {
        __m256i mask = mask8(n - i);
        store_some8(x + i, mask, _mm256_max_ps(low, _mm256_min_ps(high, load_some8(x + i, mask))));
    }
}

void avx2_softmax(float *x, uint32_t n)
{
    __m256 highest[2] = {_mm256_set1_ps(-INFINITY), _mm256_set1_ps(-INFINITY)};
    for (uint64_t i = 0; i < n; i += 16) {
        HALVES(i, n)
        {
            uint64_t at = i + (uint64_t)h * 8;
            __m256i mask = mask8(n - at);
            highest[h] = keep8(highest[h], _mm256_max_ps(load_some8(x + at, mask), highest[h]), mask);
        }
    }
    const __m256 max = _mm256_set1_ps(tree_max(highest[0], highest[1]));
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (uint64_t i = 0; i < n; i += 16) {
        HALVES(i, n)
        {
            uint64_t at = i + (uint64_t)h * 8;
            __m256i mask = mask8(n - at);
            __m256 e = exp_x8(_mm256_sub_ps(load_some8(x + at, mask), max));
            sum[h] = keep8(sum[h], _mm256_add_ps(sum[h], e), mask);
            store_some8(x + at, mask, e);
        }
    }
    const __m256 total = _mm256_set1_ps(tree_sum(sum[0], sum[1]));
    for (uint64_t i = 0; i < n; i += 8) {
        __m256i mask = mask8(n - i);
        store_some8(x + i, mask, _mm256_div_ps(load_some8(x + i, mask), total));
    }
}

void avx2_sigmoid(float *x, uint32_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        __m256i mask = mask8(n - i);
        store_some8(x + i, mask, sigmoid_x8(load_some8(x + i, mask)));
    }
}

void avx2_to_f16(const float *x, uint16_t *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        uint64_t left = n - i;
        __m128i half = _mm256_cvtps_ph(load_some8(x + i, mask8(left)), _MM_FROUND_TO_NEAREST_INT);
        if (left >= 8) {
            _mm_storeu_si128((void *)(out + i), half);
        } else {
            memcpy(out + i, &half, left * sizeof *out);
        }
    }
}
