/* SPDX-License-Identifier: MIT
 * Writers of block formats: their error beside that of ggml's own quantiser on the same values (tests/golden/quant),
 * the bytes that every build must give, and blocks that are hard to write. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/str.h"
#include "quant/quant.h"

enum { VALUES = 1024 };

/* digest: of the blocks that input.f32 gives. */
static const struct {
    enum dtype type;
    const char *file;
    uint64_t digest;
} formats[] = {
    {DTYPE_Q4_0, "q4_0", 0xad0dc924322dc03cu},     {DTYPE_Q4_1, "q4_1", 0xe3d93904f986c1c1u},
    {DTYPE_Q5_0, "q5_0", 0xfe0d4119496ccdbau},     {DTYPE_Q5_1, "q5_1", 0x057535607cb6ae76u},
    {DTYPE_Q2_K, "q2_k", 0x153e26b3cc5eb6c5u},     {DTYPE_Q3_K, "q3_k", 0x86dc15a832428cc3u},
    {DTYPE_Q4_K, "q4_k", 0x32bd9498a13c2946u},     {DTYPE_Q5_K, "q5_k", 0x512145c148ca3e56u},
    {DTYPE_Q6_K, "q6_k", 0xbb8bab6575d86e2cu},     {DTYPE_IQ4_NL, "iq4_nl", 0x98d35d4c79d0933fu},
    {DTYPE_IQ4_XS, "iq4_xs", 0x656570c44bc2b40fu}, {DTYPE_MXFP4, "mxfp4", 0xcba92f9387d6d2c2u},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static void read_golden(const char *name, const char *ext, float *out)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/golden/quant/%s.%s", BERTH_TESTS_DIR, name, ext);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(out, sizeof *out, VALUES, file), VALUES);
    fclose(file);
}

static double squared_error(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    return sum;
}

static void write_and_read(enum dtype type, const float *in, float *out, size_t n)
{
    static unsigned char blocks[VALUES * 2];
    assert_true(n <= VALUES);
    quant_row(type)->quantise(in, blocks, n);
    quant_row(type)->dequantise(blocks, out, n);
}

static void write_error_is_at_most_that_of_ggml(void **state)
{
    (void)state;
    static float input[VALUES];
    static float ggml[VALUES];
    static float ours[VALUES];
    read_golden("input", "f32", input);
    for (size_t f = 0; f < FORMATS; f++) {
        read_golden(formats[f].file, "f32", ggml);
        write_and_read(formats[f].type, input, ours, VALUES);
        double ratio = sqrt(squared_error(input, ours, VALUES) / squared_error(input, ggml, VALUES));
        if (!(ratio <= 1.02)) {
            fail_msg("%s: %.4f times the error of ggml", quant_row(formats[f].type)->name, ratio);
        }
    }
}

static void write_bytes_are_the_same_in_every_build(void **state)
{
    (void)state;
    static float input[VALUES];
    static unsigned char blocks[VALUES * 2 + 1];
    bool same = true;
    read_golden("input", "f32", input);
    for (size_t f = 0; f < FORMATS; f++) {
        uint64_t bytes = 0;
        assert_true(quant_row_bytes(formats[f].type, VALUES, &bytes));
        for (size_t shift = 0; shift < 2; shift++) { /* blocks at odd addresses, over old bytes */
            memset(blocks, 0xaa, sizeof blocks);
            quant_row(formats[f].type)->quantise(input, blocks + shift, VALUES);
            uint64_t digest = hash_bytes(HASH_SEED, blocks + shift, (size_t)bytes);
            if (digest != formats[f].digest) {
                print_error("%s: 0x%016llxu\n", quant_row(formats[f].type)->name, (unsigned long long)digest);
                same = false;
            }
            assert_int_equal(blocks[bytes + shift], 0xaa);
        }
    }
    assert_true(same);
}

/* Blocks of one kind; the largest relative error that the format's number of levels allows is the bound. */
static void write_zeros_and_single_values(void **state)
{
    (void)state;
    static float in[256];
    static float out[256];
    for (size_t f = 0; f < FORMATS; f++) {
        memset(in, 0, sizeof in);
        write_and_read(formats[f].type, in, out, 256);
        assert_true(squared_error(in, out, 256) == 0);
        static const float singles[] = {1, -1, 3.5f, -0.02f, 1000};
        for (size_t s = 0; s < sizeof singles / sizeof singles[0]; s++) {
            for (size_t at = 0; at < 256; at += 85) {
                memset(in, 0, sizeof in);
                in[at] = singles[s];
                write_and_read(formats[f].type, in, out, 256);
                for (size_t i = 0; i < 256; i++) {
                    double difference = fabs((double)out[i] - (double)in[i]);
                    double bound = fabs((double)singles[s]) * (formats[f].type == DTYPE_MXFP4 ? 0.21 : 0.03);
                    if (!(difference <= bound)) {
                        fail_msg("%s: %g at %zu comes back as %g at %zu", quant_row(formats[f].type)->name,
                                 (double)singles[s], at, (double)out[i], i);
                    }
                }
            }
        }
    }
}

