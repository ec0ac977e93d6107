/* SPDX-License-Identifier: MIT
 *
 * The token list: spellings by id, ids by spelling. Spellings are kept as the file stores them (byte-level vocabularies
 * in their alphabet). Ids may have gaps. Tokens that text must never turn into by itself (special tokens, byte tokens)
 * are in the list but not in the index.
 */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "text/text_build.h"

enum {
    VOCAB_IDS_MAX = 1 << 21, /* ids are packed into 21 bits by merges.h */
    VOCAB_TOKEN_BYTES_MAX = 1 << 16,
    VOCAB_NONE = -1
};

enum {                     /* flags of a token */
       VOCAB_USED = 1,     /* the id exists */
       VOCAB_SPECIAL = 2,  /* control token: dropped from output, not found in text unless asked */
       VOCAB_BYTE = 4,     /* <0xNN> */
       VOCAB_END = 8,      /* ends generation */
       VOCAB_RAW = 16,     /* its spelling is its text, whatever the decoder does */
       VOCAB_RESPELT = 32, /* an added token that the normalizer changes: its text is the changed form */
       VOCAB_INDEXED = 64  /* found by its spelling */
};

struct vocab {
    uint32_t count;         /* ids 0 .. count - 1 */
    uint32_t longest_bytes; /* longest spelling */
    uint32_t slots_count;
    uint32_t *starts; /* [count + 1] into bytes */
    char *bytes;
    unsigned char *flags; /* [count] */
    uint32_t *slots;      /* [slots_count] id + 1 and ten bits of the hash above, 0: free; open addressing */
};

/* Room for `count` ids, `indexed` of them in the index, and all spellings together. The caller fills starts, bytes and
 * flags, then calls vocab_index() for each. */
berth_status vocab_layout(const struct text_build *build, uint32_t count, uint32_t indexed, uint64_t bytes,
                          struct vocab *out, berth_error *err);
/* Puts an id into the index. Returns the id that the spelling has afterwards: another one when it was taken. */
int32_t vocab_index(struct vocab *vocab, int32_t id);

int32_t vocab_find(const struct vocab *vocab, struct str spelling);
/* The same for many, which is quicker: the memory of all is on its way while the first is looked at. */
enum { VOCAB_FIND_MANY = 64 };
void vocab_find_many(const struct vocab *vocab, const struct str *spellings, uint32_t count, int32_t *ids);
/* Finds a followed by b. */
int32_t vocab_find_joined(const struct vocab *vocab, struct str a, struct str b);
/* The same, quicker when it is `guess` (any number). */
int32_t vocab_find_joined_near(const struct vocab *vocab, struct str a, struct str b, int32_t guess);
/* Finds text as spelt in the byte-level alphabet. */
int32_t vocab_find_byte_level(const struct vocab *vocab, struct str text);

static inline struct str vocab_spelling(const struct vocab *vocab, int32_t id)
{
    uint32_t start = vocab->starts[id];
    return (struct str){vocab->bytes + start, vocab->starts[id + 1] - start};
}

#endif
