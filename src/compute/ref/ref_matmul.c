/* SPDX-License-Identifier: MIT
 * Reference matrix products and activation preparation: docs/arithmetic.md, sections 2 and 3. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "compute/lanes.h"
#include "compute/ref/ref.h"

static void store(const struct matmul *m, uint32_t token, uint32_t row, float value)
{
    m->y[token * m->y_row_floats + row] = m->bias != NULL ? value + m->bias[row] : value;
}

static const unsigned char *weight_row(const struct matmul *m, uint32_t row)
{
    return (const unsigned char *)m->w + row * m->w_row_bytes;
}

static const unsigned char *activation_row(const struct matmul *m, uint32_t token)
{
    return (const unsigned char *)m->x + token * m->x_row_bytes;
}

/* w: k stored floats from any address; x: k float32. */
static float float_dot(const struct quant_row *format, const unsigned char *w, const float *x, uint32_t k)
{
    float lane[LANES] = {0};
    for (uint32_t i = 0; i < k; i += LANES) {
        uint32_t n = k - i < LANES ? k - i : LANES;
        float exact[LANES];
        format->dequantise(w + (size_t)i * format->block_bytes, exact, n);
        for (uint32_t j = 0; j < n; j++) {
            lane[j] = fmaf(exact[j], x[i + j], lane[j]);
        }
    }
    return lanes_sum(lane);
}

static void float_matmul(enum dtype type, const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    const struct quant_row *format = quant_row(type);
    for (uint32_t row = row_begin; row < row_end; row++) {
        for (uint32_t token = 0; token < m->tokens; token++) {
            const float *x = (const float *)(const void *)activation_row(m, token);
            store(m, token, row, float_dot(format, weight_row(m, row), x, m->k));
        }
    }
}

void ref_matmul_f32(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    float_matmul(DTYPE_F32, m, row_begin, row_end);
}

void ref_matmul_f16(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    float_matmul(DTYPE_F16, m, row_begin, row_end);
}

void ref_matmul_bf16(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    float_matmul(DTYPE_BF16, m, row_begin, row_end);
}

/* w: blocks of { f16 scale, int8 quants[32] }; x: a prepared Q8 row of k values. */
static float q8_0_dot(const unsigned char *w, const unsigned char *x, uint32_t k)
{
    const unsigned char *scales = x + k;
    float lane[LANES] = {0};
    for (uint32_t b = 0; b < k / ACT_Q8_BLOCK; b++) {
        const unsigned char *block = w + (size_t)b * 34;
        int8_t wq[ACT_Q8_BLOCK];
        int8_t xq[ACT_Q8_BLOCK];
        memcpy(wq, block + 2, sizeof wq);
        memcpy(xq, x + (size_t)b * ACT_Q8_BLOCK, sizeof xq);
        int32_t dot = 0;
        for (int i = 0; i < ACT_Q8_BLOCK; i++) {
            dot += wq[i] * xq[i];
        }
        float scale = f32_from_f16(load_u16(block)) * load_f32(scales + (size_t)b * 4);
        lane[b % LANES] = fmaf((float)dot, scale, lane[b % LANES]);
    }
    return lanes_sum(lane);
}

void ref_matmul_q8_0(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    for (uint32_t row = row_begin; row < row_end; row++) {
        for (uint32_t token = 0; token < m->tokens; token++) {
            store(m, token, row, q8_0_dot(weight_row(m, row), activation_row(m, token), m->k));
        }
    }
}

void ref_prepare_f32(const float *x, void *out, uint32_t k)
{
    memcpy(out, x, k * sizeof *x);
}

void ref_prepare_q8(const float *x, void *out, uint32_t k)
{
    unsigned char *quants = out;
    unsigned char *scales = quants + k;
    unsigned char *offsets = scales + (size_t)k / ACT_Q8_BLOCK * sizeof(float);
    for (uint32_t b = 0; b < k / ACT_Q8_BLOCK; b++) {
        const float *in = x + (size_t)b * ACT_Q8_BLOCK;
        uint32_t magnitude = 0;
        for (int i = 0; i < ACT_Q8_BLOCK; i++) {
            uint32_t bits = f32_to_bits(in[i]) & 0x7fffffffu;
            magnitude = bits > magnitude ? bits : magnitude;
        }
        bool finite = magnitude < 0x7f800000u;
        float largest = f32_from_bits(magnitude);
        bool usable = finite && largest >= 0x1p-100f;
        float scale = usable ? largest / 127.0f : finite ? 0.0f : f32_from_bits(0x7fc00000u);
        float factor = usable ? 127.0f / largest : 0.0f;
        int8_t q[ACT_Q8_BLOCK];
        int32_t sum = 0;
        for (int i = 0; i < ACT_Q8_BLOCK; i++) {
            /* Adding and taking away 1.5 x 2^23 rounds to an integer, ties to even. */
            float rounded = usable ? (in[i] * factor + 0x1.8p23f) - 0x1.8p23f : 0.0f;
            q[i] = (int8_t)rounded;
            sum += q[i];
        }
        int32_t offset = -128 * sum;
        memcpy(quants + (size_t)b * ACT_Q8_BLOCK, q, sizeof q);
        memcpy(scales + (size_t)b * 4, &scale, sizeof scale);
        memcpy(offsets + (size_t)b * 4, &offset, sizeof offset);
    }
}
