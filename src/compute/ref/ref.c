/* SPDX-License-Identifier: MIT
 * The row every CPU can run, and the one the others are held against. */
#include "compute/ref/ref.h"

#include "compute/blocks.h"
#include "compute/rows.h"
#include "compute/units.h"

#define ENTRY(TYPE, name) [DTYPE_##TYPE] = ref_matmul_##name,
#define PACKED_ENTRY(TYPE) [DTYPE_##TYPE] = ref_matmul_##TYPE,

const struct kernels kernels_ref = {
    .isa = BERTH_ISA_REF,
    .name = "ref",
    .matmul = {[DTYPE_F32] = ref_matmul_f32,
               [DTYPE_F16] = ref_matmul_f16,
               [DTYPE_BF16] = ref_matmul_bf16,
               UNIT_FORMATS(ENTRY) BLOCK_FORMATS(ENTRY) PACKED_FORMATS(PACKED_ENTRY)},
    .prepare = {[ACT_F32] = ref_prepare_f32, [ACT_Q8] = ref_prepare_q8, [ACT_Q8_SUPER] = ref_prepare_q8_super},
    .rmsnorm = ref_rmsnorm,
    .rope = ref_rope,
    .silu_mul = ref_silu_mul,
    .add = ref_add,
    .add_scaled = ref_add_scaled,
    .scale = ref_scale,
    .clamp = ref_clamp,
    .softmax = ref_softmax,
    .sigmoid = ref_sigmoid,
    .attend = ref_attend,
    .to_f16 = ref_to_f16,
};
