/* SPDX-License-Identifier: MIT
 *
 * The expert cache: slots of fixed classes, recycled, never given back to the kernel.
 *
 * One visit = one MoE layer of one step. cache_visit_begin() takes the unique experts the step selected, pins the
 * resident ones, chooses victims and issues the reads of all misses together (as many as slots allow; the rest follow
 * as slots are released). cache_visit_next() then hands out every expert exactly once, resident ones first, misses in
 * issue order (file order), waiting for their reads; each must be released exactly once, and before the next but one is
 * asked for, so that a layer can be streamed through few slots.
 *
 * Cache state moves in logical time: a visit, a hit and an insertion change it the moment they are issued, never when a
 * read happens to finish, so that it depends on the sequence of visits alone. Slots of the running visit and slots with
 * reads in flight are never victims.
 */
#ifndef EXPERTS_CACHE_H
#define EXPERTS_CACHE_H

#include "experts/catalog.h"
#include "experts/io.h"

struct cache; /* opaque: cache.c */

struct expert_weights {
    uint32_t expert;
    const void *part[EXPERT_PARTS]; /* borrowed until cache_release(); any alignment */
    uint32_t handle;                /* for cache_release() */
};

struct cache_stats {
    uint64_t hits[2], misses[2];      /* by berth_phase */
    uint64_t read_bytes[2], reads[2]; /* slice bytes asked for */
    uint64_t stall_ns[2];
    uint64_t evictions, slots_used;
};

/* `tables` takes the bookkeeping, `slots` the slot memory (exactly counts->bytes). policy NULL: "lru". io must outlive
 * the cache. When measuring, *out is NULL. */
berth_status cache_layout(struct arena *tables, struct arena *slots, const struct catalog *catalog,
                          const struct slot_counts *counts, const char *policy, struct io *io, struct cache **out,
                          berth_error *err);

/* Starts a visit. experts[] are unique, count <= catalog->experts. Only one visit at a time. */
berth_status cache_visit_begin(struct cache *cache, uint32_t layer, berth_phase phase, const uint16_t *experts,
                               uint32_t count, berth_error *err);
/* The next expert; BERTH_ERR_IO names file, layer and expert when its read failed (the visit can only be ended then).
 */
berth_status cache_visit_next(struct cache *cache, struct expert_weights *out, berth_error *err);
void cache_release(struct cache *cache, uint32_t handle);
/* Ends the visit, also after a failure: waits for reads in flight, forgets slots whose read failed. Every pin must be
 * released. */
void cache_visit_end(struct cache *cache);

void cache_get_stats(const struct cache *cache, struct cache_stats *out);
/* True when (layer, expert) is resident now (tests, reports). */
bool cache_peek(const struct cache *cache, uint32_t layer, uint32_t expert);

#endif
