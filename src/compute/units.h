/* SPDX-License-Identifier: MIT
 * Block formats whose products are integer dots (docs/arithmetic.md, section 3): what each is made of.
 *
 * A *unit* is what one activation scale covers: a block of 32 values or a super-block of 256. Its quants are read as
 * unsigned bytes in order, value = d x scale x (quant - bias) - m x min, where scale and min are small integers for
 * each `sub` values (scale is 1 where a format has none). A row of the kernel table brings the loops; a format brings
 * one line here and, where a row can unpack it faster than this plain C, that row's own `quants`.
 */
#ifndef COMPUTE_UNITS_H
#define COMPUTE_UNITS_H

#include "base/bytes.h"
#include "compute/rows.h"
#include "compute/unroll.h"
#include "quant/levels.h"

enum { UNIT_SMALL = 32, UNIT_SUPER = 256, UNIT_SUBS_MAX = 16 };

/* Bytes in order of the sub-blocks: 8 or 16 of each. */
struct unit_scales {
    uint64_t scale[2], min[2];
};

typedef void unit_quants_fn(const unsigned char *block, uint8_t *out);
typedef void unit_scales_fn(const unsigned char *block, struct unit_scales *out);

struct unit_format {
    uint16_t values; /* of a unit: 32 or 256 */
    uint16_t bytes;
    uint8_t sub;   /* values a scale: 32 or 16 */
    uint8_t bias;  /* a power of two, or 0 */
    bool mins;     /* has minima; then bias is 0 */
    bool exponent; /* d is one byte, 2^(e - 128); else binary16 */
    uint8_t d_at, m_at;
    unit_quants_fn *quants;
    unit_scales_fn *scales; /* NULL: scale 1, min -1 (the small blocks) */
};

/* ---- quants ---- */

/* Low nibbles of n bytes, then their high ones. */
INLINE void unit_nibbles(const unsigned char *p, int n, uint8_t *out)
{
    for (int i = 0; i < n; i++) {
        out[i] = p[i] & 15;
        out[n + i] = p[i] >> 4;
    }
}

INLINE void unit_quants_q8_0(const unsigned char *p, uint8_t *out)
{
    for (int i = 0; i < UNIT_SMALL; i++) {
        out[i] = p[2 + i] ^ 0x80;
    }
}

INLINE void unit_quants_q4_0(const unsigned char *p, uint8_t *out)
{
    unit_nibbles(p + 2, 16, out);
}

INLINE void unit_quants_q4_1(const unsigned char *p, uint8_t *out)
{
    unit_nibbles(p + 4, 16, out);
}

INLINE void unit_fifth_bits(uint32_t bits, uint8_t *out)
{
    for (int i = 0; i < UNIT_SMALL; i++) {
        out[i] = (uint8_t)(out[i] | (bits >> i & 1u) << 4);
    }
}

INLINE void unit_quants_q5_0(const unsigned char *p, uint8_t *out)
{
    unit_nibbles(p + 6, 16, out);
    unit_fifth_bits(load_u32(p + 2), out);
}

INLINE void unit_quants_q5_1(const unsigned char *p, uint8_t *out)
{
    unit_nibbles(p + 8, 16, out);
    unit_fifth_bits(load_u32(p + 4), out);
}

