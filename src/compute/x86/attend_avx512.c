/* SPDX-License-Identifier: MIT
 * Attention over one segment, AVX-512: docs/arithmetic.md, section 6.
 *
 * Scores: tiles of 4 keys x up to 2 queries, one register of 16 lanes each. Values: up to 2 queries x 128 dimensions of
 * output stay in registers while the keys of a block pass by.
 */
#include <math.h>
#include <string.h>

#include "compute/x86/avx512.h"

enum { PAIR = 2, TILE_KEYS = 4, SLICE = 8 /* registers of 16 output dimensions */ };

typedef __m512 load_fn(const unsigned char *p);
typedef __m512 load_some_fn(const unsigned char *p, __mmask16 mask);

struct format {
    load_fn *load;
    load_some_fn *load_some;
    uint32_t elem_bytes;
};

/* One block of keys, for up to PAIR queries from `query`. Key numbers and p count from `first`, a multiple of 64; keys
 * outside [begin, end) are absent. */
struct step {
    uint32_t query, first, begin, end;
    float p[PAIR * ATTEND_BLOCK];
    float shrink[PAIR]; /* factor for what was summed before */
};

INLINE const unsigned char *kv_row(const void *base, const struct attend *a, uint32_t key)
{
    return (const unsigned char *)base + key * a->kv_row_bytes;
}

/* Raw scores of keys [key, key + keys) into step->p. */
INLINE void score_tile(const struct attend *a, struct format f, struct step *step, int queries, uint32_t key, int keys)
{
    const unsigned char *k[TILE_KEYS];
    __m512 acc[PAIR][TILE_KEYS];
    UNROLLED(j, keys)
    {
        k[j] = kv_row(a->k, a, step->first + key + (uint32_t)j);
    }
    UNROLLED(i, queries)
    {
        UNROLLED(j, keys)
        {
            acc[i][j] = _mm512_setzero_ps();
        }
    }
    const float *q = a->q + step->query * a->q_row_floats;
    uint32_t whole = a->head_dim / 16 * 16;
    for (size_t d = 0; d < whole; d += 16) {
        __m512 kv[TILE_KEYS];
        UNROLLED(j, keys)
        {
            kv[j] = f.load(k[j] + d * f.elem_bytes);
        }
        UNROLLED(i, queries)
        {
            __m512 qv = _mm512_loadu_ps(q + (size_t)i * a->q_row_floats + d);
            UNROLLED(j, keys)
            {
                acc[i][j] = _mm512_fmadd_ps(qv, kv[j], acc[i][j]);
            }
        }
    }
    if (whole != a->head_dim) { /* 8 are left */
        const __mmask16 mask = 0xff;
        UNROLLED(j, keys)
        {
            __m512 kv = f.load_some(k[j] + (size_t)whole * f.elem_bytes, mask);
            UNROLLED(i, queries)
            {
                __m512 qv = _mm512_maskz_loadu_ps(mask, q + (size_t)i * a->q_row_floats + whole);
                acc[i][j] = _mm512_mask3_fmadd_ps(qv, kv, acc[i][j], mask);
            }
        }
    }
    UNROLLED(i, queries)
    {
        float *out = step->p + (size_t)i * ATTEND_BLOCK + key;
        if (keys == TILE_KEYS) {
            _mm_storeu_ps(out, tree_sum4(acc[i]));
        } else {
            out[0] = tree_sum(acc[i][0]);
        }
    }
}

/* Scores of one query to weights: p becomes exp(score - max). */
INLINE void weigh(const struct attend *a, struct step *step, uint32_t i_query)
{
    float *p = step->p + (size_t)i_query * ATTEND_BLOCK;
    uint32_t query = step->query + i_query;
    const __m512 scale = _mm512_set1_ps(a->scale);
    uint64_t present = (step->end == ATTEND_BLOCK ? UINT64_MAX : (1ull << step->end) - 1) & (UINT64_MAX << step->begin);
    __m512 highest = _mm512_set1_ps(-INFINITY);
    UNROLLED(i, 4)
    {
        __mmask16 mask = (__mmask16)(present >> (16 * i));
        __m512 s = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, p + 16 * i), scale);
        highest = _mm512_mask_max_ps(highest, mask, s, highest);
        _mm512_mask_storeu_ps(p + 16 * i, mask, s);
    }
    float block_max = tree_max(highest);
    float old = a->max[query];
    float max = block_max > old ? block_max : old;
    float shrink = math_exp(old - max);
    __m512 sum = _mm512_setzero_ps();
    UNROLLED(i, 4)
    {
        __mmask16 mask = (__mmask16)(present >> (16 * i));
        __m512 e = exp_x16(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, p + 16 * i), _mm512_set1_ps(max)));
        sum = _mm512_mask_add_ps(sum, mask, sum, e);
        _mm512_mask_storeu_ps(p + 16 * i, mask, e);
    }
    a->max[query] = max;
    a->sum[query] = fmaf(a->sum[query], shrink, tree_sum(sum));
    step->shrink[i_query] = shrink;
}

