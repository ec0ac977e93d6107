/* SPDX-License-Identifier: MIT
 * Reference matrix products of the block formats with float activations: docs/arithmetic.md, section 2. */
#include <math.h>

#include "base/bytes.h"
#include "compute/panels.h"

static void multiply(const struct panel *panel, const unsigned char *x, uint64_t x_row_bytes, uint32_t tokens,
                     struct panel_lanes *lanes)
{
    for (uint32_t t = 0; t < tokens; t++) {
        for (uint32_t r = 0; r < panel->rows; r++) {
            float *lane = lanes->lane[t][r];
            for (uint32_t i = 0; i < panel->values; i++) {
                float activation = load_f32(x + t * x_row_bytes + (size_t)i * sizeof(float));
                lane[i % LANES] = fmaf(panel->w[r][i], activation, lane[i % LANES]);
            }
        }
    }
}

static void product(enum dtype type, const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    panel_product(type, multiply, m, row_begin, row_end);
}

PANEL_FORMATS(PANEL_MATMUL, ref)
