/* SPDX-License-Identifier: MIT
 * What the files of the expert cache share: its tables and a visit. Included by cache*.c only. */
#ifndef EXPERTS_CACHE_PARTS_H
#define EXPERTS_CACHE_PARTS_H

#include "experts/cache.h"
#include "experts/policy.h"

enum { RANK_NONE = UINT32_MAX };

enum position_state { POSITION_WAITING = 0, POSITION_HANDED, POSITION_RELEASED, POSITION_GONE /* slot given away */ };

struct fetch {
    struct io_request requests[EXPERT_PARTS_MAX];
    uint32_t count;
    berth_error err;
};

struct pool {
    unsigned char *base;
    uint64_t slot_bytes;
    uint32_t first, count; /* slot numbers */
    uint32_t free_count;   /* free_slots[first .. first + free_count) */
};

struct visit {
    bool running;
    bool warm; /* cache_preload(): not a visit of the model's */
    uint32_t layer;
    berth_phase phase;
    uint32_t count, hits;
    uint32_t pinned;   /* of the hits; they come first and their slots are never reused */
    uint32_t given;    /* misses that got a slot at the start */
    uint32_t recycled; /* hits whose slots take part in streaming */
    uint32_t next, assigned, submitted, fetched;
    uint32_t held; /* handed out and not yet released */
    berth_status failure;
    uint16_t *experts; /* [experts] by position */
    uint32_t *slots;   /* [experts] by position */
    uint8_t *states;   /* [experts] by position */
    uint32_t *by_rank; /* [experts] RANK_NONE between visits */
};

struct cache {
    const struct catalog *catalog;
    struct io *io;
    struct policy_view view;
    const struct policy_row *policy;
    void *policy_state;
    struct slot *slots;     /* [slots_count] */
    uint32_t *slot_of;      /* [layers][experts] SLOT_NONE: not resident */
    uint16_t *file_rank;    /* [layers][experts] order in the files */
    uint32_t *layer_slots;  /* [layers] */
    uint64_t *layer_visits; /* [layers] */
    uint8_t *layer_pool;    /* [layers] */
    float *prior;           /* [layers][experts] */
    uint32_t *free_slots;   /* [slots_count] a stack per pool */
    uint32_t pool_first[SLOT_CLASSES_MAX], pool_count[SLOT_CLASSES_MAX], pool_pinned[SLOT_CLASSES_MAX];
    struct pool pools[SLOT_CLASSES_MAX];
    struct fetch *fetches;
    uint32_t fetches_count;
    struct visit visit;
    berth_error failure; /* of the running visit */
    struct cache_stats stats;
};

#endif
