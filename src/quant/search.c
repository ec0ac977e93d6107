/* SPDX-License-Identifier: MIT */
#include "quant/search.h"

#include <stddef.h>

#include "base/bytes.h"
#include "quant/four.h"

/* Sums over a run; `u` is the level of a value. */
struct sums {
    float u, uu, xu;
};

/* What turns values into levels, for all values of a run. */
struct rounding {
    four inverse, base, low, high;
    const int8_t *levels;
};

static inline float inverse_of(float step)
{
    return step == 0 ? 0 : 1.0f / step;
}

static inline struct rounding rounding_of(float inverse, float base, const struct grid *grid)
{
    return (struct rounding){four_all(inverse), four_all(base), four_all((float)grid->low), four_all((float)grid->high),
                             grid->levels};
}

/* Between the lowest and the highest level; NaN (0 times an infinite inverse) becomes the highest. */
static inline four limited(const struct rounding *r, four x)
{
    return four_max(four_min(four_multiply(four_subtract(x, r->base), r->inverse), r->high), r->low);
}

/* The level on whose side of the borders, halfway between neighbours, each value lies. */
static inline four nearest_levels(four v, const int8_t *levels)
{
    four u = four_all((float)levels[0]);
    for (int i = 0; i < 15; i++) {
        four border = four_all(0.5f * (float)(levels[i] + levels[i + 1]));
        u = four_add(u, four_where_over(v, border, four_all((float)(levels[i + 1] - levels[i]))));
    }
    return u;
}

static inline four levels_of(const struct rounding *r, four x)
{
    four v = limited(r, x);
    return r->levels == NULL ? four_nearest(v) : nearest_levels(v, r->levels);
}

static struct sums run_sums(const float *x, int n, float inverse, float base, const struct grid *grid)
{
    const struct rounding r = rounding_of(inverse, base, grid);
    four u[2] = {four_all(0), four_all(0)};
    four uu[2] = {u[0], u[0]};
    four xu[2] = {u[0], u[0]};
    for (int i = 0; i < n; i += 8) {
        for (int h = 0; h < 2; h++) {
            four value = four_load(x + i + (size_t)4 * (size_t)h);
            four level = levels_of(&r, value);
            u[h] = four_add(u[h], level);
            uu[h] = four_add(uu[h], four_multiply(level, level));
            xu[h] = four_add(xu[h], four_multiply(value, level));
        }
    }
    return (struct sums){four_total(four_add(u[0], u[1])), four_total(four_add(uu[0], uu[1])),
                         four_total(four_add(xu[0], xu[1]))};
}

/* ---- step ------------------------------------------------------------------------------------------- */

struct best_step {
    float step, gain; /* gain: by how much the squared error is under that of zeros */
};

static void try_inverse(const float *x, int n, float inverse, const struct grid *grid, struct best_step *best)
{
    struct sums s = run_sums(x, n, inverse, 0, grid);
    if (s.uu > 0) {
        float step = s.xu / s.uu;
        float gain = step * s.xu;
        if (gain > best->gain) {
            *best = (struct best_step){step, gain};
        }
    }
}

float search_step(const float *x, int n, const struct grid *grid)
{
    float largest = 0; /* the value of greatest magnitude */
    for (int i = 0; i < n; i++) {
        float magnitude = x[i] < 0 ? -x[i] : x[i];
        largest = magnitude > (largest < 0 ? -largest : largest) ? x[i] : largest;
    }
    if (largest == 0) {
        return 0;
    }
    struct best_step best = {largest / (float)grid->low, 0};
    /* From an edge that lies over the largest value (nothing is cut) to one well under it, in both directions. */
    int edges = grid->high - grid->low;
    float reach = grid->levels != NULL ? 24.0f : edges > 40 ? 1.0f : edges > 10 ? 1.6f : 1.2f;
    enum { TRIES = 7 };
    for (int side = 0; side < 2; side++) {
        float edge = (float)(side == 0 ? grid->low : grid->high);
        float direction = side == 0 ? -1.0f : 1.0f;
        for (int i = -2; i < TRIES - 2; i++) {
            float target = edge + direction * reach * (float)i / (TRIES - 3);
            try_inverse(x, n, target / largest, grid, &best);
        }
    }
    for (int round = 0; round < 2; round++) {
        try_inverse(x, n, inverse_of(best.step), grid, &best);
    }
    return best.step;
}

