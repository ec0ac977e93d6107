/* SPDX-License-Identifier: MIT
 * tokenizer.json to tokenizer.ggml.*, on small vocabularies beside a golden checkpoint of 384 embedding rows. */
#include "convert_help.h"

#include "convert/vocab.h"

#define QWEN_SPLIT                                                                                                     \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}" \
    "+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"               \
    "\"behavior\":\"Isolated\",\"invert\":false}"
#define BYTES_PLAIN "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}"
#define QWEN_PRE "{\"type\":\"Sequence\",\"pretokenizers\":[" QWEN_SPLIT "," BYTES_PLAIN "]}"
#define NO_TEMPLATE \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[]}"
#define BOS_TEMPLATE                                                                                             \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence" \
    "\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[]}"

#define BYTE_LEVEL(pre, post, merges)                                                                                  \
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true},{\"id\":7,\"content\":"    \
    "\"<tool>\",\"special\":false},{\"id\":8,\"content\":\"<|im_end|>\",\"special\":true}],\"normalizer\":null,"       \
    "\"pre_tokenizer\":" pre ",\"post_processor\":" post ",\"decoder\":null,\"model\":{\"type\":\"BPE\",\"unk_token\"" \
    ":null,\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{\"<s>\":0,\"a\":2,\"b\":1,\"\\u0120\":3,"        \
    "\"ab\":4,\"\\\"\\\\\":5,\"\\u0120ab\":6},\"merges\":" merges "}}"
#define MERGE_PAIRS "[[\"a\",\"b\"],[\"\\u0120\",\"ab\"]]"
#define MERGE_TEXTS "[\"a b\",\"\\u0120 ab\"]"

static void copy_file(const char *from_dir, const char *to_dir, const char *name)
{
    char path[600];
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s", from_dir, name);
    unsigned char *data = help_read_file(path, &bytes);
    snprintf(path, sizeof path, "%s/%s", to_dir, name);
    help_write_file(path, data, bytes);
    free(data);
}

static const char *const extra_names[] = {"tokenizer.json", "tokenizer_config.json", "generation_config.json",
                                          "chat_template.jinja"};

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (text != NULL) {
        help_write_file(path, text, strlen(text));
    }
}

/* Converts the golden with these files beside it (NULL: absent). */
static berth_status convert_with(const char *const texts[4], berth_error *error)
{
    struct convert_config config = {.type = DTYPE_F16, .threads = 1};
    const char *dir = help_path("hf");
    assert_int_equal(mkdir(dir, 0700), 0);
    copy_file(help_golden("qwen3"), dir, "config.json");
    copy_file(help_golden("qwen3"), dir, "model.safetensors");
    for (int i = 0; i < 4; i++) {
        write_text(dir, extra_names[i], texts[i]);
    }
    berth_status status = convert_run(dir, help_path("out.gguf"), &config, false, error);
    char path[600];
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", dir,
                 i < 4    ? extra_names[i]
                 : i == 4 ? "config.json"
                          : "model.safetensors");
        unlink(path);
    }
    rmdir(dir);
    return status;
}

static void open_with(struct opened *opened, const char *tokenizer, const char *config, const char *generation,
                      const char *template)
{
    berth_error error;
    help_ok(convert_with((const char *const[]){tokenizer, config, generation, template}, &error), &error);
    help_open(opened, help_path("out.gguf"));
}

static void done(struct opened *opened)
{
    help_close(opened);
    help_clear();
}

static void expect_text(const struct opened *o, const char *key, const char *want)
{
    struct str got;
    assert_true(meta_str(&o->checkpoint.meta, str_from(key), &got));
    if (!str_is(got, want)) {
        print_error("%s: %.*s\n", key, STR_ARG(got));
    }
    assert_true(str_is(got, want));
}

/* want -1: the key is absent */
static void expect_id(const struct opened *o, const char *key, int64_t want)
{
    uint64_t got = 0;
    bool has = meta_u64(&o->checkpoint.meta, str_from(key), &got);
    assert_int_equal(has ? (int64_t)got : -1, want);
}

static void expect_flag(const struct opened *o, const char *key, bool want)
{
    bool got;
    assert_true(meta_bool(&o->checkpoint.meta, str_from(key), &got));
    assert_int_equal(got, want);
}

