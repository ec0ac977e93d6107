/* SPDX-License-Identifier: MIT
 * Matrix products of block formats whose activations stay float32 (docs/arithmetic.md, section 2): what all rows share.
 *
 * A panel is up to 4 weight rows, 256 values of each, dequantised to the stack; every token of a group passes it before
 * the next one is made, with its 16 lanes a row kept in memory in between. Blocks are multiples of 16 values, so that a
 * panel never has a tail. A row of the table brings the multiplication of one panel (and may bring its own
 * dequantiser, which must give the bits of quant_row's).
 */
#ifndef COMPUTE_BLOCKS_H
#define COMPUTE_BLOCKS_H

#include <string.h>

#include "compute/kernels.h"
#include "compute/lanes.h"
#include "compute/unroll.h"

enum { PANEL_ROWS = 4, PANEL_VALUES = 256, PANEL_TOKENS = 12 };

/* Every format that runs this way: X(enum name, function name). */
#define BLOCK_FORMATS(X) \
    X(IQ2_XXS, iq2_xxs)  \
    X(IQ2_XS, iq2_xs)    \
    X(IQ2_S, iq2_s)      \
    X(IQ3_XXS, iq3_xxs)  \
    X(IQ3_S, iq3_s)      \
    X(IQ1_S, iq1_s)      \
    X(IQ1_M, iq1_m)      \
    X(TQ1_0, tq1_0)      \
    X(TQ2_0, tq2_0)      \
    X(Q1_0, q1_0)        \
    X(Q2_0, q2_0)

#define BLOCK_DECLARE_REF(TYPE, name) matmul_fn ref_matmul_##name;
#define BLOCK_DECLARE_AVX2(TYPE, name) matmul_fn avx2_matmul_##name;
#define BLOCK_DECLARE_AVX512(TYPE, name) matmul_fn avx512_matmul_##name;
#define BLOCK_DECLARE_NEON(TYPE, name) matmul_fn neon_matmul_##name;
/* Formats with scales beside them (quant/packed.h): one function for all of them, told by the matrix. */
#define PACKED_FORMATS(X) X(MLX2) X(MLX3) X(MLX4) X(MLX5) X(MLX6) X(MLX8) X(F8_E4M3) X(MXFP4_ROWS)
#define PACKED_FUNCTIONS(isa)                                                                                \
    matmul_fn isa##_matmul_MLX2, isa##_matmul_MLX3, isa##_matmul_MLX4, isa##_matmul_MLX5, isa##_matmul_MLX6, \
        isa##_matmul_MLX8, isa##_matmul_F8_E4M3, isa##_matmul_MXFP4_ROWS
PACKED_FUNCTIONS(ref);
PACKED_FUNCTIONS(avx2);
PACKED_FUNCTIONS(avx512);
PACKED_FUNCTIONS(neon);

BLOCK_FORMATS(BLOCK_DECLARE_REF)
BLOCK_FORMATS(BLOCK_DECLARE_AVX2)
BLOCK_FORMATS(BLOCK_DECLARE_AVX512)
BLOCK_FORMATS(BLOCK_DECLARE_NEON)

struct panel {
    _Alignas(64) float w[PANEL_ROWS][PANEL_VALUES];
    uint32_t rows, values; /* values: a multiple of 16 */
};
struct panel_lanes {
    _Alignas(64) float lane[PANEL_TOKENS][PANEL_ROWS][LANES];
};

/* lane[t][r][i mod 16] = fma(w[r][i], x[t][i], lane[t][r][i mod 16]) for all values of the panel, for tokens
 * 0..tokens-1, whose activations lie x_row_bytes apart. */
typedef void panel_multiply_fn(const struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, uint32_t tokens,
                               struct panel_lanes *lanes);
typedef void dequantise_fn(const void *blocks, float *out, size_t n);

