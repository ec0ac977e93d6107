/* SPDX-License-Identifier: MIT
 * The 16 virtual lanes of docs/arithmetic.md, section 1, for scalar code. */
#ifndef COMPUTE_LANES_H
#define COMPUTE_LANES_H

enum { LANES = 16 };

static inline float lanes_sum(const float lane[LANES])
{
    float s[LANES / 2];
    for (int j = 0; j < 8; j++) {
        s[j] = lane[j] + lane[j + 8];
    }
    for (int j = 0; j < 4; j++) {
        s[j] = s[j] + s[j + 4];
    }
    for (int j = 0; j < 2; j++) {
        s[j] = s[j] + s[j + 2];
    }
    return s[0] + s[1];
}

/* a > b ? a : b: the only maximum there is. */
static inline float max_or_second(float a, float b)
{
    return a > b ? a : b;
}

static inline float lanes_max(const float lane[LANES])
{
    float s[LANES / 2];
    for (int j = 0; j < 8; j++) {
        s[j] = max_or_second(lane[j + 8], lane[j]);
    }
    for (int j = 0; j < 4; j++) {
        s[j] = max_or_second(s[j + 4], s[j]);
    }
    for (int j = 0; j < 2; j++) {
        s[j] = max_or_second(s[j + 2], s[j]);
    }
    return max_or_second(s[1], s[0]);
}

#endif
