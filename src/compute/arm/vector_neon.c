/* SPDX-License-Identifier: MIT
 * Kernels over one vector, NEON: docs/arithmetic.md, sections 4 and 5. */
#include "compute/arm/neon.h"

/* Sums and maxima go through the 16 lanes as four quarters: the elements i.. of a step of 4 belong to quarter
 * i / 4 mod 4. */
INLINE void lanes_set(float32x4_t lane[4], float value)
{
    UNROLLED(q, 4)
    {
        lane[q] = vdupq_n_f32(value);
    }
}

void neon_rmsnorm(const float *x, const float *weight, float eps, float *out, uint32_t n)
{
    float32x4_t sum[4];
    lanes_set(sum, 0.0f);
    for (uint64_t i = 0; i < n; i += 4) {
        float32x4_t v = load_some4(x + i, n - i);
        float32x4_t *lane = &sum[i / 4 % 4];
        *lane = vfmaq_f32(*lane, v, v); /* absent: + 0 to a sum that is no -0 */
    }
    const float32x4_t r = vdupq_n_f32(1.0f / sqrtf(tree_sum(sum) / (float)n + eps));
    for (uint64_t i = 0; i < n; i += 4) {
        float32x4_t v = vmulq_f32(load_some4(x + i, n - i), r);
        store_some4(out + i, n - i, vmulq_f32(v, load_some4(weight + i, n - i)));
    }
}

static void rope_halves(float *x, const float *cosines, const float *sines, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i += 4) {
        uint64_t left = pairs - i;
        float32x4_t c = load_some4(cosines + i, left);
        float32x4_t s = load_some4(sines + i, left);
        float32x4_t x0 = load_some4(x + i, left);
        float32x4_t x1 = load_some4(x + pairs + i, left);
        store_some4(x + i, left, vfmaq_f32(vnegq_f32(vmulq_f32(x1, s)), x0, c));
        store_some4(x + pairs + i, left, vfmaq_f32(vmulq_f32(x0, s), x1, c));
    }
}

static void rope_neighbours(float *x, const float *cosines, const float *sines, uint32_t pairs)
{
    uint32_t i = 0;
    for (; i + 4 <= pairs; i += 4) {
        float32x4_t c = vld1q_f32(cosines + i);
        float32x4_t s = vld1q_f32(sines + i);
        float32x4x2_t v = vld2q_f32(x + (size_t)i * 2);
        float32x4x2_t rotated;
        rotated.val[0] = vfmaq_f32(vnegq_f32(vmulq_f32(v.val[1], s)), v.val[0], c);
        rotated.val[1] = vfmaq_f32(vmulq_f32(v.val[0], s), v.val[1], c);
        vst2q_f32(x + (size_t)i * 2, rotated);
    }
    for (; i < pairs; i++) {
        float x0 = x[(size_t)i * 2];
        float x1 = x[(size_t)i * 2 + 1];
        x[(size_t)i * 2] = fmaf(x0, cosines[i], -(x1 * sines[i]));
        x[(size_t)i * 2 + 1] = fmaf(x1, cosines[i], x0 * sines[i]);
    }
}

void neon_rope(float *x, const float *cosines, const float *sines, uint32_t rotary, bool half)
{
    if (half) {
        rope_halves(x, cosines, sines, rotary / 2);
    } else {
        rope_neighbours(x, cosines, sines, rotary / 2);
    }
}

void neon_silu_mul(const float *gate, const float *up, float *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 4) {
        float32x4_t g = load_some4(gate + i, n - i);
        float32x4_t silu = vmulq_f32(g, sigmoid_x4(g));
        store_some4(out + i, n - i, vmulq_f32(silu, load_some4(up + i, n - i)));
    }
}

void neon_add(float *x, const float *y, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 4) {
        store_some4(x + i, n - i, vaddq_f32(load_some4(x + i, n - i), load_some4(y + i, n - i)));
    }
}

void neon_add_scaled(float *x, const float *y, float scale, uint64_t n)
{
    const float32x4_t s = vdupq_n_f32(scale);
    for (uint64_t i = 0; i < n; i += 4) {
        store_some4(x + i, n - i, vfmaq_f32(load_some4(x + i, n - i), load_some4(y + i, n - i), s));
    }
}

void neon_scale(float *x, float scale, uint64_t n)
{
    const float32x4_t s = vdupq_n_f32(scale);
    for (uint64_t i = 0; i < n; i += 4) {
        store_some4(x + i, n - i, vmulq_f32(load_some4(x + i, n - i), s));
    }
}

void neon_clamp(float *x, float limit, uint64_t n)
{
    const float32x4_t high = vdupq_n_f32(limit);
    const float32x4_t low = vdupq_n_f32(-limit);
    for (uint64_t i = 0; i < n; i += 4) {
        float32x4_t v = load_some4(x + i, n - i);
        v = vbslq_f32(vcltq_f32(high, v), high, v);
        store_some4(x + i, n - i, vbslq_f32(vcgtq_f32(low, v), low, v));
    }
}

void neon_softmax(float *x, uint32_t n)
{
    float32x4_t highest[4];
    float32x4_t sum[4];
    lanes_set(highest, -INFINITY);
    lanes_set(sum, 0.0f);
    for (uint64_t i = 0; i < n; i += 4) {
        float32x4_t *lane = &highest[i / 4 % 4];
        *lane = vbslq_f32(mask4(n - i), max_or_second4(load_some4(x + i, n - i), *lane), *lane);
    }
    const float32x4_t max = vdupq_n_f32(tree_max(highest));
    for (uint64_t i = 0; i < n; i += 4) {
        float32x4_t *lane = &sum[i / 4 % 4];
        float32x4_t e = exp_x4(vsubq_f32(load_some4(x + i, n - i), max));
        *lane = vbslq_f32(mask4(n - i), vaddq_f32(*lane, e), *lane);
        store_some4(x + i, n - i, e);
    }
    const float32x4_t total = vdupq_n_f32(tree_sum(sum));
    for (uint64_t i = 0; i < n; i += 4) {
        store_some4(x + i, n - i, vdivq_f32(load_some4(x + i, n - i), total));
    }
}

void neon_sigmoid(float *x, uint32_t n)
{
    for (uint64_t i = 0; i < n; i += 4) {
        store_some4(x + i, n - i, sigmoid_x4(load_some4(x + i, n - i)));
    }
}

void neon_to_f16(const float *x, uint16_t *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 4) {
        uint16_t some[4];
        vst1_u16(some, vreinterpret_u16_f16(vcvt_f16_f32(load_some4(x + i, n - i))));
        memcpy(out + i, some, (n - i < 4 ? n - i : 4) * sizeof *out);
    }
}
