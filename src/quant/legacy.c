/* SPDX-License-Identifier: MIT
 * Blocks of 32 values with one scale, 4 or 5 bits a value, and the small ones of 1 and 2 bits. Byte i of the quants
 * holds value i in its low and value i + 16 in its high nibble; d, m: binary16.
 *
 *   Q4_0    d | 16 bytes            value = d x (q - 8)
 *   Q4_1    d, m | 16 bytes         value = d x q + m
 *   Q5_0    d | 4 | 16 bytes        value = d x (q - 16), bit i of the 32-bit word is the fifth bit of value i
 *   Q5_1    d, m | 4 | 16 bytes     value = d x q + m
 *   IQ4_NL  d | 16 bytes            value = d x level[q]
 *   MXFP4   e | 16 bytes            value = 2^(e - 128) x twice the E2M1 number
 *   Q1_0    d | 16 bytes            128 values: d or -d; bit 1 is d
 *   Q2_0    d | 16 bytes            64 values, 2 bits each: d x (q - 1)
 *
 * Every product here is exact in binary32, so only the additions of Q4_1 and Q5_1 round.
 */
#include "base/bytes.h"
#include "quant/formats.h"
#include "quant/levels.h"

enum { ELEMS = 32, HALF = 16 };

const int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void q4_0_dequantise(const void *blocks, float *out, size_t n)
{
    const unsigned char *p = blocks;
    for (size_t at = 0; at < n; at += ELEMS, p += 18) {
        float d = f32_from_f16(load_u16(p));
        for (int i = 0; i < HALF; i++) {
            unsigned char byte = p[2 + i];
            out[at + (size_t)i] = d * (float)((byte & 15) - 8);
            out[at + (size_t)i + HALF] = d * (float)((byte >> 4) - 8);
        }
    }
}

void q4_1_dequantise(const void *blocks, float *out, size_t n)
{
    const unsigned char *p = blocks;
    for (size_t at = 0; at < n; at += ELEMS, p += 20) {
        float d = f32_from_f16(load_u16(p));
        float m = f32_from_f16(load_u16(p + 2));
        for (int i = 0; i < HALF; i++) {
            unsigned char byte = p[4 + i];
            out[at + (size_t)i] = d * (float)(byte & 15) + m;
            out[at + (size_t)i + HALF] = d * (float)(byte >> 4) + m;
        }
    }
}

/* Value i of the 5-bit block whose high bits are `high`. */
static int five_bits(uint32_t high, const unsigned char *quants, int i)
{
    int low = i < HALF ? quants[i] & 15 : quants[i - HALF] >> 4;
    return low | (int)(high >> i & 1u) << 4;
}

void q5_0_dequantise(const void *blocks, float *out, size_t n)
{
    const unsigned char *p = blocks;
    for (size_t at = 0; at < n; at += ELEMS, p += 22) {
        float d = f32_from_f16(load_u16(p));
        uint32_t high = load_u32(p + 2);
        for (int i = 0; i < ELEMS; i++) {
            out[at + (size_t)i] = d * (float)(five_bits(high, p + 6, i) - 16);
        }
    }
}

void q5_1_dequantise(const void *blocks, float *out, size_t n)
{
    const unsigned char *p = blocks;
    for (size_t at = 0; at < n; at += ELEMS, p += 24) {
        float d = f32_from_f16(load_u16(p));
        float m = f32_from_f16(load_u16(p + 2));
        uint32_t high = load_u32(p + 4);
        for (int i = 0; i < ELEMS; i++) {
            out[at + (size_t)i] = d * (float)five_bits(high, p + 8, i) + m;
        }
    }
}

static void levels_of(const int8_t levels[16], float d, const unsigned char *quants, float *out)
{
    for (int i = 0; i < HALF; i++) {
        out[i] = d * (float)levels[quants[i] & 15];
        out[i + HALF] = d * (float)levels[quants[i] >> 4];
    }
}

void iq4_nl_dequantise(const void *blocks, float *out, size_t n)
{
    const unsigned char *p = blocks;
    for (size_t at = 0; at < n; at += ELEMS, p += 18) {
        levels_of(iq4_levels, f32_from_f16(load_u16(p)), p + 2, out + at);
    }
}

void mxfp4_dequantise(const void *blocks, float *out, size_t n)
{
    const unsigned char *p = blocks;
    for (size_t at = 0; at < n; at += ELEMS, p += 17) {
        /* 2^(e - 128): the two smallest are subnormal. The exponent 255 is a number here, as in ggml. */
        uint32_t bits = p[0] < 2 ? (uint32_t)0x00200000 << p[0] : (uint32_t)(p[0] - 1) << 23;
        levels_of(e2m1_doubled, f32_from_bits(bits), p + 1, out + at);
    }
}

void q1_0_dequantise(const void *blocks, float *out, size_t n)
{
    const unsigned char *p = blocks;
    for (size_t at = 0; at < n; at += 128, p += 18) {
        float d = f32_from_f16(load_u16(p));
        for (size_t i = 0; i < 128; i++) {
            out[at + i] = p[2 + i / 8] >> i % 8 & 1 ? d : -d;
        }
    }
}

void q2_0_dequantise(const void *blocks, float *out, size_t n)
{
    const unsigned char *p = blocks;
    for (size_t at = 0; at < n; at += 64, p += 18) {
        float d = f32_from_f16(load_u16(p));
        for (size_t i = 0; i < 64; i++) {
            out[at + i] = d * (float)((p[2 + i / 4] >> i % 4 * 2 & 3) - 1);
        }
    }
}
