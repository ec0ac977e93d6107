/* SPDX-License-Identifier: MIT */
#include "common/report.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/str.h"
#include "common/host.h"

void report_wrap(FILE *out, size_t column, size_t indent, const char *text)
{
    enum { COLUMNS = 80 };
    bool first = true;
    while (*text != '\0') {
        size_t bytes = 0;
        size_t columns = 0;
        int depth = 0;
        text += strspn(text, " \n");
        for (; text[bytes] != '\0' && ((text[bytes] != ' ' && text[bytes] != '\n') || depth > 0); bytes++) {
            depth += text[bytes] == '[' ? 1 : text[bytes] == ']' ? -1 : 0;
            columns += ((unsigned char)text[bytes] & 0xc0) != 0x80 ? 1 : 0;
        }
        if (!first && column + 1 + columns > COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first && bytes > 0) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, bytes, out);
        column += columns;
        text += bytes;
        first = false;
    }
    fputc('\n', out);
}

static void print_option(const struct arg_option *option, FILE *out)
{
    char left[64];
    int width =
        snprintf(left, sizeof left, "  %c%c%s--%s", option->letter != '\0' ? '-' : ' ',
                 option->letter != '\0' ? option->letter : ' ', option->letter != '\0' ? ", " : "  ", option->name);
    if (option->type != ARG_FLAG && width > 0 && (size_t)width < sizeof left) {
        size_t used = (size_t)width;
        size_t at = used;
        if (option->choices != NULL) {
            for (const struct arg_choice *choice = option->choices; choice->name != NULL && at < sizeof left;
                 choice++) {
                int more = snprintf(left + at, sizeof left - at, "%s%s", at == used ? " " : "|", choice->name);
                at += more > 0 ? (size_t)more : 0;
            }
        } else {
            snprintf(left + at, sizeof left - at, " %s", option->value);
        }
    }
    enum { HELP_COLUMN = 30 };
    fprintf(out, "%-30s", left);
    if (strlen(left) >= HELP_COLUMN) {
        fprintf(out, "\n%30s", "");
    }
    report_wrap(out, HELP_COLUMN, HELP_COLUMN, option->help);
}

/* Paragraphs: a line that does not end a sentence goes on. */
static void print_details(const char *text, FILE *out)
{
    char paragraph[1024];
    while (*text != '\0') {
        const char *end = text + strcspn(text, "\n");
        while (*end != '\0' && end > text && strchr(".:", end[-1]) == NULL) {
            end += 1 + strcspn(end + 1, "\n");
        }
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)(end - text), text);
        report_wrap(out, 0, 0, paragraph);
        text = *end != '\0' ? end + 1 : end;
    }
}

void report_help(const struct arg_spec *spec, FILE *out)
{
    int column = fprintf(out, "Usage: berth %s ", spec->verb);
    report_wrap(out, column > 0 ? (size_t)column : 0, 13, spec->synopsis);
    fputc('\n', out);
    report_wrap(out, 0, 0, spec->summary);
    for (size_t g = 0; g < spec->groups_count; g++) {
        if (spec->groups[g].title != NULL) { /* none: goes on with the section before */
            fprintf(out, "\n%s:\n", spec->groups[g].title);
        }
        for (size_t i = 0; i < spec->groups[g].count; i++) {
            if (!spec->groups[g].options[i].hidden) {
                print_option(&spec->groups[g].options[i], out);
            }
        }
    }
    if (spec->details != NULL) {
        fputc('\n', out);
        print_details(spec->details, out);
    }
}

int (*report_resolve_model)(const char *verb, const char **path);
bool report_looked_up;
const char *report_unfound_model;

static int resolve_models(const struct arg_spec *spec, void *target)
{
    int code = EXIT_OK;
    for (size_t i = 0; i < spec->positionals_count && code == EXIT_OK && report_resolve_model != NULL; i++) {
        const char **path = (const char **)(void *)((char *)target + spec->positionals[i].offset);
        if (strcmp(spec->positionals[i].name, "MODEL") == 0 && *path != NULL) {
            code = report_resolve_model(spec->verb, path);
        }
    }
    return code;
}

