/* SPDX-License-Identifier: MIT
 *
 * "next-use": evict the expert whose next use is expected last. An expert that its layer's next visit selects with
 * probability p is expected (1-p)/p tokens after the layer comes round again, and the layer comes round after its
 * distance in the cycle of layers.
 *
 * p is learned while the model runs. What is known of an expert is put into one cell of a small table, by the visits
 * since its last use and by its share of recent visits (decayed, mixed with the ledger's); the cell counts how often
 * experts in this state were selected by the next visit. Until a cell has seen enough, the share itself stands in.
 * All experts of all layers teach the same table, so it is useful after a few tokens, and it fits whatever mix of
 * recency and popularity the model's routing has. */
#include "base/bytes.h"
#include "base/halve.h"
#include "experts/policy_scored.h"

enum {
    AGES = 512, /* visits; longer ago is all the same */
    AGE_ROWS = 12,
    SHARE_COLUMNS = 24, /* half octaves of the share, 2^-10 and less to 1 */
    TRIALS_MAX = 1 << 20
};

struct lesson {
    float trials, uses;
};

struct next_use {
    struct scored scored;
    const struct policy_view *view;
    float *rate;           /* [layers][experts] decayed count of visits that selected it, as of `last` */
    uint32_t *last;        /* [layers][experts] the layer's visit that selected it last; 0: none has */
    float decay[AGES];     /* decay^age */
    uint8_t age_row[AGES]; /* row of the table for an age */
    float share, prior;    /* what turns rate and ledger into a share */
    float patience;        /* trials that the share counts for */
    struct lesson lessons[AGE_ROWS][SHARE_COLUMNS];
};

static void fill(struct next_use *policy, uint64_t half_life, uint64_t mix, uint64_t patience)
{
    double step = half_power(1.0 / (double)half_life);
    double power = 1.0;
    for (uint32_t age = 0; age < AGES; age++) {
        uint32_t row = age < 4 ? age : 4;
        for (uint32_t limit = 6; age >= 4 && age > limit && row < AGE_ROWS - 2; limit += limit / 2) {
            row++;
        }
        policy->age_row[age] = (uint8_t)row;
        policy->decay[age] = (float)power;
        power *= step;
    }
    policy->share = (float)((double)mix / 100.0 * (1.0 - step));
    policy->prior = (float)(1.0 - (double)mix / 100.0);
    policy->patience = (float)patience;
    for (uint32_t i = 0; i < AGE_ROWS * SHARE_COLUMNS; i++) {
        policy->lessons[i / SHARE_COLUMNS][i % SHARE_COLUMNS] = (struct lesson){0.0f, 0.0f};
    }
}

static berth_status next_use_layout(struct arena *tables, const struct policy_view *view, void **state,
                                    berth_error *err)
{
    static const char *const keys[] = {"half-life", "mix", "patience", NULL};
    uint64_t cells = (uint64_t)view->catalog->layers * view->catalog->experts;
    uint64_t half_life = 16;
    uint64_t mix = 80;
    uint64_t patience = 32;
    struct next_use *policy = ARENA_NEW(tables, struct next_use, 1);
    struct next_use parts = {.view = view};
    TRY(policy_check_options(view->options, keys, err));
    TRY(policy_option(view->options, "half-life", &half_life, err));
    TRY(policy_option(view->options, "mix", &mix, err));
    TRY(policy_option(view->options, "patience", &patience, err));
    if (half_life == 0 || mix > 100 || patience == 0) {
        return error_set(err, BERTH_ERR_ARGUMENT,
                         "policy next-use: wanted half-life and patience 1 or more, mix 0..100");
    }
    scored_layout(tables, view, &parts.scored);
    parts.rate = ARENA_NEW(tables, float, cells);
    parts.last = ARENA_NEW(tables, uint32_t, cells);
    TRY(arena_check(tables, "next-use policy", err));
    if (policy != NULL) {
        *policy = parts;
        fill(policy, half_life, mix, patience);
        scored_clear(&policy->scored);
        for (uint64_t cell = 0; cell < cells; cell++) {
            policy->rate[cell] = 0.0f;
            policy->last[cell] = 0;
        }
        *state = policy;
    }
    return BERTH_OK;
}

struct known {
    uint32_t row, column;
    float share;
};

/* What is known of an expert when its layer is visited for the `now`th time. */
static struct known known_of(const struct next_use *policy, uint64_t cell, uint64_t now)
{
    struct known known = {.row = AGE_ROWS - 1, .share = policy->prior * policy->view->prior[cell]};
    if (policy->last[cell] != 0) {
        uint64_t age = now - policy->last[cell];
        known.row = age < AGES ? policy->age_row[age] : AGE_ROWS - 2;
        known.share += age < AGES ? policy->rate[cell] * policy->decay[age] * policy->share : 0.0f;
    }
    known.share += 0x1p-12f;
    /* Exponent and first bit of the mantissa: two columns an octave, from 2^-11. */
    int32_t octave2 = (int32_t)(f32_to_bits(known.share) >> 22) - 2 * (127 - 11);
    known.column = octave2 < 0 ? 0 : (octave2 >= SHARE_COLUMNS ? SHARE_COLUMNS - 1 : (uint32_t)octave2);
    return known;
}

static void count(struct lesson *lesson, float trials, float uses)
{
    lesson->trials += trials;
    lesson->uses += uses;
    if (lesson->trials > TRIALS_MAX) {
        lesson->trials *= 0.5f;
        lesson->uses *= 0.5f;
    }
}

/* In a prompt nearly all experts are selected by some token: nothing to learn from. */
static void learn(struct next_use *policy, const struct policy_visit *visit, uint64_t row, uint64_t now)
{
    for (uint32_t expert = 0; expert < policy->view->catalog->experts; expert++) {
        struct known known = known_of(policy, row + expert, now);
        count(&policy->lessons[known.row][known.column], 1.0f, 0.0f);
    }
    for (uint32_t i = 0; i < visit->count; i++) {
        struct known known = known_of(policy, row + visit->experts[i], now);
        count(&policy->lessons[known.row][known.column], 0.0f, 1.0f);
    }
}

static void next_use_visit(void *state, const struct policy_visit *visit)
{
    struct next_use *policy = state;
    uint64_t row = (uint64_t)visit->layer * policy->view->catalog->experts;
    uint64_t now = policy->view->layer_visits[visit->layer];
    if (visit->phase == BERTH_PHASE_DECODE) {
        learn(policy, visit, row, now);
    }
    for (uint32_t i = 0; i < visit->count; i++) {
        uint64_t cell = row + visit->experts[i];
        uint64_t age = now - policy->last[cell];
        float left = policy->last[cell] != 0 && age < AGES ? policy->rate[cell] * policy->decay[age] : 0.0f;
        policy->rate[cell] = left + 1.0f;
        policy->last[cell] = (uint32_t)now;
    }
    policy->scored.known[visit->layer] = 0;
}

/* Probability that the layer's next visit selects the expert. */
static double next_use_keep(const void *state, uint32_t layer, uint32_t expert)
{
    const struct next_use *policy = state;
    uint64_t cell = (uint64_t)layer * policy->view->catalog->experts + expert;
    struct known known = known_of(policy, cell, policy->view->layer_visits[layer] + 1);
    const struct lesson *lesson = &policy->lessons[known.row][known.column];
    float p = (lesson->uses + policy->patience * known.share) / (lesson->trials + policy->patience);
    return (double)p + (double)known.share * 1e-6; /* the share decides between experts of one cell */
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
    (void)end; /* what a prompt read counts like any expert that was used once */
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
