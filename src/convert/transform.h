/* SPDX-License-Identifier: MIT
 * Rows from one element format to another, and the row order of interleaved RoPE. */
#ifndef CONVERT_TRANSFORM_H
#define CONVERT_TRANSFORM_H

#include "quant/packed.h"

struct transform {
    const unsigned char *in; /* [rows * step][k] of `from`, any alignment */
    unsigned char *out;      /* [rows][k] of `to` */
    enum dtype from, to;
    uint64_t k;              /* whole blocks of both formats */
    uint32_t permute;        /* rows of a head; 0: none. The rows begin at a head and are whole heads */
    struct packed_side side; /* of `in`; its first row of scales is that of row 0 - side_row */
    uint32_t step, first;    /* target row r is row r * step + first of `in`; step 0: 1 */
    uint64_t side_row;       /* rows of the first tile of scales that lie before `in` */
};

/* Converts target rows [begin, end). False: a value is not finite, or too large for F16 (or for the scale of its
 * block). */
bool transform_rows(const struct transform *transform, uint64_t begin, uint64_t end);

/* GGUF row r of a head of `head` rows holds Hugging Face row: the halves (j, i) interleaved to (i, j). */
static inline uint64_t permuted_row(uint64_t row, uint32_t head)
{
    uint64_t in_head = row % head;
    return row - in_head + (in_head % 2) * (head / 2) + in_head / 2;
}

#endif
