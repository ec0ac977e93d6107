/* SPDX-License-Identifier: MIT
 * Tokenizer files that are damaged, lie, or ask for what is not supported: each gets the right status and says why. And
 * texts that are meant to hurt: too long, not UTF-8, one endless run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/text_help.h"

/* A sound tokenizer in pieces; what a case changes goes between them. */
#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\" \":3,\"<s>\":4}"
#define MERGES "\"merges\":[[\"a\",\"b\"]]"
#define MODEL "\"model\":{\"type\":\"BPE\"," VOCAB "," MERGES "}"
#define WITH(parts) "{" parts "," MODEL "}"

static berth_status build_from(const char *json, struct text_help *help)
{
    struct checkpoint checkpoint = {.tokenizer_json = str_from(json), .path = "model-directory"};
    return text_help_build(help, &checkpoint, 1024);
}

struct refusal {
    const char *json;
    berth_status status;
    const char *says;
};

static void check_refusals(const struct refusal *cases, size_t count)
{
    unsigned failed = 0;
    for (size_t i = 0; i < count; i++) {
        struct text_help help;
        berth_status status = build_from(cases[i].json, &help);
        bool same = status == cases[i].status && help.text == NULL && strstr(help.err.message, cases[i].says) != NULL &&
                    strcmp(help.err.path, "model-directory/tokenizer.json") == 0 && help.err.status == status;
        if (!same) {
            print_message("%.120s: status %d \"%s\", want %d \"%s\"\n", cases[i].json, status, help.err.message,
                          cases[i].status, cases[i].says);
            failed++;
        }
        text_help_free(&help);
    }
    assert_int_equal(failed, 0);
}

