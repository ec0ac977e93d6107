/* SPDX-License-Identifier: MIT
 * Converters of the block formats, one file a family; reached from outside through quant_rows only. */
#ifndef QUANT_FORMATS_H
#define QUANT_FORMATS_H

#include <stddef.h>

/* Same contract as the members of struct quant_row: n is a whole number of blocks, pointers have any alignment on the
 * block side. */
void f32_dequantise(const void *blocks, float *out, size_t n);
void f32_quantise(const float *in, void *blocks, size_t n);
void f16_dequantise(const void *blocks, float *out, size_t n);
void f16_quantise(const float *in, void *blocks, size_t n);
void bf16_dequantise(const void *blocks, float *out, size_t n);
void bf16_quantise(const float *in, void *blocks, size_t n);
void q8_0_dequantise(const void *blocks, float *out, size_t n);
void q8_0_quantise(const float *in, void *blocks, size_t n);
void q4_0_dequantise(const void *blocks, float *out, size_t n);
void q4_0_quantise(const float *in, void *blocks, size_t n);
void q4_1_dequantise(const void *blocks, float *out, size_t n);
void q4_1_quantise(const float *in, void *blocks, size_t n);
void q5_0_dequantise(const void *blocks, float *out, size_t n);
void q5_0_quantise(const float *in, void *blocks, size_t n);
void q5_1_dequantise(const void *blocks, float *out, size_t n);
void q5_1_quantise(const float *in, void *blocks, size_t n);
void iq4_nl_dequantise(const void *blocks, float *out, size_t n);
void iq4_nl_quantise(const float *in, void *blocks, size_t n);
void mxfp4_dequantise(const void *blocks, float *out, size_t n);
void mxfp4_quantise(const float *in, void *blocks, size_t n);
void q1_0_dequantise(const void *blocks, float *out, size_t n);
void q2_0_dequantise(const void *blocks, float *out, size_t n);
void q2_k_dequantise(const void *blocks, float *out, size_t n);
void q2_k_quantise(const float *in, void *blocks, size_t n);
void q3_k_dequantise(const void *blocks, float *out, size_t n);
void q3_k_quantise(const float *in, void *blocks, size_t n);
void q4_k_dequantise(const void *blocks, float *out, size_t n);
void q4_k_quantise(const float *in, void *blocks, size_t n);
void q5_k_dequantise(const void *blocks, float *out, size_t n);
void q5_k_quantise(const float *in, void *blocks, size_t n);
void q6_k_dequantise(const void *blocks, float *out, size_t n);
void q6_k_quantise(const float *in, void *blocks, size_t n);
void tq1_0_dequantise(const void *blocks, float *out, size_t n);
void tq2_0_dequantise(const void *blocks, float *out, size_t n);
void iq2_xxs_dequantise(const void *blocks, float *out, size_t n);
void iq2_xs_dequantise(const void *blocks, float *out, size_t n);
void iq2_s_dequantise(const void *blocks, float *out, size_t n);
void iq3_xxs_dequantise(const void *blocks, float *out, size_t n);
void iq3_s_dequantise(const void *blocks, float *out, size_t n);
void iq1_s_dequantise(const void *blocks, float *out, size_t n);
void iq1_m_dequantise(const void *blocks, float *out, size_t n);
void iq4_xs_dequantise(const void *blocks, float *out, size_t n);
void iq4_xs_quantise(const float *in, void *blocks, size_t n);

#endif
