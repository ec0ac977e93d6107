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

/* A list in the place of a number: 1 is a layer with experts. */
static berth_status mark_flagged(struct shape_reading *r, struct json list)
{
    for (uint32_t i = 0; json_next(&list) != JSON_ARRAY_END; i++) {
        uint32_t flag;
        TRY(source_json_u32(&r->source, "moe_layer_freq", &list, 1, &flag));
        if (i < r->out->count) {
            r->out->layers[i].is_moe = flag != 0;
        }
    }
    return BERTH_OK;
}

static berth_status mark_named(struct shape_reading *r, struct json list)
{
    uint32_t items = 0;
    if (list.token.kind != JSON_ARRAY_BEGIN) {
        return source_wrong(&r->source, "mlp_layer_types", &list, "a list of strings");
    }
    for (uint32_t i = 0; json_next(&list) != JSON_ARRAY_END; i++) {
        if (i < r->out->count) {
            r->out->layers[i].is_moe = !json_token_is(&list.token, "dense");
            r->out->layers[i].is_hashed = json_token_is(&list.token, "hash_moe");
        }
        json_skip(&list);
        items++;
    }
    return shape_check_length(r, "mlp_layer_types", items);
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
        r->out->layers[i].is_hashed = i < n[SHAPE_HASH_LAYERS];
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
    if (source_find(&r->source, "moe_layer_freq", &value) && value.token.kind == JSON_ARRAY_BEGIN) {
        TRY(mark_flagged(r, value));
    }
    if (source_find(&r->source, "mlp_layer_types", &value)) {
        TRY(mark_named(r, value));
    }
    return BERTH_OK;
}

/* ---- counting --------------------------------------------------------------------------------------- */

struct counting {
    struct shape_biases biases;
    bool ffn_bias, beside;
};

static uint32_t expert_width(const struct shape_reading *r)
{
    const uint32_t *n = r->out->number;
    return n[SHAPE_EXPERT_FFN] > 0 ? n[SHAPE_EXPERT_FFN] : n[SHAPE_FFN];
}

/* A dense feed-forward, or one shared by all tokens of a layer with experts. */
static void count_dense(const struct shape_reading *r, struct shape_layer *layer, uint64_t width, bool bias)
{
    uint64_t hidden = r->out->number[SHAPE_HIDDEN];
    uint64_t matrices = has(r, SHAPE_NO_GATE) ? 2 : 3;
    layer->matrix_params += matrices * hidden * width;
    layer->vector_params += bias && width > 0 ? (matrices - 1) * width + hidden : 0;
}

static void count_experts(struct shape_reading *r, struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t experts = n[SHAPE_EXPERTS];
    uint64_t width = expert_width(r);
    uint64_t matrices = has(r, SHAPE_NO_GATE) ? 2 : 3;
    uint64_t inner = n[SHAPE_EXPERT_HIDDEN] > 0 ? n[SHAPE_EXPERT_HIDDEN] : hidden; /* experts may work on fewer */
    layer->expert_params = experts * matrices * inner * width;
    layer->matrix_params += hidden * experts + (inner != hidden ? 2 * hidden * inner : 0);
    layer->vector_params += has(r, SHAPE_ROUTER_BIAS) && !layer->is_hashed ? experts : 0;
    layer->vector_params += has(r, SHAPE_SHARED_GATE) ? hidden : 0;
    if (has(r, SHAPE_EXPERT_BIAS)) {
        layer->expert_params += experts * (2 * width + hidden);
        layer->vector_params += experts;
    }
}

static uint64_t shared_width(const struct shape_reading *r)
{
    const uint32_t *n = r->out->number;
    uint64_t width = expert_width(r);
    uint64_t times = n[SHAPE_SHARED_EXPERTS] > 0 && has(r, SHAPE_MIXER_ONLY) ? n[SHAPE_SHARED_EXPERTS] : 1;
    uint64_t shared = n[SHAPE_SHARED_FFN] > 0 ? times * n[SHAPE_SHARED_FFN] : n[SHAPE_SHARED_EXPERTS] * width;
    return shared == 0 && has(r, SHAPE_CHUNKS) ? width : shared; /* Llama 4 has one and does not say so */
}

static void count_ffn(struct shape_reading *r, uint32_t i, const struct counting *c)
{
    const uint32_t *n = r->out->number;
    struct shape_layer *layer = &r->out->layers[i];
    uint64_t hidden = n[SHAPE_HIDDEN];
    if (has(r, SHAPE_MIXER_ONLY) && (layer->cache != SHAPE_NO_CACHE || layer->state != SHAPE_NO_STATE)) {
        return;
    }
    if (layer->is_moe) {
        count_experts(r, layer);
    }
    if (c->beside) { /* Gemma 4: the experts stand beside the dense width, with three norms and scales of their own */
        count_dense(r, layer, layer->ffn, c->ffn_bias);
        layer->vector_params += layer->is_moe ? 4 * hidden + n[SHAPE_EXPERTS] : 0;
    } else if (r->row->pattern == PATTERN_STATE_HEADS && r->row->state == SHAPE_MAMBA) {
        count_dense(r, layer, n[SHAPE_SHARED_FFN], c->ffn_bias); /* Granite: in every layer */
    } else {
        count_dense(r, layer, layer->is_moe ? shared_width(r) : layer->ffn, !layer->is_moe && c->ffn_bias);
    }
}

