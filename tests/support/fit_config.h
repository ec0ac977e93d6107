/* SPDX-License-Identifier: MIT
 * Configurations of the documents' contract for tests: filled from a JSON tree, and spelled as JSON. */
#ifndef TESTS_SUPPORT_FIT_CONFIG_H
#define TESTS_SUPPORT_FIT_CONFIG_H

#include <math.h>

#include "base/js_text.h"
#include "support/json_text.h"
#include "support/json_tree.h"

/* ---- text that grows -------------------------------------------------------------------------------- */

struct text_buffer {
    char *text;
    size_t bytes, cap;
};

static void text_put(void *user, const void *text, size_t bytes)
{
    struct text_buffer *buffer = user;
    if (buffer->bytes + bytes > buffer->cap) {
        buffer->cap = (buffer->bytes + bytes) * 2 + 4096;
        buffer->text = realloc(buffer->text, buffer->cap);
    }
    memcpy(buffer->text + buffer->bytes, text, bytes);
    buffer->bytes += bytes;
}

static struct text_buffer tree_text(const struct tree *node)
{
    struct text_buffer buffer = {NULL, 0, 0};
    json_text_value(&(struct js_out){text_put, &buffer}, node);
    return buffer;
}

/* ---- a configuration as the documents print it ------------------------------------------------------ */

enum text_member {
    MEMBER_NUMBER,
    MEMBER_FLAG,
    MEMBER_ACTIVATION,
    MEMBER_LAYERS,
    MEMBER_DENSE,
    MEMBER_ROPE,
    MEMBER_EOS
};

static const struct text_member_row {
    const char *name;
    enum text_member kind;
    int at; /* field, or offset of the flag */
} text_members[] = {
    {"hiddenSize", MEMBER_NUMBER, BERTH_FIT_HIDDEN_SIZE},
    {"numHiddenLayers", MEMBER_NUMBER, BERTH_FIT_LAYERS},
    {"numAttentionHeads", MEMBER_NUMBER, BERTH_FIT_HEADS},
    {"numKeyValueHeads", MEMBER_NUMBER, BERTH_FIT_KV_HEADS},
    {"headDim", MEMBER_NUMBER, BERTH_FIT_HEAD_DIM},
    {"numGlobalKeyValueHeads", MEMBER_NUMBER, BERTH_FIT_GLOBAL_KV_HEADS},
    {"globalHeadDim", MEMBER_NUMBER, BERTH_FIT_GLOBAL_HEAD_DIM},
    {"attentionKEqV", MEMBER_FLAG, offsetof(berth_fit_config, attention_k_eq_v)},
    {"intermediateSize", MEMBER_NUMBER, BERTH_FIT_INTERMEDIATE_SIZE},
    {"hiddenActivation", MEMBER_ACTIVATION, 0},
    {"rmsNormEps", MEMBER_NUMBER, BERTH_FIT_RMS_NORM_EPS},
    {"vocabSize", MEMBER_NUMBER, BERTH_FIT_VOCAB_SIZE},
    {"maxPositionEmbeddings", MEMBER_NUMBER, BERTH_FIT_MAX_POSITIONS},
    {"slidingWindow", MEMBER_NUMBER, BERTH_FIT_SLIDING_WINDOW},
    {"layerTypes", MEMBER_LAYERS, 0},
    {"hiddenSizePerLayerInput", MEMBER_NUMBER, BERTH_FIT_PER_LAYER_INPUT},
    {"vocabSizePerLayerInput", MEMBER_NUMBER, BERTH_FIT_PER_LAYER_VOCAB},
    {"numKvSharedLayers", MEMBER_NUMBER, BERTH_FIT_KV_SHARED_LAYERS},
    {"enableMoeBlock", MEMBER_FLAG, offsetof(berth_fit_config, enable_moe_block)},
    {"numExperts", MEMBER_NUMBER, BERTH_FIT_EXPERTS},
    {"topKExperts", MEMBER_NUMBER, BERTH_FIT_TOP_K},
    {"moeIntermediateSize", MEMBER_NUMBER, BERTH_FIT_MOE_INTERMEDIATE_SIZE},
    {"decoderSparseStep", MEMBER_NUMBER, BERTH_FIT_SPARSE_STEP},
    {"mlpOnlyLayers", MEMBER_DENSE, 0},
    {"normTopkProb", MEMBER_FLAG, offsetof(berth_fit_config, norm_topk_prob)},
    {"linearNumValueHeads", MEMBER_NUMBER, BERTH_FIT_LINEAR_VALUE_HEADS},
    {"linearNumKeyHeads", MEMBER_NUMBER, BERTH_FIT_LINEAR_KEY_HEADS},
    {"linearKeyHeadDim", MEMBER_NUMBER, BERTH_FIT_LINEAR_KEY_HEAD_DIM},
    {"linearValueHeadDim", MEMBER_NUMBER, BERTH_FIT_LINEAR_VALUE_HEAD_DIM},
    {"linearConvKernelDim", MEMBER_NUMBER, BERTH_FIT_LINEAR_CONV_KERNEL},
    {"fullAttentionInterval", MEMBER_NUMBER, BERTH_FIT_FULL_ATTENTION_INTERVAL},
    {"attnOutputGate", MEMBER_FLAG, offsetof(berth_fit_config, attn_output_gate)},
    {"partialRotaryFactor", MEMBER_NUMBER, BERTH_FIT_PARTIAL_ROTARY_FACTOR},
    {"ropeParameters", MEMBER_ROPE, 0},
    {"finalLogitSoftcapping", MEMBER_NUMBER, BERTH_FIT_FINAL_LOGIT_SOFTCAP},
    {"tieWordEmbeddings", MEMBER_FLAG, offsetof(berth_fit_config, tie_word_embeddings)},
    {"bosTokenId", MEMBER_NUMBER, BERTH_FIT_BOS_TOKEN},
    {"eosTokenId", MEMBER_EOS, 0},
    {"canvasLength", MEMBER_NUMBER, BERTH_FIT_CANVAS_LENGTH},
};
enum { TEXT_MEMBERS = sizeof text_members / sizeof text_members[0] };

