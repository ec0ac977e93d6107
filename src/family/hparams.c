/* SPDX-License-Identifier: MIT
 *
 * hparams from metadata, and back. One table says each number's GGUF key, its Hugging Face spellings and its range;
 * what depends on other numbers (defaults, RoPE scaling, which layers are MoE) follows in named steps. What config.json
 * leaves out of them is the default of the model_type (shape_defaults.c). Keys: GGUF
 * specification; transformers configuration classes in the published spelling and in that of its version 5.
 */
#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "family/hparams.h"
#include "family/shape.h"
#include "model/json.h"

enum row_kind { ROW_U32, ROW_F32 };

struct hparam_row {
    size_t offset;
    enum row_kind kind;
    const char *gguf;  /* suffix after "<arch>." */
    const char *hf[3]; /* spellings, first found wins */
    double min, max;
    bool required;
    enum shape_number number; /* whose default holds in config.json; SHAPE_NUMBERS: none does */
};

#define FIELD(name) offsetof(struct hparams, name)
static const struct hparam_row number_rows[] = {
    {FIELD(layers), ROW_U32, "block_count", {"num_hidden_layers"}, 1, LAYERS_MAX, true, SHAPE_NUMBERS},
    {FIELD(hidden), ROW_U32, "embedding_length", {"hidden_size"}, 8, 1 << 20, true, SHAPE_NUMBERS},
    {FIELD(vocab), ROW_U32, "vocab_size", {"vocab_size"}, 1, 1 << 24, false, SHAPE_NUMBERS},
    {FIELD(ctx_max), ROW_U32, "context_length", {"max_position_embeddings"}, 1, 1 << 30, false, SHAPE_CTX},
    {FIELD(heads), ROW_U32, "attention.head_count", {"num_attention_heads"}, 1, 1 << 12, true, SHAPE_HEADS},
    {FIELD(kv_heads), ROW_U32, "attention.head_count_kv", {"num_key_value_heads"}, 1, 1 << 12, false, SHAPE_KV_HEADS},
    {FIELD(head_dim), ROW_U32, "attention.key_length", {"head_dim"}, 8, 1 << 12, false, SHAPE_HEAD_DIM},
    {FIELD(ffn), ROW_U32, "feed_forward_length", {"intermediate_size"}, 1, 1 << 22, false, SHAPE_FFN},
    {FIELD(norm_eps), ROW_F32, "attention.layer_norm_rms_epsilon", {"rms_norm_eps"}, 0, 1, false, SHAPE_NUMBERS},
    {FIELD(clip_qkv), ROW_F32, "attention.clamp_kqv", {"clip_qkv"}, 0, 1e9, false, SHAPE_NUMBERS},
    {FIELD(sliding_window), ROW_U32, "attention.sliding_window", {"sliding_window"}, 0, 1 << 30, false, SHAPE_NUMBERS},
    {FIELD(experts),
     ROW_U32,
     "expert_count",
     {"num_experts", "num_local_experts", "n_routed_experts"},
     0,
     4096,
     false,
     SHAPE_EXPERTS},
    {FIELD(top_k), ROW_U32, "expert_used_count", {"num_experts_per_tok"}, 0, 256, false, SHAPE_TOP_K},
    {FIELD(expert_ffn),
     ROW_U32,
     "expert_feed_forward_length",
     {"moe_intermediate_size"},
     1,
     1 << 22,
     false,
     SHAPE_EXPERT_FFN},
    {FIELD(shared_ffn),
     ROW_U32,
     "expert_shared_feed_forward_length",
     {"shared_expert_intermediate_size"},
     0,
     1 << 22,
     false,
     SHAPE_SHARED_FFN},
};

/* What is being read, so that every helper can name it in an error. */
struct reader {
    const struct checkpoint *checkpoint;
    const struct family *family;
    struct hparams *out;
    berth_error *err;
};

static berth_status bad_key(const struct reader *r, berth_status status, const char *key, const char *text)
{
    error_set(r->err, status, "%s %s", key, text);
    error_at_path(r->err, r->checkpoint->path);
    error_at_object(r->err, key, strlen(key));
    return status;
}

