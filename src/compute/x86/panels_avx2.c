/* SPDX-License-Identifier: MIT
 * Matrix products over panels (compute/panels.h), AVX2: docs/arithmetic.md, section 2. */
#include "compute/x86/codes_avx2.h"

/* Two accumulators a (row, token) pair: 12 of the 16 registers. */
enum { TILE_ROWS = 2, TILE_TOKENS = 3, TILE_ROWS_ONE = 4 };

#include "compute/dequantise.h"
#include "compute/panels_loop.h"

PANEL_FORMATS(DEQUANTISED_MATMUL, avx2)
