/* SPDX-License-Identifier: MIT
 * config.json, kv_config.json and generation_config.json to a berth_fit_config. */
#include "fit/seed_config.h"

#include <math.h>

/* Keys read the same way in every dialect but one. `diffusion` is that dialect's default: its files name no
 * dimensions. */
struct number_row {
    berth_fit_field field;
    const char *key;
    double plain, diffusion; /* NaN: no default */
};

static const struct number_row number_rows[] = {
    {BERTH_FIT_HIDDEN_SIZE, "hidden_size", (double)NAN, 2816},
    {BERTH_FIT_LAYERS, "num_hidden_layers", (double)NAN, 30},
    {BERTH_FIT_HEADS, "num_attention_heads", (double)NAN, 16},
    {BERTH_FIT_KV_HEADS, "num_key_value_heads", (double)NAN, 8},
    {BERTH_FIT_INTERMEDIATE_SIZE, "intermediate_size", (double)NAN, 2112},
    {BERTH_FIT_RMS_NORM_EPS, "rms_norm_eps", (double)NAN, 1e-6},
    {BERTH_FIT_VOCAB_SIZE, "vocab_size", (double)NAN, 262144},
    {BERTH_FIT_MAX_POSITIONS, "max_position_embeddings", (double)NAN, 262144},
    {BERTH_FIT_SLIDING_WINDOW, "sliding_window", 0, 1024},
    {BERTH_FIT_PER_LAYER_INPUT, "hidden_size_per_layer_input", 0, 0},
    {BERTH_FIT_KV_SHARED_LAYERS, "num_kv_shared_layers", 0, 0},
    {BERTH_FIT_EXPERTS, "num_experts", 0, 128},
    {BERTH_FIT_MOE_INTERMEDIATE_SIZE, "moe_intermediate_size", 0, 704},
    {BERTH_FIT_SPARSE_STEP, "decoder_sparse_step", 1, 1},
    {BERTH_FIT_LINEAR_VALUE_HEADS, "linear_num_value_heads", 0, 0},
    {BERTH_FIT_LINEAR_KEY_HEADS, "linear_num_key_heads", 0, 0},
    {BERTH_FIT_LINEAR_KEY_HEAD_DIM, "linear_key_head_dim", 0, 0},
    {BERTH_FIT_LINEAR_VALUE_HEAD_DIM, "linear_value_head_dim", 0, 0},
    {BERTH_FIT_LINEAR_CONV_KERNEL, "linear_conv_kernel_dim", 0, 0},
    {BERTH_FIT_FULL_ATTENTION_INTERVAL, "full_attention_interval", 0, 0},
    {BERTH_FIT_PARTIAL_ROTARY_FACTOR, "partial_rotary_factor", 1, 1},
};

void seed_set(berth_fit_config *config, berth_fit_field field, double value)
{
    config->number[field] = value;
    config->undefined &= ~((uint64_t)1 << field);
}

void seed_unset(berth_fit_config *config, berth_fit_field field)
{
    config->number[field] = (double)NAN;
    config->undefined |= (uint64_t)1 << field;
}

static bool seed_has(const berth_fit_config *config, berth_fit_field field)
{
    return (config->undefined >> field & 1) == 0;
}

static void seed_copy(berth_fit_config *config, berth_fit_field to, berth_fit_field from)
{
    config->number[to] = config->number[from];
    config->undefined &= ~((uint64_t)1 << to);
    config->undefined |= (config->undefined >> from & 1) << to;
}

static bool is_type(const struct seed_parse *parse, const char *name)
{
    berth_text type = parse->out->model_type;
    return str_is((struct str){type.ptr, type.bytes}, name);
}

static bool is_flat_rope(const struct seed_parse *parse)
{
    berth_text type = parse->out->model_type;
    return str_starts((struct str){type.ptr, type.bytes}, STR("qwen3_5"));
}

