/* SPDX-License-Identifier: MIT
 * JSON written straight to a stream: no tree, so that printing a result takes no memory the plan does not know. */
#ifndef APP_JSON_OUT_H
#define APP_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_OUT_DEPTH = 16 };

struct json_out {
    FILE *out;
    int depth;
    bool filled[JSON_OUT_DEPTH]; /* the container at this depth has a member already */
    bool flat[JSON_OUT_DEPTH];   /* and stays on one line */
    bool array[JSON_OUT_DEPTH];
};

void json_out_begin(struct json_out *json, FILE *out);
/* Closes the last line. */
void json_out_end(struct json_out *json);

/* `key` is NULL inside arrays and at the top. */
void json_out_object(struct json_out *json, const char *key);
void json_out_array(struct json_out *json, const char *key, bool flat);
void json_out_close(struct json_out *json);

void json_out_u64(struct json_out *json, const char *key, uint64_t value);
void json_out_i64(struct json_out *json, const char *key, int64_t value);
void json_out_real(struct json_out *json, const char *key, double value); /* null when not finite */
void json_out_bool(struct json_out *json, const char *key, bool value);
void json_out_null(struct json_out *json, const char *key);
/* Bytes that are not UTF-8 become U+FFFD. */
void json_out_text(struct json_out *json, const char *key, const char *text, size_t bytes);
void json_out_string(struct json_out *json, const char *key, const char *zero_terminated);
/* A string in pieces; each piece must end at a character's end. */
void json_out_string_begin(struct json_out *json, const char *key);
void json_out_string_add(struct json_out *json, const char *text, size_t bytes);
void json_out_string_end(struct json_out *json);

#endif
