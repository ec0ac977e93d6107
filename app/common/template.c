/* SPDX-License-Identifier: MIT */
#include "common/template.h"

#include <stdio.h>
#include <string.h>

/* ---- markup to ids ---------------------------------------------------------------------------------- */

void markup_begin(struct markup *markup, berth_model *model, int32_t *ids, size_t cap, char *plain, size_t plain_cap,
                  berth_error *err)
{
    *markup =
        (struct markup){.model = model, .ids = ids, .cap = cap, .plain = plain, .plain_cap = plain_cap, .err = err};
}

static void encode(struct markup *markup, const char *text, size_t bytes, unsigned flags)
{
    size_t count = 0;
    markup->status = berth_tokenize(markup->model, text, bytes, flags, markup->ids + markup->count,
                                    markup->cap - markup->count, &count, markup->err);
    if (markup->status == BERTH_OK) {
        markup->count += count;
    } else if (markup->status == BERTH_ERR_LIMIT && count > markup->cap - markup->count) {
        error_set(markup->err, BERTH_ERR_LIMIT, "the conversation needs %zu more tokens than the context holds",
                  count - (markup->cap - markup->count));
    }
}

static void flush(struct markup *markup)
{
    if (markup->status == BERTH_OK && markup->plain_bytes > 0) {
        encode(markup, markup->plain, markup->plain_bytes, 0);
    }
    markup->plain_bytes = 0;
}

void markup_plain(struct markup *markup, struct str text)
{
    if (markup->status != BERTH_OK) {
        return;
    }
    if (text.bytes > markup->plain_cap - markup->plain_bytes) {
        markup->status = error_set(markup->err, BERTH_ERR_LIMIT, "a message of %zu bytes is too long; at most %zu",
                                   text.bytes, markup->plain_cap);
        return;
    }
    memcpy(markup->plain + markup->plain_bytes, text.ptr, text.bytes);
    markup->plain_bytes += text.bytes;
}

void markup_control(struct markup *markup, const char *token)
{
    flush(markup);
    if (markup->status != BERTH_OK) {
        return;
    }
    size_t before = markup->count;
    encode(markup, token, strlen(token), BERTH_TOKENIZE_SPECIAL);
    if (markup->status == BERTH_OK && markup->count != before + 1) {
        markup->status = error_set(markup->err, BERTH_ERR_UNSUPPORTED,
                                   "the vocabulary has no token %s, which this chat template needs", token);
    }
}

void markup_id(struct markup *markup, int32_t id)
{
    flush(markup);
    if (markup->status != BERTH_OK) {
        return;
    }
    if (markup->count == markup->cap) {
        markup->status = error_set(markup->err, BERTH_ERR_LIMIT, "the conversation does not fit the context");
        return;
    }
    markup->ids[markup->count++] = id;
}

berth_status markup_end(struct markup *markup)
{
    flush(markup);
    return markup->status;
}

/* ---- reading template sources ----------------------------------------------------------------------- */

static const char *find(struct str source, size_t from, const char *what)
{
    size_t bytes = strlen(what);
    for (size_t i = from; i + bytes <= source.bytes; i++) {
        if (memcmp(source.ptr + i, what, bytes) == 0) {
            return source.ptr + i;
        }
    }
    return NULL;
}

static bool has(struct str source, const char *what)
{
    return find(source, 0, what) != NULL;
}

static uint32_t times(struct str source, const char *what)
{
    uint32_t count = 0;
    const char *at;
    for (size_t from = 0; (at = find(source, from, what)) != NULL; count++) {
        from = (size_t)(at - source.ptr) + strlen(what);
    }
    return count;
}

/* What follows the last `what`; empty when there is none. */
static struct str after_last(struct str source, const char *what)
{
    struct str tail = {source.ptr + source.bytes, 0};
    const char *at;
    for (size_t from = 0; (at = find(source, from, what)) != NULL;) {
        from = (size_t)(at - source.ptr) + strlen(what);
        tail = (struct str){source.ptr + from, source.bytes - from};
    }
    return tail;
}

bool template_wants_bos(struct str source)
{
    return has(source, "bos_token");
}

/* A line break inside a template's string literal is written as an escape, or is one. */
static size_t literal_newline(const char *at, size_t left)
{
    if (left >= 2 && at[0] == '\\' && at[1] == 'n') {
        return 2;
    }
    return left >= 1 && at[0] == '\n' ? 1 : 0;
}

/* ---- ChatML ----------------------------------------------------------------------------------------- */

/* The generation prompt must be exactly "<|im_start|>assistant\n", and what follows it in the source must write
 * nothing, save for the block of Qwen3 that only acts when enable_thinking is set to false. */
