/* SPDX-License-Identifier: MIT */
#include "common/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void json_out_begin(struct json_out *json, FILE *out)
{
    *json = (struct json_out){.out = out};
}

void json_out_end(struct json_out *json)
{
    fputc('\n', json->out);
}

static void put_escaped(FILE *out, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') {
            fputc('\\', out);
            fputc(c, out);
            i++;
        } else if (c == '\n') {
            fputs("\\n", out);
            i++;
        } else if (c == '\t') {
            fputs("\\t", out);
            i++;
        } else if (c < 0x20 || c == 0x7f) {
            fprintf(out, "\\u%04x", c);
            i++;
        } else {
            int length = utf8_sequence((const unsigned char *)text + i, bytes - i);
            if (length <= 0) {
                fputs("\xef\xbf\xbd", out);
                i++;
            } else {
                fwrite(text + i, 1, (size_t)length, out);
                i += (size_t)length;
            }
        }
    }
}

static void put_quoted(FILE *out, const char *text, size_t bytes)
{
    fputc('"', out);
    put_escaped(out, text, bytes);
    fputc('"', out);
}

/* Comma, line break and key before a value. */
static void lead_in(struct json_out *json, const char *key)
{
    int depth = json->depth;
    if (depth > 0) {
        bool flat = json->flat[depth];
        if (json->filled[depth]) {
            fputs(flat ? ", " : ",", json->out);
        }
        json->filled[depth] = true;
        if (!flat) {
            fprintf(json->out, "\n%*s", depth * 2, "");
        }
    }
    if (key != NULL) {
        put_quoted(json->out, key, strlen(key));
        fputs(": ", json->out);
    }
}

static void open_container(struct json_out *json, const char *key, bool array, bool flat)
{
    lead_in(json, key);
    fputc(array ? '[' : '{', json->out);
    if (json->depth + 1 < JSON_OUT_DEPTH) { /* the verbs' own shapes are 4 deep */
        json->depth++;
    }
    json->filled[json->depth] = false;
    json->array[json->depth] = array;
    json->flat[json->depth] = flat || json->flat[json->depth - 1];
}

void json_out_object(struct json_out *json, const char *key)
{
    open_container(json, key, false, false);
}

void json_out_array(struct json_out *json, const char *key, bool flat)
{
    open_container(json, key, true, flat);
}

void json_out_close(struct json_out *json)
{
    int depth = json->depth--;
    if (json->filled[depth] && !json->flat[depth]) {
        fprintf(json->out, "\n%*s", (depth - 1) * 2, "");
    }
    fputc(json->array[depth] ? ']' : '}', json->out);
}

void json_out_u64(struct json_out *json, const char *key, uint64_t value)
{
    lead_in(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void json_out_i64(struct json_out *json, const char *key, int64_t value)
{
    lead_in(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void json_out_real(struct json_out *json, const char *key, double value)
{
    lead_in(json, key);
    if (!isfinite(value)) {
        fputs("null", json->out);
        return;
    }
    /* The shortest of the two that reads back as the same number. */
    char text[40];
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value) {
        snprintf(text, sizeof text, "%.17g", value);
    }
    fputs(text, json->out);
}

void json_out_bool(struct json_out *json, const char *key, bool value)
{
    lead_in(json, key);
    fputs(value ? "true" : "false", json->out);
}

void json_out_null(struct json_out *json, const char *key)
{
    lead_in(json, key);
    fputs("null", json->out);
}

void json_out_text(struct json_out *json, const char *key, const char *text, size_t bytes)
{
    lead_in(json, key);
    put_quoted(json->out, text, bytes);
}

void json_out_string(struct json_out *json, const char *key, const char *zero_terminated)
{
    json_out_text(json, key, zero_terminated, strlen(zero_terminated));
}

void json_out_string_begin(struct json_out *json, const char *key)
{
    lead_in(json, key);
    fputc('"', json->out);
}

void json_out_string_add(struct json_out *json, const char *text, size_t bytes)
{
    put_escaped(json->out, text, bytes);
}

void json_out_string_end(struct json_out *json)
{
    fputc('"', json->out);
}
