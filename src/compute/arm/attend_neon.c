/* SPDX-License-Identifier: MIT
 * Attention over one segment, NEON: docs/arithmetic.md, section 6.
 *
 * Scores: one key x up to 2 queries, four registers of 4 lanes each. Values: up to 2 queries x 32 dimensions of output
 * stay in registers while the keys of a block pass by.
 */
#include "compute/arm/neon.h"

enum { PAIR = 2, SLICE = 8 /* registers of 4 output dimensions */ };

struct format {
    float32x4_t (*load)(const unsigned char *p);
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

/* Raw score of one key into step->p. */
INLINE void score(const struct attend *a, struct format f, struct step *step, int queries, uint32_t key)
{
    const unsigned char *k = kv_row(a->k, a, step->first + key);
    const float *q = a->q + step->query * a->q_row_floats;
    float32x4_t acc[PAIR][4];
    UNROLLED(i, queries)
    {
        UNROLLED(j, 4)
        {
            acc[i][j] = vdupq_n_f32(0.0f);
        }
    }
    for (size_t d = 0; d < a->head_dim; d += 16) {
        UNROLLED(j, 4)
        {
            size_t at = d + (size_t)j * 4;
            if (j == 2 && at == a->head_dim) {
                break; /* head_dim is a multiple of 8: lanes 8-15 have no element */
            }
            float32x4_t kv = f.load(k + at * f.elem_bytes);
            UNROLLED(i, queries)
            {
                acc[i][j] = vfmaq_f32(acc[i][j], vld1q_f32(q + (size_t)i * a->q_row_floats + at), kv);
            }
        }
    }
    UNROLLED(i, queries)
    {
        step->p[(size_t)i * ATTEND_BLOCK + key] = tree_sum(acc[i]);
    }
}

/* Elements [4 i, 4 i + 4) of a block that lie inside [begin, end). */
INLINE uint32x4_t present4(uint32_t i, uint32_t begin, uint32_t end)
{
    uint32_t at = i * 4;
    return vbicq_u32(mask4(end > at ? end - at : 0), mask4(begin > at ? begin - at : 0));
}

/* Scores of one query to weights: p becomes exp(score - max). Absent elements of p hold anything. */
INLINE void weigh(const struct attend *a, struct step *step, uint32_t i_query)
{
    float *p = step->p + (size_t)i_query * ATTEND_BLOCK;
    uint32_t query = step->query + i_query;
    float32x4_t highest[4];
    float32x4_t sum[4];
    UNROLLED(j, 4)
    {
        highest[j] = vdupq_n_f32(-INFINITY);
        sum[j] = vdupq_n_f32(0.0f);
    }
    for (uint32_t i = 0; i < ATTEND_BLOCK / 4; i++) {
        uint32x4_t mask = present4(i, step->begin, step->end);
        float32x4_t s = vmulq_f32(vld1q_f32(p + 4 * i), vdupq_n_f32(a->scale));
        highest[i % 4] = vbslq_f32(mask, max_or_second4(s, highest[i % 4]), highest[i % 4]);
        vst1q_f32(p + 4 * i, s);
    }
    float block_max = tree_max(highest);
    float old = a->max[query];
    float max = block_max > old ? block_max : old;
    float shrink = math_exp(old - max);
    for (uint32_t i = 0; i < ATTEND_BLOCK / 4; i++) {
        uint32x4_t mask = present4(i, step->begin, step->end);
        float32x4_t e = exp_x4(vsubq_f32(vld1q_f32(p + 4 * i), vdupq_n_f32(max)));
        sum[i % 4] = vbslq_f32(mask, vaddq_f32(sum[i % 4], e), sum[i % 4]);
        vst1q_f32(p + 4 * i, e);
    }
    a->max[query] = max;
    a->sum[query] = fmaf(a->sum[query], shrink, tree_sum(sum));
    step->shrink[i_query] = shrink;
}

/* out[d..d + 4 n) over the keys of the step. */
INLINE void value_slice(const struct attend *a, struct format f, const struct step *step, int queries, uint32_t d,
                        int n)
{
    float32x4_t acc[PAIR][SLICE];
    UNROLLED(i, queries)
    {
        const float *out = a->out + (size_t)(step->query + (uint32_t)i) * a->head_dim + d;
        UNROLLED(c, n)
        {
            acc[i][c] = vmulq_f32(vld1q_f32(out + 4 * c), vdupq_n_f32(step->shrink[i]));
        }
    }
    for (uint32_t key = step->begin; key < step->end; key++) {
        const unsigned char *v = kv_row(a->v, a, step->first + key) + (size_t)d * f.elem_bytes;
        UNROLLED(c, n)
        {
            float32x4_t vv = f.load(v + (size_t)c * 4 * f.elem_bytes);
            UNROLLED(i, queries)
            {
                float32x4_t weight = vdupq_n_f32(step->p[(size_t)i * ATTEND_BLOCK + key]);
                acc[i][c] = vfmaq_f32(acc[i][c], weight, vv);
            }
        }
    }
    UNROLLED(i, queries)
    {
        float *out = a->out + (size_t)(step->query + (uint32_t)i) * a->head_dim + d;
        UNROLLED(c, n)
        {
            vst1q_f32(out + 4 * c, acc[i][c]);
        }
    }
}

INLINE void attend_block(const struct attend *a, struct format f, struct step *step, int queries)
{
    for (uint32_t key = step->begin; key < step->end; key++) {
        score(a, f, step, queries, key);
    }
    UNROLLED(i, queries)
    {
        weigh(a, step, (uint32_t)i);
    }
    uint32_t d = 0;
    for (; d + 4 * SLICE <= a->head_dim; d += 4 * SLICE) {
        value_slice(a, f, step, queries, d, SLICE);
    }
    for (; d < a->head_dim; d += 8) {
        value_slice(a, f, step, queries, d, 2);
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
    struct step step = {.query = query};
    for (uint32_t key = a->key_begin; key < a->key_end;) {
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

void neon_attend(const struct attend *a)
{
    if (a->kv_type == BERTH_KV_F16) {
        attend_all(a, (struct format){load_f16x4, 2});
    } else {
        attend_all(a, (struct format){load_f32x4, 4});
    }
}
