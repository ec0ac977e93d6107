/* SPDX-License-Identifier: MIT
 * config.json to a layer table. Key names are those of published configurations. */
#include "fit/layers.h"

#include <math.h>
#include <stdio.h>

#include "fit/seed_read.h"

enum style {
    STYLE_PLAIN,   /* all full attention, unless layer_types says otherwise */
    STYLE_SLIDING, /* every `period`-th layer full, the others sliding */
    STYLE_CHUNKED, /* the same with chunks */
    STYLE_DELTA,   /* every `period`-th layer full, the others a gated delta net */
    STYLE_LATENT,
    STYLE_CONV,      /* short convolutions; full attention where full_attn_idxs says */
    STYLE_LETTERS,   /* hybrid_override_pattern: M, *, - and E */
    STYLE_PERIODIC,  /* attn_layer_period and attn_layer_offset; mamba elsewhere */
    STYLE_MAMBA_TOO, /* attention and mamba in every layer */
    STYLE_BLOCKS     /* block_configs says what each layer's attention is */
};

static const struct family_row {
    const char *model_type;
    enum style style;
    uint32_t period;
    const char *period_key;
} rows[] = {
    {"llama", STYLE_PLAIN, 0, NULL},
    {"mistral", STYLE_PLAIN, 0, NULL},
    {"mixtral", STYLE_PLAIN, 0, NULL},
    {"qwen2", STYLE_PLAIN, 0, NULL},
    {"qwen2_moe", STYLE_PLAIN, 0, NULL},
    {"qwen3", STYLE_PLAIN, 0, NULL},
    {"qwen3_moe", STYLE_PLAIN, 0, NULL},
    {"olmo2", STYLE_PLAIN, 0, NULL},
    {"olmoe", STYLE_PLAIN, 0, NULL},
    {"phi3", STYLE_PLAIN, 0, NULL},
    {"phimoe", STYLE_PLAIN, 0, NULL},
    {"glm4", STYLE_PLAIN, 0, NULL},
    {"glm4_moe", STYLE_PLAIN, 0, NULL},
    {"cohere", STYLE_PLAIN, 0, NULL},
    {"minimax_m2", STYLE_PLAIN, 0, NULL},
    {"granite", STYLE_PLAIN, 0, NULL},
    {"smollm3", STYLE_PLAIN, 0, NULL},
    {"starcoder2", STYLE_PLAIN, 0, NULL},
    {"gemma", STYLE_PLAIN, 0, NULL},
    {"gemma3n", STYLE_PLAIN, 0, NULL},
    {"gemma3n_text", STYLE_PLAIN, 0, NULL},
    {"gemma4", STYLE_PLAIN, 0, NULL},
    {"gemma4_text", STYLE_PLAIN, 0, NULL},
    {"granitemoehybrid", STYLE_PLAIN, 0, NULL},
    {"laguna", STYLE_PLAIN, 0, NULL},
    {"gemma2", STYLE_SLIDING, 2, NULL},
    {"gemma3", STYLE_SLIDING, 6, "sliding_window_pattern"},
    {"gemma3_text", STYLE_SLIDING, 6, "sliding_window_pattern"},
    {"cohere2", STYLE_SLIDING, 4, "sliding_window_pattern"},
    {"gpt_oss", STYLE_SLIDING, 2, NULL},
    {"afmoe", STYLE_SLIDING, 4, "global_attn_every_n_layers"},
    {"llama4", STYLE_CHUNKED, 4, "no_rope_layer_interval"},
    {"llama4_text", STYLE_CHUNKED, 4, "no_rope_layer_interval"},
    {"qwen3_next", STYLE_DELTA, 4, "full_attention_interval"},
    {"qwen3_5", STYLE_DELTA, 4, "full_attention_interval"},
    {"qwen3_5_text", STYLE_DELTA, 4, "full_attention_interval"},
    {"qwen3_5_moe", STYLE_DELTA, 4, "full_attention_interval"},
    {"qwen3_5_moe_text", STYLE_DELTA, 4, "full_attention_interval"},
    {"deepseek_v2", STYLE_LATENT, 0, NULL},
    {"deepseek_v3", STYLE_LATENT, 0, NULL},
    {"kimi_k2", STYLE_LATENT, 0, NULL},
    {"glm_moe_dsa", STYLE_LATENT, 0, NULL},
    {"lfm2", STYLE_CONV, 0, NULL},
    {"lfm2_moe", STYLE_CONV, 0, NULL},
    {"nemotron_h", STYLE_LETTERS, 0, NULL},
    {"jamba", STYLE_PERIODIC, 0, NULL},
    {"falcon_h1", STYLE_MAMBA_TOO, 0, NULL},
    {"nemotron-nas", STYLE_BLOCKS, 0, NULL},
};