static void damaged_documents_are_refused(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"{", BERTH_ERR_FORMAT, "JSON"},
        {"[]", BERTH_ERR_FORMAT, "must be an object"},
        {"{}", BERTH_ERR_FORMAT, "no model"},
        {"{" MODEL, BERTH_ERR_FORMAT, "JSON"},
        {"{" MODEL "} x", BERTH_ERR_FORMAT, "JSON"},
        {"{\"model\":5}", BERTH_ERR_FORMAT, "model must be an object"},
        {"{\"model\":{\"type\":\"BPE\"," VOCAB "}}", BERTH_ERR_FORMAT, "no model with a vocabulary and merges"},
        {"{\"model\":{" MERGES "}}", BERTH_ERR_FORMAT, "no model with a vocabulary and merges"},
        {"{\"model\":{\"type\":7," VOCAB "," MERGES "}}", BERTH_ERR_FORMAT, "model.type must be a string"},
        {"{\"model\":{\"vocab\":[[\"a\",-1.5]]," MERGES "}}", BERTH_ERR_FORMAT, "must be an object of spelling: id"},
        {"{\"model\":{\"vocab\":{\"a\":\"0\"}," MERGES "}}", BERTH_ERR_FORMAT, "token id must be a whole number"},
        {"{\"model\":{\"vocab\":{\"a\":-1}," MERGES "}}", BERTH_ERR_FORMAT, "token id must be a whole number"},
        {"{\"model\":{\"vocab\":{\"a\":0.5}," MERGES "}}", BERTH_ERR_FORMAT, "token id must be a whole number"},
        {"{\"model\":{\"vocab\":{\"a\":2097152}," MERGES "}}", BERTH_ERR_LIMIT, "token id 2097152"},
        {"{\"model\":{\"vocab\":{\"a\":18446744073709551615}," MERGES "}}", BERTH_ERR_LIMIT, "token id"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0,\"ab\":1}," MERGES "}}", BERTH_ERR_FORMAT,
         "token id 0 is given to more than one token"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"a\":3}," MERGES "}}", BERTH_ERR_FORMAT,
         "\"a\" is listed twice"},
        {"{\"model\":{" VOCAB ",\"merges\":{}}}", BERTH_ERR_FORMAT, "model.merges must be an array"},
        {"{\"model\":{" VOCAB ",\"merges\":[5]}}", BERTH_ERR_FORMAT, "a merge must be a string"},
        {"{\"model\":{" VOCAB ",\"merges\":[[\"a\",\"b\",\"a\"]]}}", BERTH_ERR_FORMAT, "an array of two strings"},
        {"{\"model\":{" VOCAB ",\"merges\":[[\"a\"]]}}", BERTH_ERR_FORMAT, "a part of a merge must be a string"},
        {"{\"model\":{" VOCAB ",\"merges\":[[]]}}", BERTH_ERR_FORMAT, "a part of a merge must be a string"},
        {"{\"model\":{" VOCAB ",\"merges\":[\"ab\"]}}", BERTH_ERR_FORMAT, "two tokens with a space between"},
        {"{\"model\":{" VOCAB ",\"merges\":[\"a b b\"]}}", BERTH_ERR_FORMAT, "two tokens with a space between"},
        {"{\"model\":{" VOCAB ",\"merges\":[[\"a\",\"x\"]]}}", BERTH_ERR_FORMAT, "merge 0 names a token"},
        {"{\"model\":{" VOCAB ",\"merges\":[\"a b\",\"x b\"]}}", BERTH_ERR_FORMAT, "merge 1 names a token"},
        {"{\"model\":{" VOCAB ",\"merges\":[[\"b\",\"a\"]]}}", BERTH_ERR_FORMAT, "makes a token"},
        {"{\"model\":{" VOCAB "," MERGES ",\"byte_fallback\":1}}", BERTH_ERR_FORMAT, "true or false"},
        {WITH("\"added_tokens\":5"), BERTH_ERR_FORMAT, "added_tokens must be an array"},
        {WITH("\"added_tokens\":[5]"), BERTH_ERR_FORMAT, "an added token must be an object"},
        {WITH("\"added_tokens\":[{\"content\":\"x\"}]"), BERTH_ERR_FORMAT, "an object with an id"},
        {WITH("\"added_tokens\":[{\"id\":9}]"), BERTH_ERR_FORMAT, "\"content\" is missing"},
        {WITH("\"added_tokens\":[{\"id\":9,\"content\":1}]"), BERTH_ERR_FORMAT, "content must be a string"},
        {WITH("\"added_tokens\":[{\"id\":0,\"content\":\"x\"}]"), BERTH_ERR_FORMAT, "token id 0 is given to more"},
        {WITH("\"added_tokens\":[{\"id\":5,\"content\":\"x\"},{\"id\":5,\"content\":\"y\"}]"), BERTH_ERR_FORMAT,
         "token id 5 is given to more"},
        {WITH("\"added_tokens\":[{\"id\":99999999,\"content\":\"x\"}]"), BERTH_ERR_LIMIT, "token id 99999999"},
        {WITH("\"normalizer\":5"), BERTH_ERR_FORMAT, "normalizer must be an object"},
        {WITH("\"normalizer\":{}"), BERTH_ERR_FORMAT, "\"type\" is missing"},
        {WITH("\"normalizer\":{\"type\":\"Prepend\"}"), BERTH_ERR_FORMAT, "\"prepend\" is missing"},
        {WITH("\"normalizer\":{\"type\":\"Replace\",\"content\":\"\"}"), BERTH_ERR_FORMAT, "with a pattern"},
        {WITH("\"normalizer\":{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{}}"), BERTH_ERR_FORMAT,
         "String or Regex"},
        {WITH("\"normalizer\":{\"type\":\"Sequence\"}"), BERTH_ERR_FORMAT, "normalizers must be an array"},
        {WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[1]}"), BERTH_ERR_FORMAT, "an array of objects"},
        {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"}}"), BERTH_ERR_FORMAT,
         "\"behavior\" is missing"},
        {WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\"}"), BERTH_ERR_FORMAT, "\"replacement\" is missing"},
        {WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\"}"), BERTH_ERR_FORMAT, "one character"},
        {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\"}"), BERTH_ERR_FORMAT, "must be an array"},
        {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"q\"}}],"
              "\"special_tokens\":{}}"),
         BERTH_ERR_FORMAT, "\"q\", which special_tokens does not list"},
        {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"q\"}}],"
              "\"special_tokens\":{\"q\":{\"ids\":[77]}}}"),
         BERTH_ERR_FORMAT, "token 77, which does not exist"},
        {WITH("\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"a\"]}"), BERTH_ERR_FORMAT,
         "cls must be [spelling, id]"},
    };
    check_refusals(cases, sizeof cases / sizeof cases[0]);
}

