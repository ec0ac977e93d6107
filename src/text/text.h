/* SPDX-License-Identifier: MIT
 *
 * Tokenizers: byte-level BPE (tokenizer.json, or GGUF metadata "gpt2" with its pre-tokenizer name) and
 * SentencePiece-style BPE with byte fallback ("llama" in GGUF, or tokenizer.json with byte_fallback). Everything lives
 * in the arena it was built in; encoding uses scratch set aside at build time for texts up to text_bytes_max, so it
 * allocates nothing.
 *
 * Results are those of the Hugging Face tokenizers library, to the id (tools/tokenizers/compare.js). Where llama.cpp
 * and the published tokenizer differ for a GGUF file (normalisation to NFC, space characters beyond ASCII), the
 * published one is followed, so that a model reads a text alike from both formats.
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
 * BERTH_ERR_UNSUPPORTED, named. What temp has to hold is not known before: give it room (address space is free) and
 * read temp->peak_bytes afterwards; it does not depend on text_bytes_max. Limits: 2^21 token ids, 2^24 merges, 64 KiB a
 * spelling or a pattern. */
berth_status text_layout(struct arena *arena, struct arena *temp, const struct checkpoint *checkpoint,
                         uint64_t text_bytes_max, struct text **out, berth_error *err);

/* The same in numbers, for who plans for several lengths of text: files are read once. */
struct text_size {
    uint64_t fixed_bytes; /* whatever the longest text */
    unsigned buffers;     /* of the scratch that grows with it */
    bool is_there;
};
berth_status text_measure(struct arena *temp, const struct checkpoint *checkpoint, struct text_size *out,
                          berth_error *err);
/* What text_layout() takes at the start of an arena; 0 without a tokenizer. */
berth_status text_size_bytes(const struct text_size *size, const struct checkpoint *checkpoint, uint64_t text_bytes_max,
                             uint64_t *bytes, berth_error *err);

/* See berth_tokenize(). Malformed UTF-8 in input reads as U+FFFD, once for each broken sequence.
 * BERTH_TOKENIZE_BOS adds what the model's own tokenizer adds around one text: for tokenizer.json the special tokens of
 * its post_processor, corrected by add_bos_token and add_eos_token of tokenizer_config.json when that file has them;
 * for GGUF BOS and EOS as tokenizer.ggml.add_bos_token and add_eos_token say, where the first defaults to true for
 * "llama" and "gemma4" and for the pre-tokenizers of Llama 3 and Mistral (tekken). Without BERTH_TOKENIZE_SPECIAL no
 * input gives the id of a special (control) token; added tokens that are not special are found always, as the reference
 * does it. */
berth_status text_encode(struct text *text, struct str input, unsigned flags, int32_t *ids, size_t cap, size_t *count,
                         berth_error *err);

uint32_t text_vocab(const struct text *text);
/* Spelling as stored; ptr NULL: no such id. */
struct str text_token(const struct text *text, int32_t id, bool *is_special);
size_t text_piece_max_bytes(const struct text *text); /* most bytes one detok push can write */
int32_t text_bos(const struct text *text);            /* -1: none */
int32_t text_eos(const struct text *text);
/* True for the ids that end an answer: EOS, the lists of generation_config.json and config.json, GGUF's eot and eom,
 * and special tokens that do so in the published chat formats (<|im_end|>, <|eot_id|>, ...). */
bool text_is_end(const struct text *text, int32_t id);
struct str text_chat_template(const struct text *text);

/* See berth_detok_push() / berth_detok_finish(). An id without a token writes nothing. SentencePiece texts start
 * without the space that encoding puts there; set detok->started when the tokens go on from a text that is there
 * already. */
berth_status text_detok_push(const struct text *text, berth_detok *detok, int32_t id, char *buffer, size_t cap,
                             size_t *count);
berth_status text_detok_finish(berth_detok *detok, char *buffer, size_t cap, size_t *count);

#endif
