/* SPDX-License-Identifier: MIT
 * Products over panels in the vectors of one row (compute/vec.h), which defines TILE_ROWS, TILE_TOKENS and
 * TILE_ROWS_ONE (compute/tile_loop.h) and includes this. */
#ifndef COMPUTE_PANELS_LOOP_H
#define COMPUTE_PANELS_LOOP_H

#include "compute/panels.h"

struct tile_args {
    struct panel *panel;
    const unsigned char *x;
    uint64_t x_row_bytes;
};

INLINE void tile(struct tile_args args, uint32_t row, uint32_t token, int tile_rows, int tile_tokens)
{
    struct panel *panel = args.panel;
    const uint64_t x_row_bytes = args.x_row_bytes;
    vec acc[TILE_TOKENS][PANEL_ROWS][LANE_VECS];
    UNROLLED(t, tile_tokens)
    {
        UNROLLED(r, tile_rows)
        {
            UNROLLED(v, LANE_VECS)
            {
                acc[t][r][v] = vec_load(panel->lane[token + (uint32_t)t][row + (uint32_t)r] + VEC * v);
            }
        }
    }
    const unsigned char *x = args.x + token * x_row_bytes;
    for (uint32_t i = 0; i < panel->values; i += LANES) {
        UNROLLED(v, LANE_VECS)
        {
            uint32_t at = i + (uint32_t)v * VEC;
            vec xv[TILE_TOKENS];
            UNROLLED(t, tile_tokens)
            {
                xv[t] = vec_from_f32(x + (uint64_t)t * x_row_bytes + (size_t)at * sizeof(float));
            }
            UNROLLED(r, tile_rows)
            {
                vec w = vec_load(&panel->w[row + (uint32_t)r][at]);
                UNROLLED(t, tile_tokens)
                {
                    acc[t][r][v] = vec_fma(w, xv[t], acc[t][r][v]);
                }
            }
        }
    }
    UNROLLED(t, tile_tokens)
    {
        UNROLLED(r, tile_rows)
        {
            UNROLLED(v, LANE_VECS)
            {
                vec_store(panel->lane[token + (uint32_t)t][row + (uint32_t)r] + VEC * v, acc[t][r][v]);
            }
        }
    }
}

#include "compute/tile_loop.h"

static void multiply(struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, uint32_t tokens)
{
    tiles((struct tile_args){panel, x, x_row_bytes}, 0, panel->rows, tokens);
}

#endif
