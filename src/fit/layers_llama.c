/* SPDX-License-Identifier: MIT
 * llama.cpp's cache: cells padded to 256, sliding layers with room for a micro-batch, streams of slots; state in
 * float32. */
#include "base/checked.h"
#include "fit/layers.h"

enum { CELL_PAD = 256, BATCH_DEFAULT = 512, STATE_BYTES = 4 };

static const struct cache_type types[] = {
    {"f32", 1, 4},    {"f16", 1, 2},    {"bf16", 1, 2},   {"q8_0", 32, 34},   {"q5_1", 32, 24},
    {"q5_0", 32, 22}, {"q4_1", 32, 20}, {"q4_0", 32, 18}, {"iq4_nl", 32, 18},
};

const struct cache_type *cache_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

static bool add_product(uint64_t a, uint64_t b, uint64_t *sum)
{
    uint64_t product;
    return !u64_mul_overflows(a, b, &product) && !u64_add_overflows(*sum, product, sum);
}

static bool padded(uint64_t tokens, uint64_t *cells)
{
    return !u64_round_up_overflows(tokens, CELL_PAD, cells);
}

/* Cells of a layer over all slots. */
static bool cells_of(const struct layer *layer, const struct llama_cache *cache, uint64_t *cells)
{
    uint64_t slots = cache->slots > 0 ? cache->slots : 1;
    uint64_t batch = cache->batch_tokens > 0 ? cache->batch_tokens : BATCH_DEFAULT;
    bool windowed = (layer->cache == LAYER_SLIDING || layer->cache == LAYER_CHUNKED) && !cache->is_swa_full;
    if (!windowed) {
        return padded(cache->ctx_tokens, cells);
    }
    uint64_t kept = layer->window * (cache->is_unified ? slots : 1) + batch;
    uint64_t share = cache->is_unified ? cache->ctx_tokens : cache->ctx_tokens / slots;
    return padded(kept < share ? kept : share, cells) &&
           (cache->is_unified || !u64_mul_overflows(*cells, slots, cells));
}

static bool add_elems(uint64_t cells, uint32_t elems, const struct cache_type *type, uint64_t *bytes)
{
    uint64_t all;
    if (elems == 0 || type == NULL) {
        return true;
    }
    return !u64_mul_overflows(cells, elems, &all) && add_product(all / type->elems, type->bytes, bytes);
}

bool layers_llama_kv_bytes(const struct layers *layers, const struct llama_cache *cache, uint64_t *bytes)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < layers->count; i++) {
        const struct layer *layer = &layers->items[i];
        uint64_t cells;
        if (layer->cache == LAYER_NO_CACHE || layer->owner != i) {
            continue;
        }
        if (!cells_of(layer, cache, &cells) || !add_elems(cells, layer->k_elems, cache->k, &sum) ||
            !add_elems(cells, layer->v_elems, cache->v, &sum)) {
            return false;
        }
    }
    *bytes = sum;
    return true;
}

bool layers_llama_state_bytes(const struct layers *layers, uint32_t slots, uint64_t *bytes)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < layers->count; i++) {
        uint64_t elems = layers->items[i].conv_elems;
        if (u64_add_overflows(elems, layers->items[i].state_elems, &elems) ||
            !add_product(elems, (uint64_t)slots * STATE_BYTES, &sum)) {
            return false;
        }
    }
    *bytes = sum;
    return true;
}
