/* SPDX-License-Identifier: MIT
 * F32, F16 and BF16 matrix products, AVX2: docs/arithmetic.md, section 2.
 *
 * Two accumulator registers are one (row, token) pair with its 16 lanes. Tiles: 1 row x 1 token for decoding, because
 * memory likes one stream; 2 rows x up to 3 tokens else (12 accumulators; each half step loads 2 weights and 3
 * activations for 6 FMA), with a prefetch of the next rows in address order.
 */
#include "compute/x86/avx2.h"

enum { TILE_ROWS = 2, TILE_TOKENS = 3, TILE_ROWS_ONE = 1 };

INLINE void vec_fetch(const char *p)
{
    _mm_prefetch(p, _MM_HINT_T1);
}

#include "compute/float_tile.h"
