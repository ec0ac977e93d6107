/* SPDX-License-Identifier: MIT
 * Q8_0 matrix product, AVX-512 VNNI: docs/arithmetic.md, section 3.
 *
 * VPDPBUSD multiplies unsigned by signed bytes, so weights are read as q + 128 and the prepared row's offset
 * (-128 x its sum of quants) takes the surplus away: exact in int32.
 *
 * Few tokens (row_dots): one weight row at a time, 16 blocks a step. Two blocks share a register; a transposing
 * reduction turns eight registers of partial sums into one of 16 block dots, which is the 16 lanes in order.
 *
 * Many tokens (wide_tile): 16 weight rows at a time. A block of each row is transposed in registers to 8 registers of
 * 16 rows x 4 quants; a token then needs 8 VPDPBUSD with its quants broadcast from memory to get 16 rows' dots.
 * Blocks are visited lane by lane, so that one accumulator a token is enough.
 */
#include <string.h>

#include "base/bytes.h"
#include "compute/x86/avx512.h"

enum {
    BLOCK = ACT_Q8_BLOCK,
    BLOCK_BYTES = 34,
    LANE_COUNT = 16,
    WIDE_ROWS = 16,
    WIDE_TOKENS = 16,
    NARROW_TOKENS = 3,
    AHEAD_BYTES = 4096
};

INLINE const unsigned char *activation(const struct matmul *m, uint32_t token)
{
    return (const unsigned char *)m->x + token * m->x_row_bytes;
}

INLINE __m256i load_block(const unsigned char *p)
{
    return _mm256_loadu_si256((const void *)p);
}

/* 16 binary16 values, each `stride` bytes after the one before, exactly as binary32. */
INLINE __m512 load_scales(const unsigned char *p, size_t stride)
{
    uint64_t words[4];
    UNROLLED(i, 4)
    {
        const unsigned char *q = p + (size_t)i * 4 * stride;
        words[i] = (uint64_t)load_u16(q) | (uint64_t)load_u16(q + stride) << 16 |
                   (uint64_t)load_u16(q + 2 * stride) << 32 | (uint64_t)load_u16(q + 3 * stride) << 48;
    }
    return _mm512_cvtph_ps(
        _mm256_setr_epi64x((long long)words[0], (long long)words[1], (long long)words[2], (long long)words[3]));
}

/* ---- few tokens ---- */

/* d[j] holds 8 partial sums of block 2j, then 8 of block 2j + 1; the result is the 16 block sums in order. */
INLINE __m512i sum_blocks(const __m512i d[8])
{
    __m512i pair[4];
    __m512i quad[2];
    UNROLLED(i, 4)
    {
        pair[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(d[2 * i], d[2 * i + 1]),
                                   _mm512_unpackhi_epi32(d[2 * i], d[2 * i + 1]));
    }
    UNROLLED(i, 2)
    {
        quad[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(pair[2 * i], pair[2 * i + 1]),
                                   _mm512_unpackhi_epi64(pair[2 * i], pair[2 * i + 1]));
    }
    /* Blocks 0 2 4 6 | 1 3 5 7 | 8 10 12 14 | 9 11 13 15. */
    __m512i all =
        _mm512_add_epi32(_mm512_shuffle_i64x2(quad[0], quad[1], 0x88), _mm512_shuffle_i64x2(quad[0], quad[1], 0xdd));
    const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    return _mm512_permutexvar_epi32(order, all);
}

