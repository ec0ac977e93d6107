/* SPDX-License-Identifier: MIT
 * The parts of the text room against slow and plain versions of themselves, and the streaming detokenizer byte by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <utf8proc.h>

#include "support/text_help.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

enum { MEMORY_BYTES = 32 << 20 };

static void *memory;

static int take_memory(void **state)
{
    (void)state;
    berth_error err;
    return os_reserve(NULL, MEMORY_BYTES, false, &memory, &err) == BERTH_OK ? 0 : -1;
}

static int give_memory(void **state)
{
    (void)state;
    os_release(memory, MEMORY_BYTES);
    return 0;
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* ---- merging ---- */

struct rule {
    int32_t left, right, result;
    uint32_t rank;
};

/* The definition: the pair of lowest rank, the leftmost of equals, again and again. */
static size_t merge_slowly(const struct rule *rules, size_t rules_count, int32_t *ids, size_t count)
{
    for (;;) {
        const struct rule *best = NULL;
        size_t place = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            for (size_t k = 0; k < rules_count; k++) {
                if (rules[k].left == ids[i] && rules[k].right == ids[i + 1] &&
                    (best == NULL || rules[k].rank < best->rank)) {
                    best = &rules[k];
                    place = i;
                }
            }
        }
        if (best == NULL) {
            return count;
        }
        ids[place] = best->result;
        memmove(&ids[place + 1], &ids[place + 2], (count - place - 2) * sizeof *ids);
        count--;
    }
}

/* Random rules over spellings, so that a result stands for one text, as in a real vocabulary. */
static size_t make_rules(struct rule *rules, int32_t *vocab_size, uint32_t *seed)
{
    char spellings[80][20] = {"a", "b", "c"};
    int32_t known = 3;
    size_t count = 0;
    while (count < 60 && known < 80) {
        int32_t left = (int32_t)(next_random(seed) % (uint32_t)known);
        int32_t right = (int32_t)(next_random(seed) % (uint32_t)known);
        char joined[40];
        (void)snprintf(joined, sizeof joined, "%s%s", spellings[left], spellings[right]);
        bool repeated = strlen(joined) > 12;
        for (size_t k = 0; k < count; k++) {
            repeated = repeated || (rules[k].left == left && rules[k].right == right);
        }
        if (repeated) {
            known += next_random(seed) % 64 == 0 ? 1 : 0; /* ends the loop when nothing new is found for long */
            continue;
        }
        int32_t result = 0;
        while (result < known && strcmp(spellings[result], joined) != 0) {
            result++;
        }
        if (result == known) {
            (void)snprintf(spellings[known++], 20, "%.19s", joined);
        }
        rules[count] = (struct rule){left, right, result, (uint32_t)count};
        count++;
    }
    *vocab_size = known;
    return count;
}

static void merging_equals_its_definition(void **state)
{
    (void)state;
    uint32_t seed = 11;
    for (unsigned round = 0; round < 60; round++) {
        struct arena arena;
        struct merges merges;
        struct rule rules[60];
        int32_t size;
        berth_error err = {0};
        arena_carve(&arena, memory, MEMORY_BYTES);
        const struct text_build build = {&arena, &arena};
        size_t count = make_rules(rules, &size, &seed);
        assert_true(count > 10);
        assert_int_equal(merges_layout(&build, count, &merges, &err), BERTH_OK);
        for (size_t i = 0; i < count; i++) {
            merges_add(&merges, (uint32_t)i, rules[i].left, rules[i].right, rules[i].result, true);
        }
        for (unsigned text = 0; text < 40; text++) {
            struct merge_symbol symbols[300];
            uint64_t heap[600];
            int32_t ids[300];
            uint32_t length = next_random(&seed) % (text % 4 == 0 ? 300 : 40); /* both sides of the small case */
            for (uint32_t i = 0; i < length; i++) {
                ids[i] = (int32_t)(next_random(&seed) % (text % 3 == 0 ? 1 : 3));
                symbols[i].id = ids[i];
            }
            size_t want = merge_slowly(rules, count, ids, length);
            assert_int_equal(merges_apply(&merges, symbols, length, heap), want);
            for (size_t i = 0; i < want; i++) {
                assert_int_equal(symbols[i].id, ids[i]);
            }
        }
    }
}

