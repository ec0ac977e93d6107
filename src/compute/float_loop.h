/* SPDX-License-Identifier: MIT
 * F32, F16 and BF16 products over the tiles of one row, which brings tile_loop.h's names and `struct format`. */
#ifndef COMPUTE_FLOAT_LOOP_H
#define COMPUTE_FLOAT_LOOP_H

#include "compute/kernels.h"

struct tile_args {
    const struct matmul *m;
    struct format f;
};

INLINE void tile(struct tile_args args, uint32_t row, uint32_t token, int tile_rows, int tile_tokens);

#include "compute/tile_loop.h"

enum { BLOCK_BYTES = 256 * 1024 }; /* weights that stay in the second-level cache while all tokens pass by */

INLINE void product(const struct matmul *m, struct format f, uint32_t row_begin, uint32_t row_end)
{
    uint64_t row_bytes = (uint64_t)m->k * f.elem_bytes;
    uint32_t block = row_bytes == 0 ? 0 : (uint32_t)(BLOCK_BYTES / row_bytes) / TILE_ROWS * TILE_ROWS;
    block = block < TILE_ROWS ? TILE_ROWS : block;
    for (uint32_t begin = row_begin; begin < row_end;) {
        uint32_t end = row_end - begin < block ? row_end : begin + block;
        tiles((struct tile_args){m, f}, begin, end, m->tokens);
        begin = end;
    }
}

#endif
