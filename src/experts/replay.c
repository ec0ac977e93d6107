/* SPDX-License-Identifier: MIT */
#include "experts/replay.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "experts/policy.h"
#include "os/memory.h"

struct replay {
    const struct routes *routes;
    const struct replay_config *config;
    struct catalog catalog;
    struct slot_counts counts;
    struct cache_options options;
    struct policy_future future;
    struct cache *cache;
    uint16_t *unique; /* [experts] of the running visit */
    uint32_t *seen;   /* [experts] */
    uint32_t stamp;
    char policy[192];
    uint64_t tokens; /* decode tokens in all */
    uint64_t scored_from;
};

/* ---- the catalog: classes as in the recording, sizes too small to matter ----------------------------------- */

static uint32_t class_of(const struct replay *replay, uint32_t layer)
{
    const struct routes *routes = replay->routes;
    if (replay->config->as_recorded) {
        return routes->layer_class[layer];
    }
    if (replay->config->per_layer) {
        return layer;
    }
    if (replay->config->slots > 0) {
        return 0;
    }
    uint32_t class = 0;
    for (uint32_t before = 0; before < layer; before++) { /* distinct sizes in order of first appearance */
        if (routes->layer_bytes[before] == routes->layer_bytes[layer]) {
            return class_of(replay, before);
        }
        bool first = true;
        for (uint32_t earlier = 0; earlier < before; earlier++) {
            first = first && routes->layer_bytes[earlier] != routes->layer_bytes[before];
        }
        class += first ? 1 : 0;
    }
    return class;
}

static berth_status make_catalog(struct arena *arena, struct replay *replay, berth_error *err)
{
    const struct routes *routes = replay->routes;
    TRY(catalog_layout(arena, routes->layers, routes->experts, routes->top_k, &replay->catalog, err));
    if (arena_is_measuring(arena)) {
        return BERTH_OK;
    }
    for (uint32_t layer = 0; layer < routes->layers; layer++) {
        uint32_t class = class_of(replay, layer);
        if (class >= SLOT_CLASSES_MAX) {
            return error_set(err, BERTH_ERR_LIMIT, "more than %d %s", SLOT_CLASSES_MAX,
                             replay->config->per_layer ? "layers to give a pool each" : "sizes of experts");
        }
        for (uint32_t rank = 0; rank < routes->experts; rank++) {
            uint32_t expert = routes->order[(uint64_t)layer * routes->experts + rank];
            struct expert_slice *slice = catalog_slice(&replay->catalog, layer, expert, EXPERT_GATE);
            *slice = (struct expert_slice){.offset = ((uint64_t)layer * routes->experts + rank) * SLOT_CLASSES_MAX,
                                           .bytes = class + 1};
        }
    }
    return catalog_seal(&replay->catalog, err);
}

/* Slots of each class: as recorded; or as many as `bytes` affords, in the proportions of the catalog's own rule. */
static berth_status count_by_bytes(struct arena *arena, struct replay *replay, berth_error *err)
{
    const struct routes *routes = replay->routes;
    struct catalog sized;
    uint64_t mark = arena_mark(arena);
    TRY(catalog_layout(arena, routes->layers, routes->experts, routes->top_k, &sized, err));
    for (uint32_t layer = 0; layer < routes->layers; layer++) {
        if (routes->layer_bytes[layer] == 0 || routes->layer_bytes[layer] > UINT32_MAX) {
            return error_set(err, BERTH_ERR_ARGUMENT, "the recording does not say how big its experts are; give slots");
        }
        for (uint32_t expert = 0; expert < routes->experts; expert++) {
            *catalog_slice(&sized, layer, expert, EXPERT_GATE) =
                (struct expert_slice){.offset = 0, .bytes = (uint32_t)routes->layer_bytes[layer]};
        }
    }
    TRY(catalog_seal(&sized, err));
    TRY(catalog_slots(&sized, replay->config->bytes, &replay->counts, err));
    arena_rewind(arena, mark);
    return BERTH_OK;
}