static void gguf_key(const struct reader *r, const char *suffix, char *buffer, size_t cap)
{
    snprintf(buffer, cap, "%s.%s", r->family->gguf_arch, suffix);
}

/* The number under a key path. false: absent or null. *ok false: present but not a number. */
static bool hf_number(const struct reader *r, const char *const *path, double *out, bool *ok)
{
    struct json value;
    *ok = true;
    if (!json_find(r->checkpoint->config_json, path, &value)) {
        return false;
    }
    enum json_kind kind = value.token.kind;
    if (kind == JSON_NULL) {
        return false;
    }
    *ok = kind == JSON_NUMBER && json_token_f64(&value.token, out);
    return true;
}

static bool hf_bool(const struct reader *r, const char *key, bool *out)
{
    struct json value;
    if (!json_find(r->checkpoint->config_json, (const char *const[]){key, NULL}, &value)) {
        return false;
    }
    enum json_kind kind = value.token.kind;
    *out = kind == JSON_TRUE;
    return kind == JSON_TRUE || kind == JSON_FALSE;
}

static bool hf_text(const struct reader *r, const char *const *path, char *buffer, size_t cap)
{
    struct json value;
    if (!json_find(r->checkpoint->config_json, path, &value) || value.token.kind != JSON_STRING ||
        value.token.raw.bytes >= cap) {
        return false;
    }
    buffer[json_unescape(&value.token, buffer, cap - 1)] = '\0';
    return true;
}

/* In any spelling, be it null: null is no default, but what follows from the other numbers. */
static bool hf_mentions(const struct reader *r, const struct hparam_row *row)
{
    struct json value;
    for (uint32_t i = 0; i < 3 && row->hf[i] != NULL; i++) {
        if (json_find(r->checkpoint->config_json, (const char *const[]){row->hf[i], NULL}, &value)) {
            return true;
        }
    }
    return false;
}

static bool number_lookup(const struct reader *r, const struct hparam_row *row, double *out, const char **key, bool *ok)
{
    if (r->checkpoint->format == CHECKPOINT_GGUF) {
        char name[96];
        gguf_key(r, row->gguf, name, sizeof name);
        *key = row->gguf;
        *ok = true;
        if (meta_find(&r->checkpoint->meta, str_from(name)) == NULL) {
            return false;
        }
        *ok = meta_f64(&r->checkpoint->meta, str_from(name), out);
        return true;
    }
    *ok = true;
    for (uint32_t i = 0; i < 3 && row->hf[i] != NULL; i++) {
        *key = row->hf[i];
        if (hf_number(r, (const char *const[]){row->hf[i], NULL}, out, ok)) {
            return true;
        }
    }
    *key = row->hf[0];
    uint32_t value;
    if (row->number == SHAPE_NUMBERS || hf_mentions(r, row) ||
        !shape_default(str_from(r->family->hf_model_type), row->number, &value)) {
        return false;
    }
    *out = value;
    return true;
}

static berth_status read_numbers(const struct reader *r)
{
    for (size_t i = 0; i < sizeof number_rows / sizeof number_rows[0]; i++) {
        const struct hparam_row *row = &number_rows[i];
        double value = 0;
        const char *key = NULL;
        bool ok = true;
        if (!number_lookup(r, row, &value, &key, &ok)) {
            if (row->required) {
                return bad_key(r, BERTH_ERR_FORMAT, key, "is missing from the model's metadata");
            }
            continue;
        }
        if (ok && value == 0 && !row->required && r->checkpoint->format == CHECKPOINT_GGUF) {
            continue; /* writers put 0 for "this model has none" */
        }
        char text[160];
        if (!ok || !(value >= row->min && value <= row->max) || (row->kind == ROW_U32 && value != floor(value))) {
            snprintf(text, sizeof text, "must be %s from %.9g to %.9g, got %.9g",
                     row->kind == ROW_U32 ? "an integer" : "a number", row->min, row->max, value);
            return bad_key(r, BERTH_ERR_FORMAT, key, ok ? text : "must be a number");
        }
        unsigned char *field = (unsigned char *)r->out + row->offset;
        if (row->kind == ROW_U32) {
            uint32_t u = (uint32_t)value;
            memcpy(field, &u, sizeof u);
        } else {
            float f = (float)value;
            memcpy(field, &f, sizeof f);
        }
    }
    return BERTH_OK;
}