bool report_args(const struct arg_spec *spec, int argc, char **argv, void *target, int *code)
{
    char problem[ARGS_PROBLEM_MAX];
    switch (args_parse(spec, argc, argv, target, problem)) {
    case ARGS_OK:
        *code = resolve_models(spec, target);
        return *code == EXIT_OK;
    case ARGS_HELP:
        report_help(spec, stdout);
        *code = report_flush(spec->verb, EXIT_OK);
        return false;
    case ARGS_BAD:
        break;
    }
    *code = report_usage(spec->verb, "%s", problem);
    return false;
}

int report_usage(const char *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "berth %s: ", verb);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry 'berth help %s'.\n", verb);
    return EXIT_USAGE;
}

int report_exit_code(berth_status status)
{
    switch (status) {
    case BERTH_OK:
        return EXIT_OK;
    case BERTH_ERR_ARGUMENT:
        return EXIT_USAGE;
    case BERTH_ERR_BUDGET:
        return EXIT_NO_FIT;
    case BERTH_ERR_CANCELLED:
        return host_interrupted() ? host_interrupt_code() : EXIT_INTERRUPTED;
    case BERTH_ERR_MEMORY:
    case BERTH_ERR_IO:
    case BERTH_ERR_FORMAT:
    case BERTH_ERR_UNSUPPORTED:
    case BERTH_ERR_STATE:
    case BERTH_ERR_LIMIT:
    case BERTH_ERR_NOT_FOUND:
    case BERTH_ERR_INTERNAL:
        break;
    }
    return EXIT_FAILED;
}

/* Messages quote names out of files: whatever a terminal would act on is shown as '?'. */
static void put_safe(const char *text, FILE *out)
{
    size_t bytes = strlen(text);
    for (size_t i = 0; i < bytes;) {
        int length = utf8_sequence((const unsigned char *)text + i, bytes - i);
        unsigned char lead = (unsigned char)text[i];
        bool control = lead < 0x20 || lead == 0x7f || (lead == 0xc2 && (unsigned char)text[i + 1] < 0xa0);
        if (length <= 0 || control) {
            fputc('?', out);
            i += length > 0 ? (size_t)length : 1;
            continue;
        }
        fwrite(text + i, 1, (size_t)length, out);
        i += (size_t)length;
    }
}

int report_error(const char *verb, const berth_error *err)
{
    fprintf(stderr, "berth %s: ", verb);
    if (err->status == BERTH_ERR_NOT_FOUND && report_unfound_model != NULL &&
        strncmp(err->path, report_unfound_model, sizeof err->path - 1) == 0) {
        fputc('\'', stderr);
        put_safe(err->path, stderr);
        fputs("' is no file, and no known model is called so ('berth models' looks for them)\n", stderr);
        return EXIT_FAILED;
    }
    if (err->path[0] != '\0') {
        put_safe(err->path, stderr);
        fputs(": ", stderr);
    }
    put_safe(err->message[0] != '\0' ? err->message : berth_status_text(err->status), stderr);
    if (err->object[0] != '\0') {
        fputs(" [", stderr);
        put_safe(err->object, stderr);
        fputc(']', stderr);
    }
    if (err->layer >= 0) {
        fprintf(stderr, " [layer %d", (int)err->layer);
        if (err->expert >= 0) {
            fprintf(stderr, ", expert %d", (int)err->expert);
        }
        fputc(']', stderr);
    }
    if (err->offset != UINT64_MAX) {
        fprintf(stderr, " [at byte %llu]", (unsigned long long)err->offset);
    }
    fputc('\n', stderr);
    return report_exit_code(err->status);
}

int report_failure(const char *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "berth %s: ", verb);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return EXIT_FAILED;
}

void report_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("berth: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static int lost_errno; /* why the first write to stdout was lost */

bool report_write(const char *text, size_t bytes)
{
    errno = 0;
    bool arrived = fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
    if (!arrived && lost_errno == 0) {
        lost_errno = errno;
    }
    return arrived;
}

int report_flush(const char *verb, int code)
{
    static bool said; /* a verb flushes before it frees, main() after every verb */
    if (report_write("", 0) && !ferror(stdout)) {
        return code;
    }
    if (lost_errno == EPIPE) { /* whoever reads has seen enough, as with | head: what a signal would do, in words */
        return EXIT_PIPE;
    }
    if (!said) {
        fprintf(stderr, "berth %s: standard output could not be written: %s\n", verb,
                lost_errno != 0 ? strerror(lost_errno) : "an earlier write failed");
    }
    said = true;
    return EXIT_FAILED;
}