/* A pool for each layer: equal shares of the slots (the first layers get what is left over) or of the bytes. */
static berth_status count_by_layer(struct replay *replay, berth_error *err)
{
    const struct routes *routes = replay->routes;
    const struct replay_config *config = replay->config;
    replay->counts = (struct slot_counts){0};
    for (uint32_t layer = 0; layer < routes->layers; layer++) {
        uint64_t slots = config->slots / routes->layers + (layer < config->slots % routes->layers ? 1 : 0);
        if (config->slots == 0) {
            if (routes->layer_bytes[layer] == 0) {
                return error_set(err, BERTH_ERR_ARGUMENT,
                                 "the recording does not say how big its experts are; give slots");
            }
            slots = config->bytes / routes->layers / routes->layer_bytes[layer];
        }
        slots = slots < routes->experts ? slots : routes->experts;
        if (slots == 0) {
            return error_set(err, BERTH_ERR_ARGUMENT, "the size gives a layer no slot at all");
        }
        replay->counts.count[layer] = (uint32_t)slots;
        replay->counts.total += slots;
    }
    return BERTH_OK;
}

/* What a policy that gives slots back needs on top of the resident ones. */
static uint64_t working_slots(const struct replay *replay, const struct policy_row *row)
{
    bool bypass = row == &policy_belady_bypass;
    return row->settle != NULL && row != &policy_seed && (bypass || replay->config->global || replay->config->per_layer)
               ? replay->routes->top_k
               : 0;
}

static berth_status choose_slots(struct arena *arena, struct replay *replay, berth_error *err)
{
    const struct routes *routes = replay->routes;
    const struct replay_config *config = replay->config;
    const struct policy_row *row = NULL;
    const char *options = NULL;
    const char *name = config->policy != NULL ? config->policy : (routes->has_cache ? routes->policy : NULL);
    TRY(policy_find(name, &row, &options, err));
    if (config->as_recorded) {
        if (!routes->has_cache) {
            return error_set(err, BERTH_ERR_ARGUMENT, "the recording does not say which slots its engine had");
        }
        replay->counts = routes->slots;
    } else if (config->per_layer) {
        TRY(count_by_layer(replay, err));
    } else if (config->slots > 0) {
        uint64_t cycle = (uint64_t)routes->layers * routes->top_k;
        uint64_t all = (uint64_t)routes->layers * routes->experts;
        uint64_t slots = config->slots < all ? config->slots : all;
        replay->counts = (struct slot_counts){.total = slots, .shared = slots < cycle};
        replay->counts.count[0] = (uint32_t)slots;
    } else {
        TRY(count_by_bytes(arena, replay, err));
    }
    uint64_t working = working_slots(replay, row);
    if (working > 0) {
        for (uint32_t c = 0; c < replay->catalog.classes_count; c++) {
            replay->counts.count[c] += (uint32_t)working;
            replay->counts.total += working;
        }
        snprintf(replay->policy, sizeof replay->policy, "%s:working=%llu%s%s", row->name, (unsigned long long)working,
                 options[0] != '\0' ? "," : "", options);
    } else {
        snprintf(replay->policy, sizeof replay->policy, "%s%s%s", row->name, options[0] != '\0' ? ":" : "", options);
    }
    replay->options = (struct cache_options){
        .policy = replay->policy, .future = &replay->future, .no_floor = config->global || config->per_layer};
    return BERTH_OK;
}

/* ---- the steps ------------------------------------------------------------------------------------------ */

static bool takes_part(const struct replay *replay, const struct route_step *step)
{
    return step->phase == BERTH_PHASE_DECODE || replay->config->prefill || replay->config->as_recorded;
}

/* The step's experts in order of first use. */
static uint32_t unite(struct replay *replay, const struct route_step *step)
{
    const struct routes *routes = replay->routes;
    uint32_t count = 0;
    replay->stamp++;
    for (uint64_t i = 0; i < (uint64_t)step->rows * routes->top_k; i++) {
        uint16_t expert = routes->ids[step->first + i];
        if (replay->seen[expert] != replay->stamp) {
            replay->seen[expert] = replay->stamp;
            replay->unique[count++] = expert;
        }
    }
    return count;
}

/* Every visit's experts, and when each is used next: backwards over the run. */
static void see_future(struct replay *replay, uint64_t *first, uint16_t *experts, uint64_t *next_use, uint64_t *last)
{
    const struct routes *routes = replay->routes;
    uint64_t visits = 0;
    uint64_t used = 0;
    for (uint64_t i = 0; i < routes->steps_count; i++) {
        if (takes_part(replay, &routes->steps[i])) {
            uint32_t count = unite(replay, &routes->steps[i]);
            first[visits++] = used;
            memcpy(experts + used, replay->unique, count * sizeof *experts);
            used += count;
        }
    }
    first[visits] = used;
    for (uint64_t cell = 0; cell < (uint64_t)routes->layers * routes->experts; cell++) {
        last[cell] = UINT64_MAX;
    }
    uint64_t visit = visits;
    for (uint64_t i = routes->steps_count; i-- > 0;) {
        if (takes_part(replay, &routes->steps[i])) {
            visit--;
            for (uint64_t at = first[visit]; at < first[visit + 1]; at++) {
                uint64_t *cell = &last[(uint64_t)routes->steps[i].layer * routes->experts + experts[at]];
                next_use[at] = *cell;
                *cell = visit;
            }
        }
    }
    replay->future = (struct policy_future){.first = first, .experts = experts, .next_use = next_use, .visits = visits};
}

