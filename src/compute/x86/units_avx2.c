/* SPDX-License-Identifier: MIT
 * Integer products of the block formats, AVX2: docs/arithmetic.md, section 3, compute/units.h.
 *
 * VPMADDUBSW takes unsigned times signed bytes and saturates at 16 bits. Quants of up to 6 bits are read unsigned (a
 * pair is at most 2 x 63 x 127), and the row's prepared sums take the bias away. Full bytes (bias 128) become signed
 * again, and |w| x sign(x, w) keeps every pair within 2 x 128 x 127 = 32,512, because prepared quants are never -128.
 * Exact.
 *
 * One token: 8 units of a weight row at a time. Several tokens: compute/x86/units_wide.h, 8 rows.
 */
#include "compute/x86/quants_avx2.h"

enum { LANE_COUNT = 16, WIDE_ROWS = 8, TILE_TOKENS = 4, AHEAD_BYTES = 4096 };

typedef __m256 wide_f;
typedef __m256i wide_i;

INLINE wide_f wide_zero(void)
{
    return _mm256_setzero_ps();
}

INLINE wide_f wide_add(wide_f a, wide_f b)
{
    return _mm256_add_ps(a, b);
}

INLINE void wide_store(float *y, uint32_t rows, wide_f v, const float *bias)
{
    vec_store_some(y, rows, bias != NULL ? _mm256_add_ps(v, vec_load_some(bias, rows)) : v);
}

INLINE void wide_plain(const struct unit_format *f, quants_fn *quants, const unsigned char *p, uint8_t *out)
{
    UNROLLED(n, f->values / 32)
    {
        _mm256_storeu_si256((void *)(out + n * 32), quants(p, n));
    }
}

