/* SPDX-License-Identifier: MIT */
#include "experts/residency.h"

#include <stdio.h>
#include <string.h>

#include "experts/policy.h"
#include "experts/routes_record.h"
#include "experts/seed.h"
#include "os/thread.h"

/* The ledger's share of visits counts like this many visits less: a short history says little. */
enum { PRIOR_VISITS = 32 };
enum { WARM_PASSES = 4 };

struct residency {
    const struct catalog *catalog;
    struct cache *cache;
    struct slot_counts slots;
    const struct policy_row *policy;
    struct usage *usage; /* NULL: no ledger */
    bool read_only;
    struct log_sink log;
    int64_t *layers;           /* [layers] */
    float *prior;              /* [layers][experts] */
    struct usage_count *ranks; /* [layers x experts] */
    uint8_t *wanted;           /* [layers][experts] the pass of the warm start that loads it; 0: none */
    uint16_t *list;            /* [experts] */
    uint32_t warm_step;        /* next, pass by pass and layer by layer; layers x WARM_PASSES: all done */
    bool warm_chosen;
    struct residency_warm warmed;
    struct recorder recorder;
    bool has_recorder;
    /* the seed policy's pins */
    struct residency_seed seed;
    int64_t *pin_ids; /* [layers][experts] */
    struct usage_pins *pins;
    struct usage_candidate *candidates;
};

/* ---- layout --------------------------------------------------------------------------------------------- */

berth_status residency_seed_options(const char *options, struct residency_seed *out, berth_error *err)
{
    uint64_t autopin = 1;
    uint64_t repin = 1;
    *out = (struct residency_seed){
        .limit = SEED_REPIN_LIMIT, .min_history = 5000, .full_history = 200000, .share = 50, .min_bytes = 500000000};
    TRY(policy_option(options, "autopin", &autopin, err));
    TRY(policy_option(options, "repin", &repin, err));
    TRY(policy_option(options, "limit", &out->limit, err));
    TRY(policy_option(options, "min-history", &out->min_history, err));
    TRY(policy_option(options, "full-history", &out->full_history, err));
    TRY(policy_option(options, "share", &out->share, err));
    TRY(policy_option(options, "min-bytes", &out->min_bytes, err));
    out->autopin = autopin != 0;
    out->repin = repin != 0;
    return BERTH_OK;
}

static void on_warning(void *user, const char *message)
{
    const struct residency *residency = user;
    log_write(&residency->log, BERTH_LOG_WARN, "%s", message);
}

/* `home` is where *out will be; NULL when measuring. */
static berth_status layout_ledger(struct arena *tables, const struct residency_config *config, struct residency *home,
                                  struct residency *out, berth_error *err)
{
    const struct catalog *catalog = out->catalog;
    uint64_t cells = (uint64_t)catalog->layers * catalog->experts;
    struct usage_config usage = config->usage;
    usage.layers = config->layers;
    usage.layers_count = catalog->layers;
    usage.experts = catalog->experts;
    usage.warn = on_warning;
    usage.warn_user = home;
    TRY(usage_layout(tables, &usage, &out->usage, err));
    out->prior = ARENA_NEW(tables, float, cells);
    out->ranks = ARENA_NEW(tables, struct usage_count, cells);
    out->wanted = ARENA_NEW(tables, uint8_t, cells);
    if (out->policy == &policy_seed) {
        out->pin_ids = ARENA_NEW(tables, int64_t, cells);
        out->pins = ARENA_NEW(tables, struct usage_pins, catalog->layers);
        out->candidates = ARENA_NEW(tables, struct usage_candidate, catalog->layers);
    }
    return BERTH_OK;
}