static void expect_strings(const struct opened *o, const char *key, const char *const *want, uint32_t count,
                           uint64_t all)
{
    struct meta_strings walk;
    struct str text;
    const struct meta_pair *pair = meta_find(&o->checkpoint.meta, str_from(key));
    assert_non_null(pair);
    assert_int_equal(pair->count, all);
    assert_true(meta_strings_begin(pair, &walk));
    for (uint32_t i = 0; i < count; i++) {
        assert_true(meta_strings_next(&walk, &text));
        if (!str_is(text, want[i])) {
            print_error("%s[%u]: %.*s, want %s\n", key, i, STR_ARG(text), want[i]);
        }
        assert_true(str_is(text, want[i]));
    }
}

static void expect_types(const struct opened *o, const int *want, uint32_t count)
{
    const struct meta_pair *pair = meta_find(&o->checkpoint.meta, STR("tokenizer.ggml.token_type"));
    assert_non_null(pair);
    assert_int_equal(pair->count, 384);
    assert_int_equal(pair->item_type, META_I32);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t got = 99;
        assert_true(meta_item_u64(pair, i, &got));
        assert_int_equal(got, want[i]);
    }
}

static void vocab_byte_level_with_gaps_and_specials(void **state)
{
    (void)state;
    static const char *const tokenizers[] = {BYTE_LEVEL(QWEN_PRE, NO_TEMPLATE, MERGE_PAIRS),
                                             BYTE_LEVEL(QWEN_PRE, NO_TEMPLATE, MERGE_TEXTS)};
    for (int spelling = 0; spelling < 2; spelling++) {
        struct opened o;
        open_with(&o, tokenizers[spelling],
                  "{\"bos_token\":null,\"eos_token\":{\"content\":\"<|im_end|>\"},\"pad_token\":\"<s>\","
                  "\"add_bos_token\":true,\"chat_template\":\"{{ \\\"x\\\" }}\"}",
                  "{\"bos_token_id\":0,\"eos_token_id\":[8,0]}", NULL);
        expect_text(&o, "tokenizer.ggml.model", "gpt2");
        expect_text(&o, "tokenizer.ggml.pre", "qwen2");
        static const char *const tokens[] = {
            "<s>", "b", "a", "\xc4\xa0", "ab", "\"\\", "\xc4\xa0\x61\x62", "<tool>", "<|im_end|>", "[PAD9]", "[PAD10]"};
        expect_strings(&o, "tokenizer.ggml.tokens", tokens, 11, 384);
        expect_types(&o, (const int[]){3, 1, 1, 1, 1, 1, 1, 4, 3, 5, 5}, 11);
        static const char *const merges[] = {"a b", "\xc4\xa0 ab"};
        expect_strings(&o, "tokenizer.ggml.merges", merges, 2, 2);
        expect_id(&o, "tokenizer.ggml.bos_token_id", 0);
        expect_id(&o, "tokenizer.ggml.eos_token_id", 8);
        expect_id(&o, "tokenizer.ggml.eot_token_id", 0);
        expect_id(&o, "tokenizer.ggml.padding_token_id", 0);
        expect_id(&o, "tokenizer.ggml.unknown_token_id", -1);
        expect_flag(&o, "tokenizer.ggml.add_bos_token", false); /* the post-processor decides, not the flag */
        expect_flag(&o, "tokenizer.ggml.add_eos_token", false);
        expect_text(&o, "tokenizer.chat_template", "{{ \"x\" }}");
        done(&o);
    }
}

