/* SPDX-License-Identifier: MIT
 * Top-k selection of the router. */
#include "forward/forward.h"

/* Insertion into a sorted list of at most top_k: experts are few hundred, top_k around eight. NaN never wins over a
 * number. */
void route_select(const float *probabilities, uint32_t experts, uint32_t top_k, bool normalise, uint16_t *ids,
                  float *weights)
{
    uint32_t count = 0;
    for (uint32_t e = 0; e < experts; e++) {
        float p = probabilities[e];
        uint32_t at = count;
        while (at > 0 && (p > weights[at - 1] || (weights[at - 1] != weights[at - 1] && p == p))) {
            at--;
        }
        if (at >= top_k) {
            continue;
        }
        uint32_t last = count < top_k ? count : top_k - 1;
        for (uint32_t i = last; i > at; i--) {
            weights[i] = weights[i - 1];
            ids[i] = ids[i - 1];
        }
        weights[at] = p;
        ids[at] = (uint16_t)e;
        count = count < top_k ? count + 1 : count;
    }
    if (!normalise) {
        return;
    }
    float sum = 0.0f;
    for (uint32_t i = 0; i < top_k; i++) {
        sum += weights[i];
    }
    for (uint32_t i = 0; i < top_k; i++) {
        weights[i] /= sum;
    }
}