/* Streams of the residual, and tables that a layer looks up. */
static void count_streams(const struct shape_reading *r, struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t copies = n[SHAPE_ALTUP];
    uint64_t streams = n[SHAPE_HYPER];
    if (streams > 0) { /* before attention and before the feed-forward */
        layer->matrix_params += 2 * (2 + streams) * streams * streams * hidden;
        layer->vector_params += 2 * ((2 + streams) * streams + 3);
    }
    if (copies > 0) {
        layer->matrix_params += copies * copies + copies * copies * copies + hidden * copies;
        layer->vector_params += 2 * hidden;
    }
    if (n[SHAPE_LAUREL_RANK] > 0) {
        layer->matrix_params += 2 * hidden * n[SHAPE_LAUREL_RANK];
        layer->vector_params += hidden;
    }
    if (n[SHAPE_PLE_DIM] > 0) {
        layer->matrix_params += 2 * hidden * n[SHAPE_PLE_DIM];
        layer->vector_params += hidden;
    }
    layer->vector_params += has(r, SHAPE_LAYER_SCALE) ? 1 : 0;
}

static void count_globals(struct shape_reading *r, bool head_bias)
{
    struct shape *out = r->out;
    const uint32_t *n = out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t streams = n[SHAPE_HYPER];
    out->embed_params = n[SHAPE_VOCAB] * hidden;
    out->head_params = out->tied ? 0 : out->embed_params;
    out->global_matrix_params = 0;
    out->global_vector_params = hidden * (has(r, SHAPE_NORM_BIAS) ? 2 : 1) + (head_bias ? n[SHAPE_VOCAB] : 0);
    if (n[SHAPE_PLE_DIM] > 0) {
        uint64_t width = (uint64_t)out->count * n[SHAPE_PLE_DIM];
        uint64_t rows = n[SHAPE_PLE_VOCAB] > 0 ? n[SHAPE_PLE_VOCAB] : n[SHAPE_VOCAB];
        out->global_matrix_params += rows * width + hidden * width;
        out->global_vector_params += n[SHAPE_PLE_DIM];
    }
    if (n[SHAPE_ALTUP] > 1) {
        out->global_matrix_params += 2 * (uint64_t)(n[SHAPE_ALTUP] - 1) * hidden * hidden;
    }
    if (streams > 0 && r->row->pattern == PATTERN_COMPRESSED) { /* GLM takes the mean of the streams */
        out->global_matrix_params += streams * streams * hidden;
        out->global_vector_params += streams + 1;
    }
}

/* Sizes whose products stay far from 64 bits: beyond them nothing is counted. */
static bool sizes_are_sane(const struct shape_reading *r)
{
    static const enum shape_number wide[] = {SHAPE_HIDDEN,     SHAPE_FFN,       SHAPE_EXPERT_FFN,
                                             SHAPE_SHARED_FFN, SHAPE_DENSE_FFN, SHAPE_EXPERT_HIDDEN};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        if (r->out->number[wide[i]] > 1 << 20) {
            return false;
        }
    }
    return r->out->number[SHAPE_HIDDEN] > 0 && r->out->number[SHAPE_VOCAB] > 0;
}

static void count_layers(struct shape_reading *r, const struct counting *c)
{
    uint64_t hidden = r->out->number[SHAPE_HIDDEN];
    for (uint32_t i = 0; i < r->all; i++) {
        struct shape_layer *layer = &r->out->layers[i];
        uint64_t times = has(r, SHAPE_FOUR_NORMS) ? 4 : has(r, SHAPE_ONE_NORM | SHAPE_MIXER_ONLY) ? 1 : 2;
        layer->vector_params = times * hidden * (has(r, SHAPE_NORM_BIAS) ? 2 : 1);
        shape_count_mixer(r, layer, &c->biases);
        count_ffn(r, i, c);
        count_streams(r, layer);
    }
}

