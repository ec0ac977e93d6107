/* SPDX-License-Identifier: MIT
 * A shape from its numbers and its lists: geometry of each layer by what it is. */
#include <stdarg.h>
#include <stdio.h>

#include "family/shape_rows.h"

void shape_doubt(struct shape *shape, const char *format, ...)
{
    if (shape->is_known) {
        va_list args;
        va_start(args, format);
        vsnprintf(shape->problem, sizeof shape->problem, format, args);
        va_end(args);
    }
    shape->is_known = false;
}

static berth_status missing(struct shape_reading *r, enum shape_number number, const char *what)
{
    const char *name = source_name(&r->source, &shape_keys[number]);
    char text[320];
    shape_lack_text(r, number, what, text, sizeof text);
    berth_status status = error_set(r->source.err, BERTH_ERR_FORMAT, "%s", text);
    error_at_object(r->source.err, name, strlen(name));
    if (r->source.path != NULL) {
        error_at_path(r->source.err, r->source.path);
    }
    return status;
}

static berth_status need(struct shape_reading *r, enum shape_number number, const char *what, uint32_t *out)
{
    *out = r->out->number[number];
    return *out > 0 ? BERTH_OK : missing(r, number, what);
}

static uint32_t pick(uint32_t first, uint32_t otherwise)
{
    return first > 0 ? first : otherwise;
}

/* ---- attention -------------------------------------------------------------------------------------- */

static berth_status set_latent(struct shape_reading *r, uint32_t i)
{
    const uint32_t *n = r->out->number;
    struct shape_layer *layer = &r->out->layers[i];
    uint32_t heads = r->heads[i];
    uint32_t rank;
    uint32_t rope;
    layer->cache = SHAPE_LATENT;
    layer->heads = heads;
    if (r->source.meta != NULL) {
        TRY(need(r, SHAPE_HEAD_DIM, "the latent cache", &rope));
        layer->k_elems = pick(r->kv_heads[i], 1) * rope;
        layer->latent_v_elems = n[SHAPE_KV_RANK];
        layer->full_k_elems = heads * n[SHAPE_MLA_K];
        layer->full_v_elems = heads * n[SHAPE_MLA_V];
    } else {
        struct json value;
        TRY(need(r, SHAPE_KV_RANK, "the latent cache", &rank));
        rope = n[SHAPE_ROPE_DIM];
        if (rope == 0 && !r->out->is_default[SHAPE_ROPE_DIM] &&
            !source_find(&r->source, shape_keys[SHAPE_ROPE_DIM].hf[0], &value)) { /* 0 is a size: nothing is rotated */
            return missing(r, SHAPE_ROPE_DIM, "the latent cache");
        }
        layer->k_elems = rank + rope;
        layer->latent_v_elems = rank;
        layer->full_k_elems = heads * (n[SHAPE_NOPE_DIM] + rope);
        layer->full_v_elems = heads * n[SHAPE_V_DIM];
    }
    layer->q_elems = layer->full_k_elems;
    return BERTH_OK;
}

static void set_heads(struct shape_reading *r, uint32_t i, bool windowed)
{
    const uint32_t *n = r->out->number;
    struct shape_layer *layer = &r->out->layers[i];
    bool gguf = r->source.meta != NULL;
    uint32_t kv = r->kv_heads[i];
    uint32_t k = n[SHAPE_HEAD_DIM];
    uint32_t v = pick(n[SHAPE_V_DIM], k);
    layer->heads = r->heads[i];
    if (windowed) {
        kv = gguf ? kv : pick(n[SHAPE_SLIDING_KV_HEADS], kv);
        layer->heads = pick(n[SHAPE_SLIDING_HEADS], layer->heads);
        v = pick(n[SHAPE_SLIDING_V_DIM], n[SHAPE_SLIDING_DIM] > 0 ? n[SHAPE_SLIDING_DIM] : v);
        k = pick(n[SHAPE_SLIDING_DIM], k);
    } else {
        kv = gguf ? kv : pick(n[SHAPE_GLOBAL_KV_HEADS], kv);
        v = pick(n[SHAPE_GLOBAL_DIM], v);
        k = pick(n[SHAPE_GLOBAL_DIM], k);
    }
    if (r->head_dims[i] > 0) {
        k = v = r->head_dims[i];
        kv = r->kv_heads[i];
    }
    layer->k_elems = kv * k;
    layer->v_elems = kv * v;
    layer->q_elems = layer->heads * k;
}

