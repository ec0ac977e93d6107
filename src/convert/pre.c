/* SPDX-License-Identifier: MIT
 *
 * Pre-tokenizers by what they do. tokenizer.json describes them as a list of steps with regular expressions; GGUF files
 * name them. The list is reduced to one line of text, one step after the other, and looked up in a table. The names are
 * those of llama.cpp; the expressions are the makers' own, as published in their tokenizer.json.
 */
#include <stdio.h>

#include "convert/vocab.h"
#include "model/json.h"

enum { SIGNATURE_BYTES = 3072 };

#define SPACES_TAIL "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SUFFIXES "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS_UPPER "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define WORDS_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

static const struct {
    const char *steps;
    const char *name;
    const char *name_ignoring_merges; /* NULL: the same name */
} pre_rows[] = {
    {"split:" SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES_TAIL "\nbytes\n",
     "qwen2", NULL},
    {"split:" SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES_TAIL
     "\nbytes\n",
     "smaug-bpe", "llama-bpe"},
    {"split:" SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES_TAIL
     "\nbytes\n",
     "qwen35", NULL},
    {"bytes+words\n", "gpt-2", NULL},
    {"digits\nbytes+words\n", "smollm", NULL},
    {"split:" WORDS_UPPER "*" WORDS_LOWER "+" SUFFIXES "?|" WORDS_UPPER "+" WORDS_LOWER "*" SUFFIXES
     "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES_TAIL "\nbytes\n",
     "gpt-4o", NULL},
    {"split:" WORDS_UPPER "*" WORDS_LOWER "+|" WORDS_UPPER "+" WORDS_LOWER
     "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES_TAIL "\nbytes\n",
     NULL, "tekken"},
};

struct signature {
    char text[SIGNATURE_BYTES];
    size_t bytes;
    bool byte_level, unknown;
};

static void put_text(struct signature *s, const char *text, size_t bytes)
{
    if (bytes > sizeof s->text - s->bytes) {
        s->unknown = true;
        return;
    }
    memcpy(s->text + s->bytes, text, bytes);
    s->bytes += bytes;
}

static void put_word(struct signature *s, const char *word)
{
    put_text(s, word, strlen(word));
}

/* The string value of a slice, unescaped; false when it is none or too long. */
static bool string_value(struct str value, char *out, size_t cap, size_t *bytes)
{
    struct json json;
    json_begin(&json, value);
    if (json_next(&json) != JSON_STRING || json.token.raw.bytes > cap) {
        return false;
    }
    *bytes = json_unescape(&json.token, out, cap);
    return true;
}

static bool is_true(struct str value)
{
    return str_is(value, "true");
}

static void put_split(struct signature *s, struct str step)
{
    static const char *const names[] = {"pattern", "behavior", "invert"};
    static const char *const pattern_names[] = {"Regex"};
    struct str part[3];
    struct str regex;
    char text[SIGNATURE_BYTES / 2];
    size_t bytes;
    if (!vocab_json_parts(step, names, 3, part) || !str_is(part[1], "\"Isolated\"") || is_true(part[2]) ||
        !vocab_json_parts(part[0], pattern_names, 1, &regex) || !string_value(regex, text, sizeof text, &bytes)) {
        s->unknown = true;
        return;
    }
    put_word(s, "split:");
    put_text(s, text, bytes);
    put_word(s, "\n");
}

static void put_step(struct signature *s, struct str step)
{
    static const char *const names[] = {"type", "use_regex", "individual_digits", "add_prefix_space"};
    struct str part[4];
    if (!vocab_json_parts(step, names, 4, part)) {
        s->unknown = true;
    } else if (str_is(part[0], "\"Split\"")) {
        put_split(s, step);
    } else if (str_is(part[0], "\"ByteLevel\"")) {
        s->byte_level = true;
        s->unknown = s->unknown || is_true(part[3]);
        put_word(s, str_is(part[1], "false") ? "bytes\n" : "bytes+words\n");
    } else if (str_is(part[0], "\"Digits\"") && is_true(part[2])) {
        put_word(s, "digits\n");
    } else {
        s->unknown = true;
    }
}

const char *convert_pre_name(struct str pre_tokenizer, bool ignore_merges, bool *byte_level)
{
    static const char *const names[] = {"type", "pretokenizers"};
    struct str part[2];
    struct signature s = {.bytes = 0};
    *byte_level = false;
    if (pre_tokenizer.ptr == NULL || !vocab_json_parts(pre_tokenizer, names, 2, part)) {
        return NULL;
    }
    if (str_is(part[0], "\"Sequence\"")) {
        struct json json;
        json_begin(&json, part[1]);
        bool more = json_next(&json) == JSON_ARRAY_BEGIN;
        while (more && json_next(&json) == JSON_OBJECT_BEGIN) {
            uint64_t begin = json.token.offset;
            more = json_skip(&json);
            put_step(&s, (struct str){part[1].ptr + begin, json.at - begin});
        }
    } else {
        put_step(&s, pre_tokenizer);
    }
    *byte_level = s.byte_level;
    for (size_t i = 0; !s.unknown && i < sizeof pre_rows / sizeof pre_rows[0]; i++) {
        if (str_is((struct str){s.text, s.bytes}, pre_rows[i].steps)) {
            return ignore_merges && pre_rows[i].name_ignoring_merges != NULL ? pre_rows[i].name_ignoring_merges
                                                                             : pre_rows[i].name;
        }
    }
    return NULL;
}