/* ---- normal forms ---- */

static struct str run_normalizer(enum normalize_kind kind, struct str text, struct arena *arena)
{
    struct normalize_scratch scratch = {.buffer_bytes = 1 << 16, .points_count = 1 << 16};
    struct normalize_step step = {.kind = kind};
    struct str out = {NULL, 0};
    berth_error err = {0};
    for (unsigned i = 0; i < 2; i++) {
        scratch.buffers[i] = arena_take(arena, scratch.buffer_bytes, 1, 0);
    }
    scratch.points = arena_take(arena, scratch.points_count, sizeof *scratch.points, 0);
    assert_int_equal(normalize_run(&step, 1, &scratch, text, &out, &err), BERTH_OK);
    return out;
}

static void normal_forms_equal_utf8proc(void **state)
{
    (void)state;
    static const uint32_t starts[] = {0x20,   0xc0,   0x300,  0x300,   0x315,   0x590,  0x900,
                                      0x1100, 0x1160, 0x11a8, 0x1e00,  0x2000,  0x3040, 0x3099,
                                      0xac00, 0xf900, 0xfb00, 0x1d15e, 0x2f800, 0x1f600};
    uint32_t seed = 5;
    for (unsigned round = 0; round < 4000; round++) {
        char text[600];
        size_t bytes = 0;
        for (uint32_t n = next_random(&seed) % (round % 20 == 0 ? 100 : 12); n > 0; n--) {
            uint32_t point = starts[next_random(&seed) % 20] + next_random(&seed) % 64;
            bytes += unicode_put(point, text + bytes);
        }
        static const struct {
            enum normalize_kind kind;
            int options;
        } forms[] = {
            {NORMALIZE_NFC, UTF8PROC_STABLE | UTF8PROC_COMPOSE},
            {NORMALIZE_NFD, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
            {NORMALIZE_NFKC, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
            {NORMALIZE_NFKD, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
        };
        for (unsigned i = 0; i < 4; i++) {
            struct arena arena;
            arena_carve(&arena, memory, MEMORY_BYTES);
            struct str got = run_normalizer(forms[i].kind, (struct str){text, bytes}, &arena);
            utf8proc_uint8_t *want;
            utf8proc_ssize_t length = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)bytes, &want,
                                                   (utf8proc_option_t)forms[i].options);
            assert_true(length >= 0);
            assert_int_equal(got.bytes, length);
            assert_memory_equal(got.ptr, want, got.bytes);
            free(want);
        }
    }
}

/* ---- added tokens ---- */

static void added_tokens_are_found_longest_first(void **state)
{
    (void)state;
    uint32_t seed = 9;
    for (unsigned round = 0; round < 100; round++) {
        struct arena arena;
        struct added added;
        struct added_entry entries[30];
        char spellings[30][8];
        berth_error err = {0};
        arena_carve(&arena, memory, MEMORY_BYTES);
        const struct text_build build = {&arena, &arena};
        for (uint32_t i = 0; i < 30; i++) {
            size_t bytes = 1 + next_random(&seed) % 4;
            for (size_t k = 0; k < bytes; k++) {
                spellings[i][k] = (char)('a' + next_random(&seed) % 3);
            }
            entries[i] = (struct added_entry){{spellings[i], bytes}, (int32_t)i, 0};
        }
        uint32_t count = next_random(&seed) % 30;
        assert_int_equal(added_layout(&build, entries, count, &added, &err), BERTH_OK);
        char text[60];
        for (size_t i = 0; i < sizeof text; i++) {
            text[i] = (char)('a' + next_random(&seed) % 4);
        }
        struct added_walk walk;
        added_walk_begin(&walk, &added, (struct str){text, sizeof text}, true);
        for (size_t at = 0; at < sizeof text;) {
            int32_t want = VOCAB_NONE; /* longest, of equal spellings the last */
            size_t want_bytes = 0;
            size_t plain = at;
            for (; plain < sizeof text && want == VOCAB_NONE; plain++) {
                for (uint32_t i = 0; i < count; i++) {
                    struct str rest = {text + plain, sizeof text - plain};
                    if (str_starts(rest, entries[i].spelling) && entries[i].spelling.bytes >= want_bytes) {
                        want = entries[i].id;
                        want_bytes = entries[i].spelling.bytes;
                    }
                }
            }
            plain -= want != VOCAB_NONE ? 1u : 0u;
            struct str stretch;
            int32_t id;
            if (plain > at) {
                assert_true(added_walk_next(&walk, &stretch, &id));
                assert_true(id == VOCAB_NONE && stretch.ptr == text + at && stretch.bytes == plain - at);
            }
            if (want != VOCAB_NONE) {
                assert_true(added_walk_next(&walk, &stretch, &id));
                assert_true(id == want && stretch.ptr == text + plain && stretch.bytes == want_bytes);
            }
            at = plain + want_bytes;
        }
        struct str stretch;
        int32_t id;
        assert_false(added_walk_next(&walk, &stretch, &id));
    }
}

/* ---- the byte-level alphabet ---- */

static void the_byte_level_alphabet_has_256_letters(void **state)
{
    (void)state;
    unsigned seen = 0;
    for (uint32_t point = 0; point < 0x400; point++) {
        int byte = byte_level_byte(point);
        if (byte >= 0) {
            assert_int_equal(byte_level_point((unsigned char)byte), point);
            seen++;
        }
    }
    assert_int_equal(seen, 256);
    assert_int_equal(byte_level_point(' '), 0x120);
    assert_int_equal(byte_level_point('\n'), 0x10a);
    assert_int_equal(byte_level_point(0xad), 0x143);
    assert_int_equal(byte_level_point(0x7f), 0x121);
    assert_int_equal(byte_level_byte(UINT32_MAX), -1);
}

/* ---- detokenizing ---- */

/* A tokenizer whose token i is byte i, in either kind of vocabulary. */
static void build_bytes(struct text_help *help, bool byte_level)
{
    static char json[20000];
    size_t used = (size_t)snprintf(json, sizeof json, "{\"decoder\":{\"type\":\"%s\"},\"model\":{\"vocab\":{",
                                   byte_level ? "ByteLevel" : "ByteFallback");
    for (unsigned byte = 0; byte < 256; byte++) {
        char letter[8] = "";
        if (byte_level) {
            letter[unicode_put(byte_level_point((unsigned char)byte), letter)] = '\0';
        } else {
            (void)snprintf(letter, sizeof letter, "<0x%02X>", byte);
        }
        used += (size_t)snprintf(json + used, sizeof json - used, "%s\"%s%s\":%u", byte == 0 ? "" : ",",
                                 letter[0] == '"' || letter[0] == '\\' ? "\\" : "", letter, byte);
    }
    (void)snprintf(json + used, sizeof json - used, "},\"merges\":[]}}");
    struct checkpoint checkpoint = {.tokenizer_json = str_from(json)};
    berth_status status = text_help_build(help, &checkpoint, 64);
    assert_string_equal(help->err.message, "");
    assert_int_equal(status, BERTH_OK);
}

/* Any bytes, one token each: what comes out is whole characters at once, and all together the lossy reading. */
static void broken_and_split_characters_come_out_whole(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "a",    "\xc3\xa9",     "\xe4\xb8\xad", "\xf0\x9f\x98\x80", "\xff", "\xc3",        "\xe4\xb8", "\xf0\x9f",
        "\x80", "\xed\xa0\x80", "\xc0\x80",     "\xf4\x90\x80\x80", "\n",   "\xf0\x9f\x98"};
    uint32_t seed = 13;
    for (unsigned kind = 0; kind < 2; kind++) {
        struct text_help help;
        build_bytes(&help, kind == 0);
        for (unsigned round = 0; round < 3000; round++) {
            char input[64] = "";
            char want[256];
            char got[4096];
            size_t want_bytes = 0;
            for (uint32_t n = next_random(&seed) % 12; n > 0; n--) {
                strcat(input, pieces[next_random(&seed) % 14]);
            }
            for (size_t at = 0, length; input[at] != '\0'; at += length) {
                uint32_t point = unicode_next(input + at, strlen(input) - at, &length);
                want_bytes += unicode_put(point, want + want_bytes);
            }
            int32_t ids[64];
            size_t count = strlen(input);
            for (size_t i = 0; i < count; i++) {
                ids[i] = (unsigned char)input[i];
            }
            /* text_help_decode() checks that every push gives whole characters. */
            size_t got_bytes = text_help_decode(help.text, ids, count, false, got, sizeof got);
            assert_int_equal(got_bytes, want_bytes);
            assert_memory_equal(got, want, want_bytes);
        }
        text_help_free(&help);
    }
}

