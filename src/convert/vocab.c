/* SPDX-License-Identifier: MIT
 *
 * tokenizer.json (the tokenizers library's format) read in one walk a part, without a tree. Tokens are unescaped into
 * scratch memory once, indexed by id, and found by text through a hash table of ids.
 */
#include "convert/vocab.h"

#include <stdio.h>

#include "convert/vocab_table.h"
#include "model/json.h"
#include "os/file.h"

bool vocab_json_parts(struct str object, const char *const *names, uint32_t count, struct str *out)
{
    struct json json;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (struct str){NULL, 0};
    }
    if (object.ptr == NULL) {
        return false;
    }
    json_begin(&json, object);
    if (json_next(&json) != JSON_OBJECT_BEGIN) {
        return false;
    }
    while (json_next(&json) == JSON_KEY) {
        struct json_token key = json.token;
        if (json_next(&json) == JSON_ERROR) {
            return false;
        }
        uint64_t begin = json.token.offset;
        if (!json_skip(&json)) {
            return false;
        }
        for (uint32_t i = 0; i < count; i++) {
            if (json_token_is(&key, names[i])) {
                out[i] = (struct str){object.ptr + begin, json.at - begin};
            }
        }
    }
    return json.token.kind == JSON_OBJECT_END;
}

static berth_status vocab_fail(const struct vocab *v, berth_status status, const char *object, const char *message)
{
    error_set(v->err, status, "%s", message);
    error_at_path(v->err, v->checkpoint->path);
    error_at_object(v->err, object, strlen(object));
    return status;
}

static berth_status malformed(const struct vocab *v, const struct json *json, const char *object)
{
    if (json->error != NULL) {
        json_fail(json, v->checkpoint->path, v->err);
        error_at_object(v->err, object, strlen(object));
        return BERTH_ERR_FORMAT;
    }
    return vocab_fail(v, BERTH_ERR_FORMAT, object, "does not have the form that tokenizer.json defines");
}

/* ---- reading ------------------------------------------------------------------------------------------ */

/* The unescaped text of a KEY or STRING, in scratch memory. */
struct str vocab_take_text(struct vocab *v, const struct json_token *token)
{
    char *text = arena_take(v->scratch, token->raw.bytes + 1, 1, 1);
    if (text == NULL) {
        return (struct str){"", 0};
    }
    return (struct str){text, json_unescape(token, text, token->raw.bytes)};
}

int64_t vocab_lookup(const struct vocab *v, struct str text)
{
    uint64_t at = hash_bytes(HASH_SEED, text.ptr, text.bytes);
    for (at = (at ^ (at >> 32)) & v->slots_mask; v->slots[at] != 0; at = (at + 1) & v->slots_mask) {
        if (str_equal(v->texts[v->slots[at] - 1], text)) {
            return (int64_t)v->slots[at] - 1;
        }
    }
    return ID_NONE;
}

/* GGUF readers index tokens by text: two ids with one text cannot be told apart. */
static berth_status index_texts(struct vocab *v)
{
    for (uint32_t id = 0; id < v->count; id++) {
        struct str text = v->texts[id];
        if (text.ptr == NULL) {
            continue;
        }
        int64_t other = vocab_lookup(v, text);
        if (other != ID_NONE) {
            error_set(v->err, BERTH_ERR_FORMAT, "tokens %lld and %u have the same text", (long long)other, id);
            error_at_path(v->err, v->checkpoint->path);
            error_at_object(v->err, text.ptr, text.bytes);
            return BERTH_ERR_FORMAT;
        }
        uint64_t at = hash_bytes(HASH_SEED, text.ptr, text.bytes);
        at = (at ^ (at >> 32)) & v->slots_mask;
        while (v->slots[at] != 0) {
            at = (at + 1) & v->slots_mask;
        }
        v->slots[at] = id + 1;
    }
    return BERTH_OK;
}

static berth_status check_id(const struct vocab *v, uint64_t id, struct str text)
{
    if (id < v->count) {
        return BERTH_OK;
    }
    error_set(v->err, BERTH_ERR_FORMAT, "token id %llu is outside the embedding, which has %u rows",
              (unsigned long long)id, v->count);
    error_at_path(v->err, v->checkpoint->path);
    error_at_object(v->err, text.ptr, text.bytes);
    return BERTH_ERR_FORMAT;
}

