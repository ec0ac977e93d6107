/* SPDX-License-Identifier: MIT
 * Matrix products of the block formats, NEON: docs/arithmetic.md, section 2, over panels (compute/blocks.h).
 * Four accumulator registers a (row, token) pair. Tiles: 4 rows x 1 token, else 2 rows x up to 3 tokens. */
#include "compute/arm/neon.h"
#include "compute/blocks.h"

enum { TILE_TOKENS = 3 };

INLINE void tile(const struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, struct panel_lanes *lanes,
                 uint32_t token, uint32_t row, int tile_rows, int tile_tokens)
{
    float32x4_t acc[TILE_TOKENS][PANEL_ROWS][4];
    UNROLLED(t, tile_tokens)
    {
        UNROLLED(r, tile_rows)
        {
            UNROLLED(q, 4)
            {
                acc[t][r][q] = vld1q_f32(lanes->lane[token + (uint32_t)t][row + (uint32_t)r] + 4 * q);
            }
        }
    }
    x += token * x_row_bytes;
    for (uint32_t i = 0; i < panel->values; i += LANES) {
        UNROLLED(q, 4)
        {
            uint32_t at = i + (uint32_t)q * 4;
            float32x4_t xv[TILE_TOKENS];
            UNROLLED(t, tile_tokens)
            {
                xv[t] = load_f32x4(x + (uint64_t)t * x_row_bytes + (size_t)at * sizeof(float));
            }
            UNROLLED(r, tile_rows)
            {
                float32x4_t w = vld1q_f32(&panel->w[row + (uint32_t)r][at]);
                UNROLLED(t, tile_tokens)
                {
                    acc[t][r][q] = vfmaq_f32(acc[t][r][q], w, xv[t]);
                }
            }
        }
    }
    UNROLLED(t, tile_tokens)
    {
        UNROLLED(r, tile_rows)
        {
            UNROLLED(q, 4)
            {
                vst1q_f32(lanes->lane[token + (uint32_t)t][row + (uint32_t)r] + 4 * q, acc[t][r][q]);
            }
        }
    }
}

INLINE void tile_of(const struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, struct panel_lanes *lanes,
                    uint32_t token, uint32_t row, int rows, uint32_t tokens)
{
    switch (tokens) {
    case 1:
        tile(panel, x, x_row_bytes, lanes, token, row, rows, 1);
        break;
    case 2:
        tile(panel, x, x_row_bytes, lanes, token, row, rows, 2);
        break;
    default:
        tile(panel, x, x_row_bytes, lanes, token, row, rows, 3);
        break;
    }
}

static void multiply(const struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, uint32_t tokens,
                     struct panel_lanes *lanes)
{
    for (uint32_t token = 0; token < tokens;) {
        uint32_t left = tokens - token;
        uint32_t group = left == 4 ? 2 : left < TILE_TOKENS ? left : TILE_TOKENS; /* 4 are 2 + 2, not 3 + 1 */
        uint32_t row = 0;
        if (group == 1 && panel->rows == PANEL_ROWS) {
            tile(panel, x, x_row_bytes, lanes, token, 0, PANEL_ROWS, 1);
            row = PANEL_ROWS;
        }
        for (; row + 2 <= panel->rows; row += 2) {
            tile_of(panel, x, x_row_bytes, lanes, token, row, 2, group);
        }
        if (row < panel->rows) {
            tile_of(panel, x, x_row_bytes, lanes, token, row, 1, group);
        }
        token += group;
    }
}

static void product(enum dtype type, const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    block_product(type, quant_row(type)->dequantise, multiply, m, row_begin, row_end);
}

#define MATMUL(TYPE, name)                                                                \
    void neon_matmul_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end) \
    {                                                                                     \
        product(DTYPE_##TYPE, m, row_begin, row_end);                                     \
    }
BLOCK_FORMATS(MATMUL)
