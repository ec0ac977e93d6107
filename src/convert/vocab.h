/* SPDX-License-Identifier: MIT
 *
 * tokenizer.json as GGUF metadata (tokenizer.ggml.*), with the values llama.cpp expects: model "gpt2" with the name of
 * its pre-tokenizer for byte-level BPE, "llama" with scores for BPE with byte fallback, "none" without a tokenizer.
 */
#ifndef CONVERT_VOCAB_H
#define CONVERT_VOCAB_H

#include "base/log.h"
#include "convert/gguf_write.h"
#include "memory/arena.h"
#include "model/checkpoint.h"

/* Appends the pairs. `vocab` is the number of rows of the embedding: ids without a token become "[PAD<id>]". `scratch`
 * is rewound before return. */
berth_status convert_vocab(const struct checkpoint *checkpoint, uint32_t vocab, struct arena *scratch,
                           const struct log_sink *log, struct gguf_meta *meta, berth_error *err);

/* Upper bound of the bytes that convert_vocab() appends. */
uint64_t convert_vocab_bytes(const struct checkpoint *checkpoint, uint32_t vocab);

/* The name that stands for a pre-tokenizer (the "pre_tokenizer" value of tokenizer.json) in GGUF files; NULL: unknown,
 * or none is needed. */
const char *convert_pre_name(struct str pre_tokenizer, bool ignore_merges, bool *byte_level);

/* ---- reading small parts of JSON documents; shared with the tests ---- */

enum { JSON_PARTS_MAX = 8 };
/* Slices of the values of an object's members; absent ones get ptr NULL. False: not an object, or malformed. */
bool vocab_json_parts(struct str object, const char *const *names, uint32_t count, struct str *out);

#endif
