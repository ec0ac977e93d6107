/* SPDX-License-Identifier: MIT
 *
 * Mixture-of-experts block: router, visit of the selected experts (resident ones compute while the others are read),
 * outputs buffered per (token, rank) and summed in rank order, so that the order of arrival never shows. One matrix
 * product per expert over its gathered tokens.
 */
#include <stdio.h>

#include "experts/residency.h"
#include "forward/forward.h"

enum { BATCH_MAX = MATMULS_MAX / 2 };

struct moe_run {
    struct forward *fw;
    const struct layer_weights *w;
    const struct expert_formats *formats;
    struct act_rows rows; /* the block's input */
    enum dtype gathered;  /* format that `gathered` was made for; DTYPE_COUNT: nothing yet */
    uint32_t tokens;
    bool shared;
    /* The experts being computed: */
    struct expert_weights held[BATCH_MAX];
    uint32_t held_count;
    enum act_kind hidden_kind;
};

/* ---- router ---- */

static void route_range(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    (void)worker;
    const struct moe_run *run = ctx;
    const struct hparams *h = run->fw->hparams;
    const struct scratch *s = &run->fw->scratch;
    for (uint32_t t = begin; t < end; t++) {
        float *p = s->probabilities + (uint64_t)t * h->experts;
        run->fw->kernels->softmax(p, h->experts);
        route_select(p, h->experts, h->top_k, h->norm_topk, s->route_ids + (uint64_t)t * h->top_k,
                     s->route_weights + (uint64_t)t * h->top_k);
    }
}

static void route(struct moe_run *run, uint32_t layer, const struct forward_chunk *chunk)
{
    struct forward *fw = run->fw;
    const struct hparams *h = fw->hparams;
    struct scratch *s = &fw->scratch;
    uint64_t row_bytes = 0;
    const void *in = forward_rows(fw, &run->rows, run->w->router.dtype, &row_bytes);
    struct matmul_job job =
        forward_job(fw, &run->w->router, NULL, in, row_bytes, s->probabilities, h->experts, run->tokens);
    forward_matmuls(fw, &job, 1);
    pool_for(fw->pool, run->tokens, 4, route_range, run);
    if (fw->residency != NULL) {
        struct residency_visit visit = {.layer = run->w->moe_index,
                                        .position = chunk->first,
                                        .rows = run->tokens,
                                        .phase = chunk->phase,
                                        .ids = s->route_ids,
                                        .weights = s->route_weights};
        residency_visit(fw->residency, &visit);
    }
    for (uint32_t t = 0; fw->route != NULL && t < run->tokens; t++) {
        berth_route r = {.layer = layer,
                         .position = chunk->first + t,
                         .k = h->top_k,
                         .phase = chunk->phase,
                         .experts = s->route_ids + (uint64_t)t * h->top_k,
                         .weights = s->route_weights + (uint64_t)t * h->top_k};
        fw->route(fw->route_user, &r);
    }
}

/* Sorts the (token, rank) pairs by expert: expert_first, pair_row, row_pair, and the unique experts in order of first
 * use. */
static uint32_t group_pairs(struct moe_run *run)
{
    const struct hparams *h = run->fw->hparams;
    struct scratch *s = &run->fw->scratch;
    uint32_t pairs = run->tokens * h->top_k;
    uint32_t unique = 0;
    memset(s->expert_first, 0, ((size_t)h->experts + 1) * sizeof s->expert_first[0]);
    for (uint32_t p = 0; p < pairs; p++) {
        uint32_t id = s->route_ids[p];
        if (s->expert_first[id + 1]++ == 0) {
            s->visit_ids[unique++] = (uint16_t)id;
        }
    }
    for (uint32_t e = 0; e < h->experts; e++) {
        s->expert_first[e + 1] += s->expert_first[e];
    }
    for (uint32_t p = 0; p < pairs; p++) { /* expert_first[e] becomes the end of e, then is shifted back */
        uint32_t row = s->expert_first[s->route_ids[p]]++;
        s->pair_row[p] = row;
        s->row_pair[row] = p / h->top_k;
    }
    for (uint32_t e = h->experts; e > 0; e--) {
        s->expert_first[e] = s->expert_first[e - 1];
    }
    s->expert_first[0] = 0;
    return unique;
}