static void a_push_waits_for_the_rest_of_a_character(void **state)
{
    (void)state;
    struct text_help help;
    char out[4096];
    size_t count;
    berth_detok detok = {.show_special = false};
    build_bytes(&help, true);
    static const int32_t smile[] = {0xf0, 0x9f, 0x98, 0x80};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(text_detok_push(help.text, &detok, smile[i], out, sizeof out, &count), BERTH_OK);
        assert_int_equal(count, i == 3 ? 4 : 0);
    }
    assert_memory_equal(out, "\xf0\x9f\x98\x80", 4);
    assert_int_equal(text_detok_finish(&detok, out, 0, &count), BERTH_OK);
    assert_int_equal(count, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(text_detok_push(help.text, &detok, smile[i], out, sizeof out, &count), BERTH_OK);
    }
    assert_int_equal(text_detok_finish(&detok, out, 2, &count), BERTH_ERR_ARGUMENT);
    assert_int_equal(text_detok_finish(&detok, out, 3, &count), BERTH_OK);
    assert_int_equal(count, 3);
    assert_memory_equal(out, "\xef\xbf\xbd", 3);
    assert_int_equal(text_detok_finish(&detok, out, 3, &count), BERTH_OK);
    assert_int_equal(count, 0);
    text_help_free(&help);
}

