/* SPDX-License-Identifier: MIT
 * Integer products of the block formats, AVX-512 with VNNI: docs/arithmetic.md, section 3, compute/units.h.
 *
 * VPDPBUSD multiplies unsigned by signed bytes: quants are read unsigned and the row's prepared sums take the bias
 * away.
 *
 * One token: one stream of units, so that memory sees one stream. Small units (row_of_small): 16 blocks of a row a
 * step, two in a register; a transposing reduction turns eight registers of partial sums into 16 block dots, which are
 * the 16 lanes in order. Super-blocks (rows_of_super): four units a step give four integers; the floats follow once a
 * row.
 *
 * Several tokens (compute/x86/units_wide.h): 8 VPDPBUSD give 16 rows' dots of 32 values.
 */
#include "compute/x86/quants_avx512.h"

enum { LANE_COUNT = 16, WIDE_ROWS = 16, TILE_TOKENS = 16, STREAM_UNITS = 256, AHEAD_BYTES = 4096 };

typedef __m512 wide_f;
typedef __m512i wide_i;

INLINE wide_f wide_zero(void)
{
    return _mm512_setzero_ps();
}

INLINE wide_f wide_add(wide_f a, wide_f b)
{
    return _mm512_add_ps(a, b);
}

INLINE void wide_store(float *y, uint32_t rows, wide_f v, const float *bias)
{
    __mmask16 mask = vec_first(rows);
    _mm512_mask_storeu_ps(y, mask, bias != NULL ? _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, bias)) : v);
}

INLINE void wide_plain(const struct unit_format *f, quants_fn *quants, const unsigned char *p, uint8_t *out)
{
    if (f->values == UNIT_SMALL) {
        _mm256_storeu_si256((void *)out, _mm512_castsi512_si256(quants(p, 0)));
        return;
    }
    UNROLLED(n, 4)
    {
        _mm512_storeu_si512((void *)(out + n * 64), quants(p, n));
    }
}

