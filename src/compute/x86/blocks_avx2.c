/* SPDX-License-Identifier: MIT
 * Matrix products of the block formats, AVX2: docs/arithmetic.md, section 2, over panels (compute/blocks.h).
 * Two accumulator registers a (row, token) pair. Tiles: 4 rows x 1 token, else 2 rows x up to 3 tokens. */
#include "compute/blocks.h"
#include "compute/x86/avx2.h"

enum { TILE_ROWS = 2, TILE_TOKENS = 3, TILE_ROWS_ONE = PANEL_ROWS };

#include "compute/blocks_loop.h"

INLINE void tile(struct tile_args args, uint32_t row, uint32_t token, int tile_rows, int tile_tokens)
{
    const struct panel *panel = args.panel;
    struct panel_lanes *lanes = args.lanes;
    const uint64_t x_row_bytes = args.x_row_bytes;
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
    const unsigned char *x = args.x + token * x_row_bytes;
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

#define MATMUL(TYPE, name) BLOCK_MATMUL(avx2, name, TYPE)
BLOCK_FORMATS(MATMUL)

static void packed(enum dtype type, const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    packed_product(type, multiply, m, row_begin, row_end);
}

#define PACKED_MATMUL(TYPE)                                                               \
    void avx2_matmul_##TYPE(const struct matmul *m, uint32_t row_begin, uint32_t row_end) \
    {                                                                                     \
        packed(DTYPE_##TYPE, m, row_begin, row_end);                                      \
    }
PACKED_FORMATS(PACKED_MATMUL)