/* ---- experts ---- */

struct gather_run {
    const struct forward *fw;
    const unsigned char *rows;
    uint64_t row_bytes, to_bytes;
};

static void gather_range(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    (void)worker;
    const struct gather_run *run = ctx;
    const struct scratch *s = &run->fw->scratch;
    for (uint32_t row = begin; row < end; row++) {
        memcpy(s->gathered + row * run->to_bytes, run->rows + s->row_pair[row] * run->row_bytes, run->to_bytes);
    }
}

/* Input rows of expert `first` on, prepared for `dtype`: for one token its row serves all, otherwise the gathered
 * copies. */
static const void *expert_rows(struct moe_run *run, enum dtype dtype, uint32_t first, uint64_t *row_bytes)
{
    struct forward *fw = run->fw;
    uint64_t from_bytes = 0;
    const void *rows = forward_rows(fw, &run->rows, dtype, &from_bytes);
    if (run->tokens == 1) {
        *row_bytes = from_bytes;
        return rows;
    }
    uint64_t exact = act_row_bytes(quant_row(dtype)->act, fw->hparams->hidden);
    *row_bytes = exact;
    if (run->gathered == DTYPE_COUNT || quant_row(run->gathered)->act != quant_row(dtype)->act) {
        struct gather_run gather = {fw, rows, from_bytes, exact};
        pool_for(fw->pool, run->tokens * fw->hparams->top_k, 16, gather_range, &gather);
        run->gathered = dtype;
    }
    return fw->scratch.gathered + first * exact;
}

/* What lies beside a part of an expert; k: values of a row. */
static struct packed_side expert_side(const struct moe_run *run, const struct expert_weights *held, uint32_t part,
                                      uint32_t k)
{
    const struct packed *format = &run->formats->packed[part];
    if (format->kind == PACKED_NONE) {
        return (struct packed_side){.scales = NULL};
    }
    uint64_t bytes = quant_row(format->scale_type)->block_bytes;
    return (struct packed_side){*format, held->part[EXPERT_SCALES + part], held->part[EXPERT_BIASES + part],
                                packed_groups(format, k) * bytes};
}

static struct matrix expert_matrix(const struct moe_run *run, const struct expert_weights *held, uint32_t part)
{
    const struct hparams *h = run->fw->hparams;
    enum dtype dtype = part == EXPERT_GATE ? run->formats->gate
                       : part == EXPERT_UP ? run->formats->up
                                           : run->formats->down;
    uint32_t k = part == EXPERT_DOWN ? h->expert_ffn : h->hidden;
    uint64_t row_bytes = 0;
    (void)quant_row_bytes(dtype, k, &row_bytes); /* checked when the catalog was made */
    const float *scales = run->w->expert_scale[part];
    return (struct matrix){.data = held->part[part],
                           .row_bytes = row_bytes,
                           .rows = part == EXPERT_DOWN ? h->hidden : h->expert_ffn,
                           .k = k,
                           .dtype = dtype,
                           .scale = scales != NULL ? scales + held->expert : NULL,
                           .side = expert_side(run, held, part, k)};
}

/* Row range of a held expert. */
static uint32_t rows_begin(const struct moe_run *run, uint32_t held)
{
    return run->fw->scratch.expert_first[run->held[held].expert];
}
static uint32_t rows_count(const struct moe_run *run, uint32_t held)
{
    return run->fw->scratch.expert_first[run->held[held].expert + 1] - rows_begin(run, held);
}

