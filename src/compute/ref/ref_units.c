/* SPDX-License-Identifier: MIT
 * Reference integer products and quantised activations: docs/arithmetic.md, section 3. */
#include <math.h>
#include <string.h>

#include "compute/lanes.h"
#include "compute/rows.h"
#include "compute/units.h"

static float half_at(const unsigned char *p)
{
    return f32_from_f16(load_u16(p));
}

/* One unit: the sums of its scaled dots and of its scaled minima. */
static void unit_sums(const struct unit_format *f, const unsigned char *block, const unsigned char *x, int32_t *dots,
                      int32_t *mins)
{
    uint8_t quants[UNIT_SUPER];
    struct unit_scales scales;
    f->quants(block, quants);
    if (f->scales != NULL) {
        f->scales(block, &scales);
    }
    *dots = *mins = 0;
    for (int sub = 0; sub * f->sub < f->values; sub++) {
        int32_t scale = 1;
        int32_t min = -1;
        int32_t dot = 0;
        int32_t sum = 0;
        if (f->scales != NULL) {
            scale = (int8_t)(scales.scale[sub / 8] >> sub % 8 * 8);
            min = (int8_t)(scales.min[sub / 8] >> sub % 8 * 8);
        }
        for (int i = sub * f->sub; i < (sub + 1) * f->sub; i++) {
            int8_t q;
            memcpy(&q, x + i, 1);
            dot += (quants[i] - f->bias) * q;
            sum += q;
        }
        *dots += scale * dot;
        *mins += min * sum;
    }
}

static void product(const struct unit_format *f, const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    for (uint32_t row = row_begin; row < row_end; row++) {
        const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
        for (uint32_t token = 0; token < m->tokens; token++) {
            const unsigned char *x = (const unsigned char *)m->x + token * m->x_row_bytes;
            float lane[LANES] = {0};
            for (uint32_t u = 0; u < m->k / f->values; u++) {
                const unsigned char *block = w + (size_t)u * f->bytes;
                int32_t dots;
                int32_t mins;
                unit_sums(f, block, x + (size_t)u * f->values, &dots, &mins);
                float scale = load_f32(x + m->k + (size_t)u * 4);
                float d = f->exponent ? unit_power(block[f->d_at]) : half_at(block + f->d_at);
                lane[u % LANES] = fmaf((float)dots, d * scale, lane[u % LANES]);
                if (f->mins) {
                    lane[u % LANES] = fmaf(-(float)mins, half_at(block + f->m_at) * scale, lane[u % LANES]);
                }
            }
            float v = lanes_sum(lane);
            m->y[token * m->y_row_floats + row] = m->bias != NULL ? v + m->bias[row] : v;
        }
    }
}

#define PRODUCT(isa, TYPE, name)                                                           \
    void isa##_matmul_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end) \
    {                                                                                      \
        product(&unit_##name, m, row_begin, row_end);                                      \
    }
SMALL_FORMATS(PRODUCT, ref)
SUPER_FORMATS(PRODUCT, ref)

/* ---- activations ---- */

static void prepare(const float *x, void *out, uint32_t k, uint32_t unit)
{
    unsigned char *quants = out;
    unsigned char *scales = quants + k;
    unsigned char *sums = scales + (size_t)k / unit * sizeof(float);
    for (uint32_t at = 0; at < k; at += unit) {
        uint32_t magnitude = 0;
        for (uint32_t i = at; i < at + unit; i++) {
            uint32_t bits = f32_to_bits(x[i]) & 0x7fffffffu;
            magnitude = bits > magnitude ? bits : magnitude;
        }
        bool finite = magnitude < 0x7f800000u;
        float largest = f32_from_bits(magnitude);
        bool usable = finite && largest >= 0x1p-100f;
        float scale = usable ? largest / 127.0f : finite ? 0.0f : f32_from_bits(0x7fc00000u);
        float factor = usable ? 127.0f / largest : 0.0f;
        memcpy(scales + (size_t)at / unit * 4, &scale, sizeof scale);
        for (uint32_t i = at; i < at + unit; i += ACT_SUM_VALUES) {
            int8_t q[ACT_SUM_VALUES];
            int sum = 0;
            for (uint32_t j = 0; j < ACT_SUM_VALUES; j++) {
                /* Adding and taking away 1.5 x 2^23 rounds to an integer, ties to even. */
                float rounded = usable ? (x[i + j] * factor + 0x1.8p23f) - 0x1.8p23f : 0.0f;
                q[j] = (int8_t)rounded;
                sum += q[j];
            }
            int16_t stored = (int16_t)sum;
            memcpy(quants + i, q, sizeof q);
            memcpy(sums + (size_t)i / ACT_SUM_VALUES * 2, &stored, sizeof stored);
        }
    }
}

void ref_prepare_q8(const float *x, void *out, uint32_t k)
{
    prepare(x, out, k, ACT_Q8_UNIT);
}

void ref_prepare_q8_super(const float *x, void *out, uint32_t k)
{
    prepare(x, out, k, ACT_Q8_SUPER_UNIT);
}
