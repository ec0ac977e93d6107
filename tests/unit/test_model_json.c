/* SPDX-License-Identifier: MIT
 * model/json.h: grammar, strings, numbers (against strtod in the C locale), limits, finding. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/json.h"

#define DOC(text) ((struct str){(text), sizeof(text) - 1})

/* A copy of exactly the document's size, so that the sanitizer sees reads past its end. */
static struct str exact(struct str document)
{
    char *copy = malloc(document.bytes == 0 ? 1 : document.bytes);
    memcpy(copy, document.ptr, document.bytes);
    return (struct str){copy, document.bytes};
}

static void drop(struct str document)
{
    free((void *)(uintptr_t)document.ptr);
}

/* One letter a token; '!' for an error. */
static void trace(struct str document, char *out, struct json *end)
{
    static const char letters[] = {'!', '.', '{', '}', '[', ']', 'k', 's', 'n', 't', 'f', '0'};
    json_begin(end, document);
    enum json_kind kind;
    do {
        kind = json_next(end);
        *out++ = letters[kind];
    } while (kind != JSON_END && kind != JSON_ERROR);
    *out = '\0';
}

static void accepts_the_grammar(void **state)
{
    (void)state;
    const struct {
        const char *text, *tokens;
    } cases[] = {
        {"0", "n."},
        {" \t\r\n-0.5e+10 ", "n."},
        {"true", "t."},
        {"false", "f."},
        {"null", "0."},
        {"\"\"", "s."},
        {"{}", "{}."},
        {"[]", "[]."},
        {"[ ]", "[]."},
        {"[[],{}]", "[[]{}]."},
        {"[1,2.5,\"a\",true,false,null]", "[nnstf0]."},
        {"{\"a\":1,\"b\":[{\"c\":{}}] , \"a\" : null}", "{knk[{k{}}]k0}."},
        {"[1E5,0e1,1e-1,-1]", "[nnnn]."},
        {"[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\\ud800\",\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"]",
         "[ss]."},
        {"\"\x7f\"", "s."},
        {"{\"long enough for the fast path, twice over\":\"and 0123456789 so is this one\"}", "{ks}."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char tokens[64];
        struct json json;
        struct str document = exact(str_from(cases[i].text));
        trace(document, tokens, &json);
        assert_string_equal(tokens, cases[i].tokens);
        assert_int_equal(json_next(&json), JSON_END); /* stays */
        drop(document);
    }
}

