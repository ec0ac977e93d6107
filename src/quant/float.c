/* SPDX-License-Identifier: MIT
 * The three stored float formats. To float32 they are exact; from float32 they round to nearest, ties to even. */
#include <string.h>

#include "base/bytes.h"
#include "quant/formats.h"

void f32_dequantise(const void *blocks, float *out, size_t n)
{
    if (n != 0) {
        memcpy(out, blocks, n * sizeof *out);
    }
}

void f32_quantise(const float *in, void *blocks, size_t n)
{
    if (n != 0) {
        memcpy(blocks, in, n * sizeof *in);
    }
}

void f16_dequantise(const void *blocks, float *out, size_t n)
{
    const unsigned char *p = blocks;
    for (size_t i = 0; i < n; i++) {
        out[i] = f32_from_f16(load_u16(p + 2 * i));
    }
}

void f16_quantise(const float *in, void *blocks, size_t n)
{
    unsigned char *p = blocks;
    for (size_t i = 0; i < n; i++) {
        uint16_t half = f16_from_f32(in[i]);
        memcpy(p + 2 * i, &half, sizeof half);
    }
}

void bf16_dequantise(const void *blocks, float *out, size_t n)
{
    const unsigned char *p = blocks;
    for (size_t i = 0; i < n; i++) {
        out[i] = f32_from_bf16(load_u16(p + 2 * i));
    }
}

void bf16_quantise(const float *in, void *blocks, size_t n)
{
    unsigned char *p = blocks;
    for (size_t i = 0; i < n; i++) {
        uint16_t half = bf16_from_f32(in[i]);
        memcpy(p + 2 * i, &half, sizeof half);
    }
}
