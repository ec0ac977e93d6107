/* SPDX-License-Identifier: MIT
 * Matrix products over panels (compute/panels.h), NEON: docs/arithmetic.md, section 2. */
#include "compute/arm/codes_neon.h"

/* Four accumulators a (row, token) pair: 24 of the 32 registers. */
enum { TILE_ROWS = 2, TILE_TOKENS = 3, TILE_ROWS_ONE = 4 };

#include "compute/dequantise.h"
#include "compute/panels_loop.h"

PANEL_FORMATS(DEQUANTISED_MATMUL, neon)
