/* SPDX-License-Identifier: MIT
 * A tree back to the text of a document, for tests whose vectors hold configurations. */
#ifndef TESTS_SUPPORT_JSON_TEXT_H
#define TESTS_SUPPORT_JSON_TEXT_H

#include "base/js_text.h"
#include "support/json_tree.h"

struct json_text {
    char ptr[1 << 16];
    size_t bytes;
};

static inline void json_text_put(void *user, const void *text, size_t bytes)
{
    struct json_text *out = user;
    if (out->bytes + bytes > sizeof out->ptr) {
        fprintf(stderr, "a document of more than %zu bytes\n", sizeof out->ptr);
        exit(1);
    }
    memcpy(out->ptr + out->bytes, text, bytes);
    out->bytes += bytes;
}

static inline void json_text_value(const struct js_out *out, const struct tree *node)
{
    bool object = node->kind == JSON_OBJECT_BEGIN;
    if (!object && node->kind != JSON_ARRAY_BEGIN) {
        if (node->kind == JSON_STRING) {
            js_put_string(out, node->text, node->text_bytes);
        } else {
            js_put(out, node->kind == JSON_TRUE ? "true" : node->kind == JSON_FALSE ? "false" : "");
            if (node->kind == JSON_NUMBER) {
                js_put_number(out, node->number);
            }
            js_put(out, node->kind == JSON_NULL ? "null" : "");
        }
        return;
    }
    js_put(out, object ? "{" : "[");
    for (const struct tree *at = node->first; at != NULL; at = at->next) {
        js_put(out, at != node->first ? "," : "");
        if (object) {
            js_put_string(out, at->key, strlen(at->key));
            js_put(out, ":");
        }
        json_text_value(out, at);
    }
    js_put(out, object ? "}" : "]");
}

/* The text lives until the next call. */
static inline const struct json_text *json_text(const struct tree *node)
{
    static struct json_text text;
    text.bytes = 0;
    json_text_value(&(struct js_out){json_text_put, &text}, node);
    return &text;
}

#endif
