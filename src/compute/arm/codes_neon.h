/* SPDX-License-Identifier: MIT
 * Stored codes to vectors (compute/codes.h), NEON. */
#ifndef COMPUTE_ARM_CODES_NEON_H
#define COMPUTE_ARM_CODES_NEON_H

#include "compute/arm/neon.h"
#include "compute/codes.h"

typedef uint32x4_t ivec;

INLINE ivec ivec_set(uint32_t value)
{
    return vdupq_n_u32(value);
}

INLINE ivec ivec_load(const uint32_t *p)
{
    return vld1q_u32(p);
}

INLINE ivec ivec_bytes(const unsigned char *p)
{
    uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(load_u32(p)));
    return vmovl_u16(vget_low_u16(vmovl_u8(bytes)));
}

INLINE ivec ivec_nibbles(const unsigned char *p)
{
    const int32_t shifts[4] = {0, -4, -8, -12};
    return vshlq_u32(vdupq_n_u32(load_u16(p)), vld1q_s32(shifts));
}

INLINE ivec ivec_and(ivec a, ivec b)
{
    return vandq_u32(a, b);
}

INLINE ivec ivec_mul(ivec a, ivec b)
{
    return vmulq_u32(a, b);
}

INLINE ivec ivec_shift_right(ivec a, unsigned n)
{
    return vshlq_u32(a, vdupq_n_s32(-(int)n));
}

INLINE ivec ivec_codes(uint64_t low, uint64_t high, int bits, int v)
{
    const int32_t shifts[4] = {0, -bits, -2 * bits, -3 * bits};
    const int at = 4 * bits * v; /* four codes are at most 24 bits */
    uint64_t word = at == 0 ? low : at < 64 ? low >> at | high << (64 - at) : high >> (at - 64);
    return vshlq_u32(vdupq_n_u32((uint32_t)word), vld1q_s32(shifts));
}

INLINE vec vec_from_int(ivec a)
{
    return vcvtq_f32_u32(a);
}

INLINE vec vec_pick(vec x, ivec codes)
{
    /* The bytes of number c are 4 c to 4 c + 3. */
    ivec at = vmlaq_u32(vdupq_n_u32(0x03020100u), vandq_u32(codes, vdupq_n_u32(3)), vdupq_n_u32(0x04040404u));
    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(x), vreinterpretq_u8_u32(at)));
}

INLINE vec vec_levels(const float levels[8], ivec codes)
{
    const unsigned char *p = (const unsigned char *)(const void *)levels;
    const uint8x16x2_t table = {{vld1q_u8(p), vld1q_u8(p + 16)}};
    ivec at = vmlaq_u32(vdupq_n_u32(0x03020100u), vandq_u32(codes, vdupq_n_u32(7)), vdupq_n_u32(0x04040404u));
    return vreinterpretq_f32_u8(vqtbl2q_u8(table, vreinterpretq_u8_u32(at)));
}

INLINE vec vec_signed_levels(const float levels[8], ivec codes)
{
    uint32x4_t minus = vandq_u32(vshlq_n_u32(codes, 28), vdupq_n_u32(0x80000000u));
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(vec_levels(levels, codes)), minus));
}

INLINE vec vec_flip(vec a, uint32_t minus, int v)
{
    const int32_t shifts[4] = {31, 30, 29, 28};
    uint32x4_t signs = vandq_u32(vshlq_u32(vdupq_n_u32(minus >> 4 * v), vld1q_s32(shifts)), vdupq_n_u32(0x80000000u));
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(a), signs));
}

INLINE void vec_from_e4m3(const unsigned char *p, vec out[LANE_VECS])
{
    const uint16x8_t top = vdupq_n_u16(E4M3_TOP);
    UNROLLED(h, 2)
    {
        uint16x8_t wide = vreinterpretq_u16_s16(vmovl_s8(vreinterpret_s8_u8(vld1_u8(p + 8 * h))));
        wide = vbicq_u16(vshlq_n_u16(wide, 7), top);
        wide = vorrq_u16(wide, vandq_u16(vaddq_u16(wide, vdupq_n_u16(E4M3_STEP)), top));
        out[2 * h] = vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(wide)));
        out[2 * h + 1] = vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(wide)));
    }
}

INLINE float f16_number(uint16_t half)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
}

#endif
