/* SPDX-License-Identifier: MIT
 * Attention over one segment, AVX2: docs/arithmetic.md, section 6.
 *
 * Scores: tiles of 2 keys x up to 2 queries, two registers of 8 lanes each. Values: up to 2 queries x 32 dimensions of
 * output stay in registers while the keys of a block pass by.
 */
#include "compute/x86/avx2.h"

enum { TILE_QUERIES = 2, TILE_KEYS = 2, SLICE = 4 /* registers of 8 output dimensions */ };

#include "compute/attend_step.h"

/* 8 elements of a stored row from element d; d is a multiple of 8. */
struct format {
    __m256 (*load)(const unsigned char *row, size_t d);
};

INLINE __m256 f32_at(const unsigned char *row, size_t d)
{
    return vec_from_f32(row + d * 4);
}

INLINE __m256 f16_at(const unsigned char *row, size_t d)
{
    return vec_from_f16(row + d * 2);
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
            step->p[(size_t)i * ATTEND_BLOCK + key + (size_t)j] = tree_sum(acc[i][j]);
        }
    }
}

INLINE void score_keys(const struct attend *a, struct format f, struct step *step, int queries)
{
    uint32_t key = step->begin;
    for (; key + TILE_KEYS <= step->end; key += TILE_KEYS) {
        score_tile(a, f, step, queries, key, TILE_KEYS);
    }
    if (key < step->end) {
        score_tile(a, f, step, queries, key, 1);
    }
}

#include "compute/attend_slice.h"