/* Rows of the embedding table: the vocabulary as the weights have it. */
static berth_status read_vocab(const struct reader *r)
{
    const struct tensor_row *row = family_row(r->family, ROLE_EMBED);
    const char *name = r->checkpoint->format == CHECKPOINT_GGUF ? row->gguf : row->hf;
    const struct tensor *embed = tensor_find(&r->checkpoint->tensors, str_from(name));
    if (embed == NULL || embed->dims_count != 2 || embed->dims[0] > (1u << 24)) {
        return bad_key(r, BERTH_ERR_FORMAT, name, "is missing or is not a [vocabulary][hidden] matrix");
    }
    if (r->out->vocab == 0 || r->checkpoint->format == CHECKPOINT_GGUF) {
        r->out->vocab = (uint32_t)embed->dims[0];
    }
    return BERTH_OK;
}

/* Some matrix was recognised with its scales; what else there is must be known by name. */
static bool has_known_layout(const struct checkpoint *checkpoint)
{
    for (uint32_t i = 0; i < checkpoint->tensors.count; i++) {
        if (checkpoint->tensors.items[i].side != NULL) {
            return true;
        }
    }
    return false;
}

static berth_status read_activation(const struct reader *r)
{
    char text[64];
    if (r->checkpoint->format == CHECKPOINT_SAFETENSORS) {
        if (hf_text(r, (const char *const[]){"hidden_act", NULL}, text, sizeof text) && strcmp(text, "silu") != 0 &&
            strcmp(text, "swish") != 0) {
            return bad_key(r, BERTH_ERR_UNSUPPORTED, "hidden_act", "must be silu for this family");
        }
        struct json value;
        if (json_find(r->checkpoint->config_json, (const char *const[]){"quantization_config", NULL}, &value) &&
            value.token.kind != JSON_NULL && !has_known_layout(r->checkpoint)) {
            return bad_key(r, BERTH_ERR_UNSUPPORTED, "quantization_config",
                           "is set, and no tensor is in a layout that this version reads (MLX affine, FP8 with block "
                           "scales): use a GGUF or the original checkpoint");
        }
        return BERTH_OK;
    }
    char key[96];
    double scale = 0;
    gguf_key(r, "expert_weights_scale", key, sizeof key);
    if (meta_f64(&r->checkpoint->meta, str_from(key), &scale) && scale != 0 && scale != 1) {
        return bad_key(r, BERTH_ERR_UNSUPPORTED, key, "other than 1 is not supported for this family");
    }
    return BERTH_OK;
}

/* A number under RoPE's dictionary in any of its spellings: rope_parameters.<key>, rope_scaling.<key>, and for
 * rope_theta the top level. */
static bool rope_number(const struct reader *r, const char *key, const char *gguf, double *out, bool *ok)
{
    if (r->checkpoint->format == CHECKPOINT_GGUF) {
        char name[96];
        *ok = true;
        if (gguf == NULL) {
            return false;
        }
        gguf_key(r, gguf, name, sizeof name);
        if (meta_find(&r->checkpoint->meta, str_from(name)) == NULL) {
            return false;
        }
        *ok = meta_f64(&r->checkpoint->meta, str_from(name), out);
        return true;
    }
    return hf_number(r, (const char *const[]){"rope_parameters", key, NULL}, out, ok) ||
           hf_number(r, (const char *const[]){"rope_scaling", key, NULL}, out, ok) ||
           hf_number(r, (const char *const[]){key, NULL}, out, ok);
}