struct reading {
    struct seed_scope text;
    struct layers *out;
    struct arena *arena;
    const struct family_row *family; /* NULL: unknown */
    uint32_t hidden, heads, kv_heads, head_dim, v_head_dim, window;
    uint32_t global_kv_heads, global_head_dim;
    berth_error *err;
};

/* ---- numbers ---------------------------------------------------------------------------------------- */

/* Two of the former multiply without overflow in 32 bits. */
enum { COUNT_MAX = 65535, WIDE_MAX = 1 << 30 };

static berth_status read_up_to(struct reading *reading, const char *key, uint32_t otherwise, uint32_t most,
                               uint32_t *out)
{
    double value = otherwise;
    TRY(seed_number(&reading->text, key, &value, NULL, reading->err));
    if (value >= 0 && value <= most && value == floor(value)) {
        *out = (uint32_t)value;
        return BERTH_OK;
    }
    berth_status status =
        error_set(reading->err, BERTH_ERR_FORMAT, "\"%s\" is %g, but a whole number from 0 to %u is wanted", key, value,
                  (unsigned)most);
    error_at_object(reading->err, key, strlen(key));
    return status;
}

static berth_status read_u32(struct reading *reading, const char *key, uint32_t otherwise, uint32_t *out)
{
    return read_up_to(reading, key, otherwise, COUNT_MAX, out);
}

/* Missing is an error. */
static berth_status need_u32(struct reading *reading, const char *key, uint32_t *out)
{
    TRY(read_u32(reading, key, 0, out));
    if (*out > 0) {
        return BERTH_OK;
    }
    berth_status status =
        error_set(reading->err, BERTH_ERR_FORMAT, "\"%s\" is missing or 0, so the cache has no size", key);
    error_at_object(reading->err, key, strlen(key));
    return status;
}

static berth_status read_geometry(struct reading *reading)
{
    uint32_t window = 0;
    TRY(read_up_to(reading, "hidden_size", 0, WIDE_MAX, &reading->hidden));
    TRY(read_u32(reading, "num_attention_heads", 0, &reading->heads));
    TRY(read_u32(reading, "num_key_value_heads", reading->heads, &reading->kv_heads));
    uint32_t divided = reading->heads > 0 ? reading->hidden / reading->heads : 0;
    divided = divided <= COUNT_MAX ? divided : 0; /* no head is that wide: missing */
    TRY(read_u32(reading, "head_dim", divided, &reading->head_dim));
    TRY(read_u32(reading, "v_head_dim", reading->head_dim, &reading->v_head_dim));
    TRY(read_u32(reading, "num_global_key_value_heads", reading->kv_heads, &reading->global_kv_heads));
    TRY(read_u32(reading, "global_head_dim", reading->head_dim, &reading->global_head_dim));
    TRY(read_up_to(reading, "sliding_window", 0, WIDE_MAX, &window));
    TRY(read_up_to(reading, "attention_chunk_size", window, WIDE_MAX, &window));
    reading->window = window;
    return BERTH_OK;
}

/* ---- one layer -------------------------------------------------------------------------------------- */

static void set_full(const struct reading *reading, struct layer *layer)
{
    layer->cache = LAYER_FULL;
    layer->k_elems = reading->global_kv_heads * reading->global_head_dim;
    layer->v_elems = reading->global_kv_heads *
                     (reading->global_head_dim != reading->head_dim ? reading->global_head_dim : reading->v_head_dim);
}

static void set_windowed(const struct reading *reading, struct layer *layer, enum layer_cache cache)
{
    if (reading->window == 0) {
        set_full(reading, layer); /* no window: nothing slides out */
        return;
    }
    layer->cache = cache;
    layer->k_elems = reading->kv_heads * reading->head_dim;
    layer->v_elems = reading->kv_heads * reading->v_head_dim;
    layer->window = reading->window;
}