/* acc[t] of lanes b..b+15 of one row; `count` blocks of the group exist. */
INLINE void dot_group(const unsigned char *w, const unsigned char *const x[], uint32_t k, uint32_t b, uint32_t count,
                      int tokens, __m512 acc[])
{
    const __m512i bias = _mm512_set1_epi8((char)-128);
    __m512i d[NARROW_TOKENS][8];
    UNROLLED(j, 8)
    {
        const unsigned char *p = w + (size_t)j * 2 * BLOCK_BYTES;
        bool one = count > (uint32_t)j * 2;
        bool two = count > (uint32_t)j * 2 + 1;
        __m256i low = one ? load_block(p + 2) : _mm256_setzero_si256();
        __m256i high = two ? load_block(p + BLOCK_BYTES + 2) : _mm256_setzero_si256();
        __m512i wv = _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), bias);
        __mmask16 present = (__mmask16)((one ? 0xff : 0) | (two ? 0xff00 : 0));
        UNROLLED(t, tokens)
        {
            __m512i xv = _mm512_maskz_loadu_epi32(present, x[t] + (size_t)b * BLOCK + (size_t)j * 2 * BLOCK);
            d[t][j] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), wv, xv);
        }
    }
    __mmask16 mask = mask_of(count);
    __m512 scales;
    if (count == LANE_COUNT) {
        scales = load_scales(w, BLOCK_BYTES);
    } else {
        uint16_t some[LANE_COUNT] = {0};
        for (uint32_t i = 0; i < count; i++) {
            some[i] = load_u16(w + (size_t)i * BLOCK_BYTES);
        }
        scales = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)some));
    }
    UNROLLED(t, tokens)
    {
        const unsigned char *x_scales = x[t] + k + (size_t)b * 4;
        const unsigned char *x_offsets = x_scales + (size_t)(k / BLOCK) * 4;
        __m512i dots = _mm512_add_epi32(sum_blocks(d[t]), _mm512_maskz_loadu_epi32(mask, x_offsets));
        __m512 scale = _mm512_mul_ps(scales, _mm512_maskz_loadu_ps(mask, x_scales));
        acc[t] = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, acc[t], mask);
    }
}

INLINE void row_dots(const struct matmul *m, uint32_t row, uint32_t token, int tokens)
{
    const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
    const unsigned char *x[NARROW_TOKENS];
    __m512 acc[NARROW_TOKENS];
    UNROLLED(t, tokens)
    {
        x[t] = activation(m, token + (uint32_t)t);
        acc[t] = _mm512_setzero_ps();
    }
    uint32_t blocks = m->k / BLOCK;
    uint32_t b = 0;
    for (; b + LANE_COUNT <= blocks; b += LANE_COUNT) {
        const unsigned char *group = w + (size_t)b * BLOCK_BYTES;
        UNROLLED(i, 9)
        {
            _mm_prefetch((const char *)group + AHEAD_BYTES + (size_t)i * 64, _MM_HINT_T0);
        }
        dot_group(group, x, m->k, b, LANE_COUNT, tokens, acc);
    }
    if (b < blocks) {
        dot_group(w + (size_t)b * BLOCK_BYTES, x, m->k, b, blocks - b, tokens, acc);
    }
    UNROLLED(t, tokens)
    {
        float v = tree_sum(acc[t]);
        m->y[(token + (uint32_t)t) * m->y_row_floats + row] = m->bias != NULL ? v + m->bias[row] : v;
    }
}

/* ---- many tokens ---- */

