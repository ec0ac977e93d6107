/* SPDX-License-Identifier: MIT
 *
 * Eviction policies: rows of functions over compact state of their own. The cache decides what is resident and tells
 * the policy; the policy only ranks. Everything a policy sees moves in logical time, so a replay that makes the same
 * calls gets the same victims.
 *
 * A new policy is one file with a `const struct policy_row` and one line in policy.c. */
#ifndef EXPERTS_POLICY_H
#define EXPERTS_POLICY_H

#include "experts/catalog.h"

#define SLOT_NONE UINT32_MAX

struct slot {
    uint32_t layer; /* SLOT_NONE: empty */
    uint16_t expert;
    bool held;    /* of the running visit, or being read: never a victim */
    bool pinned;  /* by the user or the seed policy: policies do not see it (no insert, hit or remove) */
    bool touched; /* its memory is mapped in */
};

/* What the visits to come will be: only a replay knows. Visits are numbered as view->visits counts them, from 0. */
struct policy_future {
    const uint64_t *first;    /* [visits + 1] into the arrays below */
    const uint16_t *experts;  /* the unique experts of each visit */
    const uint64_t *next_use; /* the visit that selects this (layer, expert) again; UINT64_MAX: none */
    uint64_t visits;
};

/* Read-only view of the cache, valid for its life. `slots` and `layer_slots` are NULL when measuring. */
struct policy_view {
    const struct catalog *catalog;
    const struct slot *slots; /* [slots_count]; classes one after the other */
    uint32_t slots_count;
    uint32_t floor;               /* slots that each layer keeps; 0: shared */
    const uint32_t *layer_slots;  /* [layers] slots that each layer holds now, pinned ones not counted */
    const uint8_t *layer_pool;    /* [layers] class whose slots the layer uses */
    const uint32_t *pool_first;   /* [classes] first slot of the class */
    const uint32_t *pool_count;   /* [classes] */
    const uint64_t *layer_visits; /* [layers] visits so far, the running one included: a layer's own clock */
    uint64_t visits;              /* of all layers, the running one included */
    const uint32_t *pool_pinned;  /* [classes] pinned slots */
    const float *prior;           /* [layers][experts] share of a layer's visits that selects each expert, from the
                                     ledger; 0: nothing is known */
    const struct policy_future *future; /* NULL in the engine */
    const char *options;                /* "key=value,..." or "" */
};

/* Whether layer `wanting` may take a slot that layer `holder` holds. */
static inline bool policy_may_take(const struct policy_view *view, uint32_t holder, uint32_t wanting)
{
    return holder == wanting || view->layer_slots[holder] > view->floor;
}

enum policy_end { POLICY_HOT, POLICY_COLD };

/* The experts of one visit in hand-out order; the first `hits` are resident. Borrowed for the call. */
struct policy_visit {
    uint32_t layer;
    berth_phase phase;
    const uint16_t *experts;
    uint32_t count, hits;
    const uint16_t *order; /* the same experts as the caller named them: in order of first use */
};

struct policy_row {
    const char *name;
    /* Takes the state; *state stays NULL when measuring. */
    berth_status (*layout)(struct arena *tables, const struct policy_view *view, void **state, berth_error *err);
    /* A visit starts; hit() and insert() calls of it follow. NULL: not interested. */
    void (*visit)(void *state, const struct policy_visit *visit);
    /* A resident expert is used again. */
    void (*hit)(void *state, uint32_t slot);
    /* view->slots[slot] has a new owner / loses its owner (call precedes the change). */
    void (*insert)(void *state, uint32_t slot, enum policy_end end);
    void (*remove)(void *state, uint32_t slot);
    /* The slot to take for an expert of `layer`: in its pool, owned, not held, policy_may_take(). SLOT_NONE: there is
     * none. */
    uint32_t (*victim)(void *state, uint32_t layer);
    /* After a visit of `layer`: a slot of its pool to give back, asked until SLOT_NONE. For policies that keep slots
     * free between visits. NULL: never. */
    uint32_t (*settle)(void *state, uint32_t layer);
    /* How many slots of each pool it keeps free. NULL: none. */
    uint64_t (*working)(const void *state);
    bool replay_only; /* needs view->future */
};

extern const struct policy_row policy_lru, policy_next_use, policy_lfru, policy_layer_lru, policy_seed, policy_belady,
    policy_belady_bypass;

/* `name` is "NAME" or "NAME:key=value,..."; NULL: the default. *options (may be NULL) is what follows the colon, or "".
 * BERTH_ERR_ARGUMENT lists the names. */
berth_status policy_find(const char *name, const struct policy_row **out, const char **options, berth_error *err);
const char *policy_default_name(void);
/* The rows one by one; NULL past the last. */
const struct policy_row *policy_at(uint32_t i);
/* The value of a whole-number option; `value` keeps what it held when the option is not given. */
berth_status policy_option(const char *options, const char *key, uint64_t *value, berth_error *err);
/* Refuses options that are not among `keys` (NULL ends the list). */
berth_status policy_check_options(const char *options, const char *const *keys, berth_error *err);

#endif