static void set_prior(struct arena *scratch, const struct replay *replay)
{
    const struct routes *routes = replay->routes;
    const float *shares = replay->config->table;
    if (replay->config->prior == REPLAY_PRIOR_NONE) {
        return;
    }
    if (replay->config->prior == REPLAY_PRIOR_RECORDED) {
        shares = routes->prior;
    } else if (replay->config->prior == REPLAY_PRIOR_HALF) {
        float *half = ARENA_NEW(scratch, float, (uint64_t)routes->layers * routes->experts);
        if (half == NULL) {
            return;
        }
        replay_shares(routes, 0, replay->tokens / 2, half);
        shares = half;
    }
    for (uint32_t layer = 0; layer < routes->layers; layer++) {
        cache_set_prior(replay->cache, layer, shares + (uint64_t)layer * routes->experts);
    }
}

void replay_shares(const struct routes *routes, uint64_t from, uint64_t to, float *shares)
{
    uint64_t token = 0;
    memset(shares, 0, (uint64_t)routes->layers * routes->experts * sizeof *shares);
    for (uint64_t i = 0; i < routes->steps_count; i++) {
        const struct route_step *step = &routes->steps[i];
        if (step->phase != BERTH_PHASE_DECODE) {
            continue;
        }
        token += step->layer == 0 ? 1 : 0;
        for (uint32_t rank = 0; token > from && token <= to && rank < routes->top_k; rank++) {
            shares[(uint64_t)step->layer * routes->experts + routes->ids[step->first + rank]] += 1.0f;
        }
    }
    for (uint64_t cell = 0; cell < (uint64_t)routes->layers * routes->experts && to > from; cell++) {
        shares[cell] /= (float)(to - from);
    }
}

static berth_status run_event(struct replay *replay, const struct route_event *event, berth_error *err)
{
    const uint16_t *experts = replay->routes->ids + event->first;
    struct cache_preload counts;
    if (event->kind != ROUTE_UNPIN) {
        return cache_preload(replay->cache, event->layer, experts, event->count, event->kind == ROUTE_PIN, &counts,
                             err);
    }
    for (uint32_t i = 0; i < event->count; i++) {
        cache_unpin(replay->cache, event->layer, experts[i]);
    }
    return BERTH_OK;
}

static berth_status run_step(struct replay *replay, const struct route_step *step, uint64_t token,
                             struct replay_result *out, berth_error *err)
{
    struct cache_stats before;
    struct cache_stats after;
    struct expert_weights weights;
    uint32_t count = unite(replay, step);
    cache_get_stats(replay->cache, &before);
    TRY(cache_visit_begin(replay->cache, step->layer, step->phase, replay->unique, count, err));
    berth_status status = BERTH_OK;
    for (uint32_t i = 0; i < count && status == BERTH_OK; i++) {
        status = cache_visit_next(replay->cache, &weights, err);
        if (status == BERTH_OK) {
            cache_release(replay->cache, weights.handle);
        }
    }
    cache_visit_end(replay->cache);
    TRY(status);
    cache_get_stats(replay->cache, &after);
    uint32_t hits = (uint32_t)(after.hits[step->phase] - before.hits[step->phase]);
    out->visits++;
    if (step->phase == BERTH_PHASE_DECODE) {
        bool scored = token > replay->scored_from;
        *(scored ? &out->scored : &out->cold) += count;
        *(scored ? &out->scored_hits : &out->cold_hits) += hits;
    }
    out->read_bytes += (count - hits) * replay->routes->layer_bytes[step->layer];
    if (replay->config->step != NULL) {
        struct replay_step_info info = {token, step->phase, step->layer, count, hits};
        replay->config->step(replay->config->user, &info);
    }
    return BERTH_OK;
}

