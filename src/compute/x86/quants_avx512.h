/* SPDX-License-Identifier: MIT
 * Quants and scales of the unit formats in AVX-512 registers (compute/units.h). Included by units_avx512.c only. */
#ifndef COMPUTE_X86_QUANTS_AVX512_H
#define COMPUTE_X86_QUANTS_AVX512_H

#include "compute/units.h"
#include "compute/x86/avx512.h"

/* Values 64 n .. 64 n + 63 of a unit; of a small one (n = 0) its 32 in the lower half. */
typedef __m512i quants_fn(const unsigned char *block, int n);

/* ---- quants of the formats ---- */

INLINE __m256i load_256(const unsigned char *p)
{
    return _mm256_loadu_si256((const void *)p);
}

INLINE __m512i small(__m256i v)
{
    return _mm512_castsi256_si512(v);
}

typedef __m512i quants_reg;

INLINE __m256i fifth_bits(__m256i low, uint32_t bits)
{
    return _mm256_mask_add_epi8(low, bits, low, _mm256_set1_epi8(16));
}

#include "compute/x86/quants_small.h"

/* 32 bytes in both halves, shifted right by so many bits in the lower and the upper half, `mask` of each byte. */
INLINE __m512i halves(const unsigned char *p, int low, int high, char mask)
{
    __m512i shifts = _mm512_setr_epi64(low, low, low, low, high, high, high, high);
    return _mm512_and_si512(_mm512_srlv_epi64(_mm512_broadcast_i64x4(load_256(p)), shifts), _mm512_set1_epi8(mask));
}

/* Adds `value` where bit 2 n (lower half) or 2 n + 1 (upper half) of the 32 bytes is set. */
INLINE __m512i high_bits(__m512i quants, const unsigned char *p, int n, char value)
{
    const __m256i one = _mm256_set1_epi8((char)(1 << (2 * n)));
    const __m256i two = _mm256_set1_epi8((char)(2 << (2 * n)));
    __m512i bits = _mm512_inserti64x4(_mm512_castsi256_si512(one), two, 1);
    __mmask64 set = _mm512_test_epi8_mask(_mm512_broadcast_i64x4(load_256(p)), bits);
    return _mm512_mask_add_epi8(quants, set, quants, _mm512_set1_epi8(value));
}

INLINE __m512i quants_q4_k(const unsigned char *p, int n)
{
    return halves(p + 16 + 32 * n, 0, 4, 15);
}

INLINE __m512i quants_q5_k(const unsigned char *p, int n)
{
    return high_bits(halves(p + 48 + 32 * n, 0, 4, 15), p + 16, n, 16);
}

INLINE __m512i quants_q2_k(const unsigned char *p, int n)
{
    return halves(p + 16 + n / 2 * 32, n % 2 * 4, n % 2 * 4 + 2, 3);
}

INLINE __m512i quants_q3_k(const unsigned char *p, int n)
{
    return high_bits(halves(p + 32 + n / 2 * 32, n % 2 * 4, n % 2 * 4 + 2, 3), p, n, 4);
}

INLINE __m512i quants_q6_k(const unsigned char *p, int n)
{
    __m512i low = _mm512_loadu_si512((const void *)(p + n / 2 * 64));
    low = _mm512_and_si512(n % 2 ? _mm512_srli_epi16(low, 4) : low, _mm512_set1_epi8(15));
    __m512i high = halves(p + 128 + n / 2 * 32, n % 2 * 4, n % 2 * 4 + 2, 3);
    return _mm512_or_si512(low, _mm512_slli_epi16(high, 4));
}

INLINE __m512i levels_of(const uint8_t levels[16], __m512i index)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)levels)), index);
}

INLINE __m512i quants_iq4_xs(const unsigned char *p, int n)
{
    const __m512i twice = _mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3);
    __m512i both = _mm512_permutexvar_epi64(twice, _mm512_castsi256_si512(load_256(p + 8 + 32 * n)));
    both = _mm512_srlv_epi64(both, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
    return levels_of(unit_levels_iq4, _mm512_and_si512(both, _mm512_set1_epi8(15)));
}

/* ---- scales in float ---- */

/* 16 binary16 values, each `stride` bytes after the one before, exactly as binary32; `count` exist. */
INLINE __m512 load_halves(const unsigned char *p, size_t stride, uint32_t count)
{
    uint64_t words[4] = {0};
    UNROLLED(i, 16)
    {
        if ((uint32_t)i < count) {
            words[i / 4] |= (uint64_t)load_u16(p + (size_t)i * stride) << (16 * (i % 4));
        }
    }
    return _mm512_cvtph_ps(
        _mm256_setr_epi64x((long long)words[0], (long long)words[1], (long long)words[2], (long long)words[3]));
}

/* unit_power() of 16 bytes. */
INLINE __m512 powers(__m128i bytes)
{
    __m512i e = _mm512_cvtepu8_epi32(bytes);
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __m512i tiny = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    __mmask16 small_ones = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_blend_epi32(small_ones, normal, tiny));
}

/* The d of `count` of 16 units `stride` bytes apart. */
INLINE __m512 load_scales(const struct unit_format *f, const unsigned char *p, size_t stride, uint32_t count)
{
    if (!f->exponent) {
        return load_halves(p + f->d_at, stride, count);
    }
    unsigned char bytes[16] = {0};
    for (uint32_t i = 0; i < count; i++) {
        bytes[i] = p[i * stride];
    }
    return powers(_mm_loadu_si128((const void *)bytes));
}

#endif
