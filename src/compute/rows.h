/* SPDX-License-Identifier: MIT
 * The rows that kernels_select() chooses from. A row exists only in builds for its architecture. */
#ifndef COMPUTE_ROWS_H
#define COMPUTE_ROWS_H

#include "compute/kernels.h"

extern const struct kernels kernels_ref;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
#elif defined(__aarch64__)
extern const struct kernels kernels_neon;
#endif

#endif