static void unsupported_parts_are_named(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"{\"model\":{\"type\":\"Unigram\"}}", BERTH_ERR_UNSUPPORTED, "\"Unigram\""},
        {"{\"model\":{\"continuing_subword_prefix\":\"##\"}}", BERTH_ERR_UNSUPPORTED, "continuing_subword_prefix"},
        {"{\"model\":{\"end_of_word_suffix\":\"</w>\"}}", BERTH_ERR_UNSUPPORTED, "end_of_word_suffix"},
        {WITH("\"normalizer\":{\"type\":\"Precompiled\"}"), BERTH_ERR_UNSUPPORTED, "normalizer \"Precompiled\""},
        {WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"}]}"), BERTH_ERR_UNSUPPORTED,
         "normalizer \"Nmt\""},
        {WITH("\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}"), BERTH_ERR_UNSUPPORTED, "\"UnicodeScripts\""},
        {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Sideways\",\"pattern\":{\"String\":\"a\"}}"),
         BERTH_ERR_UNSUPPORTED, "\"Sideways\""},
        {WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}"),
         BERTH_ERR_UNSUPPORTED, "\"last\""},
        {WITH("\"post_processor\":{\"type\":\"Magic\"}"), BERTH_ERR_UNSUPPORTED, "post_processor \"Magic\""},
        {WITH("\"decoder\":{\"type\":\"CTC\"}"), BERTH_ERR_UNSUPPORTED, "decoder \"CTC\""},
        {WITH("\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":2,\"stop\":0}"), BERTH_ERR_UNSUPPORTED,
         "strips 2 characters at the start"},
        {WITH("\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"), BERTH_ERR_UNSUPPORTED,
         "strips every token"},
        {WITH("\"decoder\":{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{\"Regex\":\"a\"}}"),
         BERTH_ERR_UNSUPPORTED, "replaces a regular expression"},
        {WITH(
             "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},{\"type\":\"ByteFallback\"}]}"),
         BERTH_ERR_UNSUPPORTED, "mixes ByteLevel"},
    };
    check_refusals(cases, sizeof cases / sizeof cases[0]);
}

#define SPLIT(pattern) \
    WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"" pattern "\"}}")

static void patterns_that_cannot_be_translated_are_refused(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {SPLIT("a("), BERTH_ERR_UNSUPPORTED, "without its closing parenthesis"},
        {SPLIT("a)"), BERTH_ERR_UNSUPPORTED, "a closing parenthesis too many"},
        {SPLIT("[a"), BERTH_ERR_UNSUPPORTED, "without its closing bracket"},
        {SPLIT("a\\\\"), BERTH_ERR_UNSUPPORTED, "single backslash"},
        {SPLIT("*a"), BERTH_ERR_UNSUPPORTED, "without anything before it"},
        {SPLIT("(?~a)"), BERTH_ERR_UNSUPPORTED, "a group of this kind"},
        {SPLIT("(?iW:a)"), BERTH_ERR_UNSUPPORTED, "a group option"},
        {SPLIT("[[:alpha:]]"), BERTH_ERR_UNSUPPORTED, "a POSIX bracket"},
        {SPLIT("[a[^b]]"), BERTH_ERR_UNSUPPORTED, "a negative class inside a class"},
        {SPLIT("[^a&&b]"), BERTH_ERR_UNSUPPORTED, "an intersection"},
        {SPLIT("\\\\M-a"), BERTH_ERR_UNSUPPORTED, "\\M"},
        {SPLIT("\\\\u00g1"), BERTH_ERR_UNSUPPORTED, "\\u without"},
        {SPLIT("\\\\xe9"), BERTH_ERR_UNSUPPORTED, "an encoded byte"},
        {SPLIT("\\\\p{Nothing}"), BERTH_ERR_UNSUPPORTED, "cannot be used: "},
        {SPLIT("(?<=a+)b"), BERTH_ERR_UNSUPPORTED, "cannot be used: "},
        {SPLIT("[b-a]"), BERTH_ERR_UNSUPPORTED, "cannot be used: "},
        {SPLIT("(\\\\2)"), BERTH_ERR_UNSUPPORTED, "cannot be used: "},
    };
    check_refusals(cases, sizeof cases / sizeof cases[0]);
}

