/* SPDX-License-Identifier: MIT
 * Fuzz target: the JSON parser. Checks that tokens lie in the document, that strings come out as UTF-8 and no longer
 * than they went in, that numbers agree with strtod, and that skipping and stepping agree. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

static void check_string(const struct json_token *token)
{
    char *out = malloc(token->raw.bytes + 1);
    size_t bytes = json_unescape(token, out, token->raw.bytes);
    MUST(bytes <= token->raw.bytes && utf8_is_valid(out, bytes));
    MUST(token->escaped == (memchr(token->raw.ptr, '\\', token->raw.bytes) != NULL));
    out[bytes] = '\0';
    MUST(json_token_is(token, out) == (strlen(out) == bytes));
    free(out);
}

static void check_number(const struct json_token *token)
{
    char *text = malloc(token->raw.bytes + 1);
    memcpy(text, token->raw.ptr, token->raw.bytes);
    text[token->raw.bytes] = '\0';
    double wanted = strtod(text, NULL);
    double got = 0;
    int64_t integer;
    uint64_t natural;
    bool finite = json_token_f64(token, &got);
    MUST(finite == (isfinite(wanted) != 0));
    MUST(!finite || memcmp(&got, &wanted, sizeof got) == 0);
    if (json_token_i64(token, &integer)) {
        MUST(finite && (double)integer == got);
        MUST(json_token_u64(token, &natural) == (integer >= 0));
    }
    if (json_token_u64(token, &natural)) {
        MUST(finite && (double)natural == got);
    }
    free(text);
}

static bool check_token(const struct json *json, struct str document)
{
    const struct json_token *token = &json->token;
    MUST(token->offset <= document.bytes && json->at <= document.bytes && json->depth <= JSON_DEPTH_MAX);
    if (token->kind == JSON_ERROR) {
        MUST(json->error != NULL);
        return false;
    }
    if (token->kind == JSON_END) {
        MUST(json->depth == 0);
        return false;
    }
    MUST(token->raw.ptr >= document.ptr && token->raw.ptr + token->raw.bytes <= document.ptr + document.bytes);
    if (token->kind == JSON_KEY || token->kind == JSON_STRING) {
        check_string(token);
    } else if (token->kind == JSON_NUMBER) {
        check_number(token);
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str document = {(const char *)data, size};
    struct json json;
    json_begin(&json, document);
    json.allow_nonfinite = size % 2 == 0;
    json_next(&json);
    while (check_token(&json, document)) {
        struct json skip = json; /* skipping ends where stepping to the same depth ends */
        bool opens = json.token.kind == JSON_OBJECT_BEGIN || json.token.kind == JSON_ARRAY_BEGIN;
        if (opens && json.depth < 3) {
            struct json step = json;
            while (step.depth >= json.depth && json_next(&step) != JSON_ERROR) {
            }
            MUST(json_skip(&skip) == (step.error == NULL) && skip.at == step.at);
        }
        json_next(&json);
    }
    bool sound = json.token.kind == JSON_END;
    struct json value;
    bool found = json_find(document, (const char *const[]){NULL}, &value); /* which accepts NaN */
    MUST(found == sound || (found && !json.allow_nonfinite));
    if (json_find(document, (const char *const[]){"a", "b", NULL}, &value)) {
        MUST(found && json_skip(&value));
    }
    berth_error err;
    if (!sound) {
        MUST(json_fail(&json, "x", &err) == BERTH_ERR_FORMAT && err.offset == json.at);
    }
    return 0;
}
