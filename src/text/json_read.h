/* SPDX-License-Identifier: MIT
 * Reading small objects of tokenizer.json with the pull parser: members by name, typed, with errors that say which. */
#ifndef TEXT_JSON_READ_H
#define TEXT_JSON_READ_H

#include "model/json.h"
#include "text/text_build.h"

/* `object` stands at '{'. True: *value stands at the first token of the member (the first of that name). */
bool json_read_member(const struct json *object, const char *key, struct json *value);
/* Absent, null or not a boolean: the default. */
bool json_read_flag(const struct json *object, const char *key, bool otherwise);
/* The current token, a string, unescaped into temp memory (borrowed from the document when it has no escapes). */
berth_status json_read_string(const struct text_build *build, const struct json *at, const char *what, struct str *out,
                              berth_error *err);
/* A member that must be a string. */
berth_status json_read_text(const struct text_build *build, const struct json *object, const char *key, struct str *out,
                            berth_error *err);
/* The parser's error if it has one, else "<what> must be <wanted>" at the current token. */
berth_status json_read_wrong(const struct json *at, const char *what, const char *wanted, berth_error *err);

#endif