static void refuses_everything_else(void **state)
{
    (void)state;
    static const struct {
        struct str text;
        size_t at;
        const char *says;
    } cases[] = {
        {DOC(""), 0, "ends too early"},
        {DOC("  "), 2, "ends too early"},
        {DOC("["), 1, "ends too early"},
        {DOC("[1"), 2, "ends too early"},
        {DOC("[1,"), 3, "ends too early"},
        {DOC("[1,]"), 3, "expected a value"},
        {DOC("[,1]"), 1, "expected a value"},
        {DOC("[1 2]"), 3, "expected ',' or ']'"},
        {DOC("[1}"), 2, "expected ',' or ']'"},
        {DOC("]"), 0, "expected a value"},
        {DOC("{"), 1, "ends too early"},
        {DOC("{]"), 1, "expected a member name"},
        {DOC("{\"a\"}"), 4, "expected ':'"},
        {DOC("{\"a\""), 4, "expected ':'"},
        {DOC("{\"a\":"), 5, "ends too early"},
        {DOC("{\"a\":}"), 5, "expected a value"},
        {DOC("{\"a\":1,}"), 7, "expected a member name"},
        {DOC("{\"a\":1]"), 6, "expected ',' or '}'"},
        {DOC("{a:1}"), 1, "expected a member name"},
        {DOC("{1:1}"), 1, "expected a member name"},
        {DOC("{\"a\":1 \"b\":2}"), 7, "expected ',' or '}'"},
        {DOC("1 2"), 2, "text after the end"},
        {DOC("{} {}"), 3, "text after the end"},
        {DOC("tru"), 0, "none of true"},
        {DOC("nulll"), 4, "text after the end"},
        {DOC("True"), 0, "expected a value"},
        {DOC("NaN"), 0, "expected a value"},
        {DOC("Infinity"), 0, "expected a value"},
        {DOC("-Infinity"), 1, "no digits"},
        {DOC("01"), 0, "superfluous zero"},
        {DOC("-"), 1, "no digits"},
        {DOC("+1"), 0, "expected a value"},
        {DOC(".5"), 0, "expected a value"},
        {DOC("1."), 2, "after its point"},
        {DOC("1.e5"), 2, "after its point"},
        {DOC("1e"), 2, "exponent"},
        {DOC("1e+"), 3, "exponent"},
        {DOC("0x10"), 1, "text after the end"},
        {DOC("'a'"), 0, "expected a value"},
        {DOC("\"abc"), 0, "does not end"},
        {DOC("\"abcdefghijklmnop"), 0, "does not end"},
        {DOC("\"a\\"), 2, "malformed escape"},
        {DOC("\"\\x41\""), 1, "malformed escape"},
        {DOC("\"\\u12g4\""), 1, "malformed escape"},
        {DOC("\"\\u123"), 1, "malformed escape"},
        {DOC("\"a\nb\""), 2, "control character"},
        {DOC("\"0123456789\x1f\""), 11, "control character"},
        {DOC("\"a\0b\""), 2, "control character"},
        {DOC("\"\x80\""), 1, "not UTF-8"},
        {DOC("\"\xc0\xaf\""), 1, "not UTF-8"},
        {DOC("\"\xed\xa0\x80\""), 1, "not UTF-8"},
        {DOC("\"\xf4\x90\x80\x80\""), 1, "not UTF-8"},
        {DOC("\"0123456789\xe2\x82\""), 11, "not UTF-8"},
        {DOC("\"\xe2\x82"), 1, "not UTF-8"},
        {DOC("\xef\xbb\xbf{}"), 0, "expected a value"},
        {DOC("{\"a\":1}\0"), 7, "text after the end"},
        {DOC("[/* no */]"), 1, "expected a value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char tokens[64];
        struct json json;
        struct str document = exact(cases[i].text);
        trace(document, tokens, &json);
        if (tokens[strlen(tokens) - 1] != '!' || strstr(json.error, cases[i].says) == NULL || json.at != cases[i].at) {
            fail_msg("case %zu: tokens %s, %s at %zu", i, tokens, json.error == NULL ? "-" : json.error, json.at);
        }
        assert_int_equal(json_next(&json), JSON_ERROR); /* stays */
        assert_false(json_skip(&json));
        berth_error err;
        assert_int_equal(json_fail(&json, "some/file.json", &err), BERTH_ERR_FORMAT);
        assert_string_equal(err.path, "some/file.json");
        assert_int_equal(err.offset, cases[i].at);
        assert_non_null(strstr(err.message, cases[i].says));
        drop(document);
    }
}

static void depth_limit_is_exact(void **state)
{
    (void)state;
    char text[2 * (JSON_DEPTH_MAX + 1)];
    for (size_t depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        struct json json;
        json_begin(&json, (struct str){text, 2 * depth});
        json_next(&json);
        bool fine = json_skip(&json) && json_next(&json) == JSON_END;
        assert_int_equal(fine, depth == JSON_DEPTH_MAX);
        if (!fine) {
            assert_int_equal(json.at, JSON_DEPTH_MAX);
            assert_non_null(strstr(json.error, "64 levels"));
        }
    }
    /* The kinds of containers are remembered at every depth. */
    char deep[] = "[[[[[[[[{\"a\":[[[[[[[[{\"b\":[{\"c\":[]}]}]]]]]]]]}]]]]]]]]";
    char tokens[128];
    struct json json;
    trace(str_from(deep), tokens, &json);
    assert_string_equal(tokens, "[[[[[[[[{k[[[[[[[[{k[{k[]}]}]]]]]]]]}]]]]]]]].");
    json_begin(&json, (struct str){text, (size_t)UINT32_MAX + 1});
    assert_int_equal(json_next(&json), JSON_ERROR);
    assert_non_null(strstr(json.error, "4 GiB"));
}

static void strings_are_unescaped(void **state)
{
    (void)state;
    static const struct {
        struct str text;
        struct str value;
    } cases[] = {
        {DOC("\"plain\""), DOC("plain")},
        {DOC("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), DOC("\"\\/\b\f\n\r\t")},
        {DOC("\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\""), DOC("A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")},
        {DOC("\"a\\u0000b\""), DOC("a\0b")},
        {DOC("\"\\ud800\""), DOC("\xef\xbf\xbd")},
        {DOC("\"\\udc00x\""), DOC("\xef\xbf\xbdx")},
        {DOC("\"\\udc00\\udc01\""), DOC("\xef\xbf\xbd\xef\xbf\xbd")},
        {DOC("\"\\ud800\\ud83d\\ude00\""), DOC("\xef\xbf\xbd\xf0\x9f\x98\x80")},
        {DOC("\"\\ud800\\n\\ud800 \""), DOC("\xef\xbf\xbd\n\xef\xbf\xbd ")},
        {DOC("\"\\udbff\\udfff\""), DOC("\xf4\x8f\xbf\xbf")},
        {DOC("\"\\ud83dxude00....\""), DOC("\xef\xbf\xbdxude00....")},
        {DOC("\"\\u007f\\u0080\\u07ff\\u0800\\uffff\""), DOC("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json json;
        struct str document = exact(cases[i].text);
        json_begin(&json, document);
        assert_int_equal(json_next(&json), JSON_STRING);
        char out[64];
        size_t bytes = json_unescape(&json.token, out, json.token.raw.bytes);
        assert_int_equal(bytes, cases[i].value.bytes);
        assert_memory_equal(out, cases[i].value.ptr, bytes);
        assert_true(utf8_is_valid(out, bytes));
        assert_int_equal(json.token.escaped, memchr(document.ptr, '\\', document.bytes) != NULL);
        for (size_t cap = 0; cap < bytes; cap++) {
            memset(out, 0x55, sizeof out);
            size_t got = json_unescape(&json.token, out, cap);
            assert_true(got <= cap && utf8_is_valid(out, got));
            assert_int_equal(out[cap], 0x55);
        }
        drop(document);
    }
    struct json json;
    json_begin(&json, DOC("[\"a\\u0062c\",\"abc\",1]"));
    json_next(&json);
    json_next(&json);
    assert_true(json_token_is(&json.token, "abc"));
    assert_false(json_token_is(&json.token, "ab"));
    assert_false(json_token_is(&json.token, "abcd"));
    assert_false(json_token_is(&json.token, "abd"));
    json_next(&json);
    assert_true(json_token_is(&json.token, "abc"));
    assert_false(json_token_is(&json.token, "ab"));
    json_next(&json);
    assert_false(json_token_is(&json.token, "1"));
}

static struct json_token number(const char *text)
{
    struct json json;
    json_begin(&json, str_from(text));
    assert_int_equal(json_next(&json), JSON_NUMBER);
    assert_int_equal(json.token.raw.bytes, strlen(text));
    return json.token;
}

static void integers_are_exact_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool u64_ok, i64_ok;
        uint64_t u64;
        int64_t i64;
    } cases[] = {
        {"0", true, true, 0, 0},
        {"-0", true, true, 0, 0},
        {"-0.0e5", true, true, 0, 0},
        {"8.0", true, true, 8, 8},
        {"1e3", true, true, 1000, 1000},
        {"1200e-2", true, true, 12, 12},
        {"120.50e1", true, true, 1205, 1205},
        {"100", true, true, 100, 100},
        {"100.000", true, true, 100, 100},
        {"0.0012e4", true, true, 12, 12},
        {"1.5", false, false, 0, 0},
        {"1e-1", false, false, 0, 0},
        {"-1", false, true, 0, -1},
        {"9223372036854775807", true, true, INT64_MAX, INT64_MAX},
        {"9223372036854775808", true, false, (uint64_t)INT64_MAX + 1, 0},
        {"-9223372036854775808", false, true, 0, INT64_MIN},
        {"-9223372036854775809", false, false, 0, 0},
        {"18446744073709551615", true, false, UINT64_MAX, 0},
        {"18446744073709551616", false, false, 0, 0},
        {"1844674407370955161.5e1", true, false, UINT64_MAX, 0},
        {"99999999999999999999", false, false, 0, 0},
        {"1e19", true, false, 10000000000000000000u, 0},
        {"1e20", false, false, 0, 0},
        {"1e999999999999999999999999", false, false, 0, 0},
        {"0e999999999999999999999999", true, true, 0, 0},
        {"1e-999999999999999999999999", false, false, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_token token = number(cases[i].text);
        uint64_t u64 = 0;
        int64_t i64 = 0;
        assert_int_equal(json_token_u64(&token, &u64), cases[i].u64_ok);
        assert_int_equal(json_token_i64(&token, &i64), cases[i].i64_ok);
        assert_true(u64 == cases[i].u64);
        assert_true(i64 == cases[i].i64);
    }
    struct json json;
    json_begin(&json, DOC("\"1\""));
    json_next(&json);
    uint64_t u64;
    int64_t i64;
    double f64;
    assert_false(json_token_u64(&json.token, &u64));
    assert_false(json_token_i64(&json.token, &i64));
    assert_false(json_token_f64(&json.token, &f64));
}

static void check_double(const char *text)
{
    struct json_token token = number(text);
    double wanted = strtod(text, NULL);
    double got = 0;
    bool ok = json_token_f64(&token, &got);
    if (ok != (isfinite(wanted) != 0) || (ok && memcmp(&got, &wanted, sizeof got) != 0)) {
        fail_msg("%.60s: got %a (%d), strtod says %a", text, got, ok, wanted);
    }
}

static uint64_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void doubles_are_correctly_rounded(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "0",
        "-0.0",
        "0.1",
        "1e-06",
        "10000.0",
        "1e-5",
        "0.006737946999085467",
        "1e22",
        "1e23",
        "9007199254740993",
        "9007199254740992.99999999999999999999999",
        "9007199254740993.00000000000000000000000000000000000000001",
        "18446744073709551615",
        "18446744073709551616",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "1e308",
        "1e309",
        "-1e400",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "2.2250738585072012e-308",
        "4.9e-324",
        "5e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "2.47e-324",
        "1e-323",
        "1e-400",
        "0e400",
        "1e-99999999999999999999999",
        "123456789012345678901234567890e-30",
        "0.000000000000000000000000000000000000000000000000000000000000000000001e69",
        "1000000000000000000000000000000000000000000000000000000000000000000000e-69",
        "-13.103330612182617",
        "7.2057594037927933e16",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_double(cases[i]);
    }
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = random_bits(&seed);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) {
            continue;
        }
        char text[1200];
        static const int places[] = {16, 20, 3, 40, 770};
        snprintf(text, sizeof text, "%.*e", places[i % 5], value);
        check_double(text);
        snprintf(text, sizeof text, "%.*f", (int)(bits % 20), (double)(int64_t)bits * 0x1p-40);
        check_double(text);
        snprintf(text, sizeof text, "%llu.%llue-%u", (unsigned long long)(bits >> 20), (unsigned long long)seed >> 3,
                 (unsigned)(bits % 60));
        check_double(text);
    }
}