static berth_status set_delta(struct reading *reading, struct layer *layer)
{
    uint32_t value_heads;
    uint32_t key_heads;
    uint32_t value_dim;
    uint32_t key_dim;
    uint32_t kernel;
    TRY(need_u32(reading, "linear_num_value_heads", &value_heads));
    TRY(need_u32(reading, "linear_num_key_heads", &key_heads));
    TRY(need_u32(reading, "linear_value_head_dim", &value_dim));
    TRY(need_u32(reading, "linear_key_head_dim", &key_dim));
    TRY(need_u32(reading, "linear_conv_kernel_dim", &kernel));
    uint64_t inner = (uint64_t)value_heads * value_dim;
    layer->conv_elems = (kernel - 1) * (inner + 2 * (uint64_t)key_heads * key_dim);
    layer->state_elems = inner * key_dim;
    return BERTH_OK;
}

/* Inner width of a mamba block: said outright, or heads x dim, or a multiple of the hidden size. */
static berth_status mamba_inner(struct reading *reading, uint64_t *inner)
{
    static const char *const head_keys[][2] = {{"mamba_num_heads", "mamba_head_dim"},
                                               {"mamba_n_heads", "mamba_d_head"}};
    uint32_t a;
    uint32_t b;
    TRY(read_u32(reading, "mamba_d_ssm", 0, &a));
    *inner = a;
    for (size_t i = 0; i < 2 && *inner == 0; i++) {
        TRY(read_u32(reading, head_keys[i][0], 0, &a));
        TRY(read_u32(reading, head_keys[i][1], 0, &b));
        *inner = (uint64_t)a * b;
    }
    if (*inner == 0) {
        TRY(need_u32(reading, "mamba_expand", &a));
        *inner = (uint64_t)a * reading->hidden;
    }
    return BERTH_OK;
}

static berth_status set_mamba(struct reading *reading, struct layer *layer)
{
    uint64_t inner;
    uint32_t state = 0;
    uint32_t kernel = 0;
    uint32_t groups = 0;
    TRY(mamba_inner(reading, &inner));
    TRY(read_u32(reading, "ssm_state_size", 0, &state));
    TRY(state > 0 ? BERTH_OK : need_u32(reading, "mamba_d_state", &state));
    TRY(read_u32(reading, "conv_kernel", 0, &kernel));
    TRY(kernel > 0 ? BERTH_OK : need_u32(reading, "mamba_d_conv", &kernel));
    TRY(read_u32(reading, "mamba_n_groups", 0, &groups));
    TRY(read_u32(reading, "n_groups", groups, &groups));
    layer->conv_elems = (kernel - 1) * (inner + 2 * (uint64_t)groups * state);
    layer->state_elems = inner * state;
    return BERTH_OK;
}

static berth_status set_conv(struct reading *reading, struct layer *layer)
{
    uint32_t kernel;
    TRY(need_u32(reading, "conv_L_cache", &kernel));
    layer->conv_elems = (uint64_t)(kernel - 1) * reading->hidden;
    return BERTH_OK;
}

static berth_status set_latent(struct reading *reading, struct layer *layer)
{
    uint32_t rank;
    uint32_t rope;
    TRY(need_u32(reading, "kv_lora_rank", &rank));
    TRY(need_u32(reading, "qk_rope_head_dim", &rope));
    layer->cache = LAYER_LATENT;
    layer->k_elems = rank + rope;
    return BERTH_OK;
}

/* By the name in layer_types. An unknown name leaves nothing and makes the table a lower bound. */
static berth_status set_named(struct reading *reading, struct layer *layer, berth_text name)
{
    struct str type = {name.ptr, name.bytes};
    if (str_is(type, "full_attention") || str_is(type, "attention")) {
        set_full(reading, layer);
    } else if (str_is(type, "sliding_attention")) {
        set_windowed(reading, layer, LAYER_SLIDING);
    } else if (str_is(type, "chunked_attention")) {
        set_windowed(reading, layer, LAYER_CHUNKED);
    } else if (str_is(type, "linear_attention") && reading->family != NULL && reading->family->style == STYLE_DELTA) {
        return set_delta(reading, layer);
    } else if (str_is(type, "mamba")) {
        return set_mamba(reading, layer);
    } else if (str_is(type, "conv")) {
        return set_conv(reading, layer);
    } else {
        reading->out->is_known = false;
    }
    return BERTH_OK;
}

/* ---- all of them ------------------------------------------------------------------------------------ */