/* Layers that take the choice of the layer before have no indexer. */
static bool shares_index(const struct shape_reading *r, uint32_t layer)
{
    struct json list;
    uint32_t at = 0;
    if (!source_find(&r->source, "indexer_types", &list) || list.token.kind != JSON_ARRAY_BEGIN) {
        return false;
    }
    while (json_next(&list) == JSON_STRING) {
        if (at++ == layer) {
            return json_token_is(&list.token, "shared");
        }
    }
    return false;
}

/* A key for every position, or one for a pool of them; the positions of an open pool, with their gates, are state. */
static void set_index(struct shape_reading *r, struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    layer->index_elems = n[SHAPE_INDEX_DIM];
    layer->index_ratio = layer->index_elems > 0 ? pick(n[SHAPE_INDEX_POOL], 1) : 0;
    if (layer->index_ratio > 1) {
        layer->state = SHAPE_COMPRESSOR;
        layer->state_elems = 2 * (uint64_t)layer->index_elems * layer->index_ratio;
    }
}

static berth_status set_attention(struct shape_reading *r, uint32_t i, enum layer_kind kind)
{
    struct shape_layer *layer = &r->out->layers[i];
    const uint32_t *n = r->out->number;
    bool latent =
        r->row != NULL && (r->row->flags & SHAPE_IS_LATENT) != 0 &&
        (r->source.meta != NULL ? n[SHAPE_MLA_K] > 0
                                : n[SHAPE_KV_RANK] > 0 || n[SHAPE_KV_HEADS] == 0 || r->row->pattern == PATTERN_FULL);
    uint32_t window = n[SHAPE_WINDOW];
    window = kind == KIND_CHUNK ? pick(n[SHAPE_CHUNK], window) : window;
    window = window == 0 && r->row != NULL ? r->row->window : window;
    bool windowed = (kind == KIND_WINDOW || kind == KIND_CHUNK) && window > 0;
    if (latent) {
        TRY(set_latent(r, i));
    } else {
        set_heads(r, i, windowed);
        layer->cache = windowed ? kind == KIND_CHUNK ? SHAPE_CHUNKED : SHAPE_SLIDING : SHAPE_FULL;
        layer->window = windowed ? window : 0;
    }
    if (r->row != NULL && (r->row->flags & SHAPE_HAS_INDEX) != 0 && layer->cache != SHAPE_SLIDING &&
        i < r->out->count && !shares_index(r, i)) {
        set_index(r, layer);
    }
    return BERTH_OK;
}

/* DeepSeek-V4: one key of head_dim a position within the window, and, of what is older, one for every 4 or 128
 * positions; the positions that are being gathered are state. */
static berth_status set_compressed(struct shape_reading *r, uint32_t i, enum layer_kind kind)
{
    struct shape_layer *layer = &r->out->layers[i];
    uint32_t dim;
    uint32_t window;
    TRY(need(r, SHAPE_HEAD_DIM, "the cache", &dim));
    TRY(need(r, SHAPE_WINDOW, "the cache", &window));
    layer->cache = SHAPE_SLIDING;
    layer->heads = r->heads[i];
    layer->k_elems = dim;
    layer->q_elems = layer->heads * dim;
    layer->window = window;
    if (kind == KIND_CSA || kind == KIND_HCA) {
        uint64_t overlap = kind == KIND_CSA ? 2 : 1; /* neighbouring windows overlap where the ratio is small */
        layer->comp_ratio = kind == KIND_CSA ? 4 : 128;
        layer->comp_elems = dim;
        layer->state = SHAPE_COMPRESSOR;
        layer->state_elems = 2 * (overlap * dim) * (overlap * layer->comp_ratio);
    }
    if (kind == KIND_CSA) {
        layer->index_elems = r->out->number[SHAPE_INDEX_DIM];
        layer->index_ratio = layer->index_elems > 0 ? 4 : 0;
        layer->state_elems += 2 * (uint64_t)(2 * layer->index_elems) * 8;
    }
    return BERTH_OK;
}

