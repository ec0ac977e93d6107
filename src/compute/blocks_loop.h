/* SPDX-License-Identifier: MIT
 * Products of block formats over the tiles of one row, which brings tile_loop.h's names. */
#ifndef COMPUTE_BLOCKS_LOOP_H
#define COMPUTE_BLOCKS_LOOP_H

#include "compute/blocks.h"

struct tile_args {
    const struct panel *panel;
    const unsigned char *x;
    uint64_t x_row_bytes;
    struct panel_lanes *lanes;
};

INLINE void tile(struct tile_args args, uint32_t row, uint32_t token, int tile_rows, int tile_tokens);

#include "compute/tile_loop.h"

static void multiply(const struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, uint32_t tokens,
                     struct panel_lanes *lanes)
{
    tiles((struct tile_args){panel, x, x_row_bytes, lanes}, 0, panel->rows, tokens);
}

static void product(enum dtype type, const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    block_product(type, quant_row(type)->dequantise, multiply, m, row_begin, row_end);
}

#define BLOCK_MATMUL(isa, name, TYPE)                                                      \
    void isa##_matmul_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end) \
    {                                                                                      \
        product(DTYPE_##TYPE, m, row_begin, row_end);                                      \
    }

#endif
