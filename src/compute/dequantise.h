/* SPDX-License-Identifier: MIT
 * The formats whose activations stay float32 (docs/arithmetic.md, section 2), read 16 values at a time in the vectors
 * of one row (compute/codes.h). Each value is made of the products that quant/packed.c, iq.c, k_quants.c and legacy.c
 * write down, and has their bits. Values go into a panel that many tokens share, or, for one token, straight into the
 * sums. */
#ifndef COMPUTE_DEQUANTISE_H
#define COMPUTE_DEQUANTISE_H

#include "base/bytes.h"
#include "compute/codes.h"
#include "quant/grids.h"

struct sink {
    bool multiply;          /* a constant to the compiler */
    float *out;             /* values are stored here */
    const unsigned char *x; /* or multiplied with these, into the 16 lanes of the product */
    vec lane[LANE_VECS];
};

/* Vector v of the 16 values that begin with number `at`. */
INLINE void put(struct sink *s, uint32_t at, int v, vec values)
{
    size_t i = at + (size_t)v * VEC;
    if (s->multiply) {
        s->lane[v] = vec_fma(values, vec_from_f32(s->x + i * sizeof(float)), s->lane[v]);
    } else {
        vec_store(s->out + i, values);
    }
}

/* ---- scales beside the quants: runs of one group ---- */

struct run {
    const struct packed_side *side;
    const unsigned char *p, *scales, *biases; /* of the row; p: of the run */
    uint32_t group, at, end;                  /* values [at, end) of the sink */
};

typedef void run_fn(const struct run *r, struct sink *s);

/* Sixteen values are `step` bytes. */
INLINE void sided_values(run_fn *values, uint32_t step, const struct matmul *m, uint32_t row, uint32_t first,
                         uint32_t n, struct sink *s)
{
    const struct packed_side *side = &m->side;
    const uint32_t group = side->format.group;
    const uint64_t scale_row = row / side->format.tile_rows * side->row_bytes;
    struct run r = {.side = side,
                    .p = (const unsigned char *)m->w + row * m->w_row_bytes + (size_t)(first / 16) * step,
                    .scales = (const unsigned char *)side->scales + scale_row,
                    .biases = side->biases == NULL ? NULL : (const unsigned char *)side->biases + scale_row,
                    .group = first / group};
    for (uint32_t left = group - first % group; r.at < n; left = group) {
        r.end = left < n - r.at ? r.at + left : n;
        values(&r, s);
        r.p += (size_t)((r.end - r.at) / 16) * step;
        r.at = r.end;
        r.group++;
    }
}

INLINE void affine_run(int bits, const struct run *r, struct sink *s)
{
    const enum dtype type = r->side->format.scale_type;
    const vec scale = vec_set(packed_scale(type, r->scales, r->group));
    const vec bias = vec_set(r->biases == NULL ? 0.0f : packed_scale(type, r->biases, r->group));
    const ivec mask = ivec_set((1u << bits) - 1);
    const unsigned char *p = r->p;
    for (uint32_t at = r->at; at < r->end; at += 16, p += 2 * bits) {
        uint64_t low = bits < 4 ? load_u32(p) : load_u64(p);
        low |= bits == 3 ? (uint64_t)load_u16(p + 4) << 32 : 0;
        uint64_t high = bits == 5 ? load_u16(p + 8) : bits == 6 ? load_u32(p + 8) : 0;
        UNROLLED(v, LANE_VECS)
        {
            ivec q = bits == 8 ? ivec_bytes(p + v * VEC) : ivec_and(ivec_codes(low, high, bits, v), mask);
            put(s, at, v, vec_add(vec_mul(scale, vec_from_int(q)), bias));
        }
    }
}

INLINE void e4m3_run(const struct run *r, struct sink *s)
{
    const vec scale = vec_set(packed_scale(r->side->format.scale_type, r->scales, r->group));
    const unsigned char *p = r->p;
    for (uint32_t at = r->at; at < r->end; at += 16, p += 16) {
        UNROLLED(v, LANE_VECS)
        {
            put(s, at, v, vec_mul(vec_from_e4m3(p + v * VEC), scale));
        }
    }
}

