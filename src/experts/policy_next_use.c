/* SPDX-License-Identifier: MIT
 *
 * "next-use": evict the expert whose next use is expected last. An expert that is selected in a share p of its layer's
 * visits is expected (1-p)/p tokens after the layer comes round again, and the layer comes round after its distance in
 * the cycle of layers. p mixes a decayed rate of visits with what the ledger knows. */
#include "base/halve.h"
#include "experts/policy_scored.h"

enum { AGES = 1024 };

struct next_use {
    struct scored scored;
    const struct policy_view *view;
    float *rate;        /* [layers][experts] decayed count of visits, as of `last` */
    uint32_t *last;     /* [layers][experts] the layer's visit that selected it last */
    float decay[AGES];  /* decay^age; after that 0 */
    float share, prior; /* weights of rate and ledger */
};

static berth_status next_use_layout(struct arena *tables, const struct policy_view *view, void **state,
                                    berth_error *err)
{
    static const char *const keys[] = {"half-life", "mix", NULL};
    uint64_t cells = (uint64_t)view->catalog->layers * view->catalog->experts;
    uint64_t half_life = 8;
    uint64_t mix = 80;
    struct next_use *policy = ARENA_NEW(tables, struct next_use, 1);
    struct next_use parts = {.view = view};
    TRY(policy_check_options(view->options, keys, err));
    TRY(policy_option(view->options, "half-life", &half_life, err));
    TRY(policy_option(view->options, "mix", &mix, err));
    if (half_life == 0 || mix > 100) {
        return error_set(err, BERTH_ERR_ARGUMENT, "policy next-use: wanted half-life 1 or more and mix 0..100");
    }
    scored_layout(tables, view, &parts.scored);
    parts.rate = ARENA_NEW(tables, float, cells);
    parts.last = ARENA_NEW(tables, uint32_t, cells);
    TRY(arena_check(tables, "next-use policy", err));
    if (policy == NULL) {
        return BERTH_OK;
    }
    *policy = parts;
    scored_clear(&policy->scored);
    for (uint64_t cell = 0; cell < cells; cell++) {
        policy->rate[cell] = 0.0f;
        policy->last[cell] = 0;
    }
    double step = half_power(1.0 / (double)half_life);
    double power = 1.0;
    for (uint32_t age = 0; age < AGES; age++) {
        policy->decay[age] = (float)power;
        power *= step;
    }
    policy->share = (float)((double)mix / 100.0 * (1.0 - step));
    policy->prior = (float)(1.0 - (double)mix / 100.0);
    *state = policy;
    return BERTH_OK;
}

static float decayed(const struct next_use *policy, uint32_t layer, uint64_t cell)
{
    uint64_t age = policy->view->layer_visits[layer] - policy->last[cell];
    return age < AGES ? policy->rate[cell] * policy->decay[age] : 0.0f;
}

static void next_use_visit(void *state, const struct policy_visit *visit)
{
    struct next_use *policy = state;
    uint64_t row = (uint64_t)visit->layer * policy->view->catalog->experts;
    for (uint32_t i = 0; i < visit->count; i++) {
        uint64_t cell = row + visit->experts[i];
        policy->rate[cell] = decayed(policy, visit->layer, cell) + 1.0f;
        policy->last[cell] = (uint32_t)policy->view->layer_visits[visit->layer];
    }
    policy->scored.known[visit->layer] = 0;
}

static double next_use_keep(const void *state, uint32_t layer, uint32_t expert)
{
    const struct next_use *policy = state;
    uint64_t cell = (uint64_t)layer * policy->view->catalog->experts + expert;
    return (double)(decayed(policy, layer, cell) * policy->share + policy->prior * policy->view->prior[cell] + 1e-4f);
}

/* Tokens until the holder's coldest expert is expected again. */
static double next_use_evict(const void *state, uint32_t holder, uint32_t wanting, double keep)
{
    const struct next_use *policy = state;
    uint32_t layers = policy->view->catalog->layers;
    uint32_t away = holder > wanting ? holder - wanting : holder + layers - wanting;
    double p = keep < 1.0 ? keep : 1.0;
    return (double)away / (double)layers + (1.0 - p) / p;
}

static void next_use_hit(void *state, uint32_t slot)
{
    const struct next_use *policy = state;
    policy->scored.known[policy->view->slots[slot].layer] = 0;
}

static void next_use_insert(void *state, uint32_t slot, enum policy_end end)
{
    const struct next_use *policy = state;
    (void)end; /* what a prefill read counts like any expert that was used once */
    scored_add(&policy->scored, slot);
}

static void next_use_remove(void *state, uint32_t slot)
{
    const struct next_use *policy = state;
    scored_drop(&policy->scored, slot);
}

static uint32_t next_use_victim(void *state, uint32_t layer)
{
    const struct next_use *policy = state;
    return scored_victim(&policy->scored, policy, next_use_keep, next_use_evict, layer);
}

const struct policy_row policy_next_use = {.name = "next-use",
                                           .layout = next_use_layout,
                                           .visit = next_use_visit,
                                           .hit = next_use_hit,
                                           .insert = next_use_insert,
                                           .remove = next_use_remove,
                                           .victim = next_use_victim};
