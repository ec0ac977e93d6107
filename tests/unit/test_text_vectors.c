/* SPDX-License-Identifier: MIT
 *
 * Tokenizers against the Hugging Face library: tests/golden/text/handmade.jsonl (a small tokenizer.json for each
 * normalizer, pre-tokenizer, decoder, flag and pattern construct) and the pocket model's. Made by
 * tools/tokenizers/vectors.js.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/text_help.h"

enum { IDS_MAX = 4096, TEXT_MAX = 16384 };

struct vector {
    char text[TEXT_MAX], decoded[TEXT_MAX];
    size_t text_bytes, decoded_bytes;
    int32_t ids[IDS_MAX];
    size_t ids_count;
    unsigned flags;
};

static size_t get_string(const struct json *at, char *out)
{
    assert_int_equal(at->token.kind, JSON_STRING);
    return json_unescape(&at->token, out, TEXT_MAX);
}

/* Reads the case object that `at` stands at. */
static void read_vector(struct json *at, struct vector *out)
{
    uint64_t number;
    out->ids_count = 0;
    while (json_next(at) == JSON_KEY) {
        struct json_token key = at->token;
        (void)json_next(at);
        if (json_token_is(&key, "text")) {
            out->text_bytes = get_string(at, out->text);
        } else if (json_token_is(&key, "decoded")) {
            out->decoded_bytes = get_string(at, out->decoded);
        } else if (json_token_is(&key, "flags")) {
            assert_true(json_token_u64(&at->token, &number));
            out->flags = (unsigned)number;
        } else {
            while (json_next(at) == JSON_NUMBER) {
                assert_true(json_token_u64(&at->token, &number) && out->ids_count < IDS_MAX);
                out->ids[out->ids_count++] = (int32_t)number;
            }
        }
    }
    assert_int_equal(at->token.kind, JSON_OBJECT_END);
}

static void print_ids(const char *what, const int32_t *ids, size_t count)
{
    print_message("  %s", what);
    for (size_t i = 0; i < count; i++) {
        print_message(" %d", (int)ids[i]);
    }
    print_message("\n");
}

/* False, after saying so, when encoding or decoding differs. */
static bool check_vector(struct text *text, const struct vector *want, const char *name)
{
    static int32_t ids[IDS_MAX];
    static char decoded[TEXT_MAX * 4];
    size_t count = 0;
    berth_error err = {0};
    struct str input = {want->text, want->text_bytes};
    berth_status status = text_encode(text, input, want->flags, ids, IDS_MAX, &count, &err);
    bool same = status == BERTH_OK && count == want->ids_count && memcmp(ids, want->ids, count * sizeof *ids) == 0;
    if (!same) {
        print_message("%s: \"%.*s\" flags %u: %s\n", name, STR_ARG(input), want->flags, err.message);
        print_ids("got ", ids, count);
        print_ids("want", want->ids, want->ids_count);
        return false;
    }
    size_t bytes = text_help_decode(text, want->ids, want->ids_count, false, decoded, sizeof decoded);
    if (!str_equal((struct str){decoded, bytes}, (struct str){want->decoded, want->decoded_bytes})) {
        print_message("%s: \"%.*s\" decodes to \"%.*s\", want \"%.*s\"\n", name, STR_ARG(input), (int)bytes, decoded,
                      (int)want->decoded_bytes, want->decoded);
        return false;
    }
    return true;
}

static struct vector vector;

static void handmade_tokenizers_equal_the_reference(void **state)
{
    (void)state;
    struct str all = text_help_read(BERTH_TESTS_DIR "/golden/text/handmade.jsonl");
    assert_non_null(all.ptr);
    unsigned tokenizers = 0;
    unsigned cases = 0;
    unsigned failed = 0;
    for (size_t at = 0; at < all.bytes;) {
        const char *end = memchr(all.ptr + at, '\n', all.bytes - at);
        struct str line = {all.ptr + at, end == NULL ? all.bytes - at : (size_t)(end - (all.ptr + at))};
        at += line.bytes + 1;
        struct json value;
        struct json part;
        char name[TEXT_MAX];
        assert_true(json_find(line, (const char *const[]){"name", NULL}, &part));
        name[get_string(&part, name)] = '\0';
        assert_true(json_find(line, (const char *const[]){"tokenizer", NULL}, &part));
        value = part;
        assert_true(json_skip(&value));
        struct checkpoint checkpoint = {
            .tokenizer_json = {line.ptr + part.token.offset, value.at - (size_t)part.token.offset}};
        struct text_help help;
        if (text_help_build(&help, &checkpoint, 4096) != BERTH_OK) {
            print_message("%s: %s\n", name, help.err.message);
            text_help_free(&help);
            failed++;
            continue;
        }
        tokenizers++;
        assert_true(json_find(line, (const char *const[]){"cases", NULL}, &value));
        while (json_next(&value) == JSON_OBJECT_BEGIN) {
            read_vector(&value, &vector);
            failed += check_vector(help.text, &vector, name) ? 0u : 1u;
            cases++;
        }
        text_help_free(&help);
    }
    free((void *)(uintptr_t)all.ptr);
    print_message("%u tokenizers, %u cases, %u different\n", tokenizers, cases, failed);
    assert_true(tokenizers >= 130 && cases >= 1500);
    assert_int_equal(failed, 0);
}

struct pocket {
    struct text_help help;
    struct str files[4];
};

