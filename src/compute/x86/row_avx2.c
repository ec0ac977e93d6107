/* SPDX-License-Identifier: MIT
 * The AVX2 row (with FMA and F16C). */
#include "compute/rows.h"

KERNEL_ROW(avx2, BERTH_ISA_AVX2);
