/* SPDX-License-Identifier: MIT
 * Parameters of what a layer does with its sequence: attention, latents, states. The products follow the matrices that
 * published checkpoints hold; tests compare them with counts that transformers makes of the same configurations. */
#include "family/shape_rows.h"

static bool has(const struct shape_reading *r, uint32_t flag)
{
    return r->row != NULL && (r->row->flags & flag) != 0;
}

/* ---- attention -------------------------------------------------------------------------------------- */

static void count_index(const struct shape_reading *r, struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t dim = layer->index_elems;
    if (layer->index_ratio == 0) {
        return;
    }
    layer->index_params = (uint64_t)n[SHAPE_Q_RANK] * n[SHAPE_INDEX_HEADS] * dim + hidden * n[SHAPE_INDEX_HEADS];
    if (layer->cache == SHAPE_LATENT) {
        layer->index_params += hidden * dim + 2 * dim;
        if (n[SHAPE_INDEX_POOL] > 0) { /* keys of a pool are weighted: a gate, and a table of places in the pool */
            layer->index_params += dim * hidden + n[SHAPE_INDEX_POOL] * dim;
        }
    } else { /* keys are compressed: two matrices of twice the width, a table of places, a norm */
        layer->index_params += 4 * hidden * dim + 2 * dim * layer->index_ratio + dim;
    }
}

static void count_latent(const struct shape_reading *r, struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t rank = n[SHAPE_KV_RANK];
    uint64_t q_rank = n[SHAPE_Q_RANK];
    uint64_t unrotated = layer->full_k_elems - (uint64_t)layer->heads * n[SHAPE_ROPE_DIM];
    layer->matrix_params += q_rank > 0 ? hidden * q_rank + q_rank * layer->full_k_elems : hidden * layer->full_k_elems;
    layer->matrix_params +=
        hidden * (rank + n[SHAPE_ROPE_DIM]) + rank * (unrotated + layer->full_v_elems) + layer->full_v_elems * hidden;
    layer->matrix_params += has(r, SHAPE_GATE_HEAD) ? hidden * layer->heads : 0;
    layer->vector_params += q_rank + rank;
    count_index(r, layer);
}

/* DeepSeek-V4: queries of low rank, one key that is the value too, an output matrix in groups. */
static void count_compressed(const struct shape_reading *r, struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t q_rank = n[SHAPE_Q_RANK];
    uint64_t dim = layer->k_elems;
    uint64_t out = (uint64_t)n[SHAPE_OUT_GROUPS] * n[SHAPE_OUT_RANK];
    layer->matrix_params +=
        hidden * (q_rank + dim) + q_rank * layer->q_elems + out * hidden + (uint64_t)layer->q_elems * n[SHAPE_OUT_RANK];
    layer->vector_params += q_rank + dim + layer->heads;
    if (layer->comp_ratio > 0) {
        uint64_t wide = layer->comp_ratio == 4 ? 2 * dim : dim;
        layer->matrix_params += 2 * hidden * wide;
        layer->vector_params += layer->comp_ratio * wide + dim;
        count_index(r, layer);
    }
}

static void count_attention(const struct shape_reading *r, struct shape_layer *layer, const struct shape_biases *biases)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t q = layer->q_elems;
    uint64_t head = layer->heads > 0 ? q / layer->heads : 0;
    uint64_t out = layer->k_elems > 0 ? q * layer->v_elems / layer->k_elems : q;
    bool windowed = layer->cache == SHAPE_SLIDING || layer->cache == SHAPE_CHUNKED;
    bool own = layer == &r->out->layers[layer->owner]; /* a layer that uses another's cache has no keys and values */
    bool equal = biases->kv_equal && !windowed;
    uint64_t kv = own ? (uint64_t)layer->k_elems + (equal ? 0 : layer->v_elems) : 0;
    layer->matrix_params += hidden * (q + kv + out);
    layer->matrix_params += has(r, SHAPE_GATED_Q | SHAPE_GATE_WIDE) ? hidden * q : 0;
    layer->matrix_params += has(r, SHAPE_GATE_HEAD) ? hidden * layer->heads : 0;
    layer->vector_params += biases->qkv ? q + kv : 0;
    layer->vector_params += biases->out ? hidden : 0;
    layer->vector_params += has(r, SHAPE_NORM_HEAD) && biases->norms ? (own ? 2 : 1) * head : 0;
    layer->vector_params += has(r, SHAPE_NORM_FULL) && biases->norms ? q + layer->k_elems : 0;
    layer->vector_params += has(r, SHAPE_SINKS) || (has(r, SHAPE_SINKS_WINDOW) && windowed) ? layer->heads : 0;
}

