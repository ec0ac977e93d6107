/* SPDX-License-Identifier: MIT
 * Which layer is what: the lists that configurations have, each in its own dialect, and the arrays of GGUF. */
#include <stdio.h>

#include "family/shape_rows.h"

/* ---- names ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    enum layer_kind kind;
    enum shape_state state; /* SHAPE_NO_STATE with KIND_STATE: the family's */
} names[] = {
    {"full_attention", KIND_FULL, SHAPE_NO_STATE},
    {"attention", KIND_FULL, SHAPE_NO_STATE},
    {"deepseek_sparse_attention", KIND_FULL, SHAPE_NO_STATE},
    {"indexed_attention", KIND_FULL, SHAPE_NO_STATE},
    {"global_attention", KIND_FULL, SHAPE_NO_STATE},
    {"sliding_attention", KIND_WINDOW, SHAPE_NO_STATE},
    {"local_attention", KIND_WINDOW, SHAPE_NO_STATE},
    {"chunked_attention", KIND_CHUNK, SHAPE_NO_STATE},
    {"linear_attention", KIND_STATE, SHAPE_NO_STATE},
    {"kda", KIND_STATE, SHAPE_KDA},
    {"mamba", KIND_STATE, SHAPE_MAMBA},
    {"mamba2", KIND_STATE, SHAPE_MAMBA},
    {"conv", KIND_STATE, SHAPE_CONV},
    {"hybrid", KIND_BOTH, SHAPE_MAMBA},
    {"compressed_sparse_attention", KIND_CSA, SHAPE_COMPRESSOR},
    {"heavily_compressed_attention", KIND_HCA, SHAPE_COMPRESSOR},
    {"moe", KIND_NONE, SHAPE_NO_STATE},
    {"mlp", KIND_NONE, SHAPE_NO_STATE},
    {"none", KIND_NONE, SHAPE_NO_STATE},
};

static void set_kind(struct shape_reading *r, uint32_t layer, enum layer_kind kind, enum shape_state state)
{
    r->kinds[layer] = (uint8_t)kind;
    if (state == SHAPE_NO_STATE && (kind == KIND_STATE || kind == KIND_BOTH) && r->row != NULL) {
        state = r->row->state;
    }
    r->states[layer] = (uint8_t)state;
    if ((kind == KIND_STATE || kind == KIND_BOTH) && state == SHAPE_NO_STATE) {
        shape_doubt(r->out, "layer %u is recurrent in a way this version does not know", (unsigned)layer);
    }
}

static berth_status too_short(struct shape_reading *r, const char *key, uint64_t items)
{
    berth_status status = error_set(r->source.err, BERTH_ERR_FORMAT, "\"%s\" has %llu items for %lu layers", key,
                                    (unsigned long long)items, (unsigned long)r->out->count);
    error_at_object(r->source.err, key, strlen(key));
    if (r->source.path != NULL) {
        error_at_path(r->source.err, r->source.path);
    }
    return status;
}

/* Lists go on for blocks that predict further tokens, of which there may be one that the configuration does not count.
 * What is longer is of another model: which of the two numbers is right, nobody knows. */
berth_status shape_check_length(struct shape_reading *r, const char *key, uint64_t items)
{
    uint32_t more = r->out->mtp_count > 0 ? r->out->mtp_count : 1;
    if (items > r->out->count + more) {
        shape_doubt(r->out, "\"%s\" has %llu items for %lu layers", key, (unsigned long long)items,
                    (unsigned long)r->out->count);
    }
    return items >= r->out->count ? BERTH_OK : too_short(r, key, items);
}

/* A list with an item for each layer; each is handed to `take`. */
typedef berth_status take_item(struct shape_reading *r, uint32_t layer, const char *key, struct json *item);

static berth_status each_item(struct shape_reading *r, const char *key, struct json list, take_item *take)
{
    uint32_t layer = 0;
    if (list.token.kind != JSON_ARRAY_BEGIN) {
        return source_wrong(&r->source, key, &list, "a list");
    }
    while (json_next(&list) != JSON_ARRAY_END) {
        struct json item = list;
        if (layer < r->out->count) {
            TRY(take(r, layer, key, &item));
        }
        json_skip(&list);
        layer++;
    }
    return shape_check_length(r, key, layer);
}

