/* SPDX-License-Identifier: MIT
 *
 * Replay: recorded routing through the engine's own cache and policy rows, without files or weights. With the slots and
 * the policy of a recording it reproduces the engine's hits and misses exactly; with others it says what they would
 * have been, and "belady" what could have been at best. */
#ifndef EXPERTS_REPLAY_H
#define EXPERTS_REPLAY_H

#include "experts/cache.h"
#include "experts/routes.h"

enum replay_prior {
    REPLAY_PRIOR_NONE = 0,
    REPLAY_PRIOR_RECORDED, /* what the recording engine knew */
    REPLAY_PRIOR_HALF,     /* the decode counts of the first half: what the published comparisons use */
    REPLAY_PRIOR_TABLE     /* replay_config.prior */
};

struct replay_step_info {
    uint64_t token; /* decode tokens so far, this one included; 0 in the prompt */
    berth_phase phase;
    uint32_t layer, count, hits;
};

struct replay_config {
    const char *policy; /* NULL: the recording's, else the default */
    bool as_recorded;   /* slots as the recording engine had them; the fields down to `prefill` are not used */
    uint64_t slots;     /* of equal size; 0: use bytes */
    uint64_t bytes;     /* of slots as big as each layer's experts (layer_bytes) */
    bool global;    /* one pool without a floor for each layer, and working slots on top of it: the definitions of the
                       published comparisons */
    bool per_layer; /* every layer has an equal pool of its own, without a floor; at most SLOT_CLASSES_MAX layers */
    bool prefill;   /* prompt visits too; as_recorded always has them */
    enum replay_prior prior;
    const float *table;   /* [layers][experts] for REPLAY_PRIOR_TABLE */
    uint64_t scored_from; /* first decode token that is scored; UINT64_MAX: the second half */
    void (*step)(void *user, const struct replay_step_info *info); /* after every step; NULL: none */
    void *user;
};

struct replay_result {
    uint64_t slots;
    uint64_t hits[2], misses[2];  /* by berth_phase, whole run */
    uint64_t scored_hits, scored; /* decode selections from scored_from on */
    uint64_t cold_hits, cold;     /* decode selections before */
    uint64_t evictions, bypassed, read_bytes;
    uint64_t warm_experts;
    uint64_t visits, policy_ns;
};

berth_status replay_run(const struct routes *routes, const struct replay_config *config, struct replay_result *out,
                        berth_error *err);

/* Decode selections of tokens [from, to) by cell, divided by the tokens: [layers][experts]. */
void replay_shares(const struct routes *routes, uint64_t from, uint64_t to, float *shares);

#endif
