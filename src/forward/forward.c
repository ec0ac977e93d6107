/* SPDX-License-Identifier: MIT */
#include "forward/forward.h"

#include <math.h>

#include "base/checked.h"

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The widest prepared row of k values, over all activation kinds. The plan does not depend on which formats a file
 * mixes. */
static uint64_t widest_row(uint64_t k)
{
    uint64_t padded = (k + 31) / 32 * 32;
    return size_round_up((size_t)max_u64(act_row_bytes(ACT_F32, k), act_row_bytes(ACT_Q8, padded)), 64);
}

static void take_attention(struct arena *a, const struct forward_dims *d, struct scratch *s)
{
    const struct hparams *h = d->hparams;
    uint64_t t = d->chunk_tokens;
    uint64_t q = (uint64_t)h->heads * h->head_dim;
    uint64_t kv = (uint64_t)h->kv_heads * h->head_dim;
    s->q = ARENA_NEW(a, float, t *q);
    s->k = ARENA_NEW(a, float, t *kv);
    s->v = ARENA_NEW(a, float, t *kv);
    s->attended = ARENA_NEW(a, float, t *q);
    s->cosines = ARENA_NEW(a, float, t *(h->rotary_dim / 2));
    s->sines = ARENA_NEW(a, float, t *(h->rotary_dim / 2));
    /* One partial result: max and sum of every query head of a KV head, padded, then its output. Decode keeps one per
     * KV head and 1,024-key segment; a larger chunk two per thread. */
    uint64_t group = h->heads / h->kv_heads;
    uint64_t rows = group > 1 ? group : ATTENTION_TILE;
    s->segment_floats = size_round_up((size_t)(2 * rows), 16) + size_round_up((size_t)(rows * h->head_dim), 16);
    uint64_t segments = ((uint64_t)d->ctx_tokens + 1023) / 1024 * h->kv_heads;
    s->segments = ARENA_NEW(a, float, max_u64(segments, (uint64_t)d->threads * 2) * s->segment_floats);
}

static void take_moe(struct arena *a, const struct forward_dims *d, struct scratch *s)
{
    const struct hparams *h = d->hparams;
    uint64_t t = d->chunk_tokens;
    uint64_t pairs = t * h->top_k;
    s->expert_out = ARENA_NEW(a, float, pairs * h->hidden);
    s->shared_scale = ARENA_NEW(a, float, t);
    s->probabilities = ARENA_NEW(a, float, t * h->experts);
    s->route_ids = ARENA_NEW(a, uint16_t, pairs);
    s->route_weights = ARENA_NEW(a, float, pairs);
    s->pair_row = ARENA_NEW(a, uint32_t, pairs);
    s->row_pair = ARENA_NEW(a, uint32_t, pairs);
    s->expert_first = ARENA_NEW(a, uint32_t, (uint64_t)h->experts + 1);
    s->visit_ids = ARENA_NEW(a, uint16_t, h->experts);
    s->shared_out = ARENA_NEW(a, float, h->shared_ffn > 0 ? t * h->hidden : 0);
    s->jobs = ARENA_NEW(a, struct matmul_job, MATMULS_MAX);
    s->moe = arena_take(a, 1, forward_moe_bytes(), 0);
}

berth_status forward_layout(struct arena *kv, struct arena *scratch, struct arena *tables,
                            const struct forward_dims *dims, struct forward *out, berth_error *err)
{
    const struct hparams *h = dims->hparams;
    struct scratch *s = &out->scratch;
    uint64_t t = dims->chunk_tokens;
    uint64_t pairs = max_u64(t * h->top_k, t);
    uint64_t q = (uint64_t)h->heads * h->head_dim;
    out->hparams = h;
    out->trunk = dims->trunk;
    out->formats = dims->formats;
    out->chunk_tokens = dims->chunk_tokens;
    out->prepared_bytes = widest_row(max_u64(h->hidden, q));
    uint64_t dense = max_u64(h->moe_layers < h->layers ? h->ffn : 0, h->shared_ffn);
    out->hidden_bytes = widest_row(max_u64(dense, h->expert_ffn));
    uint64_t hidden_floats = max_u64(t * dense, h->moe_layers > 0 ? pairs * h->expert_ffn : 0);
    TRY(kv_layout(kv, h, dims->ctx_tokens, dims->kv_type, &out->kv, err));
    s->x = ARENA_NEW(scratch, float, t * h->hidden);
    s->normed = ARENA_NEW(scratch, float, t * h->hidden);
    s->out = ARENA_NEW(scratch, float, t * h->hidden);
    s->logits = ARENA_NEW(scratch, float, h->vocab);
    s->gate = ARENA_NEW(scratch, float, hidden_floats);
    s->up = ARENA_NEW(scratch, float, hidden_floats);
    s->prepared = arena_take(scratch, t, out->prepared_bytes, 0);
    s->prepared_hidden = arena_take(scratch, h->moe_layers > 0 ? pairs : t, out->hidden_bytes, 0);
    s->gathered = arena_take(scratch, h->moe_layers > 0 ? pairs : 0, widest_row(h->hidden), 0);
    take_attention(scratch, dims, s);
    if (h->moe_layers > 0) {
        take_moe(scratch, dims, s);
    }
    s->matmul_scratch = arena_take(scratch, dims->threads, MATMUL_SCRATCH_BYTES, 0);
    TRY(arena_check(scratch, "scratch", err));
    out->frequencies = ARENA_NEW(tables, float, h->rotary_dim / 2);
    return arena_check(tables, "RoPE table", err);
}

