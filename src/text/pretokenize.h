/* SPDX-License-Identifier: MIT
 *
 * Pre-tokenizers: how a text is cut into the pieces that are merged one by one. The steps run depth first, one piece at
 * a time, so that no list of pieces is kept.
 */
#ifndef TEXT_PRETOKENIZE_H
#define TEXT_PRETOKENIZE_H

#include "text/pattern.h"

enum { PRETOKENIZE_STEPS_MAX = 16 };

enum pretokenize_kind {
    PRETOKENIZE_SPLIT,
    PRETOKENIZE_SPACE_PREFIX, /* a space before each piece that has none */
    PRETOKENIZE_METASPACE,    /* spaces become `content`, one is put before the piece */
    PRETOKENIZE_BYTE_LEVEL    /* bytes to the byte-level alphabet; as the last step it is left to the merging */
};

enum split_behavior {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_CONTIGUOUS,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT
};

enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER };

struct pretokenize_step {
    enum pretokenize_kind kind;
    enum split_behavior behavior; /* SPLIT */
    bool invert;                  /* SPLIT: what does not match counts as the match */
    enum prepend_scheme prepend;  /* METASPACE */
    struct str content;           /* METASPACE */
    struct pattern pattern;       /* SPLIT */
    char *buffer;                 /* all but SPLIT: where the changed piece goes */
    size_t buffer_bytes;
};

struct pretokenize {
    const struct pretokenize_step *steps;
    unsigned count;
    struct pattern_matcher *matcher;
    /* Gets each piece, none of them empty. */
    berth_status (*piece)(void *user, struct str piece, berth_error *err);
    void *user;
};

/* at_start: the text starts where the whole input starts (for PREPEND_FIRST). */
berth_status pretokenize_run(const struct pretokenize *run, struct str text, bool at_start, berth_error *err);

#endif