/* ---- lists ------------------------------------------------------------------------------------------ */

static const berth_text full_attention = {"full_attention", 14};
static const berth_text sliding_attention = {"sliding_attention", 17};

/* Every `period`-th layer and the last one are full, the others sliding; period 1: all full. */
static berth_status generate_layers(struct seed_parse *parse, double count, size_t period)
{
    if (!(count >= 0 && count <= BERTH_FIT_LAYERS_MAX)) {
        berth_status status =
            error_set(parse->err, BERTH_ERR_LIMIT, "\"num_hidden_layers\" is not between 0 and %d, the limit",
                      BERTH_FIT_LAYERS_MAX);
        error_at_object(parse->err, "num_hidden_layers", 17);
        return status;
    }
    size_t layers = (size_t)count;
    berth_text *types = arena_take(&parse->arena, layers, sizeof *types, sizeof(double));
    TRY(arena_check(&parse->arena, "memory for the configuration", parse->err));
    for (size_t i = 0; i < layers; i++) {
        types[i] = (i + 1) % period == 0 || i + 1 == layers ? full_attention : sliding_attention;
    }
    parse->out->layer_types = types;
    parse->out->layer_types_count = layers;
    return BERTH_OK;
}

berth_status seed_all_full(struct seed_parse *parse, double count)
{
    return generate_layers(parse, count, 1);
}

static berth_status read_layer_types(struct seed_parse *parse)
{
    berth_fit_config *out = parse->out;
    bool found;
    TRY(seed_texts(&parse->text, "layer_types", BERTH_FIT_LAYERS_MAX, &parse->arena, &out->layer_types,
                   &out->layer_types_count, &found, parse->err));
    if (!found && is_type(parse, "llama") && seed_has(out, BERTH_FIT_LAYERS)) {
        return generate_layers(parse, out->number[BERTH_FIT_LAYERS], 1);
    }
    if (!found && is_type(parse, "diffusion_gemma")) {
        return generate_layers(parse, out->number[BERTH_FIT_LAYERS], 6);
    }
    return BERTH_OK;
}

/* A member that the text part may leave to the top level. */
static berth_status read_numbers_of_both(struct seed_parse *parse, const char *key, bool top_first,
                                         struct seed_numbers *out)
{
    TRY(seed_numbers(top_first ? &parse->top : &parse->text, key, SEED_TOKENS_MAX, &parse->arena, out, parse->err));
    if (!out->found) {
        TRY(seed_numbers(top_first ? &parse->text : &parse->top, key, SEED_TOKENS_MAX, &parse->arena, out, parse->err));
    }
    return BERTH_OK;
}

/* Absent in both places, or null in the last one asked: those print differently. */
static void set_absent_or_null(struct seed_parse *parse, berth_fit_field field, const char *key)
{
    const char *keys[] = {key, NULL};
    struct json value;
    seed_unset(parse->out, field);
    if (json_find(parse->top.document, keys, &value)) {
        seed_set(parse->out, field, (double)NAN);
    }
}

berth_status seed_bos_and_eos(struct seed_parse *parse)
{
    berth_fit_config *out = parse->out;
    struct seed_numbers found;
    TRY(read_numbers_of_both(parse, "bos_token_id", false, &found));
    if (found.found && found.count > 0) {
        seed_set(out, BERTH_FIT_BOS_TOKEN, found.items[0]);
    } else {
        set_absent_or_null(parse, BERTH_FIT_BOS_TOKEN, "bos_token_id");
    }
    TRY(read_numbers_of_both(parse, "eos_token_id", false, &found));
    if (found.is_list) {
        out->eos_is_list = true;
        out->eos_list = found.items;
        out->eos_list_count = found.count;
    } else if (found.found) {
        seed_set(out, BERTH_FIT_EOS_TOKEN, found.items[0]);
    } else {
        set_absent_or_null(parse, BERTH_FIT_EOS_TOKEN, "eos_token_id");
    }
    TRY(read_numbers_of_both(parse, "eos_token_id", true, &found));
    if (!found.found) {
        found.items = arena_take(&parse->arena, 1, sizeof *found.items, sizeof *found.items);
        TRY(arena_check(&parse->arena, "memory for the configuration", parse->err));
        found.items[0] = (double)NAN;
        found.count = 1;
    }
    out->eos_token_ids = found.items;
    out->eos_token_ids_count = found.count;
    return BERTH_OK;
}

