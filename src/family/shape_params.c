/* SPDX-License-Identifier: MIT
 * Parameters by arithmetic, for configurations without their weights; and which layers have experts. */
#include "base/checked.h"
#include "family/shape_rows.h"

static bool has(const struct shape_reading *r, uint32_t flag)
{
    return r->row != NULL && (r->row->flags & flag) != 0;
}

/* ---- which layers have experts ---------------------------------------------------------------------- */

static berth_status mark_listed(struct shape_reading *r, const char *key, struct json list, bool moe)
{
    if (list.token.kind != JSON_ARRAY_BEGIN) {
        return source_wrong(&r->source, key, &list, "a list of layer numbers");
    }
    while (json_next(&list) != JSON_ARRAY_END) {
        uint32_t layer;
        TRY(source_json_u32(&r->source, key, &list, 1 << 20, &layer));
        if (layer < r->out->count) {
            r->out->layers[layer].is_moe = moe;
        }
    }
    return BERTH_OK;
}

static berth_status mark_named(struct shape_reading *r, struct json list)
{
    if (list.token.kind != JSON_ARRAY_BEGIN) {
        return source_wrong(&r->source, "mlp_layer_types", &list, "a list of strings");
    }
    for (uint32_t i = 0; json_next(&list) != JSON_ARRAY_END; i++) {
        if (i < r->out->count) {
            r->out->layers[i].is_moe = !json_token_is(&list.token, "dense");
        }
        json_skip(&list);
    }
    return BERTH_OK;
}

static berth_status mark_experts(struct shape_reading *r)
{
    const uint32_t *n = r->out->number;
    uint32_t step = n[SHAPE_MOE_STEP] > 0 ? n[SHAPE_MOE_STEP] : 1;
    struct json value;
    bool letters = r->row != NULL && r->row->pattern == PATTERN_LETTERS;
    for (uint32_t i = 0; i < r->all && !letters; i++) {
        bool moe = i >= n[SHAPE_DENSE_LEAD] && (i + 1) % step == 0;
        if (n[SHAPE_MOE_PERIOD] > 0) {
            moe = i % n[SHAPE_MOE_PERIOD] == n[SHAPE_MOE_OFFSET];
        }
        r->out->layers[i].is_moe = n[SHAPE_EXPERTS] > 0 && moe;
    }
    if (n[SHAPE_EXPERTS] == 0) {
        return BERTH_OK;
    }
    if (source_find(&r->source, "mlp_only_layers", &value)) {
        TRY(mark_listed(r, "mlp_only_layers", value, false));
    }
    if (source_find(&r->source, "moe_layers", &value) && value.token.kind == JSON_ARRAY_BEGIN) {
        for (uint32_t i = 0; i < r->all; i++) {
            r->out->layers[i].is_moe = false;
        }
        TRY(mark_listed(r, "moe_layers", value, true));
    }
    if (source_find(&r->source, "mlp_layer_types", &value)) {
        TRY(mark_named(r, value));
    }
    return BERTH_OK;
}

/* ---- counting --------------------------------------------------------------------------------------- */

static uint32_t expert_width(const struct shape_reading *r)
{
    const uint32_t *n = r->out->number;
    return n[SHAPE_EXPERT_FFN] > 0 ? n[SHAPE_EXPERT_FFN] : n[SHAPE_FFN];
}

static void count_latent(struct shape_reading *r, struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t rank = n[SHAPE_KV_RANK];
    uint64_t q_rank = n[SHAPE_Q_RANK];
    uint64_t unrotated = layer->full_k_elems - (uint64_t)layer->heads * n[SHAPE_ROPE_DIM];
    layer->matrix_params += q_rank > 0 ? hidden * q_rank + q_rank * layer->full_k_elems : hidden * layer->full_k_elems;
    layer->matrix_params +=
        hidden * (rank + n[SHAPE_ROPE_DIM]) + rank * (unrotated + layer->full_v_elems) + layer->full_v_elems * hidden;
    layer->vector_params += q_rank + rank;
    if (layer->index_elems > 0) {
        uint64_t dim = layer->index_elems;
        layer->index_params = q_rank * n[SHAPE_INDEX_HEADS] * dim + hidden * (dim + n[SHAPE_INDEX_HEADS]) + 2 * dim;
    }
}

static void count_attention(struct shape_reading *r, struct shape_layer *layer, bool bias, bool norms)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t head = n[SHAPE_HEAD_DIM];
    uint64_t q = layer->q_elems;
    uint64_t kv = (uint64_t)layer->k_elems + layer->v_elems;
    layer->matrix_params += 2 * hidden * q + hidden * kv;
    layer->vector_params += bias ? q + kv : 0;
    layer->vector_params += bias && has(r, SHAPE_O_BIAS) ? hidden : 0;
    layer->vector_params += has(r, SHAPE_NORM_HEAD) && norms ? 2 * head : 0;
    layer->vector_params += has(r, SHAPE_NORM_FULL) && norms ? q + layer->k_elems : 0;
    layer->vector_params += has(r, SHAPE_SINKS) ? layer->heads : 0;
}