/* ---- state ------------------------------------------------------------------------------------------ */

static berth_status set_delta(struct shape_reading *r, struct shape_layer *layer)
{
    uint32_t value_heads;
    uint32_t key_heads;
    uint32_t value_dim;
    uint32_t key_dim;
    uint32_t kernel;
    uint64_t inner;
    if (r->source.meta != NULL) {
        uint32_t width;
        TRY(need(r, SHAPE_SSM_INNER, "the state", &width));
        TRY(need(r, SHAPE_SSM_STATE, "the state", &key_dim));
        TRY(need(r, SHAPE_SSM_GROUPS, "the state", &key_heads));
        TRY(need(r, SHAPE_SSM_CONV, "the state", &kernel));
        inner = width;
    } else {
        TRY(need(r, SHAPE_LINEAR_V_HEADS, "the state", &value_heads));
        TRY(need(r, SHAPE_LINEAR_K_HEADS, "the state", &key_heads));
        TRY(need(r, SHAPE_LINEAR_V_DIM, "the state", &value_dim));
        TRY(need(r, SHAPE_LINEAR_K_DIM, "the state", &key_dim));
        TRY(need(r, SHAPE_LINEAR_CONV, "the state", &kernel));
        inner = (uint64_t)value_heads * value_dim;
    }
    layer->conv_elems = (kernel - 1) * (inner + 2 * (uint64_t)key_heads * key_dim);
    layer->state_elems = inner * key_dim;
    return BERTH_OK;
}

static berth_status set_mamba(struct shape_reading *r, struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    uint32_t state;
    uint32_t kernel;
    uint64_t inner = n[SHAPE_SSM_INNER];
    inner = inner > 0 ? inner : (uint64_t)n[SHAPE_SSM_HEADS] * n[SHAPE_SSM_HEAD_DIM];
    if (inner == 0) {
        uint32_t expand;
        TRY(need(r, SHAPE_SSM_EXPAND, "the state", &expand));
        inner = (uint64_t)expand * n[SHAPE_HIDDEN];
    }
    TRY(need(r, SHAPE_SSM_STATE, "the state", &state));
    TRY(need(r, SHAPE_SSM_CONV, "the state", &kernel));
    layer->conv_elems = (kernel - 1) * (inner + 2 * (uint64_t)n[SHAPE_SSM_GROUPS] * state);
    layer->state_elems = inner * state;
    return BERTH_OK;
}

/* Three convolutions, of queries, keys and values; one square a head. */
static berth_status set_kda(struct shape_reading *r, struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    uint32_t heads = pick(n[SHAPE_KDA_HEADS], n[SHAPE_HEADS]);
    uint32_t dim = pick(n[SHAPE_KDA_DIM], n[SHAPE_HEAD_DIM]);
    uint32_t kernel = pick(n[SHAPE_LINEAR_CONV], pick(n[SHAPE_SSM_CONV], 4));
    struct json config;
    struct json value;
    if (source_find(&r->source, "linear_attn_config", &config)) {
        static const char *const keys[] = {"num_heads", "head_dim", "short_conv_kernel_size"};
        uint32_t *const fields[] = {&heads, &dim, &kernel};
        for (size_t i = 0; i < 3; i++) {
            if (source_inside(&config, keys[i], &value)) {
                TRY(source_json_u32(&r->source, keys[i], &value, 65535, fields[i]));
            }
        }
    }
    if (heads == 0 || dim == 0 || kernel == 0) {
        return missing(r, heads == 0 ? SHAPE_KDA_HEADS : dim == 0 ? SHAPE_KDA_DIM : SHAPE_LINEAR_CONV, "the state");
    }
    uint64_t inner = (uint64_t)heads * dim;
    layer->state_heads = heads;
    layer->state_dim = dim;
    layer->conv_elems = 3 * (uint64_t)(kernel - 1) * inner;
    layer->state_elems = inner * dim;
    return BERTH_OK;
}

