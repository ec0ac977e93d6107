/* SPDX-License-Identifier: MIT
 *
 * Writers of the super-blocks of 256 values that k_quants.c and iq.c picture. Each run of 16 or 32 values is fitted by
 * itself, the fitted scales are rounded against the largest, and then two steps alternate: the best rounded scale (and
 * minimum) of every run at the super-block's own scales, and the least-squares scales of the super-block for those. A
 * super-block with a value that is not finite gets the scale NaN.
 */
#include <stddef.h>
#include <string.h>

#include "base/bytes.h"
#include "quant/formats.h"
#include "quant/levels.h"
#include "quant/search.h"

enum { RUNS_MAX = 16, ROUNDS = 2, F16_NAN = 0x7e00 };

/* A super-block before it is packed. */
struct super {
    uint16_t d, dmin;
    int scale[RUNS_MAX], min[RUNS_MAX];
    float error;
};

struct super_job {
    const float *x;
    struct grid grid;
    int run, runs;             /* values of a run, number of runs */
    int scale_low, scale_high; /* of the rounded scales */
};

static const float *run_values(const struct super_job *job, int run)
{
    return job->x + (size_t)run * (size_t)job->run;
}

static int nearest_int(float v, int low, int high)
{
    v = v < (float)high ? v : (float)high;
    v = v > (float)low ? v : (float)low;
    return (int)((v + 0x1.8p23f) - 0x1.8p23f);
}

/* The binary16 scale of a super-block. Small weights make it a subnormal of few bits, or zero: there it is rounded up,
 * so that the integer scales, and not it, take up the difference. Rounded down, the largest runs would be cut. */
static uint16_t super_half(float v)
{
    enum { FEW = 128 }; /* steps of 2^-24 */
    uint16_t half = f16_from_f32(v);
    float magnitude = v < 0 ? -v : v;
    bool under = f32_from_f16(half & 0x7fffu) < magnitude;
    return under && (half & 0x7fffu) < FEW ? (uint16_t)(half + 1) : half;
}

