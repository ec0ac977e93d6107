/* SPDX-License-Identifier: MIT
 * The configuration's fingerprint: compact JSON of the members that shape the decode graph, hashed. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/js_text.h"
#include "base/sha256.h"

struct member {
    const char *name;
    berth_fit_field field; /* BERTH_FIT_FIELDS: one of the others, by name */
};

/* In the documents' order. */
static const struct member members[] = {
    {"layerTypes", BERTH_FIT_FIELDS},
    {"hiddenSize", BERTH_FIT_HIDDEN_SIZE},
    {"headDim", BERTH_FIT_HEAD_DIM},
    {"globalHeadDim", BERTH_FIT_GLOBAL_HEAD_DIM},
    {"numAttentionHeads", BERTH_FIT_HEADS},
    {"numKeyValueHeads", BERTH_FIT_KV_HEADS},
    {"numGlobalKeyValueHeads", BERTH_FIT_GLOBAL_KV_HEADS},
    {"attentionKEqV", BERTH_FIT_FIELDS},
    {"numKvSharedLayers", BERTH_FIT_KV_SHARED_LAYERS},
    {"enableMoeBlock", BERTH_FIT_FIELDS},
    {"numExperts", BERTH_FIT_EXPERTS},
    {"topKExperts", BERTH_FIT_TOP_K},
    {"hiddenSizePerLayerInput", BERTH_FIT_PER_LAYER_INPUT},
    {"slidingWindow", BERTH_FIT_SLIDING_WINDOW},
    {"finalLogitSoftcapping", BERTH_FIT_FINAL_LOGIT_SOFTCAP},
    {"kvQuant", BERTH_FIT_FIELDS},
};

static void put_layer_types(const struct js_out *out, const berth_fit_config *config)
{
    js_put(out, "[");
    for (size_t i = 0; i < config->layer_types_count; i++) {
        js_put(out, i > 0 ? "," : "");
        js_put_string(out, config->layer_types[i].ptr, config->layer_types[i].bytes);
    }
    js_put(out, "]");
}

static void put_kv_quant(const struct js_out *out, const berth_fit_config *config)
{
    if (!config->has_kv_quant) {
        js_put(out, "null");
        return;
    }
    js_put(out, "[");
    for (size_t i = 0; i < config->kv_quant_count; i++) {
        const berth_kv_quant *row = &config->kv_quant[i];
        js_put(out, i > 0 ? ",{\"layerIdx\":" : "{\"layerIdx\":");
        js_put_number(out, row->layer_idx);
        js_put(out, ",\"bits\":");
        js_put_number(out, row->bits);
        js_put(out, ",\"groupSize\":");
        js_put_number(out, row->group_size);
        js_put(out, "}");
    }
    js_put(out, "]");
}

static void put_value(const struct js_out *out, const berth_fit_config *config, const struct member *member)
{
    bool experts = member->field == BERTH_FIT_EXPERTS || member->field == BERTH_FIT_TOP_K;
    if (member->field != BERTH_FIT_FIELDS) {
        js_put_number(out, experts && !config->enable_moe_block ? 0 : config->number[member->field]);
    } else if (strcmp(member->name, "layerTypes") == 0) {
        put_layer_types(out, config);
    } else if (strcmp(member->name, "kvQuant") == 0) {
        put_kv_quant(out, config);
    } else {
        js_put_bool(out,
                    strcmp(member->name, "attentionKEqV") == 0 ? config->attention_k_eq_v : config->enable_moe_block);
    }
}

/* Members that are absent vanish. */
static bool is_there(const berth_fit_config *config, const struct member *member)
{
    bool experts = member->field == BERTH_FIT_EXPERTS || member->field == BERTH_FIT_TOP_K;
    return member->field == BERTH_FIT_FIELDS || (experts && !config->enable_moe_block) ||
           (config->undefined >> member->field & 1) == 0;
}

static void put_payload(const struct js_out *out, const berth_fit_config *config)
{
    const char *before = "{\"";
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (is_there(config, &members[i])) {
            js_put(out, before);
            js_put(out, members[i].name);
            js_put(out, "\":");
            put_value(out, config, &members[i]);
            before = ",\"";
        }
    }
    js_put(out, "}");
}

static void put_hash(void *user, const void *text, size_t bytes)
{
    sha256_add(user, text, bytes);
}

struct copy {
    char *buffer;
    size_t cap, bytes;
};

static void put_copy(void *user, const void *text, size_t bytes)
{
    struct copy *copy = user;
    if (copy->bytes < copy->cap) {
        size_t part = copy->cap - copy->bytes < bytes ? copy->cap - copy->bytes : bytes;
        memcpy(copy->buffer + copy->bytes, text, part);
    }
    copy->bytes += bytes;
}

berth_status berth_config_fingerprint_payload(const berth_fit_config *config, char *buffer, size_t cap, size_t *bytes,
                                              berth_error *err)
{
    if (config == NULL || bytes == NULL || (buffer == NULL && cap > 0)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "a configuration and a place for the text are needed");
    }
    struct copy copy = {.buffer = buffer, .cap = cap};
    put_payload(&(struct js_out){put_copy, &copy}, config);
    *bytes = copy.bytes;
    return copy.bytes <= cap
               ? BERTH_OK
               : error_set(err, BERTH_ERR_LIMIT, "the text has %zu bytes, the buffer %zu", copy.bytes, cap);
}

berth_status berth_config_fingerprint(const berth_fit_config *config, char fingerprint[17], char sha256[65],
                                      berth_error *err)
{
    char text[SHA256_TEXT_BYTES];
    struct sha256 sha;
    if (config == NULL || fingerprint == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT, "a configuration and a place for the fingerprint are needed");
    }
    sha256_begin(&sha);
    put_payload(&(struct js_out){put_hash, &sha}, config);
    sha256_end_text(&sha, text);
    memcpy(fingerprint, text, BERTH_FINGERPRINT_BYTES - 1);
    fingerprint[BERTH_FINGERPRINT_BYTES - 1] = '\0';
    if (sha256 != NULL) {
        memcpy(sha256, text, sizeof text);
    }
    return BERTH_OK;
}