static berth_status set_state(struct shape_reading *r, uint32_t i)
{
    struct shape_layer *layer = &r->out->layers[i];
    const uint32_t *n = r->out->number;
    uint32_t one;
    uint32_t two;
    layer->state = (enum shape_state)r->states[i];
    switch (layer->state) {
    case SHAPE_DELTA:
        return set_delta(r, layer);
    case SHAPE_MAMBA:
        return set_mamba(r, layer);
    case SHAPE_KDA:
        return set_kda(r, layer);
    case SHAPE_LIGHTNING:
        TRY(need(r, SHAPE_HEADS, "the state", &one));
        TRY(need(r, SHAPE_HEAD_DIM, "the state", &two));
        layer->state_elems = (uint64_t)one * two * two;
        return BERTH_OK;
    case SHAPE_CONV:
        TRY(need(r, SHAPE_CONV_CACHE, "the state", &one));
        layer->conv_elems = (uint64_t)(one - 1) * n[SHAPE_HIDDEN];
        return BERTH_OK;
    case SHAPE_RWKV:
        TRY(need(r, SHAPE_RWKV_DIM, "the state", &one));
        layer->conv_elems = (uint64_t)pick(n[SHAPE_TOKEN_SHIFT], 2) * n[SHAPE_HIDDEN];
        layer->state_elems = (uint64_t)n[SHAPE_HIDDEN] * one;
        return BERTH_OK;
    case SHAPE_NO_STATE:
    case SHAPE_COMPRESSOR:
    default:
        return BERTH_OK;
    }
}

/* ---- all of them ------------------------------------------------------------------------------------ */

static enum layer_kind kind_by_pattern(const struct shape_reading *r, uint32_t i, uint32_t period)
{
    const struct shape_row *row = r->row;
    const uint32_t *n = r->out->number;
    bool last = period > 0 && (i + 1) % period == 0;
    bool first = period > 0 && i % period == 0;
    bool full = (row->flags & SHAPE_FULL_FIRST) != 0 ? first : last;
    full = full && (i > 0 || (row->flags & SHAPE_NOT_FIRST) == 0);
    switch (row->pattern) {
    case PATTERN_WINDOW:
        return full || (i == 0 && row->first_full) ? KIND_FULL
               : (row->flags & SHAPE_CHUNKS) != 0  ? KIND_CHUNK
                                                   : KIND_WINDOW;
    case PATTERN_STATE:
        return full || period == 0 ? KIND_FULL : KIND_STATE;
    case PATTERN_STATE_HEADS:
        return period == 0 ? KIND_NONE : full ? KIND_FULL : KIND_STATE;
    case PATTERN_JAMBA:
        return period > 0 && i % period == n[SHAPE_ATTN_OFFSET] ? KIND_FULL : KIND_STATE;
    case PATTERN_GROUPS:
        return full || i >= r->out->count / pick(period, 1) * period ? KIND_FULL : KIND_STATE;
    case PATTERN_BOTH:
        return KIND_BOTH;
    case PATTERN_ALL_STATE:
        return KIND_STATE;
    case PATTERN_COMPRESSED:
        return i >= 3 && i % 2 == 1 ? KIND_CSA : KIND_HCA;
    case PATTERN_FULL:
    case PATTERN_LETTERS:
    default:
        return KIND_FULL;
    }
}

static berth_status read_pattern(struct shape_reading *r)
{
    const uint32_t *n = r->out->number;
    uint32_t period = r->row->period;
    if (r->row->period_key != NULL) {
        struct shape_key key = {{r->row->period_key}, NULL, 65535};
        TRY(source_u32(&r->source, &key, period, &period));
    }
    period = r->row->pattern == PATTERN_STATE ? pick(n[SHAPE_INTERVAL], pick(n[SHAPE_GROUP], period)) : period;
    period = r->row->pattern == PATTERN_JAMBA ? pick(n[SHAPE_ATTN_PERIOD], period) : period;
    period = r->row->pattern == PATTERN_GROUPS ? pick(n[SHAPE_GROUP], period) : period;
    if (r->row->pattern == PATTERN_LETTERS) {
        shape_doubt(r->out, "the configuration does not say which layers are what");
        return BERTH_OK;
    }
    if (r->row->pattern == PATTERN_STATE_HEADS && period == 0) {
        shape_doubt(r->out, "the configuration has no list of its layers");
    }
    if (r->row->pattern == PATTERN_WINDOW && (r->row->flags & SHAPE_FULL_FIRST) != 0) {
        period = 1; /* without a list these classes have no windows */
    }
    for (uint32_t i = 0; i < r->out->count; i++) {
        r->kinds[i] = (uint8_t)kind_by_pattern(r, i, period);
        r->states[i] = (uint8_t)r->row->state;
    }
    return BERTH_OK;
}