static bool chatml_recognises(struct str source)
{
    struct str tail = after_last(source, "<|im_start|>assistant");
    size_t line = literal_newline(tail.ptr, tail.bytes);
    if (line == 0 || tail.bytes <= line || (tail.ptr[line] != '\'' && tail.ptr[line] != '"')) {
        return false;
    }
    tail.ptr += line;
    tail.bytes -= line;
    uint32_t outputs = times(tail, "{{");
    bool only_when_off = outputs == 1 && has(tail, "enable_thinking is false") && !has(tail, "else");
    if (outputs > 0 && !only_when_off) {
        return false;
    }
    /* Turns end with <|im_end|> and a line break; sources with other text around messages are other templates. */
    static const char *const foreign[] = {"reasoning_mode", "function calling AI", "## Metadata", "<|im_middle|>",
                                          "<|im_system|>"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        if (has(source, foreign[i])) {
            return false;
        }
    }
    return has(source, "<|im_end|>");
}

size_t template_default_system(struct str source, char *text, size_t cap)
{
    static const char begin[] = "<|im_start|>system";
    static const char end[] = "<|im_end|>";
    const char *at;
    for (size_t from = 0; (at = find(source, from, begin)) != NULL;) {
        from = (size_t)(at - source.ptr) + strlen(begin);
        size_t i = from;
        i += literal_newline(source.ptr + i, source.bytes - i);
        size_t used = 0;
        /* Only a literal counts: quotes or braces before the end marker mean that the text comes from elsewhere. */
        while (i < source.bytes && used < cap && strchr("'\"{}+", source.ptr[i]) == NULL) {
            if (source.bytes - i >= strlen(end) && memcmp(source.ptr + i, end, strlen(end)) == 0) {
                return used;
            }
            size_t line = literal_newline(source.ptr + i, source.bytes - i);
            text[used++] = line > 0 ? '\n' : source.ptr[i];
            i += line > 0 ? line : 1;
        }
    }
    return 0;
}

static void chatml_message(struct markup *markup, struct str role, struct str content)
{
    markup_control(markup, "<|im_start|>");
    markup_plain(markup, role);
    markup_plain(markup, STR("\n"));
    markup_plain(markup, content);
    markup_control(markup, "<|im_end|>");
    markup_plain(markup, STR("\n"));
}

static void chatml_open_answer(struct markup *markup)
{
    markup_control(markup, "<|im_start|>");
    markup_plain(markup, STR("assistant\n"));
}

static void chatml_close_answer(struct markup *markup, bool ended)
{
    if (!ended) {
        markup_control(markup, "<|im_end|>");
    }
    markup_plain(markup, STR("\n"));
}

static const struct chat_template chatml = {
    .name = "chatml",
    .end_token = "<|im_end|>",
    .recognises = chatml_recognises,
    .message = chatml_message,
    .open_answer = chatml_open_answer,
    .close_answer = chatml_close_answer,
};

/* ---- rows ------------------------------------------------------------------------------------------- */

const struct chat_template *const chat_templates[] = {&chatml, NULL};

static void list_names(char *text, size_t cap)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct chat_template *const *row = chat_templates; *row != NULL && used < cap; row++) {
        int written = snprintf(text + used, cap - used, "%s%s", used > 0 ? ", " : "", (*row)->name);
        used += written > 0 ? (size_t)written : 0;
    }
}

const struct chat_template *template_find(const berth_model *model, const char *wanted, berth_error *err)
{
    char names[128];
    list_names(names, sizeof names);
    if (wanted != NULL) {
        for (const struct chat_template *const *row = chat_templates; *row != NULL; row++) {
            if (strcmp((*row)->name, wanted) == 0) {
                return *row;
            }
        }
        error_set(err, BERTH_ERR_ARGUMENT, "--template: '%.60s' is not one of %s", wanted, names);
        return NULL;
    }
    struct str source = {0};
    source.ptr = berth_chat_template(model, &source.bytes);
    if (source.ptr == NULL || source.bytes == 0) {
        error_set(err, BERTH_ERR_UNSUPPORTED, "the model has no chat template; choose one with --template (%s)", names);
        return NULL;
    }
    for (const struct chat_template *const *row = chat_templates; *row != NULL; row++) {
        if ((*row)->recognises(source)) {
            return *row;
        }
    }
    size_t line = 0;
    while (line < source.bytes && line < 80 && source.ptr[line] != '\n' && source.ptr[line] != '\r') {
        line++;
    }
    error_set(err, BERTH_ERR_UNSUPPORTED,
              "the model's chat template is not one that Berth knows (it begins \"%.*s\"); supported: %s; --template "
              "uses one anyway",
              (int)line, source.ptr, names);
    return NULL;
}

int32_t template_end_id(berth_model *model, const struct chat_template *chosen)
{
    int32_t id = -1;
    size_t count = 0;
    berth_status status = berth_tokenize(model, chosen->end_token, strlen(chosen->end_token), BERTH_TOKENIZE_SPECIAL,
                                         &id, 1, &count, NULL);
    return status == BERTH_OK && count == 1 ? id : -1;
}
