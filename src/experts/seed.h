/* SPDX-License-Identifier: MIT
 * Small pure functions of the documents: the residency plan of fixed banks, the union of a batch's experts, and
 * latency percentiles. */
#ifndef EXPERTS_SEED_H
#define EXPERTS_SEED_H

#include "base/error.h"

enum { SEED_WORKING_SLOTS = 64, SEED_WAVE_EXPERTS = 64, SEED_REPIN_LIMIT = 4 };

/* Banks of equal slots: working ones where misses land, pinned ones, and at least one resident slot a layer. */
struct seed_banks {
    uint64_t budget_bytes, fixed_bytes, slot_bytes;
    uint64_t layers, working, pinned;
    uint64_t cap; /* most resident slots a layer; 0: no cap */
};
struct seed_bank_plan {
    uint64_t slots_per_layer, resident_slots, total_slots, slab_bytes, planned_bytes;
};
/* BERTH_ERR_BUDGET: not even one slot a layer. */
berth_status seed_plan_banks(const struct seed_banks *banks, struct seed_bank_plan *out, berth_error *err);

/* The unique experts of a batch in order of first appearance (row by row, then rank), each with its consumers. */
struct seed_consumer {
    uint32_t row, rank;
};
struct seed_union_expert {
    uint32_t expert;
    uint32_t wave;  /* of at most `per_wave` experts */
    uint32_t first; /* consumers[first .. first + count) */
    uint32_t count;
};
struct seed_union {
    const uint32_t *const *ids; /* [rows][counts[row]] */
    const uint32_t *counts;
    uint32_t rows, per_wave;
    struct seed_union_expert *experts; /* [selections] at most */
    struct seed_consumer *consumers;   /* [selections] */
    uint32_t experts_count;            /* out */
};
void seed_unite(struct seed_union *batch);

struct seed_latency {
    uint64_t count;
    double total, p50, p95, p99, max;
};
/* Nearest rank; sorts values[]. */
void seed_latencies(double *values, uint64_t count, struct seed_latency *out);

#endif