static berth_status run_all(struct replay *replay, struct replay_result *out, berth_error *err)
{
    const struct routes *routes = replay->routes;
    uint64_t event = 0;
    uint64_t token = 0;
    for (uint64_t i = 0; i < routes->steps_count; i++) {
        for (; event < routes->events_count && routes->events[event].step <= i; event++) {
            if (replay->config->as_recorded) {
                TRY(run_event(replay, &routes->events[event], err));
            }
        }
        const struct route_step *step = &routes->steps[i];
        token += step->phase == BERTH_PHASE_DECODE && step->layer == 0 ? 1 : 0;
        if (takes_part(replay, step)) {
            TRY(run_step(replay, step, token, out, err));
        }
    }
    struct cache_stats stats;
    cache_get_stats(replay->cache, &stats);
    memcpy(out->hits, stats.hits, sizeof out->hits);
    memcpy(out->misses, stats.misses, sizeof out->misses);
    out->evictions = stats.evictions;
    out->bypassed = stats.bypassed;
    out->warm_experts = stats.warm_experts;
    out->policy_ns = stats.policy_ns;
    out->slots = replay->counts.total;
    return BERTH_OK;
}

/* ---- memory --------------------------------------------------------------------------------------------- */

struct replay_tables {
    uint64_t *first, *next_use, *last;
    uint16_t *experts;
};

static berth_status take(struct arena *arena, struct replay *replay, struct replay_tables *tables, berth_error *err)
{
    const struct routes *routes = replay->routes;
    replay->unique = ARENA_NEW(arena, uint16_t, routes->experts);
    replay->seen = ARENA_NEW(arena, uint32_t, routes->experts);
    tables->first = ARENA_NEW(arena, uint64_t, routes->steps_count + 1);
    tables->experts = ARENA_NEW(arena, uint16_t, routes->ids_count);
    tables->next_use = ARENA_NEW(arena, uint64_t, routes->ids_count);
    tables->last = ARENA_NEW(arena, uint64_t, (uint64_t)routes->layers * routes->experts);
    return arena_check(arena, "replay", err);
}

/* Address space that covers everything: tables by the run's length, and per cell and per slot what cache and policies
 * take (their exact layout is only known once the slots are). Only what is touched gets charged. */
static uint64_t region_bytes(const struct routes *routes)
{
    uint64_t cells = (uint64_t)routes->layers * routes->experts;
    return routes->steps_count * 16 + routes->ids_count * 16 + cells * 512 + routes->layers * 4096ull + (16 << 20);
}

static berth_status run_in(void *region, uint64_t bytes, void *slots_region, uint64_t slots_bytes,
                           struct replay *replay, struct replay_result *out, berth_error *err)
{
    struct arena arena;
    struct arena slots;
    struct replay_tables tables;
    arena_carve(&arena, region, bytes);
    arena_carve(&slots, slots_region, slots_bytes);
    TRY(take(&arena, replay, &tables, err));
    TRY(make_catalog(&arena, replay, err));
    TRY(choose_slots(&arena, replay, err));
    see_future(replay, tables.first, tables.experts, tables.next_use, tables.last);
    TRY(cache_layout_with(&arena, &slots, &replay->catalog, &replay->counts, &replay->options, NULL, &replay->cache,
                          err));
    set_prior(&arena, replay);
    return run_all(replay, out, err);
}

berth_status replay_run(const struct routes *routes, const struct replay_config *config, struct replay_result *out,
                        berth_error *err)
{
    struct replay replay = {.routes = routes, .config = config};
    struct replay_result result = {0};
    uint64_t cells = (uint64_t)routes->layers * routes->experts;
    uint64_t bytes = region_bytes(routes);
    uint64_t slots_bytes = (cells + SLOT_CLASSES_MAX * (uint64_t)routes->top_k) * 3 * OS_PAGE_BYTES;
    void *region = NULL;
    void *slots = NULL;
    if (!config->as_recorded && config->slots == 0 && config->bytes == 0) {
        return error_set(err, BERTH_ERR_ARGUMENT, "no cache size given");
    }
    for (uint64_t i = 0; i < routes->steps_count; i++) {
        const struct route_step *step = &routes->steps[i];
        replay.tokens += step->phase == BERTH_PHASE_DECODE && step->layer == 0 ? 1 : 0;
    }
    replay.scored_from = config->scored_from == UINT64_MAX ? replay.tokens / 2 : config->scored_from;
    TRY(os_reserve(NULL, bytes, false, &region, err));
    berth_status status = os_reserve(NULL, slots_bytes, false, &slots, err);
    if (status == BERTH_OK) {
        status = run_in(region, bytes, slots, slots_bytes, &replay, &result, err);
        os_release(slots, slots_bytes);
    }
    os_release(region, bytes);
    if (status == BERTH_OK) {
        *out = result;
    }
    return status;
}
