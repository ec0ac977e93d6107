/* SPDX-License-Identifier: MIT
 * Stored codes to vectors (compute/codes.h), AVX2. */
#ifndef COMPUTE_X86_CODES_AVX2_H
#define COMPUTE_X86_CODES_AVX2_H

#include "compute/codes.h"
#include "compute/x86/avx2.h"

typedef __m256i ivec;

INLINE ivec ivec_set(uint32_t value)
{
    return _mm256_set1_epi32((int)value);
}

INLINE ivec ivec_load(const uint32_t *p)
{
    return _mm256_loadu_si256((const void *)p);
}

INLINE ivec ivec_bytes(const unsigned char *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
}

INLINE ivec ivec_and(ivec a, ivec b)
{
    return _mm256_and_si256(a, b);
}

INLINE ivec ivec_mul(ivec a, ivec b)
{
    return _mm256_mullo_epi32(a, b);
}

INLINE ivec ivec_shift_right(ivec a, unsigned n)
{
    return _mm256_srli_epi32(a, (int)n);
}

INLINE ivec ivec_codes(uint64_t low, uint64_t high, int bits, int v)
{
    if (bits <= 4) { /* eight codes are at most 32 bits */
        const ivec index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        return _mm256_srlv_epi32(ivec_set((uint32_t)(low >> (8 * bits * v))),
                                 _mm256_mullo_epi32(index, ivec_set((uint32_t)bits)));
    }
    __m256i words = _mm256_broadcastsi128_si256(_mm_set_epi64x((long long)high, (long long)low));
    const struct code_places *places = &code_places[bits];
    return _mm256_srlv_epi32(_mm256_shuffle_epi8(words, ivec_load(places->bytes + 8 * v)),
                             ivec_load(places->shifts + 8 * v));
}

INLINE vec vec_from_int(ivec a)
{
    return _mm256_cvtepi32_ps(a);
}

INLINE vec vec_levels(const float levels[8], ivec codes)
{
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(levels), codes);
}

INLINE vec vec_flip(vec a, ivec minus)
{
    return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(minus, 31)));
}

INLINE vec vec_from_e4m3(const unsigned char *p)
{
    __m128i wide = _mm_slli_epi16(_mm_cvtepi8_epi16(_mm_loadl_epi64((const void *)p)), 7);
    wide = _mm_and_si128(wide, _mm_set1_epi16((short)E4M3_KEEP));
    __m128i nan = _mm_and_si128(_mm_add_epi16(wide, _mm_set1_epi16(E4M3_STEP)), _mm_set1_epi16(E4M3_TOP));
    return vec_mul(_mm256_cvtph_ps(_mm_or_si128(wide, nan)), vec_set(E4M3_UNIT));
}

#endif
