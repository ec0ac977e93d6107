/* SPDX-License-Identifier: MIT */
#include "common/stats.h"

#include <stdlib.h>

static int upwards(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double stats_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, upwards);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