void forward_start(struct forward *fw)
{
    const struct rope_maths maths = {math_pow, math_log};
    family_rope_frequencies(fw->hparams, &maths, fw->frequencies);
    fw->attention_scale = (float)(1.0 / sqrt((double)fw->hparams->head_dim));
    fw->rope_scale = family_rope_attention(fw->hparams, &maths);
    for (uint32_t i = 0; fw->trunk->rope_factors != NULL && i < fw->hparams->rotary_dim / 2; i++) {
        fw->frequencies[i] /= fw->trunk->rope_factors[i];
    }
}

static void embed(struct forward *fw, const struct forward_chunk *chunk)
{
    const struct matrix *m = &fw->trunk->embed;
    for (uint32_t t = 0; t < chunk->count; t++) {
        uint64_t id = (uint64_t)chunk->ids[t];
        const unsigned char *row = (const unsigned char *)m->data + id * m->row_bytes;
        float *out = fw->scratch.x + (uint64_t)t * fw->hparams->hidden;
        if (m->side.format.kind != PACKED_NONE) {
            packed_dequantise(m->dtype, &m->side, row, id, 0, m->k, out);
        } else {
            quant_row(m->dtype)->dequantise(row, out, m->k);
        }
    }
}

/* Angles of this chunk's positions: position times frequency, rounded to float32 as the models were trained with. */
static void rotate_table(struct forward *fw, const struct forward_chunk *chunk)
{
    uint32_t half = fw->hparams->rotary_dim / 2;
    for (uint32_t t = 0; t < chunk->count; t++) {
        for (uint32_t i = 0; i < half; i++) {
            float *c = &fw->scratch.cosines[(uint64_t)t * half + i];
            float *s = &fw->scratch.sines[(uint64_t)t * half + i];
            math_sincos((double)((float)(chunk->first + t) * fw->frequencies[i]), s, c);
            *c *= fw->rope_scale;
            *s *= fw->rope_scale;
        }
    }
}

static void head(struct forward *fw, const float *x)
{
    const struct hparams *h = fw->hparams;
    struct scratch *s = &fw->scratch;
    forward_norm(fw, x, fw->trunk->out_norm, s->normed, 1);
    struct act_rows rows = {s->normed, h->hidden, s->prepared, fw->prepared_bytes, 1, h->hidden, ACT_NONE};
    uint64_t row_bytes = 0;
    const void *in = forward_rows(fw, &rows, fw->trunk->head.dtype, &row_bytes);
    struct matmul_job job = forward_job(fw, &fw->trunk->head, NULL, in, row_bytes, s->logits, h->vocab, 1);
    forward_matmuls(fw, &job, 1);
}

static berth_status layer_step(struct forward *fw, uint32_t layer, const struct forward_chunk *chunk, berth_error *err)
{
    const struct hparams *h = fw->hparams;
    const struct layer_weights *w = &fw->trunk->layers[layer];
    struct scratch *s = &fw->scratch;
    uint64_t floats = (uint64_t)chunk->count * h->hidden;
    forward_norm(fw, s->x, w->attn_norm, s->normed, chunk->count);
    forward_attention(fw, layer, chunk->first, chunk->count);
    fw->kernels->add(s->x, s->out, floats);
    forward_norm(fw, s->x, w->ffn_norm, s->normed, chunk->count);
    if (w->moe) {
        TRY(forward_moe(fw, layer, chunk, err));
    } else {
        struct act_rows rows = {s->normed,    h->hidden, s->prepared, fw->prepared_bytes,
                                chunk->count, h->hidden, ACT_NONE};
        forward_dense(fw, &w->gate, &w->up, &w->down, &rows, s->out, chunk->count);
    }
    fw->kernels->add(s->x, s->out, floats);
    return BERTH_OK;
}

berth_status forward_chunk(struct forward *fw, const struct forward_chunk *chunk, berth_error *err)
{
    embed(fw, chunk);
    rotate_table(fw, chunk);
    for (uint32_t layer = 0; layer < fw->hparams->layers; layer++) {
        if (fw->cancel != NULL && atomic_load_explicit(fw->cancel, memory_order_relaxed) != 0) {
            return error_set(err, BERTH_ERR_CANCELLED, "cancelled at layer %u", (unsigned)layer);
        }
        TRY(layer_step(fw, layer, chunk, err));
    }
    for (uint32_t t = 0; t < chunk->count; t++) {
        bool last = t + 1 == chunk->count;
        if (chunk->each != NULL || (last && chunk->want_logits)) {
            head(fw, fw->scratch.x + (uint64_t)t * fw->hparams->hidden);
        }
        if (chunk->each != NULL) {
            chunk->each(chunk->each_user, chunk->first + t, fw->scratch.logits, fw->hparams->vocab);
        }
    }
    return BERTH_OK;
}