/* ---- rope ------------------------------------------------------------------------------------------- */

static berth_status take_rope(struct seed_parse *parse, berth_fit_rope **rope)
{
    *rope = arena_take(&parse->arena, SEED_ROPE_MAX, sizeof **rope, sizeof(double));
    return arena_check(&parse->arena, "memory for the configuration", parse->err);
}

berth_status seed_one_rope(struct seed_parse *parse, double theta, berth_text type, double partial)
{
    berth_fit_rope *rope;
    TRY(take_rope(parse, &rope));
    rope[0] = (berth_fit_rope){full_attention, theta, type, partial, 1.0};
    parse->out->rope = rope;
    parse->out->rope_count = 1;
    return BERTH_OK;
}

/* rope_parameters is one flat object. */
static berth_status read_flat_rope(struct seed_parse *parse)
{
    struct json value;
    double theta = 10000;
    double partial = parse->out->number[BERTH_FIT_PARTIAL_ROTARY_FACTOR];
    berth_text type = SEED_TEXT("default");
    TRY(seed_number(&parse->text, "rope_theta", &theta, NULL, parse->err));
    if (seed_find(&parse->text, "rope_parameters", &value)) {
        struct json start = value;
        if (value.token.kind != JSON_OBJECT_BEGIN || !json_skip(&value)) {
            return seed_wrong_type(&start, "rope_parameters", "an object", parse->err);
        }
        struct seed_scope flat = {{start.ptr + start.token.offset, value.at - (size_t)start.token.offset}, NULL};
        TRY(seed_number(&flat, "rope_theta", &theta, NULL, parse->err));
        TRY(seed_number(&flat, "partial_rotary_factor", &partial, NULL, parse->err));
        TRY(seed_text(&flat, "rope_type", &parse->arena, &type, parse->err));
    }
    seed_set(parse->out, BERTH_FIT_PARTIAL_ROTARY_FACTOR, partial);
    return seed_one_rope(parse, theta, type, partial);
}

/* rope_parameters maps attention types to objects; other members are passed over. */
static berth_status read_rope_map(struct seed_parse *parse)
{
    struct json value;
    if (!seed_find(&parse->text, "rope_parameters", &value)) {
        if (!is_type(parse, "diffusion_gemma")) {
            return BERTH_OK;
        }
        static const berth_fit_rope defaults[] = {
            {{"sliding_attention", 17}, 10000, {"default", 7}, 1, 1},
            {{"full_attention", 14}, 1000000, {"proportional", 12}, 0.25, 1},
        };
        parse->out->rope = defaults;
        parse->out->rope_count = 2;
        return BERTH_OK;
    }
    if (value.token.kind != JSON_OBJECT_BEGIN) {
        return seed_wrong_type(&value, "rope_parameters", "an object", parse->err);
    }
    berth_fit_rope *rope;
    TRY(take_rope(parse, &rope));
    size_t count = 0;
    while (json_next(&value) == JSON_KEY) {
        struct json_token key = value.token;
        json_next(&value);
        struct json start = value;
        json_skip(&value);
        if (start.token.kind != JSON_OBJECT_BEGIN) {
            continue;
        }
        if (count == SEED_ROPE_MAX) {
            return error_set(parse->err, BERTH_ERR_LIMIT, "\"rope_parameters\" has more than %d objects, the limit",
                             SEED_ROPE_MAX);
        }
        struct seed_scope inside = {{start.ptr + start.token.offset, value.at - (size_t)start.token.offset}, NULL};
        berth_fit_rope *entry = &rope[count++];
        *entry = (berth_fit_rope){{NULL, 0}, 10000, SEED_TEXT("default"), 1, 1};
        TRY(seed_take_text(&key, &parse->arena, &entry->kind, parse->err));
        TRY(seed_number(&inside, "rope_theta", &entry->theta, NULL, parse->err));
        TRY(seed_text(&inside, "rope_type", &parse->arena, &entry->type, parse->err));
        TRY(seed_number(&inside, "partial_rotary_factor", &entry->partial_rotary_factor, NULL, parse->err));
        TRY(seed_number(&inside, "factor", &entry->factor, NULL, parse->err));
    }
    parse->out->rope = rope;
    parse->out->rope_count = count;
    return BERTH_OK;
}

