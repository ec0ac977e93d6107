/* SPDX-License-Identifier: MIT
 * Tokenizers from GGUF metadata: the pocket model's vocabulary through this road, SentencePiece's merging against a
 * slow plain one, the named pre-tokenizers against the published patterns (tests/golden/text/pieces.jsonl), and files
 * that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/gguf.h"
#include "support/build.h"
#include "support/text_help.h"
#include "text/pretokenize.h"
#include "text/pretokenizers.h"

enum { IDS_MAX = 4096, TEXT_MAX = 16384, SCRATCH_BYTES = 1 << 20 };

/* A header in the making; pairs are counted as they are put. */
struct header {
    struct build image;
    uint64_t pairs;
    struct meta_pair *parsed;
    void *scratch;
};

static void header_begin(struct header *header)
{
    *header = (struct header){{NULL, 0, 0}, 0, NULL, NULL};
    build_head(&header->image, 3, 0, 0);
}

static void put_text(struct header *header, const char *key, const char *value)
{
    build_key_str(&header->image, key, value);
    header->pairs++;
}

static void put_u32(struct header *header, const char *key, uint32_t value)
{
    build_key_u32(&header->image, key, value);
    header->pairs++;
}

static void put_bool(struct header *header, const char *key, bool value)
{
    build_key(&header->image, key, META_BOOL);
    build_u8(&header->image, value ? 1 : 0);
    header->pairs++;
}

static void put_array(struct header *header, const char *key, uint32_t type, uint64_t count)
{
    build_array(&header->image, key, type, count);
    header->pairs++;
}

static void put_str(struct header *header, struct str value)
{
    build_u64(&header->image, value.bytes);
    build_put(&header->image, value.ptr, value.bytes);
}

static void put_f32(struct header *header, float value)
{
    build_put(&header->image, &value, sizeof value);
}

/* Parses what was put and builds the tokenizer from it. */
static berth_status header_build(struct header *header, struct text_help *help, uint64_t text_bytes_max)
{
    struct checkpoint checkpoint = {.path = "model.gguf"};
    struct gguf_scan scan;
    struct arena scratch;
    berth_error err = {0};
    bool complete = false;
    memcpy(header->image.ptr + 16, &header->pairs, sizeof header->pairs);
    gguf_scan_begin(&scan, header->image.bytes);
    while (!complete) {
        assert_int_equal(gguf_scan_more(&scan, header->image.ptr, header->image.bytes, &complete, &err), BERTH_OK);
    }
    header->parsed = calloc(header->pairs + 1, sizeof *header->parsed);
    assert_int_equal(os_reserve(NULL, SCRATCH_BYTES, false, &header->scratch, &err), BERTH_OK);
    arena_carve(&scratch, header->scratch, SCRATCH_BYTES);
    assert_int_equal(gguf_parse_meta(&scan, header->image.ptr, header->parsed, &scratch, &checkpoint.meta, &err),
                     BERTH_OK);
    return text_help_build(help, &checkpoint, text_bytes_max);
}

