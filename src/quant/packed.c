/* SPDX-License-Identifier: MIT */
#include "quant/packed.h"

#include <string.h>

uint64_t packed_groups(const struct packed *format, uint64_t k)
{
    return k / format->group + (k % format->group != 0 ? 1 : 0);
}

/* Bits of a quant: a row of 32 values has four bytes for each. */
static uint32_t affine_bits(enum dtype type)
{
    return quant_row(type)->block_bytes / 4u;
}

static void affine_run(const unsigned char *p, uint32_t bits, float scale, float bias, size_t n, float *out)
{
    const uint32_t mask = (1u << bits) - 1;
    for (size_t i = 0; i < n; i += 8, p += bits) { /* eight values are `bits` whole bytes */
        uint64_t word = 0;
        memcpy(&word, p, bits);
        for (uint32_t j = 0; j < 8; j++) {
            out[i + j] = scale * (float)(uint32_t)(word >> j * bits & mask) + bias;
        }
    }
}

/* E4M3 without infinities: the exponent's bias is 7 where that of binary32 is 127; all ones is NaN. */
static float e4m3(unsigned char byte)
{
    uint32_t magnitude = byte & 0x7fu;
    float value = magnitude == 0x7f ? f32_from_bits(0x7fc00000u) : f32_from_bits(magnitude << 20) * 0x1p120f;
    return (byte & 0x80) != 0 ? -value : value;
}

static void tile_run(const unsigned char *p, float scale, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = e4m3(p[i]) * scale;
    }
}

static void mxfp4_run(const unsigned char *p, unsigned exponent, size_t n, float *out)
{
    static const float doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};
    float half = packed_half(exponent);
    for (size_t i = 0; i < n; i += 2) {
        out[i] = doubled[p[i / 2] & 15] * half;
        out[i + 1] = doubled[p[i / 2] >> 4] * half;
    }
}

void packed_dequantise(enum dtype type, const struct packed_side *side, const void *w, uint64_t row, uint64_t first,
                       size_t n, float *out)
{
    const struct packed *format = &side->format;
    const struct quant_row *layout = quant_row(type);
    const uint64_t scale_row = row / format->tile_rows * side->row_bytes;
    const unsigned char *scales = (const unsigned char *)side->scales + scale_row;
    const unsigned char *biases = side->biases == NULL ? NULL : (const unsigned char *)side->biases + scale_row;
    while (n > 0) {
        uint64_t group = first / format->group;
        uint64_t left = (group + 1) * format->group - first;
        size_t run = left < n ? (size_t)left : n;
        const unsigned char *p = (const unsigned char *)w + first * layout->block_bytes / layout->block_elems;
        switch (format->kind) {
        case PACKED_AFFINE:
            affine_run(p, affine_bits(type), packed_scale(format->scale_type, scales, group),
                       biases == NULL ? 0.0f : packed_scale(format->scale_type, biases, group), run, out);
            break;
        case PACKED_TILES:
            tile_run(p, packed_scale(format->scale_type, scales, group), run, out);
            break;
        case PACKED_MXFP4:
            mxfp4_run(p, scales[group], run, out);
            break;
        case PACKED_NONE:
            break;
        }
        first += run;
        out += run;
        n -= run;
    }
}
