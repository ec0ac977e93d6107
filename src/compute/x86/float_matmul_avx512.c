/* SPDX-License-Identifier: MIT
 * F32, F16 and BF16 matrix products, AVX-512: docs/arithmetic.md, section 2.
 *
 * One accumulator register is one (row, token) pair with its 16 lanes. A tile is 4 rows x up to 6 tokens: 24
 * accumulators, 4 weight registers; each step of 16 elements loads 4 weights and 6 activations for 24 FMA.
 */
#include "compute/x86/avx512.h"

enum { TILE_ROWS = 4, TILE_TOKENS = 6, TILE_ROWS_ONE = 1 };

typedef __m512 load_fn(const unsigned char *p);
typedef __m512 load_some_fn(const unsigned char *p, __mmask16 mask);

struct format {
    load_fn *load;
    load_some_fn *load_some;
    uint32_t elem_bytes;
};

#include "compute/float_loop.h"

INLINE void store_tile(const struct matmul *m, uint32_t row, uint32_t token, int tile_rows, __m512 acc[TILE_ROWS])
{
    float *y = m->y + token * m->y_row_floats + row;
    if (tile_rows == TILE_ROWS) {
        __m128 v = tree_sum4(acc);
        if (m->bias != NULL) {
            v = _mm_add_ps(v, _mm_loadu_ps(m->bias + row));
        }
        _mm_storeu_ps(y, v);
        return;
    }
    UNROLLED(r, tile_rows)
    {
        float v = tree_sum(&acc[r]);
        y[r] = m->bias != NULL ? v + m->bias[row + (uint32_t)r] : v;
    }
}

/* Rows [row, row + tile_rows) x tokens [token, token + tile_tokens). */
INLINE void tile(struct tile_args args, uint32_t row, uint32_t token, int tile_rows, int tile_tokens)
{
    const struct matmul *m = args.m;
    const struct format f = args.f;
    const unsigned char *w[TILE_ROWS];
    const unsigned char *x[TILE_TOKENS];
    __m512 acc[TILE_TOKENS][TILE_ROWS];
    UNROLLED(r, tile_rows)
    {
        w[r] = (const unsigned char *)m->w + (row + (uint32_t)r) * m->w_row_bytes;
    }
    UNROLLED(t, tile_tokens)
    {
        x[t] = (const unsigned char *)m->x + (token + (uint32_t)t) * m->x_row_bytes;
        UNROLLED(r, tile_rows)
        {
            acc[t][r] = _mm512_setzero_ps();
        }
    }
    uint32_t whole = m->k / 16 * 16;
    const char *next = (const char *)w[0] + (uint64_t)tile_rows * m->w_row_bytes;
    const bool fetch = tile_tokens > 1 && token == 0;
    size_t i = 0;
    if (tile_rows == 1 && tile_tokens == 1) {
        for (; i + 64 <= whole; i += 64) {
            UNROLLED(u, 4)
            {
                size_t at = i + (size_t)u * 16;
                acc[0][0] = _mm512_fmadd_ps(f.load(w[0] + at * f.elem_bytes),
                                            _mm512_loadu_ps(x[0] + at * sizeof(float)), acc[0][0]);
            }
        }
    }
    for (; i < whole; i += 16) {
        if (fetch) {
            for (uint32_t at = 0; at < (uint32_t)tile_rows * 16 * f.elem_bytes; at += 64) {
                _mm_prefetch(next + i * (uint32_t)tile_rows * f.elem_bytes + at, _MM_HINT_T1);
            }
        }
        __m512 wv[TILE_ROWS];
        UNROLLED(r, tile_rows)
        {
            wv[r] = f.load(w[r] + i * f.elem_bytes);
        }
        UNROLLED(t, tile_tokens)
        {
            __m512 xv = _mm512_loadu_ps(x[t] + i * sizeof(float));
            UNROLLED(r, tile_rows)
            {
                acc[t][r] = _mm512_fmadd_ps(wv[r], xv, acc[t][r]);
            }
        }
    }
    if (whole != m->k) {
        __mmask16 mask = vec_first(m->k - whole);
        UNROLLED(r, tile_rows)
        {
            __m512 wv = f.load_some(w[r] + i * f.elem_bytes, mask);
            UNROLLED(t, tile_tokens)
            {
                __m512 xv = _mm512_maskz_loadu_ps(mask, x[t] + i * sizeof(float));
                acc[t][r] = _mm512_mask3_fmadd_ps(wv, xv, acc[t][r], mask);
            }
        }
    }
    UNROLLED(t, tile_tokens)
    {
        store_tile(m, row, token + (uint32_t)t, tile_rows, acc[t]);
    }
}

void ROW(matmul_f32)(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){vec_from_f32, vec_from_f32_some, 4}, row_begin, row_end);
}

void ROW(matmul_f16)(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){vec_from_f16, vec_from_f16_some, 2}, row_begin, row_end);
}

void ROW(matmul_bf16)(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){vec_from_bf16, vec_from_bf16_some, 2}, row_begin, row_end);
}
