/* SPDX-License-Identifier: MIT
 * Stored codes to vectors (compute/codes.h), AVX-512. */
#ifndef COMPUTE_X86_CODES_AVX512_H
#define COMPUTE_X86_CODES_AVX512_H

#include "compute/codes.h"
#include "compute/x86/avx512.h"

typedef __m512i ivec;

INLINE ivec ivec_set(uint32_t value)
{
    return _mm512_set1_epi32((int)value);
}

INLINE ivec ivec_load(const uint32_t *p)
{
    return _mm512_loadu_si512(p);
}

INLINE ivec ivec_bytes(const unsigned char *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
}

INLINE ivec ivec_and(ivec a, ivec b)
{
    return _mm512_and_si512(a, b);
}

INLINE ivec ivec_mul(ivec a, ivec b)
{
    return _mm512_mullo_epi32(a, b);
}

INLINE ivec ivec_shift_right(ivec a, unsigned n)
{
    return _mm512_srli_epi32(a, n);
}

INLINE ivec ivec_codes(uint64_t low, uint64_t high, int bits, int v)
{
    (void)v; /* one register has them all */
    if (bits <= 2) {
        const ivec index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        return _mm512_srlv_epi32(ivec_set((uint32_t)low), _mm512_mullo_epi32(index, ivec_set((uint32_t)bits)));
    }
    __m512i words = bits <= 4 ? _mm512_set1_epi64((long long)low)
                              : _mm512_broadcast_i32x4(_mm_set_epi64x((long long)high, (long long)low));
    const struct code_places *places = &code_places[bits];
    return _mm512_srlv_epi32(_mm512_shuffle_epi8(words, ivec_load(places->bytes)), ivec_load(places->shifts));
}

INLINE vec vec_from_int(ivec a)
{
    return _mm512_cvtepi32_ps(a);
}

INLINE vec vec_levels(const float levels[8], ivec codes)
{
    return _mm512_permutexvar_ps(codes, _mm512_broadcast_f32x8(_mm256_loadu_ps(levels)));
}

INLINE vec vec_flip(vec a, ivec minus)
{
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_slli_epi32(minus, 31)));
}

INLINE vec vec_from_e4m3(const unsigned char *p)
{
    __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)p)), 7);
    wide = _mm256_and_si256(wide, _mm256_set1_epi16((short)E4M3_KEEP));
    __m256i nan = _mm256_and_si256(_mm256_add_epi16(wide, _mm256_set1_epi16(E4M3_STEP)), _mm256_set1_epi16(E4M3_TOP));
    return vec_mul(_mm512_cvtph_ps(_mm256_or_si256(wide, nan)), vec_set(E4M3_UNIT));
}

#endif