INLINE void e2m1_run(const struct run *r, struct sink *s)
{
    static const float doubled[8] = {0, 1, 2, 3, 4, 6, 8, 12};
    const vec half = vec_set(packed_half(r->scales[r->group]));
    const unsigned char *p = r->p;
    for (uint32_t at = r->at; at < r->end; at += 16, p += 8) {
        uint64_t low = load_u64(p);
        UNROLLED(v, LANE_VECS)
        {
            ivec q = ivec_codes(low, 0, 4, v);
            put(s, at, v, vec_mul(vec_flip(vec_levels(doubled, q), ivec_shift_right(q, 3)), half));
        }
    }
}

#define AFFINE_VALUES(bits)                                          \
    INLINE void mlx##bits##_run(const struct run *r, struct sink *s) \
    {                                                                \
        affine_run(bits, r, s);                                      \
    }                                                                \
    SIDED_VALUES(mlx##bits, mlx##bits##_run, 2 * (bits))
#define SIDED_VALUES(name, run, step)                                                                           \
    INLINE void name##_values(const struct matmul *m, uint32_t row, uint32_t first, uint32_t n, struct sink *s) \
    {                                                                                                           \
        sided_values(run, step, m, row, first, n, s);                                                           \
    }

AFFINE_VALUES(2)
AFFINE_VALUES(3)
AFFINE_VALUES(4)
AFFINE_VALUES(5)
AFFINE_VALUES(6)
AFFINE_VALUES(8)
SIDED_VALUES(f8_e4m3, e4m3_run, 16)
SIDED_VALUES(mxfp4_rows, e2m1_run, 8)

/* ---- blocks: scale x signs x levels[codes of 2 or 3 bits] ---- */

INLINE float half_at(const unsigned char *p)
{
    return f32_from_f16(load_u16(p));
}

INLINE void put_levels(struct sink *s, uint32_t at, const float levels[8], int bits, uint64_t codes, uint32_t minus,
                       float scale)
{
    UNROLLED(v, LANE_VECS)
    {
        vec level = vec_flip(vec_levels(levels, ivec_codes(codes, 0, bits, v)), ivec_codes(minus, 0, 1, v));
        put(s, at, v, vec_mul(vec_set(scale), level));
    }
}

/* Sixteen values of IQ2: two grid entries. */
INLINE void put_iq2(struct sink *s, uint32_t at, uint32_t first, uint32_t second, uint32_t minus, float scale)
{
    static const float levels[8] = {8, 25, 43, 0, 8, 25, 43, 0};
    put_levels(s, at, levels, 2, first | second << 16, minus, scale);
}

INLINE void iq2_xxs_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    float d = half_at(p);
    for (uint32_t i = 0; i < 16; i++) {
        const unsigned char *group = p + 2 + i / 2 * 8;
        const unsigned char *index = group + i % 2 * 2;
        uint32_t word = load_u32(group + 4);
        uint32_t signs = word >> i % 2 * 14;
        put_iq2(s, at + 16 * i, grid_iq2_xxs[index[0]], grid_iq2_xxs[index[1]],
                even_signs(signs) | even_signs(signs >> 7) << 8, half_step(d, word >> 28, 0.25f));
    }
}

/* Scale number i, of the nibbles at p. */
INLINE unsigned nibble(const unsigned char *p, uint32_t i)
{
    return (unsigned)p[i / 2] >> i % 2 * 4 & 15u;
}

INLINE void iq2_xs_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    float d = half_at(p);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t words = load_u32(p + 2 + 4 * i);
        put_iq2(s, at + 16 * i, grid_iq2_xs[words & 511], grid_iq2_xs[words >> 16 & 511],
                even_signs(words >> 9) | even_signs(words >> 25) << 8, half_step(d, nibble(p + 66, i), 0.25f));
    }
}

INLINE void iq2_s_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    float d = half_at(p);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t high = nibble(p + 66, i);
        uint32_t first = p[2 + 2 * i] | (high & 3) << 8;
        uint32_t second = p[3 + 2 * i] | high >> 2 << 8;
        put_iq2(s, at + 16 * i, grid_iq2_s[first], grid_iq2_s[second], load_u16(p + 34 + 2 * i),
                half_step(d, nibble(p + 74, i), 0.25f));
    }
}

/* Sixteen values of IQ3: four grid entries of 12 bits. */
INLINE void put_iq3(struct sink *s, uint32_t at, const float levels[8], const uint16_t *grid, const uint32_t index[4],
                    uint32_t minus, float scale)
{
    uint64_t codes = (uint64_t)(grid[index[2]] | (uint32_t)grid[index[3]] << 12) << 24;
    put_levels(s, at, levels, 3, codes | grid[index[0]] | (uint32_t)grid[index[1]] << 12, minus, scale);
}

