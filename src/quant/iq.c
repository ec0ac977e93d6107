/* SPDX-License-Identifier: MIT
 * Super-blocks of 256 values coded as indices into fixed grids of small vectors (the IQ formats), in 8 groups of 32
 * values; a group is 4 vectors of 8 values (of 2 x 4 for the IQ3 ones). Magnitudes come from a grid, signs from a byte:
 * stored whole (_S), or as 7 bits whose parity is the eighth. d: binary16.
 *
 *   IQ2_XXS  d | 8 x { 4 indices, 32 bits: 4 x 7 sign bits, 4-bit scale }       value = d x (scale + 1/2) / 4 x grid
 *   IQ2_XS   d | 32 x { 9-bit index, 7 sign bits } | scales 8                   the same, a scale for 16 values
 *   IQ2_S    d | low 32 | signs 32 | high 8 | scales 8                          the same
 *   IQ3_XXS  d | indices 64 | 8 x 32 bits as in IQ2_XXS                         value = d x (scale + 1/2) / 2 x grid
 *   IQ3_S    d | low 64 | high 8 | signs 32 | scales 4                          value = d x (2 scale + 1) x grid
 *   IQ1_S    d | low 32 | 8 x { 4 x 3 bits, 3-bit scale, side }                 value = d x (2 scale + 1) x (grid +
 * side) IQ1_M    low 32 | high 16 | scales 8, d in their top nibbles                the same, a side for 8 values
 *   IQ4_XS   d | high 2 | low 4 | quants 128                                    value = d x (scale - 32) x level
 *
 * (side: 1/8 or -1/8.) All products are exact in binary32.
 */
#include <stdbool.h>

#include "base/bytes.h"
#include "quant/formats.h"
#include "quant/grids.h"
#include "quant/grids.inc"
#include "quant/levels.h"

#define SIGNS_2(n, parity) (n) | (parity) << 7, ((n) + 1) | !(parity) << 7
#define SIGNS_8(n, parity) \
    SIGNS_2(n, parity), SIGNS_2((n) + 2, !(parity)), SIGNS_2((n) + 4, !(parity)), SIGNS_2((n) + 6, parity)
#define SIGNS_32(n, parity) \
    SIGNS_8(n, parity), SIGNS_8((n) + 8, !(parity)), SIGNS_8((n) + 16, !(parity)), SIGNS_8((n) + 24, parity)
const uint8_t even_signs[128] = {SIGNS_32(0, 0), SIGNS_32(32, 1), SIGNS_32(64, 1), SIGNS_32(96, 0)};

/* Eight values of three magnitudes. */
static void vector_2(float scale, unsigned entry, unsigned signs, float *out)
{
    static const float magnitude[4] = {8, 25, 43, 0};
    for (unsigned j = 0; j < 8; j++) {
        float m = magnitude[entry >> 2 * j & 3u];
        out[j] = scale * (signs >> j & 1u ? -m : m);
    }
}

/* Four values of eight magnitudes. */
static void vector_3(const float magnitude[8], float scale, unsigned entry, unsigned signs, float *out)
{
    for (unsigned j = 0; j < 4; j++) {
        float m = magnitude[entry >> 3 * j & 7u];
        out[j] = scale * (signs >> j & 1u ? -m : m);
    }
}

static void vector_1(float scale, unsigned entry, bool minus, float *out)
{
    for (unsigned j = 0; j < 8; j++) {
        float value = (float)(entry >> 2 * j & 3u) - 1.0f;
        out[j] = scale * (value + (minus ? -0.125f : 0.125f));
    }
}

/* d x (scale + 1/2) x unit */
static float half_step(float d, unsigned scale, float unit)
{
    return d * (0.5f + (float)scale) * unit;
}

static void iq2_xxs_block(const unsigned char *p, float *out)
{
    float d = f32_from_f16(load_u16(p));
    for (size_t group = 0; group < 8; group++) {
        const unsigned char *index = p + 2 + 8 * group;
        uint32_t word = load_u32(index + 4);
        float scale = half_step(d, word >> 28, 0.25f);
        for (size_t v = 0; v < 4; v++) {
            vector_2(scale, grid_iq2_xxs[index[v]], even_signs[word >> 7 * v & 127], out + 32 * group + 8 * v);
        }
    }
}

static void iq2_xs_block(const unsigned char *p, float *out)
{
    float d = f32_from_f16(load_u16(p));
    for (size_t v = 0; v < 32; v++) {
        unsigned word = load_u16(p + 2 + 2 * v);
        float scale = half_step(d, (unsigned)p[66 + v / 4] >> v / 2 % 2 * 4 & 15u, 0.25f);
        vector_2(scale, grid_iq2_xs[word & 511u], even_signs[word >> 9 & 127], out + 8 * v);
    }
}

