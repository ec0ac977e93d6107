/* SPDX-License-Identifier: MIT
 * The vectors (compute/vec_math.h) of the NEON row (Armv8.2 with the dot product extension); four registers hold the 16
 * virtual lanes, register i lanes 4i..4i+3. Included by *_neon.c only. */
#ifndef COMPUTE_ARM_NEON_H
#define COMPUTE_ARM_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "base/bytes.h"
#include "compute/rows.h"
#include "compute/unroll.h"

#define ROW(name) neon_##name

typedef float32x4_t vec;
typedef uint32x4_t vec_choice;
enum { VEC = 4, LANE_VECS = 4 };

INLINE vec vec_set(float x)
{
    return vdupq_n_f32(x);
}

INLINE vec vec_load(const float *p)
{
    return vld1q_f32(p);
}

INLINE void vec_store(float *p, vec v)
{
    vst1q_f32(p, v);
}

INLINE vec vec_add(vec a, vec b)
{
    return vaddq_f32(a, b);
}

INLINE vec vec_sub(vec a, vec b)
{
    return vsubq_f32(a, b);
}

INLINE vec vec_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}

INLINE vec vec_div(vec a, vec b)
{
    return vdivq_f32(a, b);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

INLINE vec vec_fms(vec a, vec b, vec c)
{
    return vfmaq_f32(vnegq_f32(c), a, b);
}

/* FMAX and FMIN would return a NaN of either side. */
INLINE vec vec_max(vec a, vec b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

INLINE vec vec_min(vec a, vec b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

/* ---- some of the elements ---- */

INLINE float32x4_t vec_load_some(const float *p, uint64_t left)
{
    if (left >= 4) {
        return vld1q_f32(p);
    }
    float some[4] = {0};
    memcpy(some, p, left * sizeof *p);
    return vld1q_f32(some);
}

INLINE void vec_store_some(float *p, uint64_t left, float32x4_t v)
{
    if (left >= 4) {
        vst1q_f32(p, v);
        return;
    }
    float some[4];
    vst1q_f32(some, v);
    memcpy(p, some, left * sizeof *p);
}

INLINE vec_choice vec_first(uint64_t count)
{
    const uint32_t index[4] = {0, 1, 2, 3};
    return vcltq_u32(vld1q_u32(index), vdupq_n_u32(count < VEC ? (uint32_t)count : VEC));
}

INLINE vec_choice vec_between(uint64_t begin, uint64_t end)
{
    return vbicq_u32(vec_first(end), vec_first(begin));
}

INLINE vec vec_keep(vec before, vec now, vec_choice chosen)
{
    return vbslq_f32(chosen, now, before);
}

/* ---- stored floats, from any address ---- */

INLINE vec vec_from_f32(const unsigned char *p)
{
    return vreinterpretq_f32_u8(vld1q_u8(p));
}

INLINE vec vec_from_f16(const unsigned char *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

INLINE vec vec_from_bf16(const unsigned char *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

/* ---- the fixed trees ---- */

INLINE float tree_sum(const vec lane[LANE_VECS])
{
    float32x4_t s4 = vaddq_f32(vaddq_f32(lane[0], lane[2]), vaddq_f32(lane[1], lane[3]));
    float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
    return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
}

INLINE float tree_max(const vec lane[LANE_VECS])
{
    float32x4_t s4 = vec_max(vec_max(lane[3], lane[1]), vec_max(lane[2], lane[0]));
    float32x2_t low = vget_low_f32(s4);
    float32x2_t high = vget_high_f32(s4);
    float32x2_t s2 = vbsl_f32(vcgt_f32(high, low), high, low);
    float a = vget_lane_f32(s2, 1);
    float b = vget_lane_f32(s2, 0);
    return a > b ? a : b;
}

/* ---- parts of exp and sigmoid ---- */

INLINE float32x4_t power_of_two(int32x4_t n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

INLINE vec vec_times_two_to(vec p, vec t, vec magic)
{
    int32x4_t whole = vsubq_s32(vreinterpretq_s32_f32(t), vreinterpretq_s32_f32(magic));
    int32x4_t half = vshrq_n_s32(whole, 1);
    return vec_mul(vec_mul(p, power_of_two(half)), power_of_two(vsubq_s32(whole, half)));
}

INLINE vec vec_minus_magnitude(vec x)
{
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x80000000u)));
}

INLINE vec vec_if_not_negative(vec x, vec yes, vec no)
{
    return vbslq_f32(vcgeq_f32(x, vdupq_n_f32(0.0f)), yes, no);
}

#include "compute/vec_math.h"

#endif