berth_status residency_layout(struct arena *tables, const struct catalog *catalog,
                              const struct residency_config *config, struct residency **out, berth_error *err)
{
    struct residency parts = {.catalog = catalog, .read_only = config->read_only, .log = config->log};
    const char *options = "";
    TRY(policy_find(config->policy, &parts.policy, &options, err));
    if (parts.policy == &policy_seed) {
        TRY(residency_seed_options(options, &parts.seed, err));
    }
    struct residency *residency = ARENA_NEW(tables, struct residency, 1);
    parts.layers = ARENA_NEW(tables, int64_t, catalog->layers);
    parts.list = ARENA_NEW(tables, uint16_t, catalog->experts);
    if (config->ledger) {
        TRY(layout_ledger(tables, config, residency, &parts, err));
    }
    parts.has_recorder = config->record != NULL;
    if (parts.has_recorder) {
        recorder_layout(tables, &parts.recorder);
    }
    TRY(arena_check(tables, "residency", err));
    if (residency != NULL) {
        *residency = parts;
        residency->slots = *config->slots;
        memcpy(residency->layers, config->layers, catalog->layers * sizeof *residency->layers);
    }
    *out = residency;
    return BERTH_OK;
}

/* ---- start ---------------------------------------------------------------------------------------------- */

/* Shares of visits from counts. */
static bool fill_prior(const struct residency *residency)
{
    const struct catalog *catalog = residency->catalog;
    bool known = false;
    for (uint32_t layer = 0; layer < catalog->layers; layer++) {
        const uint32_t *counts = usage_counts(residency->usage, layer);
        float *shares = residency->prior + (uint64_t)layer * catalog->experts;
        uint64_t selections = 0;
        for (uint32_t expert = 0; expert < catalog->experts; expert++) {
            selections += counts[expert];
        }
        double visits = (double)selections / catalog->top_k + PRIOR_VISITS;
        for (uint32_t expert = 0; expert < catalog->experts; expert++) {
            double share = (double)counts[expert] / visits;
            shares[expert] = (float)(share < 1.0 ? share : 1.0);
        }
        cache_set_prior(residency->cache, layer, shares);
        known = known || selections > 0;
    }
    return known;
}

static berth_status load(struct residency *residency, enum usage_load_result *result, berth_error *err)
{
    *result = USAGE_ABSENT;
    if (residency->usage == NULL) {
        return BERTH_OK;
    }
    return usage_load(residency->usage, result, err);
}

static uint32_t find_layer(const struct residency *residency, int64_t layer)
{
    uint32_t index = 0;
    while (index < residency->catalog->layers && residency->layers[index] != layer) {
        index++;
    }
    return index;
}

/* Pins experts[] of a layer; keeps them in the re-pin lists when `listed`. */
static berth_status pin(struct residency *residency, uint32_t layer, uint32_t count, bool listed, berth_error *err)
{
    struct cache_preload counts;
    recorder_event(&residency->recorder, ROUTE_PIN, layer, residency->list, count);
    TRY(cache_preload(residency->cache, layer, residency->list, count, true, &counts, err));
    if (counts.left_out > 0) {
        log_write(&residency->log, BERTH_LOG_WARN, "%u pins of layer %lld found no slot: the layers must keep theirs",
                  counts.left_out, (long long)residency->layers[layer]);
    }
    for (uint32_t i = 0; listed && i < count; i++) {
        struct usage_pins *pins = &residency->pins[layer];
        if (cache_peek(residency->cache, layer, residency->list[i])) {
            pins->experts[pins->count++] = residency->list[i];
        }
    }
    return BERTH_OK;
}

static bool number(const char **at, uint64_t *out)
{
    uint64_t value = 0;
    const char *first = *at;
    for (; **at >= '0' && **at <= '9' && *at - first < 9; ++*at) {
        value = value * 10 + (uint64_t)(**at - '0');
    }
    *out = value;
    return *at > first;
}

/* Past commas, white space, and comments from '#' to the end of the line. */
static void skip_between(const char **at)
{
    *at += strspn(*at, ", \t\r\n");
    while (**at == '#') {
        *at += strcspn(*at, "\n");
        *at += strspn(*at, ", \t\r\n");
    }
}

static berth_status bad_pin(const struct residency *residency, const char *text, const char *row, berth_error *err)
{
    uint32_t line = 1;
    for (const char *at = text; at < row; at++) {
        line += *at == '\n' ? 1 : 0;
    }
    const struct catalog *catalog = residency->catalog;
    int bytes = (int)strcspn(row, ", \t\r\n");
    return error_set(
        err, BERTH_ERR_ARGUMENT,
        "pins, line %u: got \"%.*s\", wanted LAYER:EXPERT of layers with experts (%lld to %lld), experts 0 "
        "to %u",
        line, bytes < 80 ? bytes : 80, row, (long long)residency->layers[0],
        (long long)residency->layers[catalog->layers - 1], catalog->experts - 1);
}

