/* SPDX-License-Identifier: MIT
 * Grouped-query attention (arXiv 2305.13245) over the KV cache. Keys are taken in 1,024-key segments at absolute
 * positions, merged in order; threads share out (tile of tokens, KV head) pairs, and for a single token its segments
 * too.
 */
#include "forward/forward.h"

enum { SEGMENT_KEYS = 1024 };

struct attention_run {
    struct forward *fw;
    const struct layer_weights *w;
    uint32_t layer, first, tokens;
    uint32_t group;    /* query heads per KV head */
    uint32_t tile;     /* tokens that pass over the keys together */
    uint32_t segments; /* of the single token; else unused */
    uint32_t window;   /* 0: all keys */
    float scale;
};

static void project(struct forward *fw, const struct layer_weights *w, uint32_t tokens)
{
    const struct hparams *h = fw->hparams;
    struct scratch *s = &fw->scratch;
    struct act_rows rows = {s->normed, h->hidden, s->prepared, fw->prepared_bytes, tokens, h->hidden, ACT_NONE};
    const struct matrix *matrices[3] = {&w->q, &w->k, &w->v};
    const float *biases[3] = {w->q_bias, w->k_bias, w->v_bias};
    float *outs[3] = {s->q, s->k, s->v};
    struct matmul_job jobs[3];
    uint32_t count = 0;
    enum act_kind kind = ACT_NONE;
    for (uint32_t i = 0; i < 3; i++) {
        enum act_kind need = quant_row(matrices[i]->dtype)->act;
        if (count > 0 && need != kind) {
            forward_matmuls(fw, jobs, count);
            count = 0;
        }
        kind = need;
        uint64_t row_bytes = 0;
        const void *in = forward_rows(fw, &rows, matrices[i]->dtype, &row_bytes);
        jobs[count++] = forward_job(fw, matrices[i], biases[i], in, row_bytes, outs[i], matrices[i]->rows, tokens);
    }
    forward_matmuls(fw, jobs, count);
}

static void norm_heads(const struct forward *fw, float *x, const float *weight, uint32_t heads)
{
    const struct hparams *h = fw->hparams;
    if (weight == NULL) {
        return;
    }
    if (h->qk_norm == QK_NORM_FULL) {
        fw->kernels->rmsnorm(x, weight, h->norm_eps, x, heads * h->head_dim);
        return;
    }
    for (uint32_t i = 0; i < heads; i++) {
        float *head = x + (uint64_t)i * h->head_dim;
        fw->kernels->rmsnorm(head, weight, h->norm_eps, head, h->head_dim);
    }
}

/* One head's key or value into the cache. */
static void store_row(const struct forward *fw, const float *row, unsigned char *to)
{
    if (fw->kv.type == BERTH_KV_F16) {
        fw->kernels->to_f16(row, (uint16_t *)(void *)to, fw->hparams->head_dim);
    } else {
        quant_row(kv_dtype(fw->kv.type))->quantise(row, to, fw->hparams->head_dim);
    }
}

/* Clips, normalises, rotates one token's q and k, and stores k and v. */
static void place_range(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    (void)worker;
    const struct attention_run *run = ctx;
    const struct forward *fw = run->fw;
    const struct hparams *h = fw->hparams;
    const struct scratch *s = &fw->scratch;
    uint64_t q_floats = (uint64_t)h->heads * h->head_dim;
    uint64_t kv_floats = (uint64_t)h->kv_heads * h->head_dim;
    for (uint32_t t = begin; t < end; t++) {
        float *q = s->q + t * q_floats;
        float *k = s->k + t * kv_floats;
        float *v = s->v + t * kv_floats;
        norm_heads(fw, q, run->w->q_norm, h->heads);
        norm_heads(fw, k, run->w->k_norm, h->kv_heads);
        if (h->clip_qkv > 0) {
            fw->kernels->clamp(q, h->clip_qkv, q_floats);
            fw->kernels->clamp(k, h->clip_qkv, kv_floats);
            fw->kernels->clamp(v, h->clip_qkv, kv_floats);
        }
        const float *c = s->cosines + (uint64_t)t * (h->rotary_dim / 2);
        const float *sn = s->sines + (uint64_t)t * (h->rotary_dim / 2);
        for (uint32_t i = 0; i < h->heads; i++) {
            fw->kernels->rope(q + (uint64_t)i * h->head_dim, c, sn, h->rotary_dim, h->rope_half);
        }
        for (uint32_t i = 0; i < h->kv_heads; i++) {
            float *row = k + (uint64_t)i * h->head_dim;
            fw->kernels->rope(row, c, sn, h->rotary_dim, h->rope_half);
            uint64_t at = (uint64_t)(run->first + t) * fw->kv.row_bytes;
            unsigned char *k_to = (unsigned char *)kv_head(&fw->kv, fw->kv.k, run->layer, i) + at;
            unsigned char *v_to = (unsigned char *)kv_head(&fw->kv, fw->kv.v, run->layer, i) + at;
            const float *v_row = v + (uint64_t)i * h->head_dim;
            store_row(fw, row, k_to);
            store_row(fw, v_row, v_to);
        }
    }
}

