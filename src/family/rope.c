/* SPDX-License-Identifier: MIT
 * RoPE frequencies (arXiv 2104.09864) with the scalings of published checkpoints: linear (position interpolation, arXiv
 * 2306.15595), Llama 3.1's by wavelength, and YaRN (arXiv 2309.00071). */
#include "family/family.h"

static const double two_pi = 6.283185307179586476925;

/* Llama 3.1: long wavelengths are stretched by the factor, short ones kept, those between blended. */
static double llama3_factor(const struct hparams *h, double frequency)
{
    double wavelength = two_pi / frequency;
    double context = (double)h->rope_original_ctx;
    double low = (double)h->rope_low_freq;
    double high = (double)h->rope_high_freq;
    double factor = (double)h->rope_factor;
    if (wavelength < context / high) {
        return 1.0;
    }
    if (wavelength > context / low) {
        return factor;
    }
    double smooth = (context / wavelength - low) / (high - low);
    return 1.0 / ((1.0 - smooth) / factor + smooth);
}

/* Dimension at which a frequency turns `rotations` times over the original context (YaRN, section 3.2). */
static double yarn_dimension(const struct hparams *h, const struct rope_maths *maths, double rotations)
{
    double context = (double)h->rope_original_ctx;
    return (double)h->rotary_dim * maths->logarithm(context / (rotations * two_pi)) /
           (2.0 * maths->logarithm((double)h->rope_theta));
}

static double floor_of(double x)
{
    double whole = (double)(int64_t)x;
    return whole > x ? whole - 1 : whole;
}

static double yarn_factor(const struct hparams *h, const struct rope_maths *maths, uint32_t i)
{
    double low = floor_of(yarn_dimension(h, maths, (double)h->rope_beta_fast));
    double high = -floor_of(-yarn_dimension(h, maths, (double)h->rope_beta_slow));
    low = low < 0 ? 0 : low;
    high = high > (double)h->rotary_dim - 1 ? (double)h->rotary_dim - 1 : high;
    high = high == low ? high + 0.001 : high;
    double ramp = ((double)i - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return 1.0 / (ramp / (double)h->rope_factor + (1.0 - ramp));
}

static double division_factor(const struct hparams *h, const struct rope_maths *maths, uint32_t i, double frequency)
{
    switch (h->rope_scaling) {
    case ROPE_SCALING_NONE:
        return 1.0;
    case ROPE_SCALING_LINEAR:
        return (double)h->rope_factor;
    case ROPE_SCALING_LLAMA3:
        return llama3_factor(h, frequency);
    case ROPE_SCALING_YARN:
        return yarn_factor(h, maths, i);
    }
    return 1.0;
}

static double plain_frequency(const struct hparams *h, const struct rope_maths *maths, uint32_t i)
{
    return maths->power((double)h->rope_theta, -2.0 * (double)i / (double)h->rotary_dim);
}

void family_rope_frequencies(const struct hparams *hparams, const struct rope_maths *maths, float *out)
{
    for (uint32_t i = 0; i < hparams->rotary_dim / 2; i++) {
        double frequency = plain_frequency(hparams, maths, i);
        out[i] = (float)(frequency / division_factor(hparams, maths, i, frequency));
    }
}

void family_rope_factors(const struct hparams *hparams, const struct rope_maths *maths, float *out)
{
    for (uint32_t i = 0; i < hparams->rotary_dim / 2; i++) {
        out[i] = (float)division_factor(hparams, maths, i, plain_frequency(hparams, maths, i));
    }
}

/* arXiv 2309.00071, section 3.4: 0.1 ln(factor) + 1, or the ratio that mscale and mscale_all_dim ask for. */
float family_rope_attention(const struct hparams *hparams, const struct rope_maths *maths)
{
    if (hparams->rope_scaling != ROPE_SCALING_YARN) {
        return 1.0f;
    }
    double factor = 1.0;
    if (hparams->rope_attention_factor > 0) {
        factor = (double)hparams->rope_attention_factor;
    } else if (hparams->rope_factor > 1.0f) {
        double l = 0.1 * maths->logarithm((double)hparams->rope_factor);
        bool given = hparams->rope_mscale > 0 && hparams->rope_mscale_all_dim > 0;
        factor = given ? (l * (double)hparams->rope_mscale + 1.0) / (l * (double)hparams->rope_mscale_all_dim + 1.0)
                       : l + 1.0;
    }
    return (float)(factor * (double)hparams->rope_attention_multiplier);
}
