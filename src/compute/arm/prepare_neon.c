/* SPDX-License-Identifier: MIT
 * Quantised activations, NEON: docs/arithmetic.md, section 3. */
#include "compute/arm/neon.h"

INLINE void prepare(const float *x, void *out, uint32_t k, uint32_t unit)
{
    unsigned char *quants = out;
    unsigned char *scales = quants + k;
    unsigned char *sums = scales + (size_t)k / unit * sizeof(float);
    const uint32x4_t magnitude = vdupq_n_u32(0x7fffffffu);
    for (uint32_t at = 0; at < k; at += unit) {
        uint32x4_t bits = vdupq_n_u32(0);
        for (uint32_t i = at; i < at + unit; i += 4) {
            bits = vmaxq_u32(bits, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i)), magnitude));
        }
        uint32_t largest_bits = vmaxvq_u32(bits);
        float largest = f32_from_bits(largest_bits);
        bool finite = largest_bits < 0x7f800000u;
        bool usable = finite && largest >= 0x1p-100f;
        float scale = usable ? largest / 127.0f : finite ? 0.0f : f32_from_bits(0x7fc00000u);
        memcpy(scales + (size_t)at / unit * 4, &scale, sizeof scale);
        const float32x4_t factor = vdupq_n_f32(usable ? 127.0f / largest : 0.0f);
        for (uint32_t i = at; i < at + unit; i += 16) {
            int32x4_t q[4];
            UNROLLED(j, 4)
            {
                int32x4_t nearest = vcvtnq_s32_f32(vmulq_f32(vld1q_f32(x + i + 4 * j), factor)); /* ties to even */
                q[j] = usable ? nearest : vdupq_n_s32(0);
            }
            int16x8_t low = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
            int16x8_t high = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));
            vst1_u8(quants + i, vreinterpret_u8_s8(vmovn_s16(low)));
            vst1_u8(quants + i + 8, vreinterpret_u8_s8(vmovn_s16(high)));
            int16_t sum = (int16_t)vaddvq_s16(vaddq_s16(low, high));
            memcpy(sums + (size_t)i / ACT_SUM_VALUES * 2, &sum, sizeof sum);
        }
    }
}

void neon_prepare_q8(const float *x, void *out, uint32_t k)
{
    prepare(x, out, k, ACT_Q8_UNIT);
}

void neon_prepare_q8_super(const float *x, void *out, uint32_t k)
{
    prepare(x, out, k, ACT_Q8_SUPER_UNIT);
}