static berth_status read_rope(struct seed_parse *parse)
{
    if (is_flat_rope(parse)) {
        return read_flat_rope(parse);
    }
    if (is_type(parse, "llama") || is_type(parse, "qwen3")) {
        double theta = 10000;
        TRY(seed_number(&parse->text, "rope_theta", &theta, NULL, parse->err));
        return seed_one_rope(parse, theta, SEED_TEXT("default"), 1);
    }
    return read_rope_map(parse);
}

/* ---- the text part ---------------------------------------------------------------------------------- */

/* Numbers whose default is another number. */
static berth_status read_derived(struct seed_parse *parse)
{
    berth_fit_config *out = parse->out;
    bool diffusion = is_type(parse, "diffusion_gemma");
    bool found;
    double divided = floor(out->number[BERTH_FIT_HIDDEN_SIZE] / out->number[BERTH_FIT_HEADS]);
    double value = diffusion ? 256 : divided;
    bool has_head_dim;
    TRY(seed_number(&parse->text, "head_dim", &value, &has_head_dim, parse->err));
    seed_set(out, BERTH_FIT_HEAD_DIM, value);
    value = diffusion && !has_head_dim ? 512 : value;
    TRY(seed_number(&parse->text, "global_head_dim", &value, NULL, parse->err));
    seed_set(out, BERTH_FIT_GLOBAL_HEAD_DIM, value);

    TRY(seed_number(&parse->text, "num_global_key_value_heads", &value, &found, parse->err));
    if (found) {
        seed_set(out, BERTH_FIT_GLOBAL_KV_HEADS, value);
    } else if (diffusion) {
        seed_set(out, BERTH_FIT_GLOBAL_KV_HEADS, 2);
    } else {
        seed_copy(out, BERTH_FIT_GLOBAL_KV_HEADS, BERTH_FIT_KV_HEADS);
    }
    value = diffusion ? 8 : 0;
    TRY(seed_number(&parse->text, "num_experts_per_tok", &value, NULL, parse->err));
    TRY(seed_number(&parse->text, "top_k_experts", &value, NULL, parse->err));
    seed_set(out, BERTH_FIT_TOP_K, value);
    TRY(seed_number(&parse->text, "vocab_size_per_layer_input", &value, &found, parse->err));
    if (found) {
        seed_set(out, BERTH_FIT_PER_LAYER_VOCAB, value);
    } else {
        seed_copy(out, BERTH_FIT_PER_LAYER_VOCAB, BERTH_FIT_VOCAB_SIZE);
    }
    value = diffusion ? 30 : (double)NAN;
    TRY(seed_number(&parse->text, "final_logit_softcapping", &value, NULL, parse->err));
    seed_set(out, BERTH_FIT_FINAL_LOGIT_SOFTCAP, value);
    return BERTH_OK;
}

