/* SPDX-License-Identifier: MIT */
#include "common/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int input_stdin(const char *verb, char **text, size_t *bytes)
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
        if (ferror(stdin) || used > INPUT_TEXT_MAX) {
            free(memory);
            return used > INPUT_TEXT_MAX
                       ? report_failure(verb, "standard input holds more than %d MiB", INPUT_TEXT_MAX >> 20)
                       : report_failure(verb, "standard input could not be read: %s", strerror(errno));
        }
    }
    *text = memory;
    *bytes = used;
    return EXIT_OK;
}

/* ---- ids -------------------------------------------------------------------------------------------- */

struct id_reader {
    const char *verb, *what; /* what: "--ids" or a file name */
    struct id_list *out;
    size_t cap;
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
    if (out->count == INPUT_IDS_MAX) {
        return report_usage(reader->verb, "%s: more than %d ids", reader->what, INPUT_IDS_MAX);
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

int input_ids(const char *verb, const char *text, struct id_list *out)
{
    *out = (struct id_list){0};
    struct id_reader reader = {.verb = verb, .what = "--ids", .out = out};
    int code = EXIT_OK;
    for (; *text != '\0' && code == EXIT_OK; text++) {
        code = take_char(&reader, *text);
    }
    return clean_up(out, code == EXIT_OK ? finish_ids(&reader) : code);
}

int input_ids_file(const char *verb, const char *path, struct id_list *out)
{
    *out = (struct id_list){0};
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return report_failure(verb, "%s: %s", path, strerror(errno));
    }
    struct id_reader reader = {.verb = verb, .what = path, .out = out};
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