INLINE void transpose_piece(const unsigned char *from, size_t stride, __m512i out[8])
{
    __m512i z[8];
    UNROLLED(i, 8)
    {
        const int first = i < 4 ? i : i + 4; /* registers hold rows (0,4) (1,5) (2,6) (3,7) (8,12) ... */
        const unsigned char *p = from + (size_t)first * stride;
        z[i] = _mm512_inserti64x4(_mm512_castsi256_si512(load_256(p)), load_256(p + 4 * stride), 1);
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

INLINE void transpose_bytes(const uint8_t (*bytes)[16], __m512i out[4])
{
    __m512i z[4];
    UNROLLED(i, 4)
    {
        z[i] = _mm512_loadu_si512((const void *)bytes[4 * i]);
    }
    __m512i a = _mm512_unpacklo_epi32(z[0], z[1]);
    __m512i b = _mm512_unpackhi_epi32(z[0], z[1]);
    __m512i c = _mm512_unpacklo_epi32(z[2], z[3]);
    __m512i d = _mm512_unpackhi_epi32(z[2], z[3]);
    out[0] = _mm512_unpacklo_epi64(a, c);
    out[1] = _mm512_unpackhi_epi64(a, c);
    out[2] = _mm512_unpacklo_epi64(b, d);
    out[3] = _mm512_unpackhi_epi64(b, d);
}

INLINE void wide_columns(const __m512i four[4], __m512i out[UNIT_SUBS_MAX])
{
    UNROLLED(j, UNIT_SUBS_MAX)
    {
        out[j] = _mm512_srai_epi32(_mm512_slli_epi32(four[j / 4], (unsigned)(24 - 8 * (j % 4))), 24);
    }
}

INLINE void wide_pairs(const __m512i four[4], int factor, __m512i out[UNIT_SUBS_MAX / 2])
{
    const __m512i first =
        _mm512_broadcast_i32x4(_mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13));
    UNROLLED(j, UNIT_SUBS_MAX / 2)
    {
        __m512i both = j % 2 ? _mm512_srli_epi32(four[j / 2], 16) : four[j / 2];
        __m512i words = _mm512_srai_epi16(_mm512_shuffle_epi8(both, first), 8);
        out[j] = _mm512_mullo_epi16(words, _mm512_set1_epi16((short)factor));
    }
}

INLINE __m512i wide_words(int word)
{
    return _mm512_set1_epi16((short)word);
}

INLINE int wide_bias(const struct unit_format *f)
{
    return f->bias;
}

INLINE __m512 wide_halves(const unsigned char *const w[WIDE_ROWS], size_t at)
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

INLINE __m512 wide_powers(const unsigned char *e)
{
    return powers(_mm_loadu_si128((const void *)e));
}

#include "compute/x86/units_wide.h"

/* ---- one token, small units ---- */

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

/* Blocks b..b+15 of a row, of which `count` exist, into their lanes. */
INLINE __m512 small_group(const struct unit_format *f, quants_fn *quants, const unsigned char *w,
                          const struct activation *x, uint32_t b, uint32_t count, __m512 acc)
{
    __m512i d[8];
    UNROLLED(j, 8)
    {
        const unsigned char *p = w + (size_t)j * 2 * f->bytes;
        bool one = count > (uint32_t)j * 2;
        bool two = count > (uint32_t)j * 2 + 1;
        __m512i low = one ? quants(p, 0) : _mm512_setzero_si512();
        __m512i high = two ? quants(p + f->bytes, 0) : _mm512_setzero_si512();
        __m512i wv = _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1);
        __mmask16 present = (__mmask16)((one ? 0xff : 0) | (two ? 0xff00 : 0));
        __m512i xv = _mm512_maskz_loadu_epi32(present, x->quants + (size_t)b * UNIT_SMALL + (size_t)j * 2 * UNIT_SMALL);
        d[j] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), wv, xv);
    }
    __mmask16 mask = vec_first(count);
    __m512i pairs = _mm512_maskz_loadu_epi32(mask, x->sums + (size_t)b * 4);
    __m512 x_scales = _mm512_maskz_loadu_ps(mask, x->scales + (size_t)b * 4);
    __m512i dots = sum_blocks(d);
    if (f->bias != 0) {
        dots = _mm512_dpwssd_epi32(dots, pairs, _mm512_set1_epi16((short)-f->bias));
    }
    __m512 scale = _mm512_mul_ps(load_scales(f, w, f->bytes, count), x_scales);
    acc = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, acc, mask);
    if (f->mins) {
        __m512i sums = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
        scale = _mm512_mul_ps(load_halves(w + f->m_at, f->bytes, count), x_scales);
        acc = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(sums), scale, acc, mask);
    }
    return acc;
}

INLINE void row_of_small(const struct unit_format *f, quants_fn *quants, const struct matmul *m, uint32_t row)
{
    const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
    struct activation x = activation_at(m, 0, UNIT_SMALL);
    __m512 acc = _mm512_setzero_ps();
    uint32_t blocks = m->k / UNIT_SMALL;
    uint32_t b = 0;
    for (; b + LANE_COUNT <= blocks; b += LANE_COUNT) {
        const unsigned char *group = w + (size_t)b * f->bytes;
        UNROLLED(i, 9)
        {
            if (i * 64 < LANE_COUNT * f->bytes + 63) {
                _mm_prefetch((const char *)group + AHEAD_BYTES + (size_t)i * 64, _MM_HINT_T0);
            }
        }
        acc = small_group(f, quants, group, &x, b, LANE_COUNT, acc);
    }
    if (b < blocks) {
        acc = small_group(f, quants, w + (size_t)b * f->bytes, &x, b, blocks - b, acc);
    }
    float v = tree_sum(&acc);
    m->y[row] = m->bias != NULL ? v + m->bias[row] : v;
}

/* ---- one token, super-blocks ---- */

/* Integers and scales of the units of some rows, in order of (row, unit). */
struct stream {
    _Alignas(64) int32_t dots[STREAM_UNITS], mins[STREAM_UNITS];
    uint16_t d[STREAM_UNITS], m[STREAM_UNITS];
};

