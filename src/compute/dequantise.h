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

INLINE float side_number(enum dtype type, const unsigned char *row, uint32_t at)
{
    if (type == DTYPE_F32) {
        return load_f32(row + (size_t)at * 4);
    }
    uint16_t half = load_u16(row + (size_t)at * 2);
    return type == DTYPE_BF16 ? f32_from_bf16(half) : f16_number(half);
}

INLINE ivec affine_codes(int bits, const unsigned char *p, int v)
{
    if (bits == 4 || bits == 8) {
        return bits == 4 ? ivec_nibbles(p + v * VEC / 2) : ivec_bytes(p + v * VEC);
    }
    uint64_t low = bits < 4 ? load_u32(p) : load_u64(p);
    low |= bits == 3 ? (uint64_t)load_u16(p + 4) << 32 : 0;
    return ivec_codes(low, bits == 5 ? load_u16(p + 8) : bits == 6 ? load_u32(p + 8) : 0, bits, v);
}

/* scale x q + bias: of so few codes that a register holds the values of all, they are looked up. */
INLINE void affine_run(int bits, const struct run *r, struct sink *s)
{
    const enum dtype type = r->side->format.scale_type;
    const bool few = 1 << bits <= VEC;
    const vec scale = vec_set(side_number(type, r->scales, r->group));
    const vec bias = vec_set(r->biases == NULL ? 0.0f : side_number(type, r->biases, r->group));
    const ivec mask = ivec_set((1u << bits) - 1);
    const vec all = vec_add(vec_mul(scale, vec_from_int(ivec_and(ivec_load(sixteen), mask))), bias);
    const unsigned char *p = r->p;
    for (uint32_t at = r->at; at < r->end; at += 16, p += 2 * bits) {
        UNROLLED(v, LANE_VECS)
        {
            ivec q = affine_codes(bits, p, v);
            put(s, at, v, few ? vec_pick(all, q) : vec_add(vec_mul(scale, vec_from_int(ivec_and(q, mask))), bias));
        }
    }
}

/* The scale takes in the numbers' unit where it stays finite. */
INLINE void e4m3_run(const struct run *r, struct sink *s)
{
    const float number = side_number(r->side->format.scale_type, r->scales, r->group);
    const bool small = number < 0x1p100f && number > -0x1p100f;
    const vec scale = vec_set(small ? number * E4M3_UNIT : number);
    const unsigned char *p = r->p;
    for (uint32_t at = r->at; at < r->end; at += 16, p += 16) {
        vec w[LANE_VECS];
        vec_from_e4m3(p, w);
        UNROLLED(v, LANE_VECS)
        {
            put(s, at, v, vec_mul(small ? w[v] : vec_mul(w[v], vec_set(E4M3_UNIT)), scale));
        }
    }
}

