/* SPDX-License-Identifier: MIT
 *
 * Normalizers: what happens to a text before it is split. A short list of steps, each from one buffer to another.
 */
#ifndef TEXT_NORMALIZE_H
#define TEXT_NORMALIZE_H

#include "text/pattern.h"

enum { NORMALIZE_STEPS_MAX = 16 };

enum normalize_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_PREPEND,    /* content, unless the text is empty */
    NORMALIZE_REPLACE,    /* every match of pattern by content */
    NORMALIZE_STRIP,      /* white space at the ends */
    NORMALIZE_NO_ACCENTS, /* drops marks */
    NORMALIZE_BYTE_LEVEL, /* bytes to the byte-level alphabet */
    NORMALIZE_SQUEEZE     /* SentencePiece: no spaces at the ends, no two in a row */
};

struct normalize_step {
    enum normalize_kind kind;
    bool left, right;       /* STRIP */
    struct str content;     /* PREPEND, REPLACE */
    struct pattern pattern; /* REPLACE */
};

/* Working memory: two text buffers and one of code points. */
struct normalize_scratch {
    char *buffers[2];
    size_t buffer_bytes;
    int32_t *points; /* [points_count] */
    size_t points_count;
    struct pattern_matcher *matcher;
};

/* Runs the steps over valid UTF-8. *out lies in `text` itself or in one of the buffers. */
berth_status normalize_run(const struct normalize_step *steps, unsigned count, const struct normalize_scratch *scratch,
                           struct str text, struct str *out, berth_error *err);

#endif