/* Rows [row, row + rows) for tokens [token, token + tokens). */
INLINE void block_group(const struct quant_row *format, dequantise_fn *dequantise, panel_multiply_fn *multiply,
                        const struct matmul *m, uint32_t row, uint32_t token, uint32_t tokens, struct panel *panel)
{
    struct panel_lanes lanes;
    memset(lanes.lane, 0, tokens * sizeof lanes.lane[0]);
    const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
    const unsigned char *x = (const unsigned char *)m->x + token * m->x_row_bytes;
    for (uint32_t i = 0; i < m->k; i += PANEL_VALUES) {
        panel->values = m->k - i < PANEL_VALUES ? m->k - i : PANEL_VALUES;
        size_t at = (size_t)(i / format->block_elems) * format->block_bytes;
        for (uint32_t r = 0; r < panel->rows; r++) {
            dequantise(w + r * m->w_row_bytes + at, panel->w[r], panel->values);
        }
        multiply(panel, x + (size_t)i * sizeof(float), m->x_row_bytes, tokens, &lanes);
    }
    for (uint32_t t = 0; t < tokens; t++) {
        float *y = m->y + (token + t) * m->y_row_floats + row;
        for (uint32_t r = 0; r < panel->rows; r++) {
            float v = lanes_sum(lanes.lane[t][r]);
            y[r] = m->bias != NULL ? v + m->bias[row + r] : v;
        }
    }
}

INLINE void block_product(enum dtype type, dequantise_fn *dequantise, panel_multiply_fn *multiply,
                          const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    struct panel panel;
    for (uint32_t row = row_begin; row < row_end; row += PANEL_ROWS) {
        panel.rows = row_end - row < PANEL_ROWS ? row_end - row : PANEL_ROWS;
        for (uint32_t token = 0; token < m->tokens; token += PANEL_TOKENS) {
            uint32_t left = m->tokens - token;
            block_group(quant_row(type), dequantise, multiply, m, row, token, left < PANEL_TOKENS ? left : PANEL_TOKENS,
                        &panel);
        }
    }
}

INLINE void packed_group(enum dtype type, panel_multiply_fn *multiply, const struct matmul *m, uint32_t row,
                         uint32_t token, uint32_t tokens, struct panel *panel)
{
    struct panel_lanes lanes;
    memset(lanes.lane, 0, tokens * sizeof lanes.lane[0]);
    const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
    const unsigned char *x = (const unsigned char *)m->x + token * m->x_row_bytes;
    for (uint32_t i = 0; i < m->k; i += PANEL_VALUES) {
        panel->values = m->k - i < PANEL_VALUES ? m->k - i : PANEL_VALUES;
        for (uint32_t r = 0; r < panel->rows; r++) {
            packed_dequantise(type, &m->side, w + r * m->w_row_bytes, row + r, i, panel->values, panel->w[r]);
        }
        multiply(panel, x + (size_t)i * sizeof(float), m->x_row_bytes, tokens, &lanes);
    }
    for (uint32_t t = 0; t < tokens; t++) {
        float *y = m->y + (token + t) * m->y_row_floats + row;
        for (uint32_t r = 0; r < panel->rows; r++) {
            float v = lanes_sum(lanes.lane[t][r]);
            y[r] = m->bias != NULL ? v + m->bias[row + r] : v;
        }
    }
}

INLINE void packed_product(enum dtype type, panel_multiply_fn *multiply, const struct matmul *m, uint32_t row_begin,
                           uint32_t row_end)
{
    struct panel panel;
    for (uint32_t row = row_begin; row < row_end; row += PANEL_ROWS) {
        panel.rows = row_end - row < PANEL_ROWS ? row_end - row : PANEL_ROWS;
        for (uint32_t token = 0; token < m->tokens; token += PANEL_TOKENS) {
            uint32_t left = m->tokens - token;
            packed_group(type, multiply, m, row, token, left < PANEL_TOKENS ? left : PANEL_TOKENS, &panel);
        }
    }
}

#endif
