/* SPDX-License-Identifier: MIT
 * Several tokens of an integer product on x86: what the AVX2 and AVX-512 rows share (compute/units.h).
 *
 * WIDE_ROWS weight rows at a time, one a column of a register. A unit of each is unpacked and transposed once into a
 * panel of WIDE_ROWS rows x 4 quants a register, and every token of a group passes it, its quants broadcast from
 * memory. Units are visited lane by lane, so that one accumulator a token is enough. Included after the row has
 * defined LANE_COUNT, WIDE_ROWS, wide_f, wide_i and how to:
 *   wide_zero wide_add wide_store   start, add and store accumulators
 *   wide_plain                      unpack a unit of a row to bytes
 *   transpose_piece                 32 bytes of each row: out[c] gets bytes 4c..4c+3 of all rows
 *   transpose_bytes                 16 bytes of each row, at its slot: the same
 *   wide_columns wide_pairs         bytes so transposed to one int32, or two int16 times a factor, a row
 *   wide_words wide_bias            16-bit words; the bias that the sums take away
 *   wide_halves wide_powers         float scales of the rows: binary16 at an offset, or exponent bytes
 */
#ifndef COMPUTE_X86_UNITS_WIDE_H
#define COMPUTE_X86_UNITS_WIDE_H

#include "compute/units.h"

enum { GROUP_TOKENS = 64, NARROW_ROWS = 64, PIECE = 32, PIECES_MAX = UNIT_SUPER / PIECE };

/* One unit of the rows, transposed, and the state of a group of tokens. */
struct wide {
    wide_i quants[PIECES_MAX][8]; /* rows x 4 quants */
    wide_i scale[UNIT_SUBS_MAX];  /* rows, int32; for each 16 values */
    wide_i pair[PIECES_MAX];      /* rows x 2 int16, which the sums of 16 activations are multiplied with */
    wide_f d, m;
    wide_f acc[GROUP_TOKENS];
    wide_f waiting[4][GROUP_TOKENS];
    const unsigned char *w[WIDE_ROWS];
    uint8_t plain[WIDE_ROWS][UNIT_SUPER];
    uint8_t scale_bytes[WIDE_ROWS][16], min_bytes[WIDE_ROWS][16]; /* of row r at slot_of(r) */
};
_Static_assert(sizeof(struct wide) <= MATMUL_SCRATCH_BYTES, "the scratch of a thread holds the state of a tile");

/* Four neighbouring rows lie in the same 16 bytes of four registers, for the transposition. */
INLINE uint32_t slot_of(uint32_t row)
{
    return row % 4 * (WIDE_ROWS / 4) + row / 4;
}

/* A prepared row. */
struct activation {
    const unsigned char *quants, *scales, *sums;
};

INLINE struct activation activation_at(const struct matmul *m, uint32_t token, uint32_t unit)
{
    const unsigned char *x = (const unsigned char *)m->x + token * m->x_row_bytes;
    return (struct activation){x, x + m->k, x + m->k + (size_t)m->k / unit * sizeof(float)};
}

/* Integer scales or minima of a unit, one byte for each 16 values. */
INLINE __m128i sub_bytes(const struct unit_format *f, const uint64_t bytes[2])
{
    if (f->sub == 32) {
        __m128i eight = _mm_cvtsi64_si128((long long)bytes[0]);
        return _mm_unpacklo_epi8(eight, eight);
    }
    return _mm_set_epi64x((long long)bytes[1], (long long)bytes[0]);
}

/* Unpacks unit `unit` of the rows. */
typedef void unpack_fn(struct wide *s, uint32_t unit);
/* The unpacked unit times tokens from `token` on, below `end`, into acc[first..]. Returns how many it took; it may
 * compute the last one several times, up to a multiple of 4. */
typedef uint32_t dots_fn(const struct matmul *m, struct wide *s, uint32_t unit, uint32_t token, uint32_t end,
                         uint32_t first);

INLINE void wide_unit(const struct unit_format *f, quants_fn *quants, struct wide *s, uint32_t unit)
{
    size_t at = (size_t)unit * f->bytes;
    for (uint32_t r = 0; r < WIDE_ROWS; r++) {
        const unsigned char *p = s->w[r] + at;
        wide_plain(f, quants, p, s->plain[r]);
        if (f->scales != NULL) {
            struct unit_scales bytes;
            f->scales(p, &bytes);
            _mm_storeu_si128((void *)s->scale_bytes[slot_of(r)], sub_bytes(f, bytes.scale));
            _mm_storeu_si128((void *)s->min_bytes[slot_of(r)], sub_bytes(f, bytes.min));
        }
    }
    for (int piece = 0; piece < f->values / PIECE; piece++) {
        transpose_piece(s->plain[0] + piece * PIECE, UNIT_SUPER, s->quants[piece]);
    }
    if (f->scales != NULL) {
        wide_i four[4];
        transpose_bytes((const uint8_t(*)[16])s->scale_bytes, four);
        wide_columns(four, s->scale);
        if (f->mins) {
            transpose_bytes((const uint8_t(*)[16])s->min_bytes, four);
        }
        wide_pairs(four, f->mins ? 1 : -wide_bias(f), s->pair);
    } else {
        s->pair[0] = wide_words(f->mins ? -1 : -wide_bias(f));
    }
    if (f->exponent) {
        unsigned char e[WIDE_ROWS];
        for (uint32_t r = 0; r < WIDE_ROWS; r++) {
            e[r] = s->w[r][at + f->d_at];
        }
        s->d = wide_powers(e);
    } else {
        s->d = wide_halves((const unsigned char *const *)s->w, at + f->d_at);
    }
    if (f->mins) {
        s->m = wide_halves((const unsigned char *const *)s->w, at + f->m_at);
    }
}

