/* SPDX-License-Identifier: MIT
 *
 * What decides about the cache besides its policy: the ledger that learns from every visit, pins, warm start, the
 * recording of routes, and what happens at the end of a turn. One per model; driven by the session. */
#ifndef EXPERTS_RESIDENCY_H
#define EXPERTS_RESIDENCY_H

#include <stdatomic.h>

#include "base/log.h"
#include "experts/cache.h"
#include "experts/usage.h"

struct residency; /* opaque */

struct residency_config {
    bool ledger;               /* keep one: `usage` says where; its layers and experts are filled in here */
    bool read_only;            /* learn from it, never write it */
    struct usage_config usage; /* path, fallback, mode, engine, fingerprint, half life, model_layers */
    const int64_t *layers;     /* [catalog->layers] the model's numbers; NULL when measuring */
    const char *policy;        /* as given to the cache; NULL: the default */
    const char *pins;          /* "LAYER:EXPERT,..." by the model's numbers; NULL: none. For residency_start() */
    const char *record;        /* where routes are recorded; NULL: nowhere. For residency_start() */
    const char *model;         /* name for the recording */
    const struct slot_counts *slots;
    struct log_sink log;
};

/* Takes everything from `tables`; *out NULL when measuring. */
berth_status residency_layout(struct arena *tables, const struct catalog *catalog,
                              const struct residency_config *config, struct residency **out, berth_error *err);
/* Reads the ledger, tells the policy about it, loads pins (the user's, then AUTOPIN's for the seed policy) and opens
 * the recording. */
berth_status residency_start(struct residency *residency, struct cache *cache, const struct residency_config *config,
                             berth_error *err);

/* Fills free slots with what the ledger says was used most until none is free, max_ns have passed or *cancel is set: in
 * four passes, the hottest of all layers first, each in file order. May be called again: goes on where it stopped. */
struct residency_warm {
    uint64_t experts, bytes, ns;
    bool complete;
};
berth_status residency_warm(struct residency *residency, uint64_t max_ns, const atomic_int *cancel,
                            struct residency_warm *out, berth_error *err);

/* A visit is about to begin: ids and weights are [rows][top_k]. */
struct residency_visit {
    uint32_t layer; /* MoE layer */
    uint32_t position, rows;
    berth_phase phase;
    const uint16_t *ids;
    const float *weights;
};
void residency_visit(struct residency *residency, const struct residency_visit *visit);

/* The end of a turn: live re-pin and heat decay for the seed policy, then the ledger is saved. */
struct residency_turn {
    uint32_t candidates, swaps;
    bool saved;
};
berth_status residency_turn(struct residency *residency, struct residency_turn *out, berth_error *err);
/* Saves the ledger and finishes the recording; both are tried. */
berth_status residency_stop(struct residency *residency, berth_error *err);

/* The seed policy's parameters of pinning, from the text after "seed:". */
struct residency_seed {
    bool autopin, repin;
    uint64_t limit, min_history, full_history, share, min_bytes;
};
berth_status residency_seed_options(const char *options, struct residency_seed *out, berth_error *err);
/* What AUTOPIN may fill: all slots but the `working` bytes, with one mandatory slot for every layer. */
void residency_tiers(const struct catalog *catalog, const struct slot_counts *slots, uint64_t working,
                     struct autopin_config *out);

#endif
