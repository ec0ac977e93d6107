/* SPDX-License-Identifier: MIT
 * Choosing a kernel row, and the one step that no row specialises. */
#include "compute/kernels.h"

#include "compute/lanes.h"
#include "compute/rows.h"
#include "os/cpu.h"

const struct kernels *kernels_select(berth_isa isa)
{
    const struct kernels *avx2 = NULL;
    const struct kernels *avx512 = NULL;
    const struct kernels *best = &kernels_ref;
#if defined(__x86_64__)
    struct os_cpu cpu;
    os_cpu_detect(&cpu);
    avx2 = cpu.avx2 ? &kernels_avx2 : NULL;
    avx512 = cpu.avx2 && cpu.avx512vnni ? &kernels_avx512 : NULL;
    best = avx512 != NULL ? avx512 : avx2 != NULL ? avx2 : best;
#endif
    switch (isa) {
    case BERTH_ISA_AUTO:
        return best;
    case BERTH_ISA_REF:
        return &kernels_ref;
    case BERTH_ISA_AVX2:
        return avx2;
    case BERTH_ISA_AVX512:
        return avx512;
    case BERTH_ISA_NEON:
        break;
    }
    return NULL;
}

void attend_merge(float *max, float *sum, float *out, float max2, float sum2, const float *out2, uint32_t head_dim)
{
    float m = max_or_second(max2, *max);
    float c1 = *max == m ? 1.0f : math_exp(*max - m);
    float c2 = max2 == m ? 1.0f : math_exp(max2 - m);
    *max = m;
    *sum = *sum * c1 + sum2 * c2;
    for (uint32_t d = 0; d < head_dim; d++) {
        out[d] = out[d] * c1 + out2[d] * c2; /* no fma: baseline code has no fast one */
    }
}