static void put_text(const struct js_out *out, berth_text text)
{
    js_put_string(out, text.ptr, text.bytes);
}

static void put_numbers(const struct js_out *out, const double *items, size_t count)
{
    js_put(out, "[");
    for (size_t i = 0; i < count; i++) {
        js_put(out, i > 0 ? "," : "");
        js_put_number(out, items[i]);
    }
    js_put(out, "]");
}

static void put_rope(const struct js_out *out, const berth_fit_config *config)
{
    js_put(out, "{");
    for (size_t i = 0; i < config->rope_count; i++) {
        const berth_fit_rope *rope = &config->rope[i];
        js_put(out, i > 0 ? "," : "");
        put_text(out, rope->kind);
        js_put(out, ":{\"ropeTheta\":");
        js_put_number(out, rope->theta);
        js_put(out, ",\"ropeType\":");
        put_text(out, rope->type);
        js_put(out, ",\"partialRotaryFactor\":");
        js_put_number(out, rope->partial_rotary_factor);
        js_put(out, ",\"factor\":");
        js_put_number(out, rope->factor);
        js_put(out, "}");
    }
    js_put(out, "}");
}

static void put_member(const struct js_out *out, const berth_fit_config *config, const struct text_member_row *row)
{
    switch (row->kind) {
    case MEMBER_NUMBER:
        js_put_number(out, config->number[row->at]);
        break;
    case MEMBER_FLAG:
        js_put_bool(out, *(const bool *)(const void *)((const char *)config + row->at));
        break;
    case MEMBER_ACTIVATION:
        put_text(out, config->hidden_activation);
        break;
    case MEMBER_LAYERS:
        js_put(out, "[");
        for (size_t i = 0; i < config->layer_types_count; i++) {
            js_put(out, i > 0 ? "," : "");
            put_text(out, config->layer_types[i]);
        }
        js_put(out, "]");
        break;
    case MEMBER_DENSE:
        put_numbers(out, config->mlp_only_layers, config->mlp_only_layers_count);
        break;
    case MEMBER_ROPE:
        put_rope(out, config);
        break;
    case MEMBER_EOS:
    default:
        if (config->eos_is_list) {
            put_numbers(out, config->eos_list, config->eos_list_count);
        } else {
            js_put_number(out, config->number[BERTH_FIT_EOS_TOKEN]);
        }
    }
}

