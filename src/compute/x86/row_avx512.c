/* SPDX-License-Identifier: MIT
 * The AVX-512 row (F, BW, CD, DQ, VL, VNNI). */
#include "compute/rows.h"

KERNEL_ROW(avx512, BERTH_ISA_AVX512);