/* Levels of IQ4_NL and IQ4_XS + 128; of MXFP4 + 16. */
static const uint8_t unit_levels_iq4[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t unit_levels_mxfp4[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

INLINE void unit_levels(const uint8_t levels[16], const unsigned char *p, uint8_t *out)
{
    for (int i = 0; i < 16; i++) {
        out[i] = levels[p[i] & 15];
        out[16 + i] = levels[p[i] >> 4];
    }
}

INLINE void unit_quants_iq4_nl(const unsigned char *p, uint8_t *out)
{
    unit_levels(unit_levels_iq4, p + 2, out);
}

INLINE void unit_quants_mxfp4(const unsigned char *p, uint8_t *out)
{
    unit_levels(unit_levels_mxfp4, p + 1, out);
}

INLINE void unit_quants_iq4_xs(const unsigned char *p, uint8_t *out)
{
    for (int group = 0; group < 8; group++) {
        unit_levels(unit_levels_iq4, p + 8 + 16 * group, out + 32 * group);
    }
}

INLINE void unit_quants_q4_k(const unsigned char *p, uint8_t *out)
{
    for (int n = 0; n < 4; n++) {
        unit_nibbles(p + 16 + 32 * n, 32, out + 64 * n);
    }
}

/* Bit `sub` of each of 32 bytes, worth `value`, joins sub-block `sub`. */
INLINE void unit_high_bits(const unsigned char *p, uint8_t value, uint8_t *out)
{
    for (int sub = 0; sub < 8; sub++) {
        for (int i = 0; i < 32; i++) {
            out[32 * sub + i] |= p[i] >> sub & 1 ? value : 0;
        }
    }
}

INLINE void unit_quants_q5_k(const unsigned char *p, uint8_t *out)
{
    for (int n = 0; n < 4; n++) {
        unit_nibbles(p + 48 + 32 * n, 32, out + 64 * n);
    }
    unit_high_bits(p + 16, 16, out);
}

INLINE void unit_two_bits(const unsigned char *p, uint8_t *out)
{
    for (int sub = 0; sub < 8; sub++) {
        for (int i = 0; i < 32; i++) {
            out[32 * sub + i] = p[sub / 4 * 32 + i] >> 2 * (sub % 4) & 3;
        }
    }
}

INLINE void unit_quants_q2_k(const unsigned char *p, uint8_t *out)
{
    unit_two_bits(p + 16, out);
}

INLINE void unit_quants_q3_k(const unsigned char *p, uint8_t *out)
{
    unit_two_bits(p + 32, out);
    unit_high_bits(p, 4, out);
}

INLINE void unit_quants_q6_k(const unsigned char *p, uint8_t *out)
{
    unit_two_bits(p + 128, out);
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 64; i++) {
            uint8_t *low = out + 128 * half + i;
            low[0] = (uint8_t)(low[0] << 4 | (p[64 * half + i] & 15));
            low[64] = (uint8_t)(low[64] << 4 | p[64 * half + i] >> 4);
        }
    }
}

/* ---- integer scales ---- */

/* Eight pairs of 6 bits in 12 bytes (quant/levels.h): four at a time. */
INLINE void unit_scales_pairs(const unsigned char *p, struct unit_scales *out)
{
    const uint32_t low6 = 0x3f3f3f3fu;
    const uint32_t low4 = 0x0f0f0f0fu;
    const uint32_t high2 = 0x30303030u;
    uint32_t a = load_u32(p);
    uint32_t b = load_u32(p + 4);
    uint32_t c = load_u32(p + 8);
    out->scale[0] = (a & low6) | (uint64_t)((c & low4) | (a >> 2 & high2)) << 32;
    out->min[0] = (b & low6) | (uint64_t)((c >> 4 & low4) | (b >> 2 & high2)) << 32;
    out->scale[1] = out->min[1] = 0;
}

INLINE void unit_scales_q4_k(const unsigned char *p, struct unit_scales *out)
{
    unit_scales_pairs(p + 4, out);
}

INLINE void unit_scales_q5_k(const unsigned char *p, struct unit_scales *out)
{
    unit_scales_pairs(p + 4, out);
}

INLINE void unit_scales_q6_k(const unsigned char *p, struct unit_scales *out)
{
    *out = (struct unit_scales){{load_u64(p + 192), load_u64(p + 200)}, {0}};
}

INLINE void unit_scales_q2_k(const unsigned char *p, struct unit_scales *out)
{
    const uint64_t low4 = 0x0f0f0f0f0f0f0f0fu;
    for (int i = 0; i < 2; i++) {
        uint64_t both = load_u64(p + 8 * i);
        out->scale[i] = both & low4;
        out->min[i] = both >> 4 & low4;
    }
}