/* transformers 5: {"5": {"head_dim": 512, "num_key_value_heads": 4}} */
static berth_status read_overrides(struct shape_reading *r)
{
    struct json all;
    if (!source_find(&r->source, "per_layer_config", &all)) {
        return BERTH_OK;
    }
    if (all.token.kind != JSON_OBJECT_BEGIN) {
        return source_wrong(&r->source, "per_layer_config", &all, "an object");
    }
    while (json_next(&all) == JSON_KEY) {
        uint32_t layer = 0;
        struct str name = all.token.raw;
        bool number = name.bytes > 0 && name.bytes < 6;
        for (size_t i = 0; i < name.bytes && number; i++) {
            number = name.ptr[i] >= '0' && name.ptr[i] <= '9';
            layer = layer * 10 + (uint32_t)(name.ptr[i] - '0');
        }
        json_next(&all);
        struct json value;
        if (number && layer < r->out->count) {
            if (source_inside(&all, "head_dim", &value)) {
                TRY(source_json_u32(&r->source, "head_dim", &value, 65535, &r->head_dims[layer]));
            }
            if (source_inside(&all, "num_key_value_heads", &value)) {
                TRY(source_json_u32(&r->source, "num_key_value_heads", &value, 65535, &r->kv_heads[layer]));
            }
        }
        json_skip(&all);
    }
    return BERTH_OK;
}

/* The trailing shared layers use the cache of the last earlier layer of their kind. */
static void share(struct shape_reading *r)
{
    struct shape *out = r->out;
    uint32_t shared = out->number[SHAPE_SHARED_LAYERS];
    if (shared == 0 && r->source.meta != NULL && r->row != NULL && r->row->own_layers > 0 &&
        r->row->own_layers < out->count) {
        shared = out->count - r->row->own_layers;
    }
    for (uint32_t i = 0; i < r->all; i++) {
        out->layers[i].owner = i;
    }
    uint32_t first = shared < out->count ? out->count - shared : 0;
    for (uint32_t i = first; shared > 0 && i < out->count; i++) {
        for (uint32_t k = first; k > 0; k--) {
            if (out->layers[k - 1].cache == out->layers[i].cache) {
                out->layers[i].owner = k - 1;
                break;
            }
        }
    }
}

static berth_status set_layers(struct shape_reading *r)
{
    for (uint32_t i = 0; i < r->all; i++) {
        struct shape_layer *layer = &r->out->layers[i];
        enum layer_kind kind = (enum layer_kind)r->kinds[i];
        bool attends = kind == KIND_FULL || kind == KIND_WINDOW || kind == KIND_CHUNK || kind == KIND_BOTH;
        if (r->row != NULL && r->row->pattern == PATTERN_COMPRESSED && kind != KIND_NONE) {
            TRY(set_compressed(r, i, kind));
        } else if (attends) {
            TRY(set_attention(r, i, kind));
        }
        if (kind == KIND_STATE || kind == KIND_BOTH) {
            TRY(set_state(r, i));
        }
        if (layer->cache != SHAPE_NO_CACHE && layer->k_elems == 0) {
            bool narrow =
                r->out->number[SHAPE_HEAD_DIM] == 0 && r->out->number[SHAPE_HIDDEN] == 0 && r->source.meta == NULL;
            return missing(r,
                           r->kv_heads[i] == 0 ? SHAPE_KV_HEADS
                           : narrow            ? SHAPE_HIDDEN
                                               : SHAPE_HEAD_DIM,
                           "the cache");
        }
    }
    return BERTH_OK;
}

/* Numbers that some families give for each layer (a flag for each, in the place of a step). A list for any other is not
 * a number. */
