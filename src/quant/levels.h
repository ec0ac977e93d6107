/* SPDX-License-Identifier: MIT
 * Facts of the block formats that more than one file needs. */
#ifndef QUANT_LEVELS_H
#define QUANT_LEVELS_H

#include <stdint.h>

enum { SUPER = 256 }; /* values of a super-block */

/* name_dequantise() over super-blocks, given name_block(block, out). */
#define SUPER_DEQUANTISE(name, bytes)                                \
    void name##_dequantise(const void *blocks, float *out, size_t n) \
    {                                                                \
        const unsigned char *p = blocks;                             \
        for (size_t at = 0; at < n; at += SUPER, p += (bytes)) {     \
            name##_block(p, out + at);                               \
        }                                                            \
    }

/* The 16 levels of IQ4_NL and IQ4_XS. */
extern const int8_t iq4_levels[16];

/* Scale and minimum number j of the eight pairs of Q4_K and Q5_K, 6 bits each in 12 bytes: bytes 0-3 and 4-7 hold
 * numbers 0-3 of scales and minima in their low six bits; numbers 4-7 have their low four bits in the nibbles of bytes
 * 8-11 and their high two bits on top of bytes 0-3 and 4-7. */
static inline void k_scale_min(const unsigned char *packed, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = packed[j] & 63;
        *min = packed[j + 4] & 63;
    } else {
        *scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
        *min = packed[j + 4] >> 4 | (packed[j] >> 6) << 4;
    }
}

#endif