static void vocab_bos_from_post_processor_or_flag(void **state)
{
    (void)state;
    struct opened o;
    open_with(&o, BYTE_LEVEL(QWEN_PRE, BOS_TEMPLATE, MERGE_PAIRS), "{\"bos_token\":\"<s>\"}", NULL, "file wins");
    expect_flag(&o, "tokenizer.ggml.add_bos_token", true);
    expect_flag(&o, "tokenizer.ggml.add_eos_token", false);
    expect_text(&o, "tokenizer.chat_template", "file wins");
    done(&o);
    open_with(
        &o,
        BYTE_LEVEL(QWEN_PRE, "{\"type\":\"Sequence\",\"processors\":[" BYTES_PLAIN "," BOS_TEMPLATE "]}", MERGE_PAIRS),
        "{\"bos_token\":\"<s>\",\"chat_template\":[{\"name\":\"rag\",\"template\":\"no\"},{\"name\":\"default\","
        "\"template\":\"yes\"}]}",
        NULL, NULL);
    expect_flag(&o, "tokenizer.ggml.add_bos_token", true);
    expect_text(&o, "tokenizer.chat_template", "yes");
    done(&o);
    open_with(&o, BYTE_LEVEL(QWEN_PRE, BYTES_PLAIN, MERGE_PAIRS), "{\"add_bos_token\":true,\"add_eos_token\":true}",
              NULL, NULL);
    expect_flag(&o, "tokenizer.ggml.add_bos_token", true);
    expect_flag(&o, "tokenizer.ggml.add_eos_token", true);
    assert_null(meta_find(&o.checkpoint.meta, STR("tokenizer.chat_template")));
    /* config.json of the golden: bos 1, eos 2, pad 0 */
    expect_id(&o, "tokenizer.ggml.bos_token_id", 1);
    expect_id(&o, "tokenizer.ggml.eos_token_id", 2);
    expect_id(&o, "tokenizer.ggml.eot_token_id", 8); /* <|im_end|> */
    done(&o);
}