/* The 16 partial sums of a unit's scaled dots, bias taken away; *mins: 8 of its scaled minima. */
INLINE __m512i super_sums(const struct unit_format *f, quants_fn *quants, const unsigned char *w,
                          const unsigned char *x, const unsigned char *x_sums, __m256i *mins)
{
    struct unit_scales bytes;
    f->scales(w, &bytes);
    __m128i scale_bytes = sub_bytes(f, bytes.scale);
    __m256i sums = load_256(x_sums);
    __m512i total = _mm512_setzero_si512();
    __m512i dots[4];
    UNROLLED(n, 4)
    {
        __m512i xv = _mm512_loadu_si512((const void *)(x + (size_t)n * 64));
        dots[n] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), quants(w, n), xv);
    }
    if (f->bias == 128) {
        UNROLLED(n, 4)
        {
            const __m512i four = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
            const __m512i index = _mm512_add_epi32(four, _mm512_set1_epi32(4 * n));
            __m512i mine = _mm512_permutexvar_epi32(index, _mm512_cvtepi8_epi32(scale_bytes));
            total = _mm512_add_epi32(total, _mm512_mullo_epi32(dots[n], mine));
        }
    } else { /* four products of at most 63 x 127 fit 16 bits */
        UNROLLED(n, 2)
        {
            const __m512i lanes =
                _mm512_setr_epi64(0x0000000000000000, 0x0004000400040004, 0x0001000100010001, 0x0005000500050005,
                                  0x0002000200020002, 0x0006000600060006, 0x0003000300030003, 0x0007000700070007);
            const __m512i index = _mm512_add_epi16(lanes, _mm512_set1_epi16((short)(8 * n)));
            __m512i words = _mm512_castsi256_si512(_mm256_cvtepi8_epi16(scale_bytes));
            __m512i both = _mm512_packs_epi32(dots[2 * n], dots[2 * n + 1]);
            total = _mm512_dpwssd_epi32(total, both, _mm512_permutexvar_epi16(index, words));
        }
    }
    if (f->bias != 0) {
        __m256i biased = _mm256_mullo_epi16(_mm256_cvtepi8_epi16(scale_bytes), _mm256_set1_epi16((short)-f->bias));
        total = _mm512_add_epi32(total, _mm512_zextsi256_si512(_mm256_madd_epi16(biased, sums)));
    }
    *mins = f->mins ? _mm256_madd_epi16(_mm256_cvtepi8_epi16(sub_bytes(f, bytes.min)), sums) : _mm256_setzero_si256();
    return total;
}

INLINE __m128i sum_of_four_256(const __m256i v[4])
{
    __m256i s = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    return _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
}

/* Element i of the result is the sum of v[i]. */
INLINE __m128i sum_of_four(const __m512i v[4])
{
    __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    __m512i s = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    __m256i t = _mm256_add_epi32(_mm512_castsi512_si256(s), _mm512_extracti64x4_epi64(s, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(t), _mm256_extracti128_si256(t, 1));
}

/* Units [unit, unit + units) of `rows` rows from `w` on. */
INLINE void stream_units(const struct unit_format *f, quants_fn *quants, const struct matmul *m, const unsigned char *w,
                         uint32_t unit, uint32_t units, uint32_t rows, struct stream *out)
{
    struct activation x = activation_at(m, 0, UNIT_SUPER);
    uint32_t count = rows * units;
    uint32_t u = 0;
    const unsigned char *p = w + (size_t)unit * f->bytes;
    for (uint32_t i = 0; i < count; i += 4) {
        __m512i dots[4];
        __m256i mins[4];
        UNROLLED(j, 4)
        {
            size_t at = unit + u;
            dots[j] = super_sums(f, quants, p, x.quants + at * UNIT_SUPER, x.sums + at * 32, &mins[j]);
            out->d[i + (uint32_t)j] = load_u16(p + f->d_at);
            if (f->mins) {
                out->m[i + (uint32_t)j] = load_u16(p + f->m_at);
            }
            UNROLLED(line, 4)
            {
                if (line * 64 < f->bytes) {
                    _mm_prefetch((const char *)p + AHEAD_BYTES + line * 64, _MM_HINT_T0);
                }
            }
            if (i + (uint32_t)j + 1 < count) { /* past the end, the last unit again */
                p += f->bytes;
                if (++u == units) {
                    u = 0;
                    w += m->w_row_bytes;
                    p = w + (size_t)unit * f->bytes;
                }
            }
        }
        _mm_store_si128((void *)(out->dots + i), sum_of_four(dots));
        if (f->mins) {
            _mm_store_si128((void *)(out->mins + i), sum_of_four_256(mins));
        }
    }
}

/* `units` integers from number `at` of the stream, which belong to units `unit`.. of a row, into the row's lanes. */
INLINE __m512 stream_lanes(const struct stream *s, bool mins, const unsigned char *x_scales, uint32_t at,
                           uint32_t units, __m512 acc)
{
    for (uint32_t u = 0; u < units; u += LANE_COUNT) {
        __mmask16 mask = vec_first(units - u);
        __m512 x = _mm512_maskz_loadu_ps(mask, x_scales + (size_t)u * 4);
        __m512 d = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, s->d + at + u));
        __m512 dots = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(mask, s->dots + at + u));
        acc = _mm512_mask3_fmadd_ps(dots, _mm512_mul_ps(d, x), acc, mask);
        if (mins) {
            __m512 min_scale = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, s->m + at + u));
            __m512 sums = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(mask, s->mins + at + u));
            acc = _mm512_mask3_fnmadd_ps(sums, _mm512_mul_ps(min_scale, x), acc, mask);
        }
    }
    return acc;
}

