/* SPDX-License-Identifier: MIT
 *
 * "lfru": the documents' score as an eviction key: heat x 256 plus recency, where age counts visits of the same layer
 * and heat is halved every `halve` visits (0: never). */
#include "experts/policy_scored.h"
#include "experts/usage.h"

struct lfru {
    struct scored scored;
    const struct policy_view *view;
    uint32_t *heat, *last; /* [layers][experts]; last: the layer's visit */
    uint64_t halve;
};

static berth_status lfru_layout(struct arena *tables, const struct policy_view *view, void **state, berth_error *err)
{
    static const char *const keys[] = {"halve", NULL};
    uint64_t cells = (uint64_t)view->catalog->layers * view->catalog->experts;
    struct lfru *lfru = ARENA_NEW(tables, struct lfru, 1);
    struct lfru parts = {.view = view, .halve = 64};
    TRY(policy_check_options(view->options, keys, err));
    TRY(policy_option(view->options, "halve", &parts.halve, err));
    scored_layout(tables, view, &parts.scored);
    parts.heat = ARENA_NEW(tables, uint32_t, cells);
    parts.last = ARENA_NEW(tables, uint32_t, cells);
    TRY(arena_check(tables, "lfru policy", err));
    if (lfru != NULL) {
        *lfru = parts;
        scored_clear(&lfru->scored);
        for (uint64_t cell = 0; cell < cells; cell++) {
            lfru->heat[cell] = lfru->last[cell] = 0;
        }
        *state = lfru;
    }
    return BERTH_OK;
}

static void lfru_visit(void *state, const struct policy_visit *visit)
{
    struct lfru *lfru = state;
    uint64_t row = (uint64_t)visit->layer * lfru->view->catalog->experts;
    uint64_t now = lfru->view->layer_visits[visit->layer];
    for (uint32_t expert = 0; lfru->halve > 0 && now % lfru->halve == 0 && expert < lfru->view->catalog->experts;
         expert++) {
        lfru->heat[row + expert] >>= 1;
    }
    for (uint32_t i = 0; i < visit->count; i++) {
        uint64_t cell = row + visit->experts[i];
        lfru->heat[cell] += lfru->heat[cell] < UINT32_MAX ? 1 : 0;
        lfru->last[cell] = (uint32_t)now;
    }
    lfru->scored.known[visit->layer] = 0;
}

static double lfru_keep(const void *state, uint32_t layer, uint32_t expert)
{
    const struct lfru *lfru = state;
    uint64_t cell = (uint64_t)layer * lfru->view->catalog->experts + expert;
    return (double)usage_lfru_score(lfru->heat[cell], lfru->last[cell], (uint32_t)lfru->view->layer_visits[layer]);
}

static double lfru_worth(const void *state, double keep)
{
    (void)state;
    return -keep;
}

static double lfru_evict(const void *state, uint32_t holder, uint32_t wanting, double worth)
{
    (void)state;
    (void)holder;
    (void)wanting;
    return worth;
}

static void lfru_hit(void *state, uint32_t slot)
{
    const struct lfru *lfru = state;
    lfru->scored.known[lfru->view->slots[slot].layer] = 0;
}

static void lfru_insert(void *state, uint32_t slot, enum policy_end end)
{
    const struct lfru *lfru = state;
    (void)end;
    scored_add(&lfru->scored, slot);
}

static void lfru_remove(void *state, uint32_t slot)
{
    const struct lfru *lfru = state;
    scored_drop(&lfru->scored, slot);
}

static const struct scored_order lfru_order = {lfru_keep, lfru_worth, lfru_evict};

static uint32_t lfru_victim(void *state, uint32_t layer)
{
    const struct lfru *lfru = state;
    return scored_victim(&lfru->scored, lfru, &lfru_order, layer);
}

const struct policy_row policy_lfru = {.name = "lfru",
                                       .layout = lfru_layout,
                                       .visit = lfru_visit,
                                       .hit = lfru_hit,
                                       .insert = lfru_insert,
                                       .remove = lfru_remove,
                                       .victim = lfru_victim};
