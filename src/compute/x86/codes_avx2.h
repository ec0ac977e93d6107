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

INLINE ivec ivec_nibbles(const unsigned char *p)
{
    return _mm256_srlv_epi32(ivec_set(load_u32(p)), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
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
    if (bits <= 3) { /* sixteen codes of 2 bits are 32 bits, eight of 3 are 24 */
        const ivec index = _mm256_add_epi32(ivec_load(sixteen), ivec_set(bits <= 2 ? 8 * (uint32_t)v : 0));
        ivec words = ivec_set((uint32_t)(bits <= 2 ? low : low >> 24 * v));
        return _mm256_srlv_epi32(words, _mm256_mullo_epi32(index, ivec_set((uint32_t)bits)));
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

INLINE vec vec_pick(vec x, ivec codes)
{
    return _mm256_permutevar8x32_ps(x, codes);
}

INLINE vec vec_levels(const float levels[8], ivec codes)
{
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(levels), codes);
}

INLINE vec vec_signed_levels(const float levels[8], ivec codes)
{
    __m256 minus = _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32(codes, 28)), vec_set(-0.0f));
    return _mm256_xor_ps(vec_levels(levels, codes), minus);
}

INLINE vec vec_flip(vec a, uint32_t minus, int v)
{
    const ivec index = _mm256_sub_epi32(ivec_set(31 - 8 * (uint32_t)v), ivec_load(sixteen));
    ivec signs = _mm256_sllv_epi32(ivec_set(minus), index);
    return _mm256_xor_ps(a, _mm256_and_ps(_mm256_castsi256_ps(signs), vec_set(-0.0f)));
}

INLINE void vec_from_e4m3(const unsigned char *p, vec out[LANE_VECS])
{
    __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)p)), 7);
    const __m256i top = _mm256_set1_epi16(E4M3_TOP);
    wide = _mm256_andnot_si256(top, wide);
    wide = _mm256_or_si256(wide, _mm256_and_si256(_mm256_add_epi16(wide, _mm256_set1_epi16(E4M3_STEP)), top));
    out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(wide));
    out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(wide, 1));
}

INLINE float f16_number(uint16_t half)
{
    return _cvtsh_ss(half);
}

#endif
