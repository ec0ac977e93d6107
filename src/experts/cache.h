/* SPDX-License-Identifier: MIT
 *
 * The expert cache: slots of fixed classes, recycled, never given back to the kernel.
 *
 * One visit = one MoE layer of one step. cache_visit_begin() takes the unique experts the step selected, holds the
 * resident ones, chooses victims and issues the reads of all misses together. cache_visit_next() then hands out every
 * expert exactly once: resident ones first, then misses, both in file order, waiting for their reads; each must be
 * released exactly once. At most max(2, top_k) may be held at a time.
 *
 * When a visit has more misses than slots that may be taken, the rest reuse the visit's own slots in the order in which
 * they were handed out, each as soon as it is released: first so many hits that CACHE_STREAM_SLOTS slots take part,
 * then the misses.
 *
 * Cache state moves in logical time: a visit, a hit and an insertion change it when they are issued, never when a read
 * happens to finish, so that it depends on the sequence of visits alone. Slots of the running visit and slots with
 * reads in flight are never victims. While every layer has a floor (slots for a cycle or more), a slot is taken from
 * another layer only if that one holds more than top_k. Prefill insertions enter at the cold end.
 *
 * A visit that is ended early keeps what has been read or is being read. Not thread-safe: one thread drives it. */
#ifndef EXPERTS_CACHE_H
#define EXPERTS_CACHE_H

#include "experts/catalog.h"
#include "experts/io.h"

struct cache; /* opaque: cache.c */
struct policy_future;

enum {
    CACHE_STREAM_SLOTS = 8, /* slots that take part in streaming, where there are so many */
    CACHE_FETCHES_MAX = 32, /* experts with reads in flight */
    CACHE_REQUESTS_MAX = CACHE_FETCHES_MAX * EXPERT_PARTS_MAX /* for io_config.queue_max */
};

struct expert_weights {
    uint32_t expert;
    const void
        *part[EXPERT_PARTS_MAX]; /* borrowed until cache_release(); any alignment; NULL: the family has no such part */
    uint32_t handle;             /* for cache_release() */
};

struct cache_stats {
    uint64_t hits[2], misses[2];      /* by berth_phase */
    uint64_t read_bytes[2], reads[2]; /* slice bytes asked for */
    uint64_t stall_ns[2];
    uint64_t evictions, slots_used;
    uint64_t bypassed;                                  /* misses that were given back right after their visit */
    uint64_t warm_experts, warm_reads, warm_read_bytes; /* by cache_preload(): not demand */
    uint64_t pinned_slots;
    uint64_t policy_ns; /* deciding what is resident */
};

struct cache_options {
    const char *policy;                 /* "NAME" or "NAME:key=value,..."; NULL: the default */
    const struct policy_future *future; /* replay only */
    bool no_floor;                      /* layers keep no slots of their own: only for comparing with other replays */
};

/* `tables` takes the bookkeeping, `slots` the slot memory (exactly counts->bytes, from a page-aligned place). policy
 * NULL: "lru". catalog and io must outlive the cache. When measuring, *out is NULL and io is not used. */
berth_status cache_layout(struct arena *tables, struct arena *slots, const struct catalog *catalog,
                          const struct slot_counts *counts, const char *policy, struct io *io, struct cache **out,
                          berth_error *err);

/* The same with more to say. `options` and its strings are borrowed for the call, its future for the cache's life. io
 * NULL: nothing is read, for replays. */
berth_status cache_layout_with(struct arena *tables, struct arena *slots, const struct catalog *catalog,
                               const struct slot_counts *counts, const struct cache_options *options, struct io *io,
                               struct cache **out, berth_error *err);

/* What the ledger knows of a layer, [experts]: the share of visits that select each expert. */
void cache_set_prior(struct cache *cache, uint32_t layer, const float *shares);

/* Reads experts of a layer into free slots before anybody asked for them, in file order, and waits; those that are
 * resident already or find no slot are left out (counts->*). With `pin` they are kept until cache_unpin() and may take
 * other experts' slots, as long as every layer keeps its floor. Not during a visit. */
struct cache_preload {
    uint32_t loaded, resident, left_out;
};
berth_status cache_preload(struct cache *cache, uint32_t layer, const uint16_t *experts, uint32_t count, bool pin,
                           struct cache_preload *counts, berth_error *err);
/* Makes a pinned expert an ordinary resident, at the cold end. */
void cache_unpin(struct cache *cache, uint32_t layer, uint32_t expert);
/* Free slots that a layer could use. */
uint32_t cache_free_slots(const struct cache *cache, uint32_t layer);
/* The pool (class of slots) that a layer uses. */
uint32_t cache_pool(const struct cache *cache, uint32_t layer);
/* Bytes of the slots that the policy keeps free between visits. */
uint64_t cache_working_bytes(const struct cache *cache);
/* The expert at a place in the layer's file order. */
uint32_t cache_in_file_order(const struct cache *cache, uint32_t layer, uint32_t rank);

/* Starts a visit. experts[] are unique, count <= catalog->experts; their order matters to the seed policy only. Only
 * one visit at a time. */
berth_status cache_visit_begin(struct cache *cache, uint32_t layer, berth_phase phase, const uint16_t *experts,
                               uint32_t count, berth_error *err);
/* The next expert. BERTH_ERR_IO names file, layer and expert when its read failed; the visit can only be ended then.
 * BERTH_ERR_STATE when all have been handed out, when too many are held, and when the next one waits for the slot of
 * one that is held: release and ask again. With none held it never asks for that. */
berth_status cache_visit_next(struct cache *cache, struct expert_weights *out, berth_error *err);
/* How many of the next cache_visit_next() calls would return without waiting for a read. A hint for batching: it
 * depends on timing, the cache's state does not. */
uint32_t cache_visit_ready(struct cache *cache);
void cache_release(struct cache *cache, uint32_t handle);
/* Ends the visit, also after a failure: waits for reads in flight, forgets slots whose read failed. Every pin must be
 * released. */
void cache_visit_end(struct cache *cache);

void cache_get_stats(const struct cache *cache, struct cache_stats *out);
/* True when (layer, expert) is resident now (tests, reports). */
bool cache_peek(const struct cache *cache, uint32_t layer, uint32_t expert);

#endif