static void header_free(struct header *header)
{
    build_free(&header->image);
    free(header->parsed);
    if (header->scratch != NULL) {
        os_release(header->scratch, SCRATCH_BYTES);
    }
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* ---- the pocket vocabulary ---- */

struct pocket {
    struct str file;
    struct str tokens[8192];
    struct header header;
    char *names; /* unescaped spellings */
};

static void read_pocket_vocab(struct pocket *pocket)
{
    struct json at;
    size_t used = 0;
    pocket->names = malloc(pocket->file.bytes);
    assert_non_null(pocket->names);
    assert_true(json_find(pocket->file, (const char *const[]){"model", "vocab", NULL}, &at));
    while (json_next(&at) == JSON_KEY) {
        char *name = pocket->names + used;
        size_t bytes = json_unescape(&at.token, name, at.token.raw.bytes);
        used += bytes;
        uint64_t id;
        (void)json_next(&at);
        assert_true(json_token_u64(&at.token, &id) && id < 8192);
        pocket->tokens[id] = (struct str){name, bytes};
    }
}

static void put_pocket_merges(struct pocket *pocket)
{
    struct json at;
    uint64_t count = 0;
    assert_true(json_find(pocket->file, (const char *const[]){"model", "merges", NULL}, &at));
    for (struct json walk = at; json_next(&walk) == JSON_ARRAY_BEGIN; count++) {
        assert_true(json_skip(&walk));
    }
    put_array(&pocket->header, "tokenizer.ggml.merges", META_STRING, count);
    while (json_next(&at) == JSON_ARRAY_BEGIN) {
        char merge[1024];
        (void)json_next(&at);
        size_t bytes = json_unescape(&at.token, merge, 500);
        merge[bytes++] = ' ';
        (void)json_next(&at);
        bytes += json_unescape(&at.token, merge + bytes, 500);
        put_str(&pocket->header, (struct str){merge, bytes});
        (void)json_next(&at);
    }
}

static void open_pocket(struct pocket *pocket)
{
    pocket->file = text_help_read(BERTH_TESTS_DIR "/golden/pocket/tokenizer.json");
    assert_non_null(pocket->file.ptr);
    read_pocket_vocab(pocket);
    header_begin(&pocket->header);
    put_text(&pocket->header, "tokenizer.ggml.model", "gpt2");
    put_text(&pocket->header, "tokenizer.ggml.pre", "qwen2");
    put_text(&pocket->header, "tokenizer.chat_template", "{{ messages }}");
    put_u32(&pocket->header, "tokenizer.ggml.eos_token_id", 2);
    put_u32(&pocket->header, "tokenizer.ggml.bos_token_id", 0);
    put_array(&pocket->header, "tokenizer.ggml.tokens", META_STRING, 8192);
    for (unsigned i = 0; i < 8192; i++) {
        put_str(&pocket->header, pocket->tokens[i]);
    }
    put_array(&pocket->header, "tokenizer.ggml.token_type", META_I32, 8192);
    for (unsigned i = 0; i < 8192; i++) {
        build_u32(&pocket->header.image, i < 3 ? 3 : 1);
    }
    put_pocket_merges(pocket);
}

static void close_pocket(struct pocket *pocket)
{
    free((void *)(uintptr_t)pocket->file.ptr);
    free(pocket->names);
    header_free(&pocket->header);
}

static struct pocket pocket;

static void the_pocket_vocabulary_gives_the_reference_ids(void **state)
{
    (void)state;
    struct text_help help;
    open_pocket(&pocket);
    berth_status status = header_build(&pocket.header, &help, 65536);
    assert_string_equal(help.err.message, "");
    assert_int_equal(status, BERTH_OK);
    struct str all = text_help_read(BERTH_TESTS_DIR "/golden/pocket/tokenizer_cases.jsonl");
    unsigned cases = 0;
    for (size_t at = 0; at < all.bytes; cases++) {
        static char text[TEXT_MAX];
        static int32_t ids[IDS_MAX];
        struct str line = {all.ptr + at,
                           (size_t)((const char *)memchr(all.ptr + at, '\n', all.bytes - at) - (all.ptr + at))};
        at += line.bytes + 1;
        struct json value;
        uint64_t flags;
        size_t count;
        assert_true(json_find(line, (const char *const[]){"text", NULL}, &value));
        size_t bytes = json_unescape(&value.token, text, TEXT_MAX);
        assert_true(json_find(line, (const char *const[]){"flags", NULL}, &value));
        assert_true(json_token_u64(&value.token, &flags));
        assert_int_equal(text_encode(help.text, (struct str){text, bytes}, (unsigned)flags, ids, IDS_MAX, &count, NULL),
                         BERTH_OK);
        assert_true(json_find(line, (const char *const[]){"ids", NULL}, &value));
        for (size_t i = 0; i < count; i++) {
            uint64_t id;
            assert_int_equal(json_next(&value), JSON_NUMBER);
            assert_true(json_token_u64(&value.token, &id));
            assert_int_equal(ids[i], id);
        }
        assert_int_equal(json_next(&value), JSON_ARRAY_END);
    }
    assert_int_equal(cases, 80);
    assert_true(text_bos(help.text) == 0 && text_eos(help.text) == 2);
    assert_true(text_is_end(help.text, 0) && text_is_end(help.text, 2) && !text_is_end(help.text, 1));
    assert_true(str_is(text_chat_template(help.text), "{{ messages }}"));
    free((void *)(uintptr_t)all.ptr);
    text_help_free(&help);
    close_pocket(&pocket);
}

/* ---- SentencePiece ---- */

/* A vocabulary of random short strings over a small alphabet, with scores that often tie. */
struct random_vocab {
    char spellings[200][16];
    float scores[200];
    uint32_t count;
};

static int32_t find_spelling(const struct random_vocab *vocab, const char *text, size_t bytes)
{
    for (uint32_t id = 3 + 256; id < vocab->count + 3 + 256; id++) {
        const char *spelling = vocab->spellings[id - 3 - 256];
        if (strlen(spelling) == bytes && memcmp(spelling, text, bytes) == 0) {
            return (int32_t)id;
        }
    }
    return -1;
}

static const char *const letters[] = {"a", "b", "c", "\xc3\xa9", "\xe2\x96\x81"};

static void make_vocab(struct random_vocab *vocab, uint32_t *seed)
{
    vocab->count = 0;
    for (unsigned i = 0; i < 5; i++) {
        if (i != 2) { /* c stays out of the vocabulary */
            (void)snprintf(vocab->spellings[vocab->count], 16, "%s", letters[i]);
            vocab->scores[vocab->count++] = -100;
        }
    }
    while (vocab->count < 120) {
        char spelling[16] = "";
        for (uint32_t n = 2 + next_random(seed) % 3; n > 0; n--) {
            static const unsigned usable[] = {0, 1, 3, 4};
            strcat(spelling, letters[usable[next_random(seed) % 4]]);
        }
        if (find_spelling(vocab, spelling, strlen(spelling)) < 0) {
            memcpy(vocab->spellings[vocab->count], spelling, 16);
            vocab->scores[vocab->count++] = -(float)(next_random(seed) % 12);
        }
    }
}

static void put_vocab(struct header *header, const struct random_vocab *vocab)
{
    uint64_t count = vocab->count + 3 + 256;
    put_text(header, "tokenizer.ggml.model", "llama");
    put_array(header, "tokenizer.ggml.tokens", META_STRING, count);
    put_str(header, STR("<unk>"));
    put_str(header, STR("<s>"));
    put_str(header, STR("</s>"));
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        (void)snprintf(name, sizeof name, "<0x%02X>", byte);
        put_str(header, (struct str){name, 6});
    }
    for (uint32_t i = 0; i < vocab->count; i++) {
        put_str(header, str_from(vocab->spellings[i]));
    }
    put_array(header, "tokenizer.ggml.token_type", META_I32, count);
    for (uint32_t i = 0; i < count; i++) {
        build_u32(&header->image, i == 0 ? 2 : i < 3 ? 3 : i < 3 + 256 ? 6 : 1);
    }
    put_array(header, "tokenizer.ggml.scores", META_F32, count);
    for (uint32_t i = 0; i < count; i++) {
        put_f32(header, i < 3 + 256 ? 0 : vocab->scores[i - 3 - 256]);
    }
}

