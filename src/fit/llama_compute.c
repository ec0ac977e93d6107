/* SPDX-License-Identifier: MIT
 * llama.cpp's compute buffers. What lies on the host when an accelerator has every layer is inputs alone, and exact. A
 * whole graph is the largest of three phases; how well its allocator packs them depends on the order of operations, so
 * that this is an estimate from above: docs/fit.md has it against the program's own figures. */
#include "base/checked.h"
#include "fit/llama_cpp.h"

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

/* Widths of the layer that needs most; one mask for layers of a kind. */
struct graph {
    uint64_t masks;     /* cells */
    uint64_t scores;    /* cells x heads, the most of a layer */
    uint64_t indexed;   /* the same of its indexer */
    uint64_t attention; /* elements of a position while a layer attends */
    uint64_t ffn;
};

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void widen_attention(struct graph *graph, const struct shape_layer *layer, uint64_t hidden, bool keeps_kv)
{
    uint64_t elems =
        2 * hidden + 2 * (uint64_t)layer->q_elems + (keeps_kv ? (uint64_t)layer->k_elems + layer->v_elems : 0);
    if (layer->cache == SHAPE_LATENT) {
        /* Queries, their unrotated part, the same in the latent space, and both parts again side by side. */
        uint64_t absorbed = (uint64_t)layer->heads * layer->latent_v_elems;
        elems =
            3 * hidden + layer->full_k_elems + layer->full_v_elems + absorbed + (uint64_t)layer->heads * layer->k_elems;
    }
    graph->attention = most(graph->attention, elems);
}

static void widen_ffn(struct graph *graph, const struct shape_layer *layer, const struct shape *shape)
{
    uint64_t hidden = shape->number[SHAPE_HIDDEN];
    uint64_t residual = 2 * hidden + most(hidden, layer->q_elems);
    uint64_t top_k = layer->is_moe ? most(shape->number[SHAPE_TOP_K], 1) : 1;
    uint64_t width = layer->ffn * top_k;
    uint64_t shared = layer->is_moe ? most(shape->number[SHAPE_SHARED_FFN],
                                           (uint64_t)shape->number[SHAPE_SHARED_EXPERTS] * layer->ffn)
                                    : 0;
    graph->ffn = most(graph->ffn, 3 * width + residual);
    if (layer->is_moe) {
        uint64_t latent = shape->number[SHAPE_EXPERT_HIDDEN] > 0 ? shape->number[SHAPE_EXPERT_HIDDEN] : hidden;
        graph->ffn = most(graph->ffn, 2 * top_k * latent + width + most(hidden, layer->q_elems) + 2 * shared +
                                          (shared > 0 ? hidden : 0));
    }
}

static void widen(struct graph *graph, const struct shape *shape, const struct llama_request *request,
                  const struct llama_build *build, const struct llama_report *report)
{
    uint64_t cells[LLAMA_PARTS];
    uint64_t streams = request->is_unified || request->slots == 0 ? 1 : request->slots;
    for (int part = 0; part < LLAMA_PARTS; part++) {
        cells[part] = report->part[part].cells / streams;
    }
    graph->masks = most(cells[LLAMA_PART_FULL], cells[LLAMA_PART_LATENT]) + cells[LLAMA_PART_WINDOW] +
                   cells[LLAMA_PART_COMPRESSED];
    for (uint32_t i = 0; i < shape->count; i++) {
        const struct shape_layer *layer = &shape->layers[i];
        bool windowed = layer->cache == SHAPE_SLIDING || layer->cache == SHAPE_CHUNKED;
        uint64_t kept = windowed ? cells[LLAMA_PART_WINDOW] + cells[LLAMA_PART_COMPRESSED]
                                 : most(cells[LLAMA_PART_FULL], cells[LLAMA_PART_LATENT]);
        if (layer->cache != SHAPE_NO_CACHE) {
            graph->scores = most(graph->scores, kept * layer->heads);
            widen_attention(graph, layer, shape->number[SHAPE_HIDDEN], request->no_flash_attention && build->keeps_kv);
        }
        if (layer->index_ratio > 0) {
            graph->indexed = most(graph->indexed, cells[LLAMA_PART_INDEX] * (uint64_t)shape->number[SHAPE_INDEX_HEADS]);
        }
        if (layer->state != SHAPE_NO_STATE && layer->cache == SHAPE_NO_CACHE) {
            /* Of what a recurrent layer works on, its inputs are the wider part. */
            graph->attention =
                most(graph->attention, 4 * (layer->conv_elems / 3) + 2 * (uint64_t)shape->number[SHAPE_HIDDEN]);
        }
        widen_ffn(graph, layer, shape);
    }
}

bool llama_solve(const struct shape *shape, const struct llama_request *request, struct llama_report *out)
{
    const struct llama_build *build = request->build != NULL ? request->build : &builds[0];
    struct llama_request own = *request;
    struct graph graph = {0};
    own.build = build;
    if (!llama_cache_bytes(shape, &own, out)) {
        return false;
    }
    uint64_t ubatch = request->ubatch_tokens > 0 ? request->ubatch_tokens : 512;
    uint64_t slots = request->slots > 0 ? request->slots : 1;
    uint64_t outputs = request->outputs > 0 ? request->outputs : slots;
    uint64_t hidden = shape->number[SHAPE_HIDDEN];
    uint64_t mask_bytes = request->no_flash_attention ? 4 : build->mask_bytes;
    uint64_t inputs = 0;
    uint64_t attention = 0;
    uint64_t logits = 0;
    widen(&graph, shape, &own, build, out);
    outputs = outputs < ubatch ? outputs : ubatch;
    bool fits = add_product(&inputs, graph.masks, ubatch, mask_bytes);
    attention = inputs;
    uint64_t ffn = inputs;
    uint64_t extra = request->is_device ? 0 : (uint64_t)(build->input_copies - 1) * hidden;
    fits = fits && add_product(&inputs, build->input_copies * hidden, ubatch, 4) &&
           (!request->no_flash_attention || add_product(&attention, graph.scores, ubatch, 4)) &&
           add_product(&attention, graph.indexed, ubatch, 4 * (uint64_t)build->index_copies) &&
           add_product(&attention, graph.attention + extra, ubatch, 4) &&
           add_product(&ffn, graph.ffn + extra, ubatch, 4) &&
           add_product(&logits, shape->number[SHAPE_VOCAB], outputs, 4) &&
           add_product(&logits, 2 * hidden, ubatch, 4) &&
           add_product(&out->output_bytes, shape->number[SHAPE_VOCAB], slots, 4);
    uint64_t whole = most(most(attention, ffn), logits);
    out->host_compute_bytes = request->is_device ? inputs : whole;
    out->device_compute_bytes = request->is_device ? whole : 0;
    return fits;
}
