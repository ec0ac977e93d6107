/* SPDX-License-Identifier: MIT */
#include "experts/routes_record.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "experts/routes_text.h"

void recorder_layout(struct arena *tables, struct recorder *out)
{
    *out = (struct recorder){.buffer = ARENA_NEW(tables, char, RECORDER_BUFFER_BYTES)};
}

static void put(struct recorder *recorder, const char *text, int bytes)
{
    if (recorder->status == BERTH_OK && bytes > 0) {
        recorder->status = os_writer_put(&recorder->writer, text, (size_t)bytes, &recorder->err);
    }
}

static void put_list(struct recorder *recorder, const char *kind, uint32_t layer, const uint16_t *experts,
                     uint32_t count)
{
    char text[64];
    put(recorder, text, snprintf(text, sizeof text, "%s %u", kind, layer));
    for (uint32_t i = 0; i < count; i++) {
        put(recorder, text, snprintf(text, sizeof text, " %u", experts[i]));
    }
    put(recorder, "\n", 1);
}

static uint64_t first_byte(const struct catalog *catalog, uint32_t layer, uint32_t expert, uint32_t *file)
{
    uint64_t first = UINT64_MAX;
    *file = UINT32_MAX;
    for (uint32_t part = 0; part < catalog->parts; part++) {
        const struct expert_slice *slice = catalog_slice(catalog, layer, expert, part);
        if (slice->bytes > 0 && (slice->file < *file || (slice->file == *file && slice->offset < first))) {
            first = slice->offset;
            *file = slice->file;
        }
    }
    return first;
}

/* The experts of a layer in file order, when that is not their own order. */
static void put_order(struct recorder *recorder, uint32_t layer)
{
    const struct catalog *catalog = recorder->catalog;
    bool ascending = true;
    for (uint32_t expert = 1; expert < catalog->experts; expert++) {
        uint32_t file[2];
        uint64_t before = first_byte(catalog, layer, expert - 1, &file[0]);
        uint64_t here = first_byte(catalog, layer, expert, &file[1]);
        ascending = ascending && (file[0] < file[1] || (file[0] == file[1] && before < here));
    }
    if (ascending) {
        return;
    }
    char text[64];
    put(recorder, text, snprintf(text, sizeof text, "order %u", layer));
    for (uint32_t rank = 0; rank < catalog->experts; rank++) {
        put(recorder, text, snprintf(text, sizeof text, " %u", cache_in_file_order(recorder->cache, layer, rank)));
    }
    put(recorder, "\n", 1);
}

static void put_prior(struct recorder *recorder, uint32_t layer, const float *shares)
{
    char text[32];
    put(recorder, text, snprintf(text, sizeof text, "prior %u", layer));
    for (uint32_t expert = 0; expert < recorder->catalog->experts; expert++) {
        put(recorder, text, snprintf(text, sizeof text, " %08x", f32_to_bits(shares[expert])));
    }
    put(recorder, "\n", 1);
}

berth_status recorder_begin(struct recorder *recorder, const struct catalog *catalog, const struct cache *cache,
                            const struct recorder_head *head, berth_error *err)
{
    char text[192];
    recorder->catalog = catalog;
    recorder->cache = cache;
    recorder->status = BERTH_OK;
    TRY(os_writer_open(&recorder->writer, head->path, recorder->buffer, RECORDER_BUFFER_BYTES, err));
    recorder->open = true;
    put(recorder, ROUTES_MAGIC "\n", (int)sizeof ROUTES_MAGIC);
    put(recorder, text, snprintf(text, sizeof text, "model %.120s\n", head->model));
    put(recorder, text,
        snprintf(text, sizeof text, "shape %u %u %u\n", catalog->layers, catalog->experts, catalog->top_k));
    put(recorder, text, snprintf(text, sizeof text, "policy %.120s\n", head->policy));
    put(recorder, text, snprintf(text, sizeof text, "slots %d", head->slots->shared ? 1 : 0));
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        put(recorder, text, snprintf(text, sizeof text, " %u", head->slots->count[c]));
    }
    put(recorder, "\n", 1);
    for (uint32_t layer = 0; layer < catalog->layers; layer++) {
        const struct slot_class *class = &catalog->classes[catalog->layer_class[layer]];
        uint64_t bytes = slot_class_stored_bytes(class);
        put(recorder, text,
            snprintf(text, sizeof text, "layer %u %lld %u %llu\n", layer, (long long)head->model_layers[layer],
                     catalog->layer_class[layer], (unsigned long long)bytes));
        put_order(recorder, layer);
        if (head->prior != NULL) {
            put_prior(recorder, layer, head->prior + (uint64_t)layer * catalog->experts);
        }
    }
    return BERTH_OK;
}

void recorder_visit(struct recorder *recorder, const struct route_step *step, const uint16_t *ids, const float *weights)
{
    char text[64];
    if (!recorder->open || recorder->status != BERTH_OK) {
        return;
    }
    uint32_t top_k = recorder->catalog->top_k;
    put(recorder, text,
        snprintf(text, sizeof text, "v %d %u %u %u\n", step->phase == BERTH_PHASE_DECODE ? 1 : 0, step->layer,
                 step->position, step->rows));
    for (uint32_t i = 0; i < step->rows * top_k; i++) {
        bool resident = cache_peek(recorder->cache, step->layer, ids[i]);
        put(recorder, text,
            snprintf(text, sizeof text, "%s%u%c%08x%s", i % top_k == 0 ? "r " : " ", ids[i], resident ? '+' : '-',
                     f32_to_bits(weights[i]), i % top_k == top_k - 1 ? "\n" : ""));
    }
}

void recorder_event(struct recorder *recorder, enum route_event_kind kind, uint32_t layer, const uint16_t *experts,
                    uint32_t count)
{
    static const char *const kinds[] = {"warm", "pin", "unpin"};
    if (recorder->open && count > 0) {
        put_list(recorder, kinds[kind], layer, experts, count);
    }
}

void recorder_turn(struct recorder *recorder)
{
    if (recorder->open) {
        put(recorder, "turn\n", 5);
    }
}

berth_status recorder_end(struct recorder *recorder, berth_error *err)
{
    if (!recorder->open) {
        return BERTH_OK;
    }
    char text[128];
    struct cache_stats stats;
    cache_get_stats(recorder->cache, &stats);
    put(recorder, text,
        snprintf(text, sizeof text, "end %llu %llu %llu %llu\n", (unsigned long long)stats.hits[0],
                 (unsigned long long)stats.misses[0], (unsigned long long)stats.hits[1],
                 (unsigned long long)stats.misses[1]));
    recorder->open = false;
    if (recorder->status == BERTH_OK) {
        recorder->status = os_writer_finish(&recorder->writer, &recorder->err);
    }
    os_writer_abandon(&recorder->writer);
    if (recorder->status != BERTH_OK && err != NULL) {
        *err = recorder->err;
    }
    return recorder->status;
}

void recorder_abandon(struct recorder *recorder)
{
    if (recorder->open) {
        os_writer_abandon(&recorder->writer);
        recorder->open = false;
    }
}