static berth_status read_flags(struct seed_parse *parse)
{
    berth_fit_config *out = parse->out;
    bool diffusion = is_type(parse, "diffusion_gemma");
    struct seed_numbers list;
    out->enable_moe_block = diffusion;
    out->tie_word_embeddings = diffusion;
    TRY(seed_bool(&parse->text, "attention_k_eq_v", &out->attention_k_eq_v, parse->err));
    TRY(seed_bool(&parse->text, "enable_moe_block", &out->enable_moe_block, parse->err));
    TRY(seed_bool(&parse->text, "norm_topk_prob", &out->norm_topk_prob, parse->err));
    TRY(seed_bool(&parse->text, "attn_output_gate", &out->attn_output_gate, parse->err));
    TRY(seed_bool(&parse->top, "tie_word_embeddings", &out->tie_word_embeddings, parse->err));
    TRY(seed_bool(&parse->text, "tie_word_embeddings", &out->tie_word_embeddings, parse->err));
    TRY(seed_text(&parse->text, "hidden_act", &parse->arena, &out->hidden_activation, parse->err));
    TRY(seed_text(&parse->text, "hidden_activation", &parse->arena, &out->hidden_activation, parse->err));
    TRY(seed_numbers(&parse->text, "mlp_only_layers", BERTH_FIT_LAYERS_MAX, &parse->arena, &list, parse->err));
    out->mlp_only_layers = list.items;
    out->mlp_only_layers_count = list.count;
    return BERTH_OK;
}

static berth_status check_output_gate(struct seed_parse *parse)
{
    berth_text gate = SEED_TEXT("swish");
    TRY(seed_text(&parse->text, "output_gate_type", &parse->arena, &gate, parse->err));
    if (str_is((struct str){gate.ptr, gate.bytes}, "swish")) {
        return BERTH_OK;
    }
    berth_status status = error_set(parse->err, BERTH_ERR_UNSUPPORTED, "qwen3_5: unverified output_gate_type \"%.*s\"",
                                    (int)(gate.bytes > 200 ? 200 : gate.bytes), gate.ptr);
    error_at_object(parse->err, "output_gate_type", 16);
    return status;
}

static berth_status parse_plain(struct seed_parse *parse)
{
    bool diffusion = is_type(parse, "diffusion_gemma");
    if (is_flat_rope(parse)) {
        TRY(check_output_gate(parse));
    }
    for (size_t i = 0; i < sizeof number_rows / sizeof number_rows[0]; i++) {
        const struct number_row *row = &number_rows[i];
        double value = diffusion ? row->diffusion : row->plain;
        bool found;
        TRY(seed_number(&parse->text, row->key, &value, &found, parse->err));
        if (found || !isnan(value)) {
            seed_set(parse->out, row->field, value);
        } else {
            seed_unset(parse->out, row->field);
        }
    }
    TRY(read_derived(parse));
    TRY(read_flags(parse));
    TRY(read_layer_types(parse));
    TRY(read_rope(parse));
    TRY(seed_bos_and_eos(parse));
    if (diffusion && !seed_has(parse->out, BERTH_FIT_BOS_TOKEN)) {
        seed_set(parse->out, BERTH_FIT_BOS_TOKEN, 2);
    }
    if (diffusion) {
        double canvas = (double)NAN;
        bool found;
        TRY(seed_number(&parse->top, "canvas_length", &canvas, &found, parse->err));
        if (found) {
            seed_set(parse->out, BERTH_FIT_CANVAS_LENGTH, canvas);
        }
    }
    return BERTH_OK;
}

/* ---- outside the text part -------------------------------------------------------------------------- */

