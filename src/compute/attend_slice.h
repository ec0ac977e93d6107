/* SPDX-License-Identifier: MIT
 * The half of an attention kernel that sums values, where VEC divides 8: AVX2 and NEON. A row's file defines SLICE, the
 * registers of output dimensions that pass over the keys together, and
 *   f32_at f16_at q8_0_at(row, d)       VEC elements of a stored row from element d, a multiple of VEC
 *   score_keys(a, f, step, queries)     raw scores of the step's keys into step->p
 * then includes this. */
#ifndef COMPUTE_ATTEND_SLICE_H
#define COMPUTE_ATTEND_SLICE_H

/* out[d..d + VEC n) over the keys of the step. */
INLINE void value_slice(const struct attend *a, struct format f, const struct step *step, int queries, uint32_t d,
                        int n)
{
    vec acc[TILE_QUERIES][SLICE];
    UNROLLED(i, queries)
    {
        const float *out = a->out + (size_t)(step->query + (uint32_t)i) * a->head_dim + d;
        const vec factor = vec_set(step->shrink[i]);
        UNROLLED(c, n)
        {
            acc[i][c] = vec_mul(vec_load(out + VEC * c), factor);
        }
    }
    for (uint32_t key = step->begin; key < step->end; key++) {
        const unsigned char *v = kv_row(a->v, a, step->first + key);
        vec weight[TILE_QUERIES];
        UNROLLED(i, queries)
        {
            weight[i] = vec_set(step->p[(size_t)i * ATTEND_BLOCK + key]);
        }
        UNROLLED(c, n)
        {
            vec vv = f.load(v, d + (size_t)c * VEC);
            UNROLLED(i, queries)
            {
                acc[i][c] = vec_fma(weight[i], vv, acc[i][c]);
            }
        }
    }
    UNROLLED(i, queries)
    {
        float *out = a->out + (size_t)(step->query + (uint32_t)i) * a->head_dim + d;
        UNROLLED(c, n)
        {
            vec_store(out + VEC * c, acc[i][c]);
        }
    }
}

INLINE void attend_block(const struct attend *a, struct format f, struct step *step, int queries)
{
    score_keys(a, f, step, queries);
    UNROLLED(i, queries)
    {
        weigh(a, step, (uint32_t)i);
    }
    uint32_t d = 0;
    for (; d + VEC * SLICE <= a->head_dim; d += VEC * SLICE) {
        value_slice(a, f, step, queries, d, SLICE);
    }
    for (; d < a->head_dim; d += 8) {
        value_slice(a, f, step, queries, d, 8 / VEC);
    }
}

#include "compute/attend_loop.h"

void ROW(attend)(const struct attend *a)
{
    if (a->kv_type == BERTH_KV_F16) {
        attend_all(a, (struct format){f16_at});
    } else if (a->kv_type == BERTH_KV_Q8_0) {
        attend_all(a, (struct format){q8_0_at});
    } else {
        attend_all(a, (struct format){f32_at});
    }
}

#endif
