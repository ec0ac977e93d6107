/* SPDX-License-Identifier: MIT
 * The rows that kernels_select() chooses from. A row exists only in builds for its architecture. */
#ifndef COMPUTE_ROWS_H
#define COMPUTE_ROWS_H

#include "compute/kernels.h"

extern const struct kernels kernels_ref;

#endif
