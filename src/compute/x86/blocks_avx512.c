/* SPDX-License-Identifier: MIT
 * Matrix products of the block formats, AVX-512: docs/arithmetic.md, section 2, over panels (compute/blocks.h).
 * A tile is 4 rows x up to 6 tokens, one accumulator register a pair. */
#include "compute/blocks.h"
#include "compute/x86/avx512.h"

enum { TILE_ROWS = 4, TILE_TOKENS = 6, TILE_ROWS_ONE = PANEL_ROWS };

#include "compute/blocks_loop.h"

INLINE void tile(struct tile_args args, uint32_t row, uint32_t token, int tile_rows, int tile_tokens)
{
    const struct panel *panel = args.panel;
    struct panel_lanes *lanes = args.lanes;
    const uint64_t x_row_bytes = args.x_row_bytes;
    __m512 acc[TILE_TOKENS][PANEL_ROWS];
    UNROLLED(t, tile_tokens)
    {
        UNROLLED(r, tile_rows)
        {
            acc[t][r] = _mm512_load_ps(lanes->lane[token + (uint32_t)t][row + (uint32_t)r]);
        }
    }
    const unsigned char *x = args.x + token * x_row_bytes;
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

#define MATMUL(TYPE, name) BLOCK_MATMUL(avx512, name, TYPE)
BLOCK_FORMATS(MATMUL)

static void packed(enum dtype type, const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    packed_product(type, multiply, m, row_begin, row_end);
}

#define PACKED_MATMUL(TYPE)                                                                 \
    void avx512_matmul_##TYPE(const struct matmul *m, uint32_t row_begin, uint32_t row_end) \
    {                                                                                       \
        packed(DTYPE_##TYPE, m, row_begin, row_end);                                        \
    }
PACKED_FORMATS(PACKED_MATMUL)
