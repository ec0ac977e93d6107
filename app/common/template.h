/* SPDX-License-Identifier: MIT
 *
 * Chat templates as rows: a recogniser that reads a model's template source, and a renderer that writes the same markup
 * as token ids. A template that no row recognises is refused, never approximated.
 *
 * What people type is encoded as plain text, so that "<|im_end|>" in a message stays ten characters of text; only the
 * row's own control tokens become control tokens. Neighbouring plain pieces are encoded together, as rendering the
 * whole text first would have done.
 */
#ifndef APP_TEMPLATE_H
#define APP_TEMPLATE_H

#include "base/error.h"
#include "base/str.h"

/* Where rendered markup goes: token ids. */
struct markup {
    berth_model *model;
    int32_t *ids; /* [cap] */
    size_t cap, count;
    char *plain; /* text not encoded yet */
    size_t plain_cap, plain_bytes;
    berth_status status; /* first failure; later calls do nothing */
    berth_error *err;
};

/* plain[plain_cap] and ids[cap] are the caller's. */
void markup_begin(struct markup *markup, berth_model *model, int32_t *ids, size_t cap, char *plain, size_t plain_cap,
                  berth_error *err);
void markup_plain(struct markup *markup, struct str text);
/* `token` must be one token of the vocabulary. */
void markup_control(struct markup *markup, const char *token);
void markup_id(struct markup *markup, int32_t id);
berth_status markup_end(struct markup *markup);

struct chat_template {
    const char *name;
    const char *end_token; /* what ends a message */
    bool (*recognises)(struct str source);
    /* A whole message: role "system", "user" or "assistant". */
    void (*message)(struct markup *markup, struct str role, struct str content);
    /* Up to where the model goes on with its answer. */
    void (*open_answer)(struct markup *markup);
    /* After an answer; `ended`: the model wrote end_token itself, it is in the sequence already. */
    void (*close_answer)(struct markup *markup, bool ended);
};

extern const struct chat_template *const chat_templates[]; /* ends with NULL */

/* The template in force: `wanted` by name when not NULL, else what the model's own source is recognised as. NULL: err
 * says which it is and what is supported. */
const struct chat_template *template_find(const berth_model *model, const char *wanted, berth_error *err);

/* Id of the template's end token, -1 when the vocabulary has none. */
int32_t template_end_id(berth_model *model, const struct chat_template *chosen);

/* The system message that the source puts in when the conversation has none; cut to cap, "" when there is none. */
size_t template_default_system(struct str source, char *text, size_t cap);
/* The source begins the conversation with the BOS token. */
bool template_wants_bos(struct str source);

#endif