static void open_pocket(struct pocket *pocket)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "generation_config.json",
                                        "chat_template.jinja"};
    for (unsigned i = 0; i < 4; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/golden/pocket/%s", BERTH_TESTS_DIR, names[i]);
        pocket->files[i] = text_help_read(path);
        assert_non_null(pocket->files[i].ptr);
    }
    struct checkpoint checkpoint = {.tokenizer_json = pocket->files[0],
                                    .tokenizer_config_json = pocket->files[1],
                                    .generation_config_json = pocket->files[2],
                                    .chat_template = pocket->files[3]};
    berth_status status = text_help_build(&pocket->help, &checkpoint, 65536);
    if (status != BERTH_OK) {
        print_message("%s\n", pocket->help.err.message);
    }
    assert_int_equal(status, BERTH_OK);
}

static void close_pocket(struct pocket *pocket)
{
    text_help_free(&pocket->help);
    for (unsigned i = 0; i < 4; i++) {
        free((void *)(uintptr_t)pocket->files[i].ptr);
    }
}

static void pocket_tokenizer_equals_the_reference(void **state)
{
    (void)state;
    struct pocket pocket;
    open_pocket(&pocket);
    print_message("pocket: %.2f MiB with texts of 64 KiB, scratch %.2f MiB\n", (double)pocket.help.bytes / 1048576,
                  (double)pocket.help.temp_peak / 1048576);
    struct str all = text_help_read(BERTH_TESTS_DIR "/golden/pocket/tokenizer_cases.jsonl");
    assert_non_null(all.ptr);
    unsigned cases = 0;
    unsigned failed = 0;
    for (size_t at = 0; at < all.bytes;) {
        const char *end = memchr(all.ptr + at, '\n', all.bytes - at);
        struct str line = {all.ptr + at, end == NULL ? all.bytes - at : (size_t)(end - (all.ptr + at))};
        at += line.bytes + 1;
        struct json value;
        json_begin(&value, line);
        assert_int_equal(json_next(&value), JSON_OBJECT_BEGIN);
        read_vector(&value, &vector);
        failed += check_vector(pocket.help.text, &vector, "pocket") ? 0u : 1u;
        cases++;
    }
    free((void *)(uintptr_t)all.ptr);
    close_pocket(&pocket);
    assert_int_equal(cases, 80);
    assert_int_equal(failed, 0);
}

/* The prompts of the reference generations (transformers 5.17.0). */
static void pocket_prompts_equal_the_reference(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t ids[20];
        size_t count;
    } prompts[] = {
        {"The kernel scheduler", {562, 918, 7285, 262}, 4},
        {"<|im_start|>user\nWhat is the Debian package jq?<|im_end|>\n<|im_start|>assistant\n",
         {1, 335, 201, 414, 318, 272, 1161, 473, 720, 83, 33, 2, 201, 1, 344, 201},
         16},
        {"import os\n", {5195, 5661, 201}, 3},
        {"<|im_start|>user\nWhat does the word \"berth\" mean?<|im_end|>\n<|im_start|>assistant\n",
         {1, 335, 201, 414, 476, 272, 421, 314, 659, 384, 4, 428, 33, 2, 201, 1, 344, 201},
         18},
        {"Package: git\nSection: vcs\nSummary:", {511, 28, 1443, 201, 515, 28, 394, 5659, 201, 512, 28}, 11},
        {"In the beginning", {1102, 272, 4645}, 3},
    };
    struct pocket pocket;
    open_pocket(&pocket);
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++) {
        int32_t ids[64];
        char text[4096];
        size_t count;
        berth_error err;
        struct str input = str_from(prompts[i].text);
        assert_int_equal(text_encode(pocket.help.text, input, BERTH_TOKENIZE_SPECIAL, ids, 64, &count, &err), BERTH_OK);
        assert_int_equal(count, prompts[i].count);
        assert_memory_equal(ids, prompts[i].ids, count * sizeof *ids);
        size_t bytes = text_help_decode(pocket.help.text, ids, count, true, text, sizeof text);
        assert_int_equal(bytes, input.bytes);
        assert_memory_equal(text, input.ptr, bytes);
    }
    close_pocket(&pocket);
}

static void pocket_answers_about_its_tokens(void **state)
{
    (void)state;
    struct pocket pocket;
    bool special;
    open_pocket(&pocket);
    const struct text *text = pocket.help.text;
    assert_int_equal(text_vocab(text), 8192);
    assert_int_equal(text_bos(text), -1); /* "bos_token": null */
    assert_int_equal(text_eos(text), 2);
    assert_true(text_is_end(text, 2) && text_is_end(text, 0));
    assert_false(text_is_end(text, 1) || text_is_end(text, 3) || text_is_end(text, -1) || text_is_end(text, 8192));
    assert_true(str_is(text_token(text, 1, &special), "<|im_start|>") && special);
    assert_true(str_is(text_token(text, 261, &special), "\xc4\xa0"
                                                        "a") &&
                !special);
    assert_null(text_token(text, 8192, &special).ptr);
    assert_null(text_token(text, -1, &special).ptr);
    assert_true(str_equal(text_chat_template(text), pocket.files[3]));
    assert_true(pocket.help.bytes < 4u << 20);
    close_pocket(&pocket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handmade_tokenizers_equal_the_reference),
        cmocka_unit_test(pocket_tokenizer_equals_the_reference),
        cmocka_unit_test(pocket_prompts_equal_the_reference),
        cmocka_unit_test(pocket_answers_about_its_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
