/* SPDX-License-Identifier: MIT */
#include "text/json_read.h"

bool json_read_member(const struct json *object, const char *key, struct json *value)
{
    if (object->token.kind != JSON_OBJECT_BEGIN) {
        return false;
    }
    struct json at = *object;
    while (json_next(&at) == JSON_KEY) {
        if (json_token_is(&at.token, key)) {
            (void)json_next(&at);
            *value = at;
            return true;
        }
        if (!json_skip(&at)) {
            return false;
        }
    }
    return false;
}

bool json_read_flag(const struct json *object, const char *key, bool otherwise)
{
    struct json value;
    if (!json_read_member(object, key, &value)) {
        return otherwise;
    }
    return value.token.kind == JSON_TRUE || (value.token.kind != JSON_FALSE && otherwise);
}

berth_status json_read_wrong(const struct json *at, const char *what, const char *wanted, berth_error *err)
{
    if (at->error != NULL) {
        return json_fail(at, NULL, err);
    }
    berth_status status = error_set(err, BERTH_ERR_FORMAT, "%s must be %s", what, wanted);
    error_at_offset(err, at->token.offset);
    return status;
}

berth_status json_read_string(const struct text_build *build, const struct json *at, const char *what, struct str *out,
                              berth_error *err)
{
    if (at->token.kind != JSON_STRING && at->token.kind != JSON_KEY) {
        return json_read_wrong(at, what, "a string", err);
    }
    if (!at->token.escaped) {
        *out = at->token.raw;
        return BERTH_OK;
    }
    void *place;
    TRY(text_build_temp(build, at->token.raw.bytes, 1, &place, err));
    *out = (struct str){place, json_unescape(&at->token, place, at->token.raw.bytes)};
    return BERTH_OK;
}

berth_status json_read_text(const struct text_build *build, const struct json *object, const char *key, struct str *out,
                            berth_error *err)
{
    struct json value;
    if (!json_read_member(object, key, &value)) {
        berth_status status = error_set(err, BERTH_ERR_FORMAT, "a member \"%s\" is missing", key);
        error_at_offset(err, object->token.offset);
        return status;
    }
    return json_read_string(build, &value, key, out, err);
}