/* Nothing of the contract depends on it, so a strange value is passed over. */
static berth_status read_quantization(struct seed_parse *parse, bool own_only)
{
    static const char *const keys[] = {"quantization", "quantization_config"};
    berth_fit_config *out = parse->out;
    berth_error ignored;
    for (size_t i = 0; i < (own_only ? 1u : 2u) && !out->is_quantized; i++) {
        struct seed_scope inside = {parse->top.document, keys[i]};
        struct json value;
        if (!seed_find(&parse->top, keys[i], &value) || value.token.kind != JSON_OBJECT_BEGIN) {
            continue;
        }
        out->is_quantized = true;
        out->quant_bits = out->quant_group_size = (double)NAN;
        out->quant_mode = SEED_TEXT("affine");
        (void)seed_number(&inside, "bits", &out->quant_bits, NULL, &ignored);
        (void)seed_number(&inside, "group_size", &out->quant_group_size, NULL, &ignored);
        if (seed_find(&inside, "mode", &value) && value.token.kind == JSON_STRING) {
            TRY(seed_take_text(&value.token, &parse->arena, &out->quant_mode, parse->err));
        }
    }
    return BERTH_OK;
}

static berth_status read_kv_row(struct json *list, berth_kv_quant *row, berth_error *err)
{
    struct json start = *list;
    if (list->token.kind != JSON_OBJECT_BEGIN || !json_skip(list)) {
        return seed_wrong_type(&start, "kv_config", "a list of objects", err);
    }
    struct seed_scope object = {{start.ptr + start.token.offset, list->at - (size_t)start.token.offset}, NULL};
    static const char *const keys[] = {"layer_idx", "bits", "group_size"};
    double *const values[] = {&row->layer_idx, &row->bits, &row->group_size};
    for (size_t i = 0; i < 3; i++) {
        bool found;
        TRY(seed_number(&object, keys[i], values[i], &found, err));
        if (!found) {
            berth_status status =
                error_set(err, BERTH_ERR_FORMAT, "a row of kv_config.json has no number \"%s\"", keys[i]);
            error_at_object(err, keys[i], strlen(keys[i]));
            error_at_offset(err, start.token.offset);
            return status;
        }
    }
    return BERTH_OK;
}

static berth_status read_kv_config(struct seed_parse *parse, struct str document)
{
    if (document.bytes == 0) {
        return BERTH_OK;
    }
    struct json json;
    json_begin(&json, document);
    if (json_next(&json) != JSON_ARRAY_BEGIN) {
        return json.token.kind == JSON_ERROR ? json_fail(&json, "kv_config.json", parse->err)
                                             : seed_wrong_type(&json, "kv_config", "a list of objects", parse->err);
    }
    struct json start = json;
    size_t count = 0;
    while (json_next(&json) != JSON_ARRAY_END) {
        if (!json_skip(&json)) {
            return json_fail(&json, "kv_config.json", parse->err);
        }
        if (++count > BERTH_FIT_LAYERS_MAX) {
            return error_set(parse->err, BERTH_ERR_LIMIT, "kv_config.json has more than %d rows, the limit",
                             BERTH_FIT_LAYERS_MAX);
        }
    }
    if (json_next(&json) != JSON_END) {
        return json_fail(&json, "kv_config.json", parse->err);
    }
    berth_kv_quant *rows = arena_take(&parse->arena, count, sizeof *rows, sizeof(double));
    TRY(arena_check(&parse->arena, "memory for the configuration", parse->err));
    for (size_t i = 0; i < count; i++) {
        json_next(&start);
        TRY(read_kv_row(&start, &rows[i], parse->err));
    }
    parse->out->has_kv_quant = true;
    parse->out->kv_quant = rows;
    parse->out->kv_quant_count = count;
    return BERTH_OK;
}

static berth_status check_document(const char *name, berth_text document, bool wanted, berth_error *err)
{
    if (document.bytes > BERTH_FIT_DOCUMENT_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "%s has %zu bytes, the limit is %zu", name, document.bytes,
                         BERTH_FIT_DOCUMENT_MAX);
    }
    if (document.bytes == 0) {
        return wanted ? error_set(err, BERTH_ERR_FORMAT, "%s is empty", name) : BERTH_OK;
    }
    struct json json;
    json_begin(&json, (struct str){document.ptr, document.bytes});
    json.allow_nonfinite = true; /* an error where the number is used */
    enum json_kind kind = json_next(&json);
    if (kind == JSON_ERROR || !json_skip(&json) || json_next(&json) != JSON_END) {
        return json_fail(&json, name, err);
    }
    return wanted && kind != JSON_OBJECT_BEGIN ? error_set(err, BERTH_ERR_FORMAT, "%s is not a JSON object", name)
                                               : BERTH_OK;
}

