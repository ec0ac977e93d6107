/* SPDX-License-Identifier: MIT
 * The row every CPU can run, and the one the others are held against: docs/arithmetic.md in plain C, one file a
 * section. */
#include "compute/rows.h"

KERNEL_ROW(ref, BERTH_ISA_REF);
