/* SPDX-License-Identifier: MIT
 * The AVX2 row (with FMA and F16C). */
#include "compute/blocks.h"
#include "compute/ref/ref.h"
#include "compute/rows.h"
#include "compute/units.h"
#include "compute/x86/avx2.h"

#define ENTRY(TYPE, name) [DTYPE_##TYPE] = avx2_matmul_##name,
#define PACKED_ENTRY(TYPE) [DTYPE_##TYPE] = avx2_matmul_##TYPE,

const struct kernels kernels_avx2 = {
    .isa = BERTH_ISA_AVX2,
    .name = "avx2",
    .matmul = {[DTYPE_F32] = avx2_matmul_f32,
               [DTYPE_F16] = avx2_matmul_f16,
               [DTYPE_BF16] = avx2_matmul_bf16,
               UNIT_FORMATS(ENTRY) BLOCK_FORMATS(ENTRY) PACKED_FORMATS(PACKED_ENTRY)},
    .prepare = {[ACT_F32] = ref_prepare_f32, [ACT_Q8] = avx2_prepare_q8, [ACT_Q8_SUPER] = avx2_prepare_q8_super},
    .rmsnorm = avx2_rmsnorm,
    .rope = avx2_rope,
    .silu_mul = avx2_silu_mul,
    .add = avx2_add,
    .add_scaled = avx2_add_scaled,
    .scale = avx2_scale,
    .clamp = avx2_clamp,
    .softmax = avx2_softmax,
    .sigmoid = avx2_sigmoid,
    .attend = avx2_attend,
    .to_f16 = avx2_to_f16,
};