#define SPM                                                                                                            \
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":1,\"content\":\"<s>\",\"special\":"  \
    "true},{\"id\":2,\"content\":\"</s>\",\"special\":true}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":"   \
    "[{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"       \
    "\"content\":\"\xe2\x96\x81\"}]},\"pre_tokenizer\":null,\"post_processor\":" BOS_TEMPLATE ",\"model\":{\"type\":"  \
    "\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2,\"<0x00>\":3," \
    "\"<0xFF>\":4,\"\xe2\x96\x81\xe2\x96\x81\":5,\"ab\":6,\"\xe2\x96\x81\":7,\"a\":8,\"b\":9,\"abab\":10,\"<0xfg>\":"  \
    "11},\"merges\":[\"a b\",\"\xe2\x96\x81 \xe2\x96\x81\",\"a bab\",\"ab ab\"]}}"

static void vocab_byte_fallback_gets_scores(void **state)
{
    (void)state;
    struct opened o;
    open_with(&o, SPM, "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"unk_token\":\"<unk>\"}", NULL, NULL);
    expect_text(&o, "tokenizer.ggml.model", "llama");
    expect_text(&o, "tokenizer.ggml.pre", "default");
    expect_flag(&o, "tokenizer.ggml.add_space_prefix", true);
    expect_flag(&o, "tokenizer.ggml.add_bos_token", true);
    expect_types(&o, (const int[]){2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1, 5}, 13);
    expect_id(&o, "tokenizer.ggml.unknown_token_id", 0);
    expect_id(&o, "tokenizer.ggml.bos_token_id", 1);
    expect_id(&o, "tokenizer.ggml.eos_token_id", 2);
    expect_id(&o, "tokenizer.ggml.eot_token_id", -1);
    const struct meta_pair *scores = meta_find(&o.checkpoint.meta, STR("tokenizer.ggml.scores"));
    assert_non_null(scores);
    assert_int_equal(scores->count, 384);
    double value[12];
    for (uint32_t i = 0; i < 12; i++) {
        assert_true(meta_item_f64(scores, i, &value[i]));
    }
    /* In the order of their first merge; what no merge makes comes after everything. */
    assert_true(value[6] > value[5] && value[5] > value[10]);
    assert_true(value[6] == 0 && value[5] == -1 && value[10] == -2);
    assert_true(value[7] < -1e6 && value[8] < -1e6 && value[11] < -1e6);
    assert_null(meta_find(&o.checkpoint.meta, STR("tokenizer.ggml.merges")));
    done(&o);
}

static void expect_refused(const char *tokenizer, berth_status want, const char *text)
{
    berth_error error;
    berth_status got = convert_with((const char *const[]){tokenizer, NULL, NULL, NULL}, &error);
    if (got != want || strstr(error.message, text) == NULL) {
        print_error("%s: got %d, %s\n", tokenizer, got, error.message);
    }
    assert_int_equal(got, want);
    assert_non_null(strstr(error.message, text));
    assert_true(error.path[0] != '\0' && error.object[0] != '\0');
    assert_int_equal(help_count_files(), 0);
}

#define MODEL(vocab, merges) \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "},\"pre_tokenizer\":" QWEN_PRE "}"

static void vocab_bad_documents_are_refused(void **state)
{
    (void)state;
    expect_refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", BERTH_ERR_UNSUPPORTED, "BPE");
    expect_refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":"
                   "\"Sequence\",\"pretokenizers\":[{\"type\":\"Whitespace\"}," BYTES_PLAIN "]}}",
                   BERTH_ERR_UNSUPPORTED, "pre-tokenizer");
    expect_refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":null}",
                   BERTH_ERR_UNSUPPORTED, "byte");
    expect_refused(MODEL("{\"a\":384}", "[]"), BERTH_ERR_FORMAT, "384");
    expect_refused(MODEL("{\"a\":-1}", "[]"), BERTH_ERR_FORMAT, "form");
    expect_refused(MODEL("{\"a\":0,\"b\":0}", "[]"), BERTH_ERR_FORMAT, "same id");
    expect_refused(MODEL("{\"a\":0,\"\\u0061\":1}", "[]"), BERTH_ERR_FORMAT, "same text");
    expect_refused(MODEL("{\"a\":\"0\"}", "[]"), BERTH_ERR_FORMAT, "form");
    expect_refused(MODEL("{\"a\":0}", "[\"a\"]"), BERTH_ERR_FORMAT, "form");
    expect_refused(MODEL("{\"a\":0}", "[[\"a\"]]"), BERTH_ERR_FORMAT, "form");
    expect_refused(MODEL("{\"a\":0}", "[[\"a\",\"b\",\"c\"]]"), BERTH_ERR_FORMAT, "form");
    expect_refused(MODEL("{\"a\":0}", "[[\"a \",\"b\"]]"), BERTH_ERR_UNSUPPORTED, "space");
    expect_refused(MODEL("{\"a\":0}", "{}"), BERTH_ERR_FORMAT, "form");
    expect_refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[", BERTH_ERR_FORMAT, "JSON");
    expect_refused("[]", BERTH_ERR_FORMAT, "form");
    expect_refused("{\"added_tokens\":[{\"id\":1}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},"
                   "\"pre_tokenizer\":" QWEN_PRE "}",
                   BERTH_ERR_FORMAT, "no content");
}

static void vocab_absent_is_none(void **state)
{
    (void)state;
    struct opened o;
    open_with(&o, NULL, NULL, NULL, NULL);
    expect_text(&o, "tokenizer.ggml.model", "none");
    assert_null(meta_find(&o.checkpoint.meta, STR("tokenizer.ggml.tokens")));
    expect_id(&o, "qwen3.vocab_size", 384);
    done(&o);
}

static void pre_names_of_published_patterns(void **state)
{
    (void)state;
    bool bytes;
    assert_string_equal(convert_pre_name(STR(QWEN_PRE), false, &bytes), "qwen2");
    assert_true(bytes);
    assert_string_equal(
        convert_pre_name(STR("{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"), false, &bytes),
        "gpt-2");
    /* GPT-2 style tokenizer.json files may leave use_regex out: true by default. */
    assert_string_equal(convert_pre_name(STR("{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"), false, &bytes),
                        "gpt-2");
    assert_null(convert_pre_name(STR("{\"type\":\"ByteLevel\",\"add_prefix_space\":true}"), false, &bytes));
    assert_true(bytes);
    assert_string_equal(convert_pre_name(STR("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
                                             "\"individual_digits\":true},{\"type\":\"ByteLevel\"}]}"),
                                         false, &bytes),
                        "smollm");
    static const char llama3[] =
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'"
        "ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "
        "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\"
        "\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false}," BYTES_PLAIN "]}";
    assert_string_equal(convert_pre_name(str_from(llama3), true, &bytes), "llama-bpe");
    assert_string_equal(convert_pre_name(str_from(llama3), false, &bytes), "smaug-bpe");
    assert_null(convert_pre_name(STR("{\"type\":\"Metaspace\"}"), false, &bytes));
    assert_false(bytes);
    assert_null(convert_pre_name((struct str){NULL, 0}, false, &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocab_byte_level_with_gaps_and_specials),
        cmocka_unit_test(vocab_bos_from_post_processor_or_flag),
        cmocka_unit_test(vocab_byte_fallback_gets_scores),
        cmocka_unit_test(vocab_bad_documents_are_refused),
        cmocka_unit_test(vocab_absent_is_none),
        cmocka_unit_test(pre_names_of_published_patterns),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
