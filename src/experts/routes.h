/* SPDX-License-Identifier: MIT
 *
 * Recorded routing: which experts every layer selected for every token. Read from our own recordings and from the
 * public layouts that docs/routes.md lists; written by the recorder (routes_record.h). */
#ifndef EXPERTS_ROUTES_H
#define EXPERTS_ROUTES_H

#include "experts/catalog.h"

/* One MoE layer of one step: `rows` tokens, top_k experts each. */
struct route_step {
    uint64_t first;    /* ids[first .. first + rows x top_k), row by row in rank order */
    uint32_t layer;    /* MoE layer, 0.. */
    uint32_t position; /* of the first token */
    uint32_t rows;
    uint32_t session;
    berth_phase phase;
};

enum route_event_kind { ROUTE_WARM = 0, ROUTE_PIN, ROUTE_UNPIN };

/* What happened to the cache before a step besides the visits. */
struct route_event {
    uint64_t step;  /* before this one */
    uint64_t first; /* ids[first .. first + count) */
    uint32_t layer, count;
    enum route_event_kind kind;
};

struct routes {
    char model[128];
    uint32_t layers, experts, top_k;
    uint64_t *layer_bytes; /* [layers] of one expert; 0: unknown */
    uint32_t *model_layer; /* [layers] number of the layer in the model */
    uint16_t *order;       /* [layers][experts] experts in the order in which they lie in the files */
    struct route_step *steps;
    uint64_t steps_count;
    uint16_t *ids;
    uint64_t ids_count;
    struct route_event *events;
    uint64_t events_count;
    uint32_t sessions;
    uint64_t tokens[2]; /* by berth_phase */
    /* Our own recordings: */
    bool has_cache; /* the fields below are set */
    char policy[128];
    struct slot_counts slots;
    uint8_t *layer_class; /* [layers] */
    uint32_t classes;
    float *prior; /* [layers][experts] */
    bool has_totals;
    uint64_t hits[2], misses[2]; /* by berth_phase, as the engine counted them */
    /* private */
    void *region;
    uint64_t region_bytes;
};

enum routes_format { ROUTES_AUTO = 0, ROUTES_BERTH, ROUTES_CSV, ROUTES_JSONL };

/* Reads files one after the other as sessions; all must be of one shape. `experts` 0: what the file says, else the
 * next power of two over the largest id. *out is freed with routes_free(). */
berth_status routes_read(const char *const *paths, uint32_t paths_count, uint32_t experts, struct routes **out,
                         berth_error *err);
void routes_free(struct routes *routes);

/* Share of selections that the same layer's selection for the previous token had too, in percent (decode). */
double routes_overlap(const struct routes *routes);

/* An empty set of routes with room for this many steps and ids (tests, null controls). */
berth_status routes_make(uint32_t layers, uint32_t experts, uint32_t top_k, uint64_t steps, uint64_t ids,
                         struct routes **out, berth_error *err);

#endif
