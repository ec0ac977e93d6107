/* SPDX-License-Identifier: MIT
 *
 * A tokenizer in memory: what both readers (tokenizer_json.c, tokenizer_gguf.c) fill and the encoder and the
 * detokenizer use. Private to the room.
 */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "text/added.h"
#include "text/merges.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/text.h"

enum { TEMPLATE_IDS_MAX = 8 };

/* What BERTH_TOKENIZE_BOS puts around a text. */
struct text_template {
    int32_t before[TEMPLATE_IDS_MAX], after[TEMPLATE_IDS_MAX];
    unsigned before_count, after_count;
};

enum decode_kind {
    DECODE_JOIN,       /* no decoder: spellings with spaces between them */
    DECODE_BYTE_LEVEL, /* from the byte-level alphabet to bytes */
    DECODE_SPELLING    /* spellings, with the replacements below */
};

struct decode {
    enum decode_kind kind;
    bool byte_fallback;            /* <0xNN> is a byte */
    bool fused;                    /* read: a later step sees the whole text, not a token */
    struct str replace, content;   /* replace.bytes == 0: nothing */
    struct str strip;              /* one character dropped at the very start; bytes == 0: none */
    struct str metaspace;          /* becomes a space, in the first token nothing; bytes == 0: none */
    bool metaspace_first_is_space; /* in the first token too */
};

struct text {
    struct vocab vocab;
    struct merges merges;
    int32_t byte_ids[256];     /* byte-level: the token of one byte; else of <0xNN>; VOCAB_NONE: there is none */
    bool byte_level;           /* pieces are bytes, spelt in the byte-level alphabet */
    bool byte_fallback;        /* characters without a token become their bytes' tokens */
    bool fuse_unknown;         /* a run of unknown characters is one token */
    bool whole_words;          /* a piece that is a token is not merged (ignore_merges) */
    bool whole_newlines;       /* the same, for runs of newlines only */
    int32_t unknown;           /* VOCAB_NONE: unknown characters vanish */
    struct added added_plain;  /* looked for before the normalizer */
    struct added added_normal; /* looked for after it */
    struct normalize_step *normalize;
    unsigned normalize_count;
    struct pretokenize_step *pretokenize;
    unsigned pretokenize_count;
    struct text_template around;
    struct decode decode;
    int32_t bos, eos;
    struct str chat_template;
    size_t piece_max_bytes;
    /* Scratch of text_encode(). */
    uint64_t text_bytes_max;
    struct pattern_matcher *matcher;
    char *repaired; /* [repaired_bytes] the input when it is not UTF-8 */
    size_t repaired_bytes;
    struct normalize_scratch normalize_scratch;
    struct merge_symbol *symbols; /* [symbols_count] */
    uint64_t *heap;               /* [2 x symbols_count] */
    uint32_t symbols_count;
};

/* The readers fill everything above "Scratch". */
berth_status tokenizer_json_build(const struct text_build *build, const struct checkpoint *checkpoint,
                                  struct text *text, berth_error *err);
berth_status tokenizer_gguf_build(const struct text_build *build, const struct checkpoint *checkpoint,
                                  struct text *text, berth_error *err);

/* Fills byte_ids from the vocabulary. */
void tokenizer_find_bytes(struct text *text);
/* Marks the tokens that are known to end an answer by their spelling (chat formats): special ones, or any, which then
 * become special. */
void tokenizer_mark_ends(struct text *text, bool any);
static inline void tokenizer_mark_end(struct text *text, int64_t id)
{
    if (id >= 0 && id < (int64_t)text->vocab.count && (text->vocab.flags[id] & VOCAB_USED) != 0) {
        text->vocab.flags[id] |= VOCAB_END;
    }
}

/* Any token by its spelling, added ones too; VOCAB_NONE: there is none. */
int32_t tokenizer_find(const struct text *text, struct str spelling);
/* "<0xNN>": the byte, else -1. */
int tokenizer_byte_token(struct str spelling);

#endif
