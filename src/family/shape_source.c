/* SPDX-License-Identifier: MIT */
#include "family/shape_source.h"

#include <math.h>
#include <stdio.h>

static berth_status at_key(const struct shape_source *source, const char *key, berth_status status)
{
    error_at_object(source->err, key, strlen(key));
    if (source->path != NULL) {
        error_at_path(source->err, source->path);
    }
    return status;
}

/* ---- config.json ------------------------------------------------------------------------------------ */

static berth_status read_members(struct shape_source *source, struct json json, struct arena *arena,
                                 struct shape_member **out, uint32_t *count)
{
    struct json walk = json;
    uint32_t members = 0;
    while (json_next(&walk) == JSON_KEY) {
        members++;
        if (!json_skip(&walk) || members > SHAPE_MEMBERS_MAX) {
            break;
        }
    }
    if (members > SHAPE_MEMBERS_MAX) {
        return at_key(
            source, "config.json",
            error_set(source->err, BERTH_ERR_LIMIT, "the configuration has more than %d members", SHAPE_MEMBERS_MAX));
    }
    if (walk.token.kind != JSON_OBJECT_END) {
        return json_fail(&walk, source->path, source->err);
    }
    *out = ARENA_NEW(arena, struct shape_member, members);
    TRY(arena_check(arena, "memory for the configuration", source->err));
    for (*count = 0; json_next(&json) == JSON_KEY && *count < members; (*count)++) {
        (*out)[*count].key = json.token.raw;
        json_next(&json);
        (*out)[*count].value = json;
        json_skip(&json);
    }
    return BERTH_OK;
}

static bool find_member(const struct shape_member *members, uint32_t count, const char *key, struct json *value)
{
    for (uint32_t i = count; i > 0; i--) { /* the last of duplicates wins */
        if (str_is(members[i - 1].key, key)) {
            *value = members[i - 1].value;
            return value->token.kind != JSON_NULL;
        }
    }
    return false;
}

berth_status source_open_json(struct shape_source *source, struct str config_json, struct arena *arena)
{
    struct json json;
    struct json text;
    json_begin(&json, config_json);
    json.allow_nonfinite = true;
    struct json whole = json;
    if (json_next(&whole) != JSON_OBJECT_BEGIN) {
        return whole.token.kind == JSON_ERROR
                   ? json_fail(&whole, source->path, source->err)
                   : at_key(source, "config.json",
                            error_set(source->err, BERTH_ERR_FORMAT, "the configuration is not a JSON object"));
    }
    json = whole;
    if (!json_skip(&whole) || json_next(&whole) != JSON_END) {
        return json_fail(&whole, source->path, source->err);
    }
    TRY(read_members(source, json, arena, &source->members, &source->members_count));
    if (find_member(source->members, source->members_count, "text_config", &text)) {
        if (text.token.kind != JSON_OBJECT_BEGIN) {
            return source_wrong(source, "text_config", &text, "an object");
        }
        TRY(read_members(source, text, arena, &source->nested, &source->nested_count));
    }
    return BERTH_OK;
}

bool source_find(const struct shape_source *source, const char *key, struct json *value)
{
    if (source->meta != NULL) {
        return false;
    }
    return source->nested != NULL ? find_member(source->nested, source->nested_count, key, value)
                                  : find_member(source->members, source->members_count, key, value);
}

bool source_mentions(const struct shape_source *source, const struct shape_key *key)
{
    bool nested = source->nested != NULL;
    const struct shape_member *members = nested ? source->nested : source->members;
    uint32_t count = nested ? source->nested_count : source->members_count;
    for (size_t i = 0; i < sizeof key->hf / sizeof key->hf[0] && key->hf[i] != NULL; i++) {
        for (uint32_t k = 0; k < count; k++) {
            if (str_is(members[k].key, key->hf[i])) {
                return true;
            }
        }
    }
    return false;
}

bool source_inside(const struct json *object, const char *key, struct json *value)
{
    struct json walk = *object;
    bool found = false;
    if (walk.token.kind != JSON_OBJECT_BEGIN) {
        return false;
    }
    while (json_next(&walk) == JSON_KEY) {
        bool matches = json_token_is(&walk.token, key);
        json_next(&walk);
        if (matches) {
            *value = walk;
            found = value->token.kind != JSON_NULL;
        }
        if (!json_skip(&walk)) {
            return false;
        }
    }
    return found;
}

static const char *kind_name(const struct json *value)
{
    switch (value->token.kind) {
    case JSON_OBJECT_BEGIN:
        return "an object";
    case JSON_ARRAY_BEGIN:
        return "a list";
    case JSON_STRING:
        return "the string";
    case JSON_NUMBER:
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        return "";
    case JSON_ERROR:
    case JSON_END:
    case JSON_KEY:
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
    default:
        return "something else";
    }
}

