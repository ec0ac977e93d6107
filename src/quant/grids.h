/* SPDX-License-Identifier: MIT
 * The vector grids of the IQ formats (iq.c says how blocks use them), packed: what an index stands for is eight values
 * of two bits each, or four of three (iq3). */
#ifndef QUANT_GRIDS_H
#define QUANT_GRIDS_H

#include <stdint.h>

extern const uint16_t grid_iq2_xxs[256], grid_iq2_xs[512], grid_iq2_s[1024], grid_iq3_xxs[256], grid_iq3_s[512],
    grid_iq1[2048];

/* Seven stored sign bits; the number of minus signs is even. */
static inline unsigned even_signs(uint32_t bits)
{
    unsigned low = bits & 127u;
    unsigned parity = low ^ low >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return low | (parity & 1u) << 7;
}

/* d x (scale + 1/2) x unit */
static inline float half_step(float d, unsigned scale, float unit)
{
    return d * (0.5f + (float)scale) * unit;
}

#endif
