/* SPDX-License-Identifier: MIT
 *
 * The kernel table: one row an instruction set, every row with the same bits (docs/arithmetic.md). Kernels know
 * buffers, not models. All pointers to weights may have any alignment; floats, prepared rows and outputs need
 * their 4 bytes (64 is faster). Row ranges that begin at multiples of 16 suit every row's register tiles.
 */
#ifndef COMPUTE_KERNELS_H
#define COMPUTE_KERNELS_H

#include "berth.h"
#include "quant/packed.h"

/* y[t][r] = sum over k of w[r][k] * x[t][k]  (+ bias[r]), for rows row_begin..row_end and all tokens. */
struct matmul {
    const void *w; /* [rows][k] of one dtype, rows w_row_bytes apart */
    uint64_t w_row_bytes;
    const void *x; /* prepared activations [tokens], x_row_bytes apart (act_row_bytes) */
    uint64_t x_row_bytes;
    const float *bias; /* [rows] or NULL; added last */
    float *y;          /* [tokens][>= rows], y_row_floats apart; y[t * y_row_floats + r] */
    uint64_t y_row_floats;
    uint32_t k;              /* a multiple of the format's block */
    uint32_t tokens;         /* >= 1; 1 is the GEMV case, same bits per token */
    void *scratch;           /* MATMUL_SCRATCH_BYTES of the calling thread, 64-byte aligned; contents do not matter */
    struct packed_side side; /* formats whose scales lie beside them */
};
enum { MATMUL_SCRATCH_BYTES = 32 * 1024 };

typedef void matmul_fn(const struct matmul *m, uint32_t row_begin, uint32_t row_end);

enum {
    ATTEND_BLOCK = 64,     /* keys a step of the online softmax */
    ATTEND_SEGMENT = 1024, /* keys a struct attend may span; merged in order by attend_merge() */
};

/* Attention of `queries` rows that share one KV head, over keys inside one 1,024-key segment: running maximum, sum and
 * unnormalised output per row, in blocks of 64 keys aligned to absolute positions (docs/arithmetic.md). The rows are
 * the heads of one token (key_step 0), or one head of successive tokens (key_step 1). */
struct attend {
    const float *q; /* [queries][head_dim], q_row_floats apart; the scale is applied to the scores */
    uint64_t q_row_floats;
    const void *k; /* k + position * kv_row_bytes: head_dim elements of kv_type (Q8_0: its blocks) */
    const void *v;
    uint64_t kv_row_bytes;
    berth_kv_type kv_type;       /* not DEFAULT */
    uint32_t queries, head_dim;  /* head_dim a multiple of 8, of 32 for Q8_0 */
    uint32_t key_begin, key_end; /* row i: keys [key_begin, key_end + i * key_step) */
    uint32_t key_step;
    float scale;
    float *max; /* [queries] out */
    float *sum; /* [queries] out */
    float *out; /* [queries][head_dim] out, unnormalised */
};

struct kernels {
    berth_isa isa;
    const char *name;               /* "ref", "avx2", "avx512", "neon" */
    matmul_fn *matmul[DTYPE_COUNT]; /* NULL: the format has no kernel */
    /* Prepares one activation row; out has act_row_bytes(kind, k). ACT_F32 is a copy. */
    void (*prepare[ACT_COUNT])(const float *x, void *out, uint32_t k); /* by act_kind */
    void (*rmsnorm)(const float *x, const float *weight, float eps, float *out, uint32_t n);
    /* Rotates x[0..rotary) in place; cos/sin are [rotary/2]. half: pairs (i, i + rotary/2) (NeoX); else pairs (2i,
     * 2i+1). */
    void (*rope)(float *x, const float *cosines, const float *sines, uint32_t rotary, bool half);
    void (*silu_mul)(const float *gate, const float *up, float *out, uint64_t n); /* out may be gate */
    void (*add)(float *x, const float *y, uint64_t n);                            /* x += y */
    void (*add_scaled)(float *x, const float *y, float scale, uint64_t n);        /* x = fma(y, scale, x) */
    void (*scale)(float *x, float scale, uint64_t n);
    void (*clamp)(float *x, float limit, uint64_t n); /* to [-limit, limit] (clip_qkv) */
    void (*softmax)(float *x, uint32_t n);            /* in place, fixed order */
    void (*sigmoid)(float *x, uint32_t n);
    void (*attend)(const struct attend *a);
    void (*to_f16)(const float *x, uint16_t *out, uint64_t n);
};

/* The row for an ISA; AUTO: the best this CPU runs. NULL: this CPU (or this build) cannot run it. */
const struct kernels *kernels_select(berth_isa isa);

/* Merges segment results in order: (max, sum, out) += (max2, sum2, out2). Same code for all rows. */
void attend_merge(float *max, float *sum, float *out, float max2, float sum2, const float *out2, uint32_t head_dim);

/* Our own elementary functions (docs/arithmetic.md), scalar reference; the rows give the same bits. */
float math_exp(float x);
float math_sigmoid(float x);
float math_silu(float x);
/* sin and cos of an angle in radians given in double (RoPE); result rounded once to float. */
void math_sincos(double angle, float *sine, float *cosine);
/* base^exponent for RoPE frequencies, exponent = -2i/d; double, error below 1 ulp of float after rounding. log and exp
 * are ours too. */
double math_pow(double base, double exponent);
double math_log(double x);

#endif
