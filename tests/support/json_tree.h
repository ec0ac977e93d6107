/* SPDX-License-Identifier: MIT
 * A whole JSON document as a tree, for table-driven tests: built with the library's own pull parser, never freed. */
#ifndef TESTS_SUPPORT_JSON_TREE_H
#define TESTS_SUPPORT_JSON_TREE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/json.h"

#ifdef BERTH_SANITIZED
/* LeakSanitizer's switch: tests that read trees let everything live to the end of the process. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}
#endif

struct tree {
    enum json_kind kind;
    char *key;  /* members of objects */
    char *text; /* strings, unescaped */
    size_t text_bytes;
    double number;
    struct tree *first, *next;
    size_t count; /* of children */
};

static void *tree_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static struct tree *tree_value(struct json *json);

static struct tree *tree_container(struct json *json, struct tree *node)
{
    struct tree **last = &node->first;
    for (;;) {
        enum json_kind kind = json_next(json);
        char *key = NULL;
        if (kind == JSON_KEY) {
            key = tree_alloc(json->token.raw.bytes);
            key[json_unescape(&json->token, key, json->token.raw.bytes)] = '\0';
            kind = json_next(json);
        }
        if (kind == JSON_OBJECT_END || kind == JSON_ARRAY_END) {
            return node;
        }
        *last = tree_value(json);
        (*last)->key = key;
        last = &(*last)->next;
        node->count++;
    }
}

static struct tree *tree_value(struct json *json)
{
    struct tree *node = tree_alloc(sizeof *node);
    node->kind = json->token.kind;
    switch (json->token.kind) {
    case JSON_OBJECT_BEGIN:
    case JSON_ARRAY_BEGIN:
        return tree_container(json, node);
    case JSON_STRING:
        node->text = tree_alloc(json->token.raw.bytes);
        node->text_bytes = json_unescape(&json->token, node->text, json->token.raw.bytes);
        return node;
    case JSON_NUMBER:
        if (!json_token_f64(&json->token, &node->number)) {
            fprintf(stderr, "bad number\n");
            exit(1);
        }
        return node;
    case JSON_TRUE:
        node->number = 1.0;
        return node;
    case JSON_FALSE:
    case JSON_NULL:
        return node;
    case JSON_ERROR:
    case JSON_END:
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
    case JSON_KEY:
    default:
        fprintf(stderr, "JSON: %s at byte %zu\n", json->error != NULL ? json->error : "unexpected token", json->at);
        exit(1);
    }
}

static struct tree *tree_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(1);
    }
    size_t cap = (size_t)16 << 20;
    char *text = tree_alloc(cap);
    size_t bytes = fread(text, 1, cap, file);
    fclose(file);
    struct json json;
    json_begin(&json, (struct str){text, bytes});
    json_next(&json);
    return tree_value(&json);
}

/* Member of an object, NULL: absent. */
static const struct tree *tree_get(const struct tree *node, const char *key)
{
    for (const struct tree *at = node->first; at != NULL; at = at->next) {
        if (at->key != NULL && strcmp(at->key, key) == 0) {
            return at;
        }
    }
    return NULL;
}

static const struct tree *tree_need(const struct tree *node, const char *key)
{
    const struct tree *found = tree_get(node, key);
    if (found == NULL) {
        fprintf(stderr, "no member %s\n", key);
        exit(1);
    }
    return found;
}

static inline const struct tree *tree_at(const struct tree *node, size_t index)
{
    const struct tree *at = node->first;
    for (; at != NULL && index > 0; index--) {
        at = at->next;
    }
    if (at == NULL) {
        fprintf(stderr, "no item %zu\n", index);
        exit(1);
    }
    return at;
}

static inline double tree_number(const struct tree *node, const char *key)
{
    return tree_need(node, key)->number;
}

#endif
