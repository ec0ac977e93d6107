/* SPDX-License-Identifier: MIT
 * Attention over one segment, AVX2: docs/arithmetic.md, section 6.
 *
 * Scores: tiles of 2 keys x up to 2 queries, two registers of 8 lanes each. Values: up to 2 queries x 32 dimensions of
 * output stay in registers while the keys of a block pass by.
 */
#include <math.h>
#include <string.h>

#include "compute/x86/avx2.h"

enum { TILE_QUERIES = 2, TILE_KEYS = 2, SLICE = 4 /* registers of 8 output dimensions */ };

#include "compute/attend_step.h"

/* 8 elements of a stored row from element d; d is a multiple of 8. */
struct format {
    __m256 (*load)(const unsigned char *row, size_t d);
};

INLINE __m256 f32_at(const unsigned char *row, size_t d)
{
    return load_f32x8(row + d * 4);
}

INLINE __m256 f16_at(const unsigned char *row, size_t d)
{
    return load_f16x8(row + d * 2);
}

INLINE __m256 q8_0_at(const unsigned char *row, size_t d)
{
    const unsigned char *block = q8_0_block(row, d);
    uint16_t scale;
    memcpy(&scale, block, sizeof scale);
    __m256 quants = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(block + 2 + d % 32))));
    return _mm256_mul_ps(quants, _mm256_set1_ps(_cvtsh_ss(scale)));
}

/* Raw scores of keys [key, key + keys) into step->p. */
INLINE void score_tile(const struct attend *a, struct format f, struct step *step, int queries, uint32_t key, int keys)
{
    const unsigned char *k[TILE_KEYS];
    const float *q = a->q + step->query * a->q_row_floats;
    __m256 acc[TILE_QUERIES][TILE_KEYS][2];
    UNROLLED(j, keys)
    {
        k[j] = kv_row(a->k, a, step->first + key + (uint32_t)j);
        UNROLLED(i, queries)
        {
            acc[i][j][0] = acc[i][j][1] = _mm256_setzero_ps();
        }
    }
    for (size_t d = 0; d < a->head_dim; d += 16) {
        UNROLLED(h, 2)
        {
            size_t at = d + (size_t)h * 8;
            if (h == 1 && at == a->head_dim) {
                break; /* head_dim is a multiple of 8: lanes 8-15 have no element */
            }
            __m256 kv[TILE_KEYS];
            UNROLLED(j, keys)
            {
                kv[j] = f.load(k[j], at);
            }
            UNROLLED(i, queries)
            {
                __m256 qv = _mm256_loadu_ps(q + (size_t)i * a->q_row_floats + at);
                UNROLLED(j, keys)
                {
                    acc[i][j][h] = _mm256_fmadd_ps(qv, kv[j], acc[i][j][h]);
                }
            }
        }
    }
    UNROLLED(i, queries)
    {
        UNROLLED(j, keys)
        {
            step->p[(size_t)i * ATTEND_BLOCK + key + (size_t)j] = tree_sum(acc[i][j][0], acc[i][j][1]);
        }
    }
}

/* Elements [8 i, 8 i + 8) of a block that lie inside [begin, end). */
INLINE __m256i present8(uint32_t i, uint32_t begin, uint32_t end)
{
    uint32_t at = i * 8;
    return _mm256_andnot_si256(mask8(begin > at ? begin - at : 0), mask8(end > at ? end - at : 0));
}

/* Scores of one query to weights: p becomes exp(score - max). */
INLINE void weigh(const struct attend *a, struct step *step, uint32_t i_query)
{
    float *p = step->p + (size_t)i_query * ATTEND_BLOCK;
    uint32_t query = step->query + i_query;
    const __m256 scale = _mm256_set1_ps(a->scale);
    __m256 highest[2] = {_mm256_set1_ps(-INFINITY), _mm256_set1_ps(-INFINITY)};
    UNROLLED(i, 8)
    {
        __m256i mask = present8((uint32_t)i, step->begin, step->end);
        __m256 s = _mm256_mul_ps(load_some8(p + 8 * i, mask), scale);
        highest[i % 2] = keep8(highest[i % 2], _mm256_max_ps(s, highest[i % 2]), mask);
        store_some8(p + 8 * i, mask, s);
    }
    float block_max = tree_max(highest[0], highest[1]);
    float old = a->max[query];
    float max = block_max > old ? block_max : old;
    float shrink = math_exp(old - max);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    UNROLLED(i, 8)
    {
        __m256i mask = present8((uint32_t)i, step->begin, step->end);
        __m256 e = exp_x8(_mm256_sub_ps(load_some8(p + 8 * i, mask), _mm256_set1_ps(max)));
        sum[i % 2] = keep8(sum[i % 2], _mm256_add_ps(sum[i % 2], e), mask);
        store_some8(p + 8 * i, mask, e);
    }
    a->max[query] = max;
    a->sum[query] = fmaf(a->sum[query], shrink, tree_sum(sum[0], sum[1]));
    step->shrink[i_query] = shrink;
}

/* out[d..d + 8 n) over the keys of the step. */
INLINE void value_slice(const struct attend *a, struct format f, const struct step *step, int queries, uint32_t d,
                        int n)
{
    __m256 acc[TILE_QUERIES][SLICE];
    UNROLLED(i, queries)
    {
        const float *out = a->out + (size_t)(step->query + (uint32_t)i) * a->head_dim + d;
        const __m256 factor = _mm256_set1_ps(step->shrink[i]);
        UNROLLED(c, n)
        {
            acc[i][c] = _mm256_mul_ps(_mm256_loadu_ps(out + 8 * c), factor);
        }
    }
    for (uint32_t key = step->begin; key < step->end; key++) {
        const unsigned char *v = kv_row(a->v, a, step->first + key);
        __m256 weight[TILE_QUERIES];
        UNROLLED(i, queries)
        {
            weight[i] = _mm256_set1_ps(step->p[(size_t)i * ATTEND_BLOCK + key]);
        }
        UNROLLED(c, n)
        {
            __m256 vv = f.load(v, d + (size_t)c * 8);
            UNROLLED(i, queries)
            {
                acc[i][c] = _mm256_fmadd_ps(weight[i], vv, acc[i][c]);
            }
        }
    }
    UNROLLED(i, queries)
    {
        float *out = a->out + (size_t)(step->query + (uint32_t)i) * a->head_dim + d;
        UNROLLED(c, n)
        {
            _mm256_storeu_ps(out + 8 * c, acc[i][c]);
        }
    }
}

INLINE void attend_block(const struct attend *a, struct format f, struct step *step, int queries)
{
    uint32_t key = step->begin;
    for (; key + TILE_KEYS <= step->end; key += TILE_KEYS) {
        score_tile(a, f, step, queries, key, TILE_KEYS);
    }
    if (key < step->end) {
        score_tile(a, f, step, queries, key, 1);
    }
    UNROLLED(i, queries)
    {
        weigh(a, step, (uint32_t)i);
    }
    uint32_t d = 0;
    for (; d + 8 * SLICE <= a->head_dim; d += 8 * SLICE) {
        value_slice(a, f, step, queries, d, SLICE);
    }
    for (; d < a->head_dim; d += 8) {
        value_slice(a, f, step, queries, d, 1);
    }
}

#include "compute/attend_loop.h"

void avx2_attend(const struct attend *a)
{
    if (a->kv_type == BERTH_KV_F16) {
        attend_all(a, (struct format){f16_at});
    } else if (a->kv_type == BERTH_KV_Q8_0) {
        attend_all(a, (struct format){q8_0_at});
    } else {
        attend_all(a, (struct format){f32_at});
    }
}