/* DeepSeek-V4 beside layer_types: how many positions make one, by the name of the layer. */
static berth_status check_rates(struct shape_reading *r)
{
    static const struct {
        const char *key, *alone;
        uint32_t rate;
    } rows[] = {{"compressed_sparse_attention", "compress_rate_csa", 4},
                {"heavily_compressed_attention", "compress_rate_hca", 128}};
    struct json rates;
    struct json value;
    bool dict = source_find(&r->source, "compress_rates", &rates);
    if (dict && rates.token.kind != JSON_OBJECT_BEGIN) {
        return source_wrong(&r->source, "compress_rates", &rates, "an object");
    }
    for (size_t i = 0; i < 2; i++) {
        uint32_t rate = rows[i].rate;
        if (dict && source_inside(&rates, rows[i].key, &value)) {
            TRY(source_json_u32(&r->source, rows[i].key, &value, 1 << 20, &rate));
        }
        if (source_find(&r->source, rows[i].alone, &value)) {
            TRY(source_json_u32(&r->source, rows[i].alone, &value, 1 << 20, &rate));
        }
        if (rate != rows[i].rate) {
            shape_doubt(r->out, "a compression of %u is not known to this version", (unsigned)rate);
        }
    }
    return BERTH_OK;
}

static berth_status take_name(struct shape_reading *r, uint32_t layer, const char *key, struct json *item)
{
    if (item->token.kind != JSON_STRING) {
        return source_wrong(&r->source, key, item, "a list of strings");
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (json_token_is(&item->token, names[i].name)) {
            set_kind(r, layer, names[i].kind, names[i].state);
            r->out->layers[layer].is_moe = json_token_is(&item->token, "moe");
            return BERTH_OK;
        }
    }
    r->kinds[layer] = KIND_NONE;
    shape_doubt(r->out, "layers of type \"%.*s\" are not known to this version",
                (int)(item->token.raw.bytes < 60 ? item->token.raw.bytes : 60), item->token.raw.ptr);
    return BERTH_OK;
}

static berth_status read_names(struct shape_reading *r, const char *key, const struct json *value)
{
    TRY(each_item(r, key, *value, take_name));
    return r->row != NULL && r->row->pattern == PATTERN_COMPRESSED ? check_rates(r) : BERTH_OK;
}

/* ---- other dialects --------------------------------------------------------------------------------- */

/* M mamba, * attention, - and E feed-forward. */
static berth_status read_letters(struct shape_reading *r, const char *key, const struct json *value)
{
    if (value->token.kind == JSON_ARRAY_BEGIN) {
        return read_names(r, key, value);
    }
    if (value->token.kind != JSON_STRING) {
        return source_wrong(&r->source, key, value, "a string of M, *, - and E");
    }
    struct str text = value->token.raw;
    uint32_t layer = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.ptr[i];
        if (c == '|') {
            continue; /* where devices may share the layers out */
        }
        if (layer < r->out->count) {
            set_kind(r, layer, c == 'M' ? KIND_STATE : c == '*' ? KIND_FULL : KIND_NONE, SHAPE_NO_STATE);
            r->out->layers[layer].is_moe = c == 'E';
        }
        if (c != 'M' && c != '*' && c != '-' && c != 'E') {
            shape_doubt(r->out, "layers of type '%c' are not known to this version", c >= 32 && c < 127 ? c : '?');
        }
        layer++;
    }
    return shape_check_length(r, key, layer);
}

static berth_status take_block(struct shape_reading *r, uint32_t layer, const char *key, struct json *item)
{
    struct json attention;
    struct json member;
    uint32_t group = 0;
    r->kinds[layer] = KIND_NONE;
    if (item->token.kind != JSON_OBJECT_BEGIN) {
        return source_wrong(&r->source, key, item, "a list of objects");
    }
    if (!source_inside(item, "attention", &attention)) {
        return BERTH_OK;
    }
    if ((source_inside(&attention, "no_op", &member) && member.token.kind == JSON_TRUE) ||
        (source_inside(&attention, "replace_with_linear", &member) && member.token.kind == JSON_TRUE)) {
        return BERTH_OK;
    }
    if (source_inside(&attention, "n_heads_in_group", &member)) {
        TRY(source_json_u32(&r->source, "n_heads_in_group", &member, 65535, &group));
    }
    r->kinds[layer] = KIND_FULL;
    r->kv_heads[layer] = group > 0 ? r->out->number[SHAPE_HEADS] / group : 0;
    return BERTH_OK;
}

static berth_status read_blocks(struct shape_reading *r, const char *key, const struct json *value)
{
    return each_item(r, key, *value, take_block);
}

static berth_status take_flag(struct shape_reading *r, uint32_t layer, const char *key, struct json *item,
                              enum layer_kind zero, enum layer_kind one)
{
    uint32_t flag;
    TRY(source_json_u32(&r->source, key, item, 1, &flag));
    set_kind(r, layer, flag == 0 ? zero : one, SHAPE_NO_STATE);
    return BERTH_OK;
}

static berth_status take_softmax(struct shape_reading *r, uint32_t layer, const char *key, struct json *item)
{
    return take_flag(r, layer, key, item, KIND_STATE, KIND_FULL);
}

/* MiniMax: 1 is softmax attention. M2 has the key and nothing but ones. */
static berth_status read_attn_types(struct shape_reading *r, const char *key, const struct json *value)
{
    return each_item(r, key, *value, take_softmax);
}