/* What passes over the keys of one KV head together: the query heads that share it, of one token; where each KV head
 * has one query head, successive tokens of it. */
struct tile {
    uint32_t token, tokens; /* in the chunk; tokens > 1: run->group is 1, and all end in the same segment */
    uint32_t kv_index;
};

/* One partial result in scratch: [max: rows][sum: rows][pad][out: rows x head_dim]. */
struct partial {
    float *max, *sum, *out;
    uint32_t rows;
};

static struct partial partial_at(const struct forward *fw, uint64_t index, uint32_t rows)
{
    float *base = fw->scratch.segments + index * fw->scratch.segment_floats;
    return (struct partial){base, base + rows, base + (2 * (uint64_t)rows + 15) / 16 * 16, rows};
}

static void attend_segment(const struct attention_run *run, struct tile tile, uint32_t segment, struct partial to)
{
    const struct forward *fw = run->fw;
    const struct hparams *h = fw->hparams;
    uint32_t position = run->first + tile.token;
    uint32_t visible = run->window > 0 && position + 1 > run->window ? position + 1 - run->window : 0;
    uint32_t begin = segment * SEGMENT_KEYS;
    bool last = segment == position / SEGMENT_KEYS;
    struct attend a = {.q = fw->scratch.q +
                            ((uint64_t)tile.token * h->heads + (uint64_t)tile.kv_index * run->group) * h->head_dim,
                       .q_row_floats = tile.tokens > 1 ? (uint64_t)h->heads * h->head_dim : h->head_dim,
                       .k = kv_head(&fw->kv, fw->kv.k, run->layer, tile.kv_index),
                       .v = kv_head(&fw->kv, fw->kv.v, run->layer, tile.kv_index),
                       .kv_row_bytes = fw->kv.row_bytes,
                       .kv_type = fw->kv.type,
                       .queries = to.rows,
                       .head_dim = h->head_dim,
                       .key_begin = begin > visible ? begin : visible,
                       .key_end = last ? position + 1 : begin + SEGMENT_KEYS,
                       .key_step = last && tile.tokens > 1 ? 1 : 0,
                       .scale = run->scale,
                       .max = to.max,
                       .sum = to.sum,
                       .out = to.out};
    fw->kernels->attend(&a);
}

/* Segments that hold visible keys of a position: first_segment..last_segment. */
static uint32_t first_segment(const struct attention_run *run, uint32_t position)
{
    return run->window > 0 && position + 1 > run->window ? (position + 1 - run->window) / SEGMENT_KEYS : 0;
}

/* out[head] = total.out / total.sum, where `merge` brings the later segments in order. */
static void store(const struct attention_run *run, struct tile tile, struct partial total)
{
    const struct forward *fw = run->fw;
    const struct hparams *h = fw->hparams;
    for (uint32_t i = 0; i < total.rows; i++) {
        uint64_t token = tile.token + i / run->group;
        uint64_t head = (uint64_t)tile.kv_index * run->group + i % run->group;
        float *to = fw->scratch.attended + (token * h->heads + head) * h->head_dim;
        const float *from = total.out + (uint64_t)i * h->head_dim;
        for (uint32_t d = 0; d < h->head_dim; d++) {
            to[d] = from[d] / total.sum[i];
        }
    }
}

static void merge(const struct attention_run *run, struct partial total, struct partial next)
{
    uint32_t head_dim = run->fw->hparams->head_dim;
    for (uint32_t i = 0; i < total.rows; i++) {
        attend_merge(&total.max[i], &total.sum[i], total.out + (uint64_t)i * head_dim, next.max[i], next.sum[i],
                     next.out + (uint64_t)i * head_dim, head_dim);
    }
}

