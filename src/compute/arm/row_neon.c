/* SPDX-License-Identifier: MIT
 * The NEON row (Armv8.2 with the dot product extension). */
#include "compute/arm/neon.h"
#include "compute/blocks.h"
#include "compute/ref/ref.h"
#include "compute/rows.h"
#include "compute/units.h"

#define ENTRY(TYPE, name) [DTYPE_##TYPE] = neon_matmul_##name,
#define PACKED_ENTRY(TYPE) [DTYPE_##TYPE] = neon_matmul_##TYPE,

const struct kernels kernels_neon = {
    .isa = BERTH_ISA_NEON,
    .name = "neon",
    .matmul = {[DTYPE_F32] = neon_matmul_f32,
               [DTYPE_F16] = neon_matmul_f16,
               [DTYPE_BF16] = neon_matmul_bf16,
               UNIT_FORMATS(ENTRY) BLOCK_FORMATS(ENTRY) PACKED_FORMATS(PACKED_ENTRY)},
    .prepare = {[ACT_F32] = ref_prepare_f32, [ACT_Q8] = neon_prepare_q8, [ACT_Q8_SUPER] = neon_prepare_q8_super},
    .rmsnorm = neon_rmsnorm,
    .rope = neon_rope,
    .silu_mul = neon_silu_mul,
    .add = neon_add,
    .add_scaled = neon_add_scaled,
    .scale = neon_scale,
    .clamp = neon_clamp,
    .softmax = neon_softmax,
    .sigmoid = neon_sigmoid,
    .attend = neon_attend,
    .to_f16 = neon_to_f16,
};
