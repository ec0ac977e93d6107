/* SPDX-License-Identifier: MIT
 * Quantised activations, AVX2: docs/arithmetic.md, section 3. */
#include "base/bytes.h"
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

INLINE void prepare(const float *x, void *out, uint32_t k, uint32_t unit)
{
    unsigned char *quants = out;
    unsigned char *scales = quants + k;
    unsigned char *sums = scales + (size_t)k / unit * sizeof(float);
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    for (uint32_t at = 0; at < k; at += unit) {
        __m256i bits = _mm256_setzero_si256();
        for (uint32_t i = 0; i < unit; i += 8) {
            __m256i v = _mm256_castps_si256(_mm256_loadu_ps(x + at + i));
            bits = _mm256_max_epu32(bits, _mm256_and_si256(v, magnitude));
        }
        uint32_t largest_bits = highest_u32(bits);
        float largest = f32_from_bits(largest_bits);
        bool finite = largest_bits < 0x7f800000u;
        bool usable = finite && largest >= 0x1p-100f;
        float scale = usable ? largest / 127.0f : finite ? 0.0f : f32_from_bits(0x7fc00000u);
        memcpy(scales + (size_t)at / unit * 4, &scale, sizeof scale);
        const __m256 factor = _mm256_set1_ps(usable ? 127.0f / largest : 0.0f);
        for (uint32_t i = at; i < at + unit; i += 16) {
            __m256i q[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
            UNROLLED(h, 2)
            {
                __m256i rounded = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8 * h), factor));
                q[h] = usable ? rounded : q[h];
            }
            /* Packing works within 128-bit halves. */
            __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xd8);
            __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
            _mm_storeu_si128((void *)(quants + i), bytes);
            int16_t sum = (int16_t)total_i32(_mm256_add_epi32(q[0], q[1]));
            memcpy(sums + (size_t)i / ACT_SUM_VALUES * 2, &sum, sizeof sum);
        }
    }
}

void avx2_prepare_q8(const float *x, void *out, uint32_t k)
{
    prepare(x, out, k, ACT_Q8_UNIT);
}

void avx2_prepare_q8_super(const float *x, void *out, uint32_t k)
{
    prepare(x, out, k, ACT_Q8_SUPER_UNIT);
}