INLINE void rows_of_super(const struct unit_format *f, quants_fn *quants, const struct matmul *m, uint32_t row,
                          uint32_t row_end)
{
    struct stream s;
    struct activation x = activation_at(m, 0, UNIT_SUPER);
    uint32_t units = m->k / UNIT_SUPER;
    while (row < row_end) {
        const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
        uint32_t rows = units < STREAM_UNITS ? STREAM_UNITS / units : 1;
        rows = rows < row_end - row ? rows : row_end - row;
        __m512 acc = _mm512_setzero_ps(); /* outlives a stream only where a row needs several */
        for (uint32_t unit = 0; unit < units; unit += STREAM_UNITS) {
            uint32_t some = units - unit < STREAM_UNITS ? units - unit : STREAM_UNITS;
            stream_units(f, quants, m, w, unit, some, rows, &s);
            for (uint32_t r = 0; r < rows; r++) {
                acc = rows == 1 ? acc : _mm512_setzero_ps();
                acc = stream_lanes(&s, f->mins, x.scales + (size_t)unit * 4, r * some, some, acc);
                float v = tree_sum(&acc); /* of an unfinished row: written again */
                m->y[row + r] = m->bias != NULL ? v + m->bias[row + r] : v;
            }
        }
        row += rows;
    }
}

/* ---- several tokens ---- */

INLINE __m512i broadcast_i32(const unsigned char *p)
{
    return _mm512_set1_epi32((int)load_u32(p));
}

/* Where dots are made: a unit, tokens from `token` to `last`, and the accumulator of the first. */
struct dots_place {
    uint32_t unit, token, last, first;
};

