/* SPDX-License-Identifier: MIT */
#include "common/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/host.h"
#include "common/report.h"

static bool grow(void **memory, size_t *cap, size_t item_bytes)
{
    size_t more = *cap == 0 ? 4096 / item_bytes : *cap * 2;
    void *moved = realloc(*memory, more * item_bytes);
    if (moved == NULL) {
        return false;
    }
    *memory = moved;
    *cap = more;
    return true;
}

uint64_t input_most(uint64_t budget_bytes)
{
    /* Buffers double as they grow, so up to three times this is held for a moment. */
    uint64_t part = budget_bytes / 8;
    if (budget_bytes == 0 || part > INPUT_BYTES_MAX) {
        return INPUT_BYTES_MAX;
    }
    return part > INPUT_BYTES_LEAST ? part : INPUT_BYTES_LEAST;
}

int input_stdin(const char *verb, uint64_t most_bytes, char **text, size_t *bytes)
{
    void *memory = NULL;
    size_t cap = 0;
    size_t used = 0;
    while (!feof(stdin)) {
        if (used == cap && !grow(&memory, &cap, 1)) {
            free(memory);
            return report_failure(verb, "the system has no memory for the prompt");
        }
        used += fread((char *)memory + used, 1, cap - used, stdin);
        if (ferror(stdin) || used > most_bytes) {
            free(memory);
            return used > most_bytes
                       ? report_failure(verb, "standard input holds more than %llu bytes, too many for this budget",
                                        (unsigned long long)most_bytes)
                       : report_failure(verb, "standard input could not be read: %s", strerror(errno));
        }
    }
    *text = memory;
    *bytes = used;
    return EXIT_OK;
}

size_t input_chomp(const char *text, size_t bytes)
{
    if (bytes > 0 && text[bytes - 1] == '\n') {
        bytes--;
        bytes -= bytes > 0 && text[bytes - 1] == '\r' ? 1 : 0;
    }
    return bytes;
}

/* ---- ids -------------------------------------------------------------------------------------------- */

struct id_reader {
    const char *verb, *what; /* what: "--ids" or a file name */
    struct id_list *out;
    size_t cap;
    uint64_t most;
    uint64_t value;
    bool in_number, comma; /* comma: one was read and wants an id after it */
    uint64_t at;           /* characters so far */
};

static int bad_id(const struct id_reader *reader, const char *why)
{
    return report_usage(reader->verb, "%s: %s at character %llu; want numbers like 1,2,3", reader->what, why,
                        (unsigned long long)reader->at);
}

static int keep_id(struct id_reader *reader)
{
    struct id_list *out = reader->out;
    if (out->count == reader->most) {
        return report_failure(reader->verb, "%s: more than %llu ids, too many for this budget", reader->what,
                              (unsigned long long)reader->most);
    }
    void *memory = out->ids;
    if (out->count == reader->cap) {
        if (!grow(&memory, &reader->cap, sizeof *out->ids)) {
            return report_failure(reader->verb, "the system has no memory for the ids");
        }
        out->ids = memory;
    }
    out->ids[out->count++] = (int32_t)reader->value;
    reader->in_number = false;
    reader->comma = false;
    return EXIT_OK;
}

static int take_char(struct id_reader *reader, int c)
{
    reader->at++;
    if (c >= '0' && c <= '9') {
        reader->value = (reader->in_number ? reader->value * 10 : 0) + (uint64_t)(c - '0');
        reader->in_number = true;
        return reader->value > INT32_MAX ? bad_id(reader, "an id is too large") : EXIT_OK;
    }
    bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (c != ',' && !space) {
        return bad_id(reader, "something that is no id");
    }
    if (reader->in_number) {
        int code = keep_id(reader);
        if (code != EXIT_OK) {
            return code;
        }
        reader->comma = c == ',';
        return EXIT_OK;
    }
    if (c == ',') {
        if (reader->comma || reader->out->count == 0) {
            return bad_id(reader, "an id is missing");
        }
        reader->comma = true;
    }
    return EXIT_OK;
}

static int finish_ids(struct id_reader *reader)
{
    if (reader->in_number) {
        return keep_id(reader);
    }
    if (reader->comma || reader->out->count == 0) {
        reader->at++;
        return bad_id(reader, "an id is missing");
    }
    return EXIT_OK;
}

static int clean_up(struct id_list *out, int code)
{
    if (code != EXIT_OK) {
        free(out->ids);
        *out = (struct id_list){0};
    }
    return code;
}

int input_ids(const char *verb, const char *text, uint64_t most_bytes, struct id_list *out)
{
    *out = (struct id_list){0};
    struct id_reader reader = {.verb = verb, .what = "--ids", .out = out, .most = most_bytes / sizeof(int32_t)};
    int code = EXIT_OK;
    for (; *text != '\0' && code == EXIT_OK; text++) {
        code = take_char(&reader, *text);
    }
    return clean_up(out, code == EXIT_OK ? finish_ids(&reader) : code);
}

int input_ids_file(const char *verb, const char *path, uint64_t most_bytes, struct id_list *out)
{
    *out = (struct id_list){0};
    FILE *file = host_open_text(path);
    if (file == NULL) {
        return report_failure(verb, "%s: %s", path, strerror(errno));
    }
    struct id_reader reader = {.verb = verb, .what = path, .out = out, .most = most_bytes / sizeof(int32_t)};
    int code = EXIT_OK;
    for (int c; code == EXIT_OK && (c = fgetc(file)) != EOF;) {
        code = take_char(&reader, c);
    }
    if (code == EXIT_OK && ferror(file)) {
        code = report_failure(verb, "%s: %s", path, strerror(errno));
    }
    fclose(file);
    return clean_up(out, code == EXIT_OK ? finish_ids(&reader) : code);
}
