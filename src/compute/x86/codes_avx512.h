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

INLINE ivec ivec_nibbles(const unsigned char *p)
{
    const ivec shifts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    ivec low = _mm512_broadcastd_epi32(_mm_loadu_si32(p));
    return _mm512_srlv_epi32(_mm512_mask_broadcastd_epi32(low, 0xff00, _mm_loadu_si32(p + 4)), shifts);
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
    __m512i words = bits <= 3 ? _mm512_set1_epi64((long long)low)
                              : _mm512_broadcast_i32x4(_mm_set_epi64x((long long)high, (long long)low));
    const struct code_places *places = &code_places[bits];
    return _mm512_srlv_epi32(_mm512_shuffle_epi8(words, ivec_load(places->bytes)), ivec_load(places->shifts));
}

INLINE vec vec_from_int(ivec a)
{
    return _mm512_cvtepi32_ps(a);
}

INLINE vec vec_pick(vec x, ivec codes)
{
    return _mm512_permutexvar_ps(codes, x);
}

INLINE vec vec_levels(const float levels[8], ivec codes)
{
    return _mm512_permutexvar_ps(codes, _mm512_broadcast_f32x8(_mm256_loadu_ps(levels)));
}

INLINE vec vec_signed_levels(const float levels[8], ivec codes)
{
    __m512 both = _mm512_broadcast_f32x8(_mm256_loadu_ps(levels));
    return _mm512_permutexvar_ps(codes, _mm512_mask_xor_ps(both, 0xff00, both, vec_set(-0.0f)));
}

INLINE vec vec_flip(vec a, uint32_t minus, int v)
{
    (void)v;
    return _mm512_mask_xor_ps(a, (__mmask16)minus, a, vec_set(-0.0f));
}

INLINE void vec_from_e4m3(const unsigned char *p, vec out[LANE_VECS])
{
    __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)p)), 7);
    const __m256i top = _mm256_set1_epi16(E4M3_TOP);
    __m256i next = _mm256_add_epi16(_mm256_andnot_si256(top, wide), _mm256_set1_epi16(E4M3_STEP));
    __m256i half = _mm256_ternarylogic_epi32(top, next, wide, 0xca); /* top ? next : wide */
    out[0] = _mm512_cvtph_ps(half);
}

INLINE float f16_number(uint16_t half)
{
    return _cvtsh_ss(half);
}

#endif