/* Eight bytes of 0..63, each less 32: no borrow passes a byte whose top bit is set first. */
INLINE uint64_t unit_less_32(uint64_t bytes)
{
    return ((bytes | 0x8080808080808080u) - 0x2020202020202020u) ^ 0x8080808080808080u;
}

/* Sixteen of 6 bits: the low four are nibbles (0-7 low, 8-15 high), the high two lie in the last four bytes. */
INLINE void unit_scales_q3_k(const unsigned char *p, struct unit_scales *out)
{
    const uint64_t low4 = 0x0f0f0f0f0f0f0f0fu;
    const uint32_t low2 = 0x03030303u;
    uint64_t low = load_u64(p + 96);
    uint32_t high = load_u32(p + 104);
    for (int i = 0; i < 2; i++) {
        uint64_t top = (uint64_t)(high >> 4 * i & low2) | (uint64_t)(high >> (4 * i + 2) & low2) << 32;
        out->scale[i] = unit_less_32((low >> 4 * i & low4) | top << 4);
        out->min[i] = 0;
    }
}

INLINE void unit_scales_iq4_xs(const unsigned char *p, struct unit_scales *out)
{
    uint32_t low = load_u32(p + 4);
    uint32_t high = load_u16(p + 2);
    uint64_t bytes = 0;
    for (int group = 0; group < 8; group++) {
        uint64_t scale = (low >> 4 * group & 15u) | (high >> 2 * group & 3u) << 4;
        bytes |= scale << 8 * group;
    }
    *out = (struct unit_scales){{unit_less_32(bytes), 0}, {0}};
}

/* ---- the table ---- */

#define UNIT_OF(name, sub_values, at) .sub = (sub_values), .d_at = (at), .quants = unit_quants_##name
#define SMALL_UNIT(name, size, at) .values = UNIT_SMALL, .bytes = (size), UNIT_OF(name, UNIT_SMALL, at)
#define SUPER_UNIT(name, size, sub_values, at) \
    .values = UNIT_SUPER, .bytes = (size), .scales = unit_scales_##name, UNIT_OF(name, sub_values, at)

static const struct unit_format unit_q8_0 = {SMALL_UNIT(q8_0, 34, 0), .bias = 128};
static const struct unit_format unit_q4_0 = {SMALL_UNIT(q4_0, 18, 0), .bias = 8};
static const struct unit_format unit_q4_1 = {SMALL_UNIT(q4_1, 20, 0), .mins = true, .m_at = 2};
static const struct unit_format unit_q5_0 = {SMALL_UNIT(q5_0, 22, 0), .bias = 16};
static const struct unit_format unit_q5_1 = {SMALL_UNIT(q5_1, 24, 0), .mins = true, .m_at = 2};
static const struct unit_format unit_iq4_nl = {SMALL_UNIT(iq4_nl, 18, 0), .bias = 128};
static const struct unit_format unit_mxfp4 = {SMALL_UNIT(mxfp4, 17, 0), .bias = 16, .exponent = true};
static const struct unit_format unit_q2_k = {SUPER_UNIT(q2_k, 84, 16, 80), .mins = true, .m_at = 82};
static const struct unit_format unit_q3_k = {SUPER_UNIT(q3_k, 110, 16, 108), .bias = 4};
static const struct unit_format unit_q4_k = {SUPER_UNIT(q4_k, 144, 32, 0), .mins = true, .m_at = 2};
static const struct unit_format unit_q5_k = {SUPER_UNIT(q5_k, 176, 32, 0), .mins = true, .m_at = 2};
static const struct unit_format unit_q6_k = {SUPER_UNIT(q6_k, 210, 16, 208), .bias = 32};
static const struct unit_format unit_iq4_xs = {SUPER_UNIT(iq4_xs, 136, 32, 0), .bias = 128};

/* 2^(e - 128) of a stored exponent; the two smallest are subnormal. */
INLINE float unit_power(unsigned char e)
{
    return f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

#endif
