/* SPDX-License-Identifier: MIT
 * Matrix products of the block formats, AVX-512: docs/arithmetic.md, section 2, over panels (compute/blocks.h).
 * A tile is 4 rows x up to 6 tokens, one accumulator register a pair. */
#include "compute/blocks.h"
#include "compute/x86/avx512.h"

enum { TILE_TOKENS = 6 };

INLINE void tile(const struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, struct panel_lanes *lanes,
                 uint32_t token, uint32_t row, int tile_rows, int tile_tokens)
{
    __m512 acc[TILE_TOKENS][PANEL_ROWS];
    UNROLLED(t, tile_tokens)
    {
        UNROLLED(r, tile_rows)
        {
            acc[t][r] = _mm512_load_ps(lanes->lane[token + (uint32_t)t][row + (uint32_t)r]);
        }
    }
    x += token * x_row_bytes;
    for (uint32_t i = 0; i < panel->values; i += LANES) {
        __m512 w[PANEL_ROWS];
        UNROLLED(r, tile_rows)
        {
            w[r] = _mm512_load_ps(&panel->w[row + (uint32_t)r][i]);
        }
        UNROLLED(t, tile_tokens)
        {
            __m512 xv = load_f32x16(x + (uint64_t)t * x_row_bytes + (size_t)i * sizeof(float));
            UNROLLED(r, tile_rows)
            {
                acc[t][r] = _mm512_fmadd_ps(w[r], xv, acc[t][r]);
            }
        }
    }
    UNROLLED(t, tile_tokens)
    {
        UNROLLED(r, tile_rows)
        {
            _mm512_store_ps(lanes->lane[token + (uint32_t)t][row + (uint32_t)r], acc[t][r]);
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
    case 3:
        tile(panel, x, x_row_bytes, lanes, token, row, rows, 3);
        break;
    case 4:
        tile(panel, x, x_row_bytes, lanes, token, row, rows, 4);
        break;
    case 5:
        tile(panel, x, x_row_bytes, lanes, token, row, rows, 5);
        break;
    default:
        tile(panel, x, x_row_bytes, lanes, token, row, rows, 6);
        break;
    }
}

static void multiply(const struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, uint32_t tokens,
                     struct panel_lanes *lanes)
{
    for (uint32_t token = 0; token < tokens;) {
        uint32_t left = tokens - token;
        uint32_t group = left <= TILE_TOKENS ? left : left < 2 * TILE_TOKENS ? (left + 1) / 2 : TILE_TOKENS;
        if (panel->rows == PANEL_ROWS) {
            tile_of(panel, x, x_row_bytes, lanes, token, 0, PANEL_ROWS, group);
        } else {
            for (uint32_t row = 0; row < panel->rows; row++) {
                tile_of(panel, x, x_row_bytes, lanes, token, row, 1, group);
            }
        }
        token += group;
    }
}

static void product(enum dtype type, const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    block_product(type, quant_row(type)->dequantise, multiply, m, row_begin, row_end);
}

#define MATMUL(TYPE, name)                                                                  \
    void avx512_matmul_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end) \
    {                                                                                       \
        product(DTYPE_##TYPE, m, row_begin, row_end);                                       \
    }
BLOCK_FORMATS(MATMUL)
