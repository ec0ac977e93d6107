/* SPDX-License-Identifier: MIT
 *
 * Added tokens: spellings that are found in a text before anything else happens to it, longest first. The spellings are
 * kept sorted, so that a search narrows a range of them byte by byte: a trie without nodes.
 */
#ifndef TEXT_ADDED_H
#define TEXT_ADDED_H

#include "text/vocab.h"

enum { ADDED_SPECIAL = 1, ADDED_SINGLE_WORD = 2, ADDED_LSTRIP = 4, ADDED_RSTRIP = 8 };

struct added {
    uint32_t count;
    int32_t *ids;         /* [count], in order of spelling */
    uint32_t *starts;     /* [count + 1] into bytes */
    unsigned char *flags; /* [count] ADDED_* */
    char *bytes;
    uint32_t first[257]; /* range of those that start with a byte */
};

/* One token to be added; the spelling may lie in temp memory. */
struct added_entry {
    struct str spelling;
    int32_t id;
    unsigned flags;
};

/* Copies entries[0..count) into a new set; sorts them in place. Of equal spellings the last entry stays. */
berth_status added_layout(const struct text_build *build, struct added_entry *entries, uint32_t count,
                          struct added *out, berth_error *err);

/* A walk over a text: stretches of plain text and added tokens in turn. */
struct added_walk {
    const struct added *added;
    struct str text;
    size_t from;  /* where plain text not handed out yet starts */
    size_t scan;  /* where the search goes on */
    int32_t held; /* a token found behind plain text, handed out next; VOCAB_NONE */
    size_t held_end;
    bool want_special; /* false: special tokens are plain text */
};
void added_walk_begin(struct added_walk *walk, const struct added *added, struct str text, bool want_special);
/* The next stretch: *id is VOCAB_NONE for plain text (never empty). False at the end. */
bool added_walk_next(struct added_walk *walk, struct str *stretch, int32_t *id);

#endif
