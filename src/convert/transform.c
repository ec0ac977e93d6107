/* SPDX-License-Identifier: MIT */
#include "convert/transform.h"

#include "base/bytes.h"

enum { PIECE_ELEMS = 1024 }; /* whole blocks of every format; 4 KiB of floats */

/* An exponent of all ones: infinity or NaN. */
static bool floats_finite(const float *x, size_t n)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = f32_to_bits(x[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest < 0x7f800000u;
}

/* None is a number that rounds to BF16's infinity: above its largest by half a step or more. */
static bool bf16_holds(const float *x, size_t n)
{
    bool fine = true;
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = f32_to_bits(x[i]) & 0x7fffffffu;
        fine = fine && (magnitude < 0x7f7f8000u || magnitude >= 0x7f800000u);
    }
    return fine;
}

/* The binary16 numbers of blocks (the value itself, or scales) are finite. */
static bool halves_finite(const unsigned char *blocks, uint64_t count, const struct quant_row *row)
{
    unsigned bad = 0;
    for (uint64_t b = 0; b < count; b++, blocks += row->block_bytes) {
        for (int i = 0; i < row->halves; i++) {
            bad |= (load_u16(blocks + row->half_at + 2 * (size_t)i) & 0x7c00u) == 0x7c00u ? 1u : 0u;
        }
    }
    return bad == 0;
}

static bool convert_row(const unsigned char *in, uint64_t row, unsigned char *out, const struct transform *t)
{
    const struct quant_row *from = quant_row(t->from);
    const struct quant_row *to = quant_row(t->to);
    /* F32 and BF16 hold whatever a source of floats holds. */
    bool packed = t->side.format.kind != PACKED_NONE;
    bool any_value = !packed && (t->to == DTYPE_F32 || t->to == DTYPE_BF16);
    float piece[PIECE_ELEMS];
    bool fine = true;
    for (uint64_t at = 0; at < t->k; at += PIECE_ELEMS) {
        size_t n = t->k - at < PIECE_ELEMS ? (size_t)(t->k - at) : PIECE_ELEMS;
        if (packed) {
            packed_dequantise(t->from, &t->side, in, row + t->side_row, at, n, piece);
        } else {
            from->dequantise(in + at / from->block_elems * from->block_bytes, piece, n);
        }
        unsigned char *target = out + at / to->block_elems * to->block_bytes;
        to->quantise(piece, target, n);
        fine = fine && (t->to != DTYPE_BF16 || t->from == DTYPE_BF16 || bf16_holds(piece, n));
        fine = fine && (any_value || (floats_finite(piece, n) && halves_finite(target, n / to->block_elems, to)));
    }
    return fine;
}

bool transform_rows(const struct transform *t, uint64_t begin, uint64_t end)
{
    const struct quant_row *from = quant_row(t->from);
    const struct quant_row *to = quant_row(t->to);
    uint64_t in_bytes = t->k / from->block_elems * from->block_bytes;
    uint64_t out_bytes = t->k / to->block_elems * to->block_bytes;
    bool fine = true;
    for (uint64_t row = begin; row < end; row++) {
        uint64_t source = t->permute == 0 ? row : permuted_row(row, t->permute);
        source = t->step == 0 ? source : source * t->step + t->first;
        const unsigned char *in = t->in + source * in_bytes;
        unsigned char *out = t->out + row * out_bytes;
        if (t->from == t->to) {
            memcpy(out, in, (size_t)out_bytes);
        } else {
            fine = convert_row(in, source, out, t) && fine;
        }
    }
    return fine;
}