static berth_status read_named(struct reading *reading, bool *found)
{
    const berth_text *types = NULL;
    size_t count = 0;
    struct json value;
    *found = seed_find(&reading->text, "layer_types", &value);
    if (!*found) {
        return BERTH_OK;
    }
    TRY(seed_texts(&reading->text, "layer_types", LAYERS_MAX, reading->arena, &types, &count, found, reading->err));
    if (count != reading->out->count) {
        return error_set(reading->err, BERTH_ERR_FORMAT, "\"layer_types\" has %zu items for %u layers", count,
                         (unsigned)reading->out->count);
    }
    for (size_t i = 0; i < count; i++) {
        TRY(set_named(reading, &reading->out->items[i], types[i]));
    }
    return BERTH_OK;
}

static berth_status read_letters(struct reading *reading)
{
    berth_text letters = {NULL, 0};
    TRY(seed_text(&reading->text, "hybrid_override_pattern", reading->arena, &letters, reading->err));
    if (letters.bytes != reading->out->count) {
        return error_set(reading->err, BERTH_ERR_FORMAT, "\"hybrid_override_pattern\" has %zu letters for %u layers",
                         letters.bytes, (unsigned)reading->out->count);
    }
    for (size_t i = 0; i < letters.bytes; i++) {
        struct layer *layer = &reading->out->items[i];
        if (letters.ptr[i] == 'M') {
            TRY(set_mamba(reading, layer));
        } else if (letters.ptr[i] == '*') {
            set_full(reading, layer);
        } else if (letters.ptr[i] != '-' && letters.ptr[i] != 'E') {
            reading->out->is_known = false;
        }
    }
    return BERTH_OK;
}

/* Full attention at the listed layers, the family's other kind elsewhere. */
static berth_status read_conv(struct reading *reading)
{
    struct seed_numbers full;
    TRY(seed_numbers(&reading->text, "full_attn_idxs", LAYERS_MAX, reading->arena, &full, reading->err));
    for (uint32_t i = 0; i < reading->out->count; i++) {
        bool is_full = false;
        for (size_t k = 0; k < full.count; k++) {
            is_full = is_full || full.items[k] == (double)i;
        }
        if (is_full) {
            set_full(reading, &reading->out->items[i]);
        } else {
            TRY(set_conv(reading, &reading->out->items[i]));
        }
    }
    return BERTH_OK;
}

/* Each block's attention: absent ("no_op", "replace_with_linear"), or grouped by n_heads_in_group. */
static berth_status read_blocks(struct reading *reading)
{
    struct json list;
    if (!seed_find(&reading->text, "block_configs", &list) || list.token.kind != JSON_ARRAY_BEGIN) {
        return error_set(reading->err, BERTH_ERR_FORMAT, "\"block_configs\" is no list");
    }
    for (uint32_t i = 0; i < reading->out->count; i++) {
        struct json block = list;
        if (json_next(&block) != JSON_OBJECT_BEGIN) {
            return error_set(reading->err, BERTH_ERR_FORMAT, "\"block_configs\" has fewer objects than layers");
        }
        list = block;
        json_skip(&list);
        struct seed_scope inside = {{block.ptr + block.token.offset, list.at - (size_t)block.token.offset},
                                    "attention"};
        struct json group;
        double size = 0;
        if (!seed_find(&inside, "n_heads_in_group", &group)) {
            continue;
        }
        TRY(seed_number(&inside, "n_heads_in_group", &size, NULL, reading->err));
        if (!(size >= 1 && size <= reading->heads && size == floor(size))) {
            return error_set(reading->err, BERTH_ERR_FORMAT, "\"n_heads_in_group\" is %g for %u heads", size,
                             (unsigned)reading->heads);
        }
        struct layer *layer = &reading->out->items[i];
        layer->cache = LAYER_FULL;
        layer->k_elems = layer->v_elems = reading->heads / (uint32_t)size * reading->head_dim;
    }
    return BERTH_OK;
}

static berth_status set_by_style(struct reading *reading, uint32_t i, uint32_t period, uint32_t offset)
{
    struct layer *layer = &reading->out->items[i];
    bool full = period > 0 && (i + 1) % period == 0;
    switch (reading->family->style) {
    case STYLE_SLIDING:
    case STYLE_CHUNKED:
        if (full) {
            set_full(reading, layer);
        } else {
            set_windowed(reading, layer, reading->family->style == STYLE_CHUNKED ? LAYER_CHUNKED : LAYER_SLIDING);
        }
        return BERTH_OK;
    case STYLE_DELTA:
        if (full) {
            set_full(reading, layer);
            return BERTH_OK;
        }
        return set_delta(reading, layer);
    case STYLE_LATENT:
        return set_latent(reading, layer);
    case STYLE_PERIODIC:
        if (period > 0 && i % period == offset) {
            set_full(reading, layer);
            return BERTH_OK;
        }
        return set_mamba(reading, layer);
    case STYLE_MAMBA_TOO:
        set_full(reading, layer);
        return set_mamba(reading, layer);
    case STYLE_PLAIN:
    case STYLE_CONV:
    case STYLE_LETTERS:
    case STYLE_BLOCKS:
    default:
        set_full(reading, layer);
        return BERTH_OK;
    }
}

