/* SPDX-License-Identifier: MIT */
#ifndef APP_PLAN_CTX_H
#define APP_PLAN_CTX_H

#include "common/engine.h"

/* What berth fit says with the same options, from headers, before the model is opened; false: not known. */
bool plan_exact_ctx(const char *verb, const struct model_options *options, uint32_t ctx_tokens, uint32_t *out);

#endif
