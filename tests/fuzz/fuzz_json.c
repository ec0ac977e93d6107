/* SPDX-License-Identifier: MIT
 * The JSON pull parser: every token of any bytes, numbers and escapes converted, then skipped and searched. */
#include "model/json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_token(const struct json_token *token, char *buffer)
{
    uint64_t u;
    int64_t i;
    double f;
    if (token->kind == JSON_KEY || token->kind == JSON_STRING) {
        size_t written = json_unescape(token, buffer, token->raw.bytes);
        if (written > token->raw.bytes || !utf8_is_valid(buffer, written)) {
            abort();
        }
        (void)json_token_is(token, "rope_theta");
    } else if (token->kind == JSON_NUMBER) {
        bool is_u = json_token_u64(token, &u);
        bool is_i = json_token_i64(token, &i);
        bool is_f = json_token_f64(token, &f);
        if ((is_u && is_i && u != (uint64_t)i) || ((is_u || is_i) && !is_f)) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct str document = {(const char *)data, bytes};
    char *buffer = malloc(bytes + 1);
    if (buffer == NULL) {
        return 0;
    }
    struct json json;
    json_begin(&json, document);
    uint64_t offset = 0;
    size_t tokens = 0;
    enum json_kind kind;
    do {
        kind = json_next(&json);
        if (json.token.offset < offset || json.token.offset > bytes || ++tokens > 2 * bytes + 2) {
            abort();
        }
        offset = json.token.offset;
        read_token(&json.token, buffer);
    } while (kind != JSON_ERROR && kind != JSON_END);
    if (kind == JSON_ERROR) {
        berth_error err;
        if (json_next(&json) != JSON_ERROR || json_fail(&json, "a", &err) == BERTH_OK) {
            abort();
        }
    }
    json_begin(&json, document);
    bool well_formed = json_next(&json) != JSON_ERROR && json_skip(&json) && json_next(&json) == JSON_END;
    if (well_formed != (kind == JSON_END)) {
        abort();
    }
    const char *const keys[] = {"a", "b", NULL};
    (void)json_find(document, keys, &json);
    free(buffer);
    return 0;
}
