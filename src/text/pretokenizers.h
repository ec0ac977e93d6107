/* SPDX-License-Identifier: MIT
 * GGUF files do not carry their pre-tokenizer, only its name (tokenizer.ggml.pre). This table says what the names mean.
 */
#ifndef TEXT_PRETOKENIZERS_H
#define TEXT_PRETOKENIZERS_H

#include <stdbool.h>

#include "base/str.h"

enum { PRETOKENIZERS_PATTERNS_MAX = 6 };

enum {
    PRE_NFC = 1,         /* the published tokenizer normalises to NFC */
    PRE_WHOLE_WORDS = 2, /* a piece that is a token is not merged */
    PRE_BOS = 4          /* BOS is added unless tokenizer.ggml.add_bos_token says otherwise */
};

struct pretokenizers_row {
    const char *names;                                /* separated by spaces */
    unsigned flags;                                   /* PRE_* */
    const char *patterns[PRETOKENIZERS_PATTERNS_MAX]; /* applied in turn; matches and what is between them are pieces */
};

/* NULL: unknown. */
const struct pretokenizers_row *pretokenizers_find(struct str name);

#endif