/* The unpacked unit times `tokens` tokens of the place (those past its last repeat it). */
INLINE void wide_dots(const struct matmul *m, struct wide *s, struct dots_place place, int values, int sub, bool mins,
                      int tokens)
{
    const uint32_t unit = place.unit;
    const unsigned char *x[TILE_TOKENS];
    __m512i dots[TILE_TOKENS];
    UNROLLED(t, tokens)
    {
        uint32_t mine = place.token + (uint32_t)t < place.last ? place.token + (uint32_t)t : place.last;
        x[t] = (const unsigned char *)m->x + mine * m->x_row_bytes;
        dots[t] = _mm512_setzero_si512();
    }
    size_t at = (size_t)unit * (size_t)values;
    for (int piece = 0; piece < values / PIECE; piece++, at += PIECE) {
        const __m512i *w = s->quants[piece];
        UNROLLED(t, tokens)
        {
            __m512i part[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
            UNROLLED(c, 8)
            {
                const int which = sub == 16 ? c / 4 : 0;
                part[which] = _mm512_dpbusd_epi32(part[which], w[c], broadcast_i32(x[t] + at + (size_t)c * 4));
            }
            if (values == UNIT_SMALL) {
                dots[t] = part[0];
            } else {
                part[0] = _mm512_mullo_epi32(part[0], s->scale[2 * piece]);
                dots[t] = _mm512_add_epi32(dots[t], part[0]);
                if (sub == 16) {
                    part[1] = _mm512_mullo_epi32(part[1], s->scale[2 * piece + 1]);
                    dots[t] = _mm512_add_epi32(dots[t], part[1]);
                }
            }
        }
    }
    size_t scales = m->k + (size_t)unit * 4;
    size_t sums = m->k + (size_t)m->k / (size_t)values * 4 + (size_t)unit * (size_t)values / 8;
    UNROLLED(t, tokens)
    {
        __m512i pairs = mins ? _mm512_setzero_si512() : dots[t];
        UNROLLED(piece, values / PIECE)
        {
            pairs = _mm512_dpwssd_epi32(pairs, s->pair[piece], broadcast_i32(x[t] + sums + (size_t)piece * 4));
        }
        __m512 scale = _mm512_set1_ps(load_f32(x[t] + scales));
        __m512 acc = s->acc[place.first + (uint32_t)t];
        acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(mins ? dots[t] : pairs), _mm512_mul_ps(s->d, scale), acc);
        if (mins) {
            acc = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(pairs), _mm512_mul_ps(s->m, scale), acc);
        }
        s->acc[place.first + (uint32_t)t] = acc;
    }
}

#define DOTS(shape, values, sub, mins)                                                                         \
    static uint32_t shape(const struct matmul *m, struct wide *s, uint32_t unit, uint32_t token, uint32_t end, \
                          uint32_t first)                                                                      \
    {                                                                                                          \
        const struct dots_place place = {unit, token, end - 1, first};                                         \
        uint32_t left = end - token;                                                                           \
        if (left > 12) {                                                                                       \
            wide_dots(m, s, place, values, sub, mins, 16);                                                     \
            return 16;                                                                                         \
        }                                                                                                      \
        if (left > 4) {                                                                                        \
            wide_dots(m, s, place, values, sub, mins, 8);                                                      \
            return 8;                                                                                          \
        }                                                                                                      \
        wide_dots(m, s, place, values, sub, mins, 4);                                                          \
        return 4;                                                                                              \
    }
DOTS(small_bias, UNIT_SMALL, 32, false)
DOTS(small_min, UNIT_SMALL, 32, true)
DOTS(super16_bias, UNIT_SUPER, 16, false)
DOTS(super16_min, UNIT_SUPER, 16, true)
DOTS(super32_bias, UNIT_SUPER, 32, false)
DOTS(super32_min, UNIT_SUPER, 32, true)

static dots_fn *dots_of(const struct unit_format *f)
{
    if (f->values == UNIT_SMALL) {
        return f->mins ? small_min : small_bias;
    }
    if (f->sub == 16) {
        return f->mins ? super16_min : super16_bias;
    }
    return f->mins ? super32_min : super32_bias;
}

/* ---- the formats ---- */

#define PRODUCT(isa, name)                                                                                      \
    static void unpack_##name(struct wide *s, uint32_t unit)                                                    \
    {                                                                                                           \
        wide_unit(&unit_##name, quants_##name, s, unit);                                                        \
    }                                                                                                           \
    void isa##_matmul_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end)                      \
    {                                                                                                           \
        unit_product(&unit_##name, unpack_##name, dots_of(&unit_##name), narrow_##name, m, row_begin, row_end); \
    }
#define SMALL_PRODUCT(isa, TYPE, name)                                                      \
    static void narrow_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end) \
    {                                                                                       \
        for (uint32_t row = row_begin; row < row_end; row++) {                              \
            row_of_small(&unit_##name, quants_##name, m, row);                              \
        }                                                                                   \
    }                                                                                       \
    PRODUCT(isa, name)
#define SUPER_PRODUCT(isa, TYPE, name)                                                      \
    static void narrow_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end) \
    {                                                                                       \
        rows_of_super(&unit_##name, quants_##name, m, row_begin, row_end);                  \
    }                                                                                       \
    PRODUCT(isa, name)

SMALL_FORMATS(SMALL_PRODUCT, avx512)
SUPER_FORMATS(SUPER_PRODUCT, avx512)
