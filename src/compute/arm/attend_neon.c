/* SPDX-License-Identifier: MIT
 * Attention over one segment, NEON: docs/arithmetic.md, section 6.
 *
 * Scores: one key x up to 2 queries, four registers of 4 lanes each. Values: up to 2 queries x 32 dimensions of output
 * stay in registers while the keys of a block pass by.
 */
#include "compute/arm/neon.h"

enum { TILE_QUERIES = 2, SLICE = 8 /* registers of 4 output dimensions */ };

#include "compute/attend_step.h"

/* 4 elements of a stored row from element d; d is a multiple of 4. */
struct format {
    float32x4_t (*load)(const unsigned char *row, size_t d);
};

INLINE float32x4_t f32_at(const unsigned char *row, size_t d)
{
    return load_f32x4(row + d * 4);
}

INLINE float32x4_t f16_at(const unsigned char *row, size_t d)
{
    return load_f16x4(row + d * 2);
}

INLINE float32x4_t q8_0_at(const unsigned char *row, size_t d)
{
    const unsigned char *block = q8_0_block(row, d);
    uint16_t scale;
    int32_t four;
    memcpy(&scale, block, sizeof scale);
    memcpy(&four, block + 2 + d % 32, sizeof four);
    int16x8_t wide = vmovl_s8(vcreate_s8((uint32_t)four));
    float32x4_t quants = vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
    return vmulq_f32(quants, vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(scale))));
}

/* Raw score of one key into step->p. */
INLINE void score(const struct attend *a, struct format f, struct step *step, int queries, uint32_t key)
{
    const unsigned char *k = kv_row(a->k, a, step->first + key);
    const float *q = a->q + step->query * a->q_row_floats;
    float32x4_t acc[TILE_QUERIES][4];
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
            float32x4_t kv = f.load(k, at);
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
    float32x4_t acc[TILE_QUERIES][SLICE];
    UNROLLED(i, queries)
    {
        const float *out = a->out + (size_t)(step->query + (uint32_t)i) * a->head_dim + d;
        UNROLLED(c, n)
        {
            acc[i][c] = vmulq_f32(vld1q_f32(out + 4 * c), vdupq_n_f32(step->shrink[i]));
        }
    }
    for (uint32_t key = step->begin; key < step->end; key++) {
        const unsigned char *v = kv_row(a->v, a, step->first + key);
        UNROLLED(c, n)
        {
            float32x4_t vv = f.load(v, d + (size_t)c * 4);
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

#include "compute/attend_loop.h"

void neon_attend(const struct attend *a)
{
    if (a->kv_type == BERTH_KV_F16) {
        attend_all(a, (struct format){f16_at});
    } else if (a->kv_type == BERTH_KV_Q8_0) {
        attend_all(a, (struct format){q8_0_at});
    } else {
        attend_all(a, (struct format){f32_at});
    }
}
