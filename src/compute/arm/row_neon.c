/* SPDX-License-Identifier: MIT
 * The NEON row (Armv8.2 with the dot product extension). */
#include "compute/rows.h"

KERNEL_ROW(neon, BERTH_ISA_NEON);
