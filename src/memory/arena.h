/* SPDX-License-Identifier: MIT
 *
 * Arena: the one memory arithmetic. Every room that needs memory exports
 *     berth_status <noun>_layout(struct arena *, ..., struct <noun> *out)
 * and is run twice: on a measuring arena it only counts, on a carving arena the same calls hand out the same offsets of
 * one reservation. Plan and allocation therefore cannot drift apart.
 *
 * In measuring mode arena_take() returns NULL: a layout function stores the pointers it gets and must not write through
 * them (`if (!arena_is_measuring(a)) { ... fill ... }`). Memory from a fresh reservation is zero.
 */
#ifndef MEMORY_ARENA_H
#define MEMORY_ARENA_H

#include "base/error.h"

struct arena {
    unsigned char *base; /* NULL: measuring */
    uint64_t cap_bytes;  /* UINT64_MAX when measuring */
    uint64_t used_bytes;
    uint64_t peak_bytes; /* largest used_bytes ever, for scratch that is rewound */
    bool failed;         /* sticky: overflow or past the end */
};

enum { ARENA_ALIGN = 64 }; /* what arena_take() gives when asked for alignment 0: one cache line */

void arena_measure(struct arena *arena);
/* base must be aligned to 4096. */
void arena_carve(struct arena *arena, void *base, uint64_t cap_bytes);
static inline bool arena_is_measuring(const struct arena *arena)
{
    return arena->base == NULL;
}

/* count x bytes at `align` (a power of two up to 4096; 0: ARENA_ALIGN). NULL when measuring, and when the arena has
 * failed (check with arena_check()). Taking zero bytes gives a unique place. */
void *arena_take(struct arena *arena, uint64_t count, uint64_t bytes, uint64_t align);

/* BERTH_OK, or BERTH_ERR_LIMIT naming `what` when a take overflowed or went past the end. */
berth_status arena_check(const struct arena *arena, const char *what, berth_error *err);

/* Scratch use: everything taken after the mark is given back by the rewind. peak_bytes stays. */
static inline uint64_t arena_mark(const struct arena *arena)
{
    return arena->used_bytes;
}
void arena_rewind(struct arena *arena, uint64_t mark);

#define ARENA_NEW(arena, type, count) ((type *)arena_take((arena), (count), sizeof(type), 0))

#endif
