/* SPDX-License-Identifier: MIT
 * What the ledger of a model says about its speed. */
#ifndef APP_SPEED_H
#define APP_SPEED_H

#include "berth.h"
#include "common/engine.h"

/* What one read of an expert's weights takes, about; 0: no experts. experts_bytes: of all `count` of them. */
static inline double speed_request_bytes(double experts_bytes, double count)
{
    enum { MATRICES = 3 }; /* gate, up, down: a read each */
    return count > 0 ? experts_bytes / count / MATRICES : 0;
}

/* Share of past selections that the `slots` most used experts served, by the model's ledger; 0: there is none, or it
 * says too little. */
double speed_ledger_hit(const struct model_options *options, uint64_t slots);

#endif
