/* SPDX-License-Identifier: MIT
 * The token table while a tokenizer.json is being converted: shared by the files of the vocabulary part. */
#ifndef CONVERT_VOCAB_TABLE_H
#define CONVERT_VOCAB_TABLE_H

#include "convert/vocab.h"
#include "model/json.h"

/* Values of tokenizer.ggml.token_type. */
enum token_type {
    TOKEN_ABSENT = 0,
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
};

enum { ID_NONE = -1 };

struct vocab {
    const struct checkpoint *checkpoint;
    struct arena *scratch;
    berth_error *err;
    uint32_t count;    /* rows of the embedding */
    struct str *texts; /* [count] unescaped; ptr NULL: no such token */
    uint8_t *types;    /* [count] enum token_type */
    float *scores;     /* [count]; "llama" only */
    uint32_t *slots;   /* hash table: id + 1, 0: empty */
    uint32_t slots_mask;
    bool byte_level;
    /* Parts of tokenizer.json */
    struct str added, normalizer, pre_tokenizer, post_processor;
    struct str type, tokens, merges, unknown;
    bool byte_fallback, ignore_merges;
};

/* The unescaped text of a KEY or STRING, in scratch memory ("" once that is full: check the arena). */
struct str vocab_take_text(struct vocab *v, const struct json_token *token);
/* Id of a text; ID_NONE. Valid after the table was indexed. */
int64_t vocab_lookup(const struct vocab *v, struct str text);
/* Id of a token given as a JSON string, or as an object with "content". */
int64_t vocab_named_token(struct vocab *v, struct str value);

/* Ids and flags of special tokens. */
void vocab_write_special(struct vocab *v, struct gguf_meta *meta);
/* tokenizer.chat_template, if there is one. */
berth_status vocab_write_template(struct vocab *v, struct gguf_meta *meta);

#endif