berth_status source_wrong(const struct shape_source *source, const char *key, const struct json *value,
                          const char *wanted)
{
    bool container = value->token.kind == JSON_OBJECT_BEGIN || value->token.kind == JSON_ARRAY_BEGIN;
    struct str raw = container ? STR("") : value->token.raw;
    const char *kind = kind_name(value);
    const char *quote = value->token.kind == JSON_STRING ? "\"" : "";
    berth_status status = error_set(source->err, BERTH_ERR_FORMAT, "\"%s\" is %s%s%s%.*s%s, but %s is wanted", key,
                                    kind, kind[0] != '\0' && raw.bytes > 0 ? " " : "", quote,
                                    (int)(raw.bytes > 40 ? 40 : raw.bytes), raw.ptr, quote, wanted);
    error_at_offset(source->err, value->token.offset);
    return at_key(source, key, status);
}

berth_status source_json_u32(const struct shape_source *source, const char *key, const struct json *value, uint32_t max,
                             uint32_t *out)
{
    double number;
    char wanted[64];
    if (value->token.kind == JSON_NUMBER && json_token_f64(&value->token, &number) && number >= 0 && number <= max &&
        number == floor(number)) {
        *out = (uint32_t)number;
        return BERTH_OK;
    }
    snprintf(wanted, sizeof wanted, "a whole number from 0 to %lu", (unsigned long)max);
    return source_wrong(source, key, value, wanted);
}

berth_status source_bool(const struct shape_source *source, const char *hf, bool *out)
{
    struct json value;
    if (source->meta != NULL ||
        (!source_find(source, hf, &value) && !find_member(source->members, source->members_count, hf, &value))) {
        return BERTH_OK;
    }
    if (value.token.kind != JSON_TRUE && value.token.kind != JSON_FALSE) {
        return source_wrong(source, hf, &value, "true or false");
    }
    *out = value.token.kind == JSON_TRUE;
    return BERTH_OK;
}

/* ---- either ----------------------------------------------------------------------------------------- */

const char *source_name(const struct shape_source *source, const struct shape_key *key)
{
    return source->meta != NULL && key->gguf != NULL ? key->gguf : key->hf[0] != NULL ? key->hf[0] : key->gguf;
}

static const struct meta_pair *find_pair(const struct shape_source *source, const char *suffix)
{
    char name[128];
    if (suffix == NULL) {
        return NULL;
    }
    snprintf(name, sizeof name, "%.*s.%s", (int)(source->arch.bytes < 64 ? source->arch.bytes : 64), source->arch.ptr,
             suffix);
    return meta_find(source->meta, str_from(name));
}

static berth_status item_u32(const struct shape_source *source, const struct shape_key *key,
                             const struct meta_pair *pair, uint64_t index, uint32_t *out)
{
    struct meta one = {pair, 1};
    uint64_t value = 0;
    double real = 0;
    bool whole = pair->type == META_ARRAY ? meta_item_u64(pair, index, &value) : meta_u64(&one, pair->key, &value);
    if (whole && value <= key->max) {
        *out = (uint32_t)value;
        return BERTH_OK;
    }
    bool number = pair->type == META_ARRAY ? meta_item_f64(pair, index, &real) : meta_f64(&one, pair->key, &real);
    berth_status status;
    if (number || whole) {
        status = error_set(source->err, BERTH_ERR_FORMAT, "%s is %.9g, but a whole number from 0 to %lu is wanted",
                           key->gguf, number ? real : (double)value, (unsigned long)key->max);
    } else {
        status = error_set(source->err, BERTH_ERR_FORMAT, "%s is not a number", key->gguf);
    }
    return at_key(source, key->gguf, status);
}

static bool find_spelling(const struct shape_source *source, const struct shape_key *key, const char **name,
                          struct json *value)
{
    for (size_t i = 0; i < sizeof key->hf / sizeof key->hf[0] && key->hf[i] != NULL; i++) {
        if (source_find(source, key->hf[i], value)) {
            *name = key->hf[i];
            return true;
        }
    }
    return false;
}

