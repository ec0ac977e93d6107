/* SPDX-License-Identifier: MIT
 * berth tokenize: text to token ids, and back. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/verbs.h"
#include "common/engine.h"
#include "common/host.h"
#include "common/input.h"
#include "common/json_out.h"
#include "common/report.h"

struct tokenize_options {
    struct model_options model;
    const char *prompt, *ids;
    bool special, bos, json, pieces;
};

#define AT(field) offsetof(struct tokenize_options, field)

static const struct arg_option rows[] = {
    {.name = "prompt",
     .letter = 'p',
     .type = ARG_TEXT,
     .offset = AT(prompt),
     .value = "TEXT",
     .help = "the text (default: standard input)"},
    {.name = "ids", .type = ARG_TEXT, .offset = AT(ids), .value = "LIST", .help = "decode these ids instead"},
    {.name = "special",
     .type = ARG_FLAG,
     .offset = AT(special),
     .help = "special tokens written in the text become their ids;\nwith --ids: special tokens are shown"},
    {.name = "bos", .type = ARG_FLAG, .offset = AT(bos), .help = "add what the tokenizer puts around a text"},
    {.name = "pieces", .type = ARG_FLAG, .offset = AT(pieces), .help = "one id a line, with the token's spelling"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};

static const struct arg_group groups[] = {
    {"Options", rows, sizeof rows / sizeof rows[0], 0},
    {NULL, talk_option_rows, TALK_OPTIONS, AT(model)},
};
static const struct arg_positional positionals[] = {{"MODEL", AT(model.path), false}};

static const struct arg_spec spec = {
    .verb = "tokenize",
    .synopsis = "MODEL [-p TEXT | --ids LIST] [--special] [--bos] [--json]",
    .summary = "Turn text into token ids, or ids into text.",
    .details = "Only the tokenizer is loaded. Ids are printed on one line, 1,2,3, as --ids takes them.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = sizeof groups / sizeof groups[0],
};

struct tokenize {
    struct tokenize_options options;
    struct engine engine;
    struct id_list ids;
    char *typed;
    struct str text;
    char *piece;
    size_t piece_cap;
};

static void print_spelling(const struct tokenize *t, int32_t id)
{
    size_t bytes = 0;
    bool special = false;
    const char *text = berth_token_text(t->engine.model, id, &bytes, &special);
    struct json_out quoted;
    json_out_begin(&quoted, stdout);
    printf("%" PRId32 "\t", id);
    json_out_text(&quoted, NULL, text != NULL ? text : "", text != NULL ? bytes : 0);
    puts(special ? "\tspecial" : "");
}

static void print_ids(const struct tokenize *t)
{
    const struct id_list *ids = &t->ids;
    if (t->options.json) {
        struct json_out json;
        json_out_begin(&json, stdout);
        json_out_object(&json, NULL);
        json_out_u64(&json, "count", ids->count);
        json_out_array(&json, "ids", true);
        for (uint32_t i = 0; i < ids->count; i++) {
            json_out_i64(&json, NULL, ids->ids[i]);
        }
        json_out_close(&json);
        if (t->options.pieces) {
            json_out_array(&json, "pieces", false);
            for (uint32_t i = 0; i < ids->count; i++) {
                size_t bytes = 0;
                bool special = false;
                const char *text = berth_token_text(t->engine.model, ids->ids[i], &bytes, &special);
                json_out_text(&json, NULL, text != NULL ? text : "", text != NULL ? bytes : 0);
            }
            json_out_close(&json);
        }
        json_out_close(&json);
        json_out_end(&json);
        return;
    }
    for (uint32_t i = 0; i < ids->count; i++) {
        if (t->options.pieces) {
            print_spelling(t, ids->ids[i]);
        } else {
            printf("%s%" PRId32, i > 0 ? "," : "", ids->ids[i]);
        }
    }
    if (!t->options.pieces) {
        putchar('\n');
    }
}

static int encode(struct tokenize *t)
{
    const struct tokenize_options *o = &t->options;
    unsigned flags = (o->bos ? BERTH_TOKENIZE_BOS : 0) | (o->special ? BERTH_TOKENIZE_SPECIAL : 0);
    /* A token stands for at least one byte, except what BOS and byte pairs add around the text. */
    size_t cap = t->text.bytes + 16;
    berth_error err;
    size_t count = 0;
    t->ids.ids = engine_take("tokenize", cap * sizeof *t->ids.ids);
    if (t->ids.ids == NULL) {
        return EXIT_FAILED;
    }
    berth_status status =
        berth_tokenize(t->engine.model, t->text.ptr, t->text.bytes, flags, t->ids.ids, cap, &count, &err);
    if (status == BERTH_ERR_LIMIT && count > cap) {
        free(t->ids.ids);
        cap = count;
        t->ids.ids = engine_take("tokenize", cap * sizeof *t->ids.ids);
        if (t->ids.ids == NULL) {
            return EXIT_FAILED;
        }
        status = berth_tokenize(t->engine.model, t->text.ptr, t->text.bytes, flags, t->ids.ids, cap, &count, &err);
    }
    if (status != BERTH_OK) {
        return report_error("tokenize", &err);
    }
    t->ids.count = (uint32_t)count;
    print_ids(t);
    return EXIT_OK;
}

