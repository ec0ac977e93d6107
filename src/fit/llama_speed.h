/* SPDX-License-Identifier: MIT
 *
 * What a token takes under llama.cpp's rules, for the speed law of berth.h.
 */
#ifndef FIT_LLAMA_SPEED_H
#define FIT_LLAMA_SPEED_H

#include "berth.h"
#include "fit/llama_cpp.h"

/* One token of one sequence at position request->ctx_tokens: berth_speed_decode() with this context. A windowed layer
 * does not grow, so each context has a work of its own. False: a sum does not fit in 64 bits. */
bool llama_work(const struct shape *shape, const struct llama_request *request, const uint64_t weights[WEIGHT_CLASSES],
                berth_speed_work *out);
/* Parameters in tables of which a token reads a row. For weights that are known as one sum. */
double llama_lookup_params(const struct shape *shape);
/* Layers of linear attention, whose kernels differ in speed more than the law's margin says. */
bool llama_has_linear(const struct shape *shape);

#endif