/* Halfway between two doubles, exactly, and a hair to either side, in full decimal length. */
static void doubles_at_midpoints(void **state)
{
    (void)state;
    uint64_t seed = 1234567;
    for (int i = 0; i < 400; i++) {
        uint64_t bits = random_bits(&seed) & 0x7fffffffffffffffu;
        bits = i % 4 == 0 ? bits & 0x000fffffffffffffu : bits;                         /* subnormal */
        bits = i % 4 == 1 ? (bits & 0x000fffffffffffffu) | 0x0010000000000000u : bits; /* smallest exponent */
        double low;
        double high;
        memcpy(&low, &bits, sizeof low);
        bits++;
        memcpy(&high, &bits, sizeof high);
        if (!isfinite(high) || low == 0) {
            continue;
        }
        /* long double holds the midpoint exactly, also below the double's subnormals. */
        long double middle = ((long double)low + (long double)high) / 2;
        char text[1400];
        snprintf(text, sizeof text - 8, "%.1150Le", middle);
        char *e = strchr(text, 'e');
        char exponent[16];
        snprintf(exponent, sizeof exponent, "%s", e);
        check_double(text);
        /* Above: a digit far behind. Below: the last digit that is not zero made one smaller. */
        e[-1] = '1';
        check_double(text);
        e[-1] = '0';
        char *last = e - 1;
        while (*last == '0') {
            last--;
        }
        (*last)--;
        check_double(text);
    }
}

