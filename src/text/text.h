/* SPDX-License-Identifier: MIT
 *
 * Tokenizers: byte-level BPE (tokenizer.json, or GGUF metadata "gpt2" with its pre-tokenizer name) and
 * SentencePiece-style BPE with byte fallback ("llama" in GGUF, or tokenizer.json with byte_fallback). Everything lives
 * in the arena it was built in; encoding uses scratch set aside at build time for texts up to text_bytes_max, so it
 * allocates nothing.
 */
#ifndef TEXT_TEXT_H
#define TEXT_TEXT_H

#include "base/str.h"
#include "memory/arena.h"
#include "model/checkpoint.h"

struct text; /* the tokenizer of one model */

/* Builds from a checkpoint. Run once on a measuring arena (*out stays NULL; counts exactly what the carving run takes),
 * once on a carving one. `temp` (carving) is for build-time work and is rewound before return. A checkpoint without a
 * tokenizer gives BERTH_OK, *out NULL and takes nothing. An unknown tokenizer or pre-tokenizer is
 * BERTH_ERR_UNSUPPORTED, named. */
berth_status text_layout(struct arena *arena, struct arena *temp, const struct checkpoint *checkpoint,
                         uint64_t text_bytes_max, struct text **out, berth_error *err);

/* See berth_tokenize(). */
berth_status text_encode(struct text *text, struct str input, unsigned flags, int32_t *ids, size_t cap, size_t *count,
                         berth_error *err);

uint32_t text_vocab(const struct text *text);
struct str text_token(const struct text *text, int32_t id,
                      bool *is_special);              /* spelling as stored; ptr NULL: no such id */
size_t text_piece_max_bytes(const struct text *text); /* most bytes one detok push can write */
int32_t text_bos(const struct text *text);            /* -1: none */
int32_t text_eos(const struct text *text);
bool text_is_end(
    const struct text *text,
    int32_t id); /* eos list of generation_config.json / config.json, GGUF eos and eot, <|im_end|>-type tokens */
struct str text_chat_template(const struct text *text);

/* See berth_detok_push() / berth_detok_finish(). */
berth_status text_detok_push(const struct text *text, berth_detok *detok, int32_t id, char *buffer, size_t cap,
                             size_t *count);
berth_status text_detok_finish(berth_detok *detok, char *buffer, size_t cap, size_t *count);

#endif
