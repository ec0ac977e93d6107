/* SPDX-License-Identifier: MIT
 * Types of the members of config.json that running reads. A value of the wrong type is refused here, with file, key,
 * what it is and what is wanted: falling back to a default would run another model. */
#include <stdio.h>

#include "family/hparams.h"
#include "family/shape_source.h"

enum wanted { WANT_NUMBER, WANT_TRUTH, WANT_TEXT, WANT_OBJECT, WANT_LIST };

static const char *const wanted_texts[] = {"a number", "true or false", "a string", "an object", "a list"};

static const struct type_row {
    const char *key;
    enum wanted wanted;
} rows[] = {
    {"num_hidden_layers", WANT_NUMBER},
    {"hidden_size", WANT_NUMBER},
    {"vocab_size", WANT_NUMBER},
    {"max_position_embeddings", WANT_NUMBER},
    {"num_attention_heads", WANT_NUMBER},
    {"num_key_value_heads", WANT_NUMBER},
    {"head_dim", WANT_NUMBER},
    {"intermediate_size", WANT_NUMBER},
    {"rms_norm_eps", WANT_NUMBER},
    {"clip_qkv", WANT_NUMBER},
    {"sliding_window", WANT_NUMBER},
    {"max_window_layers", WANT_NUMBER},
    {"num_experts", WANT_NUMBER},
    {"num_local_experts", WANT_NUMBER},
    {"n_routed_experts", WANT_NUMBER},
    {"num_experts_per_tok", WANT_NUMBER},
    {"moe_intermediate_size", WANT_NUMBER},
    {"shared_expert_intermediate_size", WANT_NUMBER},
    {"rope_theta", WANT_NUMBER},
    {"partial_rotary_factor", WANT_NUMBER},
    {"hidden_act", WANT_TEXT},
    {"tie_word_embeddings", WANT_TRUTH},
    {"norm_topk_prob", WANT_TRUTH},
    {"use_sliding_window", WANT_TRUTH},
    {"layer_types", WANT_LIST},
    {"rope_parameters", WANT_OBJECT},
    {"rope_scaling", WANT_OBJECT},
    {"quantization_config", WANT_OBJECT},
};

static const struct type_row rope_rows[] = {
    {"rope_type", WANT_TEXT},
    {"type", WANT_TEXT},
    {"factor", WANT_NUMBER},
    {"rope_theta", WANT_NUMBER},
    {"partial_rotary_factor", WANT_NUMBER},
    {"original_max_position_embeddings", WANT_NUMBER},
    {"low_freq_factor", WANT_NUMBER},
    {"high_freq_factor", WANT_NUMBER},
    {"beta_fast", WANT_NUMBER},
    {"beta_slow", WANT_NUMBER},
    {"attention_factor", WANT_NUMBER},
    {"mscale", WANT_NUMBER},
    {"mscale_all_dim", WANT_NUMBER},
};

static bool is_wanted(const struct json *value, enum wanted wanted)
{
    double number;
    switch (wanted) {
    case WANT_NUMBER:
        return value->token.kind == JSON_NUMBER && json_token_f64(&value->token, &number);
    case WANT_TRUTH:
        return value->token.kind == JSON_TRUE || value->token.kind == JSON_FALSE;
    case WANT_TEXT:
        return value->token.kind == JSON_STRING;
    case WANT_OBJECT:
        return value->token.kind == JSON_OBJECT_BEGIN;
    case WANT_LIST:
    default:
        return value->token.kind == JSON_ARRAY_BEGIN;
    }
}

/* RoPE stretched by a factor that is not there. */
static berth_status check_factor(const struct shape_source *source, const char *where, const struct json *rope)
{
    static const char *const stretched[] = {"linear", "yarn", "llama3"};
    struct json type;
    struct json factor;
    if (!source_inside(rope, "rope_type", &type) && !source_inside(rope, "type", &type)) {
        return BERTH_OK;
    }
    for (size_t i = 0; i < sizeof stretched / sizeof stretched[0]; i++) {
        if (json_token_is(&type.token, stretched[i]) && !source_inside(rope, "factor", &factor)) {
            berth_status status =
                error_set(source->err, BERTH_ERR_FORMAT,
                          "\"%s\" is of type %s and has no \"factor\", but a number is wanted", where, stretched[i]);
            error_at_object(source->err, where, strlen(where));
            error_at_path(source->err, source->path);
            error_at_offset(source->err, rope->token.offset);
            return status;
        }
    }
    return BERTH_OK;
}

static berth_status check_rope(const struct shape_source *source, const char *where, const struct json *rope)
{
    for (size_t i = 0; i < sizeof rope_rows / sizeof rope_rows[0]; i++) {
        struct json value;
        char key[64];
        if (source_inside(rope, rope_rows[i].key, &value) && !is_wanted(&value, rope_rows[i].wanted)) {
            snprintf(key, sizeof key, "%s.%s", where, rope_rows[i].key);
            return source_wrong(source, key, &value, wanted_texts[rope_rows[i].wanted]);
        }
    }
    return check_factor(source, where, rope);
}

berth_status family_check_types(const struct checkpoint *checkpoint, berth_error *err)
{
    char path[sizeof checkpoint->path + 16];
    bool file = str_ends(str_from(checkpoint->path), STR(".safetensors"));
    snprintf(path, sizeof path, "%s%s", checkpoint->path, file ? "" : "/config.json");
    const struct shape_source source = {.path = path, .err = err};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct json value;
        if (!json_find(checkpoint->config_json, (const char *const[]){rows[i].key, NULL}, &value) ||
            value.token.kind == JSON_NULL) {
            continue;
        }
        if (!is_wanted(&value, rows[i].wanted)) {
            return source_wrong(&source, rows[i].key, &value, wanted_texts[rows[i].wanted]);
        }
        if (strcmp(rows[i].key, "rope_parameters") == 0 || strcmp(rows[i].key, "rope_scaling") == 0) {
            TRY(check_rope(&source, rows[i].key, &value));
        }
    }
    return BERTH_OK;
}
