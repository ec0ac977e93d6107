/* SPDX-License-Identifier: MIT
 * What the rows' attention kernels share before their own parts (attend_loop.h has what comes after), in the vectors of
 * the row (compute/vec_math.h). A row's file defines TILE_QUERIES first, 2 or 4: the queries that pass over a key
 * together. */
#ifndef COMPUTE_ATTEND_STEP_H
#define COMPUTE_ATTEND_STEP_H

#include <math.h>

#include "compute/kernels.h"
#include "compute/unroll.h"

/* One block of keys, for up to TILE_QUERIES queries from `query`. Key numbers and p count from `first`, a multiple of
 * 64; keys outside [begin, end) are absent. */
struct step {
    uint32_t query, first, begin, end;
    float p[TILE_QUERIES * ATTEND_BLOCK];
    float shrink[TILE_QUERIES]; /* factor for what was summed before */
};

/* Those of vector i of a block that lie inside [begin, end). */
INLINE vec_choice present(const struct step *step, int i)
{
    uint32_t at = (uint32_t)i * VEC;
    return vec_between(step->begin > at ? step->begin - at : 0, step->end > at ? step->end - at : 0);
}

INLINE const unsigned char *kv_row(const void *base, const struct attend *a, uint32_t key)
{
    return (const unsigned char *)base + key * a->kv_row_bytes;
}

/* Scores of one query to weights: p becomes exp(score - max). Absent elements of p hold anything. */
INLINE void weigh(const struct attend *a, struct step *step, uint32_t i_query)
{
    float *p = step->p + (size_t)i_query * ATTEND_BLOCK;
    uint32_t query = step->query + i_query;
    vec highest[LANE_VECS];
    vec sum[LANE_VECS];
    UNROLLED(v, LANE_VECS)
    {
        highest[v] = vec_set(-INFINITY);
        sum[v] = vec_set(0.0f);
    }
    UNROLLED(i, ATTEND_BLOCK / VEC)
    {
        const int v = i % LANE_VECS;
        vec s = vec_mul(vec_load(p + VEC * i), vec_set(a->scale));
        highest[v] = vec_keep(highest[v], vec_max(s, highest[v]), present(step, i));
        vec_store(p + VEC * i, s);
    }
    float block_max = tree_max(highest);
    float old = a->max[query];
    float max = block_max > old ? block_max : old;
    float shrink = math_exp(old - max);
    UNROLLED(i, ATTEND_BLOCK / VEC)
    {
        const int v = i % LANE_VECS;
        vec e = vec_exp(vec_sub(vec_load(p + VEC * i), vec_set(max)));
        sum[v] = vec_keep(sum[v], vec_add(sum[v], e), present(step, i));
        vec_store(p + VEC * i, e);
    }
    a->max[query] = max;
    a->sum[query] = fmaf(a->sum[query], shrink, tree_sum(sum));
    step->shrink[i_query] = shrink;
}

/* Where element d of a Q8_0 row lies: its block, and the scale of that block. */
INLINE const unsigned char *q8_0_block(const unsigned char *row, size_t d)
{
    return row + d / 32 * 34;
}

#endif