static berth_status read_tokens(struct vocab *v)
{
    struct json json;
    json_begin(&json, v->tokens);
    if (json_next(&json) != JSON_OBJECT_BEGIN) {
        return malformed(v, &json, "model.vocab");
    }
    while (json_next(&json) == JSON_KEY) {
        struct str text = vocab_take_text(v, &json.token);
        uint64_t id;
        if (json_next(&json) != JSON_NUMBER || !json_token_u64(&json.token, &id)) {
            return malformed(v, &json, "model.vocab");
        }
        TRY(arena_check(v->scratch, "convert: tokens", v->err));
        TRY(check_id(v, id, text));
        if (v->types[id] != TOKEN_ABSENT) {
            return vocab_fail(v, BERTH_ERR_FORMAT, "model.vocab", "two tokens have the same id");
        }
        v->texts[id] = text;
        v->types[id] = TOKEN_NORMAL;
    }
    return json.token.kind == JSON_OBJECT_END ? BERTH_OK : malformed(v, &json, "model.vocab");
}

/* One entry of added_tokens. */
static berth_status read_added_one(struct vocab *v, struct str entry)
{
    static const char *const names[] = {"id", "content", "special"};
    struct str part[3];
    struct json json;
    uint64_t id;
    if (!vocab_json_parts(entry, names, 3, part) || part[0].ptr == NULL || part[1].ptr == NULL) {
        return vocab_fail(v, BERTH_ERR_FORMAT, "added_tokens", "an entry has no id or no content");
    }
    json_begin(&json, part[0]);
    if (json_next(&json) != JSON_NUMBER || !json_token_u64(&json.token, &id)) {
        return malformed(v, &json, "added_tokens.id");
    }
    json_begin(&json, part[1]);
    if (json_next(&json) != JSON_STRING) {
        return malformed(v, &json, "added_tokens.content");
    }
    struct str text = vocab_take_text(v, &json.token);
    TRY(arena_check(v->scratch, "convert: added tokens", v->err));
    TRY(check_id(v, id, text));
    v->texts[id] = text;
    v->types[id] = str_is(part[2], "true") ? TOKEN_CONTROL : TOKEN_USER;
    return BERTH_OK;
}

static berth_status read_added(struct vocab *v)
{
    struct json json;
    if (v->added.ptr == NULL) {
        return BERTH_OK;
    }
    json_begin(&json, v->added);
    if (json_next(&json) != JSON_ARRAY_BEGIN) {
        return malformed(v, &json, "added_tokens");
    }
    while (json_next(&json) == JSON_OBJECT_BEGIN) {
        uint64_t begin = json.token.offset;
        if (!json_skip(&json)) {
            break;
        }
        TRY(read_added_one(v, (struct str){v->added.ptr + begin, json.at - begin}));
    }
    return json.token.kind == JSON_ARRAY_END ? BERTH_OK : malformed(v, &json, "added_tokens");
}

/* Rows of the embedding that no token uses. */
static berth_status fill_unused(struct vocab *v)
{
    for (uint32_t id = 0; id < v->count; id++) {
        if (v->types[id] != TOKEN_ABSENT) {
            continue;
        }
        char *text = arena_take(v->scratch, 24, 1, 1);
        TRY(arena_check(v->scratch, "convert: unused tokens", v->err));
        v->texts[id] = (struct str){text, (size_t)snprintf(text, 24, "[PAD%lu]", (unsigned long)id)};
        v->types[id] = TOKEN_UNUSED;
    }
    return BERTH_OK;
}

