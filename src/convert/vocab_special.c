/* SPDX-License-Identifier: MIT
 *
 * Which tokens begin and end a text, and the chat template. Tokens are named in tokenizer_config.json, numbered in
 * generation_config.json and config.json; what is put around a text is the post-processor's say (tokenizer.json), and
 * only without one that of the flags in tokenizer_config.json.
 */
#include "convert/vocab_table.h"

/* A token named in tokenizer_config.json: a string, or an object with "content". */
int64_t vocab_named_token(struct vocab *v, struct str value)
{
    static const char *const names[] = {"content"};
    struct json json;
    struct str content;
    if (value.ptr == NULL) {
        return ID_NONE;
    }
    if (vocab_json_parts(value, names, 1, &content)) {
        value = content;
    }
    if (value.ptr == NULL) {
        return ID_NONE;
    }
    json_begin(&json, value);
    if (json_next(&json) != JSON_STRING) {
        return ID_NONE;
    }
    return vocab_lookup(v, vocab_take_text(v, &json.token));
}

/* An id, or the `index`th of a list of ids. */
static int64_t numbered_token(const struct vocab *v, struct str document, const char *key, uint32_t index)
{
    struct json json;
    uint64_t id;
    if (!json_find(document, (const char *const[]){key, NULL}, &json)) {
        return ID_NONE;
    }
    if (json.token.kind == JSON_ARRAY_BEGIN) {
        for (uint32_t i = 0; i <= index; i++) {
            if (json_next(&json) != JSON_NUMBER) {
                return ID_NONE;
            }
        }
    } else if (index > 0) {
        return ID_NONE;
    }
    return json.token.kind == JSON_NUMBER && json_token_u64(&json.token, &id) && id < v->count ? (int64_t)id : ID_NONE;
}

static int64_t special_token(struct vocab *v, struct str named, const char *key)
{
    int64_t id = vocab_named_token(v, named);
    id = id == ID_NONE ? numbered_token(v, v->checkpoint->generation_config_json, key, 0) : id;
    return id == ID_NONE ? numbered_token(v, v->checkpoint->config_json, key, 0) : id;
}

static void write_id(struct gguf_meta *meta, const char *key, int64_t id)
{
    if (id != ID_NONE) {
        gguf_meta_u32(meta, key, (uint32_t)id);
    }
}

/* A further end token of the generation settings, or a well-known end of turn, that is not eos itself. */
static int64_t end_of_turn(const struct vocab *v, int64_t eos)
{
    static const char *const known[] = {"<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        int64_t id = vocab_lookup(v, str_from(known[i]));
        if (id != ID_NONE && id != eos) {
            return id;
        }
    }
    for (uint32_t i = 0; i < 16; i++) {
        int64_t id = numbered_token(v, v->checkpoint->generation_config_json, "eos_token_id", i);
        if (id != ID_NONE && id != eos) {
            return id;
        }
    }
    return ID_NONE;
}

/* Whether the template that a post-processor puts around a text begins (ends) with a special token. */
static void template_ends(struct str single, bool *first, bool *last)
{
    struct json json;
    bool any = false;
    json_begin(&json, single);
    *first = *last = false;
    if (json_next(&json) != JSON_ARRAY_BEGIN) {
        return;
    }
    while (json_next(&json) == JSON_OBJECT_BEGIN) {
        if (json_next(&json) != JSON_KEY) {
            return;
        }
        bool special = json_token_is(&json.token, "SpecialToken");
        *first = any ? *first : special;
        *last = special;
        any = true;
        while (json.token.kind == JSON_KEY) {
            if (!json_skip(&json)) {
                return;
            }
            json_next(&json);
        }
    }
}