INLINE void iq3_xxs_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    static const float levels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    float d = half_at(p);
    for (uint32_t i = 0; i < 16; i++) {
        const unsigned char *low = p + 2 + 4 * i;
        uint32_t word = load_u32(p + 66 + i / 2 * 4);
        uint32_t signs = word >> i % 2 * 14;
        put_iq3(s, at + 16 * i, levels, grid_iq3_xxs, (const uint32_t[4]){low[0], low[1], low[2], low[3]},
                even_signs(signs) | even_signs(signs >> 7) << 8, half_step(d, word >> 28, 0.5f));
    }
}

INLINE void iq3_s_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    static const float levels[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    float d = half_at(p);
    for (uint32_t i = 0; i < 16; i++) {
        const unsigned char *low = p + 2 + 4 * i;
        uint32_t high = nibble(p + 66, i);
        const uint32_t index[4] = {low[0] | (high & 1) << 8, low[1] | (high & 2) << 7, low[2] | (high & 4) << 6,
                                   low[3] | (high & 8) << 5};
        put_iq3(s, at + 16 * i, levels, grid_iq3_s, index, load_u16(p + 74 + 2 * i),
                d * (float)(1 + 2 * nibble(p + 106, i / 2)));
    }
}

/* -1, 0, 1 and, of 2-bit numbers, 2. */
static const float less_one[8] = {-1, 0, 1, 2, -1, 0, 1, 2};

/* Sixteen values of IQ1: two grid entries, each value an eighth more, or less where the side bit is set. */
INLINE void put_iq1(struct sink *s, uint32_t at, uint32_t first, uint32_t second, uint32_t side, float scale)
{
    UNROLLED(v, LANE_VECS)
    {
        vec level = vec_levels(less_one, ivec_codes(grid_iq1[first] | (uint32_t)grid_iq1[second] << 16, 0, 2, v));
        level = vec_add(level, vec_flip(vec_set(0.125f), ivec_codes(side, 0, 1, v)));
        put(s, at, v, vec_mul(vec_set(scale), level));
    }
}

INLINE void iq1_s_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    float d = half_at(p);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t word = load_u16(p + 34 + i / 2 * 2);
        uint32_t high = word >> i % 2 * 6;
        put_iq1(s, at + 16 * i, p[2 + 2 * i] | (high & 7) << 8, p[3 + 2 * i] | (high >> 3 & 7) << 8,
                word >> 15 ? 0xffff : 0, d * (float)(1 + 2 * (word >> 12 & 7)));
    }
}

INLINE void iq1_m_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    uint64_t scales = load_u64(p + 48); /* d in the top nibbles of the four words */
    uint32_t bits = (uint32_t)(scales >> 12 & 15) | (uint32_t)(scales >> 24 & 0xf0) | (uint32_t)(scales >> 36 & 0xf00) |
                    (uint32_t)(scales >> 48 & 0xf000);
    float d = f32_from_f16((uint16_t)bits);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t high = p[32 + i];
        uint32_t side = (high & 8 ? 0xffu : 0) | (high & 128 ? 0xff00u : 0);
        put_iq1(s, at + 16 * i, p[2 * i] | (high & 7) << 8, p[2 * i + 1] | (high >> 4 & 7) << 8, side,
                d * (float)(1 + 2 * (unsigned)(scales >> (i / 4 * 16 + i % 4 * 3) & 7)));
    }
}

/* Sixteen bytes are fractions of 256 in base 3: the digit after the point, after multiplying by a power of 3. */
INLINE void put_ternary(struct sink *s, uint32_t at, const unsigned char *p, const uint32_t powers[16], float d)
{
    UNROLLED(v, LANE_VECS)
    {
        ivec rest = ivec_and(ivec_mul(ivec_bytes(p + v * VEC), ivec_load(powers + v * VEC)), ivec_set(255));
        ivec digit = ivec_shift_right(ivec_mul(rest, ivec_set(3)), 8);
        put(s, at, v, vec_mul(vec_set(d), vec_levels(less_one, digit)));
    }
}