/* acc of a lane, complete, joins the tree over 16 lanes. Lanes past the last unit are +0 and are left out: at height h
 * a node is a lane modulo 16 >> h, its partner 8 >> h further. The caller adds the +0 in the end. */
static void wide_merge(struct wide *s, uint32_t lane, uint32_t units, uint32_t tokens)
{
    for (uint32_t height = 0; height < 4; height++) {
        uint32_t step = 8u >> height;
        uint32_t node = lane % (2 * step);
        if (node < step && node + step < units) { /* the left side of a sum waits for the right one */
            memcpy(s->waiting[height], s->acc, tokens * sizeof s->acc[0]);
            return;
        }
        for (uint32_t t = 0; node >= step && t < tokens; t++) {
            s->acc[t] = wide_add(s->waiting[height][t], s->acc[t]);
        }
    }
}

/* The rows from `row` (those past `rows` repeat the last and are not stored) x `tokens` <= GROUP_TOKENS tokens. */
static void wide_tile(const struct unit_format *f, unpack_fn *unpack, dots_fn *dots, const struct matmul *m,
                      uint32_t row, uint32_t rows, uint32_t token, uint32_t tokens)
{
    /* Lanes in such an order that both sides of a sum of the tree come one after the other. */
    static const uint8_t order[LANE_COUNT] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
    struct wide *s = m->scratch;
    uint32_t units = m->k / f->values;
    for (uint32_t r = 0; r < WIDE_ROWS; r++) {
        s->w[r] = (const unsigned char *)m->w + (row + (r < rows ? r : rows - 1)) * m->w_row_bytes;
    }
    /* The next rows, in address order: rows side by side are no stream that hardware would follow. */
    const char *ahead = (const char *)s->w[0] + WIDE_ROWS * m->w_row_bytes;
    for (uint32_t visit = 0; visit < LANE_COUNT; visit++) {
        if (order[visit] >= units) {
            continue;
        }
        for (uint32_t t = 0; t < tokens; t++) {
            s->acc[t] = wide_zero();
        }
        for (uint32_t unit = order[visit]; unit < units; unit += LANE_COUNT) {
            for (uint32_t line = 0; token == 0 && line < WIDE_ROWS * f->bytes / 64u + 1; line++) {
                _mm_prefetch(ahead + (size_t)line * 64, _MM_HINT_T1);
            }
            ahead += WIDE_ROWS * f->bytes;
            unpack(s, unit);
            for (uint32_t t = 0; t < tokens;) {
                t += dots(m, s, unit, token + t, token + tokens, t);
            }
        }
        wide_merge(s, order[visit], units, tokens);
    }
    for (uint32_t t = 0; t < tokens; t++) {
        wide_f sum = units < LANE_COUNT ? wide_add(s->acc[t], wide_zero()) : s->acc[t];
        wide_store(m->y + (token + t) * m->y_row_floats + row, rows, sum, m->bias != NULL ? m->bias + row : NULL);
    }
}

/* The one-token kernel of a format. */
typedef void narrow_fn(const struct matmul *m, uint32_t row_begin, uint32_t row_end);

static void unit_product(const struct unit_format *f, unpack_fn *unpack, dots_fn *dots, narrow_fn *narrow,
                         const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    /* Up to three tokens that would be a group of their own are cheaper one at a time. */
    uint32_t rest = m->tokens % GROUP_TOKENS;
    uint32_t wide = rest <= 3 ? m->tokens - rest : m->tokens;
    for (uint32_t row = row_begin; row < row_end; row += WIDE_ROWS) {
        uint32_t rows = row_end - row < WIDE_ROWS ? row_end - row : WIDE_ROWS;
        for (uint32_t token = 0; token < wide; token += GROUP_TOKENS) {
            uint32_t left = wide - token;
            wide_tile(f, unpack, dots, m, row, rows, token, left < GROUP_TOKENS ? left : GROUP_TOKENS);
        }
    }
    struct matmul one = *m;
    one.tokens = 1;
    for (uint32_t row = row_begin; wide < m->tokens && row < row_end; row += NARROW_ROWS) {
        for (uint32_t token = wide; token < m->tokens; token++) { /* the rows stay in the cache meanwhile */
            one.x = (const unsigned char *)m->x + token * m->x_row_bytes;
            one.y = m->y + token * m->y_row_floats;
            narrow(&one, row, row_end - row < NARROW_ROWS ? row_end : row + NARROW_ROWS);
        }
    }
}

#endif