static bool has_member(const berth_fit_config *config, const struct text_member_row *row)
{
    int field = row->kind == MEMBER_EOS ? (int)BERTH_FIT_EOS_TOKEN : row->at;
    bool numeric = row->kind == MEMBER_NUMBER || (row->kind == MEMBER_EOS && !config->eos_is_list);
    return !numeric || (config->undefined >> field & 1) == 0;
}

/* Everything but the quantisation, which must be absent. */
static struct text_buffer config_text(const berth_fit_config *config)
{
    struct text_buffer buffer = {NULL, 0, 0};
    const struct js_out out = {text_put, &buffer};
    js_put(&out, "{\"modelType\":");
    put_text(&out, config->model_type);
    js_put(&out, ",\"architectures\":[");
    for (size_t i = 0; i < config->architectures_count; i++) {
        js_put(&out, i > 0 ? "," : "");
        put_text(&out, config->architectures[i]);
    }
    js_put(&out, "],\"dtype\":");
    put_text(&out, config->dtype);
    js_put(&out, ",\"text\":{");
    const char *before = "\"";
    for (size_t i = 0; i < TEXT_MEMBERS; i++) {
        if (has_member(config, &text_members[i])) {
            js_put(&out, before);
            js_put(&out, text_members[i].name);
            js_put(&out, "\":");
            put_member(&out, config, &text_members[i]);
            before = ",\"";
        }
    }
    js_put(&out, "},\"quantization\":");
    js_put(&out, config->is_quantized ? "{}" : "null");
    js_put(&out, ",\"kvQuant\":");
    js_put(&out, config->has_kv_quant ? "[]" : "null");
    js_put(&out, ",\"hasVisionSidecar\":");
    js_put_bool(&out, config->has_vision_sidecar);
    js_put(&out, ",\"eosTokenIds\":");
    put_numbers(&out, config->eos_token_ids, config->eos_token_ids_count);
    js_put(&out, "}");
    return buffer;
}

/* ---- the other way round ---------------------------------------------------------------------------- */

static const berth_kv_quant *kv_rows(const struct tree *list, size_t *count)
{
    berth_kv_quant *rows = tree_alloc(list->count * sizeof *rows);
    *count = list->count;
    size_t i = 0;
    for (const struct tree *at = list->first; at != NULL; at = at->next, i++) {
        rows[i] = (berth_kv_quant){tree_number(at, "layerIdx"), tree_number(at, "bits"), tree_number(at, "groupSize")};
    }
    return rows;
}

/* A "text" object of the vectors; members it lacks are undefined. */
static berth_fit_config config_from(const struct tree *text)
{
    berth_fit_config config = BERTH_FIT_CONFIG_INIT;
    for (size_t i = 0; i < TEXT_MEMBERS; i++) {
        const struct text_member_row *row = &text_members[i];
        const struct tree *value = tree_get(text, row->name);
        if (row->kind == MEMBER_NUMBER) {
            config.number[row->at] = value != NULL && value->kind == JSON_NUMBER ? value->number : (double)NAN;
            config.undefined |= value == NULL ? (uint64_t)1 << row->at : 0;
        } else if (row->kind == MEMBER_FLAG && value != NULL) {
            *(bool *)(void *)((char *)&config + row->at) = value->kind == JSON_TRUE;
        } else if (row->kind == MEMBER_LAYERS && value != NULL) {
            berth_text *types = tree_alloc(value->count * sizeof *types);
            size_t k = 0;
            for (const struct tree *at = value->first; at != NULL; at = at->next, k++) {
                types[k] = (berth_text){at->text, at->text_bytes};
            }
            config.layer_types = types;
            config.layer_types_count = k;
        }
    }
    return config;
}

#endif
