/* SPDX-License-Identifier: MIT
 * What the counts are for: ranking, AUTOPIN, and the live re-pin at the end of a turn. */
#include <math.h>
#include <string.h>

#include "experts/usage_parts.h"

/* ---- ranking ---------------------------------------------------------------------------------------- */

/* True when a comes before b. No two are equal: (layer, expert) differs. */
static bool ranks_before(const struct usage_count *a, const struct usage_count *b)
{
    if (a->count != b->count) {
        return a->count > b->count;
    }
    return a->layer != b->layer ? a->layer < b->layer : a->expert < b->expert;
}

/* Restores the heap whose root `at` may come too early; the item that ranks last is on top. */
static void sift_down(struct usage_count *items, uint64_t at, uint64_t count)
{
    struct usage_count moved = items[at];
    for (uint64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && ranks_before(&items[child], &items[child + 1]) ? 1 : 0;
        if (!ranks_before(&moved, &items[child])) {
            break;
        }
        items[at] = items[child];
        at = child;
    }
    items[at] = moved;
}

uint64_t usage_ranked(const struct usage *usage, struct usage_count *out, uint64_t cap)
{
    uint64_t kept = 0;
    uint64_t found = 0;
    for (uint64_t cell = 0; cell < usage->cells; cell++) {
        if (usage->counts[cell] == 0) {
            continue;
        }
        struct usage_count one = {usage->layers[cell / usage->experts], (uint32_t)(cell % usage->experts),
                                  usage->counts[cell]};
        found++;
        if (kept < cap) {
            out[kept++] = one;
            for (uint64_t root = kept == cap ? cap / 2 : 0; root > 0; root--) {
                sift_down(out, root - 1, kept); /* full: from now on the worst is on top */
            }
        } else if (cap > 0 && ranks_before(&one, &out[0])) {
            out[0] = one;
            sift_down(out, 0, kept);
        }
    }
    for (uint64_t root = kept / 2; root > 0; root--) {
        sift_down(out, root - 1, kept);
    }
    for (uint64_t end = kept; end > 1; end--) {
        struct usage_count last = out[0];
        out[0] = out[end - 1];
        out[end - 1] = last;
        sift_down(out, 0, end - 1);
    }
    return found;
}

/* ---- LFRU ------------------------------------------------------------------------------------------- */

uint64_t usage_lfru_score(uint32_t heat, uint32_t last, uint32_t clock)
{
    uint32_t age = clock - last; /* wraps with the clock */
    return (uint64_t)heat * 256 + (age < 255 ? 255 - age : 0);
}

static uint64_t score_of(const struct usage *usage, uint32_t index, uint64_t expert)
{
    uint64_t cell = (uint64_t)index * usage->experts + expert;
    return usage_lfru_score(usage->heat[cell], usage->last[cell], usage->clock);
}

static bool is_pinned(const int64_t *pinned, uint32_t count, uint32_t expert)
{
    for (uint32_t i = 0; i < count; i++) {
        if (pinned[i] == (int64_t)expert) {
            return true;
        }
    }
    return false;
}

berth_status usage_lfru_candidate(const struct usage *usage, int64_t layer, const int64_t *pinned, uint32_t count,
                                  struct usage_candidate *out, bool *found, berth_error *err)
{
    *found = false;
    if (count == 0) {
        return BERTH_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct usage_entry entry;
        TRY(usage_entry(usage, layer, pinned[i], &entry, err));
    }
    uint32_t index = usage_find_layer(usage, layer);
    struct usage_candidate best = {.layer = layer, .cold_score = score_of(usage, index, (uint64_t)pinned[0])};
    for (uint32_t slot = 1; slot < count; slot++) {
        uint64_t score = score_of(usage, index, (uint64_t)pinned[slot]);
        if (score < best.cold_score) {
            best.cold_slot = slot;
            best.cold_score = score;
        }
    }
    bool hot = false;
    for (uint32_t expert = 0; expert < usage->experts; expert++) {
        uint64_t score = score_of(usage, index, expert);
        if ((!hot || score > best.hot_score) && !is_pinned(pinned, count, expert)) {
            hot = true;
            best.hot_expert = expert;
            best.hot_score = score;
        }
    }
    if (hot && best.hot_score > usage_lfru_threshold(best.cold_score)) {
        best.cold_expert = (uint32_t)pinned[best.cold_slot];
        best.gain = (best.hot_score - best.cold_score) / 256;
        *out = best;
        *found = true;
    }
    return BERTH_OK;
}

static bool candidate_before(const struct usage_candidate *a, const struct usage_candidate *b)
{
    if (a->gain != b->gain) {
        return a->gain > b->gain;
    }
    return a->layer != b->layer ? a->layer < b->layer : a->hot_expert < b->hot_expert;
}

