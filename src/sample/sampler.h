/* SPDX-License-Identifier: MIT
 *
 * The sampler chain behind berth_sampler_*, in caller memory: penalties, top-k, temperature, top-p, min-p in that
 * order, then one draw from a seeded generator.
 *
 * - NaN logits are never picked; when all are NaN the answer is 0. Minus infinity is picked only when nothing else is
 *   left.
 * - The draw walks the remaining tokens best first when top-k or top-p is on, otherwise in ascending id, and takes the
 *   first whose running sum of weights exceeds u times their total. Sums are double, weights float32.
 * - Greedy (temperature 0) draws no random number.
 */
#ifndef SAMPLE_SAMPLER_H
#define SAMPLE_SAMPLER_H

#include "berth.h"

enum {
    SAMPLER_VOCAB_MAX = 1 << 24, /* tokens */
    SAMPLER_LAST_MAX = 1 << 24,  /* penalty_last */
    SAMPLER_LAST_DEFAULT = 64
};

#endif
