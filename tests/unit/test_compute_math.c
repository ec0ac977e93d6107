/* SPDX-License-Identifier: MIT
 * Our elementary functions against libm's, and their special values. libm is the judge, never part of the result. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "compute/kernels.h"

/* Distance of `got` from the true value in units of the last place of the true value's binade. */
static double ulps(float got, double want)
{
    int exponent;
    (void)frexp(want, &exponent);
    double ulp = ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
    return fabs((double)got - want) / ulp;
}

static void exp_error_is_below_one_ulp(void **state)
{
    (void)state;
    double worst = 0;
    float at = 0;
    /* Every 37th float from -104 to 89: 60 million values would be too slow for a unit test. */
    for (uint32_t bits = 0; bits < 0x7f800000u; bits += 37) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            float x = f32_from_bits(bits | sign << 31);
            if (x > 88.7f || x < -104.0f) {
                continue;
            }
            double e = ulps(math_exp(x), exp((double)x));
            if (e > worst) {
                worst = e;
                at = x;
            }
        }
        bits += bits > 0x3a000000u && bits < 0x42d00000u ? 0 : 4000;
    }
    print_message("exp: worst error %.4f ulp at %a\n", worst, (double)at);
    assert_true(worst < 0.95);
}

static void exp_special_values(void **state)
{
    (void)state;
    assert_true(math_exp(0.0f) == 1.0f && math_exp(-0.0f) == 1.0f);
    assert_true(math_exp(INFINITY) == INFINITY && math_exp(88.73f) == INFINITY && math_exp(1e30f) == INFINITY);
    assert_true(math_exp(88.72f) < INFINITY);
    assert_true(math_exp(-INFINITY) == 0.0f && math_exp(-104.0f) == 0.0f && math_exp(-1e30f) == 0.0f);
    assert_true(math_exp(-103.0f) > 0.0f); /* subnormal results are kept */
    assert_true(isnan(math_exp(NAN)) && isnan(math_exp(-NAN)));
}

static void sigmoid_and_silu_follow_the_true_function(void **state)
{
    (void)state;
    double worst_sigmoid = 0;
    double worst_silu = 0;
    for (int i = -800000; i <= 800000; i++) {
        float x = (float)i * 1e-4f;
        double want = 1.0 / (1.0 + exp(-(double)x));
        double e = ulps(math_sigmoid(x), want);
        worst_sigmoid = e > worst_sigmoid ? e : worst_sigmoid;
        if (x != 0.0f) {
            e = ulps(math_silu(x), (double)x * want);
            worst_silu = e > worst_silu ? e : worst_silu;
        }
    }
    print_message("sigmoid: worst error %.4f ulp, silu %.4f ulp\n", worst_sigmoid, worst_silu);
    assert_true(worst_sigmoid < 3.0 && worst_silu < 3.5);
    assert_true(math_sigmoid(INFINITY) == 1.0f && math_sigmoid(-INFINITY) == 0.0f && math_sigmoid(0.0f) == 0.5f);
    assert_true(math_silu(INFINITY) == INFINITY && isnan(math_silu(NAN)) && isnan(math_sigmoid(NAN)));
}

static void sincos_is_correctly_rounded_or_next_to_it(void **state)
{
    (void)state;
    double worst = 0;
    uint32_t state_bits = 1;
    for (int i = 0; i < 400000; i++) {
        state_bits = state_bits * 1664525u + 1013904223u;
        double u = (double)state_bits / 4294967296.0;
        double angle = i % 3 == 0 ? u * 10 : i % 3 == 1 ? (u - 0.5) * 2e6 : floor(u * 262144.0);
        float s;
        float c;
        math_sincos(angle, &s, &c);
        double es = ulps(s, sin(angle));
        double ec = ulps(c, cos(angle));
        worst = es > worst ? es : worst;
        worst = ec > worst ? ec : worst;
    }
    print_message("sincos: worst error %.6f ulp\n", worst);
    assert_true(worst < 0.5001);
    float s;
    float c;
    math_sincos(0.0, &s, &c);
    assert_true(s == 0.0f && c == 1.0f);
    const double bad[] = {0x1p30, -0x1p30, (double)INFINITY, (double)NAN};
    for (int i = 0; i < 4; i++) {
        math_sincos(bad[i], &s, &c);
        assert_true(isnan(s) && isnan(c));
    }
    math_sincos(1073741823.5, &s, &c);
    assert_true(ulps(s, sin(1073741823.5)) < 0.5001);
}

static void log_and_pow_are_good_to_double(void **state)
{
    (void)state;
    double worst = 0;
    for (int i = 1; i < 300000; i++) {
        double x = ldexp(1.0 + (double)(i % 1000) / 1000.0, i % 2040 - 1020);
        double want = log(x);
        double e = fabs(math_log(x) - want) / (fabs(want) + 1e-300);
        worst = want != 0.0 && e > worst ? e : worst;
    }
    print_message("log: worst relative error %.3g\n", worst);
    assert_true(worst < 1e-15);
    assert_true(math_log(1.0) == 0.0 && math_log(0.0) == (double)-INFINITY && isnan(math_log(-1.0)));
    assert_true(math_log((double)INFINITY) == (double)INFINITY && isnan(math_log((double)NAN)));
    assert_true(fabs(math_log(0x1p-1074) - log(0x1p-1074)) < 1e-10);

    worst = 0;
    const double bases[] = {10000.0, 500000.0, 1000000.0, 5000000.0, 160000.0, 2.0};
    for (size_t b = 0; b < sizeof bases / sizeof *bases; b++) {
        for (int d = 8; d <= 256; d += 8) {
            for (int i = 0; i < d / 2; i++) {
                double exponent = -2.0 * i / d;
                double e = ulps((float)math_pow(bases[b], exponent), pow(bases[b], exponent));
                worst = e > worst ? e : worst;
            }
        }
    }
    print_message("pow: worst error %.6f ulp of float\n", worst);
    assert_true(worst < 0.5001);
    assert_true(math_pow(10000.0, 0.0) == 1.0 && math_pow(1e300, 10.0) == (double)INFINITY);
    assert_true(math_pow(1e300, -10.0) == 0.0);
}

static void merge_of_nothing_changes_nothing(void **state)
{
    (void)state;
    float max = 1.5f;
    float sum = 2.0f;
    float out[3] = {1, -2, 3};
    const float none[3] = {0};
    attend_merge(&max, &sum, out, -INFINITY, 0.0f, none, 3);
    assert_true(max == 1.5f && sum == 2.0f && out[0] == 1 && out[1] == -2 && out[2] == 3);
    float max2 = -INFINITY;
    float sum2 = 0.0f;
    float out2[3] = {0};
    attend_merge(&max2, &sum2, out2, -INFINITY, 0.0f, none, 3);
    assert_true(max2 == -INFINITY && sum2 == 0.0f && out2[0] == 0.0f);
    attend_merge(&max2, &sum2, out2, max, sum, out, 3);
    assert_true(max2 == 1.5f && sum2 == 2.0f && out2[0] == 1 && out2[1] == -2 && out2[2] == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_error_is_below_one_ulp),
        cmocka_unit_test(exp_special_values),
        cmocka_unit_test(sigmoid_and_silu_follow_the_true_function),
        cmocka_unit_test(sincos_is_correctly_rounded_or_next_to_it),
        cmocka_unit_test(log_and_pow_are_good_to_double),
        cmocka_unit_test(merge_of_nothing_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