static void pairs_are_read_whole_or_not_at_all(void **state)
{
    (void)state;
    static const struct {
        struct str document;
        const char *first, *second; /* NULL: left to json_next() */
    } cases[] = {
        {DOC("[\"a\",\"b\"]"), "a", "b"},
        {DOC("[ \n        \t\"\" , \"\xc4\xa0the\" \r\n ]"), "", "\xc4\xa0the"},
        {DOC("[\n            \"a\",\n            \"12345678\"\n        ]"), "a", "12345678"},
        {DOC("[\"a\",\"123456789\"]"), NULL, NULL}, /* too long */
        {DOC("[\"a\",\"\\n\"]"), NULL, NULL},
        {DOC("[\"a\",\"\t\"]"), NULL, NULL},
        {DOC("[\"a\",\"\xff\"]"), NULL, NULL},
        {DOC("[\"a\",\"\xc4\"]"), NULL, NULL},
        {DOC("[\"a\"]"), NULL, NULL},
        {DOC("[\"a\",\"b\",\"c\"]"), NULL, NULL},
        {DOC("[\"a\",5]"), NULL, NULL},
        {DOC("[5,\"a\"]"), NULL, NULL},
        {DOC("[\"a\":\"b\"]"), NULL, NULL},
        {DOC("[]"), NULL, NULL},
        {DOC("{\"a\":\"b\"}"), NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t cut = 0; cut < cases[i].document.bytes; cut++) {
            struct str document = exact((struct str){cases[i].document.ptr, cases[i].document.bytes - cut});
            struct json json;
            struct str first;
            struct str second;
            json_begin(&json, document);
            (void)json_next(&json);
            struct json before = json;
            bool took = json_took_pair(&json, 8, &first, &second);
            assert_int_equal(took, cut == 0 && cases[i].first != NULL);
            if (took) {
                assert_true(str_is(first, cases[i].first) && str_is(second, cases[i].second));
                assert_int_equal(json.token.kind, JSON_ARRAY_END);
                assert_int_equal(json.token.offset, document.bytes - 1);
                assert_int_equal(json_next(&json), JSON_END);
            } else {
                assert_memory_equal(&json, &before, sizeof json);
            }
            drop(document);
        }
    }
}

