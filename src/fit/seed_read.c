/* SPDX-License-Identifier: MIT */
#include "fit/seed_read.h"

#include <math.h>

bool seed_find(const struct seed_scope *scope, const char *key, struct json *value)
{
    const char *nested[] = {scope->inside, key, NULL};
    return json_find(scope->document, scope->inside != NULL ? nested : nested + 1, value) &&
           value->token.kind != JSON_NULL;
}

static const char *kind_name(enum json_kind kind)
{
    switch (kind) {
    case JSON_OBJECT_BEGIN:
        return "an object";
    case JSON_ARRAY_BEGIN:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_NUMBER:
        return "a number out of range";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a truth value";
    case JSON_NULL:
        return "null";
    case JSON_ERROR:
    case JSON_END:
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
    case JSON_KEY:
    default:
        return "something else";
    }
}

berth_status seed_wrong_type(const struct json *value, const char *key, const char *wanted, berth_error *err)
{
    berth_status status =
        error_set(err, BERTH_ERR_FORMAT, "\"%s\" is %s, but %s is wanted", key, kind_name(value->token.kind), wanted);
    error_at_object(err, key, strlen(key));
    error_at_offset(err, value->token.offset);
    return status;
}

berth_status seed_number(const struct seed_scope *scope, const char *key, double *out, bool *found, berth_error *err)
{
    struct json value;
    bool present = seed_find(scope, key, &value);
    if (found != NULL) {
        *found = present;
    }
    if (present && (value.token.kind != JSON_NUMBER || !json_token_f64(&value.token, out))) {
        return seed_wrong_type(&value, key, "a number", err);
    }
    return BERTH_OK;
}

berth_status seed_bool(const struct seed_scope *scope, const char *key, bool *out, berth_error *err)
{
    struct json value;
    if (!seed_find(scope, key, &value)) {
        return BERTH_OK;
    }
    if (value.token.kind != JSON_TRUE && value.token.kind != JSON_FALSE) {
        return seed_wrong_type(&value, key, "true or false", err);
    }
    *out = value.token.kind == JSON_TRUE;
    return BERTH_OK;
}

berth_status seed_take_text(const struct json_token *token, struct arena *arena, berth_text *out, berth_error *err)
{
    if (!token->escaped) {
        *out = (berth_text){token->raw.ptr, token->raw.bytes};
        return BERTH_OK;
    }
    char *copy = arena_take(arena, token->raw.bytes, 1, 1);
    if (copy == NULL) {
        return arena_check(arena, "memory for the configuration", err);
    }
    *out = (berth_text){copy, json_unescape(token, copy, token->raw.bytes)};
    return BERTH_OK;
}

berth_status seed_text(const struct seed_scope *scope, const char *key, struct arena *arena, berth_text *out,
                       berth_error *err)
{
    struct json value;
    if (!seed_find(scope, key, &value)) {
        return BERTH_OK;
    }
    if (value.token.kind != JSON_STRING) {
        return seed_wrong_type(&value, key, "a string", err);
    }
    return seed_take_text(&value.token, arena, out, err);
}

/* Items of the list whose first token is the current one. */
static berth_status count_items(struct json list, const char *key, size_t most, size_t *count, berth_error *err)
{
    *count = 0;
    while (json_next(&list) != JSON_ARRAY_END) {
        if (!json_skip(&list)) {
            return json_fail(&list, NULL, err);
        }
        if (++*count > most) {
            berth_status status =
                error_set(err, BERTH_ERR_LIMIT, "\"%s\" has more than %zu items, the limit", key, most);
            error_at_object(err, key, strlen(key));
            return status;
        }
    }
    return BERTH_OK;
}

berth_status seed_numbers(const struct seed_scope *scope, const char *key, size_t most, struct arena *arena,
                          struct seed_numbers *out, berth_error *err)
{
    struct json value;
    *out = (struct seed_numbers){.found = seed_find(scope, key, &value)};
    if (!out->found) {
        return BERTH_OK;
    }
    out->is_list = value.token.kind == JSON_ARRAY_BEGIN;
    out->count = 1;
    if (out->is_list) {
        TRY(count_items(value, key, most, &out->count, err));
    }
    out->items = arena_take(arena, out->count, sizeof *out->items, sizeof *out->items);
    TRY(arena_check(arena, "memory for the configuration", err));
    for (size_t i = 0; i < out->count; i++) {
        if (out->is_list) {
            json_next(&value);
        }
        if (value.token.kind == JSON_NULL) {
            out->items[i] = (double)NAN;
        } else if (value.token.kind != JSON_NUMBER || !json_token_f64(&value.token, &out->items[i])) {
            return seed_wrong_type(&value, key, "a number", err);
        }
    }
    return BERTH_OK;
}

berth_status seed_texts(const struct seed_scope *scope, const char *key, size_t most, struct arena *arena,
                        const berth_text **items, size_t *count, bool *found, berth_error *err)
{
    struct json value;
    *found = seed_find(scope, key, &value);
    if (!*found) {
        return BERTH_OK;
    }
    if (value.token.kind != JSON_ARRAY_BEGIN) {
        return seed_wrong_type(&value, key, "a list of strings", err);
    }
    TRY(count_items(value, key, most, count, err));
    berth_text *texts = arena_take(arena, *count, sizeof *texts, sizeof(double));
    TRY(arena_check(arena, "memory for the configuration", err));
    for (size_t i = 0; i < *count; i++) {
        if (json_next(&value) != JSON_STRING) {
            return seed_wrong_type(&value, key, "a list of strings", err);
        }
        TRY(seed_take_text(&value.token, arena, &texts[i], err));
    }
    *items = texts;
    return BERTH_OK;
}
