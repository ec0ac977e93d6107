/* SPDX-License-Identifier: MIT
 * Error details: set once, where the fault is known; callers only pass the status up. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "berth.h"

#if defined(__GNUC__)
#define BASE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define BASE_PRINTF(fmt, args)
#endif

/* Clears *err (if any) and fills status and message. Returns `status`, so that `return error_set(...)` reads well.
 * Call the error_at_* functions after it to add the place. */
berth_status error_set(berth_error *err, berth_status status, const char *format, ...) BASE_PRINTF(3, 4);

#ifdef __clang_analyzer__
/* The analyser sees one file at a time and must be told that error_set() returns the status it was given. */
static inline berth_status error_given(berth_status status, berth_status returned)
{
    (void)returned;
    return status;
}
#define error_set(err, status, ...) error_given((status), (error_set)((err), (status), __VA_ARGS__))
#endif

/* Adds a place to an error that error_set() filled. Each accepts a NULL err. Long strings are cut at the front (paths)
 * or the end (objects), always NUL-terminated. */
void error_at_path(berth_error *err, const char *path);
void error_at_object(berth_error *err, const char *object, size_t object_bytes);
void error_at_offset(berth_error *err, uint64_t offset);
void error_at_expert(berth_error *err, int32_t layer, int32_t expert);

#define TRY(expression)                          \
    do {                                         \
        berth_status try_status_ = (expression); \
        if (try_status_ != BERTH_OK) {           \
            return try_status_;                  \
        }                                        \
    } while (0)

#endif
