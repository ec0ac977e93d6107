/* SPDX-License-Identifier: MIT
 *
 * The tokens that are still in the race: an array of (value, id), where value is first the logit and then the weight
 * exp((logit - largest) / temperature). "Better" means the larger value, and the lower id between equal ones. Selection
 * is by heap, so that choosing 40 of 150,000 tokens costs one pass and not a sort.
 */
#ifndef SAMPLE_CANDIDATES_H
#define SAMPLE_CANDIDATES_H

#include <stdint.h>

struct candidate {
    float value; /* never NaN */
    int32_t id;
};

/* exp(x) for x <= 0 from additions and multiplications alone, so every machine gives the same bits; relative error
 * below 1e-15. Below -110 it is 0, as a float32 would be. */
double candidate_exp(double x);

/* A heap of the `limit` best candidates offered so far, the worst one at list[0]; *count grows up to limit. */
void candidates_offer(struct candidate *list, uint32_t *count, uint32_t limit, struct candidate offered);

/* Turns logits into weights, the largest becoming exactly 1. With an infinite largest logit only the infinite ones keep
 * a weight. count >= 1, temperature > 0. Returns the sum of the weights. */
double candidates_weigh(struct candidate *list, uint32_t count, float temperature);

/* Sorts the smallest set of best candidates whose weights reach `mass`, best last, into the end of the list. Returns
 * how many they are (at least 1). The rest of the list is left in no particular order. */
uint32_t candidates_keep(struct candidate *list, uint32_t count, double mass);

#endif
