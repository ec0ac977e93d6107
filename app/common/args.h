/* SPDX-License-Identifier: MIT
 *
 * Command lines as tables. A verb describes its options once; parsing, checking, help text and suggestions all read
 * that table. Values are written into the verb's own options struct by offset, so that defaults are simply what the
 * struct holds beforehand. `--name value` and `--name=value` mean the same; the last of repeated options wins; `--`
 * ends the options.
 */
#ifndef APP_ARGS_H
#define APP_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARG_TEXTS_MAX = 16 };

/* A repeatable text option. */
struct arg_texts {
    const char *items[ARG_TEXTS_MAX];
    uint32_t count;
};

enum arg_type {
    ARG_FLAG = 0, /* bool: true when given */
    ARG_TEXT,     /* const char * */
    ARG_TEXTS,    /* struct arg_texts */
    ARG_U32,      /* uint32_t within low..high */
    ARG_U64,      /* uint64_t within low..high */
    ARG_SIZE,     /* uint64_t bytes, at least low */
    ARG_BUDGET,   /* uint64_t bytes; "auto" is 0 */
    ARG_REAL,     /* float within real_low..real_high */
    ARG_CHOICE    /* int, one of choices */
};

struct arg_choice {
    const char *name; /* NULL ends the list */
    int value;
};

struct arg_option {
    const char *name; /* without the dashes */
    char letter;      /* '\0': none */
    enum arg_type type;
    size_t offset;     /* of the value in the group's struct */
    const char *value; /* what help calls the value: "BYTES" */
    const char *help;
    uint64_t low, high; /* high 0: no upper limit */
    double real_low, real_high;
    const struct arg_choice *choices;
    bool hidden; /* accepted, not listed */
};

/* Options that share a struct; the same group serves several verbs. */
struct arg_group {
    const char *title;
    const struct arg_option *options;
    size_t count;
    size_t base; /* offset of the group's struct in the verb's */
};

struct arg_positional {
    const char *name; /* "MODEL" */
    size_t offset;    /* const char * */
    bool optional;
};

struct arg_spec {
    const char *verb;
    const char *synopsis; /* what follows the verb on the usage line */
    const char *summary;  /* one line */
    const char *details;  /* paragraphs after the options; may be NULL */
    const struct arg_positional *positionals;
    size_t positionals_count;
    const struct arg_group *groups;
    size_t groups_count;
};

enum args_result { ARGS_OK, ARGS_HELP, ARGS_BAD };

enum { ARGS_PROBLEM_MAX = 256 };

/* Reads argv[0..argc) (without program and verb) into `target`. ARGS_BAD: problem is one sentence. */
enum args_result args_parse(const struct arg_spec *spec, int argc, char **argv, void *target,
                            char problem[ARGS_PROBLEM_MAX]);

/* The candidate closest to `word`, NULL when none is close. `candidates` ends with NULL. */
const char *args_suggest(const char *word, const char *const *candidates);

#endif
