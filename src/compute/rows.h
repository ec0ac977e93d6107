/* SPDX-License-Identifier: MIT
 * The rows that kernels_select() chooses from, and what a row is made of: matrix products by format (the lists below)
 * and the functions of ROW_FUNCTIONS. A row's files define them under its name, and one line, KERNEL_ROW(), makes the
 * table entry. A row exists only in builds for its architecture. */
#ifndef COMPUTE_ROWS_H
#define COMPUTE_ROWS_H

#include "compute/kernels.h"

extern const struct kernels kernels_ref;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
#elif defined(__aarch64__)
extern const struct kernels kernels_neon;
#endif

/* X(row, enum name, function name). Stored floats: */
#define FLOAT_FORMATS(X, isa) X(isa, F32, f32) X(isa, F16, f16) X(isa, BF16, bf16)
/* Blocks and super-blocks whose products are integer dots (compute/units.h): */
#define SMALL_FORMATS(X, isa) \
    X(isa, Q8_0, q8_0)        \
    X(isa, Q4_0, q4_0)        \
    X(isa, Q4_1, q4_1)        \
    X(isa, Q5_0, q5_0)        \
    X(isa, Q5_1, q5_1)        \
    X(isa, IQ4_NL, iq4_nl)    \
    X(isa, MXFP4, mxfp4)
#define SUPER_FORMATS(X, isa) \
    X(isa, Q2_K, q2_k)        \
    X(isa, Q3_K, q3_k)        \
    X(isa, Q4_K, q4_k)        \
    X(isa, Q5_K, q5_k)        \
    X(isa, Q6_K, q6_k)        \
    X(isa, IQ4_XS, iq4_xs)
/* Formats that are dequantised panel by panel (compute/panels.h); the second half has scales beside the quants: */
#define PANEL_FORMATS(X, isa) \
    X(isa, IQ2_XXS, iq2_xxs)  \
    X(isa, IQ2_XS, iq2_xs)    \
    X(isa, IQ2_S, iq2_s)      \
    X(isa, IQ3_XXS, iq3_xxs)  \
    X(isa, IQ3_S, iq3_s)      \
    X(isa, IQ1_S, iq1_s)      \
    X(isa, IQ1_M, iq1_m)      \
    X(isa, TQ1_0, tq1_0)      \
    X(isa, TQ2_0, tq2_0)      \
    X(isa, Q1_0, q1_0)        \
    X(isa, Q2_0, q2_0)        \
    X(isa, MLX2, mlx2)        \
    X(isa, MLX3, mlx3)        \
    X(isa, MLX4, mlx4)        \
    X(isa, MLX5, mlx5)        \
    X(isa, MLX6, mlx6)        \
    X(isa, MLX8, mlx8)        \
    X(isa, F8_E4M3, f8_e4m3)  \
    X(isa, MXFP4_ROWS, mxfp4_rows)
#define MATMUL_FORMATS(X, isa) FLOAT_FORMATS(X, isa) SMALL_FORMATS(X, isa) SUPER_FORMATS(X, isa) PANEL_FORMATS(X, isa)

#define ROW_MATMUL(isa, TYPE, name) matmul_fn isa##_matmul_##name;
#define ROW_FUNCTIONS(isa)                                                                           \
    MATMUL_FORMATS(ROW_MATMUL, isa)                                                                  \
    void isa##_prepare_q8(const float *x, void *out, uint32_t k);                                    \
    void isa##_prepare_q8_super(const float *x, void *out, uint32_t k);                              \
    void isa##_rmsnorm(const float *x, const float *weight, float eps, float *out, uint32_t n);      \
    void isa##_rope(float *x, const float *cosines, const float *sines, uint32_t rotary, bool half); \
    void isa##_silu_mul(const float *gate, const float *up, float *out, uint64_t n);                 \
    void isa##_add(float *x, const float *y, uint64_t n);                                            \
    void isa##_add_scaled(float *x, const float *y, float scale, uint64_t n);                        \
    void isa##_scale(float *x, float scale, uint64_t n);                                             \
    void isa##_clamp(float *x, float limit, uint64_t n);                                             \
    void isa##_softmax(float *x, uint32_t n);                                                        \
    void isa##_sigmoid(float *x, uint32_t n);                                                        \
    void isa##_to_f16(const float *x, uint16_t *out, uint64_t n);                                    \
    void isa##_attend(const struct attend *a);

ROW_FUNCTIONS(ref)
ROW_FUNCTIONS(avx2)
ROW_FUNCTIONS(avx512)
ROW_FUNCTIONS(neon)
void ref_prepare_f32(const float *x, void *out, uint32_t k); /* a copy: every row's */

#define ROW_ENTRY(isa, TYPE, name) [DTYPE_##TYPE] = isa##_matmul_##name,
#define KERNEL_ROW(row, id)                                                                                      \
    const struct kernels kernels_##row = {                                                                       \
        .isa = (id),                                                                                             \
        .name = #row,                                                                                            \
        .matmul = {MATMUL_FORMATS(ROW_ENTRY, row)},                                                              \
        .prepare =                                                                                               \
            {[ACT_F32] = ref_prepare_f32, [ACT_Q8] = row##_prepare_q8, [ACT_Q8_SUPER] = row##_prepare_q8_super}, \
        .rmsnorm = row##_rmsnorm,                                                                                \
        .rope = row##_rope,                                                                                      \
        .silu_mul = row##_silu_mul,                                                                              \
        .add = row##_add,                                                                                        \
        .add_scaled = row##_add_scaled,                                                                          \
        .scale = row##_scale,                                                                                    \
        .clamp = row##_clamp,                                                                                    \
        .softmax = row##_softmax,                                                                                \
        .sigmoid = row##_sigmoid,                                                                                \
        .attend = row##_attend,                                                                                  \
        .to_f16 = row##_to_f16,                                                                                  \
    }

#endif