static void odd_calls_are_answered(void **state)
{
    (void)state;
    struct text_help help;
    char out[4096];
    size_t count = 7;
    build_bytes(&help, true);
    berth_detok detok = {.show_special = false};
    assert_int_equal(text_detok_push(help.text, &detok, -1, out, sizeof out, &count), BERTH_ERR_ARGUMENT);
    assert_int_equal(text_detok_push(help.text, &detok, 65, out, text_piece_max_bytes(help.text) - 1, &count),
                     BERTH_ERR_ARGUMENT);
    assert_int_equal(count, 7); /* outputs are untouched */
    /* A model's output can have more rows than the vocabulary. */
    assert_int_equal(text_detok_push(help.text, &detok, 256, out, sizeof out, &count), BERTH_OK);
    assert_int_equal(count, 0);
    assert_int_equal(text_detok_push(help.text, &detok, INT32_MAX, out, sizeof out, &count), BERTH_OK);
    assert_int_equal(count, 0);
    /* State that was never initialised. */
    memset(&detok, 0xff, sizeof detok);
    detok.started = true;
    detok.show_special = false;
    assert_int_equal(text_detok_push(help.text, &detok, 65, out, sizeof out, &count), BERTH_OK);
    assert_true(count <= text_piece_max_bytes(help.text) && utf8_is_valid(out, count));
    text_help_free(&help);
}

/* started = true: the text goes on, so its leading space stays. */
static void a_continued_text_keeps_its_leading_space(void **state)
{
    (void)state;
    struct checkpoint checkpoint = {
        .tokenizer_json = str_from(
            "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true}],\"decoder\":{\"type\":\"Sequence\","
            "\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\" \"},{\"type\":"
            "\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
            "\"model\":{\"vocab\":{\"_\":0,\"a\":1,\"_a\":2,\"<0x20>\":4},\"merges\":[[\"_\",\"a\"]]}}")};
    static const struct {
        int32_t ids[4];
        size_t count;
        bool started, show_special;
        const char *text;
    } cases[] = {
        {{2, 2}, 2, false, false, "a a"},  {{2, 2}, 2, true, false, " a a"},   {{3, 2, 2}, 3, false, false, "a a"},
        {{3, 2}, 2, false, true, "<s> a"}, {{0, 0, 1}, 3, false, false, " a"}, {{1, 2}, 2, false, false, "a a"},
        {{4, 2}, 2, false, false, " a"}, /* a byte token can be the space */
    };
    struct text_help help;
    assert_int_equal(text_help_build(&help, &checkpoint, 64), BERTH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        berth_detok detok = {.started = cases[i].started, .show_special = cases[i].show_special};
        char out[1024];
        size_t used = 0;
        for (size_t k = 0; k < cases[i].count; k++) {
            size_t wrote;
            assert_int_equal(text_detok_push(help.text, &detok, cases[i].ids[k], out + used, sizeof out - used, &wrote),
                             BERTH_OK);
            used += wrote;
        }
        assert_true(str_equal((struct str){out, used}, str_from(cases[i].text)));
    }
    text_help_free(&help);
}

