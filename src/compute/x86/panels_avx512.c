/* SPDX-License-Identifier: MIT
 * Matrix products over panels (compute/panels.h), AVX-512: docs/arithmetic.md, section 2. */
#include "compute/x86/codes_avx512.h"

/* One accumulator a (row, token) pair: 24 of the 32 registers. */
enum { TILE_ROWS = 4, TILE_TOKENS = 6, TILE_ROWS_ONE = 4 };

#include "compute/dequantise.h"
#include "compute/panels_loop.h"

PANEL_FORMATS(DEQUANTISED_MATMUL, avx512)