INLINE void e2m1_run(const struct run *r, struct sink *s)
{
    static const float doubled[8] = {0, 1, 2, 3, 4, 6, 8, 12};
    const vec half = vec_set(packed_half(r->scales[r->group]));
    const unsigned char *p = r->p;
    for (uint32_t at = r->at; at < r->end; at += 16, p += 8) {
        UNROLLED(v, LANE_VECS)
        {
            put(s, at, v, vec_mul(vec_signed_levels(doubled, ivec_nibbles(p + v * VEC / 2)), half));
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

/* ---- blocks ---- */

INLINE float half_at(const unsigned char *p)
{
    return f16_number(load_u16(p));
}

/* d (2 n + 1): exact, as all products of blocks are, so that their order does not count. */
INLINE vec odd_step(vec d, unsigned n)
{
    static const float odd[16] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    return vec_mul(d, vec_set(odd[n]));
}

/* Half h of the 32 values from `at` on: levels of 2 or 3 bits with signs. */
INLINE void put_levels(struct sink *s, uint32_t at, int h, const float levels[8], int bits, uint64_t codes,
                       uint32_t minus, vec scale)
{
    UNROLLED(v, LANE_VECS)
    {
        vec level = vec_flip(vec_levels(levels, ivec_codes(codes, 0, bits, v)), minus, v);
        put(s, at + 16 * (uint32_t)h, v, vec_mul(scale, level));
    }
}

/* Two vectors of seven stored sign bits each. */
INLINE uint32_t two_even_signs(uint32_t bits)
{
    return even_signs[bits & 127] | (uint32_t)even_signs[bits >> 7 & 127] << 8;
}

INLINE uint32_t two_entries(const uint16_t *grid, int bits, uint32_t first, uint32_t second)
{
    return grid[first] | (uint32_t)grid[second] << bits;
}

static const float iq2_levels[8] = {8, 25, 43, 0, 8, 25, 43, 0};

INLINE void iq2_xxs_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    const vec d = vec_set(half_at(p) * 0.125f);
    for (uint32_t i = 0; i < 256; i += 32) {
        uint32_t index = load_u32(p + 2 + i / 4);
        uint32_t word = load_u32(p + 6 + i / 4);
        vec scale = odd_step(d, word >> 28);
        UNROLLED(h, 2)
        {
            uint32_t codes = two_entries(grid_iq2_xxs, 16, index >> 16 * h & 255, index >> (16 * h + 8) & 255);
            put_levels(s, at + i, h, iq2_levels, 2, codes, two_even_signs(word >> 14 * h), scale);
        }
    }
}

INLINE void iq2_xs_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    const vec d = vec_set(half_at(p) * 0.125f);
    for (uint32_t i = 0; i < 256; i += 32) {
        uint64_t words = load_u64(p + 2 + i / 4);
        unsigned scales = p[66 + i / 32];
        UNROLLED(h, 2)
        {
            uint32_t word = (uint32_t)(words >> 32 * h);
            uint32_t codes = two_entries(grid_iq2_xs, 16, word & 511, word >> 16 & 511);
            uint32_t minus = even_signs[word >> 9 & 127] | (uint32_t)even_signs[word >> 25] << 8;
            put_levels(s, at + i, h, iq2_levels, 2, codes, minus, odd_step(d, scales >> 4 * h & 15));
        }
    }
}

INLINE void iq2_s_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    const vec d = vec_set(half_at(p) * 0.125f);
    for (uint32_t i = 0; i < 256; i += 32) {
        const unsigned char *low = p + 2 + i / 8;
        uint32_t high = (uint32_t)p[66 + i / 32] << 8;
        unsigned scales = p[74 + i / 32];
        UNROLLED(h, 2)
        {
            uint32_t codes = two_entries(grid_iq2_s, 16, low[2 * h] | (high >> 4 * h & 0x300),
                                         low[2 * h + 1] | (high >> (4 * h + 2) & 0x300));
            uint32_t minus = load_u16(p + 34 + i / 8 + 2 * h);
            put_levels(s, at + i, h, iq2_levels, 2, codes, minus, odd_step(d, scales >> 4 * h & 15));
        }
    }
}

INLINE void iq3_xxs_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    static const float levels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    const vec d = vec_set(half_at(p) * 0.25f);
    for (uint32_t i = 0; i < 256; i += 32) {
        uint64_t index = load_u64(p + 2 + i / 4);
        uint32_t word = load_u32(p + 66 + i / 8);
        vec scale = odd_step(d, word >> 28);
        UNROLLED(h, 2)
        {
            uint32_t four = (uint32_t)(index >> 32 * h);
            uint64_t codes = two_entries(grid_iq3_xxs, 12, four & 255, four >> 8 & 255);
            codes |= (uint64_t)two_entries(grid_iq3_xxs, 12, four >> 16 & 255, four >> 24) << 24;
            put_levels(s, at + i, h, levels, 3, codes, two_even_signs(word >> 14 * h), scale);
        }
    }
}

