/* SPDX-License-Identifier: MIT
 * The walk over register tiles of one float kernel. A row's file defines
 *   TILE_ROWS, TILE_TOKENS (at most 6)  the largest tile
 *   TILE_ROWS_ONE                       rows of a tile of one token
 *   struct tile_args                    what its tile() wants to know
 *   tile(args, row, token, rows, tokens)
 * then includes this. */
#ifndef COMPUTE_TILE_LOOP_H
#define COMPUTE_TILE_LOOP_H

#include "compute/unroll.h"

/* Cases beyond TILE_TOKENS are never asked for and leave no code. */
#define TILE_CASE(n)                         \
    case n:                                  \
        if ((n) <= TILE_TOKENS) {            \
            tile(args, row, token, rows, n); \
        }                                    \
        break

INLINE void tile_of(struct tile_args args, uint32_t row, uint32_t token, int rows, uint32_t tokens)
{
    switch (tokens) {
        TILE_CASE(1);
        TILE_CASE(2);
        TILE_CASE(3);
        TILE_CASE(4);
        TILE_CASE(5);
        TILE_CASE(6);
    default:
        break;
    }
}

/* Tokens of the next tile when `left` remain: even shares, so that 8 of 6 are 4 + 4, and 4 of 3 are 2 + 2. */
INLINE uint32_t tile_tokens(uint32_t left)
{
    uint32_t groups = (left + TILE_TOKENS - 1) / TILE_TOKENS;
    return (left + groups - 1) / groups;
}

/* Rows [begin, end) x tokens 0..tokens-1. */
INLINE void tiles(struct tile_args args, uint32_t begin, uint32_t end, uint32_t tokens)
{
    for (uint32_t token = 0; token < tokens;) {
        uint32_t group = tile_tokens(tokens - token);
        uint32_t row = begin;
        if (group == 1) {
            for (; row + TILE_ROWS_ONE <= end; row += TILE_ROWS_ONE) {
                tile(args, row, token, TILE_ROWS_ONE, 1);
            }
        } else {
            for (; row + TILE_ROWS <= end; row += TILE_ROWS) {
                tile_of(args, row, token, TILE_ROWS, group);
            }
        }
        for (; row < end; row++) {
            tile_of(args, row, token, 1, group);
        }
        token += group;
    }
}

#endif
