/* SPDX-License-Identifier: MIT
 * The JSON pull parser: a state machine of seven states, containers remembered as one bit each. Conversion of numbers
 * is in json_number.c. */
#include "model/json.h"

#include "base/bytes.h"

_Static_assert(JSON_DEPTH_MAX == 64, "one bit a level, and the text of the error");

enum expect {
    EXPECT_VALUE = 0,
    EXPECT_VALUE_OR_END, /* after [ */
    EXPECT_KEY_OR_END,   /* after { */
    EXPECT_KEY,          /* after , in an object */
    EXPECT_COMMA_OR_END, /* after a value in a container */
    EXPECT_NOTHING,      /* after the top-level value */
    EXPECT_FAILED
};

void json_begin(struct json *json, struct str document)
{
    *json = (struct json){.ptr = document.ptr, .bytes = document.bytes};
    if (document.bytes > UINT32_MAX) {
        json->error = "the document is larger than 4 GiB";
        json->expect = EXPECT_FAILED;
    }
}

static enum json_kind fail_at(struct json *json, size_t at, const char *what)
{
    json->error = what;
    json->at = at;
    json->expect = EXPECT_FAILED;
    json->token = (struct json_token){.kind = JSON_ERROR, .offset = at};
    return JSON_ERROR;
}

/* Indented documents are half white space: a new line and eight spaces are one step. */
static inline size_t space_end(const char *ptr, size_t at, size_t bytes)
{
    const uint64_t spaces = 0x2020202020202020u;
    if (at < bytes && ptr[at] == '\n') {
        at++;
    }
    while (bytes - at >= 8 && load_u64(ptr + at) == spaces) {
        at += 8;
    }
    while (at < bytes && (ptr[at] == ' ' || ptr[at] == '\n' || ptr[at] == '\t' || ptr[at] == '\r')) {
        at++;
    }
    return at;
}

static void skip_space(struct json *json)
{
    json->at = space_end(json->ptr, json->at, json->bytes);
}

/* The top bit of the first of eight bytes that is a quote, a backslash, a control character or not ASCII, and bits
 * above it; 0: there is none. */
