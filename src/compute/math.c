/* SPDX-License-Identifier: MIT
 * Elementary functions, ours so that no libm version changes a result (docs/arithmetic.md, section 4). libm is used for
 * fma, fmaf and nothing else: those are exact by definition. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "compute/kernels.h"

static float power_of_two(uint32_t n) /* n as a signed 32-bit value, -126..127 */
{
    return f32_from_bits((n + 127u) << 23);
}

float math_exp(float x)
{
    const float magic = 0x1.8p23f;
    x = 89.0f < x ? 89.0f : x;
    x = -104.0f > x ? -104.0f : x;
    float t = fmaf(x, 0x1.715476p+0f, magic);
    float n = t - magic;
    float r = fmaf(n, -0x1.62e43p-1f, x);
    r = fmaf(n, 0x1.05c61p-29f, r);
    float p = 0x1.6a2434p-10f;
    p = fmaf(p, r, 0x1.1239e2p-7f);
    p = fmaf(p, r, 0x1.5558f2p-5f);
    p = fmaf(p, r, 0x1.555492p-3f);
    p = fmaf(p, r, 0x1.fffffcp-2f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    /* The low bits of t are n. For a NaN the exponent is nonsense, and a NaN times anything is a NaN. */
    uint32_t whole = f32_to_bits(t) - f32_to_bits(magic);
    uint32_t half = (whole >> 1) | (whole & 0x80000000u);
    return (p * power_of_two(half)) * power_of_two(whole - half);
}

float math_sigmoid(float x)
{
    float e = math_exp(f32_from_bits(f32_to_bits(x) | 0x80000000u));
    return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

float math_silu(float x)
{
    return x * math_sigmoid(x);
}

static double f64_from_bits(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint64_t f64_to_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* Taylor series of sin and cos to r^17 and r^16: below 1e-18 on +-pi/4. */
static double sine_of(double r)
{
    const double c[] = {1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
                        1.0 / 362880.0,          -1.0 / 5040.0,          1.0 / 120.0,        -1.0 / 6.0};
    double z = r * r;
    double p = c[0];
    for (int i = 1; i < 8; i++) {
        p = fma(p, z, c[i]);
    }
    return fma(r * z, p, r);
}

static double cosine_of(double r)
{
    const double c[] = {1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0,
                        1.0 / 40320.0,          -1.0 / 720.0,         1.0 / 24.0,        -0.5};
    double z = r * r;
    double p = c[0];
    for (int i = 1; i < 8; i++) {
        p = fma(p, z, c[i]);
    }
    return fma(z, p, 1.0);
}

void math_sincos(double angle, float *sine, float *cosine)
{
    if (!(angle > -0x1p30 && angle < 0x1p30)) {
        *sine = *cosine = f32_from_bits(0x7fc00000u);
        return;
    }
    const double magic = 0x1.8p52;
    double t = fma(angle, 0x1.45f306dc9c883p-1, magic);
    double n = t - magic;
    /* pi/2 in two parts; the first product is subtracted exactly, because both are multiples of 2^-52. */
    double r = fma(-n, 0x1.921fb54442d18p+0, angle);
    r = fma(-n, 0x1.1a62633145c07p-54, r);
    double s = sine_of(r);
    double c = cosine_of(r);
    uint64_t quadrant = f64_to_bits(t) & 3u;
    double sin_value = (quadrant & 1u) ? c : s;
    double cos_value = (quadrant & 1u) ? s : c;
    *sine = (float)((quadrant & 2u) ? -sin_value : sin_value);
    *cosine = (float)(((quadrant + 1u) & 2u) ? -cos_value : cos_value);
}

double math_log(double x)
{
    const double infinity = f64_from_bits(0x7ff0000000000000u);
    if (!(x > 0.0)) {
        return x == 0.0 ? -infinity : f64_from_bits(0x7ff8000000000000u);
    }
    if (x == infinity) {
        return x;
    }
    double exponent = 0.0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        exponent = -54.0;
    }
    /* x = 2^e m with m in [sqrt(1/2), sqrt(2)). */
    uint64_t bits = f64_to_bits(x) - 0x3fe6a09e667f3bcdu;
    int64_t e = (int64_t)(bits >> 52) - (bits >> 63 ? 4096 : 0);
    double m = f64_from_bits((bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
    exponent += (double)e;
    /* log m = 2 artanh s */
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    double p = 1.0 / 23.0;
    for (int odd = 21; odd >= 3; odd -= 2) {
        p = fma(p, z, 1.0 / (double)odd);
    }
    double log_m = fma(2.0 * s * z, p, 2.0 * s);
    return fma(exponent, 0x1.62e42fefa39efp-1, fma(exponent, 0x1.abc9e3b39803fp-56, log_m));
}

/* e^x for |x| below 700; series to r^13. */
static double exp_double(double x)
{
    const double magic = 0x1.8p52;
    double t = fma(x, 0x1.71547652b82fep+0, magic);
    double n = t - magic;
    double r = fma(-n, 0x1.62e42fefa39efp-1, x);
    r = fma(-n, 0x1.abc9e3b39803fp-56, r);
    double p = 1.0;
    for (int i = 13; i >= 1; i--) {
        p = fma(p, r / (double)i, 1.0);
    }
    uint64_t whole = f64_to_bits(t) - f64_to_bits(magic);
    return p * f64_from_bits((whole + 1023u) << 52);
}

double math_pow(double base, double exponent)
{
    double x = exponent * math_log(base);
    if (x > 700.0) {
        return f64_from_bits(0x7ff0000000000000u);
    }
    if (x < -700.0) {
        return 0.0;
    }
    return x == 0.0 ? 1.0 : exp_double(x);
}