/* "LAYER:EXPERT,..." in any order: one pass a layer. */
static berth_status user_pins(struct residency *residency, const char *text, berth_error *err)
{
    const struct catalog *catalog = residency->catalog;
    for (uint32_t layer = 0; layer < catalog->layers; layer++) {
        const char *at = text;
        uint32_t count = 0;
        for (skip_between(&at); *at != '\0'; skip_between(&at)) {
            uint64_t number_of_layer = 0;
            uint64_t expert = 0;
            const char *row = at;
            bool good = number(&at, &number_of_layer) && *at == ':';
            at += good ? 1 : 0;
            good = good && number(&at, &expert) && (*at == '\0' || strchr(", \t\r\n#", *at) != NULL);
            if (!good || expert >= catalog->experts ||
                find_layer(residency, (int64_t)number_of_layer) == catalog->layers) {
                return bad_pin(residency, text, row, err);
            }
            bool again = false;
            for (uint32_t i = 0; i < count; i++) {
                again = again || residency->list[i] == expert;
            }
            if (number_of_layer == (uint64_t)residency->layers[layer] && !again) {
                residency->list[count++] = (uint16_t)expert;
            }
        }
        if (count > 0) {
            TRY(pin(residency, layer, count, false, err));
        }
    }
    return BERTH_OK;
}

static int64_t slot_bytes(void *user, int64_t layer)
{
    const struct residency *residency = user;
    const struct catalog *catalog = residency->catalog;
    return (int64_t)catalog->classes[catalog->layer_class[find_layer(residency, layer)]].slot_bytes;
}

void residency_tiers(const struct catalog *catalog, const struct slot_counts *slots, uint64_t working,
                     struct autopin_config *out)
{
    out->resident_bytes = (int64_t)(slots->bytes > working ? slots->bytes - working : 0);
    out->mandatory_bytes = 0;
    for (uint32_t layer = 0; layer < catalog->layers; layer++) {
        out->mandatory_bytes += (int64_t)catalog->classes[catalog->layer_class[layer]].slot_bytes;
    }
}

/* AUTOPIN: bytes of all slots but the working ones are the persistent tiers. */
static berth_status auto_pins(struct residency *residency, berth_error *err)
{
    const struct catalog *catalog = residency->catalog;
    struct autopin_config config = {.slot_bytes = slot_bytes,
                                    .user = residency,
                                    .min_history = (int64_t)residency->seed.min_history,
                                    .full_history = (int64_t)residency->seed.full_history,
                                    .min_pin_bytes = (int64_t)residency->seed.min_bytes,
                                    .share = (double)residency->seed.share / 100.0};
    residency_tiers(catalog, &residency->slots, cache_working_bytes(residency->cache), &config);
    struct autopin_plan plan;
    TRY(usage_autopin(residency->usage, &config, residency->ranks, (uint64_t)catalog->layers * catalog->experts, &plan,
                      err));
    for (uint32_t layer = 0; layer < catalog->layers; layer++) {
        uint32_t count = 0;
        for (uint64_t i = 0; i < plan.pins; i++) {
            if (residency->ranks[i].layer == residency->layers[layer]) {
                residency->list[count++] = (uint16_t)residency->ranks[i].expert;
            }
        }
        if (count > 0) {
            TRY(pin(residency, layer, count, true, err));
        }
    }
    log_write(&residency->log, BERTH_LOG_INFO, "auto-pin: %llu experts, %llu bytes, from %llu selections",
              (unsigned long long)plan.pins, (unsigned long long)plan.planned_bytes, (unsigned long long)plan.history);
    return BERTH_OK;
}

static berth_status begin_recording(struct residency *residency, const struct residency_config *config, bool known,
                                    berth_error *err)
{
    struct recorder_head head = {.path = config->record,
                                 .model = config->model,
                                 .policy = config->policy != NULL ? config->policy : residency->policy->name,
                                 .model_layers = residency->layers,
                                 .slots = &residency->slots,
                                 .prior = known ? residency->prior : NULL};
    return recorder_begin(&residency->recorder, residency->catalog, residency->cache, &head, err);
}

