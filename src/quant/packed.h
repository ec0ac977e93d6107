/* SPDX-License-Identifier: MIT
 *
 * Formats whose scales lie beside the quants, in tensors of their own: what safetensors releases hold.
 *
 *   MLX affine   w: bits of a little-endian stream, value i of a row in bits [i b, (i + 1) b)
 *                value = scale[row][i / group] x q + bias[row][i / group]      (ml-explore/mlx, mx.quantize)
 *   tiled FP8    w: E4M3 numbers      value = w x scale[row / tile_rows][i / group]    (DeepSeek-V3, weight_scale_inv)
 *   MXFP4 rows   w: E2M1 numbers, value 2i in the low half of byte i, 2i + 1 in the high half; scale: E8M0 exponents
 *                value = w x 2^(scale[row][i / 32] - 127)                      (OCP MX 1.0; gpt-oss _blocks, _scales)
 *
 * Every product is exact in binary32 but for scales stored as F32, so a value rounds once in each operation written.
 */
#ifndef QUANT_PACKED_H
#define QUANT_PACKED_H

#include "base/bytes.h"
#include "quant/quant.h"

enum packed_kind { PACKED_NONE = 0, PACKED_AFFINE, PACKED_TILES, PACKED_MXFP4 };

/* What lies beside a tensor. */
struct packed {
    enum packed_kind kind;
    enum dtype scale_type; /* of scales and biases: F32, F16, BF16; MXFP4: U8 */
    uint32_t group;        /* values of a row that share a scale: a multiple of 16 */
    uint32_t tile_rows;    /* rows that share scales: 1 but for PACKED_TILES */
};
enum { PACKED_GROUP_STEP = 16, PACKED_GROUP_MAX = 1024 };

/* Scales and biases of the rows of a matrix. */
struct packed_side {
    struct packed format; /* kind PACKED_NONE: the matrix has none, and the rest does not count */
    const void *scales;   /* [ceil(rows / tile_rows)][ceil(k / group)], any alignment */
    const void *biases;   /* the same; PACKED_AFFINE only */
    uint64_t row_bytes;   /* of one row of scales */
};

/* Scales a row needs: ceil(k / group). */
uint64_t packed_groups(const struct packed *format, uint64_t k);

/* Scale or bias number `at` of a row of them; of exponents there is packed_half(). */
static inline float packed_scale(enum dtype type, const unsigned char *row, uint64_t at)
{
    if (type == DTYPE_BF16) {
        return f32_from_bf16(load_u16(row + 2 * at));
    }
    return type == DTYPE_F16 ? f32_from_f16(load_u16(row + 2 * at)) : load_f32(row + 4 * at);
}

/* 2^(exponent - 128), half of an E8M0 scale: the two smallest are subnormal, 255 is NaN. */
static inline float packed_half(unsigned exponent)
{
    uint32_t bits = exponent < 2 ? (uint32_t)0x00200000 << exponent : (uint32_t)(exponent - 1) << 23;
    return f32_from_bits(exponent == 255 ? 0x7fc00000u : bits);
}

/* Values [first, first + n) of row `row` to float32. w: the row's quants; first and n are multiples of 16. */
void packed_dequantise(enum dtype type, const struct packed_side *side, const void *w, uint64_t row, uint64_t first,
                       size_t n, float *out);

#endif
