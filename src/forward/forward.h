/* SPDX-License-Identifier: MIT
 *
 * The forward pass: embedding, layers (attention, then dense or MoE feed-forward), head. One chunk of tokens at a time,
 * layer-major; decode is a chunk of one. The bits of every output are independent of the chunk size, the number of
 * threads and where experts come from: docs/arithmetic.md.
 */
#ifndef FORWARD_FORWARD_H
#define FORWARD_FORWARD_H

#include <stdatomic.h>

#include "compute/kernels.h"
#include "compute/pool.h"
#include "experts/cache.h"
#include "forward/kv.h"
#include "forward/weights.h"

struct moe_run;
struct matmul_job;

enum { ATTENTION_TILE = 4 }; /* tokens that pass over the keys together where each KV head has one query head */

/* Activations of the largest chunk. T = chunk_tokens, P = T * top_k (token, rank) pairs. */
struct scratch {
    float *x;                       /* [T][hidden] residual stream */
    float *normed;                  /* [T][hidden] */
    float *q;                       /* [T][heads * head_dim] */
    float *k, *v;                   /* [T][kv_heads * head_dim] */
    float *attended;                /* [T][heads * head_dim] */
    float *out;                     /* [T][hidden] */
    float *gate, *up;               /* dense and shared: [T][max(ffn, shared_ffn)]; experts: [P][expert_ffn] */
    unsigned char *prepared;        /* activation rows of a matrix input: [T][largest row] */
    unsigned char *prepared_hidden; /* [P or T][largest row] */
    unsigned char *gathered;        /* [P][largest row]: rows of `prepared`, grouped by expert */
    float *expert_out;              /* [P][hidden], grouped by expert */
    float *shared_scale;            /* [T] */
    float *probabilities;           /* [T][experts] */
    uint16_t *route_ids;            /* [T][top_k] in rank order */
    float *route_weights;           /* [T][top_k] */
    uint32_t *pair_row;             /* [T][top_k]: row of expert_out */
    uint32_t *row_pair;             /* [P]: the token that row stands for */
    uint32_t *expert_first;         /* [experts + 1]: first row of each expert */
    uint16_t *visit_ids;            /* [experts] unique experts of the visit */
    float *cosines, *sines;         /* [T][rotary / 2] */
    float *segments;                /* partial attention results: see attention.c */
    uint64_t segment_floats;        /* of one partial result */
    float *logits;                  /* [vocab] */
    float *shared_out;              /* [T][hidden] */
    struct matmul_job *jobs;        /* [MATMULS_MAX] */
    unsigned char *matmul_scratch;  /* [threads][MATMUL_SCRATCH_BYTES] */
    struct moe_run *moe;            /* state of the running MoE block (moe.c) */
};

struct forward {
    const struct hparams *hparams;
    const struct trunk *trunk;
    const struct kernels *kernels;
    const struct expert_formats *formats; /* [moe_layers] */
    struct pool *pool;
    struct cache *cache; /* NULL for dense models */
    struct kv kv;
    struct scratch scratch;
    float *frequencies;    /* [rotary / 2] */
    float rope_scale;      /* cos and sin are multiplied by it */
    float attention_scale; /* 1 / sqrt(head_dim) */
    uint32_t chunk_tokens;
    uint64_t prepared_bytes, hidden_bytes; /* row strides of prepared, gathered / prepared_hidden */
    uint64_t macs, kernel_calls;
    struct residency *residency; /* told of every visit; NULL: nobody is */
    berth_route_fn *route;
    void *route_user;
    const atomic_int *cancel; /* stop at the next layer when nonzero */
};

struct forward_dims {
    const struct hparams *hparams;
    const struct trunk *trunk;
    const struct expert_formats *formats; /* NULL when measuring is fine: then every format's largest row is assumed */
    uint32_t chunk_tokens, ctx_tokens, threads;
    berth_kv_type kv_type;
};

/* `kv`, `scratch` and `tables` take their plan lines. Fills the layout half of *out; the caller sets the rest and calls
 * forward_start(). */
berth_status forward_layout(struct arena *kv, struct arena *scratch, struct arena *tables,
                            const struct forward_dims *dims, struct forward *out, berth_error *err);
/* Computes the RoPE frequencies (after the trunk is loaded). */
void forward_start(struct forward *fw);

/* Evaluates ids[0..count) at positions first.. (count <= chunk_tokens). Logits of the last token land in
 * scratch.logits; with `each`, those of every token are computed and reported. */
struct forward_chunk {
    const int32_t *ids;
    uint32_t count, first;
    berth_phase phase;
    bool want_logits; /* of the last token */
    berth_logits_fn *each;
    void *each_user;
};
berth_status forward_chunk(struct forward *fw, const struct forward_chunk *chunk, berth_error *err);

/* ---- blocks, used by forward.c only ---- */

enum { MATMULS_MAX = 128 };

/* Several matrix products over the same thread pool run: rows of all of them are one list of work. */
struct matmul_job {
    struct matmul m;
    matmul_fn *fn;
    uint32_t rows;
    const float *scale; /* see struct matrix */
};
void forward_matmuls(struct forward *fw, const struct matmul_job *jobs, uint32_t count);
/* A job for `matrix` over prepared rows (see act_rows). */
struct matmul_job forward_job(const struct forward *fw, const struct matrix *matrix, const float *bias, const void *x,
                              uint64_t x_row_bytes, float *y, uint64_t y_row_floats, uint32_t tokens);

/* Input rows of matrices of possibly different formats: prepared at most once per kind. */
struct act_rows {
    const float *x; /* [tokens][k] */
    uint64_t x_row_floats;
    unsigned char *prepared; /* [tokens][prepared_bytes] */
    uint64_t prepared_bytes;
    uint32_t tokens, k;
    enum act_kind ready; /* what `prepared` holds; ACT_NONE: nothing */
};
/* Rows as `dtype` kernels want them, and their stride. */
const void *forward_rows(struct forward *fw, struct act_rows *rows, enum dtype dtype, uint64_t *row_bytes);

uint64_t forward_moe_bytes(void); /* of struct moe_run */
void forward_norm(struct forward *fw, const float *x, const float *weight, float *out, uint32_t tokens);
void forward_attention(struct forward *fw, uint32_t layer, uint32_t first, uint32_t tokens);
void forward_dense(struct forward *fw, const struct matrix *gate, const struct matrix *up, const struct matrix *down,
                   struct act_rows *in, float *out, uint32_t tokens);
berth_status forward_moe(struct forward *fw, uint32_t layer, const struct forward_chunk *chunk, berth_error *err);
/* Picks the top_k largest of probabilities[experts] in rank order (ties: lower id first) and their weights. */
void route_select(const float *probabilities, uint32_t experts, uint32_t top_k, bool normalise, uint16_t *ids,
                  float *weights);

#endif
