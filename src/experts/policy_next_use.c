/* SPDX-License-Identifier: MIT
 *
 * "next-use": evict the expert whose next use is expected last. An expert that its layer's next visit selects with
 * probability p is expected (1-p)/p tokens after the layer comes round again, and the layer comes round after its
 * distance in the cycle of layers.
 *
 * p is learned while the model runs. What is known of an expert is put into one cell of a small table, by the visits
 * since its last use and by its share of visits (recent ones decayed, and the ledger's as if it were a few more); the
 * cell counts how often experts in this state were selected by the next visit. The table starts with what the routing
 * of two models has in common, so that it is useful at once; all experts of all layers teach it, so that it soon fits
 * whatever mix of recency and popularity this model has. */
#include "base/bytes.h"
#include "base/halve.h"
#include "experts/policy_scored.h"

enum {
    AGES = 512, /* visits; longer ago is all the same */
    AGE_ROWS = 12,
    SHARE_COLUMNS = 24, /* half octaves of the share, 2^-10 and less to 1 */
    CELLS = AGE_ROWS * SHARE_COLUMNS,
    TRIALS_MAX = 1 << 20
};

/* Probability in per mille that an expert in a cell was selected by its layer's next visit: OLMoE-1B-7B and
 * Qwen3-30B-A3B together, second halves of their traces with the first halves as the ledger. Rows: ages 0 (never
 * occurs), 1, 2, 3, 4-6, 7-9, -13, -19, -28, -42, longer, never. */
static const uint16_t first_guess[AGE_ROWS][SHARE_COLUMNS] = {
    {1, 1, 1, 2, 2, 3, 5, 7, 9, 13, 19, 26, 37, 53, 74, 105, 149, 210, 297, 420, 595, 841, 1000, 1000},
    {101, 101, 102, 102, 103, 105, 107, 109, 113, 118, 126, 137,
     172, 233, 248, 251, 273, 314, 426, 598, 751, 873, 950, 950},
    {1, 1, 1, 1, 2, 3, 4, 6, 8, 12, 17, 24, 42, 53, 94, 108, 135, 164, 249, 355, 496, 642, 900, 900},
    {1, 1, 1, 1, 2, 3, 4, 6, 8, 12, 17, 19, 47, 69, 102, 118, 143, 176, 179, 288, 382, 596, 900, 900},
    {1, 1, 1, 1, 2, 3, 4, 6, 8, 12, 17, 17, 59, 56, 71, 89, 122, 158, 197, 282, 418, 755, 900, 900},
    {1, 1, 1, 1, 2, 3, 4, 6, 8, 12, 15, 21, 35, 39, 64, 86, 122, 185, 177, 274, 418, 757, 900, 900},
    {1, 1, 1, 1, 2, 3, 4, 6, 8, 12, 15, 15, 41, 48, 76, 93, 99, 108, 149, 214, 479, 757, 900, 900},
    {1, 1, 1, 1, 2, 3, 4, 6, 8, 11, 18, 34, 45, 62, 73, 79, 93, 109, 124, 262, 496, 757, 900, 900},
    {0, 0, 1, 1, 1, 2, 2, 3, 5, 25, 36, 44, 50, 52, 56, 46, 55, 50, 87, 195, 297, 420, 500, 500},
    {0, 0, 1, 1, 1, 2, 2, 18, 19, 27, 32, 39, 42, 41, 36, 25, 28, 87, 113, 210, 297, 420, 500, 500},
    {11, 10, 1, 9, 18, 9, 23, 19, 25, 16, 20, 17, 14, 14, 16, 25, 11, 35, 64, 89, 124, 173, 205, 205},
    {3, 1, 1, 17, 10, 12, 13, 22, 19, 28, 37, 47, 65, 74, 103, 134, 186, 169, 278, 346, 670, 865, 900, 900},
};

struct lesson {
    float trials, uses;
};

/* What is known of an expert: its cell of the table, and its share of visits. */
struct known {
    uint32_t cell;
    float share;
};

struct next_use {
    struct scored scored;
    const struct policy_view *view;
    float *rate;           /* [layers][experts] decayed count of visits that selected it, as of `last` */
    uint32_t *last;        /* [layers][experts] the layer's visit that selected it last; 0: none has */
    struct known *known;   /* [layers][experts] what is known when the layer is visited for the time known_at[layer] */
    uint64_t *known_at;    /* [layers] 0: nothing yet */
    float decay[AGES + 2]; /* decay^age; longer ago and never: 0 */
    uint16_t age_row[AGES + 2]; /* first cell of the table's row for an age; longer ago; never */
    float mix, step;            /* share of recent visits in an expert's share; decay of one visit */
    struct lesson lessons[CELLS];
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
        policy->age_row[age] = (uint16_t)(row * SHARE_COLUMNS);
        policy->decay[age] = (float)power;
        power *= step;
    }
    policy->age_row[AGES] = (AGE_ROWS - 2) * SHARE_COLUMNS;
    policy->age_row[AGES + 1] = (AGE_ROWS - 1) * SHARE_COLUMNS;
    policy->decay[AGES] = policy->decay[AGES + 1] = 0.0f;
    policy->step = (float)step;
    policy->mix = (float)((double)mix / 100.0);
    for (uint32_t i = 0; i < CELLS; i++) { /* the first guess counts like so many trials */
        uint32_t row = i / SHARE_COLUMNS;
        float guess = (float)first_guess[row][i % SHARE_COLUMNS] / 1000.0f;
        policy->lessons[i] = (struct lesson){(float)patience, (float)patience * guess};
    }
}

