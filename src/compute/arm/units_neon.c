/* SPDX-License-Identifier: MIT
 * Integer products of the block formats, NEON with SDOT: docs/arithmetic.md, section 3, compute/units.h.
 *
 * A unit of a row is unpacked to the stack as signed bytes once for up to four tokens, whose 16 lanes wait in memory.
 */
#include <math.h>

#include "compute/arm/neon.h"
#include "compute/units.h"

enum { TILE_TOKENS = 4, LANE_COUNT = 16 };

/* A unit as its products want it. */
struct unit {
    _Alignas(16) int8_t quants[UNIT_SUPER]; /* bias taken away */
    int32_t scale[UNIT_SUBS_MAX];           /* for each 16 values */
    int16_t min[UNIT_SUBS_MAX];
    float d, m;
};

INLINE float half_at(const unsigned char *p)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(load_u16(p)))), 0);
}

INLINE void unpack(const struct unit_format *f, const unsigned char *block, struct unit *out)
{
    uint8_t quants[UNIT_SUPER];
    f->quants(block, quants);
    for (int i = 0; i < f->values; i += 16) {
        uint8x16_t v = vsubq_u8(vld1q_u8(quants + i), vdupq_n_u8(f->bias));
        vst1q_s8(out->quants + i, vreinterpretq_s8_u8(v));
    }
    if (f->scales != NULL) {
        struct unit_scales scales;
        f->scales(block, &scales);
        for (int i = 0; i < UNIT_SUBS_MAX; i++) {
            int sub = i * 16 / f->sub;
            out->scale[i] = (int8_t)(scales.scale[sub / 8] >> sub % 8 * 8);
            out->min[i] = (int8_t)(scales.min[sub / 8] >> sub % 8 * 8);
        }
    } else {
        out->min[0] = out->min[1] = -1;
    }
    out->d = f->exponent ? unit_power(block[f->d_at]) : half_at(block + f->d_at);
    out->m = f->mins ? half_at(block + f->m_at) : 0;
}

INLINE int32_t dots_of(const struct unit_format *f, const struct unit *w, const unsigned char *x)
{
    int32x4_t total = vdupq_n_s32(0);
    for (int i = 0; i < f->values / 16; i++) {
        int8x16_t xv = vreinterpretq_s8_u8(vld1q_u8(x + (size_t)i * 16));
        if (f->scales == NULL) {
            total = vdotq_s32(total, vld1q_s8(w->quants + i * 16), xv);
        } else {
            int32x4_t dots = vdotq_s32(vdupq_n_s32(0), vld1q_s8(w->quants + i * 16), xv);
            total = vmlaq_n_s32(total, dots, w->scale[i]);
        }
    }
    return vaddvq_s32(total);
}

INLINE int32_t mins_of(const struct unit_format *f, const struct unit *w, const unsigned char *sums)
{
    int32_t total = 0;
    for (int i = 0; i < f->values / 16; i++) {
        total += w->min[i] * (int16_t)load_u16(sums + (size_t)i * 2);
    }
    return total;
}

INLINE void row_of_units(const struct unit_format *f, const struct matmul *m, uint32_t row, uint32_t token,
                         uint32_t tokens)
{
    const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
    float lanes[TILE_TOKENS][LANE_COUNT] = {{0}};
    struct unit unit;
    for (uint32_t u = 0; u < m->k / f->values; u++) {
        unpack(f, w + (size_t)u * f->bytes, &unit);
        for (uint32_t t = 0; t < tokens; t++) {
            const unsigned char *x = (const unsigned char *)m->x + (token + t) * m->x_row_bytes;
            const unsigned char *sums = x + m->k + (size_t)m->k / f->values * 4 + (size_t)u * f->values / 8;
            float scale = load_f32(x + m->k + (size_t)u * 4);
            float *lane = &lanes[t][u % LANE_COUNT];
            *lane = fmaf((float)dots_of(f, &unit, x + (size_t)u * f->values), unit.d * scale, *lane);
            if (f->mins) {
                *lane = fmaf(-(float)mins_of(f, &unit, sums), unit.m * scale, *lane);
            }
        }
    }
    for (uint32_t t = 0; t < tokens; t++) {
        float32x4_t all[4];
        UNROLLED(q, 4)
        {
            all[q] = vld1q_f32(lanes[t] + 4 * q);
        }
        float v = tree_sum(all);
        m->y[(token + t) * m->y_row_floats + row] = m->bias != NULL ? v + m->bias[row] : v;
    }
}

#define PRODUCT(isa, TYPE, name)                                                                    \
    void isa##_matmul_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end)          \
    {                                                                                               \
        for (uint32_t row = row_begin; row < row_end; row++) {                                      \
            for (uint32_t token = 0; token < m->tokens; token += TILE_TOKENS) {                     \
                uint32_t left = m->tokens - token;                                                  \
                row_of_units(&unit_##name, m, row, token, left < TILE_TOKENS ? left : TILE_TOKENS); \
            }                                                                                       \
        }                                                                                           \
    }
SMALL_FORMATS(PRODUCT, neon)
SUPER_FORMATS(PRODUCT, neon)
