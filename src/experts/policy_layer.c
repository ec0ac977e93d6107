/* SPDX-License-Identifier: MIT
 *
 * "layer-lru": every layer has an equal share of the slots and evicts its own least recently used expert.
 *
 * "seed": the documents' residency. Misses land in working slots; after the visit they are promoted in reverse order
 * into the layer's bank, in place of the oldest expert that the visit did not use; what finds no place is given back.
 * Which experts stay is the same as: drop the oldest unused ones, then the first misses, until the bank is not over its
 * size. Pins are the cache's (cache_preload) and are counted out of the banks. */
#include "experts/policy_lists.h"
#include "experts/seed.h"

struct banks {
    const struct policy_view *view;
    struct slot_lists lists;
    uint64_t *last_use;   /* [layers][experts] 0: never, or forgotten */
    uint64_t *block_of;   /* [layers][experts] the last visit that used it */
    uint32_t *block_rank; /* [layers][experts] its place among that visit's misses; UINT32_MAX: it was a hit */
    uint64_t clock;
    uint64_t working, cap;
    bool seed;
};

static berth_status banks_layout(struct arena *tables, const struct policy_view *view, bool seed, void **state,
                                 berth_error *err)
{
    static const char *const keys[] = {"working", "cap",         "autopin",      "repin",     "limit",
                                       "share",   "min-history", "full-history", "min-bytes", NULL};
    static const char *const layer_keys[] = {"working", "cap", NULL};
    uint64_t cells = (uint64_t)view->catalog->layers * view->catalog->experts;
    struct banks *banks = ARENA_NEW(tables, struct banks, 1);
    struct banks parts = {.view = view, .seed = seed};
    /* The documents' 64, as long as every layer still gets as many slots as it selects. */
    uint64_t spare = view->slots_count > (uint64_t)view->catalog->layers * view->catalog->top_k
                         ? view->slots_count - (uint64_t)view->catalog->layers * view->catalog->top_k
                         : 0;
    uint64_t least = view->catalog->top_k;
    parts.working = seed ? (spare < SEED_WORKING_SLOTS ? spare : SEED_WORKING_SLOTS) : 0;
    parts.working = seed && parts.working < least ? least : parts.working;
    TRY(policy_check_options(view->options, seed ? keys : layer_keys, err)); /* pins: residency.c */
    TRY(policy_option(view->options, "working", &parts.working, err));
    TRY(policy_option(view->options, "cap", &parts.cap, err));
    slot_lists_layout(tables, view, &parts.lists);
    parts.last_use = ARENA_NEW(tables, uint64_t, cells);
    parts.block_of = ARENA_NEW(tables, uint64_t, cells);
    parts.block_rank = ARENA_NEW(tables, uint32_t, cells);
    TRY(arena_check(tables, "layer banks", err));
    if (banks != NULL) {
        *banks = parts;
        slot_lists_clear(&banks->lists, view);
        for (uint64_t cell = 0; cell < cells; cell++) {
            banks->last_use[cell] = banks->block_of[cell] = 0;
        }
        *state = banks;
    }
    return BERTH_OK;
}

static berth_status layer_layout(struct arena *tables, const struct policy_view *view, void **state, berth_error *err)
{
    return banks_layout(tables, view, false, state, err);
}

static berth_status seed_layout(struct arena *tables, const struct policy_view *view, void **state, berth_error *err)
{
    return banks_layout(tables, view, true, state, err);
}

static uint64_t cell_of(const struct banks *banks, uint32_t slot)
{
    const struct slot *owned = &banks->view->slots[slot];
    return (uint64_t)owned->layer * banks->view->catalog->experts + owned->expert;
}

static bool is_hit(const struct policy_visit *visit, uint16_t expert)
{
    for (uint32_t i = 0; i < visit->hits; i++) {
        if (visit->experts[i] == expert) {
            return true;
        }
    }
    return false;
}

/* Stamps hits, then misses, in the order of first use. */
static void banks_visit(void *state, const struct policy_visit *visit)
{
    struct banks *banks = state;
    uint64_t row = (uint64_t)visit->layer * banks->view->catalog->experts;
    uint32_t misses = 0;
    for (uint32_t i = 0; i < visit->count; i++) {
        uint64_t cell = row + visit->order[i];
        banks->block_of[cell] = banks->view->visits;
        banks->block_rank[cell] = is_hit(visit, visit->order[i]) ? UINT32_MAX : misses++;
        banks->last_use[cell] = banks->block_rank[cell] == UINT32_MAX ? ++banks->clock : 0;
    }
    for (uint32_t i = 0; i < visit->count; i++) {
        uint64_t cell = row + visit->order[i];
        banks->last_use[cell] = banks->last_use[cell] == 0 ? ++banks->clock : banks->last_use[cell];
    }
}

