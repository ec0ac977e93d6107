/* SPDX-License-Identifier: MIT
 *
 * The bound, for replays: evict what is needed again last. "belady" keeps every expert that was read, as a cache
 * without a choice does; "belady-bypass" may give an expert back right after its visit, and keeps `working` slots for
 * that. */
#include "experts/policy.h"

struct belady {
    const struct policy_view *view;
    uint64_t *next_use; /* [layers][experts] */
    uint64_t working;
};

static berth_status layout(struct arena *tables, const struct policy_view *view, bool bypass, void **state,
                           berth_error *err)
{
    static const char *const keys[] = {"working", NULL};
    struct belady *belady = ARENA_NEW(tables, struct belady, 1);
    struct belady parts = {.view = view, .working = bypass ? view->catalog->top_k : 0};
    TRY(policy_check_options(view->options, bypass ? keys : keys + 1, err));
    TRY(policy_option(view->options, "working", &parts.working, err));
    parts.next_use = ARENA_NEW(tables, uint64_t, (uint64_t)view->catalog->layers * view->catalog->experts);
    TRY(arena_check(tables, "belady policy", err));
    if (belady != NULL) {
        *belady = parts;
        for (uint64_t cell = 0; cell < (uint64_t)view->catalog->layers * view->catalog->experts; cell++) {
            belady->next_use[cell] = UINT64_MAX;
        }
        *state = belady;
    }
    return BERTH_OK;
}

static berth_status belady_layout(struct arena *tables, const struct policy_view *view, void **state, berth_error *err)
{
    return layout(tables, view, false, state, err);
}

static berth_status bypass_layout(struct arena *tables, const struct policy_view *view, void **state, berth_error *err)
{
    return layout(tables, view, true, state, err);
}

static void belady_visit(void *state, const struct policy_visit *visit)
{
    struct belady *belady = state;
    const struct policy_future *future = belady->view->future;
    uint64_t now = belady->view->visits - 1;
    for (uint64_t i = now < future->visits ? future->first[now] : 0; now < future->visits && i < future->first[now + 1];
         i++) {
        belady->next_use[(uint64_t)visit->layer * belady->view->catalog->experts + future->experts[i]] =
            future->next_use[i];
    }
}

static void ignore_slot(void *state, uint32_t slot)
{
    (void)state;
    (void)slot;
}

static void ignore_insert(void *state, uint32_t slot, enum policy_end end)
{
    (void)state;
    (void)slot;
    (void)end;
}

/* The slot of the pool whose expert is needed last; `any`: whatever floors say. *used: owned slots of the pool. */
static uint32_t needed_last(const struct belady *belady, uint32_t layer, bool any, uint32_t *used)
{
    const struct policy_view *view = belady->view;
    uint32_t pool = view->layer_pool[layer];
    uint32_t best = SLOT_NONE;
    uint64_t best_use = 0;
    *used = 0;
    for (uint32_t slot = view->pool_first[pool]; slot < view->pool_first[pool] + view->pool_count[pool]; slot++) {
        const struct slot *owned = &view->slots[slot];
        if (owned->layer == SLOT_NONE || owned->pinned) {
            continue;
        }
        ++*used;
        if (owned->held || (!any && !policy_may_take(view, owned->layer, layer))) {
            continue;
        }
        uint64_t use = belady->next_use[(uint64_t)owned->layer * view->catalog->experts + owned->expert];
        if (best == SLOT_NONE || use > best_use) {
            best = slot;
            best_use = use;
        }
    }
    return best;
}

static uint32_t belady_victim(void *state, uint32_t layer)
{
    uint32_t used;
    return needed_last(state, layer, false, &used);
}

static uint32_t bypass_settle(void *state, uint32_t layer)
{
    const struct belady *belady = state;
    uint32_t pool = belady->view->layer_pool[layer];
    uint32_t used;
    uint32_t slot = needed_last(belady, layer, true, &used);
    return used + belady->view->pool_pinned[pool] + belady->working > belady->view->pool_count[pool] ? slot : SLOT_NONE;
}

const struct policy_row policy_belady = {.name = "belady",
                                         .layout = belady_layout,
                                         .visit = belady_visit,
                                         .hit = ignore_slot,
                                         .insert = ignore_insert,
                                         .remove = ignore_slot,
                                         .victim = belady_victim,
                                         .replay_only = true};

const struct policy_row policy_belady_bypass = {.name = "belady-bypass",
                                                .layout = bypass_layout,
                                                .visit = belady_visit,
                                                .hit = ignore_slot,
                                                .insert = ignore_insert,
                                                .remove = ignore_slot,
                                                .victim = belady_victim,
                                                .settle = bypass_settle,
                                                .replay_only = true};
