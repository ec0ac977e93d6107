/* SPDX-License-Identifier: MIT
 * Quantised activations, NEON: docs/arithmetic.md, section 3. */
#include "compute/arm/neon.h"

INLINE uint32_t highest_bits(const float *x, uint32_t n)
{
    const uint32x4_t magnitude = vdupq_n_u32(0x7fffffffu);
    uint32x4_t bits = vdupq_n_u32(0);
    for (uint32_t i = 0; i < n; i += 4) {
        bits = vmaxq_u32(bits, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i)), magnitude));
    }
    return vmaxvq_u32(bits);
}

INLINE int16_t quantise_16(const float *x, float factor, bool usable, unsigned char *quants)
{
    int32x4_t q[4];
    UNROLLED(j, 4)
    {
        int32x4_t nearest = vcvtnq_s32_f32(vec_mul(vec_load(x + 4 * j), vec_set(factor))); /* ties to even */
        q[j] = usable ? nearest : vdupq_n_s32(0);
    }
    int16x8_t low = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
    int16x8_t high = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));
    vst1_u8(quants, vreinterpret_u8_s8(vmovn_s16(low)));
    vst1_u8(quants + 8, vreinterpret_u8_s8(vmovn_s16(high)));
    return (int16_t)vaddvq_s16(vaddq_s16(low, high));
}

#include "compute/prepare_loop.h"
