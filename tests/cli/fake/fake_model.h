/* SPDX-License-Identifier: MIT
 *
 * A scripted stand-in for the library's model and session, for testing the program's own logic: one token a byte, three
 * special tokens, and an answer that is given beforehand. Linked in place of src/session.
 */
#ifndef TESTS_FAKE_MODEL_H
#define TESTS_FAKE_MODEL_H

#include "berth.h"

enum { FAKE_IM_START = 256, FAKE_IM_END = 257, FAKE_END_OF_TEXT = 258, FAKE_LONG = 259, FAKE_VOCAB = 260 };
enum { FAKE_IDS_MAX = 1 << 16 };

struct fake {
    uint32_t ctx_tokens;
    const char *template_source; /* NULL: none */
    bool no_im_tokens;           /* the vocabulary lacks the ChatML tokens */
    /* What the model says, token by token; after its end: FAKE_IM_END. */
    int32_t answer[FAKE_IDS_MAX];
    uint32_t answer_count, answer_at;
    /* What the session saw. */
    int32_t ids[FAKE_IDS_MAX]; /* the sequence */
    uint32_t length;
    uint64_t evaluated; /* tokens in all evals */
    uint32_t evals;
    uint32_t fail_eval; /* the nth eval (from 1) fails with fail_status */
    berth_status fail_status;
};

extern struct fake fake;

/* Forgets everything. */
void fake_reset(uint32_t ctx_tokens);
/* The answer as text; "<|im_end|>" and "<|endoftext|>" in it become their tokens. */
void fake_say(const char *text);
berth_model *fake_model(void);
berth_session *fake_session(void);

#endif
