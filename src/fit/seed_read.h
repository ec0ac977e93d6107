/* SPDX-License-Identifier: MIT
 * Typed look-ups in a small JSON document, as the dialect readers need them: absent and null are the same, a value of
 * the wrong type is an error that names the key. */
#ifndef FIT_SEED_READ_H
#define FIT_SEED_READ_H

#include "memory/arena.h"
#include "model/json.h"

/* Where keys are looked up: the document itself, or the object at `inside` (NULL: the document). */
struct seed_scope {
    struct str document;
    const char *inside;
};

/* The value's first token; false: absent or null. */
bool seed_find(const struct seed_scope *scope, const char *key, struct json *value);
berth_status seed_wrong_type(const struct json *value, const char *key, const char *wanted, berth_error *err);

/* Each leaves *out alone and sets *found to false when the key is absent or null. `found` may be NULL. */
berth_status seed_number(const struct seed_scope *scope, const char *key, double *out, bool *found, berth_error *err);
berth_status seed_bool(const struct seed_scope *scope, const char *key, bool *out, berth_error *err);
berth_status seed_text(const struct seed_scope *scope, const char *key, struct arena *arena, berth_text *out,
                       berth_error *err);

struct seed_numbers {
    double *items; /* NaN: null */
    size_t count;
    bool found, is_list;
};
/* A number, or a list of numbers and nulls, of at most `most`. */
berth_status seed_numbers(const struct seed_scope *scope, const char *key, size_t most, struct arena *arena,
                          struct seed_numbers *out, berth_error *err);
berth_status seed_texts(const struct seed_scope *scope, const char *key, size_t most, struct arena *arena,
                        const berth_text **items, size_t *count, bool *found, berth_error *err);
/* The string of the current token. */
berth_status seed_take_text(const struct json_token *token, struct arena *arena, berth_text *out, berth_error *err);

#endif