/* Either spelling of a merge: "a b", or ["a","b"]. The halves are in scratch memory. */
static berth_status next_merge(struct vocab *v, struct json *json, struct str *left, struct str *right, bool *more)
{
    enum json_kind kind = json_next(json);
    *more = kind == JSON_STRING || kind == JSON_ARRAY_BEGIN;
    if (kind == JSON_STRING) {
        struct str both = vocab_take_text(v, &json->token);
        const char *space = both.bytes > 1 ? memchr(both.ptr + 1, ' ', both.bytes - 1) : NULL;
        if (space == NULL) {
            return malformed(v, json, "model.merges");
        }
        *left = (struct str){both.ptr, (size_t)(space - both.ptr)};
        *right = (struct str){space + 1, both.bytes - left->bytes - 1};
    } else if (kind == JSON_ARRAY_BEGIN) {
        bool fine = json_next(json) == JSON_STRING;
        *left = fine ? vocab_take_text(v, &json->token) : *left;
        fine = fine && json_next(json) == JSON_STRING;
        *right = fine ? vocab_take_text(v, &json->token) : *right;
        if (!fine || json_next(json) != JSON_ARRAY_END) {
            return malformed(v, json, "model.merges");
        }
    } else if (kind != JSON_ARRAY_END) {
        return malformed(v, json, "model.merges");
    }
    return arena_check(v->scratch, "convert: merges", v->err);
}

/* Sets aside place for a count that is known only after the items. */
static uint64_t begin_array(struct gguf_meta *meta, const char *key, enum meta_type type)
{
    gguf_meta_array(meta, key, type, 0);
    return meta->bytes.used_bytes - sizeof(uint64_t);
}

static void end_array(struct gguf_meta *meta, uint64_t count_at, uint64_t count)
{
    if (!meta->bytes.failed) {
        memcpy(meta->bytes.ptr + count_at, &count, sizeof count);
    }
}

static berth_status write_merges(struct vocab *v, struct gguf_meta *meta)
{
    struct json json;
    struct str left = {"", 0};
    struct str right = {"", 0};
    uint64_t count = 0;
    json_begin(&json, v->merges);
    if (json_next(&json) != JSON_ARRAY_BEGIN) {
        return malformed(v, &json, "model.merges");
    }
    uint64_t count_at = begin_array(meta, "tokenizer.ggml.merges", META_STRING);
    for (;; count++) {
        bool more;
        uint64_t mark = arena_mark(v->scratch);
        TRY(next_merge(v, &json, &left, &right, &more));
        if (!more) {
            break;
        }
        if (memchr(left.ptr, ' ', left.bytes) != NULL || memchr(right.ptr, ' ', right.bytes) != NULL) {
            return vocab_fail(v, BERTH_ERR_UNSUPPORTED, "model.merges",
                              "a merge holds a space; GGUF has no way to write it");
        }
        gguf_append_u64(&meta->bytes, left.bytes + 1 + right.bytes);
        gguf_append(&meta->bytes, left.ptr, left.bytes);
        gguf_append(&meta->bytes, " ", 1);
        gguf_append(&meta->bytes, right.ptr, right.bytes);
        arena_rewind(v->scratch, mark);
    }
    end_array(meta, count_at, count);
    return BERTH_OK;
}

/* Readers of "llama" vocabularies merge the neighbours whose joint token has the highest score, so a token's score is
 * minus the rank of the first merge that makes it. Tokens that no merge makes must never be made. */
