/* SPDX-License-Identifier: MIT
 * The files beside tokenizer.json. They are small and loosely kept: what is missing or odd in them is passed over, for
 * a model can run without. */
#include "text/tokenizer_json.h"

static bool find(struct str document, const char *const *keys, struct json *value)
{
    return document.bytes != 0 && json_find(document, keys, value);
}

/* "bos_token": "<s>" or {"content": "<s>", ...}. False: the file does not name one (null does: as none). */
static bool named_token(const struct text_build *build, struct str config, const char *key, const struct text *text,
                        int32_t *id)
{
    struct json value;
    struct json content;
    struct str spelling;
    if (!find(config, (const char *const[]){key, NULL}, &value)) {
        return false;
    }
    *id = VOCAB_NONE;
    if (value.token.kind == JSON_OBJECT_BEGIN && json_read_member(&value, "content", &content)) {
        value = content;
    }
    if (value.token.kind == JSON_STRING && json_read_string(build, &value, key, &spelling, NULL) == BERTH_OK) {
        *id = tokenizer_find(text, spelling);
    }
    return true;
}

/* "eos_token_id": 2 or [2, 3]: marks them all, *first gets the first. */
static void mark_ids(struct json *value, struct text *text, int32_t *first)
{
    bool list = value->token.kind == JSON_ARRAY_BEGIN;
    if (list) {
        (void)json_next(value);
    }
    uint64_t id;
    while (value->token.kind == JSON_NUMBER && json_token_u64(&value->token, &id)) {
        if (id < text->vocab.count && (text->vocab.flags[id] & VOCAB_USED) != 0) {
            tokenizer_mark_end(text, (int64_t)id);
            *first = *first == VOCAB_NONE ? (int32_t)id : *first;
        }
        if (!list || json_next(value) != JSON_NUMBER) {
            return;
        }
    }
}

static int32_t one_id(struct str config, const char *const *keys, const struct text *text)
{
    struct json value;
    uint64_t id;
    if (!find(config, keys, &value) || !json_token_u64(&value.token, &id) || id >= text->vocab.count ||
        (text->vocab.flags[id] & VOCAB_USED) == 0) {
        return VOCAB_NONE;
    }
    return (int32_t)id;
}

static void read_ids(const struct text_build *build, const struct checkpoint *checkpoint, struct text *text)
{
    static const char *const eos_paths[][3] = {{"eos_token_id", NULL, NULL}, {"text_config", "eos_token_id", NULL}};
    static const char *const bos_paths[][3] = {{"bos_token_id", NULL, NULL}, {"text_config", "bos_token_id", NULL}};
    const struct str configs[] = {checkpoint->generation_config_json, checkpoint->config_json};
    int32_t first_end = VOCAB_NONE;
    int32_t bos = VOCAB_NONE;
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned j = 0; j < 2; j++) {
            struct json value;
            if (find(configs[i], eos_paths[j], &value)) {
                mark_ids(&value, text, &first_end);
            }
            bos = bos == VOCAB_NONE ? one_id(configs[i], bos_paths[j], text) : bos;
        }
    }
    if (!named_token(build, checkpoint->tokenizer_config_json, "eos_token", text, &text->eos)) {
        text->eos = first_end;
    }
    if (!named_token(build, checkpoint->tokenizer_config_json, "bos_token", text, &text->bos)) {
        text->bos = bos;
    }
    tokenizer_mark_end(text, text->eos);
    tokenizer_mark_ends(text, false);
}

/* add_bos_token and add_eos_token, when the file says either, win over the post-processor. */
static void read_additions(struct str config, struct text *text)
{
    struct text_template *around = &text->around;
    struct json value;
    if (find(config, (const char *const[]){"add_bos_token", NULL}, &value) && text->bos != VOCAB_NONE) {
        bool has = around->before_count == 1 && around->before[0] == text->bos;
        if (value.token.kind == JSON_TRUE && around->before_count == 0) {
            around->before[0] = text->bos;
            around->before_count = 1;
        } else if (value.token.kind == JSON_FALSE && has) {
            around->before_count = 0;
        }
    }
    if (find(config, (const char *const[]){"add_eos_token", NULL}, &value) && text->eos != VOCAB_NONE) {
        bool has = around->after_count == 1 && around->after[0] == text->eos;
        if (value.token.kind == JSON_TRUE && around->after_count == 0) {
            around->after[0] = text->eos;
            around->after_count = 1;
        } else if (value.token.kind == JSON_FALSE && has) {
            around->after_count = 0;
        }
    }
}

/* A string, or a list of {"name", "template"} of which "default" counts. */
static berth_status template_source(const struct text_build *build, struct str config, struct str *out,
                                    berth_error *err)
{
    struct json value;
    struct json part;
    *out = (struct str){NULL, 0};
    if (!find(config, (const char *const[]){"chat_template", NULL}, &value)) {
        return BERTH_OK;
    }
    if (value.token.kind == JSON_STRING) {
        return json_read_string(build, &value, "chat_template", out, err);
    }
    if (value.token.kind != JSON_ARRAY_BEGIN) {
        return BERTH_OK;
    }
    while (json_next(&value) == JSON_OBJECT_BEGIN) {
        if (json_read_member(&value, "name", &part) && json_token_is(&part.token, "default") &&
            json_read_member(&value, "template", &part) && part.token.kind == JSON_STRING) {
            return json_read_string(build, &part, "chat_template", out, err);
        }
        if (!json_skip(&value)) {
            break;
        }
    }
    return BERTH_OK;
}

berth_status tokenizer_config_read(const struct text_build *build, const struct checkpoint *checkpoint,
                                   struct text *text, berth_error *err)
{
    read_ids(build, checkpoint, text);
    read_additions(checkpoint->tokenizer_config_json, text);
    struct str source = checkpoint->chat_template;
    if (source.bytes == 0) {
        TRY(template_source(build, checkpoint->tokenizer_config_json, &source, err));
    }
    return source.bytes == 0 ? BERTH_OK : text_build_copy(build, source, &text->chat_template, err);
}
