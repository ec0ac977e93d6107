/* SPDX-License-Identifier: MIT
 *
 * A conversation on one session. What was said stays in the KV cache: each turn evaluates only its own new tokens. The
 * ids of the whole sequence are kept, so that the oldest turns can be dropped by evaluating the later ones again.
 */
#ifndef APP_CHAT_H
#define APP_CHAT_H

#include "common/generate.h"
#include "common/template.h"

enum { CHAT_TURNS_MAX = 4096, CHAT_SYSTEM_MAX = 4096 };

struct chat {
    struct engine *engine;
    const struct chat_template *template;
    int32_t end_id;
    bool bos; /* the sequence begins with the BOS token */
    bool drop_oldest;
    char system[CHAT_SYSTEM_MAX];
    size_t system_bytes;
    int32_t *ids; /* [ctx]: evaluated ids 0..session length, then what the next turn has rendered so far */
    uint32_t cap;
    uint32_t length;                /* ids in the sequence, answers included */
    uint32_t head_length;           /* BOS and system message: never dropped */
    uint32_t turns[CHAT_TURNS_MAX]; /* where each kept turn begins */
    uint32_t turns_count;
    bool answer_open;  /* the last answer has not been closed yet */
    bool answer_ended; /* by the template's own end token */
    char *plain;       /* [plain_cap] */
    size_t plain_cap;
};

/* Begins a conversation: renders BOS and system message; nothing is evaluated yet. */
berth_status chat_begin(struct chat *chat, berth_error *err);
/* Forgets everything but the system message. */
berth_status chat_reset(struct chat *chat, berth_error *err);

/* Adds the user's message and evaluates what is new, up to where the answer begins. BERTH_ERR_LIMIT: the context is
 * full (and nothing was added). *fed = tokens evaluated, *dropped = turns that had to go. */
berth_status chat_say(struct chat *chat, struct str message, uint32_t *fed, uint32_t *dropped, berth_error *err);

/* Room for an answer, in tokens, and where its ids go. */
uint32_t chat_room(const struct chat *chat);
int32_t *chat_answer(const struct chat *chat);
/* After generate() wrote `result` there. */
void chat_answered(struct chat *chat, const struct generated *result);

#endif
