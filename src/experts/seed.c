/* SPDX-License-Identifier: MIT */
#include "experts/seed.h"

#include <math.h>

#include "base/checked.h"

static berth_status cannot_start(const struct seed_banks *banks, berth_error *err)
{
    return error_set(err, BERTH_ERR_BUDGET,
                     "expert residency budget cannot start: %llu bytes for %llu working, %llu pinned slots and one for "
                     "each of %llu layers, %llu bytes each",
                     (unsigned long long)banks->budget_bytes, (unsigned long long)banks->working,
                     (unsigned long long)banks->pinned, (unsigned long long)banks->layers,
                     (unsigned long long)banks->slot_bytes);
}

berth_status seed_plan_banks(const struct seed_banks *banks, struct seed_bank_plan *out, berth_error *err)
{
    uint64_t shared_slots;
    uint64_t shared_bytes;
    uint64_t layer_bytes;
    uint64_t least;
    if (banks->slot_bytes == 0 || banks->layers == 0) {
        return error_set(err, BERTH_ERR_ARGUMENT, "expert residency needs layers and a slot size");
    }
    if (u64_add_overflows(banks->working, banks->pinned, &shared_slots) ||
        u64_mul_overflows(shared_slots, banks->slot_bytes, &shared_bytes) ||
        u64_add_overflows(shared_bytes, banks->fixed_bytes, &shared_bytes) ||
        u64_mul_overflows(banks->layers, banks->slot_bytes, &layer_bytes) ||
        u64_add_overflows(shared_bytes, layer_bytes, &least) || least > banks->budget_bytes) {
        return cannot_start(banks, err);
    }
    struct seed_bank_plan plan = {.slots_per_layer = (banks->budget_bytes - shared_bytes) / layer_bytes};
    if (banks->cap > 0 && plan.slots_per_layer > banks->cap) {
        plan.slots_per_layer = banks->cap;
    }
    plan.resident_slots = plan.slots_per_layer * banks->layers;
    plan.total_slots = plan.resident_slots + shared_slots;
    plan.slab_bytes = plan.total_slots * banks->slot_bytes;
    plan.planned_bytes = plan.slab_bytes + banks->fixed_bytes;
    *out = plan;
    return BERTH_OK;
}

static uint32_t find_expert(const struct seed_union *batch, uint32_t expert)
{
    uint32_t at = 0;
    while (at < batch->experts_count && batch->experts[at].expert != expert) {
        at++;
    }
    return at;
}

void seed_unite(struct seed_union *batch)
{
    batch->experts_count = 0;
    for (uint32_t row = 0; row < batch->rows; row++) {
        for (uint32_t rank = 0; rank < batch->counts[row]; rank++) {
            uint32_t at = find_expert(batch, batch->ids[row][rank]);
            if (at == batch->experts_count) {
                batch->experts[batch->experts_count++] =
                    (struct seed_union_expert){.expert = batch->ids[row][rank], .wave = at / batch->per_wave};
            }
            batch->experts[at].count++;
        }
    }
    uint32_t first = 0;
    for (uint32_t at = 0; at < batch->experts_count; at++) {
        batch->experts[at].first = first;
        first += batch->experts[at].count;
        batch->experts[at].count = 0;
    }
    for (uint32_t row = 0; row < batch->rows; row++) {
        for (uint32_t rank = 0; rank < batch->counts[row]; rank++) {
            struct seed_union_expert *expert = &batch->experts[find_expert(batch, batch->ids[row][rank])];
            batch->consumers[expert->first + expert->count++] = (struct seed_consumer){row, rank};
        }
    }
}

static void sift_down(double *values, uint64_t at, uint64_t count)
{
    double moved = values[at];
    for (uint64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && values[child] < values[child + 1] ? 1 : 0;
        if (!(moved < values[child])) {
            break;
        }
        values[at] = values[child];
        at = child;
    }
    values[at] = moved;
}

static double nearest_rank(const double *sorted, uint64_t count, double share)
{
    double rank = ceil(share * (double)count) - 1.0;
    return sorted[rank > 0.0 ? (uint64_t)rank : 0];
}

void seed_latencies(double *values, uint64_t count, struct seed_latency *out)
{
    *out = (struct seed_latency){.count = count};
    if (count == 0) {
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        out->total += values[i];
    }
    for (uint64_t root = count / 2; root > 0; root--) {
        sift_down(values, root - 1, count);
    }
    for (uint64_t end = count; end > 1; end--) {
        double largest = values[0];
        values[0] = values[end - 1];
        values[end - 1] = largest;
        sift_down(values, 0, end - 1);
    }
    out->p50 = nearest_rank(values, count, 0.50);
    out->p95 = nearest_rank(values, count, 0.95);
    out->p99 = nearest_rank(values, count, 0.99);
    out->max = values[count - 1];
}
