/* SPDX-License-Identifier: MIT
 * Kernels over one vector of floats, NEON: docs/arithmetic.md, sections 4 and 5. */
#include "compute/arm/neon.h"

#include "compute/vector_loop.h"

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

void neon_to_f16(const float *x, uint16_t *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 4) {
        uint16_t some[4];
        vst1_u16(some, vreinterpret_u16_f16(vcvt_f16_f32(vec_load_some(x + i, n - i))));
        memcpy(out + i, some, (n - i < 4 ? n - i : 4) * sizeof *out);
    }
}
