/* SPDX-License-Identifier: MIT
 * What turns stored codes into vectors: a row of the table with vectors (compute/vec_math.h) brings
 *   ivec                            a register of VEC unsigned integers of 32 bits
 *   ivec_set ivec_load ivec_bytes   one value in all elements, stored integers, VEC stored bytes
 *   ivec_and ivec_mul ivec_shift_right
 *   ivec_codes(low, high, bits, v)  vector v of 16 codes of `bits` bits, 1 to 6: code j is in bits [j b, (j + 1) b) of
 *                                   the 128 of `low` and `high`. What lies above a code stays above it.
 *   vec_from_int                    integers below 2^24
 *   vec_pick(x, codes)              x[code mod VEC]
 *   vec_levels(levels, codes)       levels[code mod 8]
 *   vec_signed_levels(levels, codes)  the same, minus where bit 3 is set
 *   vec_flip(x, minus, v)           -x where the bit is set: vector v of 16 of them
 *   vec_from_e4m3(p, out)           16 stored FP8 numbers, E4M3_UNIT times too small
 *   f16_number                      of a binary16 number */
#ifndef COMPUTE_CODES_H
#define COMPUTE_CODES_H

#include <stdint.h>

/* For byte shuffles: each element of 32 bits takes the two bytes that its code begins in, then is shifted. */
struct code_places {
    uint32_t bytes[16], shifts[16];
};

#define CODE_BYTES(bits, j) ((j) * (bits) / 8 | ((j) * (bits) / 8 + 1) << 8 | 0x80800000u)
#define CODE_SHIFT(bits, j) ((j) * (bits) % 8)
#define SIXTEEN(X, bits)                                                                                            \
    {                                                                                                               \
        X(bits, 0), X(bits, 1), X(bits, 2), X(bits, 3), X(bits, 4), X(bits, 5), X(bits, 6), X(bits, 7), X(bits, 8), \
            X(bits, 9), X(bits, 10), X(bits, 11), X(bits, 12), X(bits, 13), X(bits, 14), X(bits, 15)                \
    }
#define CODE_PLACES(bits) [bits] = {SIXTEEN(CODE_BYTES, bits), SIXTEEN(CODE_SHIFT, bits)}
static const struct code_places code_places[7] = {CODE_PLACES(3), CODE_PLACES(5), CODE_PLACES(6)};

/* E4M3 numbers have the layout of binary16 with a bit of exponent and seven of fraction less: moved up by seven bits,
 * they are 2^8 too small, subnormal ones included. All ones is the only NaN: a step up reaches the exponent's top bit,
 * and with that bit, too, the exponent is all ones. */
enum { E4M3_STEP = 0x80, E4M3_TOP = 0x4000 };
#define E4M3_UNIT 256.0f

static const uint32_t sixteen[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

#endif
