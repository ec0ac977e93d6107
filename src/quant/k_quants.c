/* SPDX-License-Identifier: MIT
 * Super-blocks of 256 values whose small blocks have integer scales of their own (k-quants), and the ternary ones.
 * d, dmin: binary16. Bytes of the fields in file order:
 *
 *   Q2_K   scales 16 | quants 64 | d, dmin                   value = d x scale x q - dmin x min, 16 values a scale
 *   Q3_K   high 32 | quants 64 | scales 12 | d               value = d x (scale - 32) x (q - 4), 16 values a scale
 *   Q4_K   d, dmin | scales 12 | quants 128                  value = d x scale x q - dmin x min, 32 values a scale
 *   Q5_K   d, dmin | scales 12 | high 32 | quants 128        the same with a fifth bit
 *   Q6_K   low 128 | high 64 | scales 16 int8 | d            value = d x scale x (q - 32), 16 values a scale
 *   TQ1_0  48 bytes of 5 digits, 4 bytes of 4 | d            value = d x (digit - 1), base 3
 *   TQ2_0  quants 64 | d                                     value = d x (q - 1)
 *
 * All products are exact in binary32 (at most 24 bits), so that a value with a minimum rounds once, in the subtraction,
 * and the others not at all.
 */
#include <string.h>

#include "base/bytes.h"
#include "quant/formats.h"
#include "quant/levels.h"

/* Two-bit quants of Q2_K, Q3_K and TQ2_0: each half of the block has 32 bytes; bits 2s and 2s + 1 of byte i are value
 * 32 s + i of the half. */
static int two_bits(const unsigned char *quants, int half, int s, int i)
{
    return quants[32 * half + i] >> 2 * s & 3;
}

static void q2_k_block(const unsigned char *p, float *out)
{
    float d = f32_from_f16(load_u16(p + 80));
    float dmin = f32_from_f16(load_u16(p + 82));
    for (int group = 0; group < 16; group++) {
        float scale = d * (float)(p[group] & 15);
        float min = dmin * (float)(p[group] >> 4);
        for (int i = 0; i < 16; i++) {
            int q = two_bits(p + 16, group / 8, group / 2 % 4, group % 2 * 16 + i);
            out[group * 16 + i] = scale * (float)q - min;
        }
    }
}

/* Sixteen scales of 6 bits: the low four are nibbles (0-7 low, 8-15 high), the high two lie in the last four bytes. */
static int q3_k_scale(const unsigned char *packed, int group)
{
    int low = group < 8 ? packed[group] & 15 : packed[group - 8] >> 4;
    return (low | (packed[8 + group % 4] >> group / 4 * 2 & 3) << 4) - 32;
}

static void q3_k_block(const unsigned char *p, float *out)
{
    float d = f32_from_f16(load_u16(p + 108));
    for (int group = 0; group < 16; group++) {
        float scale = d * (float)q3_k_scale(p + 96, group);
        for (int i = 0; i < 16; i++) {
            int byte = group % 2 * 16 + i;
            int q = two_bits(p + 32, group / 8, group / 2 % 4, byte);
            int high = p[byte] >> group / 2 & 1;
            out[group * 16 + i] = scale * (float)(q + 4 * high - 4);
        }
    }
}

/* A value of a group is step x quant - base. */
struct group_line {
    float step, base;
};

/* Of group 0..7: d, dmin and the packed pairs stand at the start of a Q4_K or Q5_K block. */
static struct group_line group_line(const unsigned char *p, int group)
{
    int scale;
    int min;
    k_scale_min(p + 4, group, &scale, &min);
    return (struct group_line){f32_from_f16(load_u16(p)) * (float)scale, f32_from_f16(load_u16(p + 2)) * (float)min};
}

static void q4_k_block(const unsigned char *p, float *out)
{
    for (int group = 0; group < 8; group++) {
        const struct group_line line = group_line(p, group);
        const unsigned char *quants = p + 16 + (size_t)(group / 2) * 32;
        int shift = group % 2 * 4;
        for (int i = 0; i < 32; i++) {
            out[group * 32 + i] = line.step * (float)(quants[i] >> shift & 15) - line.base;
        }
    }
}

static void q5_k_block(const unsigned char *p, float *out)
{
    for (int group = 0; group < 8; group++) {
        const struct group_line line = group_line(p, group);
        const unsigned char *quants = p + 48 + (size_t)(group / 2) * 32;
        int shift = group % 2 * 4;
        for (int i = 0; i < 32; i++) {
            int q = (quants[i] >> shift & 15) | (p[16 + i] >> group & 1) << 4;
            out[group * 32 + i] = line.step * (float)q - line.base;
        }
    }
}

static void q6_k_block(const unsigned char *p, float *out)
{
    float d = f32_from_f16(load_u16(p + 208));
    for (int group = 0; group < 16; group++) {
        int8_t scale;
        memcpy(&scale, p + 192 + group, 1);
        float step = d * (float)scale;
        size_t half = (size_t)group / 8;
        int quarter = group / 2 % 4;
        size_t odd = (size_t)group % 2 * 16;
        const unsigned char *low = p + 64 * half + 32 * ((size_t)quarter % 2) + odd;
        const unsigned char *high = p + 128 + 32 * half + odd;
        for (int i = 0; i < 16; i++) {
            int q = (low[i] >> quarter / 2 * 4 & 15) | (high[i] >> 2 * quarter & 3) << 4;
            out[group * 16 + i] = step * (float)(q - 32);
        }
    }
}

/* The byte is a fraction of 256 in base 3; its digit after the point, after multiplying by 3^place. */
static int ternary_digit(unsigned char byte, int place)
{
    static const unsigned char power[5] = {1, 3, 9, 27, 81};
    unsigned rest = (unsigned)byte * power[place] & 255u;
    return (int)(rest * 3 >> 8);
}

static void tq1_0_block(const unsigned char *p, float *out)
{
    float d = f32_from_f16(load_u16(p + 52));
    for (int i = 0; i < SUPER; i++) {
        int digit = i < 160   ? ternary_digit(p[i % 32], i / 32)
                    : i < 240 ? ternary_digit(p[32 + (i - 160) % 16], (i - 160) / 16)
                              : ternary_digit(p[48 + (i - 240) % 4], (i - 240) / 4);
        out[i] = d * (float)(digit - 1);
    }
}

static void tq2_0_block(const unsigned char *p, float *out)
{
    float d = f32_from_f16(load_u16(p + 64));
    for (int i = 0; i < SUPER; i++) {
        out[i] = d * (float)(two_bits(p, i / 128, i / 32 % 4, i % 32) - 1);
    }
}

SUPER_DEQUANTISE(q2_k, 84)
SUPER_DEQUANTISE(q3_k, 110)
SUPER_DEQUANTISE(q4_k, 144)
SUPER_DEQUANTISE(q5_k, 176)
SUPER_DEQUANTISE(q6_k, 210)
SUPER_DEQUANTISE(tq1_0, 54)
SUPER_DEQUANTISE(tq2_0, 66)