static berth_status score_tokens(struct vocab *v)
{
    struct json json;
    struct str left = {"", 0};
    struct str right = {"", 0};
    const float never = -1e9f;
    for (uint32_t id = 0; id < v->count; id++) {
        v->scores[id] = v->types[id] == TOKEN_NORMAL ? never : 0.0f;
    }
    json_begin(&json, v->merges);
    if (json_next(&json) != JSON_ARRAY_BEGIN) {
        return malformed(v, &json, "model.merges");
    }
    for (uint32_t rank = 0;; rank++) {
        bool more;
        uint64_t mark = arena_mark(v->scratch);
        TRY(next_merge(v, &json, &left, &right, &more));
        if (!more) {
            return BERTH_OK;
        }
        char *joint = arena_take(v->scratch, left.bytes + right.bytes + 1, 1, 1);
        TRY(arena_check(v->scratch, "convert: merges", v->err));
        memcpy(joint, left.ptr, left.bytes);
        memcpy(joint + left.bytes, right.ptr, right.bytes);
        int64_t id = vocab_lookup(v, (struct str){joint, left.bytes + right.bytes});
        if (id != ID_NONE && v->scores[id] == never) {
            v->scores[id] = -(float)rank;
        }
        arena_rewind(v->scratch, mark);
    }
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

static berth_status read_document(struct vocab *v)
{
    static const char *const names[] = {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model"};
    static const char *const model_names[] = {"type", "vocab", "merges", "unk_token", "byte_fallback", "ignore_merges"};
    struct str part[5];
    struct str model[6];
    if (!vocab_json_parts(v->checkpoint->tokenizer_json, names, 5, part) ||
        !vocab_json_parts(part[4], model_names, 6, model)) {
        struct json json; /* walked again for the place of the fault */
        json_begin(&json, v->checkpoint->tokenizer_json);
        while (json_next(&json) != JSON_ERROR && json.token.kind != JSON_END) {
        }
        return malformed(v, &json, "tokenizer.json");
    }
    v->added = part[0];
    v->normalizer = part[1];
    v->pre_tokenizer = part[2];
    v->post_processor = part[3];
    v->type = model[0];
    v->tokens = model[1];
    v->merges = model[2];
    v->unknown = model[3];
    v->byte_fallback = str_is(model[4], "true");
    v->ignore_merges = str_is(model[5], "true");
    if ((v->type.ptr != NULL && !str_is(v->type, "\"BPE\"")) || v->merges.ptr == NULL || v->tokens.ptr == NULL) {
        return vocab_fail(v, BERTH_ERR_UNSUPPORTED, "model.type", "only BPE tokenizers can be converted");
    }
    return BERTH_OK;
}

static berth_status take_tables(struct vocab *v)
{
    uint64_t slots = 16;
    while (slots < (uint64_t)v->count * 2) {
        slots *= 2;
    }
    v->slots_mask = (uint32_t)(slots - 1);
    v->texts = ARENA_NEW(v->scratch, struct str, v->count);
    v->types = ARENA_NEW(v->scratch, uint8_t, v->count);
    v->scores = ARENA_NEW(v->scratch, float, v->count);
    v->slots = ARENA_NEW(v->scratch, uint32_t, slots);
    TRY(arena_check(v->scratch, "convert: token tables", v->err));
    memset(v->texts, 0, v->count * sizeof *v->texts); /* scratch may have been used before */
    memset(v->types, 0, v->count * sizeof *v->types);
    memset(v->slots, 0, slots * sizeof *v->slots);
    return BERTH_OK;
}

/* "<0x0A>" in vocabularies with byte fallback. */
static bool is_byte_token(struct str text)
{
    if (text.bytes != 6 || memcmp(text.ptr, "<0x", 3) != 0 || text.ptr[5] != '>') {
        return false;
    }
    for (size_t i = 3; i < 5; i++) {
        char c = text.ptr[i];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'))) {
            return false;
        }
    }
    return true;
}

/* The first space that the normaliser or the pre-tokenizer puts before a text. */
static bool adds_space_prefix(const struct vocab *v)
{
    static const char *const names[] = {"type", "prepend_scheme", "add_prefix_space"};
    struct str part[3];
    if (vocab_json_parts(v->pre_tokenizer, names, 3, part) && str_is(part[0], "\"Metaspace\"")) {
        return part[1].ptr != NULL ? !str_is(part[1], "\"never\"") : str_is(part[2], "true");
    }
    for (size_t at = 0; at + 9 <= v->normalizer.bytes; at++) {
        if (memcmp(v->normalizer.ptr + at, "\"Prepend\"", 9) == 0) {
            return true;
        }
    }
    return false;
}

static void write_tokens(const struct vocab *v, struct gguf_meta *meta)
{
    gguf_meta_array(meta, "tokenizer.ggml.tokens", META_STRING, v->count);
    for (uint32_t id = 0; id < v->count; id++) {
        gguf_append_str(&meta->bytes, v->texts[id]);
    }
    if (!v->byte_level) {
        gguf_meta_array(meta, "tokenizer.ggml.scores", META_F32, v->count);
        gguf_append(&meta->bytes, v->scores, v->count * sizeof *v->scores);
    }
    gguf_meta_array(meta, "tokenizer.ggml.token_type", META_I32, v->count);
    for (uint32_t id = 0; id < v->count; id++) {
        gguf_append_u32(&meta->bytes, v->types[id]);
    }
}

static berth_status write_model(struct vocab *v, struct gguf_meta *meta)
{
    if (v->byte_level) {
        bool byte_level;
        const char *pre = convert_pre_name(v->pre_tokenizer, v->ignore_merges, &byte_level);
        if (pre == NULL) {
            return vocab_fail(v, BERTH_ERR_UNSUPPORTED, "pre_tokenizer",
                              "tokenizer.json has a pre-tokenizer for which no GGUF name is known");
        }
        gguf_meta_str(meta, "tokenizer.ggml.model", STR("gpt2"));
        gguf_meta_str(meta, "tokenizer.ggml.pre", str_from(pre));
        write_tokens(v, meta);
        return write_merges(v, meta);
    }
    if (!v->byte_fallback) {
        return vocab_fail(v, BERTH_ERR_UNSUPPORTED, "model",
                          "only byte-level BPE and BPE with byte fallback can be converted");
    }
    for (uint32_t id = 0; id < v->count; id++) {
        if (v->types[id] == TOKEN_NORMAL && is_byte_token(v->texts[id])) {
            v->types[id] = TOKEN_BYTE;
        }
    }
    int64_t unknown = vocab_named_token(v, v->unknown);
    if (unknown != ID_NONE) {
        v->types[unknown] = TOKEN_UNKNOWN;
    }
    TRY(score_tokens(v));
    gguf_meta_str(meta, "tokenizer.ggml.model", STR("llama"));
    gguf_meta_str(meta, "tokenizer.ggml.pre", STR("default"));
    gguf_meta_bool(meta, "tokenizer.ggml.add_space_prefix", adds_space_prefix(v));
    write_tokens(v, meta);
    return BERTH_OK;
}

/* Without tokenizer.json there is no vocabulary; other forms of one are named, so that nobody is surprised. */
static void warn_other_forms(const struct checkpoint *checkpoint, const struct log_sink *log)
{
    static const char *const names[] = {"tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[sizeof checkpoint->path + 32];
        bool directory = false;
        uint64_t bytes = 0;
        snprintf(path, sizeof path, "%s/%s", checkpoint->path, names[i]);
        if (os_path_info(path, &directory, &bytes, NULL) == BERTH_OK) {
            log_write(log, BERTH_LOG_WARN, "%s is not read (only tokenizer.json is): the result has no vocabulary",
                      path);
        }
    }
}

static berth_status convert_document(struct vocab *v, struct gguf_meta *meta)
{
    TRY(read_document(v));
    TRY(take_tables(v));
    TRY(read_tokens(v));
    TRY(read_added(v));
    TRY(fill_unused(v));
    TRY(index_texts(v));
    convert_pre_name(v->pre_tokenizer, false, &v->byte_level);
    TRY(write_model(v, meta));
    vocab_write_special(v, meta);
    return vocab_write_template(v, meta);
}

berth_status convert_vocab(const struct checkpoint *checkpoint, uint32_t vocab, struct arena *scratch,
                           const struct log_sink *log, struct gguf_meta *meta, berth_error *err)
{
    if (checkpoint->tokenizer_json.bytes == 0) {
        warn_other_forms(checkpoint, log);
        gguf_meta_str(meta, "tokenizer.ggml.model", STR("none"));
        return BERTH_OK;
    }
    struct vocab v = {.checkpoint = checkpoint, .scratch = scratch, .err = err, .count = vocab};
    uint64_t mark = arena_mark(scratch);
    berth_status status = convert_document(&v, meta);
    if (!scratch->failed) {
        arena_rewind(scratch, mark);
    }
    return status;
}

uint64_t convert_vocab_bytes(const struct checkpoint *checkpoint, uint32_t vocab)
{
    /* The shortest entry, "a":1, is 6 bytes and becomes 17; a merge adds at most 8 - 3. Unused ids: 8 + 15 + 8. */
    return checkpoint->tokenizer_json.bytes * 4 + checkpoint->tokenizer_config_json.bytes +
           checkpoint->chat_template.bytes + (uint64_t)vocab * 32 + 65536;
}
