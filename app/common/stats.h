/* SPDX-License-Identifier: MIT */
#ifndef APP_STATS_H
#define APP_STATS_H

#include <stdint.h>

/* Sorts values[count], upwards; count > 0. */
double stats_median(double *values, uint32_t count);

#endif
