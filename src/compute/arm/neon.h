/* SPDX-License-Identifier: MIT
 * Building blocks of the NEON row (Armv8.2 with the dot product extension); four registers hold the 16 virtual lanes,
 * register i lanes 4i..4i+3. Included by *_neon.c only. */
#ifndef COMPUTE_ARM_NEON_H
#define COMPUTE_ARM_NEON_H

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "compute/kernels.h"
#include "compute/unroll.h"

void neon_matmul_f32(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
void neon_matmul_f16(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
void neon_matmul_bf16(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
void neon_prepare_q8(const float *x, void *out, uint32_t k);
void neon_prepare_q8_super(const float *x, void *out, uint32_t k);
void neon_rmsnorm(const float *x, const float *weight, float eps, float *out, uint32_t n);
void neon_rope(float *x, const float *cosines, const float *sines, uint32_t rotary, bool half);
void neon_silu_mul(const float *gate, const float *up, float *out, uint64_t n);
void neon_add(float *x, const float *y, uint64_t n);
void neon_add_scaled(float *x, const float *y, float scale, uint64_t n);
void neon_scale(float *x, float scale, uint64_t n);
void neon_clamp(float *x, float limit, uint64_t n);
void neon_softmax(float *x, uint32_t n);
void neon_sigmoid(float *x, uint32_t n);
void neon_to_f16(const float *x, uint16_t *out, uint64_t n);
void neon_attend(const struct attend *a);

/* ---- groups of 4, of which `left` exist (1..4 and more); absent elements are not touched and read as 0 ---- */

INLINE float32x4_t load_some4(const float *p, uint64_t left)
{
    if (left >= 4) {
        return vld1q_f32(p);
    }
    float some[4] = {0};
    memcpy(some, p, left * sizeof *p);
    return vld1q_f32(some);
}

INLINE void store_some4(float *p, uint64_t left, float32x4_t v)
{
    if (left >= 4) {
        vst1q_f32(p, v);
        return;
    }
    float some[4];
    vst1q_f32(some, v);
    memcpy(p, some, left * sizeof *p);
}

INLINE uint32x4_t mask4(uint64_t left)
{
    const uint32_t index[4] = {0, 1, 2, 3};
    return vcltq_u32(vld1q_u32(index), vdupq_n_u32(left < 4 ? (uint32_t)left : 4));
}

/* ---- 4 stored floats to binary32, from any address ---- */

INLINE float32x4_t load_f32x4(const unsigned char *p)
{
    return vreinterpretq_f32_u8(vld1q_u8(p));
}

INLINE float32x4_t load_f16x4(const unsigned char *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

INLINE float32x4_t load_bf16x4(const unsigned char *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

/* ---- the fixed trees ---- */

INLINE float tree_sum(const float32x4_t lane[4])
{
    float32x4_t s4 = vaddq_f32(vaddq_f32(lane[0], lane[2]), vaddq_f32(lane[1], lane[3]));
    float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
    return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
}

/* a > b ? a : b. FMAX would return a NaN of either side. */
INLINE float32x4_t max_or_second4(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

INLINE float tree_max(const float32x4_t lane[4])
{
    float32x4_t s4 = max_or_second4(max_or_second4(lane[3], lane[1]), max_or_second4(lane[2], lane[0]));
    float32x2_t low = vget_low_f32(s4);
    float32x2_t high = vget_high_f32(s4);
    float32x2_t s2 = vbsl_f32(vcgt_f32(high, low), high, low);
    float a = vget_lane_f32(s2, 1);
    float b = vget_lane_f32(s2, 0);
    return a > b ? a : b;
}

/* ---- exp and its relatives: docs/arithmetic.md, section 4 ---- */

INLINE float32x4_t power_of_two(int32x4_t n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

INLINE float32x4_t exp_x4(float32x4_t x)
{
    const float32x4_t magic = vdupq_n_f32(0x1.8p23f);
    const float32x4_t high = vdupq_n_f32(89.0f);
    const float32x4_t low = vdupq_n_f32(-104.0f);
    x = vbslq_f32(vcltq_f32(high, x), high, x);
    x = vbslq_f32(vcgtq_f32(low, x), low, x);
    float32x4_t t = vfmaq_f32(magic, x, vdupq_n_f32(0x1.715476p+0f));
    float32x4_t n = vsubq_f32(t, magic);
    float32x4_t r = vfmaq_f32(x, n, vdupq_n_f32(-0x1.62e43p-1f));
    r = vfmaq_f32(r, n, vdupq_n_f32(0x1.05c61p-29f));
    float32x4_t p = vdupq_n_f32(0x1.6a2434p-10f);
    p = vfmaq_f32(vdupq_n_f32(0x1.1239e2p-7f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.5558f2p-5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.555492p-3f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.fffffcp-2f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    int32x4_t whole = vsubq_s32(vreinterpretq_s32_f32(t), vreinterpretq_s32_f32(magic));
    int32x4_t half = vshrq_n_s32(whole, 1);
    return vmulq_f32(vmulq_f32(p, power_of_two(half)), power_of_two(vsubq_s32(whole, half)));
}

INLINE float32x4_t sigmoid_x4(float32x4_t x)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    float32x4_t e = exp_x4(vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x80000000u))));
    float32x4_t top = vbslq_f32(vcgeq_f32(x, vdupq_n_f32(0.0f)), one, e);
    return vdivq_f32(top, vaddq_f32(one, e));
}

#endif
