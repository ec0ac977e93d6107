/* SPDX-License-Identifier: MIT
 * Writer of route recordings (docs/routes.md). */
#ifndef EXPERTS_ROUTES_RECORD_H
#define EXPERTS_ROUTES_RECORD_H

#include "experts/cache.h"
#include "experts/routes.h"
#include "os/file.h"

struct recorder {
    struct os_writer writer;
    const struct catalog *catalog;
    const struct cache *cache;
    char *buffer; /* [RECORDER_BUFFER_BYTES] */
    bool open;
    berth_status status; /* the first failure; nothing is written after it */
    berth_error err;
};

enum { RECORDER_BUFFER_BYTES = 64 << 10 };

void recorder_layout(struct arena *tables, struct recorder *out);

struct recorder_head {
    const char *path, *model, *policy;
    const int64_t *model_layers; /* [layers] */
    const struct slot_counts *slots;
    const float *prior; /* [layers][experts]; NULL: nothing was known */
};
/* Creates the file (it appears at its place when finished) and writes what a replay must know. */
berth_status recorder_begin(struct recorder *recorder, const struct catalog *catalog, const struct cache *cache,
                            const struct recorder_head *head, berth_error *err);
/* One visit, before it begins: ids and weights are [rows][top_k]. */
void recorder_visit(struct recorder *recorder, const struct route_step *step, const uint16_t *ids,
                    const float *weights);
void recorder_event(struct recorder *recorder, enum route_event_kind kind, uint32_t layer, const uint16_t *experts,
                    uint32_t count);
void recorder_turn(struct recorder *recorder);
/* Writes the totals and puts the file in place; reports the first failure of all. */
berth_status recorder_end(struct recorder *recorder, berth_error *err);
void recorder_abandon(struct recorder *recorder);

#endif