static void iq2_s_block(const unsigned char *p, float *out)
{
    float d = f32_from_f16(load_u16(p));
    for (size_t v = 0; v < 32; v++) {
        unsigned index = p[2 + v] | ((unsigned)p[66 + v / 4] >> v % 4 * 2 & 3u) << 8;
        float scale = half_step(d, (unsigned)p[74 + v / 4] >> v / 2 % 2 * 4 & 15u, 0.25f);
        vector_2(scale, grid_iq2_s[index], p[34 + v], out + 8 * v);
    }
}

static void iq3_xxs_block(const unsigned char *p, float *out)
{
    static const float magnitude[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    float d = f32_from_f16(load_u16(p));
    for (size_t v = 0; v < 32; v++) {
        uint32_t word = load_u32(p + 66 + v / 4 * 4);
        float scale = half_step(d, word >> 28, 0.5f);
        unsigned signs = even_signs[word >> v % 4 * 7 & 127];
        vector_3(magnitude, scale, grid_iq3_xxs[p[2 + 2 * v]], signs, out + 8 * v);
        vector_3(magnitude, scale, grid_iq3_xxs[p[3 + 2 * v]], signs >> 4, out + 8 * v + 4);
    }
}

static void iq3_s_block(const unsigned char *p, float *out)
{
    static const float magnitude[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    float d = f32_from_f16(load_u16(p));
    for (size_t v = 0; v < 32; v++) {
        unsigned high = (unsigned)p[66 + v / 4] >> v % 4 * 2;
        unsigned first = p[2 + 2 * v] | (high & 1u) << 8;
        unsigned second = p[3 + 2 * v] | (high >> 1 & 1u) << 8;
        unsigned signs = p[74 + v];
        float scale = d * (float)(1 + 2 * (p[106 + v / 8] >> v / 4 % 2 * 4 & 15));
        vector_3(magnitude, scale, grid_iq3_s[first], signs, out + 8 * v);
        vector_3(magnitude, scale, grid_iq3_s[second], signs >> 4, out + 8 * v + 4);
    }
}

static void iq1_s_block(const unsigned char *p, float *out)
{
    float d = f32_from_f16(load_u16(p));
    for (size_t v = 0; v < 32; v++) {
        unsigned word = load_u16(p + 34 + v / 4 * 2);
        unsigned index = p[2 + v] | (word >> v % 4 * 3 & 7u) << 8;
        float scale = d * (float)(1 + 2 * (word >> 12 & 7u));
        vector_1(scale, grid_iq1[index], (word & 0x8000u) != 0, out + 8 * v);
    }
}

static void iq1_m_block(const unsigned char *p, float *out)
{
    unsigned bits = 0; /* of d: the top nibbles of the four words of scales */
    for (size_t i = 0; i < 4; i++) {
        bits |= (unsigned)(load_u16(p + 48 + 2 * i) >> 12) << 4 * i;
    }
    float d = f32_from_f16((uint16_t)bits);
    for (size_t v = 0; v < 32; v++) {
        unsigned high = (unsigned)p[32 + v / 2] >> v % 2 * 4;
        unsigned index = p[v] | (high & 7u) << 8;
        float scale = d * (float)(1 + 2 * (load_u16(p + 48 + v / 8 * 2) >> v / 2 % 4 * 3 & 7));
        vector_1(scale, grid_iq1[index], (high & 8u) != 0, out + 8 * v);
    }
}

static void iq4_xs_block(const unsigned char *p, float *out)
{
    float d = f32_from_f16(load_u16(p));
    unsigned high = load_u16(p + 2);
    for (size_t group = 0; group < 8; group++) {
        int scale = (p[4 + group / 2] >> group % 2 * 4 & 15) | (int)(high >> 2 * group & 3u) << 4;
        float step = d * (float)(scale - 32);
        const unsigned char *quants = p + 8 + 16 * group;
        for (size_t i = 0; i < 16; i++) {
            out[32 * group + i] = step * (float)iq4_levels[quants[i] & 15];
            out[32 * group + i + 16] = step * (float)iq4_levels[quants[i] >> 4];
        }
    }
}

SUPER_DEQUANTISE(iq2_xxs, 66)
SUPER_DEQUANTISE(iq2_xs, 74)
SUPER_DEQUANTISE(iq2_s, 82)
SUPER_DEQUANTISE(iq3_xxs, 98)
SUPER_DEQUANTISE(iq3_s, 110)
SUPER_DEQUANTISE(iq1_s, 50)
SUPER_DEQUANTISE(iq1_m, 56)
SUPER_DEQUANTISE(iq4_xs, 136)
