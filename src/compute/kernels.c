/* SPDX-License-Identifier: MIT
 * Choosing a kernel row, and the one step that no row specialises. */
#include "compute/kernels.h"

#include "compute/lanes.h"
#include "compute/rows.h"
#include "os/cpu.h"

const struct kernels *kernels_select(berth_isa isa)
{
    struct os_cpu cpu;
    os_cpu_detect(&cpu);
    /* By berth_isa; NULL: this CPU or this build cannot run it. Later rows are better ones. */
    const struct kernels *rows[] = {[BERTH_ISA_REF] = &kernels_ref, [BERTH_ISA_NEON] = NULL};
#if defined(__x86_64__)
    rows[BERTH_ISA_AVX2] = cpu.avx2 ? &kernels_avx2 : NULL;
    rows[BERTH_ISA_AVX512] = cpu.avx2 && cpu.avx512vnni ? &kernels_avx512 : NULL;
#elif defined(__aarch64__)
    rows[BERTH_ISA_NEON] = cpu.neon && cpu.dotprod ? &kernels_neon : NULL;
#endif
    const size_t count = sizeof rows / sizeof rows[0];
    if (isa != BERTH_ISA_AUTO) {
        return (size_t)isa < count ? rows[isa] : NULL;
    }
    for (size_t i = count - 1; i > BERTH_ISA_REF; i--) {
        if (rows[i] != NULL) {
            return rows[i];
        }
    }
    return &kernels_ref;
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