INLINE void iq3_s_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    static const float levels[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    const vec d = vec_set(half_at(p));
    for (uint32_t i = 0; i < 256; i += 32) {
        uint32_t high = (uint32_t)p[66 + i / 32] << 8;
        vec scale = odd_step(d, (unsigned)p[106 + i / 64] >> i / 32 % 2 * 4 & 15u);
        UNROLLED(h, 2)
        {
            const unsigned char *low = p + 2 + i / 4 + 4 * h;
            uint32_t top = high >> 4 * h;
            uint64_t codes = two_entries(grid_iq3_s, 12, low[0] | (top & 256), low[1] | (top >> 1 & 256));
            codes |= (uint64_t)two_entries(grid_iq3_s, 12, low[2] | (top >> 2 & 256), low[3] | (top >> 3 & 256)) << 24;
            put_levels(s, at + i, h, levels, 3, codes, load_u16(p + 74 + i / 8 + 2 * h), scale);
        }
    }
}

/* -1, 0, 1 and, of 2-bit numbers, 2. */
static const float less_one[8] = {-1, 0, 1, 2, -1, 0, 1, 2};

/* Half h of 32 values of IQ1: each an eighth more than its level, or less where its side bit is set. */
INLINE void put_iq1(struct sink *s, uint32_t at, int h, uint32_t first, uint32_t second, uint32_t side, vec scale)
{
    uint32_t codes = two_entries(grid_iq1, 16, first, second);
    UNROLLED(v, LANE_VECS)
    {
        vec level = vec_levels(less_one, ivec_codes(codes, 0, 2, v));
        level = vec_add(level, vec_flip(vec_set(0.125f), side, v));
        put(s, at + 16 * (uint32_t)h, v, vec_mul(scale, level));
    }
}

INLINE void iq1_s_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    const vec d = vec_set(half_at(p));
    for (uint32_t i = 0; i < 256; i += 32) {
        const unsigned char *low = p + 2 + i / 8;
        uint32_t word = load_u16(p + 34 + i / 16);
        vec scale = odd_step(d, word >> 12 & 7);
        UNROLLED(h, 2)
        {
            put_iq1(s, at + i, h, low[2 * h] | (word << 8 >> 6 * h & 0x700),
                    low[2 * h + 1] | (word << 5 >> 6 * h & 0x700), 0u - (word >> 15), scale);
        }
    }
}

INLINE void iq1_m_block(const unsigned char *p, uint32_t at, struct sink *s)
{
    uint64_t scales = load_u64(p + 48); /* d in the top nibbles of the four words */
    uint64_t bits = (scales >> 12 & 15) | (scales >> 24 & 0xf0) | (scales >> 36 & 0xf00) | (scales >> 48 & 0xf000);
    const vec d = vec_set(f16_number((uint16_t)bits));
    for (uint32_t i = 0; i < 256; i += 32) {
        const unsigned char *low = p + i / 8;
        uint32_t two = load_u16(p + 32 + i / 16);
        uint32_t word = (uint32_t)(scales >> (i / 64 * 16 + i / 32 % 2 * 6));
        UNROLLED(h, 2)
        {
            uint32_t high = two >> 8 * h;
            uint32_t side = (high >> 3 & 1) * 0xff | (high >> 7 & 1) * 0xff00;
            put_iq1(s, at + i, h, low[2 * h] | (high << 8 & 0x700), low[2 * h + 1] | (high << 4 & 0x700), side,
                    odd_step(d, word >> 3 * h & 7));
        }
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
            put(s, at + 16 * i, v, vec_flip(d, ~(uint32_t)load_u16(p + 2 + 2 * i), v));
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

typedef void values_fn(const struct matmul *m, uint32_t row, uint32_t first, uint32_t n, struct sink *s);

/* One token: row by row, one stream of weights. */
INLINE void one_token(values_fn *values, const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    for (uint32_t row = row_begin; row < row_end; row++) {
        struct sink s = {.multiply = true, .x = m->x};
        UNROLLED(v, LANE_VECS)
        {
            s.lane[v] = vec_set(0.0f);
        }
        values(m, row, 0, m->k, &s);
        float y = tree_sum(s.lane);
        m->y[row] = m->bias != NULL ? y + m->bias[row] : y;
    }
}

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
        } else {                                                                                          \
            one_token(name##_values, m, row_begin, row_end);                                              \
        }                                                                                                 \
    }

#endif
