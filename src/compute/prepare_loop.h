/* SPDX-License-Identifier: MIT
 * Quantised activations by the vectors of one row: docs/arithmetic.md, section 3. A row's file defines
 *   highest_bits(x, n)                        the largest of the bits of |x[i]|, n a multiple of 32
 *   quantise_16(x, factor, usable, quants)    rounds 16 products to int8, ties to even; all 0 unless usable. Their sum
 * then includes this. */
#ifndef COMPUTE_PREPARE_LOOP_H
#define COMPUTE_PREPARE_LOOP_H

INLINE void prepare(const float *x, void *out, uint32_t k, uint32_t unit)
{
    unsigned char *quants = out;
    unsigned char *scales = quants + k;
    unsigned char *sums = scales + (size_t)k / unit * sizeof(float);
    for (uint32_t at = 0; at < k; at += unit) {
        uint32_t largest_bits = highest_bits(x + at, unit);
        float largest = f32_from_bits(largest_bits);
        bool finite = largest_bits < 0x7f800000u;
        bool usable = finite && largest >= 0x1p-100f;
        float scale = usable ? largest / 127.0f : finite ? 0.0f : f32_from_bits(0x7fc00000u);
        float factor = usable ? 127.0f / largest : 0.0f;
        memcpy(scales + (size_t)at / unit * 4, &scale, sizeof scale);
        for (uint32_t i = at; i < at + unit; i += ACT_SUM_VALUES) {
            int16_t sum = quantise_16(x + i, factor, usable, quants + i);
            memcpy(sums + (size_t)i / ACT_SUM_VALUES * 2, &sum, sizeof sum);
        }
    }
}

void ROW(prepare_q8)(const float *x, void *out, uint32_t k)
{
    prepare(x, out, k, ACT_Q8_UNIT);
}

void ROW(prepare_q8_super)(const float *x, void *out, uint32_t k)
{
    prepare(x, out, k, ACT_Q8_SUPER_UNIT);
}

#endif
