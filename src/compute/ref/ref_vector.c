/* SPDX-License-Identifier: MIT
 * Reference kernels over one vector: docs/arithmetic.md, sections 4 and 5. */
#include <math.h>

#include "base/bytes.h"
#include "compute/lanes.h"
#include "compute/rows.h"

void ref_rmsnorm(const float *x, const float *weight, float eps, float *out, uint32_t n)
{
    float lane[LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        lane[i % LANES] = fmaf(x[i], x[i], lane[i % LANES]);
    }
    float r = 1.0f / sqrtf(lanes_sum(lane) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = (x[i] * r) * weight[i];
    }
}

void ref_rope(float *x, const float *cosines, const float *sines, uint32_t rotary, bool half)
{
    uint32_t pairs = rotary / 2;
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t first = half ? i : 2 * i;
        uint32_t second = half ? i + pairs : 2 * i + 1;
        float x0 = x[first];
        float x1 = x[second];
        x[first] = fmaf(x0, cosines[i], -(x1 * sines[i]));
        x[second] = fmaf(x1, cosines[i], x0 * sines[i]);
    }
}

void ref_silu_mul(const float *gate, const float *up, float *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        out[i] = math_silu(gate[i]) * up[i];
    }
}

void ref_add(float *x, const float *y, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        x[i] += y[i];
    }
}

void ref_add_scaled(float *x, const float *y, float scale, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        x[i] = fmaf(y[i], scale, x[i]);
    }
}

void ref_scale(float *x, float scale, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        x[i] *= scale;
    }
}

void ref_clamp(float *x, float limit, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float v = max_or_second(-limit, limit < x[i] ? limit : x[i]);
        x[i] = v;
    }
}

void ref_softmax(float *x, uint32_t n)
{
    float lane[LANES];
    for (int j = 0; j < LANES; j++) {
        lane[j] = -INFINITY;
    }
    for (uint32_t i = 0; i < n; i++) {
        lane[i % LANES] = max_or_second(x[i], lane[i % LANES]);
    }
    float max = lanes_max(lane);
    float sum[LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        x[i] = math_exp(x[i] - max);
        sum[i % LANES] += x[i];
    }
    float total = lanes_sum(sum);
    for (uint32_t i = 0; i < n; i++) {
        x[i] /= total;
    }
}

void ref_sigmoid(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] = math_sigmoid(x[i]);
    }
}

void ref_to_f16(const float *x, uint16_t *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        out[i] = f16_from_f32(x[i]);
    }
}