INLINE void tq1_0_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    static const uint32_t powers[5][16] = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                                           {3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3},
                                           {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9},
                                           {27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27},
                                           {81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81}};
    static const uint32_t last_powers[16] = {1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27};
    float d = half_at(p + 52);
    unsigned char last[16]; /* the same four bytes for each place */
    for (uint32_t i = 0; i < 16; i += 4) {
        memcpy(last + i, p + 48, 4);
    }
    for (uint32_t i = 0; i < 10; i++) {
        put_ternary(s, at + 16 * i, p + i % 2 * 16, powers[i / 2], d);
    }
    for (uint32_t i = 0; i < 5; i++) {
        put_ternary(s, at + 160 + 16 * i, p + 32, powers[i], d);
    }
    put_ternary(s, at + 240, last, last_powers, d);
}

INLINE void tq2_0_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    const vec d = vec_set(half_at(p + 64));
    for (uint32_t i = 0; i < 16; i++) {
        UNROLLED(v, LANE_VECS)
        {
            ivec codes = ivec_shift_right(ivec_bytes(p + i / 8 * 32 + i % 2 * 16 + v * VEC), i % 8 / 2 * 2);
            put(s, at + 16 * i, v, vec_mul(d, vec_levels(less_one, codes)));
        }
    }
}

INLINE void q1_0_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    const vec d = vec_set(half_at(p));
    for (uint32_t i = 0; i < 8; i++) {
        UNROLLED(v, LANE_VECS)
        {
            put(s, at + 16 * i, v, vec_flip(d, ivec_codes(~(uint32_t)load_u16(p + 2 + 2 * i), 0, 1, v)));
        }
    }
}

INLINE void q2_0_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    const vec d = vec_set(half_at(p));
    for (uint32_t i = 0; i < 4; i++) {
        UNROLLED(v, LANE_VECS)
        {
            put(s, at + 16 * i, v, vec_mul(d, vec_levels(less_one, ivec_codes(load_u32(p + 2 + 4 * i), 0, 2, v))));
        }
    }
}

#define BLOCK_VALUES(name, elems, bytes)                                                                        \
    INLINE void name##_values(const struct matmul *m, uint32_t row, uint32_t first, uint32_t n, struct sink *s) \
    {                                                                                                           \
        const unsigned char *p = (const unsigned char *)m->w + row * m->w_row_bytes;                            \
        p += (size_t)(first / (elems)) * (bytes);                                                               \
        for (uint32_t at = 0; at < n; at += (elems), p += (bytes)) {                                            \
            name##_block(p, at, s);                                                                             \
        }                                                                                                       \
    }

BLOCK_VALUES(iq2_xxs, 256, 66)
BLOCK_VALUES(iq2_xs, 256, 74)
BLOCK_VALUES(iq2_s, 256, 82)
BLOCK_VALUES(iq3_xxs, 256, 98)
BLOCK_VALUES(iq3_s, 256, 110)
BLOCK_VALUES(iq1_s, 256, 50)
BLOCK_VALUES(iq1_m, 256, 56)
BLOCK_VALUES(tq1_0, 256, 54)
BLOCK_VALUES(tq2_0, 256, 66)
BLOCK_VALUES(q1_0, 128, 18)
BLOCK_VALUES(q2_0, 64, 18)

/* ---- products ---- */

#define DEQUANTISED_MATMUL(isa, TYPE, name)                                                               \
    static void name##_fill(const struct matmul *m, uint32_t row, uint32_t first, uint32_t n, float *out) \
    {                                                                                                     \
        struct sink s = {.out = out};                                                                     \
        name##_values(m, row, first, n, &s);                                                              \
    }                                                                                                     \
    void isa##_matmul_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end)                \
    {                                                                                                     \
        if (m->tokens > 1) {                                                                              \
            panel_product(name##_fill, multiply, m, row_begin, row_end);                                  \
            return;                                                                                       \
        }                                                                                                 \
        for (uint32_t row = row_begin; row < row_end; row++) {                                            \
            struct sink s = {.multiply = true, .x = m->x};                                                \
            UNROLLED(v, LANE_VECS)                                                                        \
            {                                                                                             \
                s.lane[v] = vec_set(0.0f);                                                                \
            }                                                                                             \
            name##_values(m, row, 0, m->k, &s);                                                           \
            float y = tree_sum(s.lane);                                                                   \
            m->y[row] = m->bias != NULL ? y + m->bias[row] : y;                                           \
        }                                                                                                 \
    }

#endif
