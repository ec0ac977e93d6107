/* SPDX-License-Identifier: MIT */
#include "common/args.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "common/sizes.h"

static enum args_result bad(char problem[ARGS_PROBLEM_MAX], const char *format, ...) BASE_PRINTF(2, 3);

static enum args_result bad(char problem[ARGS_PROBLEM_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(problem, ARGS_PROBLEM_MAX, format, args);
    va_end(args);
    return ARGS_BAD;
}

/* Edit distance with swaps of neighbours, for words short enough to matter. */
static size_t distance(const char *a, const char *b)
{
    enum { WORD_MAX = 32 };
    size_t rows = strlen(a);
    size_t columns = strlen(b);
    if (rows >= WORD_MAX || columns >= WORD_MAX) {
        return WORD_MAX;
    }
    size_t line[3][WORD_MAX + 1];
    for (size_t j = 0; j <= columns; j++) {
        line[0][j] = j;
    }
    for (size_t i = 1; i <= rows; i++) {
        size_t *now = line[i % 3];
        const size_t *before = line[(i + 2) % 3];
        const size_t *before2 = line[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t best = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            best = before[j] + 1 < best ? before[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before2[j - 2] + 1 < best) {
                best = before2[j - 2] + 1;
            }
            now[j] = best;
        }
    }
    return line[rows % 3][columns];
}

const char *args_suggest(const char *word, const char *const *candidates)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) < 4 ? 2 : 3; /* must be below */
    size_t length = strlen(word);
    for (; *candidates != NULL; candidates++) {
        size_t d = distance(word, *candidates);
        if (length >= 2 && strncmp(word, *candidates, length) == 0) {
            d = 1; /* a beginning of it */
        }
        if (d < best_distance) {
            best_distance = d;
            best = *candidates;
        }
    }
    return best;
}

static const char *suggest_option(const struct arg_spec *spec, const char *word)
{
    const char *best = NULL;
    for (size_t g = 0; g < spec->groups_count; g++) {
        for (size_t i = 0; i < spec->groups[g].count; i++) {
            const char *candidates[3] = {spec->groups[g].options[i].name, best, NULL};
            best = spec->groups[g].options[i].hidden ? best : args_suggest(word, candidates);
            best = best == NULL ? candidates[1] : best;
        }
    }
    return best;
}

static const struct arg_option *find_option(const struct arg_spec *spec, const char *name, size_t length, char letter,
                                            size_t *base)
{
    for (size_t g = 0; g < spec->groups_count; g++) {
        const struct arg_group *group = &spec->groups[g];
        for (size_t i = 0; i < group->count; i++) {
            const struct arg_option *option = &group->options[i];
            bool matches = letter != '\0' ? option->letter == letter
                                          : strlen(option->name) == length && memcmp(option->name, name, length) == 0;
            if (matches) {
                *base = group->base;
                return option;
            }
        }
    }
    return NULL;
}

static enum args_result take_number(const struct arg_option *option, const char *shown, const char *text, void *place,
                                    char problem[ARGS_PROBLEM_MAX])
{
    uint64_t value;
    uint64_t high = option->high != 0 ? option->high : option->type == ARG_U32 ? UINT32_MAX : UINT64_MAX;
    if (!number_parse(text, &value)) {
        uint64_t below;
        if (text[0] == '-' && number_parse(text + 1, &below)) {
            return bad(problem, "%s: %.60s is out of range, want %llu to %llu", shown, text,
                       (unsigned long long)option->low, (unsigned long long)high);
        }
        return bad(problem, "%s: '%.60s' is not a whole number", shown, text);
    }
    if (value < option->low || value > high) {
        return bad(problem, "%s: %llu is out of range, want %llu to %llu", shown, (unsigned long long)value,
                   (unsigned long long)option->low, (unsigned long long)high);
    }
    if (option->type == ARG_U32) {
        *(uint32_t *)place = (uint32_t)value;
    } else {
        *(uint64_t *)place = value;
    }
    return ARGS_OK;
}

static enum args_result take_size(const struct arg_option *option, const char *shown, const char *text, void *place,
                                  char problem[ARGS_PROBLEM_MAX])
{
    uint64_t value = 0;
    if (option->type == ARG_BUDGET && strcmp(text, "auto") == 0) {
        *(uint64_t *)place = 0;
        return ARGS_OK;
    }
    if (!size_parse(text, &value)) {
        char hint[FORMAT_MAX];
        if (size_hint(text, hint, sizeof hint)) {
            return bad(problem, "%s: '%.60s' is not a size; did you mean '%s'?", shown, text, hint);
        }
        return bad(problem, "%s: '%.60s' is not a size; write bytes, or a number with B, KB..TB or KiB..TiB", shown,
                   text);
    }
    if (value < option->low || (option->type == ARG_BUDGET && value == 0)) {
        return bad(problem, "%s: %llu bytes is too small", shown, (unsigned long long)value);
    }
    *(uint64_t *)place = value;
    return ARGS_OK;
}

