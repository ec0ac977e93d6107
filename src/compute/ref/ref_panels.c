/* SPDX-License-Identifier: MIT
 * Reference matrix products of the block formats with float activations: docs/arithmetic.md, section 2. */
#include <math.h>

#include "base/bytes.h"
#include "compute/panels.h"

static void multiply(struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, uint32_t tokens)
{
    for (uint32_t t = 0; t < tokens; t++) {
        for (uint32_t r = 0; r < panel->rows; r++) {
            float *lane = panel->lane[t][r];
            for (uint32_t i = 0; i < panel->values; i++) {
                float activation = load_f32(x + t * x_row_bytes + (size_t)i * sizeof(float));
                lane[i % LANES] = fmaf(panel->w[r][i], activation, lane[i % LANES]);
            }
        }
    }
}

static void fill(enum dtype type, const struct matmul *m, uint32_t row, uint32_t first, uint32_t n, float *out)
{
    const struct quant_row *format = quant_row(type);
    const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
    if (format->dequantise != NULL) {
        format->dequantise(w + (size_t)(first / format->block_elems) * format->block_bytes, out, n);
    } else {
        packed_dequantise(type, &m->side, w, row, first, n, out);
    }
}

#define MATMUL(isa, TYPE, name)                                                                           \
    static void name##_fill(const struct matmul *m, uint32_t row, uint32_t first, uint32_t n, float *out) \
    {                                                                                                     \
        fill(DTYPE_##TYPE, m, row, first, n, out);                                                        \
    }                                                                                                     \
    void isa##_matmul_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end)                \
    {                                                                                                     \
        panel_product(name##_fill, multiply, m, row_begin, row_end);                                      \
    }
PANEL_FORMATS(MATMUL, ref)