/* ---- state ------------------------------------------------------------------------------------------ */

static void count_delta(const struct shape_reading *r, struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t keys = (uint64_t)n[SHAPE_LINEAR_K_HEADS] * n[SHAPE_LINEAR_K_DIM];
    uint64_t values = (uint64_t)n[SHAPE_LINEAR_V_HEADS] * n[SHAPE_LINEAR_V_DIM];
    layer->matrix_params += hidden * (2 * keys + 3 * values + 2 * (uint64_t)n[SHAPE_LINEAR_V_HEADS]);
    layer->vector_params +=
        (2 * keys + values) * n[SHAPE_LINEAR_CONV] + 2 * (uint64_t)n[SHAPE_LINEAR_V_HEADS] + n[SHAPE_LINEAR_V_DIM];
}

static void count_mamba(const struct shape_reading *r, struct shape_layer *layer, const struct shape_biases *biases)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t state = n[SHAPE_SSM_STATE];
    uint64_t inner = state > 0 ? layer->state_elems / state : 0;
    uint64_t heads = n[SHAPE_SSM_HEADS];
    uint64_t groups = 2 * (uint64_t)n[SHAPE_SSM_GROUPS] * state;
    uint64_t conv = heads > 0 ? inner + groups : inner;
    uint64_t in = heads > 0 ? 2 * inner + groups + heads : 2 * inner;
    layer->matrix_params += hidden * (in + inner);
    layer->vector_params += conv * n[SHAPE_SSM_CONV] + (biases->conv ? conv : 0) + (biases->state ? in + hidden : 0);
    if (heads > 0) {
        layer->vector_params += 3 * heads + (has(r, SHAPE_STATE_NORM) ? inner : 0);
    } else { /* the first mamba: steps of low rank, a decay for every element of the state */
        uint64_t rank = n[SHAPE_DT_RANK] > 0 ? n[SHAPE_DT_RANK] : (hidden + 15) / 16;
        layer->matrix_params += inner * (rank + 2 * state) + rank * inner;
        layer->vector_params += inner + inner * state + inner + (has(r, SHAPE_STATE_NORM) ? rank + 2 * state : 0);
    }
}

/* conv_elems is 3 (kernel - 1) heads x dim, state_elems heads x dim x dim. */
static void count_kda(const struct shape_reading *r, struct shape_layer *layer)
{
    uint64_t hidden = r->out->number[SHAPE_HIDDEN];
    uint64_t heads = layer->state_heads;
    uint64_t dim = heads > 0 ? layer->state_dim : 0;
    uint64_t inner = heads * dim;
    uint64_t gate = has(r, SHAPE_KDA_WIDE) ? hidden * inner : hidden * dim + dim * inner;
    layer->matrix_params += 4 * hidden * inner + 2 * gate + hidden * heads;
    layer->vector_params += layer->conv_elems + 3 * inner + inner + heads + dim;
}

static void count_state(const struct shape_reading *r, struct shape_layer *layer, const struct shape_biases *biases)
{
    const uint32_t *n = r->out->number;
    uint64_t hidden = n[SHAPE_HIDDEN];
    uint64_t inner = (uint64_t)n[SHAPE_HEADS] * n[SHAPE_HEAD_DIM];
    switch (layer->state) {
    case SHAPE_DELTA:
        count_delta(r, layer);
        break;
    case SHAPE_MAMBA:
        count_mamba(r, layer, biases);
        break;
    case SHAPE_KDA:
        count_kda(r, layer);
        break;
    case SHAPE_LIGHTNING: /* queries, keys and values, the output and its gate; a norm */
        layer->matrix_params += 5 * hidden * inner;
        layer->vector_params += inner;
        break;
    case SHAPE_CONV:
        layer->matrix_params += 4 * hidden * hidden;
        layer->vector_params += hidden * n[SHAPE_CONV_CACHE] + (biases->conv ? 5 * hidden : 0);
        break;
    case SHAPE_NO_STATE:
    case SHAPE_RWKV:
    case SHAPE_COMPRESSOR:
    default:
        break;
    }
}

void shape_count_mixer(const struct shape_reading *r, struct shape_layer *layer, const struct shape_biases *biases)
{
    if (r->row->pattern == PATTERN_COMPRESSED) {
        count_compressed(r, layer);
    } else if (layer->cache == SHAPE_LATENT) {
        count_latent(r, layer);
    } else if (layer->cache != SHAPE_NO_CACHE) {
        count_attention(r, layer, biases);
    }
    count_state(r, layer, biases);
}
