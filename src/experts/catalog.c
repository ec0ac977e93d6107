/* SPDX-License-Identifier: MIT
 *
 * Where every routed expert lies and how it is laid out in a slot. Limits below keep every sum of this file under 2^59
 * (layers x experts x largest slot), so only the arena's arithmetic needs checks. */
#include "experts/catalog.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"

enum { PAGE = 4096 };

/* The largest page-aligned span that covers `bytes` wherever they start. */
static uint64_t span_max_bytes(uint32_t bytes)
{
    return bytes == 0 ? 0 : ((uint64_t)bytes + (PAGE - 1) + (PAGE - 1)) & ~(uint64_t)(PAGE - 1);
}

berth_status catalog_layout(struct arena *arena, uint32_t layers, uint32_t experts, uint32_t top_k, struct catalog *out,
                            berth_error *err)
{
    return catalog_layout_parts(arena, layers, experts, top_k, EXPERT_PARTS, out, err);
}

berth_status catalog_layout_parts(struct arena *arena, uint32_t layers, uint32_t experts, uint32_t top_k,
                                  uint32_t parts, struct catalog *out, berth_error *err)
{
    assert(parts == EXPERT_PARTS || parts == EXPERT_PARTS_MAX);
    if (layers == 0 || layers > CATALOG_LAYERS_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "expert catalog: %u layers with experts, wanted 1..%u", layers,
                         (unsigned)CATALOG_LAYERS_MAX);
    }
    if (experts == 0 || experts > EXPERTS_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "expert catalog: %u experts a layer, wanted 1..%u", experts,
                         (unsigned)EXPERTS_MAX);
    }
    if (top_k == 0 || top_k > experts) {
        return error_set(err, BERTH_ERR_FORMAT, "expert catalog: %u experts selected per token, wanted 1..%u", top_k,
                         experts);
    }
    *out = (struct catalog){.layers = layers, .experts = experts, .top_k = top_k, .parts = parts};
    out->slices = ARENA_NEW(arena, struct expert_slice, (uint64_t)layers * experts * parts);
    out->layer_class = ARENA_NEW(arena, uint8_t, layers);
    return arena_check(arena, "expert catalog", err);
}

/* Checks that the layer's experts are alike; leaves their part sizes in part_bytes. */
static berth_status check_layer(const struct catalog *catalog, uint32_t layer, uint32_t part_bytes[EXPERT_PARTS_MAX],
                                berth_error *err)
{
    uint64_t total = 0;
    for (uint32_t part = 0; part < catalog->parts; part++) {
        part_bytes[part] = catalog_slice(catalog, layer, 0, part)->bytes;
        total += part_bytes[part];
    }
    if (total == 0) {
        berth_status status = error_set(err, BERTH_ERR_FORMAT, "the experts of this layer have no bytes");
        error_at_expert(err, (int32_t)layer, 0);
        return status;
    }
    for (uint32_t expert = 0; expert < catalog->experts; expert++) {
        for (uint32_t part = 0; part < catalog->parts; part++) {
            const struct expert_slice *slice = catalog_slice(catalog, layer, expert, part);
            uint64_t end;
            berth_status status = BERTH_OK;
            if (slice->bytes != part_bytes[part]) {
                status = error_set(err, BERTH_ERR_UNSUPPORTED,
                                   "experts of one layer differ in size: part %u has %u bytes, expert 0 has %u", part,
                                   slice->bytes, part_bytes[part]);
            } else if (u64_add_overflows(slice->offset, (uint64_t)slice->bytes + PAGE, &end) ||
                       end > (uint64_t)INT64_MAX) {
                status = error_set(err, BERTH_ERR_FORMAT, "expert part %u ends past the largest file offset", part);
            }
            if (status != BERTH_OK) {
                error_at_offset(err, slice->offset);
                error_at_expert(err, (int32_t)layer, (int32_t)expert);
                return status;
            }
        }
    }
    return BERTH_OK;
}

static void class_fill(struct slot_class *class, const uint32_t part_bytes[EXPERT_PARTS_MAX])
{
    *class = (struct slot_class){0};
    for (uint32_t part = 0; part < EXPERT_PARTS_MAX; part++) {
        class->part_bytes[part] = part_bytes[part];
        class->part_offset[part] = class->slot_bytes;
        class->slot_bytes += span_max_bytes(part_bytes[part]);
    }
}

berth_status catalog_seal(struct catalog *catalog, berth_error *err)
{
    catalog->classes_count = 0;
    for (uint32_t layer = 0; layer < catalog->layers; layer++) {
        uint32_t part_bytes[EXPERT_PARTS_MAX] = {0};
        TRY(check_layer(catalog, layer, part_bytes, err));
        uint32_t c = 0;
        while (c < catalog->classes_count &&
               memcmp(catalog->classes[c].part_bytes, part_bytes, sizeof part_bytes) != 0) {
            c++;
        }
        if (c == SLOT_CLASSES_MAX) {
            berth_status status =
                error_set(err, BERTH_ERR_LIMIT, "layers have more than %u different expert sizes", SLOT_CLASSES_MAX);
            error_at_expert(err, (int32_t)layer, -1);
            return status;
        }
        if (c == catalog->classes_count) {
            class_fill(&catalog->classes[c], part_bytes);
            catalog->classes_count++;
        }
        catalog->layer_class[layer] = (uint8_t)c;
        catalog->classes[c].layers++;
        catalog->classes[c].experts += catalog->experts;
    }
    return BERTH_OK;
}

