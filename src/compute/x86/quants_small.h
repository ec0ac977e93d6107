/* SPDX-License-Identifier: MIT
 * Quants of the small units (compute/units.h) in one AVX register, for both rows. A row's header defines quants_reg,
 * small(v), which widens 32 quants to it, and fifth_bits(low, bits), which adds 16 where the bit of the value is set,
 * then includes this. */
#ifndef COMPUTE_X86_QUANTS_SMALL_H
#define COMPUTE_X86_QUANTS_SMALL_H

/* 16 bytes: their low nibbles, then their high ones. */
INLINE __m256i nibbles_16(const unsigned char *p)
{
    __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)p));
    return _mm256_and_si256(_mm256_srlv_epi64(both, _mm256_setr_epi64x(0, 0, 4, 4)), _mm256_set1_epi8(15));
}

INLINE __m256i levels_32(const uint8_t levels[16], __m256i index)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)levels)), index);
}

INLINE quants_reg quants_q8_0(const unsigned char *p, int n)
{
    (void)n;
    return small(_mm256_xor_si256(load_256(p + 2), _mm256_set1_epi8((char)-128)));
}

INLINE quants_reg quants_q4_0(const unsigned char *p, int n)
{
    (void)n;
    return small(nibbles_16(p + 2));
}

INLINE quants_reg quants_q4_1(const unsigned char *p, int n)
{
    (void)n;
    return small(nibbles_16(p + 4));
}

INLINE quants_reg quants_q5_0(const unsigned char *p, int n)
{
    (void)n;
    return small(fifth_bits(nibbles_16(p + 6), load_u32(p + 2)));
}

INLINE quants_reg quants_q5_1(const unsigned char *p, int n)
{
    (void)n;
    return small(fifth_bits(nibbles_16(p + 8), load_u32(p + 4)));
}

INLINE quants_reg quants_iq4_nl(const unsigned char *p, int n)
{
    (void)n;
    return small(levels_32(unit_levels_iq4, nibbles_16(p + 2)));
}

INLINE quants_reg quants_mxfp4(const unsigned char *p, int n)
{
    (void)n;
    return small(levels_32(unit_levels_mxfp4, nibbles_16(p + 1)));
}

#endif
