/* SPDX-License-Identifier: MIT
 * Matrix products of quantised formats whose activations stay float32 (docs/arithmetic.md, section 2): what all rows
 * share.
 *
 * A panel is up to 4 weight rows, 256 values of each, dequantised to the stack; every token of a group passes it before
 * the next one is made, with its 16 lanes a row kept in memory in between. Blocks are multiples of 16 values, so that a
 * panel never has a tail. A row of the table brings the multiplication of one panel.
 */
#ifndef COMPUTE_PANELS_H
#define COMPUTE_PANELS_H

#include <string.h>

#include "compute/lanes.h"
#include "compute/rows.h"
#include "compute/unroll.h"

enum { PANEL_ROWS = 4, PANEL_VALUES = 256, PANEL_TOKENS = 12 };

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

/* Values [i, i + panel->values) of the rows from `row` on. */
INLINE void panel_fill(enum dtype type, const struct matmul *m, uint32_t row, uint32_t i, struct panel *panel)
{
    const struct quant_row *format = quant_row(type);
    const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
    for (uint32_t r = 0; r < panel->rows; r++, w += m->w_row_bytes) {
        if (format->dequantise != NULL) {
            format->dequantise(w + (size_t)(i / format->block_elems) * format->block_bytes, panel->w[r], panel->values);
        } else {
            packed_dequantise(type, &m->side, w, row + r, i, panel->values, panel->w[r]);
        }
    }
}

/* Rows [row, row + panel->rows) for tokens [token, token + tokens). */
INLINE void panel_group(enum dtype type, panel_multiply_fn *multiply, const struct matmul *m, uint32_t row,
                        uint32_t token, uint32_t tokens, struct panel *panel)
{
    struct panel_lanes lanes;
    memset(lanes.lane, 0, tokens * sizeof lanes.lane[0]);
    const unsigned char *x = (const unsigned char *)m->x + token * m->x_row_bytes;
    for (uint32_t i = 0; i < m->k; i += PANEL_VALUES) {
        panel->values = m->k - i < PANEL_VALUES ? m->k - i : PANEL_VALUES;
        panel_fill(type, m, row, i, panel);
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

INLINE void panel_product(enum dtype type, panel_multiply_fn *multiply, const struct matmul *m, uint32_t row_begin,
                          uint32_t row_end)
{
    struct panel panel;
    for (uint32_t row = row_begin; row < row_end; row += PANEL_ROWS) {
        panel.rows = row_end - row < PANEL_ROWS ? row_end - row : PANEL_ROWS;
        for (uint32_t token = 0; token < m->tokens; token += PANEL_TOKENS) {
            uint32_t left = m->tokens - token;
            panel_group(type, multiply, m, row, token, left < PANEL_TOKENS ? left : PANEL_TOKENS, &panel);
        }
    }
}

/* The row's products, once it has defined product(type, m, row_begin, row_end). */
#define PANEL_MATMUL(isa, TYPE, name)                                                      \
    void isa##_matmul_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end) \
    {                                                                                      \
        product(DTYPE_##TYPE, m, row_begin, row_end);                                      \
    }

#endif
