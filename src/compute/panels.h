/* SPDX-License-Identifier: MIT
 * Matrix products of quantised formats whose activations stay float32 (docs/arithmetic.md, section 2): what all rows
 * share.
 *
 * A panel is up to 4 weight rows, 256 values of each, dequantised into the scratch; every token of a group passes it
 * before the next one is made, with its 16 lanes a row kept in memory in between. Blocks are multiples of 16 values, so
 * that a panel never has a tail. A row of the table brings the values and their multiplication.
 */
#ifndef COMPUTE_PANELS_H
#define COMPUTE_PANELS_H

#include <string.h>

#include "compute/lanes.h"
#include "compute/rows.h"
#include "compute/unroll.h"

enum { PANEL_ROWS = 4, PANEL_VALUES = 256, PANEL_TOKENS = 96 };

struct panel {
    _Alignas(64) float w[PANEL_ROWS][PANEL_VALUES];
    _Alignas(64) float lane[PANEL_TOKENS][PANEL_ROWS][LANES];
    uint32_t rows, values; /* values: a multiple of 16 */
};
_Static_assert(sizeof(struct panel) <= MATMUL_SCRATCH_BYTES, "a panel lies in the scratch");

/* Values [first, first + n) of a weight row; n is a multiple of 16. */
typedef void panel_fill_fn(const struct matmul *m, uint32_t row, uint32_t first, uint32_t n, float *out);
/* lane[t][r][i mod 16] = fma(w[r][i], x[t][i], lane[t][r][i mod 16]) for all values of the panel, for tokens
 * 0..tokens-1, whose activations lie x_row_bytes apart. */
typedef void panel_multiply_fn(struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, uint32_t tokens);

/* Rows [row, row + panel->rows) for tokens [token, token + tokens). */
INLINE void panel_group(panel_fill_fn *fill, panel_multiply_fn *multiply, const struct matmul *m, uint32_t row,
                        uint32_t token, uint32_t tokens)
{
    struct panel *panel = m->scratch;
    memset(panel->lane, 0, tokens * sizeof panel->lane[0]);
    const unsigned char *x = (const unsigned char *)m->x + token * m->x_row_bytes;
    for (uint32_t i = 0; i < m->k; i += PANEL_VALUES) {
        panel->values = m->k - i < PANEL_VALUES ? m->k - i : PANEL_VALUES;
        for (uint32_t r = 0; r < panel->rows; r++) {
            fill(m, row + r, i, panel->values, panel->w[r]);
        }
        multiply(panel, x + (size_t)i * sizeof(float), m->x_row_bytes, tokens);
    }
    for (uint32_t t = 0; t < tokens; t++) {
        float *y = m->y + (token + t) * m->y_row_floats + row;
        for (uint32_t r = 0; r < panel->rows; r++) {
            float v = lanes_sum(panel->lane[t][r]);
            y[r] = m->bias != NULL ? v + m->bias[row + r] : v;
        }
    }
}

INLINE void panel_product(panel_fill_fn *fill, panel_multiply_fn *multiply, const struct matmul *m, uint32_t row_begin,
                          uint32_t row_end)
{
    struct panel *panel = m->scratch;
    for (uint32_t row = row_begin; row < row_end; row += PANEL_ROWS) {
        panel->rows = row_end - row < PANEL_ROWS ? row_end - row : PANEL_ROWS;
        for (uint32_t token = 0; token < m->tokens; token += PANEL_TOKENS) {
            uint32_t left = m->tokens - token;
            panel_group(fill, multiply, m, row, token, left < PANEL_TOKENS ? left : PANEL_TOKENS);
        }
    }
}

#endif
