/* SPDX-License-Identifier: MIT */
#include "common/chat.h"

#include <string.h>

/* The least room for an answer that makes a turn worth starting. */
enum { ANSWER_MIN_TOKENS = 16 };

static void markup_at(struct chat *chat, struct markup *markup, berth_error *err)
{
    markup_begin(markup, chat->engine->model, chat->ids + chat->length, chat->cap - chat->length, chat->plain,
                 chat->plain_cap, err);
}

berth_status chat_begin(struct chat *chat, berth_error *err)
{
    chat->length = 0;
    chat->turns_count = 0;
    chat->answer_open = false;
    struct markup markup;
    markup_at(chat, &markup, err);
    if (chat->bos) {
        markup_id(&markup, chat->engine->info.bos_id);
    }
    if (chat->system_bytes > 0) {
        chat->template->message(&markup, STR("system"), (struct str){chat->system, chat->system_bytes});
    }
    TRY(markup_end(&markup));
    chat->length = (uint32_t)markup.count;
    chat->head_length = chat->length;
    return BERTH_OK;
}

berth_status chat_reset(struct chat *chat, berth_error *err)
{
    TRY(chat_begin(chat, err));
    uint32_t kept = berth_session_length(chat->engine->session);
    kept = kept < chat->head_length ? kept : chat->head_length;
    return berth_session_truncate(chat->engine->session, kept);
}

/* Takes the oldest turn out of the ids and out of the KV cache; what follows it will be evaluated again. False when
 * there is none. */
static bool drop_turn(struct chat *chat)
{
    if (chat->turns_count == 0) {
        return false;
    }
    uint32_t from = chat->turns[0];
    uint32_t end = chat->turns_count > 1 ? chat->turns[1] : chat->length;
    memmove(chat->ids + from, chat->ids + end, (chat->length - end) * sizeof *chat->ids);
    chat->length -= end - from;
    chat->turns_count--;
    for (uint32_t i = 0; i < chat->turns_count; i++) {
        chat->turns[i] = chat->turns[i + 1] - (end - from);
    }
    if (chat->turns_count == 0) {
        chat->answer_open = false;
    }
    if (berth_session_length(chat->engine->session) > from) {
        return berth_session_truncate(chat->engine->session, from) == BERTH_OK;
    }
    return true;
}

/* Renders the turn behind the sequence; *added is what it takes. */
static berth_status render_turn(struct chat *chat, struct str message, uint32_t *opening, uint32_t *added,
                                berth_error *err)
{
    struct markup markup;
    markup_at(chat, &markup, err);
    if (chat->answer_open) {
        chat->template->close_answer(&markup, chat->answer_ended);
        TRY(markup_end(&markup));
    }
    *opening = (uint32_t)markup.count;
    chat->template->message(&markup, STR("user"), message);
    chat->template->open_answer(&markup);
    TRY(markup_end(&markup));
    *added = (uint32_t)markup.count;
    return chat->length + *added + ANSWER_MIN_TOKENS > chat->cap
               ? error_set(err, BERTH_ERR_LIMIT,
                           "the context is full: %u of %u tokens, and this turn needs %u and room "
                           "for an answer",
                           chat->length, chat->cap, *added)
               : BERTH_OK;
}

berth_status chat_say(struct chat *chat, struct str message, uint32_t *fed, uint32_t *dropped, berth_error *err)
{
    *fed = 0;
    *dropped = 0;
    if (message.bytes > chat->plain_cap - 64) {
        return error_set(err, BERTH_ERR_ARGUMENT, "the message is longer than %zu bytes", chat->plain_cap - 64);
    }
    uint32_t opening = 0;
    uint32_t added = 0;
    berth_status status;
    while ((status = render_turn(chat, message, &opening, &added, err)) == BERTH_ERR_LIMIT && chat->drop_oldest &&
           drop_turn(chat)) {
        ++*dropped;
    }
    if (status == BERTH_OK && chat->turns_count == CHAT_TURNS_MAX) {
        status = error_set(err, BERTH_ERR_LIMIT, "the conversation has %d turns, which is the limit", CHAT_TURNS_MAX);
    }
    if (status != BERTH_OK) {
        return status;
    }
    uint32_t before = chat->length;
    chat->length += added;
    uint32_t known = berth_session_length(chat->engine->session);
    status = generate_feed(chat->engine, chat->ids + known, chat->length - known, err);
    *fed = berth_session_length(chat->engine->session) - known;
    if (status != BERTH_OK) { /* the turn did not happen; whole chunks of it that were evaluated are forgotten */
        chat->length = before;
        if (berth_session_length(chat->engine->session) > before) {
            berth_session_truncate(chat->engine->session, before);
        }
        return status;
    }
    chat->turns[chat->turns_count++] = before + opening;
    chat->answer_open = false;
    return BERTH_OK;
}

uint32_t chat_room(const struct chat *chat)
{
    return chat->cap - chat->length;
}

int32_t *chat_answer(const struct chat *chat)
{
    return chat->ids + chat->length;
}

void chat_answered(struct chat *chat, const struct generated *result)
{
    uint32_t count = result->count;
    chat->answer_open = true;
    chat->answer_ended = false;
    if (count > 0 && result->end == GENERATE_END_TOKEN) {
        chat->answer_ended = chat->ids[chat->length + count - 1] == chat->end_id;
        count -= chat->answer_ended ? 0 : 1; /* another end token has no place inside a conversation */
    }
    chat->length += count;
}
