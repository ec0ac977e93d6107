/* SPDX-License-Identifier: MIT
 * The walk over queries and blocks of one attention kernel. A row's file defines `struct format` and
 * attend_block(a, format, step, queries), then includes this. */
#ifndef COMPUTE_ATTEND_LOOP_H
#define COMPUTE_ATTEND_LOOP_H

#include <math.h>
#include <string.h>

#include "compute/attend_step.h"

INLINE void attend_keys(const struct attend *a, struct format f, uint32_t query, int queries, uint32_t begin,
                        uint32_t end)
{
    struct step step;
    step.query = query;
    for (uint32_t key = begin; key < end;) {
        step.first = key / ATTEND_BLOCK * ATTEND_BLOCK;
        step.begin = key - step.first;
        step.end = end - step.first < ATTEND_BLOCK ? end - step.first : ATTEND_BLOCK;
        attend_block(a, f, &step, queries);
        key = step.first + step.end;
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
    uint32_t first_end = a->key_end + query * a->key_step;
    uint32_t common = first_end; /* the queries go together as far as their blocks are the same */
    if (a->key_step > 0 && queries > 1) {
        common = common / ATTEND_BLOCK * ATTEND_BLOCK;
        common = common > a->key_begin ? common : a->key_begin;
    }
    attend_keys(a, f, query, queries, a->key_begin, common);
    for (uint32_t i = 0; common < first_end + (uint32_t)(queries - 1) * a->key_step && i < (uint32_t)queries; i++) {
        attend_keys(a, f, query + i, 1, common, first_end + i * a->key_step);
    }
}

INLINE void attend_all(const struct attend *a, struct format f)
{
    uint32_t query = 0;
    for (; query + TILE_QUERIES <= a->queries; query += TILE_QUERIES) {
        attend_queries(a, f, query, TILE_QUERIES);
    }
    for (; TILE_QUERIES > 2 && query + 2 <= a->queries; query += 2) {
        attend_queries(a, f, query, 2);
    }
    if (query < a->queries) {
        attend_queries(a, f, query, 1);
    }
}

#endif
