/* SPDX-License-Identifier: MIT
 * The sampler chain behind berth_sampler_*: penalties, top-k, temperature, top-p, min-p in that order, then a draw from
 * a seeded generator. */
#ifndef SAMPLE_SAMPLER_H
#define SAMPLE_SAMPLER_H

#include "berth.h"

/* berth_sampler_* of berth.h is implemented in this room, in sampler.c. */

#endif