/* True when a TemplateProcessing step was found: at the top, or inside a Sequence. */
static bool post_template(struct str processor, struct str *single)
{
    static const char *const names[] = {"type", "single", "processors"};
    struct str part[3];
    if (!vocab_json_parts(processor, names, 3, part)) {
        return false;
    }
    *single = part[1];
    if (str_is(part[0], "\"TemplateProcessing\"")) {
        return part[1].ptr != NULL;
    }
    if (!str_is(part[0], "\"Sequence\"") || part[2].ptr == NULL) {
        return false;
    }
    struct json json;
    struct str list = part[2];
    json_begin(&json, list);
    bool more = json_next(&json) == JSON_ARRAY_BEGIN;
    while (more && json_next(&json) == JSON_OBJECT_BEGIN) {
        uint64_t begin = json.token.offset;
        more = json_skip(&json);
        struct str step = {list.ptr + begin, json.at - begin};
        if (more && vocab_json_parts(step, names, 3, part) && str_is(part[0], "\"TemplateProcessing\"")) {
            *single = part[1];
            return part[1].ptr != NULL;
        }
    }
    return false;
}

static bool config_flag(struct str document, const char *key)
{
    struct json json;
    return json_find(document, (const char *const[]){key, NULL}, &json) && json.token.kind == JSON_TRUE;
}

void vocab_write_special(struct vocab *v, struct gguf_meta *meta)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    struct str config = v->checkpoint->tokenizer_config_json;
    struct str part[4];
    vocab_json_parts(config, names, 4, part);
    int64_t eos = special_token(v, part[1], "eos_token_id");
    int64_t unknown = vocab_named_token(v, v->unknown);
    write_id(meta, "tokenizer.ggml.bos_token_id", special_token(v, part[0], "bos_token_id"));
    write_id(meta, "tokenizer.ggml.eos_token_id", eos);
    write_id(meta, "tokenizer.ggml.eot_token_id", end_of_turn(v, eos));
    write_id(meta, "tokenizer.ggml.eom_token_id", vocab_lookup(v, STR("<|eom_id|>")));
    write_id(meta, "tokenizer.ggml.unknown_token_id", unknown == ID_NONE ? vocab_named_token(v, part[2]) : unknown);
    write_id(meta, "tokenizer.ggml.padding_token_id", special_token(v, part[3], "pad_token_id"));
    bool bos = config_flag(config, "add_bos_token");
    bool eos_too = config_flag(config, "add_eos_token");
    struct str single;
    if (post_template(v->post_processor, &single)) {
        template_ends(single, &bos, &eos_too);
    }
    gguf_meta_bool(meta, "tokenizer.ggml.add_bos_token", bos);
    gguf_meta_bool(meta, "tokenizer.ggml.add_eos_token", eos_too);
}

/* ---- chat template ------------------------------------------------------------------------------------ */

/* "chat_template" of tokenizer_config.json: a string, or a list of named ones of which "default" counts. */
static struct str find_template(const struct vocab *v)
{
    static const char *const names[] = {"chat_template"};
    static const char *const entry_names[] = {"name", "template"};
    struct str value;
    struct json json;
    if (!vocab_json_parts(v->checkpoint->tokenizer_config_json, names, 1, &value) || value.ptr == NULL) {
        return (struct str){NULL, 0};
    }
    json_begin(&json, value);
    if (json_next(&json) != JSON_ARRAY_BEGIN) {
        return value;
    }
    while (json_next(&json) == JSON_OBJECT_BEGIN) {
        struct str part[2];
        uint64_t begin = json.token.offset;
        if (!json_skip(&json)) {
            break;
        }
        if (vocab_json_parts((struct str){value.ptr + begin, json.at - begin}, entry_names, 2, part) &&
            str_is(part[0], "\"default\"")) {
            return part[1];
        }
    }
    return (struct str){NULL, 0};
}

berth_status vocab_write_template(struct vocab *v, struct gguf_meta *meta)
{
    struct str text = v->checkpoint->chat_template;
    struct json json;
    if (text.bytes == 0) {
        struct str value = find_template(v);
        json_begin(&json, value);
        if (value.ptr == NULL || json_next(&json) != JSON_STRING) {
            return BERTH_OK;
        }
        text = vocab_take_text(v, &json.token);
        TRY(arena_check(v->scratch, "convert: chat template", v->err));
    }
    gguf_meta_str(meta, "tokenizer.chat_template", text);
    return BERTH_OK;
}