/* w[r] points at a block; out[c] gets quants 4c..4c+3 of all 16 rows, as q + 128. */
INLINE void transpose_blocks(const unsigned char *const w[WIDE_ROWS], size_t at, __m512i out[8])
{
    const __m512i bias = _mm512_set1_epi8((char)-128);
    __m512i z[8];
    UNROLLED(i, 8)
    {
        const int first = i < 4 ? i : i + 4; /* registers hold rows (0,4) (1,5) (2,6) (3,7) (8,12) ... */
        __m256i low = load_block(w[first] + at + 2);
        __m256i high = load_block(w[first + 4] + at + 2);
        z[i] = _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), bias);
    }
    __m512i u[8];
    UNROLLED(i, 2)
    {
        const __m512i *four = z + 4 * i;
        __m512i a = _mm512_unpacklo_epi32(four[0], four[1]);
        __m512i b = _mm512_unpackhi_epi32(four[0], four[1]);
        __m512i c = _mm512_unpacklo_epi32(four[2], four[3]);
        __m512i d = _mm512_unpackhi_epi32(four[2], four[3]);
        u[4 * i + 0] = _mm512_unpacklo_epi64(a, c);
        u[4 * i + 1] = _mm512_unpackhi_epi64(a, c);
        u[4 * i + 2] = _mm512_unpacklo_epi64(b, d);
        u[4 * i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    UNROLLED(c, 4)
    {
        out[c] = _mm512_shuffle_i64x2(u[c], u[4 + c], 0x88);
        out[4 + c] = _mm512_shuffle_i64x2(u[c], u[4 + c], 0xdd);
    }
}

INLINE __m512 gather_scales(const unsigned char *const w[WIDE_ROWS], size_t at)
{
    uint64_t words[4];
    UNROLLED(i, 4)
    {
        const unsigned char *const *four = w + 4 * i;
        words[i] = (uint64_t)load_u16(four[0] + at) | (uint64_t)load_u16(four[1] + at) << 16 |
                   (uint64_t)load_u16(four[2] + at) << 32 | (uint64_t)load_u16(four[3] + at) << 48;
    }
    return _mm512_cvtph_ps(
        _mm256_setr_epi64x((long long)words[0], (long long)words[1], (long long)words[2], (long long)words[3]));
}

INLINE __m512i broadcast_i32(const unsigned char *p)
{
    return _mm512_set1_epi32((int)load_u32(p));
}

/* One lane: blocks lane, lane + 16, ... of 16 rows into acc[token]. `ahead`: what to bring into the second-level cache
 * meanwhile, in address order; NULL: nothing. Returns how far it got. */
INLINE const char *wide_lane(const struct matmul *m, const unsigned char *const w[WIDE_ROWS], uint32_t token,
                             uint32_t lane, int tokens, const char *ahead, __m512 acc[WIDE_TOKENS])
{
    uint32_t blocks = m->k / BLOCK;
    const unsigned char *x = activation(m, token);
    size_t stride = m->x_row_bytes;
    UNROLLED(t, tokens)
    {
        acc[t] = _mm512_setzero_ps();
    }
    for (uint32_t b = lane; b < blocks; b += LANE_COUNT) {
        __m512i wv[8];
        if (ahead != NULL) {
            UNROLLED(i, WIDE_ROWS * BLOCK_BYTES / 64 + 1)
            {
                _mm_prefetch(ahead + (size_t)i * 64, _MM_HINT_T1);
            }
            ahead += WIDE_ROWS * BLOCK_BYTES;
        }
        transpose_blocks(w, (size_t)b * BLOCK_BYTES, wv);
        __m512 scales = gather_scales(w, (size_t)b * BLOCK_BYTES);
        const unsigned char *quants = x + (size_t)b * BLOCK;
        const unsigned char *x_scales = x + m->k + (size_t)b * 4;
        const unsigned char *x_offsets = x_scales + (size_t)blocks * 4;
        UNROLLED(t, tokens)
        {
            size_t at = (size_t)t * stride;
            __m512i dots = broadcast_i32(x_offsets + at);
            UNROLLED(c, 8)
            {
                dots = _mm512_dpbusd_epi32(dots, wv[c], broadcast_i32(quants + at + (size_t)c * 4));
            }
            __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(load_f32(x_scales + at)));
            acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, acc[t]);
        }
    }
    return ahead;
}

/* 16 rows from `row` (those past `rows` repeat the last and are not stored) x `tokens` tokens. */
INLINE void wide_tile(const struct matmul *m, uint32_t row, uint32_t rows, uint32_t token, int tokens)
{
    /* The tree over 16 lanes, visited so that both sides of a sum come one after the other: depth n of `waiting` is
     * the left side of a sum at height n. */
    static const uint8_t order[LANE_COUNT] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
    __m512 waiting[4][WIDE_TOKENS];
    __m512 acc[WIDE_TOKENS];
    const unsigned char *w[WIDE_ROWS];
    for (uint32_t r = 0; r < WIDE_ROWS; r++) {
        w[r] = (const unsigned char *)m->w + (row + (r < rows ? r : rows - 1)) * m->w_row_bytes;
    }
    const char *ahead = token == 0 ? (const char *)w[0] + WIDE_ROWS * m->w_row_bytes : NULL;
    for (uint32_t i = 0; i < LANE_COUNT; i++) {
        ahead = wide_lane(m, w, token, order[i], tokens, ahead, acc);
        uint32_t height = 0;
        for (; (i >> height & 1u) != 0; height++) {
            UNROLLED(t, tokens)
            {
                acc[t] = _mm512_add_ps(waiting[height][t], acc[t]);
            }
        }
        if (height < 4) {
            UNROLLED(t, tokens)
            {
                waiting[height][t] = acc[t];
            }
        }
    }
    __mmask16 mask = mask_of(rows);
    __m512 bias = m->bias != NULL ? _mm512_maskz_loadu_ps(mask, m->bias + row) : _mm512_setzero_ps();
    UNROLLED(t, tokens)
    {
        float *y = m->y + (token + (uint32_t)t) * m->y_row_floats + row;
        _mm512_mask_storeu_ps(y, mask, m->bias != NULL ? _mm512_add_ps(acc[t], bias) : acc[t]);
    }
}

