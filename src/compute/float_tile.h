/* SPDX-License-Identifier: MIT
 * A tile of F32, F16 or BF16 products where several registers hold the 16 lanes of a (row, token) pair: AVX2 and NEON.
 * A row's file defines TILE_ROWS, TILE_TOKENS, TILE_ROWS_ONE and vec_fetch(p), which brings p nearer, then includes
 * this. */
#ifndef COMPUTE_FLOAT_TILE_H
#define COMPUTE_FLOAT_TILE_H

#include "compute/unroll.h"

struct format {
    vec (*load)(const unsigned char *p);
    uint32_t elem_bytes;
};

#include "compute/float_loop.h"

/* Last k mod 16 elements: through zero-padded copies, absent lanes keep their value. */
INLINE void tail(struct format f, const unsigned char *w, const unsigned char *x, uint32_t left, vec acc[LANE_VECS])
{
    unsigned char some_w[64] = {0};
    float some_x[16] = {0};
    memcpy(some_w, w, (size_t)left * f.elem_bytes);
    memcpy(some_x, x, left * sizeof(float));
    UNROLLED(v, LANE_VECS)
    {
        uint32_t before = (uint32_t)v * VEC;
        vec now = vec_fma(f.load(some_w + (size_t)before * f.elem_bytes), vec_load(some_x + before), acc[v]);
        acc[v] = vec_keep(acc[v], now, vec_first(left > before ? left - before : 0));
    }
}

/* Rows [row, row + tile_rows) x tokens [token, token + tile_tokens). */
INLINE void tile(struct tile_args args, uint32_t row, uint32_t token, int tile_rows, int tile_tokens)
{
    const struct matmul *m = args.m;
    const struct format f = args.f;
    const unsigned char *w[TILE_ROWS];
    const unsigned char *x[TILE_TOKENS];
    vec acc[TILE_ROWS][TILE_TOKENS][LANE_VECS];
    UNROLLED(t, tile_tokens)
    {
        x[t] = (const unsigned char *)m->x + (token + (uint32_t)t) * m->x_row_bytes;
    }
    UNROLLED(r, tile_rows)
    {
        w[r] = (const unsigned char *)m->w + (row + (uint32_t)r) * m->w_row_bytes;
        UNROLLED(t, tile_tokens)
        {
            UNROLLED(v, LANE_VECS)
            {
                acc[r][t][v] = vec_set(0.0f);
            }
        }
    }
    uint32_t whole = m->k / 16 * 16;
    const char *next = (const char *)w[0] + (uint64_t)tile_rows * m->w_row_bytes;
    const bool fetch = tile_tokens > 1 && token == 0;
    for (size_t i = 0; i < whole; i += 16) {
        if (fetch) {
            for (uint32_t at = 0; at < (uint32_t)tile_rows * 16 * f.elem_bytes; at += 64) {
                vec_fetch(next + i * (uint32_t)tile_rows * f.elem_bytes + at);
            }
        }
        UNROLLED(v, LANE_VECS)
        {
            size_t at = i + (size_t)v * VEC;
            vec xv[TILE_TOKENS];
            UNROLLED(t, tile_tokens)
            {
                xv[t] = vec_from_f32(x[t] + at * sizeof(float));
            }
            UNROLLED(r, tile_rows)
            {
                vec wv = f.load(w[r] + at * f.elem_bytes);
                UNROLLED(t, tile_tokens)
                {
                    acc[r][t][v] = vec_fma(wv, xv[t], acc[r][t][v]);
                }
            }
        }
    }
    UNROLLED(r, tile_rows)
    {
        UNROLLED(t, tile_tokens)
        {
            if (whole != m->k) {
                tail(f, w[r] + (size_t)whole * f.elem_bytes, x[t] + whole * sizeof(float), m->k - whole, acc[r][t]);
            }
            float sum = tree_sum(acc[r][t]);
            uint32_t at = row + (uint32_t)r;
            m->y[(token + (uint32_t)t) * m->y_row_floats + at] = m->bias != NULL ? sum + m->bias[at] : sum;
        }
    }
}

void ROW(matmul_f32)(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){vec_from_f32, 4}, row_begin, row_end);
}

void ROW(matmul_f16)(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){vec_from_f16, 2}, row_begin, row_end);
}

void ROW(matmul_bf16)(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){vec_from_bf16, 2}, row_begin, row_end);
}

#endif
