/* SPDX-License-Identifier: MIT
 * Little-endian loads from unaligned bytes, and the two 16-bit float formats. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Berth reads little-endian files in place; big-endian hosts are not supported"
#endif

static inline uint16_t load_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t load_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline float load_f32(const void *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline float f32_from_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline uint32_t f32_to_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* bfloat16 is the upper half of a float32. */
static inline float f32_from_bf16(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

/* Round to nearest, ties to even; NaN stays NaN (quiet). */
static inline uint16_t bf16_from_f32(float v)
{
    uint32_t bits = f32_to_bits(v);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16) | 0x0040u);
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* IEEE 754 binary16 to binary32: exact, subnormals included; NaN payloads keep their upper bits and become quiet. */
static inline float f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t fraction = h & 0x3ffu;
    if (exponent == 0x1fu) {
        return f32_from_bits(sign | 0x7f800000u | (fraction << 13) | (fraction != 0 ? 0x00400000u : 0u));
    }
    if (exponent != 0) {
        return f32_from_bits(sign | ((exponent + 112u) << 23) | (fraction << 13));
    }
    float magnitude = (float)fraction * 0x1p-24f; /* exact: 10 bits times a power of two */
    return f32_from_bits(sign | f32_to_bits(magnitude));
}

/* Round to nearest, ties to even, as F16C's VCVTPS2PH does; overflow becomes infinity. */
static inline uint16_t f16_from_f32(float v)
{
    uint32_t bits = f32_to_bits(v);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    }
    if (magnitude >= 0x47800000u) { /* 65536 and up, infinity */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude >= 0x38800000u) { /* normal in binary16 */
        uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
        return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
    }
    if (magnitude <= 0x33000000u) { /* up to and including half of the smallest subnormal */
        return (uint16_t)sign;
    }
    uint32_t shift = 126u - (magnitude >> 23); /* 14..24 */
    uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t half = 1u << (shift - 1);
    uint32_t kept = mantissa >> shift;
    uint32_t rest = mantissa & ((1u << shift) - 1u);
    kept += rest > half || (rest == half && (kept & 1u)) ? 1u : 0u;
    return (uint16_t)(sign | kept);
}

#endif