/* ---- line ------------------------------------------------------------------------------------------- */

struct best_line {
    struct line line;
    float error; /* less the sum of squares of the values */
};

struct line_job {
    const float *x;
    int n;
    struct grid grid;
    float sum;
    bool negative;
};

static void try_line(const struct line_job *job, float inverse, float base, struct best_line *best)
{
    struct sums s = run_sums(job->x, job->n, inverse, base, &job->grid);
    float n = (float)job->n;
    float determinant = n * s.uu - s.u * s.u;
    if (!(determinant > 0)) {
        return;
    }
    struct line line = {(n * s.xu - job->sum * s.u) / determinant, (job->sum * s.uu - s.u * s.xu) / determinant};
    if (job->negative && line.base > 0) {
        line = (struct line){s.xu / s.uu, 0};
    }
    float error =
        line.step * (line.step * s.uu - 2 * s.xu) + line.base * (n * line.base + 2 * (line.step * s.u - job->sum));
    if (line.step > 0 && error < best->error) {
        *best = (struct best_line){line, error};
    }
}

struct line search_line(const float *x, int n, int high, bool negative)
{
    struct line_job job = {.x = x, .n = n, .grid = {.low = 0, .high = high}, .negative = negative};
    float low = x[0];
    float top = x[0];
    four sum = four_all(0);
    for (int i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        top = x[i] > top ? x[i] : top;
    }
    for (int i = 0; i < n; i += 4) {
        sum = four_add(sum, four_load(x + i));
    }
    job.sum = four_total(sum);
    low = negative && low > 0 ? 0 : low;
    float range = top - low;
    if (!(range > 0)) {
        return (struct line){0, low};
    }
    struct best_line best = {{range / (float)high, low}, 0x1p127f};
    enum { TRIES = 8 };
    float reach = high > 20 ? 2.0f : high > 6 ? 2.4f : 1.2f;
    for (int i = -2; i < TRIES - 2; i++) {
        float levels = (float)high + reach * (float)i / (TRIES - 2);
        float step = range / levels;
        /* What is cut off is cut off on both sides. */
        float base = low + 0.5f * (range - step * (float)high);
        try_line(&job, 1.0f / step, negative && base > 0 ? 0 : base, &best);
        try_line(&job, 1.0f / step, low, &best);
    }
    for (int round = 0; round < 2; round++) {
        try_line(&job, 1.0f / best.line.step, best.line.base, &best);
    }
    return best.line;
}

/* ---- at a given line -------------------------------------------------------------------------------- */

float search_error(const float *x, int n, struct line line, const struct grid *grid)
{
    const struct rounding r = rounding_of(inverse_of(line.step), line.base, grid);
    const four step = four_all(line.step);
    four sum[2] = {four_all(0), four_all(0)};
    for (int i = 0; i < n; i += 8) {
        for (int h = 0; h < 2; h++) {
            four value = four_load(x + i + (size_t)4 * (size_t)h);
            four back = four_add(four_multiply(step, levels_of(&r, value)), r.base);
            four difference = four_subtract(value, back);
            sum[h] = four_add(sum[h], four_multiply(difference, difference));
        }
    }
    return four_total(four_add(sum[0], sum[1]));
}

void search_quants(const float *x, int n, struct line line, const struct grid *grid, int8_t *quants)
{
    const struct rounding r = rounding_of(inverse_of(line.step), line.base, grid);
    float u[4];
    for (int i = 0; i < n; i += 4) {
        four_store(u, levels_of(&r, four_load(x + i)));
        for (int j = 0; j < 4; j++) {
            int level = (int)u[j];
            int index = 0;
            while (grid->levels != NULL && grid->levels[index] < level) {
                index++;
            }
            quants[i + j] = (int8_t)(grid->levels != NULL ? index : level);
        }
    }
}

bool search_finite(const float *x, int n)
{
    uint32_t largest = 0;
    for (int i = 0; i < n; i++) {
        uint32_t magnitude = f32_to_bits(x[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest < 0x7f800000u;
}
