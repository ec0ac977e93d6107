/* SPDX-License-Identifier: MIT
 * The AVX-512 row (F, BW, CD, DQ, VL, VNNI). */
#include "compute/blocks.h"
#include "compute/ref/ref.h"
#include "compute/rows.h"
#include "compute/units.h"
#include "compute/x86/avx512.h"

#define ENTRY(TYPE, name) [DTYPE_##TYPE] = avx512_matmul_##name,
#define PACKED_ENTRY(TYPE) [DTYPE_##TYPE] = avx512_matmul_##TYPE,

const struct kernels kernels_avx512 = {
    .isa = BERTH_ISA_AVX512,
    .name = "avx512",
    .matmul = {[DTYPE_F32] = avx512_matmul_f32,
               [DTYPE_F16] = avx512_matmul_f16,
               [DTYPE_BF16] = avx512_matmul_bf16,
               UNIT_FORMATS(ENTRY) BLOCK_FORMATS(ENTRY) PACKED_FORMATS(PACKED_ENTRY)},
    .prepare = {[ACT_F32] = ref_prepare_f32, [ACT_Q8] = avx512_prepare_q8, [ACT_Q8_SUPER] = avx512_prepare_q8_super},
    .rmsnorm = avx512_rmsnorm,
    .rope = avx512_rope,
    .silu_mul = avx512_silu_mul,
    .add = avx512_add,
    .add_scaled = avx512_add_scaled,
    .scale = avx512_scale,
    .clamp = avx512_clamp,
    .softmax = avx512_softmax,
    .sigmoid = avx512_sigmoid,
    .attend = avx512_attend,
    .to_f16 = avx512_to_f16,
};
