/* SPDX-License-Identifier: MIT
 * Quantised activations, AVX2: docs/arithmetic.md, section 3. */
#include "compute/x86/avx2.h"

INLINE uint32_t highest_u32(__m256i v)
{
    __m128i a = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    a = _mm_max_epu32(a, _mm_shuffle_epi32(a, 0x4e));
    a = _mm_max_epu32(a, _mm_shuffle_epi32(a, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(a);
}

INLINE int32_t total_i32(__m256i v)
{
    __m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1));
    return _mm_cvtsi128_si32(a);
}

INLINE uint32_t highest_bits(const float *x, uint32_t n)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i bits = _mm256_setzero_si256();
    for (uint32_t i = 0; i < n; i += 8) {
        bits = _mm256_max_epu32(bits, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + i)), magnitude));
    }
    return highest_u32(bits);
}

INLINE int16_t quantise_16(const float *x, float factor, bool usable, unsigned char *quants)
{
    __m256i q[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    UNROLLED(h, 2)
    {
        __m256i rounded = _mm256_cvtps_epi32(vec_mul(vec_load(x + 8 * h), vec_set(factor)));
        q[h] = usable ? rounded : q[h];
    }
    /* Packing works within 128-bit halves. */
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((void *)quants, bytes);
    return (int16_t)total_i32(_mm256_add_epi32(q[0], q[1]));
}

#include "compute/prepare_loop.h"