static berth_status read_truths(struct shape_reading *r, struct counting *c, bool *head_bias)
{
    bool all = false;
    bool proj = false;
    *c = (struct counting){
        {.qkv = has(r, SHAPE_QKV_BIAS), .norms = !has(r, SHAPE_NORM_ASKED), .conv = true}, false, false};
    *head_bias = false;
    r->out->tied = has(r, SHAPE_TIED);
    TRY(source_bool(&r->source, "tie_embedding", &r->out->tied));
    TRY(source_bool(&r->source, "tie_word_embeddings", &r->out->tied));
    TRY(source_bool(&r->source, "attention_bias", &c->biases.qkv));
    TRY(source_bool(&r->source, "lm_head_bias", head_bias));
    TRY(source_bool(&r->source, "use_qk_norm", &c->biases.norms));
    TRY(source_bool(&r->source, "attention_k_eq_v", &c->biases.kv_equal));
    TRY(source_bool(&r->source, "mlp_bias", &c->ffn_bias));
    c->biases.out = c->biases.qkv && has(r, SHAPE_O_BIAS);
    TRY(source_bool(&r->source, "attention_out_bias", &c->biases.out));
    c->biases.conv = r->row != NULL && r->row->state == SHAPE_MAMBA;
    TRY(source_bool(&r->source, "mamba_conv_bias", &c->biases.conv));
    TRY(source_bool(&r->source, "use_conv_bias", &c->biases.conv));
    TRY(source_bool(&r->source, "conv_bias", &c->biases.conv));
    TRY(source_bool(&r->source, "mamba_proj_bias", &proj));
    TRY(source_bool(&r->source, "use_bias", &all));
    bool states = r->row != NULL && r->row->state == SHAPE_MAMBA;
    c->biases.state = proj || (all && states);
    if (all && !states) {
        c->biases.qkv = c->biases.out = c->ffn_bias = true;
    }
    return BERTH_OK;
}

/* LFM2 takes two thirds of the width, times a factor, up to a multiple. */
static berth_status adjust_ffn(struct shape_reading *r)
{
    bool adjust = true;
    double factor = 1;
    struct json value;
    uint64_t multiple = r->out->number[SHAPE_FFN_MULTIPLE];
    if (r->row == NULL || r->row->state != SHAPE_CONV || multiple == 0 || r->out->number[SHAPE_EXPERTS] > 0) {
        return BERTH_OK;
    }
    TRY(source_bool(&r->source, "block_auto_adjust_ff_dim", &adjust));
    if (source_find(&r->source, "block_ffn_dim_multiplier", &value) &&
        (value.token.kind != JSON_NUMBER || !json_token_f64(&value.token, &factor) || !(factor > 0 && factor <= 64))) {
        return source_wrong(&r->source, "block_ffn_dim_multiplier", &value, "a number above 0 and up to 64");
    }
    for (uint32_t i = 0; i < r->all && adjust; i++) {
        const uint64_t third = 2 * (uint64_t)r->ffn[i] / 3;
        uint64_t width = (uint64_t)((double)third * factor);
        width = (width + multiple - 1) / multiple * multiple;
        r->ffn[i] = width <= 1 << 28 ? (uint32_t)width : 1 << 28;
    }
    return BERTH_OK;
}

static void forget_experts(struct shape *out)
{
    static const enum shape_number numbers[] = {SHAPE_EXPERTS,       SHAPE_TOP_K,          SHAPE_EXPERT_FFN,
                                                SHAPE_EXPERT_HIDDEN, SHAPE_SHARED_EXPERTS, SHAPE_DENSE_LEAD,
                                                SHAPE_MOE_STEP,      SHAPE_MOE_PERIOD,     SHAPE_MOE_OFFSET};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (out->is_default[numbers[i]]) {
            out->number[numbers[i]] = 0;
            out->is_default[numbers[i]] = false;
        }
    }
}

static uint32_t dense_width(const struct shape_reading *r, uint32_t i, bool doubled)
{
    const uint32_t *n = r->out->number;
    uint32_t width = n[SHAPE_DENSE_FFN] > 0 ? n[SHAPE_DENSE_FFN] : r->ffn[i];
    return doubled && r->out->layers[i].owner != i && width <= 1 << 28 ? 2 * width : width;
}

berth_status shape_read_params(struct shape_reading *r)
{
    struct shape *out = r->out;
    struct counting c;
    bool head_bias;
    bool doubled = false;
    bool moe;
    bool some = false;
    TRY(read_truths(r, &c, &head_bias));
    TRY(source_bool(&r->source, "use_double_wide_mlp", &doubled));
    c.beside = has(r, SHAPE_LAYER_SCALE);
    moe = !c.beside || r->source.meta != NULL; /* GGUF has a count of experts where there are any */
    TRY(source_bool(&r->source, "enable_moe_block", &moe));
    if (!moe) {
        out->number[SHAPE_EXPERTS] = 0;
    }
    TRY(mark_experts(r));
    for (uint32_t i = 0; i < out->count; i++) {
        some = some || out->layers[i].is_moe;
    }
    if (!some) {
        forget_experts(out);
    }
    TRY(adjust_ffn(r));
    for (uint32_t i = 0; i < r->all; i++) {
        struct shape_layer *layer = &out->layers[i];
        layer->ffn = layer->is_moe && !c.beside ? expert_width(r) : dense_width(r, i, doubled);
    }
    out->has_params = has(r, SHAPE_COUNTED) && out->is_known && r->source.meta == NULL && sizes_are_sane(r);
    if (out->has_params) {
        count_globals(r, head_bias);
        count_layers(r, &c);
    }
    return BERTH_OK;
}

bool shape_count_params(const struct shape *shape, struct shape_params *out)
{
    uint64_t matrices = 0;
    *out = (struct shape_params){.vectors = shape->global_vector_params};
    if (!shape->has_params || u64_add_overflows(shape->embed_params, shape->head_params, &matrices) ||
        u64_add_overflows(matrices, shape->global_matrix_params, &matrices)) {
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
