/* SPDX-License-Identifier: MIT
 * The ledger in memory: recording, reading, decay. */
#include "experts/usage.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "experts/usage_parts.h"

static berth_status check_layers(const struct usage_config *config, berth_error *err)
{
    if (config->layers_count == 0 || config->layers == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT, "expert usage layers must be non-empty and unique");
    }
    for (uint32_t i = 0; i < config->layers_count; i++) {
        for (uint32_t before = 0; before < i; before++) {
            if (config->layers[before] == config->layers[i]) {
                return error_set(err, BERTH_ERR_ARGUMENT, "expert usage layers must be non-empty and unique");
            }
        }
    }
    for (uint32_t i = 0; i < config->layers_count; i++) {
        if (config->layers[i] < 0 || config->layers[i] > 9007199254740991) {
            return error_set(err, BERTH_ERR_ARGUMENT, "invalid expert usage layer %lld", (long long)config->layers[i]);
        }
    }
    return BERTH_OK;
}

static berth_status check_config(const struct usage_config *config, bool measuring, berth_error *err)
{
    if (config->path == NULL || config->path[0] == '\0') {
        return error_set(err, BERTH_ERR_ARGUMENT, "expert usage path must not be empty");
    }
    if (strlen(config->path) >= USAGE_PATH_MAX ||
        (config->fallback_path != NULL && strlen(config->fallback_path) >= USAGE_PATH_MAX)) {
        return error_set(err, BERTH_ERR_LIMIT, "expert usage path is longer than %d bytes", USAGE_PATH_MAX - 1);
    }
    if (config->experts == 0 || config->experts > 9007199254740991u) {
        return error_set(err, BERTH_ERR_ARGUMENT, "expertsPerLayer must be a positive safe integer");
    }
    if (config->experts > UINT32_MAX) {
        return error_set(err, BERTH_ERR_ARGUMENT, "expertsPerLayer exceeds uint32 range");
    }
    if (!(config->half_life_tokens >= 0.0) || config->half_life_tokens > 1e15) {
        return error_set(err, BERTH_ERR_ARGUMENT, "expert usage half life must be 0 or more tokens");
    }
    return measuring && config->layers == NULL && config->layers_count > 0 ? BERTH_OK : check_layers(config, err);
}

static void fill(struct usage *usage, const struct usage_config *config)
{
    memcpy(usage->layers, config->layers, config->layers_count * sizeof *usage->layers);
    for (uint32_t i = 0; i < usage->layers_count; i++) {
        int64_t after = usage->layers[i] < UINT32_MAX ? usage->layers[i] + 1 : UINT32_MAX;
        usage->model_layers = after > usage->model_layers ? (uint32_t)after : usage->model_layers;
    }
    usage->model_layers = config->model_layers > 0 ? config->model_layers : usage->model_layers;
    usage->mode = config->mode;
    usage->warn = config->warn;
    usage->warn_user = config->warn_user;
    usage->any_engine = config->any_engine;
    usage->has_engine = config->engine != NULL;
    usage->engine_id = config->engine != NULL ? usage_engine_id(config->engine) : 0;
    usage->fingerprint = config->fingerprint;
    usage->half_life_tokens = config->half_life_tokens;
    snprintf(usage->path, sizeof usage->path, "%s", config->path);
    snprintf(usage->fallback_path, sizeof usage->fallback_path, "%s",
             config->fallback_path != NULL ? config->fallback_path : "");
}

berth_status usage_layout(struct arena *arena, const struct usage_config *config, struct usage **out, berth_error *err)
{
    TRY(check_config(config, arena_is_measuring(arena), err));
    struct usage parts = {.layers_count = config->layers_count, .experts = (uint32_t)config->experts};
    parts.cells = (uint64_t)config->layers_count * config->experts; /* both fit 32 bits */
    parts.scale = 1.0;
    struct usage *usage = ARENA_NEW(arena, struct usage, 1);
    parts.layers = ARENA_NEW(arena, int64_t, config->layers_count);
    parts.counts = ARENA_NEW(arena, uint32_t, parts.cells);
    parts.heat = ARENA_NEW(arena, uint32_t, parts.cells);
    parts.last = ARENA_NEW(arena, uint32_t, parts.cells);
    parts.delta = ARENA_NEW(arena, uint32_t, parts.cells);
    parts.fresh = ARENA_NEW(arena, uint32_t, parts.cells);
    parts.reader = ARENA_NEW(arena, struct usage_reader, 1);
    parts.buffer = ARENA_NEW(arena, char, USAGE_BUFFER_BYTES);
    TRY(arena_check(arena, "expert usage ledger", err));
    if (usage != NULL) {
        *usage = parts;
        fill(usage, config);
        uint32_t *const tables[] = {usage->counts, usage->heat, usage->last, usage->delta, usage->fresh};
        for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
            memset(tables[i], 0, usage->cells * sizeof *tables[i]);
        }
    }
    *out = usage;
    return BERTH_OK;
}

uint32_t usage_find_layer(const struct usage *usage, int64_t layer)
{
    uint32_t index = 0;
    while (index < usage->layers_count && usage->layers[index] != layer) {
        index++;
    }
    return index;
}

