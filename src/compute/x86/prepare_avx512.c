/* SPDX-License-Identifier: MIT
 * Quantised activations, AVX-512: docs/arithmetic.md, section 3. */
#include "compute/x86/avx512.h"

INLINE uint32_t highest_bits(const float *x, uint32_t n)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i bits = _mm512_setzero_si512();
    for (uint32_t i = 0; i < n; i += 16) {
        bits = _mm512_max_epu32(bits, _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x + i)), magnitude));
    }
    return _mm512_reduce_max_epu32(bits);
}

INLINE int16_t quantise_16(const float *x, float factor, bool usable, unsigned char *quants)
{
    __m512i q = _mm512_cvtps_epi32(vec_mul(vec_load(x), vec_set(factor)));
    q = usable ? q : _mm512_setzero_si512();
    _mm_storeu_si128((void *)quants, _mm512_cvtepi32_epi8(q));
    return (int16_t)_mm512_reduce_add_epi32(q);
}

#include "compute/prepare_loop.h"