static berth_status next_use_layout(struct arena *tables, const struct policy_view *view, void **state,
                                    berth_error *err)
{
    static const char *const keys[] = {"half-life", "mix", "patience", NULL};
    uint64_t cells = (uint64_t)view->catalog->layers * view->catalog->experts;
    uint64_t half_life = 16;
    uint64_t mix = 80;
    uint64_t patience = 512;
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
    parts.known = ARENA_NEW(tables, struct known, cells);
    parts.known_at = ARENA_NEW(tables, uint64_t, view->catalog->layers);
    TRY(arena_check(tables, "next-use policy", err));
    if (policy != NULL) {
        *policy = parts;
        fill(policy, half_life, mix, patience);
        scored_clear(&policy->scored);
        for (uint64_t cell = 0; cell < cells; cell++) {
            policy->rate[cell] = 0.0f;
            policy->last[cell] = 0;
        }
        for (uint32_t layer = 0; layer < view->catalog->layers; layer++) {
            policy->known_at[layer] = 0;
        }
        *state = policy;
    }
    return BERTH_OK;
}

/* Works out what is known of a layer's experts when it is visited for the `now`th time: once a visit, for the choice of
 * victims until then and for what that visit teaches. The ledger weighs like the visits that a full history has more
 * than `mix` of it, so that it decides at first and steps back as visits come in. */
static const struct known *know(const struct next_use *policy, uint32_t layer, uint64_t now)
{
    uint32_t experts = policy->view->catalog->experts;
    uint64_t row = (uint64_t)layer * experts;
    struct known *known = policy->known + row;
    if (policy->known_at[layer] == now) {
        return known;
    }
    policy->known_at[layer] = now;
    float seen = 1.0f - policy->decay[now - 1 < AGES ? now - 1 : AGES]; /* part of a full history */
    float whole = policy->mix * seen + 1.0f - policy->mix;
    whole = whole > 1.0f - policy->step ? whole : 1.0f - policy->step;
    float recent = policy->mix * (1.0f - policy->step) / whole;
    float ledger = (1.0f - policy->mix) / whole;
    for (uint32_t expert = 0; expert < experts; expert++) {
        uint64_t last = policy->last[row + expert];
        uint64_t age = now - last < AGES ? now - last : AGES;
        age = last == 0 ? AGES + 1 : age;
        float share = ledger * policy->view->prior[row + expert] +
                      recent * policy->rate[row + expert] * policy->decay[age] + 0x1p-12f;
        /* Exponent and first bit of the mantissa: two columns an octave, from 2^-11. */
        int32_t octave2 = (int32_t)(f32_to_bits(share) >> 22) - 2 * (127 - 11);
        octave2 = octave2 < 0 ? 0 : octave2;
        octave2 = octave2 < SHARE_COLUMNS ? octave2 : SHARE_COLUMNS - 1;
        known[expert] = (struct known){policy->age_row[age] + (uint32_t)octave2, share};
    }
    return known;
}

static void forget_half(struct lesson *lesson)
{
    if (lesson->trials > TRIALS_MAX) {
        lesson->trials *= 0.5f;
        lesson->uses *= 0.5f;
    }
}

/* In a prompt nearly all experts are selected by some token: nothing to learn from. */
static void learn(struct next_use *policy, const struct policy_visit *visit, uint64_t now)
{
    const struct known *known = know(policy, visit->layer, now);
    uint32_t experts = policy->view->catalog->experts;
    for (uint32_t expert = 0; expert < experts;) { /* neighbours are often in one cell: those never used */
        uint32_t cell = known[expert].cell;
        uint32_t first = expert++;
        while (expert < experts && known[expert].cell == cell) {
            expert++;
        }
        struct lesson *lesson = &policy->lessons[cell];
        lesson->trials += (float)(expert - first);
        forget_half(lesson);
    }
    for (uint32_t i = 0; i < visit->count; i++) {
        struct lesson *lesson = &policy->lessons[known[visit->experts[i]].cell];
        lesson->uses += 1.0f;
        forget_half(lesson);
    }
}

static void next_use_visit(void *state, const struct policy_visit *visit)
{
    struct next_use *policy = state;
    uint64_t row = (uint64_t)visit->layer * policy->view->catalog->experts;
    uint64_t now = policy->view->layer_visits[visit->layer];
    if (visit->phase == BERTH_PHASE_DECODE) {
        learn(policy, visit, now);
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
    const struct known *known = know(policy, layer, policy->view->layer_visits[layer] + 1) + expert;
    const struct lesson *lesson = &policy->lessons[known->cell];
    return (double)(lesson->uses / lesson->trials) +
           (double)known->share * 1e-6; /* the share decides between experts of one cell */
}

/* Visits of its layer until an expert is expected, from what keeping it is worth. */
static double next_use_wait(const void *state, double keep)
{
    (void)state;
    double p = keep < 1.0 ? keep : 1.0;
    return (1.0 - p) / p;
}

/* Tokens until the holder's coldest expert is expected again. */
static double next_use_evict(const void *state, uint32_t holder, uint32_t wanting, double wait)
{
    const struct next_use *policy = state;
    uint32_t layers = policy->view->catalog->layers;
    uint32_t away = holder > wanting ? holder - wanting : holder + layers - wanting;
    return (double)away / (double)layers + wait;
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

static const struct scored_order next_use_order = {next_use_keep, next_use_wait, next_use_evict};

static uint32_t next_use_victim(void *state, uint32_t layer)
{
    const struct next_use *policy = state;
    return scored_victim(&policy->scored, policy, &next_use_order, layer);
}

const struct policy_row policy_next_use = {.name = "next-use",
                                           .layout = next_use_layout,
                                           .visit = next_use_visit,
                                           .hit = next_use_hit,
                                           .insert = next_use_insert,
                                           .remove = next_use_remove,
                                           .victim = next_use_victim};