static int limit_int(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

static struct line run_line(const struct super *super, int run)
{
    return (struct line){f32_from_f16(super->d) * (float)super->scale[run],
                         -f32_from_f16(super->dmin) * (float)super->min[run]};
}

/* Better integers for one run: its error. Better d and dmin for the integers of all. */
typedef float choose_fn(const struct super_job *job, struct super *super, int run);
typedef void refit_fn(const struct super_job *job, struct super *super);

/* The best of a few rounds of both, from a first guess. */
static void refine(const struct super_job *job, struct super super, choose_fn *choose, refit_fn *refit,
                   struct super *out)
{
    for (int round = 0; round < ROUNDS; round++) {
        super.error = 0;
        for (int run = 0; run < job->runs; run++) {
            super.error += choose(job, &super, run);
        }
        if (round == 0 || super.error < out->error) {
            *out = super;
        }
        refit(job, &super);
    }
}

/* ---- scale and minimum ------------------------------------------------------------------------------- */

/* Rounded scale and minimum of a run: the present ones, or with one of them changed by one. */
static float choose_pair(const struct super_job *job, struct super *super, int run)
{
    static const int changes[4][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};
    const float *x = run_values(job, run);
    const int scale = super->scale[run];
    const int min = super->min[run];
    int best = -1;
    float least = search_error(x, job->run, run_line(super, run), &job->grid);
    for (int i = 0; i < 4; i++) {
        super->scale[run] = limit_int(scale + changes[i][0], 0, job->scale_high);
        super->min[run] = limit_int(min + changes[i][1], 0, job->scale_high);
        float error = search_error(x, job->run, run_line(super, run), &job->grid);
        if (error < least) {
            least = error;
            best = i;
        }
    }
    super->scale[run] = limit_int(scale + (best < 0 ? 0 : changes[best][0]), 0, job->scale_high);
    super->min[run] = limit_int(min + (best < 0 ? 0 : changes[best][1]), 0, job->scale_high);
    return least;
}

/* Least-squares d and dmin for the quants that the present ones give: x is about d * (scale q) - dmin * min. */
static void refit_pair(const struct super_job *job, struct super *super)
{
    float uu = 0;
    float vv = 0;
    float uv = 0;
    float xu = 0;
    float xv = 0;
    int8_t quants[32];
    for (int run = 0; run < job->runs; run++) {
        const float *x = run_values(job, run);
        search_quants(x, job->run, run_line(super, run), &job->grid, quants);
        float q = 0;
        float qq = 0;
        float xq = 0;
        float sum = 0;
        for (int i = 0; i < job->run; i++) {
            q += (float)quants[i];
            qq += (float)(quants[i] * quants[i]);
            xq += x[i] * (float)quants[i];
            sum += x[i];
        }
        float scale = (float)super->scale[run];
        float min = (float)super->min[run];
        uu += scale * scale * qq;
        vv += min * min * (float)job->run;
        uv += scale * min * q;
        xu += scale * xq;
        xv += min * sum;
    }
    float determinant = uu * vv - uv * uv;
    float d = f32_from_f16(super->d);
    float dmin = f32_from_f16(super->dmin);
    if (determinant > 1e-6f * uu * vv) {
        d = (xu * vv - xv * uv) / determinant;
        dmin = (xu * uv - xv * uu) / determinant;
    } else if (uu > 0) {
        d = (xu + dmin * uv) / uu;
    }
    super->d = d > 0 ? super_half(d) : super->d;
    super->dmin = dmin >= 0 ? super_half(dmin) : super->dmin;
}

static void fit_pairs(const struct super_job *job, struct super *out)
{
    struct line line[RUNS_MAX];
    float step = 0;
    float low = 0;
    for (int run = 0; run < job->runs; run++) {
        line[run] = search_line(run_values(job, run), job->run, job->grid.high, true);
        step = line[run].step > step ? line[run].step : step;
        low = line[run].base < low ? line[run].base : low;
    }
    struct super super = {.d = super_half(step / (float)job->scale_high),
                          .dmin = super_half(-low / (float)job->scale_high)};
    float d = f32_from_f16(super.d);
    float dmin = f32_from_f16(super.dmin);
    for (int run = 0; run < job->runs; run++) {
        super.scale[run] = d > 0 ? nearest_int(line[run].step / d, 0, job->scale_high) : 0;
        super.min[run] = dmin > 0 ? nearest_int(-line[run].base / dmin, 0, job->scale_high) : 0;
    }
    refine(job, super, choose_pair, refit_pair, out);
}

/* ---- scale only -------------------------------------------------------------------------------------- */

static float choose_scale(const struct super_job *job, struct super *super, int run)
{
    const float *x = run_values(job, run);
    const int scale = super->scale[run];
    int best = scale;
    float least = search_error(x, job->run, run_line(super, run), &job->grid);
    for (int i = -1; i <= 1; i += 2) {
        super->scale[run] = limit_int(scale + i, job->scale_low, job->scale_high);
        float error = search_error(x, job->run, run_line(super, run), &job->grid);
        if (error < least) {
            least = error;
            best = super->scale[run];
        }
    }
    super->scale[run] = best;
    return least;
}

static void refit_scale(const struct super_job *job, struct super *super)
{
    float uu = 0;
    float xu = 0;
    int8_t quants[32];
    for (int run = 0; run < job->runs; run++) {
        const float *x = run_values(job, run);
        search_quants(x, job->run, run_line(super, run), &job->grid, quants);
        float qq = 0;
        float xq = 0;
        for (int i = 0; i < job->run; i++) {
            float level = (float)(job->grid.levels != NULL ? job->grid.levels[quants[i]] : quants[i]);
            qq += level * level;
            xq += x[i] * level;
        }
        float scale = (float)super->scale[run];
        uu += scale * scale * qq;
        xu += scale * xq;
    }
    super->d = uu > 0 ? super_half(xu / uu) : super->d;
}

static void fit_scales(const struct super_job *job, struct super *out)
{
    float step[RUNS_MAX];
    float largest = 0;
    for (int run = 0; run < job->runs; run++) {
        step[run] = search_step(run_values(job, run), job->run, &job->grid);
        float magnitude = step[run] < 0 ? -step[run] : step[run];
        largest = magnitude > (largest < 0 ? -largest : largest) ? step[run] : largest;
    }
    struct super super = {.d = super_half(largest / (float)job->scale_low)};
    float d = f32_from_f16(super.d);
    for (int run = 0; run < job->runs; run++) {
        super.scale[run] = d != 0 ? nearest_int(step[run] / d, job->scale_low, job->scale_high) : 0;
    }
    refine(job, super, choose_scale, refit_scale, out);
}

/* ---- packing ----------------------------------------------------------------------------------------- */

static void all_quants(const struct super_job *job, const struct super *super, int8_t *quants)
{
    for (int run = 0; run < job->runs; run++) {
        search_quants(run_values(job, run), job->run, run_line(super, run), &job->grid,
                      quants + (size_t)run * (size_t)job->run);
    }
}

/* See two_bits() in k_quants.c. */
static void pack_two_bits(const int8_t *quants, unsigned char *out)
{
    for (int i = 0; i < SUPER; i++) {
        out[i / 128 * 32 + i % 32] |= (unsigned char)((quants[i] & 3) << i / 32 % 4 * 2);
    }
}

/* Groups of 64 values: the low nibbles of 32 bytes, then the high ones. */
static void pack_nibbles(const int8_t *quants, unsigned char *out)
{
    for (int i = 0; i < SUPER; i++) {
        out[i / 64 * 32 + i % 32] |= (unsigned char)((quants[i] & 15) << i / 32 % 2 * 4);
    }
}

/* See k_scale_min(). */
static void pack_scale_min(const struct super *super, unsigned char *out)
{
    for (int j = 0; j < 4; j++) {
        out[j] = (unsigned char)(super->scale[j] | super->scale[j + 4] >> 4 << 6);
        out[j + 4] = (unsigned char)(super->min[j] | super->min[j + 4] >> 4 << 6);
        out[j + 8] = (unsigned char)((super->scale[j + 4] & 15) | (super->min[j + 4] & 15) << 4);
    }
}

static void q2_k_block(const float *x, unsigned char *p, int8_t *quants)
{
    const struct super_job job = {.x = x, .grid = {.high = 3}, .run = 16, .runs = 16, .scale_high = 15};
    struct super super = {0};
    fit_pairs(&job, &super);
    all_quants(&job, &super, quants);
    for (int run = 0; run < 16; run++) {
        p[run] = (unsigned char)(super.scale[run] | super.min[run] << 4);
    }
    pack_two_bits(quants, p + 16);
    memcpy(p + 80, &super.d, 2);
    memcpy(p + 82, &super.dmin, 2);
}

static void q3_k_block(const float *x, unsigned char *p, int8_t *quants)
{
    const struct super_job job = {
        .x = x, .grid = {.low = -4, .high = 3}, .run = 16, .runs = 16, .scale_low = -32, .scale_high = 31};
    struct super super = {0};
    fit_scales(&job, &super);
    all_quants(&job, &super, quants);
    for (int i = 0; i < SUPER; i++) {
        quants[i] = (int8_t)(quants[i] + 4);
        p[i % 32] |= (unsigned char)((quants[i] >> 2) << i / 32);
    }
    pack_two_bits(quants, p + 32);
    for (int run = 0; run < 16; run++) { /* see q3_k_scale() */
        int scale = super.scale[run] + 32;
        p[96 + run % 8] |= (unsigned char)((scale & 15) << run / 8 * 4);
        p[104 + run % 4] |= (unsigned char)((scale >> 4) << run / 4 * 2);
    }
    memcpy(p + 108, &super.d, 2);
}

static void q4_k_block(const float *x, unsigned char *p, int8_t *quants)
{
    const struct super_job job = {.x = x, .grid = {.high = 15}, .run = 32, .runs = 8, .scale_high = 63};
    struct super super = {0};
    fit_pairs(&job, &super);
    all_quants(&job, &super, quants);
    memcpy(p, &super.d, 2);
    memcpy(p + 2, &super.dmin, 2);
    pack_scale_min(&super, p + 4);
    pack_nibbles(quants, p + 16);
}

static void q5_k_block(const float *x, unsigned char *p, int8_t *quants)
{
    const struct super_job job = {.x = x, .grid = {.high = 31}, .run = 32, .runs = 8, .scale_high = 63};
    struct super super = {0};
    fit_pairs(&job, &super);
    all_quants(&job, &super, quants);
    memcpy(p, &super.d, 2);
    memcpy(p + 2, &super.dmin, 2);
    pack_scale_min(&super, p + 4);
    for (int i = 0; i < SUPER; i++) {
        p[16 + i % 32] |= (unsigned char)((quants[i] >> 4) << i / 32);
    }
    pack_nibbles(quants, p + 48);
}

static void q6_k_block(const float *x, unsigned char *p, int8_t *quants)
{
    const struct super_job job = {
        .x = x, .grid = {.low = -32, .high = 31}, .run = 16, .runs = 16, .scale_low = -128, .scale_high = 127};
    struct super super = {0};
    fit_scales(&job, &super);
    all_quants(&job, &super, quants);
    for (int i = 0; i < SUPER; i++) {
        int q = quants[i] + 32;
        int half = i / 128;
        int quarter = i / 32 % 4;
        p[64 * half + 32 * (quarter % 2) + i % 32] |= (unsigned char)((q & 15) << quarter / 2 * 4);
        p[128 + 32 * half + i % 32] |= (unsigned char)((q >> 4) << 2 * quarter);
    }
    for (int run = 0; run < 16; run++) {
        p[192 + run] = (unsigned char)(super.scale[run] & 255);
    }
    memcpy(p + 208, &super.d, 2);
}

static void iq4_xs_block(const float *x, unsigned char *p, int8_t *quants)
{
    const struct super_job job = {.x = x,
                                  .grid = {.low = -127, .high = 113, .levels = iq4_levels},
                                  .run = 32,
                                  .runs = 8,
                                  .scale_low = -32,
                                  .scale_high = 31};
    struct super super = {0};
    fit_scales(&job, &super);
    all_quants(&job, &super, quants);
    memcpy(p, &super.d, 2);
    for (int run = 0; run < 8; run++) {
        int scale = super.scale[run] + 32;
        p[2 + run / 4] |= (unsigned char)((scale >> 4) << run % 4 * 2);
        p[4 + run / 2] |= (unsigned char)((scale & 15) << run % 2 * 4);
        for (int i = 0; i < 16; i++) {
            p[8 + 16 * run + i] = (unsigned char)(quants[32 * run + i] | quants[32 * run + i + 16] << 4);
        }
    }
}

/* `d`: where the scale lies in the block. */
#define BLOCKS(name, bytes, d)                                    \
    void name##_quantise(const float *in, void *blocks, size_t n) \
    {                                                             \
        const uint16_t nan = F16_NAN;                             \
        unsigned char *p = blocks;                                \
        int8_t quants[SUPER];                                     \
        for (size_t at = 0; at < n; at += SUPER, p += (bytes)) {  \
            memset(p, 0, (bytes));                                \
            if (search_finite(in + at, SUPER)) {                  \
                name##_block(in + at, p, quants);                 \
            } else {                                              \
                memcpy(p + (d), &nan, sizeof nan);                \
            }                                                     \
        }                                                         \
    }

BLOCKS(q2_k, 84, 80)
BLOCKS(q3_k, 110, 108)
BLOCKS(q4_k, 144, 0)
BLOCKS(q5_k, 176, 0)
BLOCKS(q6_k, 210, 208)
BLOCKS(iq4_xs, 136, 0)