/* The definition, as slowly as it reads: join the neighbours whose joined text has the best score, the leftmost of
 * equals, until no two make a token. */
static size_t merge_slowly(const struct random_vocab *vocab, const char *text, int32_t *ids)
{
    char parts[400][16];
    size_t count = 0;
    for (size_t at = 0; text[at] != '\0';) {
        size_t bytes = (unsigned char)text[at] < 0x80 ? 1 : (unsigned char)text[at] < 0xe0 ? 2 : 3;
        memset(parts[count], 0, 16);
        memcpy(parts[count++], text + at, bytes);
        at += bytes;
    }
    for (;;) {
        size_t best = count;
        float best_score = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            char joined[32];
            (void)snprintf(joined, sizeof joined, "%s%s", parts[i], parts[i + 1]);
            int32_t id = strlen(joined) < 16 ? find_spelling(vocab, joined, strlen(joined)) : -1;
            if (id >= 0 && (best == count || vocab->scores[id - 259] > best_score)) {
                best = i;
                best_score = vocab->scores[id - 259];
            }
        }
        if (best == count) {
            break;
        }
        size_t left = strlen(parts[best]);
        for (size_t k = 0; parts[best + 1][k] != '\0'; k++) {
            parts[best][left++] = parts[best + 1][k];
        }
        memmove(parts[best + 1], parts[best + 2], (count - best - 2) * sizeof parts[0]);
        count--;
    }
    size_t written = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t id = find_spelling(vocab, parts[i], strlen(parts[i]));
        if (id >= 0) {
            ids[written++] = id;
        } else {
            for (size_t k = 0; parts[i][k] != '\0'; k++) {
                ids[written++] = 3 + (unsigned char)parts[i][k];
            }
        }
    }
    return written;
}