static berth_status take_hybrid(struct shape_reading *r, uint32_t layer, const char *key, struct json *item)
{
    return take_flag(r, layer, key, item, KIND_FULL, KIND_WINDOW);
}

static berth_status read_hybrid(struct shape_reading *r, const char *key, const struct json *value)
{
    return each_item(r, key, *value, take_hybrid);
}

static berth_status take_rope(struct shape_reading *r, uint32_t layer, const char *key, struct json *item)
{
    return take_flag(r, layer, key, item, KIND_FULL, KIND_CHUNK);
}

/* Llama 4: layers without RoPE attend to everything. An empty list means the interval. */
static berth_status read_no_rope(struct shape_reading *r, const char *key, const struct json *value)
{
    struct json list = *value;
    if (list.token.kind == JSON_ARRAY_BEGIN && json_next(&list) == JSON_ARRAY_END) {
        return BERTH_ERR_NOT_FOUND;
    }
    return each_item(r, key, *value, take_rope);
}

static berth_status take_ratio(struct shape_reading *r, uint32_t layer, const char *key, struct json *item)
{
    uint32_t ratio;
    TRY(source_json_u32(&r->source, key, item, 1 << 20, &ratio));
    set_kind(r, layer, ratio == 4 ? KIND_CSA : ratio == 128 ? KIND_HCA : KIND_WINDOW, SHAPE_COMPRESSOR);
    if (ratio > 1 && ratio != 4 && ratio != 128) {
        shape_doubt(r->out, "a compression of %u is not known to this version", (unsigned)ratio);
    }
    return BERTH_OK;
}

static berth_status read_ratios(struct shape_reading *r, const char *key, const struct json *value)
{
    return each_item(r, key, *value, take_ratio);
}

/* Layer numbers from `first` on; the others keep what they are. */
static berth_status mark(struct shape_reading *r, const char *key, struct json list, uint32_t first,
                         enum layer_kind kind)
{
    if (list.token.kind != JSON_ARRAY_BEGIN) {
        return source_wrong(&r->source, key, &list, "a list of layer numbers");
    }
    while (json_next(&list) != JSON_ARRAY_END) {
        uint32_t layer;
        TRY(source_json_u32(&r->source, key, &list, SHAPE_LAYERS_MAX, &layer));
        if (layer < first || layer - first >= r->out->count) {
            berth_status status = error_set(r->source.err, BERTH_ERR_FORMAT, "\"%s\" has %lu, but there are %lu layers",
                                            key, (unsigned long)layer, (unsigned long)r->out->count);
            error_at_object(r->source.err, key, strlen(key));
            if (r->source.path != NULL) {
                error_at_path(r->source.err, r->source.path);
            }
            return status;
        }
        set_kind(r, layer - first, kind, SHAPE_NO_STATE);
    }
    return BERTH_OK;
}

static berth_status read_full_layers(struct shape_reading *r, const char *key, const struct json *value)
{
    for (uint32_t i = 0; i < r->out->count; i++) {
        set_kind(r, i, KIND_STATE, SHAPE_NO_STATE);
    }
    return mark(r, key, *value, 0, KIND_FULL);
}

/* Kimi: numbers count from 1. */
static berth_status read_linear_config(struct shape_reading *r, const char *key, const struct json *value)
{
    struct json list;
    if (value->token.kind != JSON_OBJECT_BEGIN) {
        return source_wrong(&r->source, key, value, "an object");
    }
    if (!source_inside(value, "full_attn_layers", &list)) {
        return BERTH_ERR_NOT_FOUND;
    }
    for (uint32_t i = 0; i < r->out->count; i++) {
        set_kind(r, i, KIND_STATE, SHAPE_NO_STATE);
    }
    return mark(r, "full_attn_layers", list, 1, KIND_FULL);
}

typedef berth_status read_list(struct shape_reading *r, const char *key, const struct json *value);

static const struct {
    const char *key;
    read_list *read;
} lists[] = {
    {"layer_types", read_names},
    {"layers_block_type", read_names},
    {"hybrid_override_pattern", read_letters},
    {"block_configs", read_blocks},
    {"attn_type_list", read_attn_types},
    {"hybrid_layer_pattern", read_hybrid},
    {"no_rope_layers", read_no_rope},
    {"compress_ratios", read_ratios},
    {"linear_attn_config", read_linear_config},
    {"full_attn_idxs", read_full_layers},
    {"attn_layer_indices", read_full_layers},
};

berth_status shape_read_lists(struct shape_reading *r, bool *found)
{
    *found = false;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0] && !*found; i++) {
        struct json value;
        if (source_find(&r->source, lists[i].key, &value)) {
            berth_status status = lists[i].read(r, lists[i].key, &value);
            *found = status == BERTH_OK;
            if (status != BERTH_OK && status != BERTH_ERR_NOT_FOUND) {
                return status;
            }
        }
    }
    return BERTH_OK;
}