berth_status residency_start(struct residency *residency, struct cache *cache, const struct residency_config *config,
                             berth_error *err)
{
    const struct catalog *catalog = residency->catalog;
    enum usage_load_result result;
    residency->cache = cache;
    TRY(load(residency, &result, err));
    bool known = residency->usage != NULL && fill_prior(residency);
    if (residency->has_recorder && config->record != NULL) {
        TRY(begin_recording(residency, config, known, err));
    }
    for (uint32_t layer = 0; residency->pins != NULL && layer < catalog->layers; layer++) {
        residency->pins[layer] = (struct usage_pins){
            .layer = residency->layers[layer], .experts = residency->pin_ids + (uint64_t)layer * catalog->experts};
    }
    if (config->pins != NULL) {
        TRY(user_pins(residency, config->pins, err));
    }
    if (known && residency->policy == &policy_seed && residency->seed.autopin) {
        TRY(auto_pins(residency, err));
    }
    return BERTH_OK;
}

/* ---- warm start ----------------------------------------------------------------------------------------- */

/* Marks what to load: the most used experts, as many as each pool has free slots; policies with a bank for every layer
 * get no more than a layer's share. The seed policy pins instead. Each pass takes the hottest of what is left from all
 * layers, so that a start that is cut short has the hottest of every layer. */
static void choose_warm(struct residency *residency)
{
    const struct catalog *catalog = residency->catalog;
    uint64_t cells = (uint64_t)catalog->layers * catalog->experts;
    uint32_t room[SLOT_CLASSES_MAX];
    uint32_t free_slots[SLOT_CLASSES_MAX];
    memset(residency->wanted, 0, cells);
    residency->warm_chosen = true;
    if (residency->policy == &policy_seed) {
        residency->warm_step = catalog->layers * WARM_PASSES;
        return;
    }
    for (uint32_t layer = 0; layer < catalog->layers; layer++) {
        uint32_t pool = cache_pool(residency->cache, layer);
        room[pool] = free_slots[pool] = cache_free_slots(residency->cache, layer);
    }
    uint64_t ranked = usage_ranked(residency->usage, residency->ranks, cells);
    for (uint64_t i = 0; i < ranked; i++) {
        uint32_t layer = find_layer(residency, residency->ranks[i].layer);
        uint32_t pool = cache_pool(residency->cache, layer);
        uint32_t *left = &room[pool];
        uint8_t *row = residency->wanted + (uint64_t)layer * catalog->experts;
        uint32_t share = UINT32_MAX;
        if (residency->policy->settle != NULL) {
            uint32_t in_layer = 0;
            for (uint32_t expert = 0; expert < catalog->experts; expert++) {
                in_layer += row[expert] != 0 ? 1 : 0;
            }
            share = (uint32_t)(residency->slots.total / catalog->layers);
            share = share > in_layer ? share - in_layer : 0;
        }
        if (*left > 0 && share > 0 && !cache_peek(residency->cache, layer, residency->ranks[i].expert)) {
            uint64_t taken = free_slots[pool] - *left;
            row[residency->ranks[i].expert] = (uint8_t)(1 + taken * WARM_PASSES / free_slots[pool]);
            --*left;
        }
    }
}

