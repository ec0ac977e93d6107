/* SPDX-License-Identifier: MIT
 * Reference matrix products of float weights: docs/arithmetic.md, section 2. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "compute/lanes.h"
#include "compute/rows.h"

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

void ref_prepare_f32(const float *x, void *out, uint32_t k)
{
    memcpy(out, x, k * sizeof *x);
}