static size_t repeat(char *out, size_t cap, const char *unit)
{
    size_t bytes = strlen(unit);
    size_t used = 0;
    while (used + bytes <= cap) {
        memcpy(out + used, unit, bytes);
        used += bytes;
    }
    return used;
}

/* Nested classes, groups and arrays, a very long pattern, very long tokens. */
static void deep_and_long_parts_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *before, *unit, *after;
        size_t bytes;
        berth_status status;
    } cases[] = {
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"", "(",
         "\"}}," MODEL "}", 300, BERTH_ERR_UNSUPPORTED},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"", "[a",
         "\"}}," MODEL "}", 300, BERTH_ERR_UNSUPPORTED},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"", "a",
         "\"}}," MODEL "}", 70000, BERTH_ERR_LIMIT},
        {"{\"normalizer\":", "{\"type\":\"Sequence\",\"normalizers\":[", "", 4000, BERTH_ERR_FORMAT},
        {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[", "{\"type\":\"NFC\"},",
         "{\"type\":\"NFC\"}]}," MODEL "}", 300, BERTH_ERR_LIMIT},
        {"{\"model\":{\"vocab\":{\"", "a", "\":0}," MERGES "}}", 70000, BERTH_ERR_LIMIT},
        {"{\"added_tokens\":[{\"id\":9,\"content\":\"", "a", "\"}]," MODEL "}", 70000, BERTH_ERR_LIMIT},
        {"{\"x\":", "[", "", 300, BERTH_ERR_FORMAT},
    };
    static char json[80000];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t used = strlen(cases[i].before);
        memcpy(json, cases[i].before, used);
        used += repeat(json + used, cases[i].bytes, cases[i].unit);
        memcpy(json + used, cases[i].after, strlen(cases[i].after) + 1);
        struct text_help help;
        assert_int_equal(build_from(json, &help), cases[i].status);
        text_help_free(&help);
    }
}

/* Every prefix of a sound file fails, and says where. */
/* Merges are looked up many at a time; what is said about one must not depend on how many stood before it. */
static void a_wrong_merge_is_named_wherever_it_stands(void **state)
{
    (void)state;
    static const struct {
        const char *wrong, *says;
    } cases[] = {
        {"[\"a\",\"zz\"]", "names a token that is not in the vocabulary: \"zz\""},
        {"[\"zz\",5]", "a part of a merge must be a string"},
        {"[\"b\",\"b\"]", "makes a token that is not in the vocabulary, out of its second half \"b\""},
        {"\"a b b\"", "must be two tokens with a space between them, it is \"a b b\""},
        {"[\"a\",\"\\u007a\"]", "names a token that is not in the vocabulary: \"z\""},
        {"\"z b\"", "names a token that is not in the vocabulary: \"z\""},
        {"[\"zz\",\"a\"],[\"yy\",\"a\"]", "\"zz\""},
        {"[\"zz\",\"a\"],[\"\\u0079\",\"a\"]", "\"zz\""},
        {"[\"zz\",\"a\"],\"a b b\"", "\"zz\""},
        {"[\"zz\",\"a\"],[\"a\",\"b\",\"a\"]", "\"zz\""},
    };
    static const char *const sound[] = {"[\"a\",\"b\"],", "\"a b\",", "[ \"\\u0061\" , \"b\" ],\n        ",
                                        "\"#version: 0.2\","};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (unsigned before = 0; before < 70; before++) {
            static char json[4096];
            char number[32];
            struct text_help help;
            size_t used = (size_t)snprintf(json, sizeof json, "{\"model\":{" VOCAB ",\"merges\":[");
            for (unsigned k = 0; k < before; k++) {
                const char *merge = sound[before % 3 == 0 ? 0 : (k * 7 + before) % 4];
                used += (size_t)snprintf(json + used, sizeof json - used, "%s", merge);
            }
            size_t at = used;
            used += (size_t)snprintf(json + used, sizeof json - used, "%s]}}", cases[i].wrong);
            assert_true(used < sizeof json);
            assert_int_equal(build_from(json, &help), BERTH_ERR_FORMAT);
            assert_non_null(strstr(help.err.message, cases[i].says));
            (void)snprintf(number, sizeof number, "merge %u ", before);
            assert_true(strstr(help.err.message, number) != NULL || strncmp(help.err.message, "a part", 6) == 0);
            assert_true(help.err.offset >= at && help.err.offset < at + 14);
            text_help_free(&help);
        }
    }
}

