/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/sizes.h"

static void number_parse_takes_digits_only(void **state)
{
    (void)state;
    uint64_t value = 0;
    assert_true(number_parse("0", &value));
    assert_int_equal(value, 0);
    assert_true(number_parse("007", &value));
    assert_int_equal(value, 7);
    assert_true(number_parse("18446744073709551615", &value));
    assert_true(value == UINT64_MAX);
    static const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "1.0", "1e3", "0x1", "18446744073709551616", "1,2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        value = 42;
        assert_false(number_parse(bad[i], &value));
        assert_int_equal(value, 42);
    }
}

static void real_parse_wants_the_whole_text(void **state)
{
    (void)state;
    double value = 0;
    assert_true(real_parse("0.5", &value) && value == 0.5);
    assert_true(real_parse("-2", &value) && value == -2);
    assert_true(real_parse("1e-3", &value) && value == 1e-3);
    assert_true(real_parse("2.5E+2", &value) && value == 250);
    static const char *const bad[] = {"",    "-",     ".5", "1.", "1e",  "1e+",  "nan",
                                      "inf", "0x1p3", "1 ", " 1", "1,5", "1e999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(real_parse(bad[i], &value));
    }
}

static void size_parse_is_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"1", 1},
        {"1B", 1},
        {"1KB", 1000},
        {"1MB", 1000000},
        {"1GB", 1000000000},
        {"1TB", 1000000000000},
        {"1KiB", 1024},
        {"1MiB", 1048576},
        {"1GiB", 1073741824},
        {"1TiB", 1099511627776},
        {"0.5KiB", 512},
        {"0.999999TiB", 1099510528264}, /* floor(0.999999 x 2^40) */
        {"1.000001GB", 1000001000},
        {"18446744073709551615", UINT64_MAX},
        {"18446744073709551615B", UINT64_MAX},
        {"16777215TiB", 18446742974197923840u},
        {"16777215.999999TiB", 18446744073708452104u},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = 0;
        if (!size_parse(good[i].text, &bytes) || bytes != good[i].bytes) {
            fail_msg("%s gives %llu, want %llu", good[i].text, (unsigned long long)bytes,
                     (unsigned long long)good[i].bytes);
        }
    }
    static const char *const bad[] = {"",
                                      "B",
                                      "KiB",
                                      "1K",
                                      "1kB",
                                      "1kib",
                                      "1Kib",
                                      "1 KiB",
                                      "1.5",
                                      "1.5B",
                                      "1.KiB",
                                      ".5KiB",
                                      "1.1.1KiB",
                                      "-1KiB",
                                      "+1KiB",
                                      "1e3KB",
                                      "1PB",
                                      "1KiBs",
                                      "1KiB ",
                                      " 1KiB",
                                      "16777216TiB",
                                      "18446744073709551616",
                                      "1.0000001GiB"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 42;
        if (size_parse(bad[i], &bytes) || bytes != 42) {
            fail_msg("'%s' was accepted", bad[i]);
        }
    }
}

static void size_format_has_one_unit(void **state)
{
    (void)state;
    char text[FORMAT_MAX];
    assert_string_equal(size_format(0, text), "0 B");
    assert_string_equal(size_format(1023, text), "1023 B");
    assert_string_equal(size_format(1024, text), "1.0 KiB");
    assert_string_equal(size_format(3u << 20, text), "3.0 MiB");
    assert_string_equal(size_format(5ull << 29, text), "2.50 GiB");
    assert_string_equal(size_format(UINT64_MAX, text), "16777216.00 TiB");
    assert_string_equal(rate_format(1.5e9, text), "1.50 GB/s");
    assert_string_equal(rate_format(104e6, text), "104 MB/s");
    assert_string_equal(time_format(0.0042, text), "4 ms");
    assert_string_equal(time_format(75, text), "75.0 s");
    assert_string_equal(time_format(185, text), "3m 05s");
    assert_string_equal(time_format(11520, text), "3h 12m");
    assert_string_equal(time_format(-1, text), "0 ms");
    assert_string_equal(count_format(29100000, text), "29.1M");
    assert_string_equal(count_format(9999, text), "9999");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_parse_takes_digits_only),
        cmocka_unit_test(real_parse_wants_the_whole_text),
        cmocka_unit_test(size_parse_is_exact),
        cmocka_unit_test(size_format_has_one_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