static void sentencepiece_merges_by_score_and_leftmost(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (unsigned round = 0; round < 20; round++) {
        struct random_vocab vocab;
        struct header header;
        struct text_help help;
        make_vocab(&vocab, &seed);
        header_begin(&header);
        put_vocab(&header, &vocab);
        put_bool(&header, "tokenizer.ggml.add_space_prefix", false);
        assert_int_equal(header_build(&header, &help, 4096), BERTH_OK);
        for (unsigned i = 0; i < 100; i++) {
            char text[1024] = "";
            int32_t want[1024];
            int32_t got[1024];
            size_t count;
            for (uint32_t n = next_random(&seed) % (i % 10 == 0 ? 120 : 20); n > 0; n--) {
                strcat(text, letters[next_random(&seed) % 5]);
            }
            size_t expected = merge_slowly(&vocab, text, want);
            assert_int_equal(text_encode(help.text, str_from(text), 0, got, 1024, &count, NULL), BERTH_OK);
            assert_int_equal(count, expected);
            assert_memory_equal(got, want, count * sizeof *got);
        }
        text_help_free(&help);
        header_free(&header);
    }
}

/* Space prefix, marks for spaces, BOS and EOS, byte tokens, and all of it back again. */
static void sentencepiece_texts_make_the_round_trip(void **state)
{
    (void)state;
    static const struct {
        bool prefix, squeeze, eos;
        const char *text, *back;
    } cases[] = {
        {true, false, false, "a b", "a b"},
        {true, false, false, " a  b ", " a  b "},
        {true, false, true, "a<s>b", "a<s>b"},
        {false, false, false, " a b", " a b"},
        {true, true, false, "  a   b  ", "a b"},
        {true, false, false, "\xf0\x9f\x98\x80\n", "\xf0\x9f\x98\x80\n"},
        {true, false, false, "", ""},
    };
    uint32_t seed = 3;
    struct random_vocab vocab;
    make_vocab(&vocab, &seed);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct header header;
        struct text_help help;
        int32_t ids[64];
        char text[4096];
        size_t count;
        header_begin(&header);
        put_vocab(&header, &vocab);
        put_bool(&header, "tokenizer.ggml.add_space_prefix", cases[i].prefix);
        put_bool(&header, "tokenizer.ggml.remove_extra_whitespaces", cases[i].squeeze);
        put_bool(&header, "tokenizer.ggml.add_eos_token", cases[i].eos);
        assert_int_equal(header_build(&header, &help, 4096), BERTH_OK);
        assert_true(text_bos(help.text) == 1 && text_eos(help.text) == 2);
        assert_int_equal(text_encode(help.text, str_from(cases[i].text), BERTH_TOKENIZE_BOS, ids, 64, &count, NULL),
                         BERTH_OK);
        assert_true(count >= 1 && ids[0] == 1 && (ids[count - 1] == 2) == cases[i].eos);
        size_t bytes = text_help_decode(help.text, ids, count, false, text, sizeof text);
        assert_true(str_equal((struct str){text, bytes}, str_from(cases[i].back)));
        text_help_free(&help);
        header_free(&header);
    }
}

static void tokens_of_phi3_swallow_the_space_behind_them(void **state)
{
    (void)state;
    uint32_t seed = 3;
    for (unsigned phi = 0; phi < 2; phi++) {
        struct random_vocab vocab;
        struct header header;
        struct text_help help;
        int32_t ids[64];
        size_t count;
        make_vocab(&vocab, &seed);
        header_begin(&header);
        put_text(&header, "general.architecture", phi == 0 ? "llama" : "phimoe");
        put_vocab(&header, &vocab);
        put_bool(&header, "tokenizer.ggml.add_space_prefix", false);
        assert_int_equal(header_build(&header, &help, 4096), BERTH_OK);
        /* Each newline that stays is its byte token. */
        assert_int_equal(text_encode(help.text, STR("</s>\n\n<s>\n"), BERTH_TOKENIZE_SPECIAL, ids, 64, &count, NULL),
                         BERTH_OK);
        static const int32_t want[2][5] = {{2, 13, 13, 1, 13}, {2, 1, 13}};
        assert_int_equal(count, phi == 0 ? 5 : 3);
        assert_memory_equal(ids, want[phi], count * sizeof *ids);
        text_help_free(&help);
        header_free(&header);
    }
}

