/* SPDX-License-Identifier: MIT
 *
 * The merge table of byte pair encoding, and the merging itself.
 *
 * A merge says: symbol `left` before symbol `right` becomes `result`. The one of lowest rank goes first, among equals
 * the leftmost (as the reference libraries do it). Ranks are the order of the table, except for SentencePiece
 * vocabularies, where a merge ranks by the score of its result and equal scores tie.
 */
#ifndef TEXT_MERGES_H
#define TEXT_MERGES_H

#include "text/vocab.h"

enum { MERGES_MAX = 1 << 24 };

struct merges {
    uint32_t count;
    uint32_t slots_count;
    uint64_t *packed;            /* [count] left | right << 21 | result << 42 */
    uint32_t *slots;             /* [slots_count] index + 1 and seven bits of the hash above, 0: free */
    const uint32_t *result_rank; /* [vocabulary] by result; NULL: the rank is the index */
};

/* Room for `count` merges. The caller adds them in order of rank. */
berth_status merges_layout(const struct text_build *build, uint64_t count, struct merges *out, berth_error *err);
/* `replace`: a pair that is there already gets the new rank and result (Hugging Face); else the first one stays. */
void merges_add(struct merges *merges, uint32_t index, int32_t left, int32_t right, int32_t result, bool replace);

/* Says that a pair will be added soon. */
void merges_expect(const struct merges *merges, int32_t left, int32_t right);

/* One symbol of a piece of text while it is merged: a doubly linked list inside an array. */
struct merge_symbol {
    int32_t id;    /* VOCAB_NONE: merged away */
    uint32_t next; /* symbols: array index, count: none */
    uint32_t prev; /* UINT32_MAX: none */
    uint32_t pair; /* merge of this and the next symbol: index, UINT32_MAX: none */
};

/* Merges symbols[0..count) as far as it goes; only .id needs to be set. The result is packed to the front and its
 * length returned. `heap` holds 2 x count entries. O(count log count). */
uint32_t merges_apply(const struct merges *merges, struct merge_symbol *symbols, uint32_t count, uint64_t *heap);

#endif
