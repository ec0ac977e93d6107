/* SPDX-License-Identifier: MIT
 * What the rows' attention kernels share before their own parts (attend_loop.h has what comes after). A row's file
 * defines TILE_QUERIES first, 2 or 4: the queries that pass over a key together. */
#ifndef COMPUTE_ATTEND_STEP_H
#define COMPUTE_ATTEND_STEP_H

#include "compute/kernels.h"
#include "compute/unroll.h"

/* One block of keys, for up to TILE_QUERIES queries from `query`. Key numbers and p count from `first`, a multiple of
 * 64; keys outside [begin, end) are absent. */
struct step {
    uint32_t query, first, begin, end;
    float p[TILE_QUERIES * ATTEND_BLOCK];
    float shrink[TILE_QUERIES]; /* factor for what was summed before */
};

INLINE const unsigned char *kv_row(const void *base, const struct attend *a, uint32_t key)
{
    return (const unsigned char *)base + key * a->kv_row_bytes;
}

/* Where element d of a Q8_0 row lies: its block, and the scale of that block. */
INLINE const unsigned char *q8_0_block(const unsigned char *row, size_t d)
{
    return row + d / 32 * 34;
}

#endif