static uint64_t needs_care(uint64_t eight)
{
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t tops = 0x8080808080808080u;
    uint64_t quote = eight ^ (ones * '"');
    uint64_t slash = eight ^ (ones * '\\');
    uint64_t low = eight - ones * 0x20;
    return (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | low | eight) & tops;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Length of the escape sequence at ptr[0] == '\\' (2 or 6); 0: malformed or cut. */
static size_t escape_bytes(const char *ptr, size_t bytes)
{
    if (bytes < 2) {
        return 0;
    }
    switch (ptr[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return 2;
    case 'u':
        for (size_t i = 2; i < 6; i++) {
            if (i >= bytes || hex_digit(ptr[i]) < 0) {
                return 0;
            }
        }
        return 6;
    default:
        return 0;
    }
}

/* json->at is on the opening quote. */
static enum json_kind scan_string(struct json *json, enum json_kind kind)
{
    const char *ptr = json->ptr;
    size_t bytes = json->bytes;
    size_t start = json->at + 1;
    size_t at = start;
    bool escaped = false;
    for (;;) {
        for (uint64_t care = 0; bytes - at >= 8 && care == 0;) {
            care = needs_care(load_u64(ptr + at));
            at += care == 0 ? 8u : (unsigned)__builtin_ctzll(care) / 8; /* the first such byte is always right */
        }
        if (at >= bytes) {
            return fail_at(json, json->at, "a string does not end");
        }
        unsigned char c = (unsigned char)ptr[at];
        if (c == '"') {
            break;
        }
        if (c == '\\') {
            size_t length = escape_bytes(ptr + at, bytes - at);
            if (length == 0) {
                return fail_at(json, at, "a malformed escape sequence in a string");
            }
            escaped = true;
            at += length;
        } else if (c < 0x20) {
            return fail_at(json, at, "a control character in a string");
        } else if (c < 0x80) {
            at++;
        } else {
            int length = utf8_sequence((const unsigned char *)ptr + at, bytes - at);
            if (length <= 0) {
                return fail_at(json, at, "a string is not UTF-8");
            }
            at += (size_t)length;
        }
    }
    json->token = (struct json_token){kind, {ptr + start, at - start}, escaped, json->at};
    json->at = at + 1;
    return kind;
}

static size_t scan_digits(const struct json *json, size_t at)
{
    while (at < json->bytes && json->ptr[at] >= '0' && json->ptr[at] <= '9') {
        at++;
    }
    return at;
}

static enum json_kind scan_number(struct json *json)
{
    const char *ptr = json->ptr;
    size_t at = json->at;
    at += ptr[at] == '-' ? 1u : 0u;
    size_t end = scan_digits(json, at);
    if (end == at) {
        return fail_at(json, at, "a number has no digits");
    }
    if (ptr[at] == '0' && end - at > 1) {
        return fail_at(json, at, "a number starts with a superfluous zero");
    }
    if (end < json->bytes && ptr[end] == '.') {
        at = end + 1;
        end = scan_digits(json, at);
        if (end == at) {
            return fail_at(json, at, "a number has no digits after its point");
        }
    }
    if (end < json->bytes && (ptr[end] == 'e' || ptr[end] == 'E')) {
        at = end + 1;
        at += at < json->bytes && (ptr[at] == '+' || ptr[at] == '-') ? 1u : 0u;
        end = scan_digits(json, at);
        if (end == at) {
            return fail_at(json, at, "a number has no digits in its exponent");
        }
    }
    json->token = (struct json_token){JSON_NUMBER, {ptr + json->at, end - json->at}, false, json->at};
    json->at = end;
    return JSON_NUMBER;
}

static enum json_kind scan_word(struct json *json, const char *word, enum json_kind kind)
{
    struct str wanted = str_from(word);
    struct str rest = {json->ptr + json->at, json->bytes - json->at};
    if (!str_starts(rest, wanted)) {
        return fail_at(json, json->at, "a word that is none of true, false, null");
    }
    json->token = (struct json_token){kind, {rest.ptr, wanted.bytes}, false, json->at};
    json->at += wanted.bytes;
    return kind;
}

static bool scan_nonfinite(struct json *json)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    struct str rest = {json->ptr + json->at, json->bytes - json->at};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (str_starts(rest, str_from(words[i]))) {
            scan_word(json, words[i], JSON_NUMBER);
            return true;
        }
    }
    return false;
}

static bool in_object(const struct json *json)
{
    return json->depth > 0 && (json->in_object >> (json->depth - 1) & 1u) != 0;
}

static void value_done(struct json *json)
{
    json->expect = json->depth == 0 ? EXPECT_NOTHING : EXPECT_COMMA_OR_END;
}

static enum json_kind open_container(struct json *json, bool object)
{
    if (json->depth == JSON_DEPTH_MAX) {
        return fail_at(json, json->at, "nested deeper than 64 levels");
    }
    enum json_kind kind = object ? JSON_OBJECT_BEGIN : JSON_ARRAY_BEGIN;
    uint64_t bit = (uint64_t)1 << json->depth;
    json->in_object = object ? json->in_object | bit : json->in_object & ~bit;
    json->depth++;
    json->token = (struct json_token){kind, {json->ptr + json->at, 1}, false, json->at};
    json->at++;
    json->expect = object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    return kind;
}

static enum json_kind close_container(struct json *json)
{
    enum json_kind kind = in_object(json) ? JSON_OBJECT_END : JSON_ARRAY_END;
    json->depth--;
    json->token = (struct json_token){kind, {json->ptr + json->at, 1}, false, json->at};
    json->at++;
    value_done(json);
    return kind;
}

static enum json_kind scan_value(struct json *json)
{
    enum json_kind kind;
    char c = json->ptr[json->at];
    switch (c) {
    case '{':
    case '[':
        return open_container(json, c == '{');
    case '"':
        kind = scan_string(json, JSON_STRING);
        break;
    case 't':
        kind = scan_word(json, "true", JSON_TRUE);
        break;
    case 'f':
        kind = scan_word(json, "false", JSON_FALSE);
        break;
    case 'n':
        kind = scan_word(json, "null", JSON_NULL);
        break;
    default:
        if (json->allow_nonfinite && scan_nonfinite(json)) {
            kind = JSON_NUMBER;
            break;
        }
        if (c != '-' && (c < '0' || c > '9')) {
            return fail_at(json, json->at, "expected a value");
        }
        kind = scan_number(json);
        break;
    }
    if (kind != JSON_ERROR) {
        value_done(json);
    }
    return kind;
}

