/* SPDX-License-Identifier: MIT
 * llama.cpp's caches. Measured against its own log: docs/fit.md. */
#include "fit/llama_cpp.h"

#include "base/checked.h"

enum { CELL_PAD = 256, UBATCH_DEFAULT = 512, STATE_BYTES = 4 };

static const struct cache_type types[] = {
    {"f32", 1, 4},    {"f16", 1, 2},    {"bf16", 1, 2},   {"q8_0", 32, 34},   {"q5_1", 32, 24},
    {"q5_0", 32, 22}, {"q4_1", 32, 20}, {"q4_0", 32, 18}, {"iq4_nl", 32, 18},
};

const struct cache_type *cache_type_at(uint32_t i)
{
    return i < sizeof types / sizeof types[0] ? &types[i] : NULL;
}

const struct cache_type *cache_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

const char *llama_part_name(enum llama_part part)
{
    static const char *const names[LLAMA_PARTS] = {"full", "window", "latent", "compressed", "index"};
    return (unsigned)part < LLAMA_PARTS ? names[part] : NULL;
}

/* ---- cells ------------------------------------------------------------------------------------------ */

struct cells {
    uint64_t slots, streams;
    uint64_t ctx; /* of a stream */
    uint64_t ubatch;
    bool is_swa_full;
};

static bool padded(uint64_t tokens, uint64_t *cells)
{
    return !u64_round_up_overflows(tokens, CELL_PAD, cells);
}

static bool find_cells(const struct llama_request *request, struct cells *out)
{
    out->slots = request->slots > 0 ? request->slots : 1;
    out->streams = request->is_unified ? 1 : out->slots;
    out->ubatch = request->ubatch_tokens > 0 ? request->ubatch_tokens : UBATCH_DEFAULT;
    out->is_swa_full = request->is_swa_full || (request->build != NULL && request->build->is_swa_full);
    uint64_t ctx;
    return padded(request->ctx_tokens, &ctx) && padded(ctx / out->streams, &out->ctx);
}

/* Of a stream. */
static bool window_cells(const struct cells *cells, const struct shape_layer *layer, bool is_unified, uint64_t *out)
{
    if (cells->is_swa_full) {
        *out = cells->ctx;
        return true;
    }
    uint64_t kept = layer->window * (is_unified ? cells->slots : 1) + cells->ubatch;
    return padded(kept < cells->ctx ? kept : cells->ctx, out);
}

/* ---- bytes ------------------------------------------------------------------------------------------ */

static bool add(uint64_t *sum, uint64_t more)
{
    return !u64_add_overflows(*sum, more, sum);
}

static bool half_bytes(uint64_t cells, uint32_t elems, const struct cache_type *type, uint64_t *bytes)
{
    uint64_t all;
    *bytes = 0;
    if (elems == 0 || type == NULL) {
        return true;
    }
    return !u64_mul_overflows(cells, elems, &all) && !u64_mul_overflows(all / type->elems, type->bytes, bytes);
}

static bool put(struct llama_report *out, enum llama_part part, uint64_t cells, uint32_t k_elems, uint32_t v_elems,
                const struct llama_request *request)
{
    uint64_t k;
    uint64_t v;
    if (out->part[part].layers == 0) {
        out->part[part].k_elems = k_elems;
        out->part[part].v_elems = v_elems;
    }
    out->part[part].layers++;
    out->part[part].cells = cells > out->part[part].cells ? cells : out->part[part].cells;
    return half_bytes(cells, k_elems, request->k, &k) && half_bytes(cells, v_elems, request->v, &v) &&
           add(&out->part[part].k_bytes, k) && add(&out->part[part].v_bytes, v) && add(&out->kv_bytes, k) &&
           add(&out->kv_bytes, v);
}

static bool put_latent(struct llama_report *out, const struct shape_layer *layer, uint64_t cells,
                       const struct llama_request *request)
{
    switch (request->mla) {
    case LLAMA_MLA_FULL:
        return put(out, LLAMA_PART_FULL, cells, layer->full_k_elems, layer->full_v_elems, request);
    case LLAMA_MLA_LATENT_AND_V:
        return put(out, LLAMA_PART_LATENT, cells, layer->k_elems, layer->latent_v_elems, request);
    case LLAMA_MLA_LATENT:
    default:
        return put(out, LLAMA_PART_LATENT, cells, layer->k_elems, 0, request);
    }
}

static bool put_layer(struct llama_report *out, const struct shape_layer *layer, const struct cells *cells,
                      uint32_t v_elems, const struct llama_request *request)
{
    uint64_t count = 0;
    uint64_t full;
    bool own_streams = layer->comp_ratio > 0 || layer->state == SHAPE_COMPRESSOR; /* one each whatever is asked */
    if (u64_mul_overflows(cells->ctx, cells->streams, &full)) {
        return false;
    }
    if (layer->cache == SHAPE_LATENT) {
        if (!put_latent(out, layer, full, request)) {
            return false;
        }
    } else if (layer->cache == SHAPE_FULL) {
        if (!put(out, LLAMA_PART_FULL, full, layer->k_elems, v_elems, request)) {
            return false;
        }
    } else if (layer->cache != SHAPE_NO_CACHE) {
        bool unified = request->is_unified && !own_streams;
        if (!window_cells(cells, layer, unified, &count) ||
            u64_mul_overflows(count, unified ? 1 : cells->slots, &count) ||
            !put(out, LLAMA_PART_WINDOW, count, layer->k_elems, v_elems, request)) {
            return false;
        }
    }
    uint64_t per_slot = own_streams && request->is_unified ? cells->slots : cells->streams;
    if (layer->comp_ratio > 0 &&
        (!padded(cells->ctx / layer->comp_ratio, &count) || u64_mul_overflows(count, per_slot, &count) ||
         !put(out, LLAMA_PART_COMPRESSED, count, layer->comp_elems, 0, request))) {
        return false;
    }
    return layer->index_ratio == 0 ||
           (padded(cells->ctx / layer->index_ratio, &count) && !u64_mul_overflows(count, per_slot, &count) &&
            put(out, LLAMA_PART_INDEX, count, layer->index_elems, 0, request));
}

bool llama_cache_bytes(const struct shape *shape, const struct llama_request *request, struct llama_report *out)
{
    struct cells cells;
    uint32_t widest = 0;
    *out = (struct llama_report){0};
    if (!find_cells(request, &cells)) {
        return false;
    }
    uint32_t first = request->is_draft ? shape->count : 0;
    uint32_t end = request->is_draft ? shape->count + shape->mtp_count : shape->count;
    for (uint32_t i = first; i < end; i++) {
        widest = shape->layers[i].v_elems > widest ? shape->layers[i].v_elems : widest;
    }
    for (uint32_t i = first; i < end; i++) {
        const struct shape_layer *layer = &shape->layers[i];
        /* Without flash attention values lie transposed, all as wide as the widest. */
        uint32_t v_elems = request->no_flash_attention && layer->v_elems > 0 ? widest : layer->v_elems;
        uint64_t state = layer->conv_elems;
        if (layer->cache != SHAPE_NO_CACHE && layer->owner == i && !put_layer(out, layer, &cells, v_elems, request)) {
            return false;
        }
        if (!add(&state, layer->state_elems) || u64_mul_overflows(state, cells.slots * STATE_BYTES, &state) ||
            !add(&out->state_bytes, state)) {
            return false;
        }
        out->state_layers += state > 0 ? 1 : 0;
    }
    return true;
}
