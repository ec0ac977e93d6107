/* SPDX-License-Identifier: MIT
 * F32, F16 and BF16 matrix products, NEON: docs/arithmetic.md, section 2.
 *
 * Four accumulator registers are one (row, token) pair with its 16 lanes. Tiles: 1 row x 1 token for decoding, because
 * memory likes one stream; 2 rows x up to 3 tokens else (24 accumulators; each quarter step loads 2 weights and 3
 * activations for 6 FMA).
 */
#include "compute/arm/neon.h"

enum { TILE_ROWS = 2, TILE_TOKENS = 3, TILE_ROWS_ONE = 1 };

INLINE void vec_fetch(const char *p)
{
    (void)p; /* not measured on a real one */
}

#include "compute/float_tile.h"