static void project_in(struct moe_run *run, uint32_t part, float *out, struct matmul_job *jobs, uint32_t *count)
{
    struct forward *fw = run->fw;
    uint32_t ffn = fw->hparams->expert_ffn;
    for (uint32_t i = 0; i < run->held_count; i++) {
        struct matrix m = expert_matrix(run, &run->held[i], part);
        uint32_t first = rows_begin(run, i);
        uint64_t row_bytes = 0;
        const void *in = expert_rows(run, m.dtype, first, &row_bytes);
        jobs[(*count)++] =
            forward_job(fw, &m, NULL, in, row_bytes, out + (uint64_t)first * ffn, ffn, rows_count(run, i));
    }
}

/* Rows of all held experts, numbered through: silu(gate) * up, then prepared for the down projection. */
static void hidden_range(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    (void)worker;
    const struct moe_run *run = ctx;
    const struct forward *fw = run->fw;
    const struct scratch *s = &fw->scratch;
    uint64_t ffn = fw->hparams->expert_ffn;
    uint32_t held = 0;
    uint32_t before = 0;
    for (uint32_t i = begin; i < end; i++) {
        while (i - before >= rows_count(run, held)) {
            before += rows_count(run, held++);
        }
        uint64_t row = rows_begin(run, held) + (i - before);
        float *gate = s->gate + row * ffn;
        fw->kernels->silu_mul(gate, s->up + row * ffn, gate, ffn);
        if (run->hidden_kind != ACT_F32) {
            fw->kernels->prepare[run->hidden_kind](gate, s->prepared_hidden + row * fw->hidden_bytes, (uint32_t)ffn);
        }
    }
}

/* Computes all held experts into expert_out. */
static void compute_held(struct moe_run *run)
{
    struct forward *fw = run->fw;
    struct scratch *s = &fw->scratch;
    struct matmul_job *jobs = s->jobs;
    uint32_t count = 0;
    uint32_t rows = 0;
    uint64_t ffn = fw->hparams->expert_ffn;
    project_in(run, EXPERT_GATE, s->gate, jobs, &count);
    if (quant_row(run->formats->gate)->act != quant_row(run->formats->up)->act) {
        forward_matmuls(fw, jobs, count); /* the gathered rows are about to be rewritten */
        count = 0;
    }
    project_in(run, EXPERT_UP, s->up, jobs, &count);
    forward_matmuls(fw, jobs, count);
    for (uint32_t i = 0; i < run->held_count; i++) {
        rows += rows_count(run, i);
    }
    run->hidden_kind = quant_row(run->formats->down)->act;
    pool_for(fw->pool, rows, 2, hidden_range, run);
    for (uint32_t i = 0; i < run->held_count; i++) {
        struct matrix m = expert_matrix(run, &run->held[i], EXPERT_DOWN);
        uint64_t first = rows_begin(run, i);
        bool plain = run->hidden_kind == ACT_F32;
        const void *in = plain ? (const void *)(s->gate + first * ffn)
                               : (const void *)(s->prepared_hidden + first * fw->hidden_bytes);
        jobs[i] = forward_job(fw, &m, NULL, in, plain ? ffn * sizeof(float) : fw->hidden_bytes,
                              s->expert_out + first * fw->hparams->hidden, fw->hparams->hidden, rows_count(run, i));
    }
    forward_matmuls(fw, jobs, run->held_count);
}

static berth_status run_visit(struct moe_run *run, uint32_t unique, berth_error *err)
{
    struct cache *cache = run->fw->cache;
    uint32_t hold_max = run->fw->hparams->top_k < BATCH_MAX ? run->fw->hparams->top_k : BATCH_MAX;
    uint32_t done = 0;
    while (done < unique) {
        berth_status status = BERTH_OK;
        run->held_count = 0;
        do {
            status = cache_visit_next(cache, &run->held[run->held_count], err);
            run->held_count += status == BERTH_OK ? 1 : 0;
        } while (status == BERTH_OK && run->held_count < hold_max && done + run->held_count < unique &&
                 cache_visit_ready(cache) > 0);
        if (status == BERTH_OK) {
            compute_held(run);
        }
        for (uint32_t i = 0; i < run->held_count; i++) {
            cache_release(cache, run->held[i].handle);
        }
        TRY(status);
        done += run->held_count;
    }
    return BERTH_OK;
}

