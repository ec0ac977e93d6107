/* SPDX-License-Identifier: MIT
 * The few names of cmocka that the kernel tests use, for a cross build where the library is not at hand: the first
 * failure ends the program. */
#ifndef CROSS_CMOCKA_H
#define CROSS_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define fail_msg(...)                          \
    do {                                       \
        printf("%s:%d: ", __FILE__, __LINE__); \
        printf(__VA_ARGS__);                   \
        printf("\n");                          \
        exit(1);                               \
    } while (0)
#define assert_true(condition)                 \
    do {                                       \
        if (!(condition)) {                    \
            fail_msg("false: %s", #condition); \
        }                                      \
    } while (0)
#define assert_null(p) assert_true((p) == NULL)
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_int_equal(a, b) assert_true((unsigned long long)(a) == (unsigned long long)(b))
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_string_not_equal(a, b) assert_true(strcmp((a), (b)) != 0)
#define assert_memory_equal(a, b, n) assert_true(memcmp((a), (b), (n)) == 0)
#define print_message printf

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};
#define cmocka_unit_test(function) \
    {                              \
#function, function        \
    }
#define cmocka_run_group_tests(tests, setup, teardown) cross_run((tests), sizeof(tests) / sizeof *(tests))

static inline int cross_run(const struct CMUnitTest *tests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *state = NULL;
        printf("%s\n", tests[i].name);
        fflush(stdout);
        tests[i].run(&state);
    }
    printf("%zu test(s) passed\n", count);
    return 0;
}

#endif
