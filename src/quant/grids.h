/* SPDX-License-Identifier: MIT
 * The vector grids of the IQ formats (iq.c says how blocks use them), packed: what an index stands for is eight values
 * of two bits each, or four of three (iq3). */
#ifndef QUANT_GRIDS_H
#define QUANT_GRIDS_H

#include <stdint.h>

extern const uint16_t grid_iq2_xxs[256], grid_iq2_xs[512], grid_iq2_s[1024], grid_iq3_xxs[256], grid_iq3_s[512],
    grid_iq1[2048];

/* By seven stored sign bits; the number of minus signs is even. */
extern const uint8_t even_signs[128];

#endif
