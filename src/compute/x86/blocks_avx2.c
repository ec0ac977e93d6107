/* SPDX-License-Identifier: MIT
 * Matrix products of the block formats, AVX2: docs/arithmetic.md, section 2, over panels (compute/blocks.h).
 * Two accumulator registers a (row, token) pair. Tiles: 4 rows x 1 token, else 2 rows x up to 3 tokens. */
#include "compute/blocks.h"
#include "compute/x86/avx2.h"

enum { TILE_TOKENS = 3 };

INLINE void tile(const struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, struct panel_lanes *lanes,
                 uint32_t token, uint32_t row, int tile_rows, int tile_tokens)
{
    __m256 acc[TILE_TOKENS][PANEL_ROWS][2];
    UNROLLED(t, tile_tokens)
    {
        UNROLLED(r, tile_rows)
        {
            const float *lane = lanes->lane[token + (uint32_t)t][row + (uint32_t)r];
            acc[t][r][0] = _mm256_load_ps(lane);
            acc[t][r][1] = _mm256_load_ps(lane + 8);
        }
    }
    x += token * x_row_bytes;
    for (uint32_t i = 0; i < panel->values; i += LANES) {
        UNROLLED(h, 2)
        {
            uint32_t at = i + (uint32_t)h * 8;
            __m256 xv[TILE_TOKENS];
            UNROLLED(t, tile_tokens)
            {
                xv[t] = load_f32x8(x + (uint64_t)t * x_row_bytes + (size_t)at * sizeof(float));
            }
            UNROLLED(r, tile_rows)
            {
                __m256 w = _mm256_load_ps(&panel->w[row + (uint32_t)r][at]);
                UNROLLED(t, tile_tokens)
                {
                    acc[t][r][h] = _mm256_fmadd_ps(w, xv[t], acc[t][r][h]);
                }
            }
        }
    }
    UNROLLED(t, tile_tokens)
    {
        UNROLLED(r, tile_rows)
        {
            float *lane = lanes->lane[token + (uint32_t)t][row + (uint32_t)r];
            _mm256_store_ps(lane, acc[t][r][0]);
            _mm256_store_ps(lane + 8, acc[t][r][1]);
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
    void avx2_matmul_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end) \
    {                                                                                     \
        product(DTYPE_##TYPE, m, row_begin, row_end);                                     \
    }
BLOCK_FORMATS(MATMUL)