/* ---- recording -------------------------------------------------------------------------------------- */

static void select_one(struct usage *usage, uint64_t cell)
{
    usage->counts[cell] = usage_saturate((uint64_t)usage->counts[cell] + 1);
    usage->delta[cell] = usage_saturate((uint64_t)usage->delta[cell] + 1);
    usage->heat[cell] = usage_saturate((uint64_t)usage->heat[cell] + 1);
    usage->last[cell] = ++usage->clock;
    usage->selections++;
    usage->dirty = true;
}

static berth_status no_layer(int64_t layer, berth_error *err)
{
    berth_status status =
        error_set(err, BERTH_ERR_ARGUMENT, "layer %lld is not tracked by expert usage", (long long)layer);
    error_at_expert(err, layer >= 0 && layer <= INT32_MAX ? (int32_t)layer : -1, -1);
    return status;
}

static double id_at(const struct usage_rows *rows, uint32_t row, uint32_t rank)
{
    return rows->ids != NULL ? rows->ids[row][rank] : (double)rows->int_ids[row][rank];
}

berth_status usage_record(struct usage *usage, int64_t layer, const struct usage_rows *rows, berth_error *err)
{
    uint32_t index = usage_find_layer(usage, layer);
    if (index == usage->layers_count) {
        return no_layer(layer, err);
    }
    for (uint32_t row = 0; row < rows->rows; row++) {
        for (uint32_t rank = 0; rank < rows->counts[row]; rank++) {
            double expert = id_at(rows, row, rank);
            if (!usage_is_safe_integer(expert) || expert < 0.0 || expert >= (double)usage->experts) {
                char text[40];
                usage_number_text(expert, text, sizeof text);
                return error_set(err, BERTH_ERR_ARGUMENT, "route %u rank %u has invalid expert %s", row, rank, text);
            }
        }
    }
    for (uint32_t row = 0; row < rows->rows; row++) {
        for (uint32_t rank = 0; rank < rows->counts[row]; rank++) {
            select_one(usage, (uint64_t)index * usage->experts + (uint32_t)id_at(rows, row, rank));
        }
    }
    return BERTH_OK;
}

void usage_record_row(struct usage *usage, uint32_t index, const uint16_t *ids, uint32_t count)
{
    assert(index < usage->layers_count);
    for (uint32_t rank = 0; rank < count; rank++) {
        assert(ids[rank] < usage->experts);
        select_one(usage, (uint64_t)index * usage->experts + ids[rank]);
    }
}

void usage_add_tokens(struct usage *usage, uint64_t tokens)
{
    usage->tokens += tokens;
}

void usage_decay_heat(struct usage *usage)
{
    for (uint64_t cell = 0; cell < usage->cells; cell++) {
        usage->heat[cell] >>= 1;
    }
}

uint32_t usage_scaled(uint32_t count, double factor)
{
    double scaled = (double)count * factor + 0.5;
    return scaled >= (double)UINT32_MAX ? UINT32_MAX : (uint32_t)scaled;
}

void usage_scale(struct usage *usage, double factor)
{
    for (uint64_t cell = 0; cell < usage->cells; cell++) {
        usage->counts[cell] = usage_scaled(usage->counts[cell], factor);
        usage->delta[cell] = usage_scaled(usage->delta[cell], factor);
    }
    usage->scale *= factor;
    usage->dirty = usage->keep_backup = true;
}

void usage_keep_backup(struct usage *usage)
{
    usage->keep_backup = true;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

static berth_status find_cell(const struct usage *usage, int64_t layer, int64_t expert, uint64_t *cell,
                              berth_error *err)
{
    uint32_t index = usage_find_layer(usage, layer);
    if (index == usage->layers_count) {
        return no_layer(layer, err);
    }
    if (expert < 0 || expert >= (int64_t)usage->experts) {
        return error_set(err, BERTH_ERR_ARGUMENT, "invalid expert %lld", (long long)expert);
    }
    *cell = (uint64_t)index * usage->experts + (uint64_t)expert;
    return BERTH_OK;
}

berth_status usage_entry(const struct usage *usage, int64_t layer, int64_t expert, struct usage_entry *out,
                         berth_error *err)
{
    uint64_t cell = 0;
    TRY(find_cell(usage, layer, expert, &cell, err));
    *out = (struct usage_entry){usage->counts[cell], usage->heat[cell], usage->last[cell]};
    return BERTH_OK;
}

void usage_get_snapshot(const struct usage *usage, struct usage_snapshot *out)
{
    *out = (struct usage_snapshot){.clock = usage->clock, .selections = usage->selections, .dirty = usage->dirty};
    for (uint64_t cell = 0; cell < usage->cells; cell++) {
        out->total_count += usage->counts[cell];
        out->nonzero_counts += usage->counts[cell] != 0 ? 1 : 0;
    }
}

int64_t usage_layer(const struct usage *usage, uint32_t index)
{
    return usage->layers[index];
}

const uint32_t *usage_counts(const struct usage *usage, uint32_t index)
{
    return usage->counts + (uint64_t)index * usage->experts;
}

const char *usage_path(const struct usage *usage)
{
    return usage->on_fallback ? usage->fallback_path : usage->path;
}