static void truncated_files_are_refused(void **state)
{
    (void)state;
    static const char json[] = "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true}]"
                               ",\"normalizer\":{\"type\":"
                               "\"NFC\"},\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{"
                               "\"Regex\":\"\\\\s+\"}}," MODEL "}";
    struct text_help help;
    assert_int_equal(build_from(json, &help), BERTH_OK);
    text_help_free(&help);
    for (size_t bytes = 1; bytes < sizeof json - 1; bytes++) {
        struct checkpoint checkpoint = {.tokenizer_json = {json, bytes}};
        assert_int_equal(text_help_build(&help, &checkpoint, 64), BERTH_ERR_FORMAT);
        assert_true(help.err.message[0] != '\0' && help.err.offset <= bytes);
        text_help_free(&help);
    }
}

static void no_tokenizer_is_not_an_error(void **state)
{
    (void)state;
    struct text_help help;
    struct checkpoint checkpoint = {.path = "x"};
    assert_int_equal(text_help_build(&help, &checkpoint, 64), BERTH_OK);
    assert_null(help.text);
    assert_int_equal(help.bytes, 100); /* only what the help took itself */
    text_help_free(&help);
}

static void too_little_memory_is_refused(void **state)
{
    (void)state;
    struct checkpoint checkpoint = {.tokenizer_json = str_from("{" MODEL "}")};
    struct text_help help;
    assert_int_equal(text_help_build(&help, &checkpoint, 1024), BERTH_OK);
    uint64_t needed = help.bytes;
    struct arena arena;
    struct arena temp;
    struct text *text = NULL;
    berth_error err = {0};
    for (uint64_t cap = 0; cap < needed; cap += cap < 2000 ? 50 : 997) {
        arena_carve(&temp, help.temp_base, help.temp_bytes);
        arena_carve(&arena, help.base, cap);
        (void)arena_take(&arena, cap < 100 ? 0 : 1, 100, 8);
        assert_int_equal(text_layout(&arena, &temp, &checkpoint, 1024, &text, &err), BERTH_ERR_LIMIT);
        assert_true(text == NULL && temp.used_bytes == 0 && arena.used_bytes <= 100);
    }
    for (uint64_t cap = 0; cap < 130000; cap += 997) { /* scratch too small: the two spelling buffers alone take more */
        arena_carve(&temp, help.temp_base, cap);
        arena_carve(&arena, help.base, needed);
        assert_int_equal(text_layout(&arena, &temp, &checkpoint, 1024, &text, &err), BERTH_ERR_LIMIT);
        assert_null(text);
    }
    text_help_free(&help);
}

/* ---- texts ---- */

