/* SPDX-License-Identifier: MIT
 * Quantised activations, AVX-512: docs/arithmetic.md, section 3. */
#include "base/bytes.h"
#include "compute/x86/avx512.h"

INLINE void prepare(const float *x, void *out, uint32_t k, uint32_t unit)
{
    unsigned char *quants = out;
    unsigned char *scales = quants + k;
    unsigned char *sums = scales + (size_t)k / unit * sizeof(float);
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    for (uint32_t at = 0; at < k; at += unit) {
        __m512i bits = _mm512_setzero_si512();
        for (uint32_t i = 0; i < unit; i += 16) {
            __m512i v = _mm512_castps_si512(_mm512_loadu_ps(x + at + i));
            bits = _mm512_max_epu32(bits, _mm512_and_si512(v, magnitude));
        }
        uint32_t largest_bits = _mm512_reduce_max_epu32(bits);
        float largest = f32_from_bits(largest_bits);
        bool finite = largest_bits < 0x7f800000u;
        bool usable = finite && largest >= 0x1p-100f;
        float scale = usable ? largest / 127.0f : finite ? 0.0f : f32_from_bits(0x7fc00000u);
        memcpy(scales + (size_t)at / unit * 4, &scale, sizeof scale);
        const __m512 factor = _mm512_set1_ps(usable ? 127.0f / largest : 0.0f);
        for (uint32_t i = 0; i < unit; i += 16) {
            __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + at + i), factor));
            q = usable ? q : _mm512_setzero_si512();
            int16_t sum = (int16_t)_mm512_reduce_add_epi32(q);
            _mm_storeu_si128((void *)(quants + at + i), _mm512_cvtepi32_epi8(q));
            memcpy(sums + (size_t)(at + i) / ACT_SUM_VALUES * 2, &sum, sizeof sum);
        }
    }
}

void avx512_prepare_q8(const float *x, void *out, uint32_t k)
{
    prepare(x, out, k, ACT_Q8_UNIT);
}

void avx512_prepare_q8_super(const float *x, void *out, uint32_t k)
{
    prepare(x, out, k, ACT_Q8_SUPER_UNIT);
}