/* All segments of a tile, with the two partial results of a worker. */
static void attend_tile(const struct attention_run *run, struct tile tile, uint32_t worker)
{
    uint32_t rows = tile.tokens * run->group;
    struct partial total = partial_at(run->fw, (uint64_t)worker * 2, rows);
    struct partial next = partial_at(run->fw, (uint64_t)worker * 2 + 1, rows);
    uint32_t position = run->first + tile.token;
    uint32_t segment = first_segment(run, position);
    attend_segment(run, tile, segment, total);
    for (segment++; segment <= position / SEGMENT_KEYS; segment++) {
        attend_segment(run, tile, segment, next);
        merge(run, total, next);
    }
    store(run, tile, total);
}

/* Tiles lie at multiples of run->tile positions, so that all tokens of one end in the same segment. */
static void attend_tiles(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct attention_run *run = ctx;
    uint32_t kv_heads = run->fw->hparams->kv_heads;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t from = (run->first / run->tile + i / kv_heads) * run->tile;
        uint32_t to = from + run->tile;
        from = from > run->first ? from : run->first;
        to = to < run->first + run->tokens ? to : run->first + run->tokens;
        bool windowed = run->window > 0 && to > run->window; /* each token then begins at a key of its own */
        for (uint32_t position = from; position < to; position += windowed ? 1 : to - from) {
            attend_tile(run, (struct tile){position - run->first, windowed ? 1 : to - from, i % kv_heads}, worker);
        }
    }
}

/* Single token: every (KV head, segment) is its own piece of work. */
static void attend_pieces(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    (void)worker;
    const struct attention_run *run = ctx;
    uint32_t from = first_segment(run, run->first);
    for (uint32_t i = begin; i < end; i++) {
        attend_segment(run, (struct tile){0, 1, i / run->segments}, from + i % run->segments,
                       partial_at(run->fw, i, run->group));
    }
}

static void attend_single(struct attention_run *run)
{
    struct forward *fw = run->fw;
    uint32_t kv_heads = fw->hparams->kv_heads;
    run->segments = run->first / SEGMENT_KEYS - first_segment(run, run->first) + 1;
    pool_for(fw->pool, kv_heads * run->segments, 1, attend_pieces, run);
    for (uint32_t kv_index = 0; kv_index < kv_heads; kv_index++) {
        struct partial total = partial_at(fw, (uint64_t)kv_index * run->segments, run->group);
        for (uint32_t i = 1; i < run->segments; i++) {
            merge(run, total, partial_at(fw, (uint64_t)kv_index * run->segments + i, run->group));
        }
        store(run, (struct tile){0, 1, kv_index}, total);
    }
}

void forward_attention(struct forward *fw, uint32_t layer, uint32_t first, uint32_t tokens)
{
    const struct hparams *h = fw->hparams;
    const struct layer_weights *w = &fw->trunk->layers[layer];
    struct scratch *s = &fw->scratch;
    struct attention_run run = {.fw = fw,
                                .w = w,
                                .layer = layer,
                                .first = first,
                                .tokens = tokens,
                                .group = h->heads / h->kv_heads,
                                .tile = h->heads == h->kv_heads ? ATTENTION_TILE : 1,
                                .window = w->slides ? h->sliding_window : 0,
                                .scale = fw->attention_scale};
    project(fw, w, tokens);
    pool_for(fw->pool, tokens, 4, place_range, &run);
    if (tokens == 1) {
        attend_single(&run);
    } else {
        uint32_t tiles = (first + tokens - 1) / run.tile - first / run.tile + 1;
        pool_for(fw->pool, tiles * h->kv_heads, 4, attend_tiles, &run);
    }
    uint32_t q = h->heads * h->head_dim;
    struct act_rows rows = {s->attended, q, s->prepared, fw->prepared_bytes, tokens, q, ACT_NONE};
    uint64_t row_bytes = 0;
    const void *in = forward_rows(fw, &rows, w->o.dtype, &row_bytes);
    struct matmul_job job = forward_job(fw, &w->o, w->o_bias, in, row_bytes, s->out, h->hidden, tokens);
    forward_matmuls(fw, &job, 1);
}
