/* SPDX-License-Identifier: MIT
 * F32, F16 and BF16 matrix products, NEON: docs/arithmetic.md, section 2.
 *
 * Four accumulator registers are one (row, token) pair with its 16 lanes. Tiles: 1 row x 1 token for decoding, because
 * memory likes one stream; 2 rows x up to 3 tokens else (24 accumulators; each quarter step loads 2 weights and 3
 * activations for 6 FMA).
 */
#include "compute/arm/neon.h"

enum { TILE_ROWS = 2, TILE_TOKENS = 3, TILE_ROWS_ONE = 1 };

struct format {
    float32x4_t (*load)(const unsigned char *p);
    uint32_t elem_bytes;
};

#include "compute/float_loop.h"

/* Last k mod 16 elements: through zero-padded copies, absent lanes keep their value. */
INLINE void tail(struct format f, const unsigned char *w, const unsigned char *x, uint32_t left, float32x4_t acc[4])
{
    unsigned char some_w[64] = {0};
    unsigned char some_x[64] = {0};
    memcpy(some_w, w, (size_t)left * f.elem_bytes);
    memcpy(some_x, x, left * sizeof(float));
    UNROLLED(q, 4)
    {
        uint32_t before = (uint32_t)q * 4;
        float32x4_t wv = f.load(some_w + (size_t)before * f.elem_bytes);
        float32x4_t now = vfmaq_f32(acc[q], wv, load_f32x4(some_x + before * sizeof(float)));
        acc[q] = vbslq_f32(mask4(left > before ? left - before : 0), now, acc[q]);
    }
}

/* Rows [row, row + tile_rows) x tokens [token, token + tile_tokens). */
INLINE void tile(struct tile_args args, uint32_t row, uint32_t token, int tile_rows, int tile_tokens)
{
    const struct matmul *m = args.m;
    const struct format f = args.f;
    const unsigned char *w[TILE_ROWS];
    const unsigned char *x[TILE_TOKENS];
    float32x4_t acc[TILE_ROWS][TILE_TOKENS][4];
    UNROLLED(t, tile_tokens)
    {
        x[t] = (const unsigned char *)m->x + (token + (uint32_t)t) * m->x_row_bytes;
    }
    UNROLLED(r, tile_rows)
    {
        w[r] = (const unsigned char *)m->w + (row + (uint32_t)r) * m->w_row_bytes;
        UNROLLED(t, tile_tokens)
        {
            UNROLLED(q, 4)
            {
                acc[r][t][q] = vdupq_n_f32(0.0f);
            }
        }
    }
    uint32_t whole = m->k / 16 * 16;
    for (size_t i = 0; i < whole; i += 16) {
        UNROLLED(q, 4)
        {
            size_t at = i + (size_t)q * 4;
            float32x4_t xv[TILE_TOKENS];
            UNROLLED(t, tile_tokens)
            {
                xv[t] = load_f32x4(x[t] + at * sizeof(float));
            }
            UNROLLED(r, tile_rows)
            {
                float32x4_t wv = f.load(w[r] + at * f.elem_bytes);
                UNROLLED(t, tile_tokens)
                {
                    acc[r][t][q] = vfmaq_f32(acc[r][t][q], wv, xv[t]);
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
            float v = tree_sum(acc[r][t]);
            uint32_t at = row + (uint32_t)r;
            m->y[(token + (uint32_t)t) * m->y_row_floats + at] = m->bias != NULL ? v + m->bias[at] : v;
        }
    }
}

void neon_matmul_f32(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){load_f32x4, 4}, row_begin, row_end);
}

void neon_matmul_f16(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){load_f16x4, 2}, row_begin, row_end);
}

void neon_matmul_bf16(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    product(m, (struct format){load_bf16x4, 2}, row_begin, row_end);
}
