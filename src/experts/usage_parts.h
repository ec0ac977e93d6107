/* SPDX-License-Identifier: MIT
 * Inside the ledger: what struct usage holds, and the reader and writer of its file. Private to usage*.c and tests. */
#ifndef EXPERTS_USAGE_PARTS_H
#define EXPERTS_USAGE_PARTS_H

#include "base/str.h"
#include "experts/usage.h"

enum { USAGE_BUFFER_BYTES = 4096 };

struct usage_reader;

struct usage {
    int64_t *layers; /* [layers_count] */
    uint32_t layers_count, experts;
    uint64_t cells; /* layers_count x experts */
    uint32_t *counts, *heat, *last;
    uint32_t *delta; /* recorded since the last save; tolerant mode */
    uint32_t *fresh; /* what a read of the file gives */
    struct usage_reader *reader;
    char *buffer; /* [USAGE_BUFFER_BYTES] for reading and writing the file */
    uint32_t clock;
    uint64_t selections;
    uint64_t tokens; /* since the last save */
    bool dirty;
    double scale; /* what the file's counts are multiplied with at the next save */
    bool refused, keep_backup;
    char refusal[256];
    enum usage_mode mode;
    usage_warn_fn *warn;
    void *warn_user;
    bool has_engine, any_engine;
    uint32_t engine_id, model_layers;
    uint64_t fingerprint;
    double half_life_tokens;
    char path[USAGE_PATH_MAX], fallback_path[USAGE_PATH_MAX];
    bool on_fallback;
};

static inline uint32_t usage_saturate(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* Times factor, halves rounded up. */
uint32_t usage_scaled(uint32_t count, double factor);
/* Place of a layer, or layers_count. */
uint32_t usage_find_layer(const struct usage *usage, int64_t layer);

/* A number as JavaScript's Number() reads a field without white space around it; false: not a number. */
bool usage_number(struct str field, double *out);
/* Shortest text that reads back as the same number, as JavaScript writes it where that has no exponent. */
void usage_number_text(double value, char *out, size_t cap);
static inline bool usage_is_safe_integer(double value)
{
    return value >= -9007199254740991.0 && value <= 9007199254740991.0 && value == (double)(int64_t)value;
}

/* Reads a file fed in pieces. */
struct usage_reader {
    const struct usage *usage; /* NULL when scanning */
    uint32_t *counts;          /* [cells], added to */
    struct usage_shape *shape; /* scanning: rows are noted here and nowhere else */
    enum usage_mode mode;
    bool check; /* compare headers with the ledger's own */
    /* results */
    uint64_t rows, skipped, damaged, first_damaged_line;
    uint64_t file_layers, file_experts, file_version;
    uint32_t file_engine;
    uint64_t file_fingerprint;
    bool has_header, has_engine, binary, refused;
    char problem[256]; /* first damage or refusal: "line 3: invalid count 1.5" */
    /* private */
    uint64_t line, offset;
    uint32_t binary_word, binary_words;
    uint64_t binary_cell;
    size_t held;
    bool too_long;
    char text[USAGE_LINE_MAX + 1];
};
/* Notes the shape only; there is no ledger. */
void usage_reader_begin_scan(struct usage_reader *reader, struct usage_shape *shape);
void usage_reader_begin(struct usage_reader *reader, const struct usage *usage, uint32_t *counts, bool check);
void usage_reader_feed(struct usage_reader *reader, const char *bytes, size_t count);
void usage_reader_end(struct usage_reader *reader);

#endif
