/* SPDX-License-Identifier: MIT
 *
 * Pull parser for JSON over (pointer, length): no tree, no allocation, no copy. RFC 8259, UTF-8 only. One call yields
 * one token; strings stay in place and are unescaped on demand. Used for safetensors headers, tokenizer.json and
 * config.json.
 *
 * Limits: nesting JSON_DEPTH_MAX; input up to 4 GiB. After an error every call returns JSON_ERROR and `error`/`at` say
 * what and where.
 */
#ifndef MODEL_JSON_H
#define MODEL_JSON_H

#include "base/error.h"
#include "base/str.h"

enum { JSON_DEPTH_MAX = 64 };

enum json_kind {
    JSON_ERROR = 0,
    JSON_END, /* the one top-level value is complete and only white space follows */
    JSON_OBJECT_BEGIN,
    JSON_OBJECT_END,
    JSON_ARRAY_BEGIN,
    JSON_ARRAY_END,
    JSON_KEY, /* member name; the value's tokens follow */
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL
};

struct json_token {
    enum json_kind kind;
    struct str raw;  /* KEY, STRING: bytes between the quotes, still escaped. NUMBER: its text. */
    bool escaped;    /* KEY, STRING: contains a backslash */
    uint64_t offset; /* of the token's first byte */
};

struct json {
    const char *ptr;
    size_t bytes;
    size_t at;
    uint32_t depth;
    uint64_t in_object; /* bit d: container at depth d is an object */
    uint8_t expect;     /* private: parser state */
    /* Set after json_begin(): NaN, Infinity and -Infinity, which Python's writer puts into config.json, are NUMBER
     * tokens that convert to no number. */
    bool allow_nonfinite;
    const char *error; /* static text, NULL: none */
    struct json_token token;
};

void json_begin(struct json *json, struct str document);
/* Reads the next token into json->token and returns its kind. */
enum json_kind json_next(struct json *json);
/* Skips the value whose first token is the current one (for KEY: the member's value). False on error. */
bool json_skip(struct json *json);
/* After KEY: the caller has read the member's value itself, a sound one that ends before byte `at`. */
void json_took_value(struct json *json, size_t at);
/* After ARRAY_BEGIN: reads the rest of an array of two strings without escapes, as long lists of them are quickest
 * read, and leaves ARRAY_END. False: it is something else, a string has more than `longest` bytes, or it is malformed;
 * nothing has been read then. */
bool json_took_pair(struct json *json, size_t longest, struct str *first, struct str *second);
/* Fills err from the parser's error: "JSON: <what> at byte N". `path` may be NULL. */
berth_status json_fail(const struct json *json, const char *path, berth_error *err);

/* Unescapes a KEY or STRING into buffer (cap >= raw.bytes always suffices: escapes never grow) and returns the bytes
 * written; with less room it stops before the first character that does not fit. Lone surrogates become U+FFFD. */
size_t json_unescape(const struct json_token *token, char *buffer, size_t cap);
/* True when the unescaped KEY or STRING equals `text`. */
bool json_token_is(const struct json_token *token, const char *text);
/* NUMBER as integer (false when it has a fraction that is not zero, is out of range or not a number). "8.0" and "1e3"
 * are integers. */
bool json_token_u64(const struct json_token *token, uint64_t *out);
bool json_token_i64(const struct json_token *token, int64_t *out);
/* Locale-independent, correctly rounded; false when not a number or not finite. */
bool json_token_f64(const struct json_token *token, double *out);

/* Finds a value in a small document by a path of keys ("text_config", "rope_parameters", "rope_theta",
 * NULL-terminated); leaves *value at the value's first token, ready for json_next()/json_skip(). False when absent, or
 * the document is malformed. The last of duplicate keys wins. NaN and Infinity are accepted (allow_nonfinite). */
bool json_find(struct str document, const char *const *keys, struct json *value);

#endif
