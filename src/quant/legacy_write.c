/* SPDX-License-Identifier: MIT
 * Writers of the blocks of 32 values whose layouts legacy.c pictures. The scale is found for the numbers that will be
 * read back: it is rounded to its stored format first and the quants are taken against that. A block with a value that
 * is not finite gets the scale NaN (MXFP4: the exponent 255), so that the damage stays visible. */
#include <stddef.h>
#include <string.h>

#include "base/bytes.h"
#include "quant/formats.h"
#include "quant/levels.h"
#include "quant/search.h"

enum { ELEMS = 32, HALF = 16, F16_NAN = 0x7e00 };

/* A scale as it will be read back. */
static float store_half(float value, unsigned char *at)
{
    uint16_t half = f16_from_f32(value);
    memcpy(at, &half, sizeof half);
    return f32_from_f16(half);
}

static void store_nan(unsigned char *block, size_t bytes)
{
    const uint16_t half = F16_NAN;
    memset(block, 0, bytes);
    memcpy(block, &half, sizeof half);
}

static void pack_nibbles(const int8_t *quants, unsigned char *out)
{
    for (int i = 0; i < HALF; i++) {
        out[i] = (unsigned char)((quants[i] & 15) | (quants[i + HALF] & 15) << 4);
    }
}

static void pack_fifth_bits(const int8_t *quants, unsigned char *out)
{
    uint32_t high = 0;
    for (int i = 0; i < ELEMS; i++) {
        high |= (uint32_t)(quants[i] >> 4 & 1) << i;
    }
    memcpy(out, &high, sizeof high);
}

/* 2^-24, the smallest binary16 number over zero. */
#define SMALLEST 0x1p-24f

/* Scale at p, quants relative to the lowest one. */
static void step_block(const float *x, const struct grid *grid, unsigned char *p, int8_t *quants)
{
    static const struct grid zeros = {.low = 0, .high = 0};
    float step = search_step(x, ELEMS, grid);
    struct line line = {store_half(step, p), 0};
    if (line.step == 0 && step != 0) { /* less than binary16 holds: its smallest number, if that is nearer than zeros */
        const struct line least = {step < 0 ? -SMALLEST : SMALLEST, 0};
        bool nearer = search_error(x, ELEMS, least, grid) < search_error(x, ELEMS, line, &zeros);
        line.step = store_half(nearer ? least.step : 0, p);
    }
    search_quants(x, ELEMS, line, grid, quants);
    for (int i = 0; i < ELEMS && grid->levels == NULL; i++) {
        quants[i] = (int8_t)(quants[i] - grid->low);
    }
}

/* Scale and base at p. */
static void line_block(const float *x, int high, unsigned char *p, int8_t *quants)
{
    const struct grid grid = {.low = 0, .high = high};
    struct line line = search_line(x, ELEMS, high, false);
    line.step = line.step > 0 && line.step < SMALLEST ? SMALLEST : line.step; /* not all values at the base */
    line.step = store_half(line.step, p);
    line.base = store_half(line.base, p + 2);
    search_quants(x, ELEMS, line, &grid, quants);
}

static void q4_0_block(const float *x, unsigned char *p, int8_t *quants)
{
    static const struct grid grid = {.low = -8, .high = 7};
    step_block(x, &grid, p, quants);
    pack_nibbles(quants, p + 2);
}

static void q4_1_block(const float *x, unsigned char *p, int8_t *quants)
{
    line_block(x, 15, p, quants);
    pack_nibbles(quants, p + 4);
}

static void q5_0_block(const float *x, unsigned char *p, int8_t *quants)
{
    static const struct grid grid = {.low = -16, .high = 15};
    step_block(x, &grid, p, quants);
    pack_fifth_bits(quants, p + 2);
    pack_nibbles(quants, p + 6);
}