static enum args_result take_real(const struct arg_option *option, const char *shown, const char *text, void *place,
                                  char problem[ARGS_PROBLEM_MAX])
{
    double value;
    if (!real_parse(text, &value)) {
        return bad(problem, "%s: '%.60s' is not a number", shown, text);
    }
    if (value < option->real_low || value > option->real_high) {
        return bad(problem, "%s: %g is out of range, want %g to %g", shown, value, option->real_low, option->real_high);
    }
    *(float *)place = (float)value;
    return ARGS_OK;
}

static enum args_result take_choice(const struct arg_option *option, const char *shown, const char *text, void *place,
                                    char problem[ARGS_PROBLEM_MAX])
{
    char list[160] = "";
    for (const struct arg_choice *choice = option->choices; choice->name != NULL; choice++) {
        if (strcmp(text, choice->name) == 0) {
            *(int *)place = choice->value;
            return ARGS_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", choice->name);
    }
    return bad(problem, "%s: '%.60s' is not one of %s", shown, text, list);
}

static enum args_result take_value(const struct arg_option *option, const char *shown, const char *text, void *place,
                                   char problem[ARGS_PROBLEM_MAX])
{
    switch (option->type) {
    case ARG_FLAG:
        *(bool *)place = true;
        return ARGS_OK;
    case ARG_TEXT:
        *(const char **)place = text;
        return ARGS_OK;
    case ARG_TEXTS: {
        struct arg_texts *texts = place;
        if (texts->count == ARG_TEXTS_MAX) {
            return bad(problem, "%s: at most %d of them", shown, ARG_TEXTS_MAX);
        }
        texts->items[texts->count++] = text;
        return ARGS_OK;
    }
    case ARG_U32:
    case ARG_U64:
        return take_number(option, shown, text, place, problem);
    case ARG_SIZE:
    case ARG_BUDGET:
        return take_size(option, shown, text, place, problem);
    case ARG_REAL:
        return take_real(option, shown, text, place, problem);
    case ARG_CHOICE:
        return take_choice(option, shown, text, place, problem);
    }
    return bad(problem, "%s: unknown kind of option", shown);
}

/* One option at argv[*at]; moves *at past what it used. */
static enum args_result take_option(const struct arg_spec *spec, int argc, char **argv, int *at, void *target,
                                    char problem[ARGS_PROBLEM_MAX])
{
    const char *word = argv[*at];
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    const char *equals = strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        return ARGS_HELP;
    }
    size_t base = 0;
    const struct arg_option *option = NULL;
    if (is_long) {
        option = find_option(spec, name, length, '\0', &base);
    } else if (length == 1) {
        option = find_option(spec, NULL, 0, name[0], &base);
    }
    char shown[64];
    snprintf(shown, sizeof shown, "%.*s", (int)(length + (is_long ? 2 : 1)), word);
    if (option == NULL) {
        const char *near = is_long && length < sizeof shown - 2 ? suggest_option(spec, shown + 2) : NULL;
        return near != NULL ? bad(problem, "unknown option '%s'; did you mean '--%s'?", shown, near)
                            : bad(problem, "unknown option '%s'", shown);
    }
    const char *value = equals != NULL ? equals + 1 : NULL;
    *at += 1;
    if (option->type == ARG_FLAG) {
        if (value != NULL) {
            return bad(problem, "%s takes no value", shown);
        }
    } else if (value == NULL) {
        if (*at >= argc) {
            return bad(problem, "%s needs a value (%s)", shown, option->value);
        }
        value = argv[*at];
        *at += 1;
    }
    return take_value(option, shown, value, (char *)target + base + option->offset, problem);
}

enum args_result args_parse(const struct arg_spec *spec, int argc, char **argv, void *target,
                            char problem[ARGS_PROBLEM_MAX])
{
    size_t taken = 0;
    bool options_over = false;
    for (int i = 0; i < argc;) {
        const char *word = argv[i];
        if (!options_over && word[0] == '-' && word[1] != '\0') {
            if (strcmp(word, "--") == 0) {
                options_over = true;
                i++;
                continue;
            }
            enum args_result result = take_option(spec, argc, argv, &i, target, problem);
            if (result != ARGS_OK) {
                return result;
            }
            continue;
        }
        if (taken == spec->positionals_count) {
            return bad(problem, "unexpected argument '%.80s'", word);
        }
        *(const char **)(void *)((char *)target + spec->positionals[taken].offset) = word;
        taken++;
        i++;
    }
    if (taken < spec->positionals_count && !spec->positionals[taken].optional) {
        return bad(problem, "%s is missing", spec->positionals[taken].name);
    }
    return ARGS_OK;
}
