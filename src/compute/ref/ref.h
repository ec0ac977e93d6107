/* SPDX-License-Identifier: MIT
 * The reference kernels: docs/arithmetic.md in plain C, one file a section. Other rows may use those of them that gain
 * nothing from wider instructions. */
#ifndef COMPUTE_REF_REF_H
#define COMPUTE_REF_REF_H

#include "compute/kernels.h"

void ref_matmul_f32(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
void ref_matmul_f16(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
void ref_matmul_bf16(const struct matmul *m, uint32_t row_begin, uint32_t row_end);

void ref_prepare_f32(const float *x, void *out, uint32_t k);
void ref_prepare_q8(const float *x, void *out, uint32_t k);
void ref_prepare_q8_super(const float *x, void *out, uint32_t k);

void ref_rmsnorm(const float *x, const float *weight, float eps, float *out, uint32_t n);
void ref_rope(float *x, const float *cosines, const float *sines, uint32_t rotary, bool half);
void ref_silu_mul(const float *gate, const float *up, float *out, uint64_t n);
void ref_add(float *x, const float *y, uint64_t n);
void ref_add_scaled(float *x, const float *y, float scale, uint64_t n);
void ref_scale(float *x, float scale, uint64_t n);
void ref_clamp(float *x, float limit, uint64_t n);
void ref_softmax(float *x, uint32_t n);
void ref_sigmoid(float *x, uint32_t n);
void ref_to_f16(const float *x, uint16_t *out, uint64_t n);

void ref_attend(const struct attend *a);

#endif
