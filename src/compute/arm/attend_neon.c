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
    return vec_from_f32(row + d * 4);
}

INLINE float32x4_t f16_at(const unsigned char *row, size_t d)
{
    return vec_from_f16(row + d * 2);
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

INLINE void score_keys(const struct attend *a, struct format f, struct step *step, int queries)
{
    for (uint32_t key = step->begin; key < step->end; key++) {
        score(a, f, step, queries, key);
    }
}

#include "compute/attend_slice.h"