/* ---- GGUF ------------------------------------------------------------------------------------------- */

static berth_status read_windows(struct shape_reading *r)
{
    static const struct shape_key pattern_key = {{NULL}, "attention.sliding_window_pattern", 65535};
    uint32_t *pattern = ARENA_NEW(r->arena, uint32_t, r->all);
    uint32_t period = r->row->period;
    bool found;
    TRY(arena_check(r->arena, "memory for the layer table", r->source.err));
    TRY(source_list(&r->source, &pattern_key, r->all, pattern, &found));
    bool list = false;
    for (uint32_t i = 1; found && i < r->all; i++) {
        list = list || pattern[i] != pattern[0];
    }
    list = found && (list || pattern[0] <= 1); /* one number for all: a period, unless it is 0 or 1 */
    period = found && !list ? pattern[0] : period;
    for (uint32_t i = 0; i < r->all; i++) {
        bool full = period > 0 && ((r->row->flags & SHAPE_FULL_FIRST) != 0 ? i % period == 0 : (i + 1) % period == 0);
        bool windowed = list ? pattern[i] != 0 : i < r->out->count && !full;
        if (r->kinds[i] == KIND_FULL && windowed) {
            r->kinds[i] = (r->row->flags & SHAPE_CHUNKS) != 0 ? KIND_CHUNK : KIND_WINDOW;
        }
    }
    return BERTH_OK;
}

static berth_status read_states(struct shape_reading *r)
{
    static const struct shape_key recurrent_key = {{NULL}, "attention.recurrent_layers", 1};
    const uint32_t *number = r->out->number;
    uint32_t *recurrent = ARENA_NEW(r->arena, uint32_t, r->all);
    uint32_t period = number[SHAPE_INTERVAL] > 0 ? number[SHAPE_INTERVAL] : r->row->period;
    enum shape_pattern pattern = r->row->pattern;
    bool found;
    TRY(arena_check(r->arena, "memory for the layer table", r->source.err));
    TRY(source_list(&r->source, &recurrent_key, r->all, recurrent, &found));
    for (uint32_t i = 0; i < r->out->count; i++) {
        bool state = found                          ? recurrent[i] != 0
                     : pattern == PATTERN_ALL_STATE ? true
                     : pattern == PATTERN_STATE     ? period > 0 && (i + 1) % period != 0
                     : pattern == PATTERN_LETTERS   ? r->kv_heads[i] == 0 && r->ffn[i] == 0
                                                    : r->kv_heads[i] == 0;
        if (pattern == PATTERN_BOTH) {
            set_kind(r, i, KIND_BOTH, SHAPE_NO_STATE);
        } else if (state) {
            set_kind(r, i, KIND_STATE, SHAPE_NO_STATE);
        }
    }
    return BERTH_OK;
}

static berth_status read_compress(struct shape_reading *r)
{
    static const struct shape_key ratios_key = {{NULL}, "attention.compress_ratios", 1 << 20};
    uint32_t *ratios = ARENA_NEW(r->arena, uint32_t, r->all);
    bool found;
    TRY(arena_check(r->arena, "memory for the layer table", r->source.err));
    TRY(source_list(&r->source, &ratios_key, r->out->count, ratios, &found));
    if (!found) {
        shape_doubt(r->out, "attention.compress_ratios is missing");
    }
    for (uint32_t i = 0; i < r->out->count; i++) {
        uint32_t ratio = found ? ratios[i] : 0;
        set_kind(r, i, ratio == 4 ? KIND_CSA : ratio == 128 ? KIND_HCA : KIND_WINDOW, SHAPE_COMPRESSOR);
    }
    return BERTH_OK;
}

berth_status shape_read_arrays(struct shape_reading *r)
{
    for (uint32_t i = 0; i < r->all; i++) {
        r->kinds[i] = r->kv_heads[i] > 0 ? KIND_FULL : KIND_NONE;
    }
    if (r->row == NULL || r->row->flags & SHAPE_NO_CACHE_AT_ALL) {
        memset(r->kinds, KIND_NONE, r->all);
        return BERTH_OK;
    }
    switch (r->row->pattern) {
    case PATTERN_WINDOW:
        return read_windows(r);
    case PATTERN_COMPRESSED:
        return read_compress(r);
    case PATTERN_STATE:
    case PATTERN_STATE_HEADS:
    case PATTERN_LETTERS:
    case PATTERN_JAMBA:
    case PATTERN_BOTH:
    case PATTERN_ALL_STATE:
    case PATTERN_GROUPS:
        return read_states(r);
    case PATTERN_FULL:
    default:
        return BERTH_OK;
    }
}
