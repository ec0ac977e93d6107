/* SPDX-License-Identifier: MIT
 * Attention over one segment, AVX-512: docs/arithmetic.md, section 6.
 *
 * Scores: tiles of 4 keys x up to 4 queries, one register of 16 lanes each. Values: up to 2 queries x 128 or 4 x 64
 * dimensions of output stay in registers while the keys of a block pass by.
 */
#include "compute/x86/avx512.h"

enum { TILE_QUERIES = 4, TILE_KEYS = 4, SLICE = 8 /* registers of 16 output dimensions */ };

#include "compute/attend_step.h"

/* 16 elements of a stored row from element d; d is a multiple of 16. */
struct format {
    __m512 (*load)(const unsigned char *row, size_t d);
    __m512 (*load_some)(const unsigned char *row, size_t d, __mmask16 mask);
};

INLINE __m512 f32_at(const unsigned char *row, size_t d)
{
    return vec_from_f32(row + d * 4);
}

INLINE __m512 f32_some_at(const unsigned char *row, size_t d, __mmask16 mask)
{
    return vec_from_f32_some(row + d * 4, mask);
}

INLINE __m512 f16_at(const unsigned char *row, size_t d)
{
    return vec_from_f16(row + d * 2);
}

INLINE __m512 f16_some_at(const unsigned char *row, size_t d, __mmask16 mask)
{
    return vec_from_f16_some(row + d * 2, mask);
}

INLINE __m512 q8_0_at(const unsigned char *row, size_t d)
{
    const unsigned char *block = q8_0_block(row, d);
    uint16_t scale;
    memcpy(&scale, block, sizeof scale);
    __m512 quants = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(block + 2 + d % 32))));
    return _mm512_mul_ps(quants, _mm512_set1_ps(_cvtsh_ss(scale)));
}

INLINE __m512 q8_0_some_at(const unsigned char *row, size_t d, __mmask16 mask)
{
    return _mm512_maskz_mov_ps(mask, q8_0_at(row, d)); /* rows are whole blocks */
}

/* Raw scores of keys [key, key + keys) into step->p. */
INLINE void score_tile(const struct attend *a, struct format f, struct step *step, int queries, uint32_t key, int keys)
{
    const unsigned char *k[TILE_KEYS];
    __m512 acc[TILE_QUERIES][TILE_KEYS];
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
            kv[j] = f.load(k[j], d);
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
            __m512 kv = f.load_some(k[j], whole, mask);
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
            out[0] = tree_sum(&acc[i][0]);
        }
    }
}

/* out[d..] over the keys of the step: n registers of 16 dimensions, the last one under `last`. */
INLINE void value_slice(const struct attend *a, struct format f, const struct step *step, int queries, uint32_t d,
                        int n, __mmask16 last)
{
    __m512 acc[TILE_QUERIES][SLICE];
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
        const unsigned char *v = kv_row(a->v, a, step->first + key);
        __m512 weight[TILE_QUERIES];
        UNROLLED(i, queries)
        {
            weight[i] = _mm512_set1_ps(step->p[(size_t)i * ATTEND_BLOCK + key]);
        }
        UNROLLED(c, n)
        {
            size_t at = d + (size_t)c * 16;
            __m512 vv = c == n - 1 ? f.load_some(v, at, last) : f.load(v, at);
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
    for (; queries <= 2 && d + 16 * SLICE <= a->head_dim; d += 16 * SLICE) { /* more would not fit the registers */
        value_slice(a, f, step, queries, d, SLICE, 0xffff);
    }
    for (; d + 64 <= a->head_dim; d += 64) {
        value_slice(a, f, step, queries, d, 4, 0xffff);
    }
    for (; d < a->head_dim; d += 16) {
        value_slice(a, f, step, queries, d, 1, vec_first(a->head_dim - d));
    }
}

#include "compute/attend_loop.h"

void ROW(attend)(const struct attend *a)
{
    if (a->kv_type == BERTH_KV_F16) {
        attend_all(a, (struct format){f16_at, f16_some_at});
    } else if (a->kv_type == BERTH_KV_Q8_0) {
        attend_all(a, (struct format){q8_0_at, q8_0_some_at});
    } else {
        attend_all(a, (struct format){f32_at, f32_some_at});
    }
}
