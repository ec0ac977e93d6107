/* SPDX-License-Identifier: MIT
 *
 * The seeded generator of the sampler: xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number
 * generators", 2018), its 256 bits of state filled from one 64-bit seed by SplitMix64 (Steele, Lea, Flood, 2014).
 * Integer arithmetic only, so a seed gives the same sequence on every machine.
 */
#ifndef SAMPLE_RANDOM_H
#define SAMPLE_RANDOM_H

#include <stdint.h>

struct random_state {
    uint64_t word[4]; /* never all zero */
};

/* One SplitMix64 step: advances *state and returns the next output. */
uint64_t random_split(uint64_t *state);

void random_seed(struct random_state *random, uint64_t seed);
uint64_t random_next(struct random_state *random);
/* Uniform on the multiples of 2^-53 in [0, 1). */
double random_unit(struct random_state *random);

#endif
