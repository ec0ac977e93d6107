/* SPDX-License-Identifier: MIT
 *
 * What the writers of block formats share: the scale (and base) of a run of values that makes the squared error of its
 * rounded levels least. Every search is a handful of starting scales, each rounded to levels and answered with the
 * least-squares scale of those levels, which only ever improves on the start. No weights: the error that convert
 * promises is the plain one.
 *
 * Runs are 16 or 32 values, all finite. Sums run in a fixed order of lanes, so that every build writes the same bytes.
 */
#ifndef QUANT_SEARCH_H
#define QUANT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

/* What a quant stands for: the integers low..high, or levels[0..15]. */
struct grid {
    int low, high; /* of the quants; with levels: of the levels */
    const int8_t *levels;
};

/* x is about step * level + base. */
struct line {
    float step, base;
};

/* The step (of either sign) for base 0; 0 when all values are 0. */
float search_step(const float *x, int n, const struct grid *grid);
/* Step and base over the integers 0..high; the step is never negative and the base never positive when `negative`. */
struct line search_line(const float *x, int n, int high, bool negative);
/* Squared error of the nearest quants. */
float search_error(const float *x, int n, struct line line, const struct grid *grid);
/* The nearest quants: integers as they are, levels as their index. */
void search_quants(const float *x, int n, struct line line, const struct grid *grid, int8_t *quants);

/* No NaN or infinity among n values. */
bool search_finite(const float *x, int n);

#endif
