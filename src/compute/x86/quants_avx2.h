/* SPDX-License-Identifier: MIT
 * Quants and scales of the unit formats in AVX2 registers (compute/units.h). Included by units_avx2.c only. */
#ifndef COMPUTE_X86_QUANTS_AVX2_H
#define COMPUTE_X86_QUANTS_AVX2_H

#include "compute/units.h"
#include "compute/x86/avx2.h"

/* Values 32 n .. 32 n + 31 of a unit. */
typedef __m256i quants_fn(const unsigned char *block, int n);

INLINE __m256i load_256(const unsigned char *p)
{
    return _mm256_loadu_si256((const void *)p);
}

/* (v >> shift) & mask, byte by byte. */
INLINE __m256i bits_of(__m256i v, int shift, char mask)
{
    return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8(mask));
}

typedef __m256i quants_reg;

INLINE __m256i small(__m256i v)
{
    return v;
}

/* Adds 16 where the bit of the value is set. */
INLINE __m256i fifth_bits(__m256i low, uint32_t bits)
{
    const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), byte), bit);
    __m256i set = _mm256_cmpeq_epi8(spread, bit);
    return _mm256_or_si256(low, _mm256_and_si256(set, _mm256_set1_epi8(16)));
}

#include "compute/x86/quants_small.h"

INLINE __m256i quants_iq4_xs(const unsigned char *p, int n)
{
    return levels_32(unit_levels_iq4, nibbles_16(p + 8 + 16 * n));
}

INLINE __m256i quants_q4_k(const unsigned char *p, int n)
{
    return bits_of(load_256(p + 16 + n / 2 * 32), n % 2 * 4, 15);
}

INLINE __m256i quants_q5_k(const unsigned char *p, int n)
{
    __m256i high = _mm256_slli_epi16(bits_of(load_256(p + 16), n, 1), 4);
    return _mm256_or_si256(bits_of(load_256(p + 48 + n / 2 * 32), n % 2 * 4, 15), high);
}

INLINE __m256i quants_q2_k(const unsigned char *p, int n)
{
    return bits_of(load_256(p + 16 + n / 4 * 32), n % 4 * 2, 3);
}

INLINE __m256i quants_q3_k(const unsigned char *p, int n)
{
    __m256i high = _mm256_slli_epi16(bits_of(load_256(p), n, 1), 2);
    return _mm256_or_si256(bits_of(load_256(p + 32 + n / 4 * 32), n % 4 * 2, 3), high);
}

INLINE __m256i quants_q6_k(const unsigned char *p, int n)
{
    __m256i high = _mm256_slli_epi16(bits_of(load_256(p + 128 + n / 4 * 32), n % 4 * 2, 3), 4);
    return _mm256_or_si256(bits_of(load_256(p + n / 4 * 64 + n % 2 * 32), n % 4 / 2 * 4, 15), high);
}

/* 8 binary16 values, value i at p + i x stride, exactly as binary32; `count` exist, the others are 0. */
INLINE __m256 load_halves(const unsigned char *p, size_t stride, uint32_t count)
{
    uint64_t words[2] = {0, 0};
    UNROLLED(i, 8)
    {
        if ((uint32_t)i < count) {
            words[i / 4] |= (uint64_t)load_u16(p + (size_t)i * stride) << (16 * (i % 4));
        }
    }
    return _mm256_cvtph_ps(_mm_set_epi64x((long long)words[1], (long long)words[0]));
}

/* The d of `count` of 8 units `stride` bytes apart. */
INLINE __m256 load_scales(const struct unit_format *f, const unsigned char *p, size_t stride, uint32_t count)
{
    if (!f->exponent) {
        return load_halves(p + f->d_at, stride, count);
    }
    float d[8] = {0};
    for (uint32_t i = 0; i < count; i++) {
        d[i] = unit_power(p[f->d_at + i * stride]);
    }
    return _mm256_loadu_ps(d);
}

#endif