static void user_defined_tokens_are_found_and_control_tokens_on_demand(void **state)
{
    (void)state;
    struct header header;
    struct text_help help;
    int32_t ids[16];
    size_t count;
    header_begin(&header);
    put_text(&header, "tokenizer.ggml.model", "gpt2");
    put_text(&header, "tokenizer.ggml.pre", "gpt-2");
    static const char *const tokens[] = {"a", "b", "<user>", "<control>", "<|im_end|>", "ab"};
    static const uint32_t types[] = {1, 1, 4, 3, 1, 1};
    put_array(&header, "tokenizer.ggml.tokens", META_STRING, 6);
    for (unsigned i = 0; i < 6; i++) {
        put_str(&header, str_from(tokens[i]));
    }
    put_array(&header, "tokenizer.ggml.token_type", META_I32, 6);
    for (unsigned i = 0; i < 6; i++) {
        build_u32(&header.image, types[i]);
    }
    put_array(&header, "tokenizer.ggml.merges", META_STRING, 1);
    put_str(&header, STR("a b"));
    assert_int_equal(header_build(&header, &help, 64), BERTH_OK);
    assert_int_equal(text_encode(help.text, STR("a<user>ab<control>b"), 0, ids, 16, &count, NULL), BERTH_OK);
    /* The letters of <control> that have no token vanish; its b does not exist, so a b is left of the second b only. */
    assert_true(count == 4 && ids[0] == 0 && ids[1] == 2 && ids[2] == 5 && ids[3] == 1);
    assert_int_equal(
        text_encode(help.text, STR("a<user>ab<control>b<|im_end|>"), BERTH_TOKENIZE_SPECIAL, ids, 16, &count, NULL),
        BERTH_OK);
    assert_true(count == 6 && ids[3] == 3 && ids[5] == 4);
    /* A token that looks like an end of turn is one, whatever its type says. */
    bool special;
    (void)text_token(help.text, 4, &special);
    assert_true(special && text_is_end(help.text, 4) && !text_is_end(help.text, 3));
    text_help_free(&help);
    header_free(&header);
}

/* ---- named pre-tokenizers ---- */

struct collected {
    char text[TEXT_MAX];
    size_t bytes;
};

static berth_status collect(void *user, struct str piece, berth_error *err)
{
    (void)err;
    struct collected *collected = user;
    memcpy(collected->text + collected->bytes, piece.ptr, piece.bytes);
    collected->bytes += piece.bytes;
    collected->text[collected->bytes++] = '\xff';
    return BERTH_OK;
}

