/* SPDX-License-Identifier: MIT
 * F32, F16 and BF16 matrix products, AVX2: docs/arithmetic.md, section 2.
 *
 * Two accumulator registers are one (row, token) pair with its 16 lanes. Tiles: 1 row x 1 token for decoding, because
 * memory likes one stream; 2 rows x up to 3 tokens else (12 accumulators; each half step loads 2 weights and 3
 * activations for 6 FMA), with a prefetch of the next rows in address order.
 */
#include "compute/x86/avx2.h"

enum { TILE_ROWS = 2, TILE_TOKENS = 3, TILE_ROWS_ONE = 1 };

struct format {
    __m256 (*load)(const unsigned char *p);
    uint32_t elem_bytes;
};

#include "compute/float_loop.h"

/* Last k mod 16 elements: through zero-padded copies, absent lanes keep their value. */
INLINE void tail(struct format f, const unsigned char *w, const unsigned char *x, uint32_t left, __m256 acc[2])
{
    unsigned char some_w[64] = {0};
    float some_x[16] = {0};
    memcpy(some_w, w, (size_t)left * f.elem_bytes);
    memcpy(some_x, x, left * sizeof(float));
    UNROLLED(h, 2)
    {
        __m256 wv = f.load(some_w + (size_t)h * 8 * f.elem_bytes);
        __m256 now = _mm256_fmadd_ps(wv, _mm256_loadu_ps(some_x + 8 * h), acc[h]);
        uint32_t before = (uint32_t)h * 8;
        acc[h] = keep8(acc[h], now, mask8(left > before ? left - before : 0));
    }
}

/* Rows [row, row + tile_rows) x tokens [token, token + tile_tokens). */
INLINE void tile(struct tile_args args, uint32_t row, uint32_t token, int tile_rows, int tile_tokens)
{
    const struct matmul *m = args.m;
    const struct format f = args.f;
    const unsigned char *w[TILE_ROWS];
    const unsigned char *x[TILE_TOKENS];
    __m256 acc[TILE_ROWS][TILE_TOKENS][2];
    UNROLLED(t, tile_tokens)
    {
        x[t] = (const unsigned char *)m->x + (token + (uint32_t)t) * m->x_row_bytes;
    }
    UNROLLED(r, tile_rows)
    {
        w[r] = (const unsigned char *)m->w + (row + (uint32_t)r) * m->w_row_bytes;
        UNROLLED(t, tile_tokens)
        {
            acc[r][t][0] = acc[r][t][1] = _mm256_setzero_ps();
        }
    }
    uint32_t whole = m->k / 16 * 16;
    const char *next = (const char *)w[0] + (uint64_t)tile_rows * m->w_row_bytes;
    const bool fetch = tile_tokens > 1 && token == 0;
    for (size_t i = 0; i < whole; i += 16) {
        if (fetch) {
            for (uint32_t at = 0; at < (uint32_t)tile_rows * 16 * f.elem_bytes; at += 64) {
                _mm_prefetch(next + i * (uint32_t)tile_rows * f.elem_bytes + at, _MM_HINT_T1);
            }
        }
        UNROLLED(h, 2)
        {
            size_t at = i + (size_t)h * 8;
            __m256 xv[TILE_TOKENS];
            UNROLLED(t, tile_tokens)
            {
                xv[t] = load_f32x8(x[t] + at * sizeof(float));
            }
            UNROLLED(r, tile_rows)
            {
                __m256 wv = f.load(w[r] + at * f.elem_bytes);
                UNROLLED(t, tile_tokens)
                {
                    acc[r][t][h] = _mm256_fmadd_ps(wv, xv[t], acc[r][t][h]);
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
            float v = tree_sum(acc[r][t][0], acc[r][t][1]);
            uint32_t at = row + (uint32_t)r;
            m->y[(token + (uint32_t)t) * m->y_row_floats + at] = m->bias != NULL ? v + m->bias[at] : v;
        }
    }
}

void avx2_matmul_f32(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){load_f32x8, 4}, row_begin, row_end);
}

void avx2_matmul_f16(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){load_f16x8, 2}, row_begin, row_end);
}

void avx2_matmul_bf16(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){load_bf16x8, 2}, row_begin, row_end);
}