static berth_status rope_field(const struct reader *r, const char *key, const char *gguf, float fallback, float *out)
{
    double value = 0;
    bool ok = true;
    *out = fallback;
    bool found = rope_number(r, key, gguf, &value, &ok);
    if (found && !(ok && value == 0 && r->checkpoint->format == CHECKPOINT_GGUF)) {
        if (!ok || !isfinite(value) || value <= 0 || value > 1e12) {
            char text[96];
            snprintf(text, sizeof text, "must be a positive number, got %.9g", value);
            return bad_key(r, BERTH_ERR_FORMAT, key, ok ? text : "must be a positive number");
        }
        *out = (float)value;
    }
    return BERTH_OK;
}

static const struct {
    const char *text;
    enum rope_scaling scaling;
} scaling_rows[] = {
    {"default", ROPE_SCALING_NONE},  {"none", ROPE_SCALING_NONE}, {"linear", ROPE_SCALING_LINEAR},
    {"llama3", ROPE_SCALING_LLAMA3}, {"yarn", ROPE_SCALING_YARN},
};

static berth_status read_rope_scaling(const struct reader *r)
{
    char text[64] = "default";
    if (r->checkpoint->format == CHECKPOINT_GGUF) {
        char key[96];
        struct str value;
        gguf_key(r, "rope.scaling.type", key, sizeof key);
        if (meta_str(&r->checkpoint->meta, str_from(key), &value) && value.bytes < sizeof text) {
            memcpy(text, value.ptr, value.bytes);
            text[value.bytes] = '\0';
        }
    } else if (!hf_text(r, (const char *const[]){"rope_parameters", "rope_type", NULL}, text, sizeof text) &&
               !hf_text(r, (const char *const[]){"rope_parameters", "type", NULL}, text, sizeof text) &&
               !hf_text(r, (const char *const[]){"rope_scaling", "rope_type", NULL}, text, sizeof text)) {
        hf_text(r, (const char *const[]){"rope_scaling", "type", NULL}, text, sizeof text);
    }
    for (size_t i = 0; i < sizeof scaling_rows / sizeof scaling_rows[0]; i++) {
        if (strcmp(text, scaling_rows[i].text) == 0) {
            r->out->rope_scaling = scaling_rows[i].scaling;
            return BERTH_OK;
        }
    }
    char message[160];
    snprintf(message, sizeof message, "is \"%s\"; supported: default, linear, llama3, yarn", text);
    return bad_key(r, BERTH_ERR_UNSUPPORTED, "rope scaling type", message);
}

static berth_status read_rope(const struct reader *r)
{
    struct hparams *out = r->out;
    float theta_default = r->checkpoint->format == CHECKPOINT_GGUF ? 10000.0f : r->family->hf_rope_theta;
    TRY(rope_field(r, "rope_theta", "rope.freq_base", theta_default, &out->rope_theta));
    TRY(read_rope_scaling(r));
    float original = 0;
    TRY(rope_field(r, "factor", "rope.scaling.factor", 1.0f, &out->rope_factor));
    TRY(rope_field(r, "original_max_position_embeddings", "rope.scaling.original_context_length", (float)out->ctx_max,
                   &original));
    out->rope_original_ctx = original > 4e9f ? UINT32_MAX : (uint32_t)original;
    TRY(rope_field(r, "low_freq_factor", NULL, 1.0f, &out->rope_low_freq));
    TRY(rope_field(r, "high_freq_factor", NULL, 4.0f, &out->rope_high_freq));
    TRY(rope_field(r, "beta_fast", "rope.scaling.yarn_beta_fast", 32.0f, &out->rope_beta_fast));
    TRY(rope_field(r, "beta_slow", "rope.scaling.yarn_beta_slow", 1.0f, &out->rope_beta_slow));
    TRY(rope_field(r, "attention_factor", NULL, 0.0f, &out->rope_attention_factor));
    TRY(rope_field(r, "mscale", NULL, 0.0f, &out->rope_mscale));
    TRY(rope_field(r, "mscale_all_dim", NULL, 0.0f, &out->rope_mscale_all_dim));
    TRY(rope_field(r, "attn_factor", "rope.scaling.attn_factor", 1.0f, &out->rope_attention_multiplier));
    if (out->rope_scaling == ROPE_SCALING_LLAMA3 && !(out->rope_high_freq > out->rope_low_freq)) {
        return bad_key(r, BERTH_ERR_FORMAT, "high_freq_factor", "must be larger than low_freq_factor");
    }
    double value = 0;
    bool ok = true;
    out->rotary_dim = out->head_dim;
    if (r->checkpoint->format == CHECKPOINT_GGUF) {
        if (rope_number(r, "", "rope.dimension_count", &value, &ok) && ok && value >= 2 && value <= out->head_dim) {
            out->rotary_dim = (uint32_t)value;
        } else if (!ok) {
            return bad_key(r, BERTH_ERR_FORMAT, "rope.dimension_count", "must be a number");
        }
    } else if (rope_number(r, "partial_rotary_factor", NULL, &value, &ok)) {
        if (!ok || !(value > 0 && value <= 1)) {
            char text[96];
            snprintf(text, sizeof text, "is %.9g, but a number above 0 and up to 1 is wanted", value);
            return bad_key(r, BERTH_ERR_FORMAT, "partial_rotary_factor", text);
        }
        out->rotary_dim = (uint32_t)((double)out->head_dim * value);
    }
    out->rope_half = r->checkpoint->format == CHECKPOINT_SAFETENSORS || !r->family->gguf_interleaved;
    return out->rotary_dim % 2 == 0 ? BERTH_OK
                                    : bad_key(r, BERTH_ERR_FORMAT, "rotary dimension", "must be an even number");
}