static berth_status find_text_part(struct seed_parse *parse)
{
    struct json value;
    parse->text = parse->top;
    if (seed_find(&parse->top, "text_config", &value)) {
        if (value.token.kind != JSON_OBJECT_BEGIN) {
            return seed_wrong_type(&value, "text_config", "an object", parse->err);
        }
        parse->text.inside = "text_config";
    }
    return BERTH_OK;
}

static berth_status parse_all(struct seed_parse *parse, const berth_fit_source *source)
{
    berth_fit_config *out = parse->out;
    bool found;
    TRY(find_text_part(parse));
    TRY(seed_text(&parse->top, "model_type", &parse->arena, &out->model_type, parse->err));
    TRY(seed_text(&parse->top, "dtype", &parse->arena, &out->dtype, parse->err));
    TRY(seed_texts(&parse->top, "architectures", SEED_ARCHITECTURES_MAX, &parse->arena, &out->architectures,
                   &out->architectures_count, &found, parse->err));
    bool glm = is_type(parse, "glm_moe_dsa");
    TRY(glm ? seed_parse_glm(parse) : parse_plain(parse));
    TRY(read_quantization(parse, glm));
    TRY(read_kv_config(parse, (struct str){source->kv_config_json.ptr, source->kv_config_json.bytes}));
    return arena_check(&parse->arena, "memory for the configuration", parse->err);
}

size_t berth_fit_config_bytes(const berth_fit_source *source)
{
    enum { A_BYTE = 16, ALWAYS = BERTH_FIT_LAYERS_MAX * (int)sizeof(berth_text) + 8192 };
    size_t bytes = 0;
    const berth_text texts[] = {source->config_json, source->kv_config_json, source->generation_config_json};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bytes += texts[i].bytes < BERTH_FIT_DOCUMENT_MAX ? texts[i].bytes : BERTH_FIT_DOCUMENT_MAX;
    }
    return bytes * A_BYTE + ALWAYS;
}

berth_status berth_fit_config_parse(const berth_fit_source *source, void *memory, size_t memory_bytes,
                                    berth_fit_config *out, berth_error *err)
{
    if (source == NULL || memory == NULL || out == NULL || (uintptr_t)memory % sizeof(double) != 0) {
        return error_set(err, BERTH_ERR_ARGUMENT, "a source, aligned memory and a place for the result are needed");
    }
    TRY(check_document("config.json", source->config_json, true, err));
    TRY(check_document("kv_config.json", source->kv_config_json, false, err));
    TRY(check_document("generation_config.json", source->generation_config_json, false, err));
    berth_fit_config config = BERTH_FIT_CONFIG_INIT;
    struct seed_parse parse = {
        .top = {{source->config_json.ptr, source->config_json.bytes}, NULL},
        .out = &config,
        .generation_json = {source->generation_config_json.ptr, source->generation_config_json.bytes},
        .err = err,
    };
    arena_carve(&parse.arena, memory, memory_bytes);
    for (int i = 0; i < BERTH_FIT_FIELDS; i++) {
        seed_unset(&config, (berth_fit_field)i);
    }
    config.dtype = SEED_TEXT("bfloat16");
    config.hidden_activation = SEED_TEXT("gelu_pytorch_tanh");
    config.has_vision_sidecar = source->has_vision_sidecar;
    TRY(parse_all(&parse, source));
    *out = config;
    return BERTH_OK;
}