INLINE void transpose_piece(const unsigned char *from, size_t stride, __m256i out[8])
{
    __m256i u[8];
    UNROLLED(i, 2)
    {
        __m256i z[4];
        UNROLLED(j, 4)
        {
            z[j] = load_256(from + (size_t)(4 * i + j) * stride);
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

INLINE void transpose_bytes(const uint8_t (*bytes)[16], __m256i out[4])
{
    __m256i z[4];
    UNROLLED(i, 4)
    {
        z[i] = load_256(bytes[2 * i]);
    }
    __m256i a = _mm256_unpacklo_epi32(z[0], z[1]);
    __m256i b = _mm256_unpackhi_epi32(z[0], z[1]);
    __m256i c = _mm256_unpacklo_epi32(z[2], z[3]);
    __m256i d = _mm256_unpackhi_epi32(z[2], z[3]);
    out[0] = _mm256_unpacklo_epi64(a, c);
    out[1] = _mm256_unpackhi_epi64(a, c);
    out[2] = _mm256_unpacklo_epi64(b, d);
    out[3] = _mm256_unpackhi_epi64(b, d);
}

INLINE void wide_columns(const __m256i four[4], __m256i out[UNIT_SUBS_MAX])
{
    UNROLLED(j, UNIT_SUBS_MAX)
    {
        out[j] = _mm256_srai_epi32(_mm256_slli_epi32(four[j / 4], 24 - 8 * (j % 4)), 24);
    }
}

INLINE void wide_pairs(const __m256i four[4], int factor, __m256i out[UNIT_SUBS_MAX / 2])
{
    const __m256i first =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13));
    UNROLLED(j, UNIT_SUBS_MAX / 2)
    {
        __m256i both = j % 2 ? _mm256_srli_epi32(four[j / 2], 16) : four[j / 2];
        __m256i words = _mm256_srai_epi16(_mm256_shuffle_epi8(both, first), 8);
        out[j] = _mm256_mullo_epi16(words, _mm256_set1_epi16((short)factor));
    }
}

INLINE __m256i wide_words(int word)
{
    return _mm256_set1_epi16((short)word);
}

/* Full bytes become signed again, so that the sums have nothing to take away. */
INLINE int wide_bias(const struct unit_format *f)
{
    return f->bias == 128 ? 0 : f->bias;
}

INLINE __m256 wide_halves(const unsigned char *const w[WIDE_ROWS], size_t at)
{
    uint64_t words[2] = {0, 0};
    UNROLLED(i, 8)
    {
        words[i / 4] |= (uint64_t)load_u16(w[i] + at) << (16 * (i % 4));
    }
    return _mm256_cvtph_ps(_mm_set_epi64x((long long)words[1], (long long)words[0]));
}

INLINE __m256 wide_powers(const unsigned char *e)
{
    float d[WIDE_ROWS];
    for (uint32_t r = 0; r < WIDE_ROWS; r++) {
        d[r] = unit_power(e[r]);
    }
    return _mm256_loadu_ps(d);
}

#include "compute/x86/units_wide.h"

/* Sums of pairs of products of 32 quants. */
INLINE __m256i pairs_of(int bias, __m256i quants, __m256i x)
{
    if (bias < 128) {
        return _mm256_maddubs_epi16(quants, x);
    }
    __m256i w = _mm256_xor_si256(quants, _mm256_set1_epi8((char)-128));
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

/* ---- one token ---- */

/* d[j] holds 8 partial sums of unit j; the result is the 8 unit sums in order. */
INLINE __m256i sum_units(const __m256i d[8])
{
    __m256i low = _mm256_hadd_epi32(_mm256_hadd_epi32(d[0], d[1]), _mm256_hadd_epi32(d[2], d[3]));
    __m256i high = _mm256_hadd_epi32(_mm256_hadd_epi32(d[4], d[5]), _mm256_hadd_epi32(d[6], d[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
}

/* 8 partial sums of a super-block's scaled dots, and of its scaled minima. */
INLINE __m256i super_sums(const struct unit_format *f, quants_fn *quants, const unsigned char *w,
                          const unsigned char *x, const unsigned char *x_sums, __m256i *mins)
{
    struct unit_scales bytes;
    f->scales(w, &bytes);
    __m256i scales = _mm256_cvtepi8_epi16(sub_bytes(f, bytes.scale));
    __m256i sums = load_256(x_sums);
    __m256i total = _mm256_setzero_si256();
    __m256i low = _mm256_permute2x128_si256(scales, scales, 0x00);
    __m256i high = _mm256_permute2x128_si256(scales, scales, 0x11);
    UNROLLED(n, 8)
    {
        __m256i pairs = pairs_of(f->bias, quants(w, n), load_256(x + (size_t)n * PIECE));
        const __m256i mine = _mm256_setr_m128i(_mm_set1_epi16((short)(n % 4 * 4 | (n % 4 * 4 + 1) << 8)),
                                               _mm_set1_epi16((short)((n % 4 * 4 + 2) | (n % 4 * 4 + 3) << 8)));
        total = _mm256_add_epi32(total, _mm256_madd_epi16(pairs, _mm256_shuffle_epi8(n < 4 ? low : high, mine)));
    }
    if (wide_bias(f) != 0) {
        __m256i biased = _mm256_mullo_epi16(scales, _mm256_set1_epi16((short)-wide_bias(f)));
        total = _mm256_add_epi32(total, _mm256_madd_epi16(biased, sums));
    }
    *mins = f->mins ? _mm256_madd_epi16(_mm256_cvtepi8_epi16(sub_bytes(f, bytes.min)), sums) : _mm256_setzero_si256();
    return total;
}

/* Units u..u+7 of a row, of which `count` exist, into their 8 lanes. */
INLINE __m256 unit_group(const struct unit_format *f, quants_fn *quants, const unsigned char *w,
                         const struct activation *x, uint32_t u, uint32_t count, __m256 acc)
{
    __m256i d[8];
    __m256i e[8];
    UNROLLED(j, 8)
    {
        const unsigned char *p = w + (size_t)j * f->bytes;
        size_t at = (size_t)u + (size_t)j;
        d[j] = e[j] = _mm256_setzero_si256();
        if ((uint32_t)j < count && f->values == UNIT_SUPER) {
            d[j] = super_sums(f, quants, p, x->quants + at * UNIT_SUPER, x->sums + at * 32, &e[j]);
        } else if ((uint32_t)j < count) {
            __m256i pairs = pairs_of(f->bias, quants(p, 0), load_256(x->quants + at * UNIT_SMALL));
            d[j] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        }
    }
    __m256i mask = vec_first(count);
    __m256i dots = sum_units(d);
    __m256i mins = f->mins && f->values == UNIT_SUPER ? sum_units(e) : _mm256_setzero_si256();
    if (f->values == UNIT_SMALL) {
        __m256i sums = _mm256_maskload_epi32((const int *)(const void *)(x->sums + (size_t)u * 4), mask);
        __m256i biased = _mm256_madd_epi16(sums, _mm256_set1_epi16((short)(f->mins ? -1 : -wide_bias(f))));
        mins = f->mins ? biased : mins;
        dots = f->mins ? dots : _mm256_add_epi32(dots, biased);
    }
    __m256 x_scales = vec_load_some((const float *)(const void *)(x->scales + (size_t)u * 4), count);
    __m256 scale = _mm256_mul_ps(load_scales(f, w, f->bytes, count), x_scales);
    __m256 now = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), scale, acc);
    if (f->mins) {
        scale = _mm256_mul_ps(load_halves(w + f->m_at, f->bytes, count), x_scales);
        now = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(mins), scale, now);
    }
    return count == 8 ? now : vec_keep(acc, now, mask);
}

INLINE void row_of_units(const struct unit_format *f, quants_fn *quants, const struct matmul *m, uint32_t row)
{
    const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
    struct activation x = activation_at(m, 0, f->values);
    uint32_t units = m->k / f->values;
    __m256 acc[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    uint32_t half = 0;
    uint32_t u = 0;
    for (; u + 8 <= units; u += 8, half ^= 1) {
        const unsigned char *group = w + (size_t)u * f->bytes;
        for (int line = 0; line * 64 < 8 * f->bytes; line++) {
            _mm_prefetch((const char *)group + AHEAD_BYTES + (size_t)line * 64, _MM_HINT_T0);
        }
        acc[half] = unit_group(f, quants, group, &x, u, 8, acc[half]);
    }
    if (u < units) {
        acc[half] = unit_group(f, quants, w + (size_t)u * f->bytes, &x, u, units - u, acc[half]);
    }
    float v = tree_sum(acc);
    m->y[row] = m->bias != NULL ? v + m->bias[row] : v;
}

/* ---- several tokens ---- */

INLINE __m256i broadcast_i32(const unsigned char *p)
{
    return _mm256_set1_epi32((int)load_u32(p));
}

/* Where dots are made: a unit, tokens from `token` to `last`, and the accumulator of the first. */
struct dots_place {
    uint32_t unit, token, last, first;
};

/* The unpacked unit times TILE_TOKENS tokens of the place (those past its last repeat it). */
INLINE void wide_dots(const struct matmul *m, struct wide *s, struct dots_place place, int values, int sub, int bias,
                      bool mins)
{
    const uint32_t unit = place.unit;
    const unsigned char *x[TILE_TOKENS];
    __m256i dots[TILE_TOKENS];
    UNROLLED(t, TILE_TOKENS)
    {
        uint32_t mine = place.token + (uint32_t)t < place.last ? place.token + (uint32_t)t : place.last;
        x[t] = (const unsigned char *)m->x + mine * m->x_row_bytes;
        dots[t] = _mm256_setzero_si256();
    }
    size_t at = (size_t)unit * (size_t)values;
    for (int part = 0; part < values / sub; part++, at += (size_t)sub) {
        const __m256i *w = s->quants[0] + part * (sub / 4);
        __m256i sum[TILE_TOKENS];
        UNROLLED(c, sub / 4)
        {
            UNROLLED(t, TILE_TOKENS)
            {
                __m256i pairs = pairs_of(bias, w[c], broadcast_i32(x[t] + at + (size_t)c * 4));
                __m256i four = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                sum[t] = c == 0 ? four : _mm256_add_epi32(sum[t], four);
            }
        }
        UNROLLED(t, TILE_TOKENS)
        {
            __m256i scaled = values == UNIT_SMALL ? sum[t] : _mm256_mullo_epi32(sum[t], s->scale[part * (sub / 16)]);
            dots[t] = _mm256_add_epi32(dots[t], scaled);
        }
    }
    size_t scales = m->k + (size_t)unit * 4;
    size_t sums = m->k + (size_t)m->k / (size_t)values * 4 + (size_t)unit * (size_t)values / 8;
    UNROLLED(t, TILE_TOKENS)
    {
        __m256i pairs = mins ? _mm256_setzero_si256() : dots[t];
        for (int piece = 0; bias < 128 && piece < values / PIECE; piece++) {
            __m256i x_sums = broadcast_i32(x[t] + sums + (size_t)piece * 4);
            pairs = _mm256_add_epi32(pairs, _mm256_madd_epi16(s->pair[piece], x_sums));
        }
        __m256 scale = _mm256_set1_ps(load_f32(x[t] + scales));
        __m256 acc = s->acc[place.first + (uint32_t)t];
        acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(mins ? dots[t] : pairs), _mm256_mul_ps(s->d, scale), acc);
        if (mins) {
            acc = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(pairs), _mm256_mul_ps(s->m, scale), acc);
        }
        s->acc[place.first + (uint32_t)t] = acc;
    }
}

/* `bias`: 128 for full bytes, 0 for smaller ones. */
#define DOTS(shape, values, sub, bias, mins)                                                                   \
    static uint32_t shape(const struct matmul *m, struct wide *s, uint32_t unit, uint32_t token, uint32_t end, \
                          uint32_t first)                                                                      \
    {                                                                                                          \
        wide_dots(m, s, (struct dots_place){unit, token, end - 1, first}, values, sub, bias, mins);            \
        return TILE_TOKENS;                                                                                    \
    }
DOTS(small_byte, UNIT_SMALL, 32, 128, false)
DOTS(small_bias, UNIT_SMALL, 32, 0, false)
DOTS(small_min, UNIT_SMALL, 32, 0, true)
DOTS(super16_bias, UNIT_SUPER, 16, 0, false)
DOTS(super16_min, UNIT_SUPER, 16, 0, true)
DOTS(super32_byte, UNIT_SUPER, 32, 128, false)
DOTS(super32_min, UNIT_SUPER, 32, 0, true)

static dots_fn *dots_of(const struct unit_format *f)
{
    if (f->values == UNIT_SMALL) {
        return f->mins ? small_min : f->bias == 128 ? small_byte : small_bias;
    }
    if (f->sub == 16) {
        return f->mins ? super16_min : super16_bias;
    }
    return f->mins ? super32_min : super32_byte;
}

/* ---- the formats ---- */

#define PRODUCT(isa, TYPE, name)                                                                                \
    static void unpack_##name(struct wide *s, uint32_t unit)                                                    \
    {                                                                                                           \
        wide_unit(&unit_##name, quants_##name, s, unit);                                                        \
    }                                                                                                           \
    static void narrow_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end)                     \
    {                                                                                                           \
        for (uint32_t row = row_begin; row < row_end; row++) {                                                  \
            row_of_units(&unit_##name, quants_##name, m, row);                                                  \
        }                                                                                                       \
    }                                                                                                           \
    void isa##_matmul_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end)                      \
    {                                                                                                           \
        unit_product(&unit_##name, unpack_##name, dots_of(&unit_##name), narrow_##name, m, row_begin, row_end); \
    }
SMALL_FORMATS(PRODUCT, avx2)
SUPER_FORMATS(PRODUCT, avx2)