static void find_follows_a_path(void **state)
{
    (void)state;
    struct str document =
        DOC("{\"a\":{\"b\":[1,{\"x\":2}],\"c\":7},\"d\":\"e\",\"a\\u0062\":true,\"a\":{\"c\":8,\"z\":null}}");
    struct json value;
    uint64_t number_value;
    assert_true(json_find(document, (const char *const[]){"a", "c", NULL}, &value));
    assert_true(json_token_u64(&value.token, &number_value));
    assert_int_equal(number_value, 8); /* the last duplicate */
    assert_false(json_find(document, (const char *const[]){"a", "b", NULL}, &value));
    assert_true(json_find(document, (const char *const[]){"ab", NULL}, &value));
    assert_int_equal(value.token.kind, JSON_TRUE);
    assert_true(json_find(document, (const char *const[]){"a", NULL}, &value));
    assert_int_equal(value.token.kind, JSON_OBJECT_BEGIN);
    assert_int_equal(json_next(&value), JSON_KEY);
    assert_true(json_skip(&value));
    assert_int_equal(json_next(&value), JSON_KEY);
    assert_true(json_token_is(&value.token, "z"));
    assert_false(json_find(document, (const char *const[]){"d", "e", NULL}, &value));
    assert_false(json_find(document, (const char *const[]){"e", NULL}, &value));
    assert_true(json_find(document, (const char *const[]){NULL}, &value));
    assert_false(json_find(DOC("{\"a\":1,\"b\":}"), (const char *const[]){"a", NULL}, &value));
    assert_false(json_find(DOC("{\"a\":1} x"), (const char *const[]){"a", NULL}, &value));
    assert_false(json_find(DOC(""), (const char *const[]){"a", NULL}, &value));
    assert_false(json_find(DOC("[1]"), (const char *const[]){"a", NULL}, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_the_grammar),
        cmocka_unit_test(refuses_everything_else),
        cmocka_unit_test(depth_limit_is_exact),
        cmocka_unit_test(strings_are_unescaped),
        cmocka_unit_test(integers_are_exact_or_refused),
        cmocka_unit_test(doubles_are_correctly_rounded),
        cmocka_unit_test(doubles_at_midpoints),
        cmocka_unit_test(find_follows_a_path),
        cmocka_unit_test(pairs_are_read_whole_or_not_at_all),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
