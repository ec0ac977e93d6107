/* SPDX-License-Identifier: MIT
 * Q8_0 matrix product, AVX2: docs/arithmetic.md, section 3.
 *
 * VPMADDUBSW takes unsigned times signed bytes and saturates at 16 bits: |w| x sign(x, w) keeps every pair within
 * 2 x 128 x 127 = 32,512, because prepared quants are never -128. Exact.
 *
 * One token (row_dot): one weight row at a time, 8 blocks a step. Several tokens (wide_tile): 8 weight rows at a time,
 * a block of each transposed in registers, so that a token's quants are broadcast and 8 rows' dots come out together.
 */
#include <string.h>

#include "base/bytes.h"
#include "compute/x86/avx2.h"

enum { BLOCK = ACT_Q8_BLOCK, BLOCK_BYTES = 34, LANE_COUNT = 16, WIDE_ROWS = 8, WIDE_TOKENS = 8, AHEAD_BYTES = 4096 };

INLINE const unsigned char *activation(const struct matmul *m, uint32_t token)
{
    return (const unsigned char *)m->x + token * m->x_row_bytes;
}

INLINE __m256i load_256(const unsigned char *p)
{
    return _mm256_loadu_si256((const void *)p);
}

/* Sums of four neighbouring byte products. */
INLINE __m256i dot4(__m256i w, __m256i x)
{
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* 8 binary16 values, each `stride` bytes after the one before, exactly as binary32; `count` exist, the others are 0. */
INLINE __m256 load_scales(const unsigned char *p, size_t stride, uint32_t count)
{
    uint64_t words[2] = {0, 0};
    UNROLLED(i, 8)
    {
        if ((uint32_t)i < count) {
            words[i / 4] |= (uint64_t)load_u16(p + (size_t)i * stride) << (16 * (i % 4));
        }
    }
    return _mm256_cvtph_ps(_mm_set_epi64x((long long)words[1], (long long)words[0]));
}

/* ---- one token ---- */

/* d[j] holds 8 partial sums of block j; the result is the 8 block sums in order. */
INLINE __m256i sum_blocks(const __m256i d[8])
{
    __m256i low = _mm256_hadd_epi32(_mm256_hadd_epi32(d[0], d[1]), _mm256_hadd_epi32(d[2], d[3]));
    __m256i high = _mm256_hadd_epi32(_mm256_hadd_epi32(d[4], d[5]), _mm256_hadd_epi32(d[6], d[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
}

/* Blocks b..b+7 of a row into their 8 lanes; `count` of them exist. */
INLINE __m256 dot_group(const unsigned char *w, const unsigned char *x, uint32_t k, uint32_t b, uint32_t count,
                        __m256 acc)
{
    __m256i d[8];
    UNROLLED(j, 8)
    {
        if ((uint32_t)j < count) {
            d[j] = dot4(load_256(w + (size_t)j * BLOCK_BYTES + 2), load_256(x + ((size_t)b + (size_t)j) * BLOCK));
        } else {
            d[j] = _mm256_setzero_si256();
        }
    }
    __m256i mask = mask8(count);
    __m256 x_scales = load_some8((const float *)(const void *)(x + k + (size_t)b * 4), mask);
    __m256 scale = _mm256_mul_ps(load_scales(w, BLOCK_BYTES, count), x_scales);
    __m256 now = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum_blocks(d)), scale, acc);
    return count == 8 ? now : keep8(acc, now, mask);
}

static void row_dot(const struct matmul *m, uint32_t row, uint32_t token)
{
    const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
    const unsigned char *x = activation(m, token);
    uint32_t blocks = m->k / BLOCK;
    __m256 acc[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    uint32_t b = 0;
    for (; b + LANE_COUNT <= blocks; b += LANE_COUNT) {
        UNROLLED(h, 2)
        {
            uint32_t at = b + (uint32_t)h * 8;
            const unsigned char *group = w + (size_t)at * BLOCK_BYTES;
            UNROLLED(i, 5)
            {
                _mm_prefetch((const char *)group + AHEAD_BYTES + (size_t)i * 64, _MM_HINT_T0);
            }
            acc[h] = dot_group(group, x, m->k, at, 8, acc[h]);
        }
    }
    for (int h = 0; b < blocks; h++, b += 8) {
        uint32_t count = blocks - b < 8 ? blocks - b : 8;
        acc[h] = dot_group(w + (size_t)b * BLOCK_BYTES, x, m->k, b, count, acc[h]);
    }
    float v = tree_sum(acc[0], acc[1]);
    m->y[token * m->y_row_floats + row] = m->bias != NULL ? v + m->bias[row] : v;
}

/* ---- several tokens ---- */

/* out[c] gets quants 4c..4c+3 of the blocks `at` bytes into 8 rows. */
INLINE void transpose_blocks(const unsigned char *const w[WIDE_ROWS], size_t at, __m256i out[8])
{
    __m256i u[8];
    UNROLLED(i, 2)
    {
        const unsigned char *const *four = w + 4 * i;
        __m256i z[4];
        UNROLLED(j, 4)
        {
            z[j] = load_256(four[j] + at + 2);
        }
        __m256i a = _mm256_unpacklo_epi32(z[0], z[1]);
        __m256i b = _mm256_unpackhi_epi32(z[0], z[1]);
        __m256i c = _mm256_unpacklo_epi32(z[2], z[3]);
        __m256i d = _mm256_unpackhi_epi32(z[2], z[3]);
        u[4 * i + 0] = _mm256_unpacklo_epi64(a, c);
        u[4 * i + 1] = _mm256_unpackhi_epi64(a, c);
        u[4 * i + 2] = _mm256_unpacklo_epi64(b, d);
        u[4 * i + 3] = _mm256_unpackhi_epi64(b, d);
    }
    UNROLLED(c, 4)
    {
        out[c] = _mm256_permute2x128_si256(u[c], u[4 + c], 0x20);
        out[4 + c] = _mm256_permute2x128_si256(u[c], u[4 + c], 0x31);
    }
}

INLINE __m256 gather_scales(const unsigned char *const w[WIDE_ROWS], size_t at)
{
    uint64_t words[2] = {0, 0};
    UNROLLED(i, 8)
    {
        words[i / 4] |= (uint64_t)load_u16(w[i] + at) << (16 * (i % 4));
    }
    return _mm256_cvtph_ps(_mm_set_epi64x((long long)words[1], (long long)words[0]));
}

INLINE __m256i broadcast_i32(const unsigned char *p)
{
    return _mm256_set1_epi32((int)load_u32(p));
}

/* Block b of 8 rows into lane[b mod 16] of each token. */
INLINE void wide_block(const struct matmul *m, const unsigned char *const w[WIDE_ROWS], uint32_t token, uint32_t b,
                       int tokens, __m256 lane[WIDE_TOKENS])
{
    const unsigned char *x = activation(m, token);
    const unsigned char *quants = x + (size_t)b * BLOCK;
    const unsigned char *x_scales = x + m->k + (size_t)b * 4;
    __m256i wv[8];
    __m256i sum[WIDE_TOKENS];
    transpose_blocks(w, (size_t)b * BLOCK_BYTES, wv);
    UNROLLED(t, tokens)
    {
        sum[t] = _mm256_setzero_si256();
    }
    UNROLLED(c, 8)
    {
        UNROLLED(t, tokens)
        {
            __m256i xv = broadcast_i32(quants + (size_t)t * m->x_row_bytes + (size_t)c * 4);
            sum[t] = _mm256_add_epi32(sum[t], dot4(wv[c], xv));
        }
    }
    __m256 scales = gather_scales(w, (size_t)b * BLOCK_BYTES);
    UNROLLED(t, tokens)
    {
        __m256 scale = _mm256_mul_ps(scales, _mm256_set1_ps(load_f32(x_scales + (size_t)t * m->x_row_bytes)));
        lane[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[t]), scale, lane[t]);
    }
}

/* 8 rows from `row` (those past `rows` repeat the last and are not stored) x `tokens` tokens. */
INLINE void wide_tile(const struct matmul *m, uint32_t row, uint32_t rows, uint32_t token, int tokens)
{
    __m256 lane[LANE_COUNT][WIDE_TOKENS];
    const unsigned char *w[WIDE_ROWS];
    for (uint32_t r = 0; r < WIDE_ROWS; r++) {
        w[r] = (const unsigned char *)m->w + (row + (r < rows ? r : rows - 1)) * m->w_row_bytes;
    }
    for (int j = 0; j < LANE_COUNT; j++) {
        UNROLLED(t, tokens)
        {
            lane[j][t] = _mm256_setzero_ps();
        }
    }
    /* The next 8 rows, in address order: eight rows side by side are no stream that hardware would follow. */
    const char *ahead = (const char *)w[0] + WIDE_ROWS * m->w_row_bytes;
    for (uint32_t b = 0; b < m->k / BLOCK; b++) {
        for (int i = 0; token == 0 && i < WIDE_ROWS * BLOCK_BYTES / 64 + 1; i++) {
            _mm_prefetch(ahead + (size_t)b * WIDE_ROWS * BLOCK_BYTES + (size_t)i * 64, _MM_HINT_T1);
        }
        wide_block(m, w, token, b, tokens, lane[b % LANE_COUNT]);
    }
    for (int half = LANE_COUNT / 2; half >= 1; half /= 2) {
        for (int j = 0; j < half; j++) {
            UNROLLED(t, tokens)
            {
                lane[j][t] = _mm256_add_ps(lane[j][t], lane[j + half][t]);
            }
        }
    }
    __m256i mask = mask8(rows);
    __m256 bias = m->bias != NULL ? load_some8(m->bias + row, mask) : _mm256_setzero_ps();
    UNROLLED(t, tokens)
    {
        float *y = m->y + (token + (uint32_t)t) * m->y_row_floats + row;
        store_some8(y, mask, m->bias != NULL ? _mm256_add_ps(lane[0][t], bias) : lane[0][t]);
    }
}

static void wide_product(const struct matmul *m, uint32_t row_begin, uint32_t row_end, uint32_t tokens)
{
    for (uint32_t row = row_begin; row < row_end;) {
        uint32_t rows = row_end - row < WIDE_ROWS ? row_end - row : WIDE_ROWS;
        uint32_t token = 0;
        for (; token + 8 <= tokens; token += 8) {
            wide_tile(m, row, rows, token, 8);
        }
        for (; token + 4 <= tokens; token += 4) {
            wide_tile(m, row, rows, token, 4);
        }
        row += rows;
    }
}

void avx2_matmul_q8_0(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    uint32_t wide = m->tokens / 4 * 4;
    if (wide != 0) {
        wide_product(m, row_begin, row_end, wide);
    }
    for (uint32_t row = row_begin; wide < m->tokens && row < row_end; row++) {
        for (uint32_t token = wide; token < m->tokens; token++) {
            row_dot(m, row, token);
        }
    }
}

/* ---- activations ---- */

INLINE uint32_t highest_u32(__m256i v)
{
    __m128i a = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    a = _mm_max_epu32(a, _mm_shuffle_epi32(a, 0x4e));
    a = _mm_max_epu32(a, _mm_shuffle_epi32(a, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(a);
}

INLINE int32_t total_i32(__m256i v)
{
    __m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1));
    return _mm_cvtsi128_si32(a);
}

void avx2_prepare_q8(const float *x, void *out, uint32_t k)
{
    unsigned char *quants = out;
    unsigned char *scales = quants + k;
    unsigned char *offsets = scales + (size_t)k / BLOCK * 4;
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    for (uint32_t b = 0; b < k / BLOCK; b++) {
        __m256 v[4];
        __m256i bits = _mm256_setzero_si256();
        UNROLLED(i, 4)
        {
            v[i] = _mm256_loadu_ps(x + (size_t)b * BLOCK + 8 * i);
            bits = _mm256_max_epu32(bits, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
        }
        uint32_t largest_bits = highest_u32(bits);
        float largest = f32_from_bits(largest_bits);
        bool finite = largest_bits < 0x7f800000u;
        bool usable = finite && largest >= 0x1p-100f;
        float scale = usable ? largest / 127.0f : finite ? 0.0f : f32_from_bits(0x7fc00000u);
        __m256i q[4];
        __m256i sum = _mm256_setzero_si256();
        const __m256 factor = _mm256_set1_ps(usable ? 127.0f / largest : 0.0f);
        UNROLLED(i, 4)
        {
            q[i] = usable ? _mm256_cvtps_epi32(_mm256_mul_ps(v[i], factor)) : _mm256_setzero_si256();
            sum = _mm256_add_epi32(sum, q[i]);
        }
        /* Packing works within 128-bit halves; the permutation puts the groups of four back in order. */
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((void *)(quants + (size_t)b * BLOCK), bytes);
        int32_t offset = -128 * total_i32(sum);
        memcpy(scales + (size_t)b * 4, &scale, sizeof scale);
        memcpy(offsets + (size_t)b * 4, &offset, sizeof offset);
    }
}
