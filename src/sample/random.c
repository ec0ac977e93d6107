/* SPDX-License-Identifier: MIT */
#include "sample/random.h"

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64u - bits));
}

uint64_t random_split(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = *state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

void random_seed(struct random_state *random, uint64_t seed)
{
    /* SplitMix64 visits every 64-bit value once, so four consecutive outputs are never all zero. */
    uint64_t state = seed;
    for (int i = 0; i < 4; i++) {
        random->word[i] = random_split(&state);
    }
}

uint64_t random_next(struct random_state *random)
{
    uint64_t *word = random->word;
    uint64_t result = rotate_left(word[1] * 5u, 7) * 9u;
    uint64_t shifted = word[1] << 17;
    word[2] ^= word[0];
    word[3] ^= word[1];
    word[1] ^= word[2];
    word[0] ^= word[3];
    word[2] ^= shifted;
    word[3] = rotate_left(word[3], 45);
    return result;
}

double random_unit(struct random_state *random)
{
    return (double)(random_next(random) >> 11) * 0x1p-53;
}