static const enum shape_number per_layer[] = {SHAPE_HEADS,          SHAPE_KV_HEADS, SHAPE_FFN,     SHAPE_EXPERT_FFN,
                                              SHAPE_SHARED_EXPERTS, SHAPE_TOP_K,    SHAPE_MOE_STEP};

static bool is_per_layer(enum shape_number number)
{
    for (size_t i = 0; i < sizeof per_layer / sizeof per_layer[0]; i++) {
        if (per_layer[i] == number) {
            return true;
        }
    }
    return false;
}

static berth_status check_lists(struct shape_reading *r)
{
    for (size_t i = 0; i < sizeof per_layer / sizeof per_layer[0]; i++) {
        const struct shape_key *key = &shape_keys[per_layer[i]];
        uint64_t items;
        const char *name;
        if (source_is_list(&r->source, key, &items, &name)) {
            TRY(shape_check_length(r, name, items));
        }
    }
    return BERTH_OK;
}

/* A number, or what the model_type means by leaving it out. Writers leave out of text_config what is the default of its
 * class, and nothing else: a file without its own number of layers or width is not whole. null asks for no default. */
static berth_status read_number(struct shape_reading *r, enum shape_number i)
{
    struct shape *out = r->out;
    struct json value;
    bool json = r->source.meta == NULL;
    if (i == SHAPE_DT_RANK && json && shape_keys[i].hf[0] != NULL &&
        (source_find(&r->source, shape_keys[i].hf[0], &value) ||
         source_find(&r->source, shape_keys[i].hf[1], &value)) &&
        value.token.kind == JSON_STRING && json_token_is(&value.token, "auto")) {
        return BERTH_OK;
    }
    TRY(is_per_layer(i) ? source_most(&r->source, &shape_keys[i], &out->number[i])
                        : source_u32(&r->source, &shape_keys[i], 0, &out->number[i]));
    bool whole = (i == SHAPE_LAYERS || i == SHAPE_HIDDEN) &&
                 (r->source.nested == NULL || !source_find(&r->source, "model_type", &value));
    if (json && !whole && !source_mentions(&r->source, &shape_keys[i]) && shape_default(r->type, i, &out->number[i])) {
        out->is_default[i] = true;
    }
    return BERTH_OK;
}

/* Families whose layers are one list may leave their number out. */
static void count_listed(struct shape_reading *r)
{
    struct json list;
    uint32_t layers = 0;
    if (source_find(&r->source, "layers_block_type", &list) && list.token.kind == JSON_ARRAY_BEGIN) {
        while (json_next(&list) == JSON_STRING && layers < SHAPE_LAYERS_MAX + 1) {
            layers++;
        }
    }
    r->out->number[SHAPE_LAYERS] = layers;
}

static berth_status read_numbers(struct shape_reading *r)
{
    uint32_t *n = r->out->number;
    for (int i = 0; i < SHAPE_NUMBERS; i++) {
        TRY(read_number(r, (enum shape_number)i));
    }
    if (n[SHAPE_LAYERS] == 0 && r->row != NULL && r->row->pattern == PATTERN_LETTERS && r->source.meta == NULL) {
        count_listed(r);
    }
    if (n[SHAPE_LAYERS] == 0) {
        return missing(r, SHAPE_LAYERS, "the model");
    }
    r->out->mtp_count = n[SHAPE_MTP];
    bool inside = r->source.meta != NULL; /* GGUF counts the blocks for further tokens among the layers */
    if (inside && n[SHAPE_MTP] >= n[SHAPE_LAYERS]) {
        return missing(r, SHAPE_LAYERS, "the model without its blocks for further tokens");
    }
    r->out->count = inside ? n[SHAPE_LAYERS] - n[SHAPE_MTP] : n[SHAPE_LAYERS];
    r->all = r->out->count + r->out->mtp_count;
    if (r->all > SHAPE_LAYERS_MAX) {
        return error_set(r->source.err, BERTH_ERR_LIMIT, "\"%s\" is %lu, the limit is %d",
                         source_name(&r->source, &shape_keys[SHAPE_LAYERS]), (unsigned long)r->all, SHAPE_LAYERS_MAX);
    }
    uint32_t divided = n[SHAPE_HEADS] > 0 ? n[SHAPE_HIDDEN] / n[SHAPE_HEADS] : 0;
    if (n[SHAPE_HEAD_DIM] == 0 && divided <= 65535) { /* no head is wider: missing */
        n[SHAPE_HEAD_DIM] = divided;
    }
    return BERTH_OK;
}