static enum json_kind scan_key(struct json *json)
{
    if (json->ptr[json->at] != '"') {
        return fail_at(json, json->at, "expected a member name in quotes");
    }
    if (scan_string(json, JSON_KEY) == JSON_ERROR) {
        return JSON_ERROR;
    }
    skip_space(json);
    if (json->at >= json->bytes || json->ptr[json->at] != ':') {
        return fail_at(json, json->at, "expected ':' after a member name");
    }
    json->at++;
    json->expect = EXPECT_VALUE;
    return JSON_KEY;
}

enum json_kind json_next(struct json *json)
{
    if (json->expect == EXPECT_FAILED) {
        json->token.kind = JSON_ERROR;
        return JSON_ERROR;
    }
    skip_space(json);
    if (json->at >= json->bytes) {
        if (json->expect != EXPECT_NOTHING) {
            return fail_at(json, json->at, "the document ends too early");
        }
        json->token = (struct json_token){.kind = JSON_END, .offset = json->at};
        return JSON_END;
    }
    char c = json->ptr[json->at];
    if (json->expect == EXPECT_NOTHING) {
        return fail_at(json, json->at, "text after the end of the document");
    }
    if (json->expect == EXPECT_COMMA_OR_END) {
        if (c == (in_object(json) ? '}' : ']')) {
            return close_container(json);
        }
        if (c != ',') {
            return fail_at(json, json->at, in_object(json) ? "expected ',' or '}'" : "expected ',' or ']'");
        }
        json->expect = in_object(json) ? EXPECT_KEY : EXPECT_VALUE;
        json->at++;
        skip_space(json);
        if (json->at >= json->bytes) {
            return fail_at(json, json->at, "the document ends too early");
        }
    } else if ((json->expect == EXPECT_KEY_OR_END && c == '}') || (json->expect == EXPECT_VALUE_OR_END && c == ']')) {
        return close_container(json);
    }
    return json->expect == EXPECT_KEY || json->expect == EXPECT_KEY_OR_END ? scan_key(json) : scan_value(json);
}

bool json_skip(struct json *json)
{
    enum json_kind kind = json->token.kind;
    if (kind == JSON_KEY) {
        kind = json_next(json);
    }
    if (kind == JSON_OBJECT_BEGIN || kind == JSON_ARRAY_BEGIN) {
        for (uint32_t outside = json->depth - 1; json->depth > outside;) {
            if (json_next(json) == JSON_ERROR) {
                return false;
            }
        }
    }
    return kind != JSON_ERROR;
}

void json_took_value(struct json *json, size_t at)
{
    json->at = at;
    value_done(json);
}

/* A string without escapes, with white space around it; *place moves behind that. */
static bool took_plain(const struct json *json, size_t *place, size_t longest, struct str *out)
{
    const char *ptr = json->ptr;
    size_t bytes = json->bytes;
    size_t at = space_end(ptr, *place, bytes);
    if (at >= bytes || ptr[at] != '"') {
        return false;
    }
    size_t start = ++at;
    while (at < bytes && ptr[at] != '"') {
        unsigned char c = (unsigned char)ptr[at];
        if (c >= 0x20 && c < 0x80 && c != '\\') {
            at++;
            continue;
        }
        int length = c < 0x80 ? 0 : utf8_sequence((const unsigned char *)ptr + at, bytes - at);
        if (length <= 0) {
            return false;
        }
        at += (size_t)length;
    }
    if (at >= bytes || at - start > longest) {
        return false;
    }
    *out = (struct str){ptr + start, at - start};
    *place = space_end(ptr, at + 1, bytes);
    return *place < bytes;
}

bool json_took_pair(struct json *json, size_t longest, struct str *first, struct str *second)
{
    size_t at = json->at;
    if (json->token.kind != JSON_ARRAY_BEGIN || !took_plain(json, &at, longest, first) || json->ptr[at++] != ',' ||
        !took_plain(json, &at, longest, second) || json->ptr[at] != ']') {
        return false;
    }
    json->at = at;
    (void)close_container(json);
    return true;
}