/* out[d..] over the keys of the step: n registers of 16 dimensions, the last one under `last`. */
INLINE void value_slice(const struct attend *a, struct format f, const struct step *step, int queries, uint32_t d,
                        int n, __mmask16 last)
{
    __m512 acc[PAIR][SLICE];
    UNROLLED(i, queries)
    {
        const float *out = a->out + (size_t)(step->query + (uint32_t)i) * a->head_dim + d;
        const __m512 factor = _mm512_set1_ps(step->shrink[i]);
        UNROLLED(c, n)
        {
            __mmask16 mask = c == n - 1 ? last : (__mmask16)0xffff;
            acc[i][c] = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, out + 16 * c), factor);
        }
    }
    for (uint32_t key = step->begin; key < step->end; key++) {
        const unsigned char *v = kv_row(a->v, a, step->first + key) + (size_t)d * f.elem_bytes;
        __m512 weight[PAIR];
        UNROLLED(i, queries)
        {
            weight[i] = _mm512_set1_ps(step->p[(size_t)i * ATTEND_BLOCK + key]);
        }
        UNROLLED(c, n)
        {
            const unsigned char *at = v + (size_t)c * 16 * f.elem_bytes;
            __m512 vv = c == n - 1 ? f.load_some(at, last) : f.load(at);
            UNROLLED(i, queries)
            {
                acc[i][c] = _mm512_fmadd_ps(weight[i], vv, acc[i][c]);
            }
        }
    }
    UNROLLED(i, queries)
    {
        float *out = a->out + (size_t)(step->query + (uint32_t)i) * a->head_dim + d;
        UNROLLED(c, n)
        {
            __mmask16 mask = c == n - 1 ? last : (__mmask16)0xffff;
            _mm512_mask_storeu_ps(out + 16 * c, mask, acc[i][c]);
        }
    }
}

INLINE void attend_block(const struct attend *a, struct format f, struct step *step, int queries)
{
    uint32_t key = step->begin;
    for (; key + TILE_KEYS <= step->end; key += TILE_KEYS) {
        score_tile(a, f, step, queries, key, TILE_KEYS);
    }
    for (; key < step->end; key++) {
        score_tile(a, f, step, queries, key, 1);
    }
    UNROLLED(i, queries)
    {
        weigh(a, step, (uint32_t)i);
    }
    uint32_t d = 0;
    for (; d + 16 * SLICE <= a->head_dim; d += 16 * SLICE) {
        value_slice(a, f, step, queries, d, SLICE, 0xffff);
    }
    for (; d + 64 <= a->head_dim; d += 64) {
        value_slice(a, f, step, queries, d, 4, 0xffff);
    }
    for (; d < a->head_dim; d += 16) {
        value_slice(a, f, step, queries, d, 1, mask_of(a->head_dim - d));
    }
}

INLINE void attend_queries(const struct attend *a, struct format f, uint32_t query, int queries)
{
    UNROLLED(i, queries)
    {
        a->max[query + (uint32_t)i] = -INFINITY;
        a->sum[query + (uint32_t)i] = 0.0f;
        memset(a->out + (size_t)(query + (uint32_t)i) * a->head_dim, 0, a->head_dim * sizeof(float));
    }
    for (uint32_t key = a->key_begin; key < a->key_end;) {
        struct step step;
        step.query = query;
        step.first = key / ATTEND_BLOCK * ATTEND_BLOCK;
        step.begin = key - step.first;
        step.end = a->key_end - step.first < ATTEND_BLOCK ? a->key_end - step.first : ATTEND_BLOCK;
        attend_block(a, f, &step, queries);
        key = step.first + step.end;
    }
}

INLINE void attend_all(const struct attend *a, struct format f)
{
    uint32_t query = 0;
    for (; query + PAIR <= a->queries; query += PAIR) {
        attend_queries(a, f, query, PAIR);
    }
    if (query < a->queries) {
        attend_queries(a, f, query, 1);
    }
}

void avx512_attend(const struct attend *a)
{
    if (a->kv_type == BERTH_KV_F16) {
        attend_all(a, (struct format){load_f16x16, load_f16x16_some, 2});
    } else {
        attend_all(a, (struct format){load_f32x16, load_f32x16_some, 4});
    }
}
