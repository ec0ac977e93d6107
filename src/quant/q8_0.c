/* SPDX-License-Identifier: MIT
 * Q8_0: blocks of 32 values, value = d x q.
 *
 *   byte 0      2                              34
 *        | d f16 | q[0] ... q[31] int8          |
 *
 * Writing follows the format's convention: d = max|x| / 127 in float32, q = x times the reciprocal of that d, rounded
 * half away from zero; only then is d rounded to binary16. A block with a NaN or an infinity gets d = NaN, so that the
 * damage stays visible instead of becoming a plausible number.
 */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "quant/formats.h"

enum { Q8_0_ELEMS = 32, Q8_0_BYTES = 34 };

void q8_0_dequantise(const void *blocks, float *out, size_t n)
{
    const unsigned char *p = blocks;
    for (size_t at = 0; at < n; at += Q8_0_ELEMS, p += Q8_0_BYTES) {
        float d = f32_from_f16(load_u16(p));
        for (size_t i = 0; i < Q8_0_ELEMS; i++) {
            int8_t q;
            memcpy(&q, p + 2 + i, 1);
            out[at + i] = d * (float)q; /* 11 x 8 bits: exact */
        }
    }
}

/* max|x|, or NaN when a value is not finite: the bit patterns of magnitudes order like the magnitudes. */
static float block_max(const float *x)
{
    uint32_t max = 0;
    for (size_t i = 0; i < Q8_0_ELEMS; i++) {
        uint32_t magnitude = f32_to_bits(x[i]) & 0x7fffffffu;
        max = magnitude > max ? magnitude : max;
    }
    return f32_from_bits(max >= 0x7f800000u ? 0x7fc00000u : max);
}

void q8_0_quantise(const float *in, void *blocks, size_t n)
{
    unsigned char *p = blocks;
    for (size_t at = 0; at < n; at += Q8_0_ELEMS, p += Q8_0_BYTES) {
        float d = block_max(in + at) / 127.0f;
        uint16_t half = f16_from_f32(d);
        memcpy(p, &half, sizeof half);
        /* Below 2^-126 the reciprocal overflows; such a d is zero in binary16 anyway. */
        float inverse = d >= 0x1p-126f ? 1.0f / d : 0.0f;
        for (size_t i = 0; i < Q8_0_ELEMS; i++) {
            int8_t q = inverse > 0 ? (int8_t)roundf(in[at + i] * inverse) : 0;
            memcpy(p + 2 + i, &q, 1);
        }
    }
}
