/* SPDX-License-Identifier: MIT
 * llama.cpp's compute buffers. What lies on the host when an accelerator has every layer is inputs alone, and exact.
 * The whole graph is packed as its allocator packs it (llama_graph.c), which is an estimate: docs/fit.md has it against
 * the program's own figures. */
#include "base/checked.h"
#include "fit/llama_cpp.h"
#include "fit/llama_graph.h"

static const struct llama_build builds[] = {
    {"current", 2, 2, 0, true, false, "v0.5.0 (2026)"},
    {"2026", 4, 2, 2, false, false, "early 2026: a mask in float32, an indexer's scores in full"},
    {"2025", 4, 1, 0, false, false, "2025: a mask in float32, one copy of the embeddings"},
    {"ik", 4, 1, 0, false, true, "ik_llama.cpp: and windowed layers keep every position"},
    {"ik-2026", 2, 1, 0, false, false, "ik_llama.cpp of 2026: a mask in float16"},
};

const struct llama_build *llama_build_at(uint32_t i)
{
    return i < sizeof builds / sizeof builds[0] ? &builds[i] : NULL;
}

const struct llama_build *llama_build_find(const char *name)
{
    for (size_t i = 0; i < sizeof builds / sizeof builds[0]; i++) {
        if (strcmp(builds[i].name, name) == 0) {
            return &builds[i];
        }
    }
    return NULL;
}

/* Adds a * b * c; false: overflow. */
static bool add_product(uint64_t *sum, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t product;
    return !u64_mul_overflows(a, b, &product) && !u64_mul_overflows(product, c, &product) &&
           !u64_add_overflows(*sum, product, sum);
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A draft's graph has the blocks for further tokens alone: some of them, for they are alike, as a shape of their own.
 */
static bool graph_bytes(const struct shape *shape, const struct llama_request *request,
                        const struct llama_report *report, uint64_t *bytes)
{
    enum { BLOCKS = 8 };
    struct shape_layer blocks[BLOCKS];
    struct shape draft = *shape;
    if (!request->is_draft) {
        return llama_graph_bytes(shape, request, report, bytes);
    }
    draft.layers = blocks;
    draft.count = shape->mtp_count < BLOCKS ? shape->mtp_count : BLOCKS;
    draft.mtp_count = 0;
    for (uint32_t i = 0; i < draft.count; i++) {
        blocks[i] = shape->layers[shape->count + i];
        blocks[i].owner = i;
    }
    return llama_graph_bytes(&draft, request, report, bytes);
}

bool llama_solve(const struct shape *shape, const struct llama_request *request, struct llama_report *out)
{
    struct llama_request own = *request;
    uint64_t cells[LLAMA_PARTS];
    uint64_t inputs = 0;
    uint64_t whole;
    own.build = request->build != NULL ? request->build : &builds[0];
    if (!llama_cache_bytes(shape, &own, out)) {
        return false;
    }
    uint64_t ubatch = request->ubatch_tokens > 0 ? request->ubatch_tokens : 512;
    uint64_t slots = request->slots > 0 ? request->slots : 1;
    uint64_t mask_bytes = request->no_flash_attention ? 4 : own.build->mask_bytes;
    for (int part = 0; part < LLAMA_PARTS; part++) {
        cells[part] = out->part[part].cells / (request->is_unified ? 1 : slots);
    }
    uint64_t masks = most(cells[LLAMA_PART_FULL], cells[LLAMA_PART_LATENT]) + cells[LLAMA_PART_WINDOW] +
                     cells[LLAMA_PART_COMPRESSED];
    bool fits = graph_bytes(shape, &own, out, &whole) && add_product(&inputs, masks, ubatch, mask_bytes) &&
                add_product(&inputs, own.build->input_copies * (uint64_t)shape->number[SHAPE_HIDDEN], ubatch, 4) &&
                add_product(&inputs, (uint64_t)shape->number[SHAPE_PLE_DIM] * shape->count, ubatch, 4) &&
                add_product(&out->output_bytes, shape->number[SHAPE_VOCAB], slots, 4);
    /* Without flash attention each value of a micro-batch has an index. */
    if (fits && request->no_flash_attention && own.build->is_indexed) {
        uint64_t kinds = (cells[LLAMA_PART_FULL] > 0 ? 1u : 0u) + (cells[LLAMA_PART_WINDOW] > 0 ? 1u : 0u);
        uint64_t widest = 0;
        for (uint32_t i = 0; i < shape->count; i++) {
            bool counts = shape->layers[i].cache != SHAPE_NO_CACHE && shape->layers[i].cache != SHAPE_LATENT;
            widest = counts ? most(widest, shape->layers[i].v_elems) : widest;
        }
        fits = add_product(&inputs, kinds * widest, ubatch, 8);
    }
    out->host_compute_bytes = request->is_device ? inputs : whole;
    out->device_compute_bytes = request->is_device ? whole : 0;
    return fits;
}