static berth_status read_per_layer(struct shape_reading *r)
{
    static const struct shape_key layer_heads = {{"num_attention_heads_per_layer"}, NULL, 65535};
    uint32_t *n = r->out->number;
    bool found;
    r->out->layers = ARENA_NEW(r->arena, struct shape_layer, r->all);
    r->kinds = ARENA_NEW(r->arena, uint8_t, r->all);
    r->states = ARENA_NEW(r->arena, uint8_t, r->all);
    r->heads = ARENA_NEW(r->arena, uint32_t, r->all);
    r->kv_heads = ARENA_NEW(r->arena, uint32_t, r->all);
    r->ffn = ARENA_NEW(r->arena, uint32_t, r->all);
    r->head_dims = ARENA_NEW(r->arena, uint32_t, r->all);
    TRY(arena_check(r->arena, "memory for the layer table", r->source.err));
    memset(r->out->layers, 0, r->all * sizeof *r->out->layers);
    memset(r->kinds, 0, r->all);
    memset(r->states, 0, r->all);
    for (uint32_t i = 0; i < r->all; i++) {
        r->heads[i] = n[SHAPE_HEADS];
        r->ffn[i] = n[SHAPE_FFN];
        r->head_dims[i] = 0;
    }
    uint32_t have = r->source.meta != NULL ? r->all : r->out->count;
    TRY(source_list(&r->source, &shape_keys[SHAPE_HEADS], have, r->heads, &found));
    TRY(source_list(&r->source, &layer_heads, have, r->heads, &found));
    TRY(source_list(&r->source, &shape_keys[SHAPE_FFN], have, r->ffn, &found));
    for (uint32_t i = 0; i < r->all; i++) { /* as many as heads, where neither the file nor its class say */
        r->kv_heads[i] = r->out->is_default[SHAPE_KV_HEADS] ? n[SHAPE_KV_HEADS] : r->heads[i];
    }
    TRY(source_list(&r->source, &shape_keys[SHAPE_KV_HEADS], have, r->kv_heads, &found));
    for (uint32_t i = have; i < r->all; i++) {
        r->kv_heads[i] = found ? n[SHAPE_KV_HEADS] : r->heads[i];
    }
    return BERTH_OK;
}

/* Blocks for further tokens attend like a layer of full attention; where there is none, like the last layer. */
static void set_mtp_kinds(struct shape_reading *r)
{
    for (uint32_t i = r->out->count; i < r->all; i++) {
        bool compressed = r->row != NULL && r->row->pattern == PATTERN_COMPRESSED;
        r->kinds[i] = compressed ? KIND_WINDOW : r->row != NULL ? KIND_FULL : KIND_NONE;
        r->kv_heads[i] = r->kv_heads[i] > 0 ? r->kv_heads[i] : r->out->number[SHAPE_KV_HEADS];
    }
}

static berth_status read_shape(struct shape_reading *r)
{
    bool found = false;
    struct json list;
    TRY(read_numbers(r));
    if (source_find(&r->source, "indexer_types", &list) && list.token.kind != JSON_ARRAY_BEGIN) {
        return source_wrong(&r->source, "indexer_types", &list, "a list");
    }
    TRY(check_lists(r));
    TRY(read_per_layer(r));
    r->has_latents = r->out->number[SHAPE_MLA_K] > 0;
    if (r->source.meta != NULL) {
        TRY(shape_read_arrays(r));
    } else {
        TRY(shape_read_lists(r, &found));
        TRY(read_overrides(r));
        if (!found && r->row != NULL) {
            TRY(read_pattern(r));
        }
        uint8_t *last = &r->kinds[r->out->count - 1];
        if (r->row != NULL && (r->row->flags & SHAPE_LAYER_SCALE) != 0 && *last == KIND_WINDOW) {
            *last = KIND_FULL; /* Gemma 4's class sees to it, whatever the list says */
        }
    }
    set_mtp_kinds(r);
    TRY(set_layers(r));
    share(r);
    r->out->row = r->row;
    TRY(shape_read_params(r));
    return shape_check_layers(r);
}