static void named_pretokenizers_cut_as_published(void **state)
{
    (void)state;
    struct str all = text_help_read(BERTH_TESTS_DIR "/golden/text/pieces.jsonl");
    assert_non_null(all.ptr);
    void *memory;
    berth_error err = {0};
    assert_int_equal(os_reserve(NULL, 16 << 20, false, &memory, &err), BERTH_OK);
    unsigned cases = 0;
    unsigned failed = 0;
    for (size_t at = 0; at < all.bytes; cases++) {
        struct str line = {all.ptr + at,
                           (size_t)((const char *)memchr(all.ptr + at, '\n', all.bytes - at) - (all.ptr + at))};
        at += line.bytes + 1;
        struct arena arena;
        struct pretokenize_step steps[PRETOKENIZERS_PATTERNS_MAX] = {0};
        static struct collected got;
        static struct collected want;
        static char text[TEXT_MAX];
        char name[64];
        struct json value;
        arena_carve(&arena, memory, 16 << 20);
        const struct text_build build = {&arena, &arena};
        struct pattern_matcher *matcher;
        assert_int_equal(pattern_matcher_layout(&build, &matcher, &err), BERTH_OK);
        assert_true(json_find(line, (const char *const[]){"name", NULL}, &value));
        struct str row_name = {name, json_unescape(&value.token, name, sizeof name)};
        const struct pretokenizers_row *row = pretokenizers_find(row_name);
        assert_non_null(row);
        struct pretokenize run = {steps, 0, matcher, collect, &got};
        for (; run.count < PRETOKENIZERS_PATTERNS_MAX && row->patterns[run.count] != NULL; run.count++) {
            steps[run.count] = (struct pretokenize_step){.kind = PRETOKENIZE_SPLIT};
            assert_int_equal(
                pattern_compile(&build, str_from(row->patterns[run.count]), &steps[run.count].pattern, &err), BERTH_OK);
        }
        assert_true(json_find(line, (const char *const[]){"text", NULL}, &value));
        size_t bytes = json_unescape(&value.token, text, sizeof text);
        got.bytes = want.bytes = 0;
        assert_int_equal(pretokenize_run(&run, (struct str){text, bytes}, true, &err), BERTH_OK);
        assert_true(json_find(line, (const char *const[]){"pieces", NULL}, &value));
        while (json_next(&value) == JSON_STRING) {
            want.bytes += json_unescape(&value.token, want.text + want.bytes, TEXT_MAX - want.bytes);
            want.text[want.bytes++] = '\xff';
        }
        if (got.bytes != want.bytes || memcmp(got.text, want.text, got.bytes) != 0) {
            print_message("%.*s: %.*s\n  got  %.*s\n  want %.*s\n", STR_ARG(row_name), (int)bytes, text, (int)got.bytes,
                          got.text, (int)want.bytes, want.text);
            failed++;
        }
    }
    os_release(memory, 16 << 20);
    free((void *)(uintptr_t)all.ptr);
    assert_int_equal(cases, 252);
    assert_int_equal(failed, 0);
}

/* Every name of the table loads, and only those. */
static void every_named_pretokenizer_compiles(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-bpe",
                                        "llama3",
                                        "llama-v3",
                                        "falcon3",
                                        "pixtral",
                                        "lfm2",
                                        "dbrx",
                                        "smaug-bpe",
                                        "glm4",
                                        "chatglm-bpe",
                                        "qwen2",
                                        "qwen35",
                                        "stablelm2",
                                        "hunyuan",
                                        "megrez",
                                        "grok-2",
                                        "deepseek-llm",
                                        "deepseek-coder",
                                        "deepseek-v3",
                                        "hunyuan-dense",
                                        "gpt-2",
                                        "phi-2",
                                        "jais",
                                        "olmo",
                                        "mpt",
                                        "starcoder",
                                        "refact",
                                        "smollm",
                                        "codeshell",
                                        "exaone",
                                        "command-r",
                                        "falcon",
                                        "default",
                                        "tekken",
                                        "gpt-4o",
                                        "llama4",
                                        "minimax-m2",
                                        "kimi-k2",
                                        "bailingmoe",
                                        "bailingmoe2",
                                        "llada-moe",
                                        "seed-coder",
                                        "exaone-moe",
                                        "laguna",
                                        "minicpm5",
                                        "cohere2moe",
                                        "tiny_aya",
                                        "bloom",
                                        "poro-chat",
                                        "viking",
                                        "gpt3-finnish",
                                        "solar-open",
                                        "deepseek-r1-qwen",
                                        "exaone4"};
    for (size_t i = 0; i <= sizeof names / sizeof names[0]; i++) {
        struct header header;
        struct text_help help;
        bool known = i < sizeof names / sizeof names[0];
        header_begin(&header);
        put_text(&header, "tokenizer.ggml.model", "gpt2");
        put_text(&header, "tokenizer.ggml.pre", known ? names[i] : "qwen");
        put_array(&header, "tokenizer.ggml.tokens", META_STRING, 1);
        put_str(&header, STR("a"));
        put_array(&header, "tokenizer.ggml.merges", META_STRING, 0);
        berth_status status = header_build(&header, &help, 64);
        if (known && status != BERTH_OK) {
            print_message("%s: %s\n", names[i], help.err.message);
        }
        assert_int_equal(status, known ? BERTH_OK : BERTH_ERR_UNSUPPORTED);
        assert_true(known || strstr(help.err.message, "\"qwen\"") != NULL);
        text_help_free(&help);
        header_free(&header);
    }
}

/* ---- wrong files ---- */

