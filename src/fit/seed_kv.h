/* SPDX-License-Identifier: MIT
 * What the KV rules of the documents share. */
#ifndef FIT_SEED_KV_H
#define FIT_SEED_KV_H

#include "berth.h"

enum seed_layer { SEED_LAYER_FULL, SEED_LAYER_SLIDING, SEED_LAYER_LINEAR };

/* A layer whose type is not named, or unknown, counts as full attention. */
enum seed_layer seed_layer_kind(const berth_fit_config *config, size_t layer);
double seed_kv_bytes(const berth_kv_cost *cost, double tokens);

#endif