static void wide_product(const struct matmul *m, uint32_t row_begin, uint32_t row_end, uint32_t tokens)
{
    for (uint32_t row = row_begin; row < row_end;) {
        uint32_t rows = row_end - row < WIDE_ROWS ? row_end - row : WIDE_ROWS;
        uint32_t token = 0;
        for (; token + 16 <= tokens; token += 16) {
            wide_tile(m, row, rows, token, 16);
        }
        if (tokens - token >= 8) {
            wide_tile(m, row, rows, token, 8);
            token += 8;
        }
        if (tokens - token >= 4) {
            wide_tile(m, row, rows, token, 4);
        }
        row += rows;
    }
}

void avx512_matmul_q8_0(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    uint32_t wide = m->tokens / 4 * 4;
    if (wide != 0) {
        wide_product(m, row_begin, row_end, wide);
    }
    for (uint32_t row = row_begin; row < row_end; row++) {
        switch (m->tokens - wide) {
        case 1:
            row_dots(m, row, wide, 1);
            break;
        case 2:
            row_dots(m, row, wide, 2);
            break;
        case 3:
            row_dots(m, row, wide, 3);
            break;
        default:
            return;
        }
    }
}

/* ---- activations ---- */

void avx512_prepare_q8(const float *x, void *out, uint32_t k)
{
    unsigned char *quants = out;
    unsigned char *scales = quants + k;
    unsigned char *offsets = scales + (size_t)k / BLOCK * 4;
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    for (uint32_t b = 0; b < k / BLOCK; b++) {
        __m512 v0 = _mm512_loadu_ps(x + (size_t)b * BLOCK);
        __m512 v1 = _mm512_loadu_ps(x + (size_t)b * BLOCK + 16);
        __m512i bits = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(v0), magnitude),
                                        _mm512_and_si512(_mm512_castps_si512(v1), magnitude));
        uint32_t largest_bits = _mm512_reduce_max_epu32(bits);
        float largest = f32_from_bits(largest_bits);
        bool finite = largest_bits < 0x7f800000u;
        bool usable = finite && largest >= 0x1p-100f;
        float scale = usable ? largest / 127.0f : finite ? 0.0f : f32_from_bits(0x7fc00000u);
        __m512i q0 = _mm512_setzero_si512();
        __m512i q1 = _mm512_setzero_si512();
        if (usable) {
            __m512 factor = _mm512_set1_ps(127.0f / largest);
            q0 = _mm512_cvtps_epi32(_mm512_mul_ps(v0, factor));
            q1 = _mm512_cvtps_epi32(_mm512_mul_ps(v1, factor));
        }
        int32_t offset = -128 * _mm512_reduce_add_epi32(_mm512_add_epi32(q0, q1));
        _mm_storeu_si128((void *)(quants + (size_t)b * BLOCK), _mm512_cvtepi32_epi8(q0));
        _mm_storeu_si128((void *)(quants + (size_t)b * BLOCK + 16), _mm512_cvtepi32_epi8(q1));
        memcpy(scales + (size_t)b * 4, &scale, sizeof scale);
        memcpy(offsets + (size_t)b * 4, &offset, sizeof offset);
    }
}