/* ---- outputs ---- */

static void sum_range(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    (void)worker;
    const struct moe_run *run = ctx;
    const struct forward *fw = run->fw;
    const struct scratch *s = &fw->scratch;
    const struct hparams *h = fw->hparams;
    for (uint32_t t = begin; t < end; t++) {
        float *out = s->out + (uint64_t)t * h->hidden;
        memset(out, 0, h->hidden * sizeof *out);
        for (uint32_t rank = 0; rank < h->top_k; rank++) {
            uint64_t pair = (uint64_t)t * h->top_k + rank;
            fw->kernels->add_scaled(out, s->expert_out + (uint64_t)s->pair_row[pair] * h->hidden,
                                    s->route_weights[pair], h->hidden);
        }
        if (run->shared) {
            fw->kernels->add_scaled(out, s->shared_out + (uint64_t)t * h->hidden, s->shared_scale[t], h->hidden);
        }
    }
}

/* The shared expert, scaled by the sigmoid of its own router (Qwen2-MoE). Runs while the routed experts are being read.
 */
static void shared_expert(struct moe_run *run)
{
    struct forward *fw = run->fw;
    struct scratch *s = &fw->scratch;
    const struct layer_weights *w = run->w;
    forward_dense(fw, &w->shared_gate, &w->shared_up, &w->shared_down, &run->rows, s->shared_out, run->tokens);
    uint64_t row_bytes = 0;
    const void *in = forward_rows(fw, &run->rows, w->shared_router.dtype, &row_bytes);
    struct matmul_job job = forward_job(fw, &w->shared_router, NULL, in, row_bytes, s->shared_scale, 1, run->tokens);
    forward_matmuls(fw, &job, 1);
    fw->kernels->sigmoid(s->shared_scale, run->tokens);
}

/* The cache numbers MoE layers; people count all layers. */
static void name_layer(berth_error *err, uint32_t layer)
{
    if (err == NULL || err->expert < 0) {
        return;
    }
    char object[64];
    int bytes = snprintf(object, sizeof object, "layer %u expert %d", (unsigned)layer, (int)err->expert);
    error_at_object(err, object, bytes > 0 ? (size_t)bytes : 0);
    error_at_expert(err, (int32_t)layer, err->expert);
}

berth_status forward_moe(struct forward *fw, uint32_t layer, const struct forward_chunk *chunk, berth_error *err)
{
    const struct layer_weights *w = &fw->trunk->layers[layer];
    const struct hparams *h = fw->hparams;
    struct moe_run *run = fw->scratch.moe;
    run->fw = fw;
    run->w = w;
    run->formats = &fw->formats[w->moe_index];
    run->rows = (struct act_rows){fw->scratch.normed, h->hidden, fw->scratch.prepared, fw->prepared_bytes, chunk->count,
                                  h->hidden,          ACT_NONE};
    run->gathered = DTYPE_COUNT;
    run->tokens = chunk->count;
    run->shared = h->shared_ffn > 0;
    route(run, layer, chunk);
    uint32_t unique = group_pairs(run);
    TRY(cache_visit_begin(fw->cache, w->moe_index, chunk->phase, fw->scratch.visit_ids, unique, err));
    if (run->shared) {
        shared_expert(run);
    }
    berth_status status = run_visit(run, unique, err);
    cache_visit_end(fw->cache);
    if (status != BERTH_OK) {
        name_layer(err, layer);
        return status;
    }
    pool_for(fw->pool, run->tokens, 4, sum_range, run);
    return BERTH_OK;
}

uint64_t forward_moe_bytes(void)
{
    return sizeof(struct moe_run);
}
