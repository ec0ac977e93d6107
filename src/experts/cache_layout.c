/* SPDX-License-Identifier: MIT
 * Memory of the expert cache: tables, slots in pools of one size, and the policy's own; see cache.h. */
#include <string.h>

#include "base/sort.h"
#include "experts/cache_parts.h"
#include "os/memory.h"

static berth_status check_counts(const struct catalog *catalog, const struct slot_counts *counts, berth_error *err)
{
    uint64_t total = 0;
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        uint64_t floor = (uint64_t)catalog->classes[c].layers * catalog->top_k;
        if (!counts->shared && counts->count[c] < floor) {
            return error_set(err, BERTH_ERR_ARGUMENT, "expert cache: class %u has %u slots, wanted %llu or more", c,
                             counts->count[c], (unsigned long long)floor);
        }
        total += counts->count[c];
    }
    if (total != counts->total || total < catalog->top_k || total >= SLOT_NONE) {
        return error_set(err, BERTH_ERR_ARGUMENT, "expert cache: %llu slots, %llu by class",
                         (unsigned long long)counts->total, (unsigned long long)total);
    }
    return BERTH_OK;
}

static uint32_t fetches_wanted(const struct catalog *catalog, const struct slot_counts *counts)
{
    uint32_t most = 1;
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        most = counts->count[c] > most ? counts->count[c] : most;
    }
    most = most < catalog->experts ? most : catalog->experts;
    return most < CACHE_FETCHES_MAX ? most : (uint32_t)CACHE_FETCHES_MAX;
}

static void take_tables(struct arena *tables, const struct catalog *catalog, const struct slot_counts *counts,
                        struct cache *out)
{
    uint64_t cells = (uint64_t)catalog->layers * catalog->experts;
    out->slots = ARENA_NEW(tables, struct slot, counts->total);
    out->free_slots = ARENA_NEW(tables, uint32_t, counts->total);
    out->slot_of = ARENA_NEW(tables, uint32_t, cells);
    out->file_rank = ARENA_NEW(tables, uint16_t, cells);
    out->layer_slots = ARENA_NEW(tables, uint32_t, catalog->layers);
    out->layer_visits = ARENA_NEW(tables, uint64_t, catalog->layers);
    out->layer_pool = ARENA_NEW(tables, uint8_t, catalog->layers);
    out->prior = ARENA_NEW(tables, float, cells);
    out->fetches_count = fetches_wanted(catalog, counts);
    out->fetches = ARENA_NEW(tables, struct fetch, out->fetches_count);
    out->visit.experts = ARENA_NEW(tables, uint16_t, catalog->experts);
    out->visit.slots = ARENA_NEW(tables, uint32_t, catalog->experts);
    out->visit.states = ARENA_NEW(tables, uint8_t, catalog->experts);
    out->visit.by_rank = ARENA_NEW(tables, uint32_t, catalog->experts);
}

struct file_order {
    const struct catalog *catalog;
    uint32_t layer;
};

/* Where an expert's first part in the files starts. */
static struct expert_slice first_slice(const struct file_order *order, uint32_t expert)
{
    struct expert_slice first = {.offset = UINT64_MAX, .file = UINT32_MAX};
    for (uint32_t part = 0; part < order->catalog->parts; part++) {
        const struct expert_slice *slice = catalog_slice(order->catalog, order->layer, expert, part);
        if (slice->bytes > 0 &&
            (slice->file < first.file || (slice->file == first.file && slice->offset < first.offset))) {
            first = *slice;
        }
    }
    return first;
}

static int compare_in_file(const void *user, uint32_t a, uint32_t b)
{
    struct expert_slice left = first_slice(user, a);
    struct expert_slice right = first_slice(user, b);
    if (left.file != right.file) {
        return left.file < right.file ? -1 : 1;
    }
    return left.offset == right.offset ? 0 : (left.offset < right.offset ? -1 : 1);
}

