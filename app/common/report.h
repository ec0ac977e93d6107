/* SPDX-License-Identifier: MIT
 * What every verb says the same way: usage errors, help, failures, exit codes, and whether the output arrived. */
#ifndef APP_REPORT_H
#define APP_REPORT_H

#include <stdio.h>

#include "base/error.h"
#include "common/args.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_FIT = 3,
    EXIT_INTERRUPTED = 130,
    EXIT_PIPE = 141
};

/* Set once by main(): turns what was given for MODEL into a path (app/store/find.h); the exit code. */
extern int (*report_resolve_model)(const char *verb, const char **path);
/* The resolver looked a name up: what it loaded stays in memory. */
extern bool report_looked_up;
/* What was given for MODEL when it is neither a file nor a known name; NULL: something else. */
extern const char *report_unfound_model;

/* Parses a verb's command line; a positional MODEL is resolved. True: go on. False: help or a usage error was printed
 * and *code is the exit code. */
bool report_args(const struct arg_spec *spec, int argc, char **argv, void *target, int *code);

/* "berth VERB: PROBLEM" and where to look; returns EXIT_USAGE. */
int report_usage(const char *verb, const char *format, ...) BASE_PRINTF(2, 3);

/* Prints words up to column 80 and goes on at column `indent` of the next line; the cursor is at `column` now. What
 * stands in [brackets] stays together. Ends the line. */
void report_wrap(FILE *out, size_t column, size_t indent, const char *text);

void report_help(const struct arg_spec *spec, FILE *out);

/* Prints a failure of the library with its place; returns the exit code of its status. */
int report_error(const char *verb, const berth_error *err);
int report_exit_code(berth_status status);

/* "berth VERB: MESSAGE"; returns EXIT_FAILED. */
int report_failure(const char *verb, const char *format, ...) BASE_PRINTF(2, 3);
/* A remark that is not a failure. */
void report_note(const char *format, ...) BASE_PRINTF(1, 2);

/* Writes to stdout and flushes; false when it did not arrive. The first reason is kept for report_flush(). */
bool report_write(const char *text, size_t bytes);

/* Flushes stdout. When something written there was lost (full disk): says so and returns EXIT_FAILED; when its reader
 * has gone: EXIT_PIPE, in silence like other programs; otherwise returns `code`. */
int report_flush(const char *verb, int code);

#endif