static void texts_past_the_limit_are_refused_with_the_numbers(void **state)
{
    (void)state;
    struct text_help help;
    static char text[2048];
    int32_t ids[2048];
    size_t count = 0;
    berth_error err = {0};
    assert_int_equal(build_from("{" MODEL "}", &help), BERTH_OK);
    memset(text, 'a', sizeof text);
    assert_int_equal(text_encode(help.text, (struct str){text, 1024}, 0, ids, 2048, &count, &err), BERTH_OK);
    assert_int_equal(count, 1024);
    assert_int_equal(text_encode(help.text, (struct str){text, 1025}, 0, ids, 2048, &count, &err), BERTH_ERR_LIMIT);
    assert_true(strstr(err.message, "1025") != NULL && strstr(err.message, "1024") != NULL);
    assert_int_equal(text_encode(help.text, (struct str){text, 8}, 0, ids, 7, &count, &err), BERTH_ERR_LIMIT);
    assert_int_equal(count, 8); /* what it would need */
    assert_int_equal(text_encode(help.text, (struct str){text, 8}, 0, ids, 0, &count, &err), BERTH_ERR_LIMIT);
    assert_int_equal(count, 8);
    count = 0; /* no place for ids: a question */
    assert_int_equal(text_encode(help.text, (struct str){text, 8}, 0, NULL, 0, &count, &err), BERTH_OK);
    assert_int_equal(count, 8);
    assert_int_equal(text_encode(help.text, (struct str){text, 8}, 8, ids, 8, &count, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(text_encode(help.text, (struct str){text, 0}, 3, ids, 0, &count, &err), BERTH_OK);
    assert_int_equal(count, 0);
    text_help_free(&help);
}

/* Malformed UTF-8 reads as U+FFFD, once for each broken sequence. */
static void malformed_text_becomes_replacement_characters(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *reads;
    } cases[] = {
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xe2\x82", "\xef\xbf\xbd"},
        {"\xe2\x82"
         "a",
         "\xef\xbf\xbd"
         "a"},
        {"\xf0\x9f\x98", "\xef\xbf\xbd"},
        {"\xf0\x9f\x98"
         "\xf0\x9f\x98\x80",
         "\xef\xbf\xbd\xf0\x9f\x98\x80"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* an overlong slash */
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
    };
    struct text_help help;
    assert_int_equal(build_from("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\xef\xbf\xbd\":2,"
                                "\"\xf0\x9f\x98\x80\":3,\"ab\":4}," MERGES "},\"decoder\":{\"type\":\"Fuse\"}}",
                                &help),
                     BERTH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t ids[16];
        char out[256];
        size_t count;
        assert_int_equal(text_encode(help.text, str_from(cases[i].text), 0, ids, 16, &count, NULL), BERTH_OK);
        size_t bytes = text_help_decode(help.text, ids, count, false, out, sizeof out);
        assert_true(str_equal((struct str){out, bytes}, str_from(cases[i].reads)));
    }
    text_help_free(&help);
}

/* A pattern that keeps a frame for each step of a run: an error, not a crash and not a long wait. */
static void endless_back_tracking_is_an_error(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    struct checkpoint checkpoint = {.tokenizer_json = str_from(SPLIT("(?:a|b)+c|a"))};
    struct text_help help;
    char *text = malloc(BYTES);
    size_t count;
    berth_error err = {0};
    assert_non_null(text);
    assert_int_equal(text_help_build(&help, &checkpoint, BYTES), BERTH_OK);
    memset(text, 'a', BYTES);
    assert_int_equal(text_encode(help.text, (struct str){text, BYTES}, 0, NULL, 0, &count, &err), BERTH_ERR_LIMIT);
    assert_non_null(strstr(err.message, "back-tracking"));
    /* The matcher is usable afterwards. */
    int32_t ids[4];
    assert_int_equal(text_encode(help.text, STR("ab a"), 0, ids, 4, &count, &err), BERTH_OK);
    assert_int_equal(count, 4);
    text_help_free(&help);
    free(text);
}

/* One run of a megabyte, in a vocabulary where everything merges: the heap keeps it near linear. */
static void a_megabyte_without_a_split_is_merged(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    struct checkpoint checkpoint = {
        .tokenizer_json =
            str_from("{\"model\":{\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2},\"merges\":[\"a a\",\"aa aa\"]}}")};
    struct text_help help;
    char *text = malloc(BYTES);
    int32_t *ids = malloc(sizeof *ids * BYTES);
    size_t count;
    assert_true(text != NULL && ids != NULL);
    assert_int_equal(text_help_build(&help, &checkpoint, BYTES), BERTH_OK);
    memset(text, 'a', BYTES);
    assert_int_equal(text_encode(help.text, (struct str){text, BYTES - 1}, 0, ids, BYTES, &count, NULL), BERTH_OK);
    assert_int_equal(count, BYTES / 4 + 1);
    assert_true(ids[0] == 2 && ids[count - 3] == 2 && ids[count - 2] == 1 && ids[count - 1] == 0);
    text_help_free(&help);
    free(text);
    free(ids);
}

/* Runs of marks in the worst order, which sort in linear time. */
static void a_megabyte_of_marks_is_normalised(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    struct checkpoint checkpoint = {
        .tokenizer_json =
            str_from("{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"vocab\":{\"\xcc\x95\":0,\"\xcc\x96\":1},"
                     "\"merges\":[]}}")};
    struct text_help help;
    char *text = malloc(BYTES);
    int32_t *ids = malloc(sizeof *ids * BYTES);
    size_t count;
    assert_true(text != NULL && ids != NULL);
    assert_int_equal(text_help_build(&help, &checkpoint, BYTES), BERTH_OK);
    (void)repeat(text, BYTES, "\xcc\x95\xcc\x96"); /* classes 232 and 220 in turn */
    assert_int_equal(text_encode(help.text, (struct str){text, BYTES}, 0, ids, BYTES, &count, NULL), BERTH_OK);
    assert_int_equal(count, BYTES / 2);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ids[i], i < count / 2 ? 1 : 0);
    }
    text_help_free(&help);
    free(text);
    free(ids);
}