enum damage {
    NO_DAMAGE,
    NO_TOKENS,
    TOKENS_OF_NUMBERS,
    EMPTY_TOKENS,
    SHORT_TYPES,
    NO_MERGES,
    BAD_MERGE,
    NO_SCORES,
    SCORES_OF_TEXT,
    UNKNOWN_MODEL,
    NO_VOCAB
};

static void put_damaged(struct header *header, enum damage damage)
{
    bool scores = damage == NO_SCORES || damage == SCORES_OF_TEXT;
    put_text(header, "tokenizer.ggml.model",
             damage == UNKNOWN_MODEL ? "rwkv"
             : damage == NO_VOCAB    ? "no_vocab"
             : scores                ? "llama"
                                     : "gpt2");
    if (damage == TOKENS_OF_NUMBERS) {
        put_array(header, "tokenizer.ggml.tokens", META_I32, 1);
        build_u32(&header->image, 1);
    } else if (damage != NO_TOKENS) {
        put_array(header, "tokenizer.ggml.tokens", META_STRING, damage == EMPTY_TOKENS ? 0 : 2);
        for (unsigned i = 0; damage != EMPTY_TOKENS && i < 2; i++) {
            put_str(header, i == 0 ? STR("a") : STR("b"));
        }
    }
    put_array(header, "tokenizer.ggml.token_type", META_I32, damage == SHORT_TYPES ? 1 : 2);
    for (unsigned i = damage == SHORT_TYPES ? 1 : 0; i < 2; i++) {
        build_u32(&header->image, 1);
    }
    if (damage != NO_MERGES) {
        put_array(header, "tokenizer.ggml.merges", META_STRING, damage == BAD_MERGE ? 1 : 0);
        if (damage == BAD_MERGE) {
            put_str(header, STR("a b"));
        }
    }
    if (damage == SCORES_OF_TEXT) {
        put_array(header, "tokenizer.ggml.scores", META_STRING, 2);
        put_str(header, STR("1"));
        put_str(header, STR("2"));
    }
}

static void wrong_metadata_is_refused(void **state)
{
    (void)state;
    static const struct {
        enum damage damage;
        berth_status status;
        const char *says;
    } cases[] = {
        {NO_DAMAGE, BERTH_OK, ""},
        {NO_TOKENS, BERTH_ERR_FORMAT, "tokenizer.ggml.tokens is missing"},
        {TOKENS_OF_NUMBERS, BERTH_ERR_FORMAT, "must be an array of strings"},
        {EMPTY_TOKENS, BERTH_ERR_LIMIT, "0 tokens"},
        {SHORT_TYPES, BERTH_ERR_FORMAT, "an item for each token"},
        {NO_MERGES, BERTH_ERR_FORMAT, "tokenizer.ggml.merges is missing"},
        {BAD_MERGE, BERTH_ERR_FORMAT, "merge 0, \"a b\""},
        {NO_SCORES, BERTH_ERR_FORMAT, "tokenizer.ggml.scores"},
        {SCORES_OF_TEXT, BERTH_ERR_FORMAT, "an array of numbers"},
        {UNKNOWN_MODEL, BERTH_ERR_UNSUPPORTED, "\"rwkv\""},
        {NO_VOCAB, BERTH_OK, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct header header;
        struct text_help help;
        header_begin(&header);
        put_damaged(&header, cases[i].damage);
        berth_status status = header_build(&header, &help, 64);
        if (status != cases[i].status || strstr(help.err.message, cases[i].says) == NULL) {
            print_message("case %zu: %d %s\n", i, status, help.err.message);
        }
        assert_int_equal(status, cases[i].status);
        assert_non_null(strstr(help.err.message, cases[i].says));
        assert_true((help.text != NULL) == (cases[i].damage == NO_DAMAGE));
        text_help_free(&help);
        header_free(&header);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pocket_vocabulary_gives_the_reference_ids),
        cmocka_unit_test(sentencepiece_merges_by_score_and_leftmost),
        cmocka_unit_test(sentencepiece_texts_make_the_round_trip),
        cmocka_unit_test(tokens_of_phi3_swallow_the_space_behind_them),
        cmocka_unit_test(user_defined_tokens_are_found_and_control_tokens_on_demand),
        cmocka_unit_test(named_pretokenizers_cut_as_published),
        cmocka_unit_test(every_named_pretokenizer_compiles),
        cmocka_unit_test(wrong_metadata_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