static int decode(struct tokenize *t)
{
    struct json_out json;
    berth_detok detok = {.show_special = t->options.special};
    t->piece_cap = berth_piece_max_bytes(t->engine.model);
    t->piece = engine_take("tokenize", t->piece_cap);
    if (t->piece == NULL) {
        return EXIT_FAILED;
    }
    for (uint32_t i = 0; i < t->ids.count; i++) { /* before anything is printed */
        size_t bytes;
        bool special;
        if (berth_token_text(t->engine.model, t->ids.ids[i], &bytes, &special) == NULL) {
            report_failure("tokenize", "the vocabulary has no token %" PRId32, t->ids.ids[i]);
            return EXIT_USAGE;
        }
    }
    if (t->options.json) {
        json_out_begin(&json, stdout);
        json_out_object(&json, NULL);
        json_out_string_begin(&json, "text");
    }
    for (uint32_t i = 0; i <= t->ids.count; i++) {
        size_t count = 0;
        berth_status status =
            i < t->ids.count ? berth_detok_push(t->engine.model, &detok, t->ids.ids[i], t->piece, t->piece_cap, &count)
                             : berth_detok_finish(&detok, t->piece, t->piece_cap, &count);
        if (status != BERTH_OK) {
            return report_failure("tokenize", "id %" PRIu32 " of the list could not be decoded: %s", i + 1,
                                  berth_status_text(status));
        }
        if (t->options.json) {
            json_out_string_add(&json, t->piece, count);
        } else {
            fwrite(t->piece, 1, count, stdout);
        }
    }
    if (t->options.json) {
        json_out_string_end(&json);
        json_out_close(&json);
        json_out_end(&json);
    } else {
        putchar('\n');
    }
    return EXIT_OK;
}

static int read_input(struct tokenize *t)
{
    const struct tokenize_options *o = &t->options;
    if (o->ids != NULL && o->prompt != NULL) {
        return report_usage("tokenize", "-p and --ids exclude each other");
    }
    if (o->ids != NULL) {
        return input_ids("tokenize", o->ids, input_most(0), &t->ids);
    }
    if (o->prompt != NULL) {
        t->text = str_from(o->prompt);
    } else {
        if (host_is_terminal(HOST_STDIN)) {
            return report_usage("tokenize", "no text: give -p TEXT or --ids LIST, or pipe text in");
        }
        int code = input_stdin("tokenize", input_most(0), &t->typed, &t->text.bytes);
        if (code != EXIT_OK) {
            return code;
        }
        t->text.ptr = t->typed;
    }
    if (!utf8_is_valid(t->text.ptr, t->text.bytes)) {
        return report_failure("tokenize", "the text is not UTF-8");
    }
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct tokenize t = {.options = {.json = false}};
    int code;
    if (!report_args(&spec, argc, argv, &t.options, &code)) {
        return code;
    }
    code = read_input(&t);
    if (code == EXIT_OK) {
        struct engine_needs needs = {
            .text_only = true,
            .text_bytes = t.text.bytes,
            .extra_bytes = (t.text.bytes + 16) * 2 * sizeof(int32_t),
        };
        code = engine_open(&t.engine, "tokenize", &t.options.model, &needs);
        if (code == EXIT_OK && !t.engine.info.has_tokenizer) {
            code = report_failure("tokenize", "this model has no tokenizer");
        } else if (code == EXIT_OK) {
            code = t.options.ids != NULL ? decode(&t) : encode(&t);
        }
        engine_close(&t.engine);
    }
    free(t.ids.ids);
    free(t.typed);
    free(t.piece);
    return code;
}

const struct verb verb_tokenize = {"tokenize", &spec, run, false};