static void q5_1_block(const float *x, unsigned char *p, int8_t *quants)
{
    line_block(x, 31, p, quants);
    pack_fifth_bits(quants, p + 4);
    pack_nibbles(quants, p + 8);
}

static void iq4_nl_block(const float *x, unsigned char *p, int8_t *quants)
{
    static const struct grid grid = {.low = -127, .high = 113, .levels = iq4_levels};
    step_block(x, &grid, p, quants);
    pack_nibbles(quants, p + 2);
}

#define BLOCKS(name, bytes)                                       \
    void name##_quantise(const float *in, void *blocks, size_t n) \
    {                                                             \
        unsigned char *p = blocks;                                \
        int8_t quants[ELEMS];                                     \
        for (size_t at = 0; at < n; at += ELEMS, p += (bytes)) {  \
            if (search_finite(in + at, ELEMS)) {                  \
                name##_block(in + at, p, quants);                 \
            } else {                                              \
                store_nan(p, (bytes));                            \
            }                                                     \
        }                                                         \
    }

BLOCKS(q4_0, 18)
BLOCKS(q4_1, 20)
BLOCKS(q5_0, 22)
BLOCKS(q5_1, 24)
BLOCKS(iq4_nl, 18)

/* ---- MXFP4 ------------------------------------------------------------------------------------------ */

/* Nearest of 0, 1/2, 1, 3/2, 2, 3, 4, 6 with the sign in bit 3; halfway cases go to the even code. */
static int e2m1(float v)
{
    static const float border[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    float magnitude = v < 0 ? -v : v;
    int code = 0;
    for (int i = 0; i < 7; i++) {
        code += magnitude > border[i] || (magnitude == border[i] && i % 2 == 1) ? 1 : 0;
    }
    return v < 0 && code > 0 ? code | 8 : code;
}

static float power_of_two(int exponent) /* -126..127 */
{
    return f32_from_bits((uint32_t)(exponent + 127) << 23);
}

/* The codes at the scale 2^exponent; their squared error in units of 4^unit. */
static float mxfp4_codes(const float *x, int exponent, int unit, int8_t *codes)
{
    static const float magnitude[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float inverse = power_of_two(-exponent);
    float back = power_of_two(exponent - unit);
    float down = power_of_two(-unit);
    float sum = 0;
    for (int i = 0; i < ELEMS; i++) {
        codes[i] = (int8_t)e2m1(x[i] * inverse);
        float value = magnitude[codes[i] & 7] * back;
        float difference = x[i] * down - ((codes[i] & 8) != 0 ? -value : value);
        sum += difference * difference;
    }
    return sum;
}

/* The exponent whose largest number, 6, is next to the largest value, or one of its neighbours. */
static void mxfp4_block(const float *x, unsigned char *p)
{
    uint32_t largest = 0;
    for (int i = 0; i < ELEMS; i++) {
        uint32_t magnitude = f32_to_bits(x[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    int top = (int)(largest >> 23) - 127 - 2; /* of the greatest magnitude, over 4 */
    top = top < -124 ? -124 : top > 124 ? 124 : top;
    int8_t codes[ELEMS];
    int8_t best[ELEMS] = {0};
    int best_exponent = top;
    float least = 0;
    for (int exponent = top - 1; exponent <= top + 1; exponent++) {
        float error = mxfp4_codes(x, exponent, top, codes);
        if (exponent == top - 1 || error < least) {
            least = error;
            best_exponent = exponent;
            memcpy(best, codes, sizeof best);
        }
    }
    p[0] = (unsigned char)(best_exponent + 127);
    pack_nibbles(best, p + 1);
}

void mxfp4_quantise(const float *in, void *blocks, size_t n)
{
    unsigned char *p = blocks;
    for (size_t at = 0; at < n; at += ELEMS, p += 17) {
        if (search_finite(in + at, ELEMS)) {
            mxfp4_block(in + at, p);
        } else {
            memset(p, 0, 17);
            p[0] = 255;
        }
    }
}
