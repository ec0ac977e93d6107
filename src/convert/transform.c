/* SPDX-License-Identifier: MIT */
#include "convert/transform.h"

#include "base/bytes.h"

enum { PIECE_ELEMS = 1024 }; /* whole blocks of every format; 4 KiB of floats */

/* Exponent all ones: infinity or NaN, in an F16 value or in the scale that begins a Q8_0 block. */
static bool f16_all_finite(const unsigned char *at, uint64_t bytes, size_t stride)
{
    unsigned bad = 0;
    for (uint64_t i = 0; i + 2 <= bytes; i += stride) {
        bad |= (load_u16(at + i) & 0x7c00u) == 0x7c00u ? 1u : 0u;
    }
    return bad == 0;
}

static bool convert_row(const unsigned char *in, unsigned char *out, const struct transform *t)
{
    const struct quant_row *from = quant_row(t->from);
    const struct quant_row *to = quant_row(t->to);
    float piece[PIECE_ELEMS];
    bool fine = true;
    for (uint64_t at = 0; at < t->k; at += PIECE_ELEMS) {
        size_t n = t->k - at < PIECE_ELEMS ? (size_t)(t->k - at) : PIECE_ELEMS;
        uint64_t out_bytes = n / to->block_elems * to->block_bytes;
        from->dequantise(in + at / from->block_elems * from->block_bytes, piece, n);
        unsigned char *target = out + at / to->block_elems * to->block_bytes;
        to->quantise(piece, target, n);
        if (t->to == DTYPE_F16 || t->to == DTYPE_Q8_0) {
            fine = f16_all_finite(target, out_bytes, to->block_bytes) && fine;
        }
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
        const unsigned char *in = t->in + source * in_bytes;
        unsigned char *out = t->out + row * out_bytes;
        if (t->from == t->to) {
            memcpy(out, in, (size_t)out_bytes);
        } else {
            fine = convert_row(in, out, t) && fine;
        }
    }
    return fine;
}
