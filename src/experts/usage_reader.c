/* SPDX-License-Identifier: MIT
 *
 * Reader of .coli_usage: rows "layer expert count", header rows with a negative layer, and the dense binary layout.
 *
 * Seed mode knows only rows and gives the file up at the first line that is not one. Tolerant mode leaves such lines
 * out, says so, and refuses files that belong to another model. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "experts/catalog.h"
#include "experts/usage_parts.h"

enum { HEADER_SHAPE = -1, HEADER_ENGINE = -2, HEADER_FINGERPRINT = -3 };

void usage_reader_begin(struct usage_reader *reader, const struct usage *usage, uint32_t *counts, bool check)
{
    memset(reader, 0, sizeof *reader);
    reader->usage = usage;
    reader->counts = counts;
    reader->mode = usage->mode;
    reader->check = check;
}

void usage_reader_begin_scan(struct usage_reader *reader, struct usage_shape *shape)
{
    memset(reader, 0, sizeof *reader);
    reader->shape = shape;
    reader->mode = USAGE_TOLERANT;
}

/* Scanning: which layers there are, and how many experts. */
static void note_shape(struct usage_reader *reader, double layer, double expert)
{
    struct usage_shape *shape = reader->shape;
    if (layer >= CATALOG_LAYERS_MAX || expert >= EXPERTS_MAX) {
        reader->skipped++;
        return;
    }
    uint32_t at = (uint32_t)layer;
    uint8_t bit = (uint8_t)(1u << at % 8);
    shape->layers_count += (shape->layers[at / 8] & bit) == 0 ? 1 : 0;
    shape->layers[at / 8] |= bit;
    shape->experts = (uint32_t)expert + 1 > shape->experts ? (uint32_t)expert + 1 : shape->experts;
    reader->rows++;
}

/* Bytes of the white space that starts at ptr, as JavaScript sees it (line feeds never get here). */
static size_t space_bytes(const char *ptr, size_t left)
{
    const unsigned char *p = (const unsigned char *)ptr;
    if (left == 0) {
        return 0;
    }
    if (p[0] == ' ' || (p[0] >= 0x09 && p[0] <= 0x0d)) {
        return 1;
    }
    if (left >= 2 && p[0] == 0xc2 && p[1] == 0xa0) {
        return 2; /* U+00A0 */
    }
    if (left < 3) {
        return 0;
    }
    uint32_t code = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
    bool space = code == 0xe19a80 ||                       /* U+1680 */
                 (code >= 0xe28080 && code <= 0xe2808a) || /* U+2000..U+200A */
                 code == 0xe280a8 || code == 0xe280a9 ||   /* U+2028, U+2029 */
                 code == 0xe280af ||                       /* U+202F */
                 code == 0xe2819f ||                       /* U+205F */
                 code == 0xe38080 ||                       /* U+3000 */
                 code == 0xefbbbf;                         /* U+FEFF */
    return space ? 3 : 0;
}

/* Fields of a line, at most four are kept; returns how many there are. */
static uint32_t split(struct str line, struct str fields[4])
{
    uint32_t count = 0;
    size_t at = 0;
    while (at < line.bytes) {
        size_t space = space_bytes(line.ptr + at, line.bytes - at);
        if (space > 0) {
            at += space;
            continue;
        }
        size_t first = at;
        while (at < line.bytes && space_bytes(line.ptr + at, line.bytes - at) == 0) {
            at++;
        }
        if (count < 4) {
            fields[count] = (struct str){line.ptr + first, at - first};
        }
        count++;
    }
    return count;
}

static void note(struct usage_reader *reader, const char *what, struct str field)
{
    if (reader->problem[0] == '\0') {
        int shown = field.bytes > 80 ? 80 : (int)field.bytes;
        char text[81];
        for (int i = 0; i < shown; i++) { /* whatever the file holds, it is told on somebody's terminal */
            unsigned char c = (unsigned char)field.ptr[i];
            text[i] = c >= ' ' && c < 0x7f ? (char)c : '?';
        }
        snprintf(reader->problem, sizeof reader->problem, "line %llu: %s%s%.*s", (unsigned long long)reader->line, what,
                 shown > 0 ? " " : "", shown, text);
        reader->first_damaged_line = reader->line;
    }
    reader->damaged++;
}

static void refuse(struct usage_reader *reader, const char *what, uint64_t got, uint64_t wanted)
{
    if (!reader->refused) {
        reader->refused = true;
        snprintf(reader->problem, sizeof reader->problem, "%s: the file has %llu, the model %llu", what,
                 (unsigned long long)got, (unsigned long long)wanted);
    }
}

static void header(struct usage_reader *reader, double kind, double a, double b)
{
    const struct usage *usage = reader->usage;
    bool whole = usage_is_safe_integer(a) && usage_is_safe_integer(b) && a >= 0.0 && b >= 0.0 && a <= UINT32_MAX &&
                 b <= UINT32_MAX;
    if (!whole) {
        return; /* a row of a later version: nothing we could compare */
    }
    if (kind == HEADER_SHAPE) {
        reader->has_header = true;
        reader->file_layers = (uint64_t)a;
        reader->file_experts = (uint64_t)b;
        if (reader->check && reader->file_experts != usage->experts) {
            refuse(reader, "experts of each layer", reader->file_experts, usage->experts);
        }
        if (reader->check && reader->file_layers != usage->model_layers) {
            refuse(reader, "layers", reader->file_layers, usage->model_layers);
        }
    } else if (kind == HEADER_ENGINE) {
        reader->has_header = reader->has_engine = true;
        reader->file_version = (uint64_t)a;
        reader->file_engine = (uint32_t)b;
        if (reader->check && reader->file_version > 1) {
            refuse(reader, "format version", reader->file_version, 1);
        }
        if (reader->check && usage->has_engine && !usage->any_engine && reader->file_engine != usage->engine_id) {
            refuse(reader, "engine id", reader->file_engine, usage->engine_id);
        }
    } else if (kind == HEADER_FINGERPRINT) {
        reader->has_header = true;
        reader->file_fingerprint = (uint64_t)a << 32 | (uint32_t)b;
        if (reader->check && usage->fingerprint != 0 && reader->file_fingerprint != usage->fingerprint) {
            refuse(reader, "model fingerprint", reader->file_fingerprint, usage->fingerprint);
        }
    }
}