/* ---- special tokens ---- */

static void special_tokens_are_text_unless_asked_for(void **state)
{
    (void)state;
    /* "<s>" can also be merged together; that must not make it either. */
    struct checkpoint checkpoint = {
        .tokenizer_json =
            str_from("{\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"special\":true},{\"id\":7,\"content\":\"s>\"},"
                     "{\"id\":8,\"content\":\"<s>a\"}],\"model\":{\"ignore_merges\":true,\"vocab\":{\"<\":0,\"s\":1,\">"
                     "\":2,\"a\":3,"
                     "\"<s\":4,\"b\":5,\"<s>\":6},\"merges\":[[\"<\",\"s\"],[\"<s\",\">\"]]}}")};
    static const struct {
        const char *text;
        unsigned flags;
        int32_t ids[8];
        size_t count;
    } cases[] = {
        {"<s>", BERTH_TOKENIZE_SPECIAL, {6}, 1},
        {"<s>", 0, {4, 2}, 2}, /* hides the s> in it */
        {"b<s>b", 0, {5, 4, 2, 5}, 4},
        {"bs>b", 0, {5, 7, 5}, 3},
        {"<s>a", 0, {8}, 1},
        {"<<s>", 0, {0, 4, 2}, 3},
        {"<s><s>a<s>", BERTH_TOKENIZE_SPECIAL, {6, 8, 6}, 3},
    };
    struct text_help help;
    assert_int_equal(text_help_build(&help, &checkpoint, 64), BERTH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t ids[16];
        size_t count;
        assert_int_equal(text_encode(help.text, str_from(cases[i].text), cases[i].flags, ids, 16, &count, NULL),
                         BERTH_OK);
        assert_int_equal(count, cases[i].count);
        assert_memory_equal(ids, cases[i].ids, count * sizeof *ids);
    }
    text_help_free(&help);
}

