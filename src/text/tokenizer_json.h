/* SPDX-License-Identifier: MIT
 * Shared by the readers of tokenizer.json and the configuration files beside it. Private to the room. */
#ifndef TEXT_TOKENIZER_JSON_H
#define TEXT_TOKENIZER_JSON_H

#include "text/json_read.h"
#include "text/tokenizer.h"

struct added_token {
    struct str spelling;
    int32_t id;
    unsigned flags; /* ADDED_* */
    bool normalized;
};

/* The parts around the model, each standing at its first token (kind JSON_ERROR: absent). */
struct tokenizer_parts {
    struct json added_tokens, normalizer, pre_tokenizer, post_processor, decoder;
    struct added_token *added; /* [added_count] in temp memory */
    uint32_t added_count;
};

/* Normalizer, added tokens, pre-tokenizer, post-processor, decoder. The vocabulary must be there. */
berth_status tokenizer_steps_read(const struct text_build *build, const struct tokenizer_parts *parts,
                                  struct text *text, berth_error *err);
/* tokenizer_config.json, generation_config.json, config.json: BOS, EOS, end tokens, chat template. */
berth_status tokenizer_config_read(const struct text_build *build, const struct checkpoint *checkpoint,
                                   struct text *text, berth_error *err);

#endif