static void write_one_sided_and_constant_blocks(void **state)
{
    (void)state;
    static float in[256];
    static float out[256];
    for (size_t f = 0; f < FORMATS; f++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            double power = 0;
            for (int i = 0; i < 256; i++) {
                in[i] = (float)sign * (5.0f + 0.01f * (float)(i * 37 % 101));
                power += (double)in[i] * (double)in[i];
            }
            write_and_read(formats[f].type, in, out, 256);
            double relative = sqrt(squared_error(in, out, 256) / power);
            double bound = formats[f].type == DTYPE_Q2_K || formats[f].type == DTYPE_Q3_K ? 0.1
                           : formats[f].type == DTYPE_MXFP4                               ? 0.12
                                                                                          : 0.06;
            if (!(relative < bound)) {
                fail_msg("%s: one-sided values come back with a relative error of %g", quant_row(formats[f].type)->name,
                         relative);
            }
            for (int i = 0; i < 256; i++) {
                in[i] = (float)sign * 0.75f;
            }
            write_and_read(formats[f].type, in, out, 256);
            assert_true(squared_error(in, out, 256) < 256 * 0.75 * 0.75 * 0.001);
        }
    }
}

/* No arithmetic on the way may trap or convert a NaN to an integer; what comes back is damaged visibly or stays. */
static void write_values_at_the_ends_of_float32(void **state)
{
    (void)state;
    static float in[256];
    static float out[256];
    static const float ends[] = {1e-45f, 1e-38f, 1e-30f, 1e30f, 3e38f, -3e38f};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t f = 0; f < FORMATS; f++) {
        for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
            for (int i = 0; i < 256; i++) {
                in[i] = ends[e] * (1.0f - 0.003f * (float)i);
            }
            write_and_read(formats[f].type, in, out, 256);
            for (int i = 0; i < 256 && fabsf(ends[e]) < 1e-20f; i++) {
                assert_true(fabsf(out[i]) <= 1e-7f);
            }
        }
        for (size_t b = 0; b < 3; b++) {
            for (int i = 0; i < 256; i++) {
                in[i] = 1;
            }
            in[200] = bad[b];
            write_and_read(formats[f].type, in, out, 256);
            assert_true(formats[f].type == DTYPE_MXFP4 ? out[200] != 1.0f || out[0] == 1.0f : isnan(out[200]));
        }
    }
}

/* Small weights, whose scales are subnormal binary16 numbers of few bits, or would be zero. */
static void write_small_values(void **state)
{
    (void)state;
    float in[VALUES];
    float small[VALUES];
    float out[VALUES];
    const float zeros[VALUES] = {0};
    read_golden("input", "f32", in);
    for (size_t f = 0; f < FORMATS; f++) {
        const enum dtype type = formats[f].type;
        write_and_read(type, in, out, VALUES);
        const double usual = sqrt(squared_error(in, out, VALUES) / squared_error(in, zeros, VALUES));
        for (int power = 10; power <= 40; power++) {
            for (size_t i = 0; i < VALUES; i++) {
                small[i] = ldexpf(in[i], -power);
            }
            write_and_read(type, small, out, VALUES);
            double error = sqrt(squared_error(small, out, VALUES) / squared_error(small, zeros, VALUES));
            bool super = quant_row(type)->block_elems == 256;
            double limit = super && power <= 15 ? 1.1 * usual : 1.05;
            if (!(error <= limit)) {
                fail_msg("%s, values times 2^-%d: relative error %g, usually %g", formats[f].file, power, error, usual);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_error_is_at_most_that_of_ggml),
        cmocka_unit_test(write_bytes_are_the_same_in_every_build),
        cmocka_unit_test(write_zeros_and_single_values),
        cmocka_unit_test(write_one_sided_and_constant_blocks),
        cmocka_unit_test(write_values_at_the_ends_of_float32),
        cmocka_unit_test(write_small_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