/* ---- patterns ---- */

static void patterns_are_translated(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"\\p{L}+", "\\p{L}+"},
        {"(?i:'s|'t)", "(?i:'s|'t)"},
        {"(?m:.)", "(?s:.)"},
        {"a(?i)b|c", "a(?i:b|c)"},
        {"(a(?i)b)c", "(a(?i:b))c"},
        {"\\h", "[0-9A-Fa-f]"},
        {"\\u00e9", "\\x{00e9}"},
        {"a{2}+", "(?:a{2})+"},
        {"[ab]{1,2}+", "(?:[ab]{1,2})+"},
        {"(ab){2}?", "(?:(ab){2})?"},
        {"a{1,2}?", "a{1,2}?"},
        {"a++", "a++"},
        {"a{,3}", "a{0,3}"},
        {"a{b}", "a\\{b\\}"},
        {"\\x{41}{2}+", "(?:\\x{41}{2})+"},
        {"[a[bc]]", "[abc]"},
        {"[\\p{Lu}\\p{M}&&[^\\p{Han}]]", "[^\\p{Ll}\\p{Lt}\\p{Lm}\\p{Lo}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}]"},
        {"[\\p{L}&&[^a]]", "[^\\p{M}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}a]"},
        {"[ab&&[bc]]", "(?:(?=[bc])[ab])"},
        {"[]a]", "[\\]a]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena arena;
        struct str out;
        bool references;
        berth_error err = {0};
        arena_carve(&arena, memory, MEMORY_BYTES);
        const struct text_build build = {&arena, &arena};
        assert_int_equal(pattern_translate(&build, str_from(cases[i].from), &out, &references, &err), BERTH_OK);
        if (!str_is(out, cases[i].to)) {
            print_message("%s: got %.*s, want %s\n", cases[i].from, STR_ARG(out), cases[i].to);
        }
        assert_true(str_is(out, cases[i].to));
        assert_false(references);
    }
}

/* The text a search for the end of a run of spaces takes square time on, were it not rewritten. */
static void trailing_space_is_found_in_linear_time(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    struct arena arena;
    struct pattern pattern;
    struct pattern_matcher *matcher;
    struct pattern_walk walk;
    berth_error err = {0};
    arena_carve(&arena, memory, MEMORY_BYTES);
    const struct text_build build = {&arena, &arena};
    assert_int_equal(pattern_matcher_layout(&build, &matcher, &err), BERTH_OK);
    assert_int_equal(pattern_compile(&build, STR("\\s+$"), &pattern, &err), BERTH_OK);
    char *text = arena_take(&arena, BYTES, 1, 0);
    assert_non_null(text);
    memset(text, ' ', BYTES);
    text[BYTES / 2] = 'x';
    pattern_walk_begin(&walk, &pattern, matcher, (struct str){text, BYTES});
    bool found;
    size_t start;
    size_t end;
    assert_int_equal(pattern_walk_next(&walk, &found, &start, &end, &err), BERTH_OK);
    assert_true(found && start == BYTES / 2 + 1 && end == BYTES);
    assert_int_equal(pattern_walk_next(&walk, &found, &start, &end, &err), BERTH_OK);
    assert_false(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_equals_its_definition),
        cmocka_unit_test(normal_forms_equal_utf8proc),
        cmocka_unit_test(added_tokens_are_found_longest_first),
        cmocka_unit_test(the_byte_level_alphabet_has_256_letters),
        cmocka_unit_test(broken_and_split_characters_come_out_whole),
        cmocka_unit_test(a_push_waits_for_the_rest_of_a_character),
        cmocka_unit_test(odd_calls_are_answered),
        cmocka_unit_test(a_continued_text_keeps_its_leading_space),
        cmocka_unit_test(patterns_are_translated),
        cmocka_unit_test(trailing_space_is_found_in_linear_time),
    };
    return cmocka_run_group_tests(tests, take_memory, give_memory);
}