static void fill_tables(struct cache *cache, const struct slot_counts *counts)
{
    const struct catalog *catalog = cache->catalog;
    uint32_t first = 0;
    uint8_t shared_pool = 0;
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        struct pool *pool = &cache->pools[c];
        pool->slot_bytes = catalog->classes[c].slot_bytes;
        pool->first = cache->pool_first[c] = first;
        pool->count = pool->free_count = cache->pool_count[c] = counts->count[c];
        for (uint32_t i = 0; i < pool->count; i++) { /* the lowest slot is on top */
            cache->free_slots[first + i] = first + pool->count - 1 - i;
            cache->slots[first + i].layer = SLOT_NONE;
        }
        first += pool->count;
        shared_pool = pool->count > 0 ? (uint8_t)c : shared_pool;
    }
    for (uint32_t layer = 0; layer < catalog->layers; layer++) {
        cache->layer_pool[layer] = counts->shared ? shared_pool : catalog->layer_class[layer];
        struct file_order order = {.catalog = catalog, .layer = layer};
        sort_order(cache->visit.slots, cache->visit.by_rank, catalog->experts, compare_in_file, &order);
        for (uint32_t rank = 0; rank < catalog->experts; rank++) {
            uint64_t cell = (uint64_t)layer * catalog->experts + cache->visit.slots[rank];
            cache->file_rank[cell] = (uint16_t)rank;
            cache->slot_of[cell] = SLOT_NONE;
            cache->prior[cell] = 0.0f;
        }
    }
    for (uint32_t rank = 0; rank < catalog->experts; rank++) {
        cache->visit.by_rank[rank] = RANK_NONE;
    }
}

berth_status cache_layout(struct arena *tables, struct arena *slots, const struct catalog *catalog,
                          const struct slot_counts *counts, const char *policy, struct io *io, struct cache **out,
                          berth_error *err)
{
    struct cache_options options = {.policy = policy};
    return cache_layout_with(tables, slots, catalog, counts, &options, io, out, err);
}

berth_status cache_layout_with(struct arena *tables, struct arena *slots, const struct catalog *catalog,
                               const struct slot_counts *counts, const struct cache_options *options, struct io *io,
                               struct cache **out, berth_error *err)
{
    if (!options->no_floor) {
        TRY(check_counts(catalog, counts, err));
    }
    struct cache parts = {.catalog = catalog, .io = io};
    TRY(policy_find(options->policy, &parts.policy, &parts.view.options, err));
    if (parts.policy->replay_only && options->future == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT, "the policy \"%s\" needs to know the future: replay only",
                         parts.policy->name);
    }
    struct cache *cache = ARENA_NEW(tables, struct cache, 1);
    size_t text_bytes = strlen(parts.view.options) + 1;
    char *text = ARENA_NEW(tables, char, text_bytes);
    if (text != NULL) {
        memcpy(text, parts.view.options, text_bytes);
        parts.view.options = text;
    }
    take_tables(tables, catalog, counts, &parts);
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        parts.pools[c].base = arena_take(slots, counts->count[c], catalog->classes[c].slot_bytes, OS_PAGE_BYTES);
    }
    TRY(arena_check(tables, "expert cache tables", err));
    TRY(arena_check(slots, "expert cache slots", err));
    parts.view = (struct policy_view){.options = parts.view.options,
                                      .future = options->future,
                                      .prior = parts.prior,
                                      .catalog = catalog,
                                      .slots = parts.slots,
                                      .slots_count = (uint32_t)counts->total,
                                      .floor = counts->shared || options->no_floor ? 0 : catalog->top_k,
                                      .layer_slots = parts.layer_slots,
                                      .layer_pool = parts.layer_pool,
                                      .layer_visits = parts.layer_visits};
    if (cache != NULL) {
        *cache = parts;
        cache->view.pool_first = cache->pool_first;
        cache->view.pool_count = cache->pool_count;
        cache->view.pool_pinned = cache->pool_pinned;
        fill_tables(cache, counts);
    }
    TRY(parts.policy->layout(tables, cache == NULL ? &parts.view : &cache->view,
                             cache == NULL ? &parts.policy_state : &cache->policy_state, err));
    *out = cache;
    return BERTH_OK;
}