static void add(struct usage_reader *reader, uint32_t index, uint32_t expert, uint32_t count)
{
    uint64_t cell = (uint64_t)index * reader->usage->experts + expert;
    reader->counts[cell] = usage_saturate((uint64_t)reader->counts[cell] + count);
    reader->rows++;
}

static void take_line(struct usage_reader *reader, struct str line)
{
    const struct usage *usage = reader->usage;
    bool seed = reader->mode == USAGE_SEED;
    struct str fields[4];
    struct str none = {"", 0};
    uint32_t found = split(line, fields);
    if (found == 0) {
        return;
    }
    if (found != 3 || reader->too_long) {
        note(reader, "expected layer expert count", none);
        return;
    }
    double layer = 0.0;
    double expert = 0.0;
    double count = 0.0;
    bool is_layer = usage_number(fields[0], &layer) && usage_is_safe_integer(layer);
    bool is_expert = usage_number(fields[1], &expert) && usage_is_safe_integer(expert) && expert >= 0.0;
    bool is_count =
        usage_number(fields[2], &count) && usage_is_safe_integer(count) && count >= 0.0 && count <= (double)UINT32_MAX;
    if (!seed && is_layer && layer < 0.0) {
        header(reader, layer, is_expert ? expert : -1.0, is_count ? count : -1.0);
        return;
    }
    if (reader->shape != NULL && is_layer && is_expert && is_count) {
        note_shape(reader, layer, expert);
        return;
    }
    uint32_t limit = usage != NULL ? usage->layers_count : 0;
    uint32_t index = is_layer && usage != NULL ? usage_find_layer(usage, (int64_t)layer) : limit;
    bool other = index == limit || expert >= (double)usage->experts;
    if (!is_layer || (seed && index == limit)) {
        note(reader, "invalid layer", fields[0]);
    } else if (!is_expert || (seed && expert >= (double)usage->experts)) {
        note(reader, "invalid expert", fields[1]);
    } else if (!is_count) {
        note(reader, "invalid count", fields[2]);
    } else if (other) {
        reader->skipped++;
    } else {
        add(reader, index, (uint32_t)expert, (uint32_t)count);
    }
}

/* The dense layout: magic, layers, experts, then one word for each. */
static void take_word(struct usage_reader *reader, uint32_t word)
{
    const struct usage *usage = reader->usage;
    uint32_t at = reader->binary_words < 3 ? reader->binary_words++ : 3;
    if (at == 1) {
        reader->file_layers = word;
    } else if (at == 2) {
        reader->file_experts = word;
        if (reader->check && word != usage->experts) {
            refuse(reader, "experts of each layer", word, usage->experts);
        }
    } else if (at == 3) {
        uint64_t cell = reader->binary_cell++;
        uint64_t layer = reader->file_experts == 0 ? UINT64_MAX : cell / reader->file_experts;
        if (layer >= reader->file_layers) {
            reader->damaged++;
            return;
        }
        uint64_t expert = cell % reader->file_experts;
        if (word != 0 && reader->shape != NULL) {
            note_shape(reader, (double)layer, (double)expert);
        } else if (word != 0) {
            uint32_t index = usage_find_layer(usage, (int64_t)layer);
            if (index == usage->layers_count || expert >= usage->experts) {
                reader->skipped++;
            } else {
                add(reader, index, (uint32_t)expert, word);
            }
        }
    }
}

static bool given_up(const struct usage_reader *reader)
{
    return reader->refused || (reader->mode == USAGE_SEED && reader->damaged > 0);
}

void usage_reader_feed(struct usage_reader *reader, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count && !given_up(reader); i++, reader->offset++) {
        char c = bytes[i];
        if (reader->mode == USAGE_TOLERANT && !reader->binary && reader->offset == 3 && c == '1' &&
            memcmp(reader->text, "IKU", 3) == 0 && reader->held == 3) {
            reader->binary = true;
            reader->binary_words = 1; /* the magic */
            reader->held = 0;
        } else if (reader->binary) {
            reader->text[reader->held++] = c;
            if (reader->held == 4) {
                reader->held = 0;
                take_word(reader, load_u32(reader->text));
            }
        } else if (c == '\n') {
            reader->line++;
            take_line(reader, (struct str){reader->text, reader->held});
            reader->held = 0;
            reader->too_long = false;
        } else if (reader->held < USAGE_LINE_MAX) {
            reader->text[reader->held++] = c;
        } else {
            reader->too_long = true;
        }
    }
}

void usage_reader_end(struct usage_reader *reader)
{
    if (given_up(reader)) {
        return;
    }
    if (!reader->binary) {
        reader->line++;
        take_line(reader, (struct str){reader->text, reader->held});
        return;
    }
    if (reader->held > 0 || reader->binary_words < 3 ||
        reader->binary_cell < reader->file_layers * reader->file_experts) {
        reader->damaged++;
    }
    if (reader->damaged > 0 && reader->problem[0] == '\0') {
        snprintf(reader->problem, sizeof reader->problem, "the table has %llu words, wanted %llu layers of %llu",
                 (unsigned long long)reader->binary_cell, (unsigned long long)reader->file_layers,
                 (unsigned long long)reader->file_experts);
    }
}