static void count_ffn(struct shape_reading *r, struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t experts = n[SHAPE_EXPERTS];
    uint64_t width = expert_width(r);
    if (!layer->is_moe) {
        uint32_t ffn = n[SHAPE_DENSE_FFN] > 0 ? n[SHAPE_DENSE_FFN] : n[SHAPE_FFN];
        layer->matrix_params += 3 * hidden * ffn;
        return;
    }
    uint64_t shared = n[SHAPE_SHARED_FFN] > 0 ? n[SHAPE_SHARED_FFN] : n[SHAPE_SHARED_EXPERTS] * width;
    shared = shared == 0 && has(r, SHAPE_CHUNKS) ? width : shared; /* Llama 4 has one and does not say so */
    layer->expert_params = experts * 3 * hidden * width;
    layer->matrix_params += hidden * experts + 3 * hidden * shared;
    layer->vector_params += has(r, SHAPE_ROUTER_BIAS) ? experts : 0;
    layer->vector_params += has(r, SHAPE_SHARED_GATE) ? hidden : 0;
    if (has(r, SHAPE_EXPERT_BIAS)) {
        layer->expert_params += experts * (2 * width + hidden);
        layer->vector_params += experts;
    }
}

/* Sizes whose products stay far from 64 bits: beyond them nothing is counted. */
static bool sizes_are_sane(const struct shape_reading *r)
{
    static const enum shape_number wide[] = {SHAPE_HIDDEN, SHAPE_FFN, SHAPE_EXPERT_FFN, SHAPE_SHARED_FFN,
                                             SHAPE_DENSE_FFN};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        if (r->out->number[wide[i]] > 1 << 20) {
            return false;
        }
    }
    return r->out->number[SHAPE_HIDDEN] > 0 && r->out->number[SHAPE_VOCAB] > 0;
}

static void count_layers(struct shape_reading *r, bool bias, bool norms)
{
    struct shape *out = r->out;
    uint64_t hidden = out->number[SHAPE_HIDDEN];
    for (uint32_t i = 0; i < r->all; i++) {
        struct shape_layer *layer = &out->layers[i];
        uint64_t times = has(r, SHAPE_FOUR_NORMS) ? 4 : has(r, SHAPE_ONE_NORM) ? 1 : 2;
        layer->vector_params = times * hidden * (has(r, SHAPE_NORM_BIAS) ? 2 : 1);
        if (layer->cache == SHAPE_LATENT) {
            count_latent(r, layer);
        } else {
            count_attention(r, layer, bias, norms);
        }
        count_ffn(r, layer);
    }
}

berth_status shape_read_params(struct shape_reading *r)
{
    struct shape *out = r->out;
    const uint32_t *n = out->number;
    bool bias = has(r, SHAPE_QKV_BIAS);
    bool norms = !has(r, SHAPE_NORM_ASKED);
    bool head_bias = has(r, SHAPE_NORM_BIAS);
    out->tied = has(r, SHAPE_TIED);
    TRY(source_bool(&r->source, "tie_word_embeddings", &out->tied));
    TRY(source_bool(&r->source, "attention_bias", &bias));
    TRY(source_bool(&r->source, "lm_head_bias", &head_bias));
    TRY(source_bool(&r->source, "use_qk_norm", &norms));
    TRY(mark_experts(r));
    uint32_t width = expert_width(r);
    for (uint32_t i = 0; i < r->all; i++) {
        struct shape_layer *layer = &out->layers[i];
        layer->ffn = layer->is_moe ? width : n[SHAPE_DENSE_FFN] > 0 ? n[SHAPE_DENSE_FFN] : r->ffn[i];
    }
    out->has_params = has(r, SHAPE_COUNTED) && out->is_known && r->source.meta == NULL && sizes_are_sane(r);
    if (out->has_params) {
        out->embed_params = (uint64_t)n[SHAPE_VOCAB] * n[SHAPE_HIDDEN];
        out->head_params = out->tied ? 0 : out->embed_params;
        out->global_vector_params =
            (uint64_t)n[SHAPE_HIDDEN] * (has(r, SHAPE_NORM_BIAS) ? 2 : 1) + (head_bias ? n[SHAPE_VOCAB] : 0);
        count_layers(r, bias, norms);
    }
    return BERTH_OK;
}

bool shape_count_params(const struct shape *shape, struct shape_params *out)
{
    uint64_t matrices = 0;
    *out = (struct shape_params){.vectors = shape->global_vector_params};
    if (!shape->has_params || u64_add_overflows(shape->embed_params, shape->head_params, &matrices)) {
        return false;
    }
    for (uint32_t i = 0; i < shape->count; i++) {
        const struct shape_layer *layer = &shape->layers[i];
        if (u64_add_overflows(matrices, layer->matrix_params, &matrices) ||
            u64_add_overflows(out->experts, layer->expert_params, &out->experts) ||
            u64_add_overflows(out->index, layer->index_params, &out->index) ||
            u64_add_overflows(out->vectors, layer->vector_params, &out->vectors)) {
            return false;
        }
    }
    return !u64_add_overflows(matrices, out->experts, &out->total) &&
           !u64_add_overflows(out->total, out->vectors, &out->total);
}

bool shape_mlx_bytes(const struct shape *shape, uint32_t bits, uint32_t group, uint64_t *bytes)
{
    struct shape_params params;
    uint64_t eighths;
    if (bits == 0 || bits > 16 || group == 0 || !shape_count_params(shape, &params)) {
        return false;
    }
    /* bits a weight, and 16 + 16 bits of scale and bias a group, in units of an eighth of a bit of a group */
    uint64_t matrices = params.total - params.vectors;
    if (u64_mul_overflows(matrices, (uint64_t)bits * group + 32, &eighths)) {
        return false;
    }
    *bytes = eighths / group / 8 + params.vectors * 2;
    return true;
}