berth_status json_fail(const struct json *json, const char *path, berth_error *err)
{
    error_set(err, BERTH_ERR_FORMAT, "JSON: %s at byte %zu", json->error != NULL ? json->error : "unexpected content",
              json->at);
    error_at_path(err, path);
    error_at_offset(err, json->at);
    return BERTH_ERR_FORMAT;
}

/* ---- strings ---------------------------------------------------------------------------------------- */

static uint32_t hex_quad(const char *ptr)
{
    uint32_t code = 0;
    for (size_t i = 0; i < 4; i++) {
        code = code << 4 | ((uint32_t)hex_digit(ptr[i]) & 0xfu);
    }
    return code;
}

static size_t put_utf8(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80u | (code & 0x3fu));
        code >>= 6;
    }
    out[0] = (char)((0xf0u << (4 - length) & 0xffu) | code);
    return length;
}

/* Decodes the escape at raw[at] into out; *out_bytes is 1 to 4. Returns the bytes of raw it took. */
static size_t decode_escape(struct str raw, size_t at, char out[4], size_t *out_bytes)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    const char *ptr = raw.ptr + at;
    if (ptr[1] != 'u') {
        for (size_t i = 0; from[i] != '\0'; i++) {
            out[0] = from[i] == ptr[1] ? to[i] : out[0];
        }
        *out_bytes = 1;
        return 2;
    }
    uint32_t code = hex_quad(ptr + 2);
    size_t taken = 6;
    if (code >= 0xd800 && code <= 0xdfff) {
        uint32_t low = 0;
        if (code <= 0xdbff && raw.bytes - at >= 12 && ptr[6] == '\\' && ptr[7] == 'u') {
            low = hex_quad(ptr + 8);
        }
        if (low >= 0xdc00 && low <= 0xdfff) {
            code = 0x10000u + ((code - 0xd800u) << 10) + (low - 0xdc00u);
            taken = 12;
        } else {
            code = 0xfffd;
        }
    }
    *out_bytes = put_utf8(code, out);
    return taken;
}

size_t json_unescape(const struct json_token *token, char *buffer, size_t cap)
{
    struct str raw = token->raw;
    size_t used = 0;
    for (size_t at = 0; at < raw.bytes;) {
        char piece[4] = {raw.ptr[at], 0, 0, 0};
        size_t bytes = 1;
        at += raw.ptr[at] == '\\' ? decode_escape(raw, at, piece, &bytes) : 1;
        if (bytes > cap - used) {
            break;
        }
        memcpy(buffer + used, piece, bytes);
        used += bytes;
    }
    return used;
}

bool json_token_is(const struct json_token *token, const char *text)
{
    struct str raw = token->raw;
    if (token->kind != JSON_KEY && token->kind != JSON_STRING) {
        return false;
    }
    if (!token->escaped) {
        return str_is(raw, text);
    }
    struct str wanted = str_from(text);
    size_t used = 0;
    for (size_t at = 0; at < raw.bytes;) {
        char piece[4] = {raw.ptr[at], 0, 0, 0};
        size_t bytes = 1;
        at += raw.ptr[at] == '\\' ? decode_escape(raw, at, piece, &bytes) : 1;
        if (bytes > wanted.bytes - used || memcmp(wanted.ptr + used, piece, bytes) != 0) {
            return false;
        }
        used += bytes;
    }
    return used == wanted.bytes;
}

/* ---- finding ---------------------------------------------------------------------------------------- */

bool json_find(struct str document, const char *const *keys, struct json *value)
{
    struct json walk;
    json_begin(&walk, document);
    walk.allow_nonfinite = true;
    if (json_next(&walk) == JSON_ERROR) {
        return false;
    }
    struct json found = walk;
    if (!json_skip(&walk) || json_next(&walk) != JSON_END) {
        return false; /* malformed somewhere: do not answer from its sound part */
    }
    for (; *keys != NULL; keys++) {
        if (found.token.kind != JSON_OBJECT_BEGIN) {
            return false;
        }
        bool present = false;
        walk = found;
        while (json_next(&walk) == JSON_KEY) {
            bool matches = json_token_is(&walk.token, *keys);
            json_next(&walk);
            if (matches) {
                found = walk;
                present = true;
            }
            json_skip(&walk);
        }
        if (!present) {
            return false;
        }
    }
    *value = found;
    return true;
}