void catalog_place(const struct catalog *catalog, uint32_t layer, uint32_t expert, struct expert_place *out)
{
    uint32_t order[EXPERT_PARTS_MAX];
    uint32_t parts = 0;
    for (uint32_t part = 0; part < catalog->parts; part++) {
        const struct expert_slice *slice = catalog_slice(catalog, layer, expert, part);
        out->part_offset[part] = 0;
        if (slice->bytes == 0) {
            continue;
        }
        uint32_t at = parts++;
        for (; at > 0; at--) {
            const struct expert_slice *before = catalog_slice(catalog, layer, expert, order[at - 1]);
            if (before->file < slice->file || (before->file == slice->file && before->offset <= slice->offset)) {
                break;
            }
            order[at] = order[at - 1];
        }
        order[at] = part;
    }
    uint64_t used = 0; /* slot bytes taken by finished spans */
    out->spans_count = 0;
    struct expert_span *span = NULL;
    for (uint32_t i = 0; i < parts; i++) {
        const struct expert_slice *slice = catalog_slice(catalog, layer, expert, order[i]);
        uint64_t start = slice->offset & ~(uint64_t)(PAGE - 1);
        uint64_t end = (slice->offset + slice->bytes + (PAGE - 1)) & ~(uint64_t)(PAGE - 1);
        if (span == NULL || span->file != slice->file || start > span->offset + span->bytes) {
            used += span == NULL ? 0 : span->bytes;
            span = &out->spans[out->spans_count++];
            *span = (struct expert_span){.offset = start, .slot_offset = used, .file = slice->file};
        }
        if (end - span->offset > span->bytes) {
            span->bytes = end - span->offset;
        }
        out->part_offset[order[i]] = span->slot_offset + (slice->offset - span->offset);
    }
    assert(span == NULL || used + span->bytes <= catalog->classes[catalog->layer_class[layer]].slot_bytes);
}

static uint32_t largest_class(const struct catalog *catalog)
{
    uint32_t largest = 0;
    for (uint32_t c = 1; c < catalog->classes_count; c++) {
        if (catalog->classes[c].slot_bytes > catalog->classes[largest].slot_bytes) {
            largest = c;
        }
    }
    return largest;
}

uint64_t catalog_cycle_bytes(const struct catalog *catalog)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        bytes += (uint64_t)catalog->classes[c].layers * catalog->top_k * catalog->classes[c].slot_bytes;
    }
    return bytes;
}

uint64_t catalog_hard_floor_bytes(const struct catalog *catalog)
{
    return catalog->top_k * catalog->classes[largest_class(catalog)].slot_bytes;
}

uint64_t catalog_all_bytes(const struct catalog *catalog)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        bytes += catalog->classes[c].experts * catalog->classes[c].slot_bytes;
    }
    return bytes;
}

uint64_t slot_class_stored_bytes(const struct slot_class *class)
{
    uint64_t bytes = 0;
    for (uint32_t part = 0; part < EXPERT_PARTS_MAX; part++) {
        bytes += class->part_bytes[part];
    }
    return bytes;
}

uint64_t catalog_token_bytes(const struct catalog *catalog)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        bytes += (uint64_t)catalog->classes[c].layers * catalog->top_k * slot_class_stored_bytes(&catalog->classes[c]);
    }
    return bytes;
}

uint64_t catalog_stored_bytes(const struct catalog *catalog)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        bytes += catalog->classes[c].experts * slot_class_stored_bytes(&catalog->classes[c]);
    }
    return bytes;
}

/* Slots of a class after `step` of layers x experts steps; equal shares for every layer, rounded down. */
static uint64_t class_share(const struct catalog *catalog, uint32_t c, uint64_t step)
{
    return catalog->classes[c].layers * step / catalog->layers;
}

static uint64_t step_bytes(const struct catalog *catalog, uint64_t step)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        bytes += class_share(catalog, c, step) * catalog->classes[c].slot_bytes;
    }
    return bytes;
}

/* From one cycle up: the largest step that fits, then the next step's additions in class order while they fit. More
 * bytes only ever lengthen this one sequence, so no count shrinks when the budget grows. */
static void slots_in_proportion(const struct catalog *catalog, uint64_t bytes, struct slot_counts *out)
{
    uint64_t low = (uint64_t)catalog->layers * catalog->top_k; /* one cycle fits */
    uint64_t high = (uint64_t)catalog->layers * catalog->experts;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (step_bytes(catalog, middle) <= bytes) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    bool more = true;
    out->bytes = step_bytes(catalog, low);
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        uint64_t count = class_share(catalog, c, low);
        if (more && low < (uint64_t)catalog->layers * catalog->experts && class_share(catalog, c, low + 1) > count) {
            more = out->bytes + catalog->classes[c].slot_bytes <= bytes;
            count += more ? 1 : 0;
            out->bytes += more ? catalog->classes[c].slot_bytes : 0;
        }
        out->count[c] = (uint32_t)count;
        out->total += count;
    }
}

berth_status catalog_slots(const struct catalog *catalog, uint64_t bytes, struct slot_counts *out, berth_error *err)
{
    uint64_t hard_floor = catalog_hard_floor_bytes(catalog);
    if (bytes < hard_floor) {
        return error_set(err, BERTH_ERR_BUDGET,
                         "the expert cache gets %llu bytes but one layer's %u experts need %llu; raise the budget or "
                         "lower the context",
                         (unsigned long long)bytes, catalog->top_k, (unsigned long long)hard_floor);
    }
    *out = (struct slot_counts){0};
    if (bytes >= catalog_cycle_bytes(catalog)) {
        slots_in_proportion(catalog, bytes, out);
        return BERTH_OK;
    }
    uint32_t c = largest_class(catalog);
    out->shared = true;
    out->total = bytes / catalog->classes[c].slot_bytes;
    out->count[c] = (uint32_t)out->total;
    out->bytes = out->total * catalog->classes[c].slot_bytes;
    return BERTH_OK;
}
