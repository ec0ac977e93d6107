/* SPDX-License-Identifier: MIT
 * Matrix products of the block formats, NEON: docs/arithmetic.md, section 2, over panels (compute/blocks.h).
 * Four accumulator registers a (row, token) pair. Tiles: 4 rows x 1 token, else 2 rows x up to 3 tokens. */
#include "compute/arm/neon.h"
#include "compute/blocks.h"

enum { TILE_ROWS = 2, TILE_TOKENS = 3, TILE_ROWS_ONE = PANEL_ROWS };

#include "compute/blocks_loop.h"

INLINE void tile(struct tile_args args, uint32_t row, uint32_t token, int tile_rows, int tile_tokens)
{
    const struct panel *panel = args.panel;
    struct panel_lanes *lanes = args.lanes;
    const uint64_t x_row_bytes = args.x_row_bytes;
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
    const unsigned char *x = args.x + token * x_row_bytes;
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

#define MATMUL(TYPE, name) BLOCK_MATMUL(neon, name, TYPE)
BLOCK_FORMATS(MATMUL)

static void packed(enum dtype type, const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    packed_product(type, multiply, m, row_begin, row_end);
}

#define PACKED_MATMUL(TYPE)                                                               \
    void neon_matmul_##TYPE(const struct matmul *m, uint32_t row_begin, uint32_t row_end) \
    {                                                                                     \
        packed(DTYPE_##TYPE, m, row_begin, row_end);                                      \
    }
PACKED_FORMATS(PACKED_MATMUL)