static void name_family(struct shape *out, struct str name)
{
    snprintf(out->family, sizeof out->family, "%.*s", (int)(name.bytes < 63 ? name.bytes : 63), name.ptr);
}

berth_status shape_read_json(struct str config_json, const char *path, struct arena *arena, struct shape *out,
                             berth_error *err)
{
    struct shape_reading r = {.source = {.path = path, .err = err}, .out = out, .arena = arena};
    struct json value;
    *out = (struct shape){.is_known = true};
    TRY(source_open_json(&r.source, config_json, arena));
    /* The outer model_type names the family; the inner one where a wrapper's name is not known. */
    struct shape_source top = r.source;
    top.nested = NULL;
    const struct shape_source *places[] = {&top, &r.source};
    for (size_t i = 0; i < 2 && r.row == NULL; i++) {
        if (!source_find(places[i], "model_type", &value)) {
            continue;
        }
        if (value.token.kind != JSON_STRING) {
            return source_wrong(&r.source, "model_type", &value, "a string");
        }
        r.row = shape_row_hf(value.token.raw);
        if (r.row != NULL || out->family[0] == '\0') {
            name_family(out, value.token.raw);
        }
    }
    for (size_t i = 2; i > 0 && r.type.bytes == 0; i--) { /* defaults: the inner class's, else the wrapper's */
        if (source_find(places[i - 1], "model_type", &value) && value.token.kind == JSON_STRING &&
            shape_has_defaults(value.token.raw)) {
            r.type = value.token.raw;
            snprintf(out->defaults_of, sizeof out->defaults_of, "%.*s", (int)(r.type.bytes < 63 ? r.type.bytes : 63),
                     r.type.ptr);
        }
    }
    if (r.row == NULL) {
        shape_doubt(out, "model_type \"%s\" is not known to this version", out->family);
    }
    TRY(read_shape(&r));
    shape_note_lacks(&r);
    return BERTH_OK;
}

berth_status shape_read_gguf(const struct meta *meta, const char *path, struct arena *arena, struct shape *out,
                             berth_error *err)
{
    struct shape_reading r = {.source = {.meta = meta, .path = path, .err = err}, .out = out, .arena = arena};
    *out = (struct shape){.is_known = true};
    if (!meta_str(meta, STR("general.architecture"), &r.source.arch)) {
        berth_status status = error_set(err, BERTH_ERR_FORMAT, "general.architecture is missing");
        if (path != NULL) {
            error_at_path(err, path);
        }
        return status;
    }
    r.row = shape_row_gguf(r.source.arch);
    name_family(out, r.source.arch);
    if (r.row == NULL) {
        shape_doubt(out, "architecture \"%s\" is not known to this version", out->family);
    }
    TRY(read_shape(&r));
    const struct meta_pair *tokens = meta_find(meta, STR("tokenizer.ggml.tokens"));
    if (out->number[SHAPE_VOCAB] == 0 && tokens != NULL && tokens->type == META_ARRAY && tokens->count < 1u << 28) {
        out->number[SHAPE_VOCAB] = (uint32_t)tokens->count;
    }
    shape_note_lacks(&r);
    return BERTH_OK;
}

/* ---- names ------------------------------------------------------------------------------------------ */

const char *shape_number_key(enum shape_number number)
{
    const struct shape_key *key = &shape_keys[number];
    return key->hf[0] != NULL ? key->hf[0] : key->gguf;
}

const char *shape_cache_name(enum shape_cache cache)
{
    static const char *const names[] = {"none", "full attention", "sliding window", "chunked attention",
                                        "latent attention"};
    return names[cache];
}

const char *shape_state_name(enum shape_state state)
{
    static const char *const names[] = {
        "none", "mamba",     "gated delta net", "kimi delta attention", "lightning attention", "short convolution",
        "rwkv", "compressor"};
    return names[state];
}