berth_status source_u32(const struct shape_source *source, const struct shape_key *key, uint32_t otherwise,
                        uint32_t *out)
{
    *out = otherwise;
    if (source->meta != NULL) {
        const struct meta_pair *pair = find_pair(source, key->gguf);
        if (pair != NULL && pair->type == META_ARRAY) {
            return at_key(source, key->gguf,
                          error_set(source->err, BERTH_ERR_FORMAT,
                                    "%s is a list of %llu items, but one number for all layers is wanted", key->gguf,
                                    (unsigned long long)pair->count));
        }
        return pair != NULL ? item_u32(source, key, pair, 0, out) : BERTH_OK;
    }
    struct json value;
    const char *name;
    return find_spelling(source, key, &name, &value) ? source_json_u32(source, name, &value, key->max, out) : BERTH_OK;
}

bool source_is_list(const struct shape_source *source, const struct shape_key *key, uint64_t *items, const char **name)
{
    struct json value;
    *items = 1;
    if (source->meta != NULL) {
        const struct meta_pair *pair = find_pair(source, key->gguf);
        *name = key->gguf;
        *items = pair != NULL && pair->type == META_ARRAY ? pair->count : 1;
        return pair != NULL && pair->type == META_ARRAY;
    }
    if (!find_spelling(source, key, name, &value) || value.token.kind != JSON_ARRAY_BEGIN) {
        return false;
    }
    for (*items = 0; json_next(&value) != JSON_ARRAY_END; (*items)++) {
        json_skip(&value);
    }
    return true;
}

bool source_says_zero(const struct shape_source *source, const struct shape_key *key)
{
    struct json value;
    const char *name;
    double number;
    if (source->meta != NULL) {
        const struct meta_pair *pair = find_pair(source, key->gguf);
        struct meta one = {pair, 1};
        uint64_t whole;
        return pair != NULL && pair->type != META_ARRAY && meta_u64(&one, pair->key, &whole) && whole == 0;
    }
    return find_spelling(source, key, &name, &value) && value.token.kind == JSON_NUMBER &&
           json_token_f64(&value.token, &number) && number == 0;
}

berth_status source_most(const struct shape_source *source, const struct shape_key *key, uint32_t *out)
{
    uint64_t items;
    const char *name;
    if (!source_is_list(source, key, &items, &name)) {
        return source_u32(source, key, 0, out);
    }
    *out = 0;
    if (source->meta != NULL) {
        const struct meta_pair *pair = find_pair(source, key->gguf);
        for (uint64_t i = 0; i < items; i++) {
            uint32_t item;
            TRY(item_u32(source, key, pair, i, &item));
            *out = item > *out ? item : *out;
        }
        return BERTH_OK;
    }
    struct json value;
    (void)find_spelling(source, key, &name, &value);
    if (items == 0) {
        return source_wrong(source, name, &value, "a number, or one for each layer");
    }
    while (json_next(&value) != JSON_ARRAY_END) {
        uint32_t item = 0;
        if (value.token.kind != JSON_NULL) {
            TRY(source_json_u32(source, name, &value, key->max, &item));
        }
        *out = item > *out ? item : *out;
    }
    return BERTH_OK;
}

static berth_status short_list(const struct shape_source *source, const char *name, uint64_t items, uint32_t count)
{
    return at_key(source, name,
                  error_set(source->err, BERTH_ERR_FORMAT, "\"%s\" has %llu items for %lu layers", name,
                            (unsigned long long)items, (unsigned long)count));
}

static berth_status list_gguf(const struct shape_source *source, const struct shape_key *key, uint32_t count,
                              uint32_t *out, bool *found)
{
    const struct meta_pair *pair = find_pair(source, key->gguf);
    *found = pair != NULL;
    if (pair == NULL) {
        return BERTH_OK;
    }
    if (pair->type == META_ARRAY && pair->count < count) {
        return short_list(source, key->gguf, pair->count, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        TRY(item_u32(source, key, pair, i, &out[i]));
    }
    return BERTH_OK;
}

berth_status source_list(const struct shape_source *source, const struct shape_key *key, uint32_t count, uint32_t *out,
                         bool *found)
{
    struct json value;
    const char *name;
    if (source->meta != NULL) {
        return list_gguf(source, key, count, out, found);
    }
    *found = find_spelling(source, key, &name, &value);
    if (!*found) {
        return BERTH_OK;
    }
    if (value.token.kind != JSON_ARRAY_BEGIN) {
        uint32_t one = 0;
        TRY(source_json_u32(source, name, &value, key->max, &one));
        for (uint32_t i = 0; i < count; i++) {
            out[i] = one;
        }
        return BERTH_OK;
    }
    uint32_t items = 0;
    while (items < count && json_next(&value) != JSON_ARRAY_END) {
        TRY(value.token.kind == JSON_NULL ? (out[items] = 0, BERTH_OK)
                                          : source_json_u32(source, name, &value, key->max, &out[items]));
        items++;
    }
    return items == count ? BERTH_OK : short_list(source, name, items, count);
}