berth_status residency_warm(struct residency *residency, uint64_t max_ns, const atomic_int *cancel,
                            struct residency_warm *out, berth_error *err)
{
    const struct catalog *catalog = residency->catalog;
    uint64_t began_ns = os_now_ns();
    if (residency->usage == NULL) {
        *out = (struct residency_warm){.complete = true};
        return BERTH_OK;
    }
    if (!residency->warm_chosen) {
        choose_warm(residency);
    }
    struct cache_stats before;
    struct cache_stats after;
    cache_get_stats(residency->cache, &before);
    berth_status status = BERTH_OK;
    while (status == BERTH_OK && residency->warm_step < catalog->layers * WARM_PASSES &&
           os_now_ns() - began_ns < max_ns && (cancel == NULL || atomic_load(cancel) == 0)) {
        uint32_t pass = residency->warm_step / catalog->layers + 1;
        uint32_t layer = residency->warm_step++ % catalog->layers;
        uint32_t count = 0;
        struct cache_preload counts;
        for (uint32_t expert = 0; expert < catalog->experts; expert++) {
            if (residency->wanted[(uint64_t)layer * catalog->experts + expert] == pass) {
                residency->list[count++] = (uint16_t)expert;
            }
        }
        if (count > 0) {
            recorder_event(&residency->recorder, ROUTE_WARM, layer, residency->list, count);
            status = cache_preload(residency->cache, layer, residency->list, count, false, &counts, err);
        }
    }
    cache_get_stats(residency->cache, &after);
    *out = (struct residency_warm){.experts = after.warm_experts - before.warm_experts,
                                   .bytes = after.warm_read_bytes - before.warm_read_bytes,
                                   .ns = os_now_ns() - began_ns,
                                   .complete = residency->warm_step == catalog->layers * WARM_PASSES};
    return status;
}

/* ---- while it runs -------------------------------------------------------------------------------------- */

void residency_visit(struct residency *residency, const struct residency_visit *visit)
{
    uint32_t top_k = residency->catalog->top_k;
    struct route_step step = {
        .layer = visit->layer, .position = visit->position, .rows = visit->rows, .phase = visit->phase};
    residency->warm_step = residency->catalog->layers * WARM_PASSES; /* a request is here: the warm start is over */
    recorder_visit(&residency->recorder, &step, visit->ids, visit->weights);
    if (residency->usage != NULL) {
        for (uint32_t row = 0; row < visit->rows; row++) {
            usage_record_row(residency->usage, visit->layer, visit->ids + (uint64_t)row * top_k, top_k);
        }
        usage_add_tokens(residency->usage, visit->layer == 0 ? visit->rows : 0);
    }
}

static berth_status swap(void *user, const struct usage_candidate *candidate, berth_error *err)
{
    struct residency *residency = user;
    uint32_t layer = find_layer(residency, candidate->layer);
    uint16_t cold = (uint16_t)candidate->cold_expert;
    uint16_t hot = (uint16_t)candidate->hot_expert;
    struct cache_preload counts;
    recorder_event(&residency->recorder, ROUTE_UNPIN, layer, &cold, 1);
    cache_unpin(residency->cache, layer, cold);
    recorder_event(&residency->recorder, ROUTE_PIN, layer, &hot, 1);
    return cache_preload(residency->cache, layer, &hot, 1, true, &counts, err);
}

static berth_status save(struct residency *residency, bool *saved, berth_error *err)
{
    struct usage_snapshot snapshot;
    usage_get_snapshot(residency->usage, &snapshot);
    if (residency->read_only || !snapshot.dirty) {
        return BERTH_OK;
    }
    berth_status status = usage_flush(residency->usage, err);
    *saved = status == BERTH_OK;
    return status;
}

berth_status residency_turn(struct residency *residency, struct residency_turn *out, berth_error *err)
{
    *out = (struct residency_turn){0};
    recorder_turn(&residency->recorder);
    if (residency->usage == NULL) {
        return BERTH_OK;
    }
    if (residency->policy == &policy_seed && residency->seed.repin) {
        struct usage_turn turn = {.pins = residency->pins,
                                  .pins_count = residency->catalog->layers,
                                  .limit = (int64_t)residency->seed.limit,
                                  .work = residency->candidates,
                                  .swap = swap,
                                  .user = residency,
                                  .no_save = true};
        TRY(usage_turn_end(residency->usage, &turn, err));
        out->candidates = turn.candidates;
        out->swaps = turn.applied;
    }
    return save(residency, &out->saved, err);
}

berth_status residency_stop(struct residency *residency, berth_error *err)
{
    bool saved = false;
    berth_status recorded = residency->cache != NULL ? recorder_end(&residency->recorder, err) : BERTH_OK;
    recorder_abandon(&residency->recorder);
    berth_status kept = residency->usage != NULL && residency->cache != NULL
                            ? save(residency, &saved, recorded == BERTH_OK ? err : NULL)
                            : BERTH_OK;
    return recorded != BERTH_OK ? recorded : kept;
}