static berth_status read_styled(struct reading *reading)
{
    const struct family_row *family = reading->family;
    uint32_t period = family->period;
    uint32_t offset = 0;
    if (family->style == STYLE_LETTERS) {
        return read_letters(reading);
    }
    if (family->style == STYLE_CONV) {
        return read_conv(reading);
    }
    if (family->style == STYLE_BLOCKS) {
        return read_blocks(reading);
    }
    if (family->period_key != NULL) {
        TRY(read_u32(reading, family->period_key, period, &period));
    }
    if (family->style == STYLE_PERIODIC) {
        TRY(need_u32(reading, "attn_layer_period", &period));
        TRY(read_u32(reading, "attn_layer_offset", 0, &offset));
    }
    for (uint32_t i = 0; i < reading->out->count; i++) {
        TRY(set_by_style(reading, i, period, offset));
    }
    return BERTH_OK;
}

/* The trailing shared layers use the cache of the last earlier layer of their kind. */
static berth_status share(struct reading *reading)
{
    uint32_t shared = 0;
    struct layers *out = reading->out;
    TRY(read_u32(reading, "num_kv_shared_layers", 0, &shared));
    for (uint32_t i = 0; i < out->count; i++) {
        out->items[i].owner = i;
    }
    uint32_t first = shared < out->count ? out->count - shared : 0;
    for (uint32_t i = first; shared > 0 && i < out->count; i++) {
        for (uint32_t k = first; k > 0; k--) {
            if (out->items[k - 1].cache == out->items[i].cache) {
                out->items[i].owner = k - 1;
                break;
            }
        }
    }
    return BERTH_OK;
}

/* A layer with an attention cache of no size means that a dimension is missing. */
static berth_status check(struct reading *reading)
{
    for (uint32_t i = 0; i < reading->out->count; i++) {
        const struct layer *layer = &reading->out->items[i];
        if (layer->cache != LAYER_NO_CACHE && layer->k_elems == 0) {
            return error_set(reading->err, BERTH_ERR_FORMAT,
                             "num_key_value_heads or head_dim is missing or 0, so the cache of layer %u has no size",
                             (unsigned)i);
        }
    }
    return BERTH_OK;
}

static const struct family_row *find_family(berth_text type)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (str_is((struct str){type.ptr, type.bytes}, rows[i].model_type)) {
            return &rows[i];
        }
    }
    return NULL;
}

berth_status layers_read(struct str config_json, struct arena *arena, struct layers *out, berth_error *err)
{
    struct reading reading = {.text = {config_json, NULL}, .out = out, .arena = arena, .err = err};
    struct json value;
    berth_text type = {NULL, 0};
    bool named;
    *out = (struct layers){.is_known = true};
    TRY(seed_text(&reading.text, "model_type", arena, &type, err));
    reading.family = find_family(type);
    out->is_known = reading.family != NULL;
    snprintf(out->family, sizeof out->family, "%.*s", (int)(type.bytes < 63 ? type.bytes : 63),
             type.bytes > 0 ? type.ptr : "");
    if (seed_find(&reading.text, "text_config", &value)) {
        reading.text.inside = "text_config";
    }
    TRY(need_u32(&reading, "num_hidden_layers", &out->count));
    if (out->count > LAYERS_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "\"num_hidden_layers\" is %u, the limit is %d", (unsigned)out->count,
                         LAYERS_MAX);
    }
    out->items = ARENA_NEW(arena, struct layer, out->count);
    TRY(arena_check(arena, "the layer table", err));
    memset(out->items, 0, out->count * sizeof *out->items);
    TRY(read_geometry(&reading));
    TRY(read_named(&reading, &named));
    if (!named && reading.family != NULL) {
        TRY(read_styled(&reading));
    }
    TRY(share(&reading));
    return check(&reading);
}
