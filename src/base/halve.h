/* SPDX-License-Identifier: MIT
 * Powers of one half with multiplications and square roots only, so that they are the same on every machine. */
#ifndef BASE_HALVE_H
#define BASE_HALVE_H

#include <math.h>

/* 2^-times for times >= 0; 0 from 1000 up. */
static inline double half_power(double times)
{
    double result = times < 1000.0 ? 1.0 : 0.0;
    for (; times >= 1.0 && result > 0.0; times -= 1.0) {
        result *= 0.5;
    }
    double root = 0.5;
    for (int bit = 0; bit < 30 && result > 0.0; bit++) {
        root = sqrt(root);
        times *= 2.0;
        if (times >= 1.0) {
            times -= 1.0;
            result *= root;
        }
    }
    return result;
}

#endif
