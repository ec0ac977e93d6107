/* SPDX-License-Identifier: MIT
 *
 * How a graph allocator packs the tensors of a graph into one buffer: each goes into the smallest hole that takes it,
 * else to the end; a hole that comes free joins its neighbours. What counts is where the end has been.
 */
#ifndef FIT_LLAMA_PACK_H
#define FIT_LLAMA_PACK_H

#include <stdbool.h>
#include <stdint.h>

enum { PACK_HOLES = 48, PACK_TENSORS = 48 };

struct pack_span {
    uint64_t offset, bytes;
};

struct pack {
    struct pack_span holes[PACK_HOLES]; /* by offset; the last has no end */
    struct pack_span tensors[PACK_TENSORS];
    uint32_t hole_count;
    uint64_t align; /* a power of two */
    uint64_t peak;
    bool failed; /* a sum left 64 bits, or a graph these tables do not hold */
};

void pack_begin(struct pack *pack, uint64_t align);
/* A tensor of width x rows elements of `bytes`; 0 is none, and stands for a tensor of no bytes. */
uint32_t pack_take(struct pack *pack, uint64_t width, uint64_t rows, uint64_t bytes);
/* Its last reader is through. */
void pack_drop(struct pack *pack, uint32_t tensor);

#endif