/* tokenizer_config.json and its neighbours: what they add, and that damage in them is passed over. */
static void configuration_files_say_what_is_added_and_what_ends(void **state)
{
    (void)state;
    static const struct {
        const char *tokenizer_config, *generation_config, *config;
        int32_t bos, eos;
        size_t around; /* tokens that BERTH_TOKENIZE_BOS adds to an empty text */
        unsigned ends; /* bit i: id i is an end token */
    } cases[] = {
        {"", "", "", -1, -1, 0, 0},
        {"{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"b\"},\"add_bos_token\":true}", "", "", 4, 1, 1, 2},
        {"{\"bos_token\":\"<s>\",\"eos_token\":\"b\",\"add_bos_token\":true,\"add_eos_token\":true}", "", "", 4, 1, 2,
         2},
        {"{\"bos_token\":\"nothing\",\"add_bos_token\":true}", "", "", -1, -1, 0, 0},
        {"{\"bos_token\":null,\"eos_token\":null}", "{\"bos_token_id\":4,\"eos_token_id\":[0,2]}", "", -1, -1, 0, 5},
        {"{}", "{\"bos_token_id\":4,\"eos_token_id\":[0,2]}", "{\"eos_token_id\":1}", 4, 0, 0, 7},
        {"{}", "", "{\"text_config\":{\"bos_token_id\":4,\"eos_token_id\":3}}", 4, 3, 0, 8},
        {"{}", "{\"eos_token_id\":[99,-1,1.5]}", "{\"bos_token_id\":99}", -1, -1, 0, 0},
        {"{\"bos_token\":7,\"eos_token\":[]", "[", "nonsense", -1, -1, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct checkpoint checkpoint = {.tokenizer_json = str_from("{" MODEL "}"),
                                        .tokenizer_config_json = str_from(cases[i].tokenizer_config),
                                        .generation_config_json = str_from(cases[i].generation_config),
                                        .config_json = str_from(cases[i].config)};
        struct text_help help;
        int32_t ids[8];
        size_t count;
        assert_int_equal(text_help_build(&help, &checkpoint, 64), BERTH_OK);
        assert_int_equal(text_bos(help.text), cases[i].bos);
        assert_int_equal(text_eos(help.text), cases[i].eos);
        for (int32_t id = 0; id < 5; id++) {
            assert_int_equal(text_is_end(help.text, id), (cases[i].ends >> id) & 1u);
        }
        assert_int_equal(text_encode(help.text, STR(""), BERTH_TOKENIZE_BOS, ids, 8, &count, NULL), BERTH_OK);
        assert_int_equal(count, cases[i].around);
        text_help_free(&help);
    }
}

static void chat_templates_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *config, *jinja, *want;
    } cases[] = {
        {"{\"chat_template\":\"a\\n\\u00e9\"}", "", "a\n\xc3\xa9"},
        {"{\"chat_template\":\"a\"}", "from the file", "from the file"},
        {"{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"t\"},{\"name\":\"default\",\"template\":\"d\"}]}",
         "", "d"},
        {"{\"chat_template\":[{\"name\":\"other\",\"template\":\"t\"}]}", "", ""},
        {"{\"chat_template\":7}", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct checkpoint checkpoint = {.tokenizer_json = str_from("{" MODEL "}"),
                                        .tokenizer_config_json = str_from(cases[i].config),
                                        .chat_template = str_from(cases[i].jinja)};
        struct text_help help;
        assert_int_equal(text_help_build(&help, &checkpoint, 64), BERTH_OK);
        assert_true(str_equal(text_chat_template(help.text), str_from(cases[i].want)));
        text_help_free(&help);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_documents_are_refused),
        cmocka_unit_test(unsupported_parts_are_named),
        cmocka_unit_test(patterns_that_cannot_be_translated_are_refused),
        cmocka_unit_test(deep_and_long_parts_are_refused),
        cmocka_unit_test(a_wrong_merge_is_named_wherever_it_stands),
        cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(no_tokenizer_is_not_an_error),
        cmocka_unit_test(too_little_memory_is_refused),
        cmocka_unit_test(texts_past_the_limit_are_refused_with_the_numbers),
        cmocka_unit_test(malformed_text_becomes_replacement_characters),
        cmocka_unit_test(endless_back_tracking_is_an_error),
        cmocka_unit_test(a_megabyte_without_a_split_is_merged),
        cmocka_unit_test(a_megabyte_of_marks_is_normalised),
        cmocka_unit_test(special_tokens_are_text_unless_asked_for),
        cmocka_unit_test(configuration_files_say_what_is_added_and_what_ends),
        cmocka_unit_test(chat_templates_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