berth_status usage_select_candidates(struct usage_candidate *candidates, uint32_t *count, int64_t limit,
                                     berth_error *err)
{
    if (limit <= 0 || limit > 9007199254740991) {
        return error_set(err, BERTH_ERR_ARGUMENT, "live-repin limit must be a positive safe integer");
    }
    for (uint32_t i = 1; i < *count; i++) { /* at most one a layer: short, and usually few exceed the threshold */
        struct usage_candidate moved = candidates[i];
        uint32_t at = i;
        for (; at > 0 && candidate_before(&moved, &candidates[at - 1]); at--) {
            candidates[at] = candidates[at - 1];
        }
        candidates[at] = moved;
    }
    *count = *count > limit ? (uint32_t)limit : *count;
    return BERTH_OK;
}

berth_status usage_turn_end(struct usage *usage, struct usage_turn *turn, berth_error *err)
{
    turn->candidates = turn->applied = 0;
    for (uint32_t i = 0; i < turn->pins_count; i++) {
        const struct usage_pins *pins = &turn->pins[i];
        bool found = false;
        TRY(usage_lfru_candidate(usage, pins->layer, pins->experts, pins->count, &turn->work[turn->candidates], &found,
                                 err));
        turn->candidates += found ? 1 : 0;
    }
    uint32_t chosen = turn->candidates;
    TRY(usage_select_candidates(turn->work, &chosen, turn->limit, err));
    for (uint32_t i = 0; i < chosen; i++) {
        const struct usage_candidate *swap = &turn->work[i];
        if (turn->swap != NULL) {
            TRY(turn->swap(turn->user, swap, err));
        }
        for (uint32_t p = 0; p < turn->pins_count; p++) {
            if (turn->pins[p].layer == swap->layer) {
                turn->pins[p].experts[swap->cold_slot] = (int64_t)swap->hot_expert;
            }
        }
        turn->applied++;
    }
    usage_decay_heat(usage);
    return turn->no_save ? BERTH_OK : usage_flush(usage, err);
}

/* ---- AUTOPIN ---------------------------------------------------------------------------------------- */

static bool is_safe(int64_t value, int64_t least)
{
    return value >= least && value <= 9007199254740991;
}

static berth_status check_autopin(const struct autopin_config *config, berth_error *err)
{
    if (!is_safe(config->min_history, 1)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "auto-pin minHistorySelections must be a positive safe integer");
    }
    if (!is_safe(config->full_history, 1)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "auto-pin fullConfidenceSelections must be a positive safe integer");
    }
    if (!(config->share > 0.0 && config->share <= 1.0)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "auto-pin pinShare must be in (0, 1]");
    }
    if (!is_safe(config->min_pin_bytes, 0)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "auto-pin minPinBudgetBytes must be non-negative");
    }
    if (!is_safe(config->resident_bytes, 0) || !is_safe(config->mandatory_bytes, 0)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "auto-pin resident budgets must be non-negative safe integers");
    }
    return BERTH_OK;
}

berth_status usage_autopin(const struct usage *usage, const struct autopin_config *config, struct usage_count *pins,
                           uint64_t cap, struct autopin_plan *out, berth_error *err)
{
    TRY(check_autopin(config, err));
    struct usage_snapshot snapshot;
    usage_get_snapshot(usage, &snapshot);
    struct autopin_plan plan = {.history = snapshot.total_count};
    double ratio = (double)plan.history / (double)config->full_history;
    plan.confidence = ratio < 1.0 ? ratio : 1.0;
    /* Two products in this order, in double, then floor: part of the definition. */
    plan.requested_bytes = (uint64_t)floor((double)config->resident_bytes * config->share * plan.confidence);
    int64_t spare = config->resident_bytes - config->mandatory_bytes;
    uint64_t free_bytes = spare > 0 ? (uint64_t)spare : 0;
    plan.usable_bytes = plan.requested_bytes < free_bytes ? plan.requested_bytes : free_bytes;
    if (plan.history >= (uint64_t)config->min_history && plan.requested_bytes >= (uint64_t)config->min_pin_bytes) {
        if (cap < snapshot.nonzero_counts) {
            return error_set(err, BERTH_ERR_LIMIT, "auto-pin needs room for %llu pins, got %llu",
                             (unsigned long long)snapshot.nonzero_counts, (unsigned long long)cap);
        }
        uint64_t ranked = usage_ranked(usage, pins, cap);
        for (uint64_t i = 0; i < ranked; i++) {
            int64_t bytes = config->slot_bytes(config->user, pins[i].layer);
            if (!is_safe(bytes, 1)) {
                return error_set(err, BERTH_ERR_ARGUMENT,
                                 "auto-pin slotBytes for layer %lld must be a positive safe integer",
                                 (long long)pins[i].layer);
            }
            if (plan.planned_bytes + (uint64_t)bytes <= plan.usable_bytes) {
                pins[plan.pins++] = pins[i];
                plan.planned_bytes += (uint64_t)bytes;
            }
        }
    }
    *out = plan;
    return BERTH_OK;
}