/* Which layers slide: a layer_types list says it layer by layer; otherwise all of them (from max_window_layers on,
 * where the family has that key). */
static berth_status read_sliding(const struct reader *r)
{
    struct hparams *out = r->out;
    bool use = false;
    if (r->checkpoint->format == CHECKPOINT_SAFETENSORS && r->family->hf_sliding_needs_flag &&
        !(hf_bool(r, "use_sliding_window", &use) && use)) {
        out->sliding_window = 0;
    }
    if (out->sliding_window == 0) {
        return BERTH_OK;
    }
    struct json value;
    if (json_find(r->checkpoint->config_json, (const char *const[]){"layer_types", NULL}, &value) &&
        value.token.kind == JSON_ARRAY_BEGIN) {
        uint32_t layer = 0;
        while (json_next(&value) == JSON_STRING && layer < out->layers) {
            out->layer_slides[layer++] = json_token_is(&value.token, "sliding_attention");
        }
        return layer == out->layers && value.token.kind == JSON_ARRAY_END
                   ? BERTH_OK
                   : bad_key(r, BERTH_ERR_FORMAT, "layer_types", "must name every layer once");
    }
    double from = 0;
    bool ok = true;
    if (!r->family->hf_sliding_needs_flag ||
        !hf_number(r, (const char *const[]){"max_window_layers", NULL}, &from, &ok) || !ok) {
        from = 0;
    }
    for (uint32_t layer = 0; layer < out->layers; layer++) {
        out->layer_slides[layer] = (double)layer >= from;
    }
    return BERTH_OK;
}