static void banks_hit(void *state, uint32_t slot)
{
    (void)state;
    (void)slot;
}

static void banks_insert(void *state, uint32_t slot, enum policy_end end)
{
    struct banks *banks = state;
    uint64_t cell = cell_of(banks, slot);
    slot_lists_add(&banks->lists, banks->view->slots[slot].layer, slot);
    bool visited = banks->block_of[cell] == banks->view->visits && banks->view->visits > 0;
    if (end == POLICY_COLD && !visited) { /* a pin that was given up */
        banks->last_use[cell] = 0;
    } else if (!visited) { /* preloaded */
        banks->last_use[cell] = ++banks->clock;
    }
}

static void banks_remove(void *state, uint32_t slot)
{
    struct banks *banks = state;
    slot_lists_drop(&banks->lists, banks->view->slots[slot].layer, slot);
}

/* The oldest slot of the layer that the running or last visit did not use; ties: the lowest slot. */
static uint32_t oldest(const struct banks *banks, uint32_t layer)
{
    uint32_t best = SLOT_NONE;
    for (uint32_t slot = banks->lists.first[layer]; slot != SLOT_NONE; slot = banks->lists.next[slot]) {
        uint64_t cell = cell_of(banks, slot);
        if (banks->view->slots[slot].held ||
            (banks->block_of[cell] == banks->view->visits && banks->view->visits > 0)) {
            continue;
        }
        uint64_t use = banks->last_use[cell];
        if (best == SLOT_NONE || use < banks->last_use[cell_of(banks, best)] ||
            (use == banks->last_use[cell_of(banks, best)] && slot < best)) {
            best = slot;
        }
    }
    return best;
}

static uint32_t banks_victim(void *state, uint32_t layer)
{
    const struct banks *banks = state;
    uint32_t slot = oldest(banks, layer);
    /* Only where layers share too few slots for a share each: somebody else's. */
    for (uint32_t other = 0; slot == SLOT_NONE && other < banks->view->catalog->layers; other++) {
        bool may = banks->view->layer_pool[other] == banks->view->layer_pool[layer] && banks->view->floor == 0;
        slot = may ? oldest(banks, other) : SLOT_NONE;
    }
    return slot;
}

static uint32_t bank_slots(const struct banks *banks, uint32_t layer)
{
    const struct policy_view *view = banks->view;
    uint32_t pool = view->layer_pool[layer];
    uint64_t layers = 1; /* this one */
    for (uint32_t other = 0; other < view->catalog->layers; other++) {
        layers += other != layer && view->layer_pool[other] == pool ? 1 : 0;
    }
    uint64_t taken = view->pool_pinned[pool] + banks->working;
    uint64_t share = view->pool_count[pool] > taken ? (view->pool_count[pool] - taken) / layers : 0;
    share = share == 0 ? 1 : share;
    return (uint32_t)(banks->cap > 0 && share > banks->cap ? banks->cap : share);
}

static uint32_t banks_settle(void *state, uint32_t layer)
{
    const struct banks *banks = state;
    if (banks->view->layer_slots[layer] <= bank_slots(banks, layer)) {
        return SLOT_NONE;
    }
    uint32_t drop = oldest(banks, layer);
    for (uint32_t slot = banks->lists.first[layer]; drop == SLOT_NONE && slot != SLOT_NONE;
         slot = banks->lists.next[slot]) {
        uint32_t first = slot; /* all were used: the first miss goes */
        for (uint32_t other = slot; other != SLOT_NONE; other = banks->lists.next[other]) {
            first = banks->block_rank[cell_of(banks, other)] < banks->block_rank[cell_of(banks, first)] ? other : first;
        }
        drop = first;
    }
    return drop;
}

static uint64_t banks_working(const void *state)
{
    const struct banks *banks = state;
    return banks->working;
}

const struct policy_row policy_layer_lru = {.name = "layer-lru",
                                            .layout = layer_layout,
                                            .visit = banks_visit,
                                            .hit = banks_hit,
                                            .insert = banks_insert,
                                            .remove = banks_remove,
                                            .victim = banks_victim,
                                            .settle = banks_settle,
                                            .working = banks_working};

const struct policy_row policy_seed = {.name = "seed",
                                       .layout = seed_layout,
                                       .visit = banks_visit,
                                       .hit = banks_hit,
                                       .insert = banks_insert,
                                       .remove = banks_remove,
                                       .victim = banks_victim,
                                       .settle = banks_settle,
                                       .working = banks_working};