static berth_status read_moe(const struct reader *r)
{
    struct hparams *out = r->out;
    const struct family *family = r->family;
    bool gguf = r->checkpoint->format == CHECKPOINT_GGUF;
    if (!family->moe) {
        out->experts = out->top_k = out->expert_ffn = out->shared_ffn = 0;
        return BERTH_OK;
    }
    if (out->experts == 0 || out->top_k == 0 || out->top_k > out->experts) {
        return bad_key(r, BERTH_ERR_FORMAT, gguf ? "expert_used_count" : "num_experts_per_tok",
                       "must be between 1 and the number of experts, and both must be given");
    }
    if (out->expert_ffn == 0) {
        out->expert_ffn = out->ffn; /* GGUF files of older converters; families whose one width is the experts' */
    }
    if (!gguf && family->hf_expert_ffn_is_ffn) {
        out->expert_ffn = out->ffn;
    }
    if (gguf && out->shared_ffn == 0 && family_row(family, ROLE_SHARED_GATE) != NULL) {
        const struct tensor *shared = tensor_find(&r->checkpoint->tensors, STR("blk.0.ffn_gate_shexp.weight"));
        out->shared_ffn =
            shared != NULL && shared->dims_count == 2 && shared->dims[0] < (1u << 22) ? (uint32_t)shared->dims[0] : 0;
    }
    out->norm_topk = gguf ? family->gguf_norm_topk : family->hf_norm_topk;
    if (gguf) {
        meta_bool(&r->checkpoint->meta, STR(FAMILY_NORM_TOPK_KEY), &out->norm_topk);
    } else if (!family->hf_norm_topk) {
        hf_bool(r, "norm_topk_prob", &out->norm_topk);
    }
    /* The file decides which layers are MoE: they are the ones with a router. */
    const struct tensor_row *row = family_row(family, ROLE_ROUTER);
    const char *pattern = gguf ? row->gguf : row->hf;
    const char *number = strstr(pattern, "%u");
    char name[TENSOR_NAME_MAX] = "";
    for (uint32_t layer = 0; layer < out->layers; layer++) {
        snprintf(name, sizeof name, "%.*s%u%s", (int)(number - pattern), pattern, (unsigned)layer, number + 2);
        out->layer_moe[layer] = tensor_find(&r->checkpoint->tensors, str_from(name)) != NULL;
        out->moe_layers += out->layer_moe[layer];
    }
    return out->moe_layers > 0
               ? BERTH_OK
               : bad_key(r, BERTH_ERR_FORMAT, name, "is not there, nor in any other layer: no routed experts found");
}

static berth_status finish(const struct reader *r)
{
    struct hparams *out = r->out;
    bool gguf = r->checkpoint->format == CHECKPOINT_GGUF;
    if (out->kv_heads == 0) {
        out->kv_heads = out->heads;
    }
    if (out->head_dim == 0) {
        out->head_dim = out->hidden / out->heads;
    }
    if (out->norm_eps == 0) {
        out->norm_eps = gguf ? 1e-5f : r->family->hf_norm_eps;
    }
    if (out->ctx_max == 0) {
        out->ctx_max = 2048;
    }
    if (out->heads % out->kv_heads != 0) {
        return bad_key(r, BERTH_ERR_FORMAT, gguf ? "attention.head_count_kv" : "num_key_value_heads",
                       "must divide the number of attention heads");
    }
    if (out->head_dim % 8 != 0 || out->hidden % 8 != 0) {
        return bad_key(r, BERTH_ERR_UNSUPPORTED, gguf ? "attention.key_length" : "head_dim",
                       "and the hidden size must be multiples of 8");
    }
    uint64_t value_length = 0;
    char key[96];
    gguf_key(r, "attention.value_length", key, sizeof key);
    if (gguf && meta_u64(&r->checkpoint->meta, str_from(key), &value_length) && value_length != out->head_dim) {
        return bad_key(r, BERTH_ERR_UNSUPPORTED, key, "must equal attention.key_length for this family");
    }
    out->qk_norm = r->family->qk_norm;
    bool tied = r->family->hf_tied;
    if (gguf) {
        tied = tensor_find(&r->checkpoint->tensors, STR("output.weight")) == NULL;
    } else {
        hf_bool(r, "tie_word_embeddings", &tied);
    }
    out->tied_embeddings = tied;
    TRY(read_vocab(r));
    TRY(read_rope(r));
    TRY(read_sliding(r));
    return read_moe(r);
}

berth_status family_hparams(const struct checkpoint *checkpoint, const struct family *family, struct hparams *out,
                            berth_error *err)
{
    memset(out, 0, sizeof *out);
    struct reader r = {checkpoint, family, out, err};
    if (checkpoint->format == CHECKPOINT_SAFETENSORS) {
        TRY(family_check_types(checkpoint, err));
    }
    TRY(read_activation(&r));
    TRY(read_numbers(&r));
    return finish(&r);
}
