/* SPDX-License-Identifier: MIT
 * From Oniguruma's default syntax to PCRE2's (UTF, UCP, MULTILINE, newline LF). What reads the same is copied; what
 * has no counterpart is refused by name. Oniguruma's syntax: its doc/RE, version 6.9. */
#include "text/pattern.h"

#include <stdio.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/unicode.h"

enum { GROUP_DEPTH_MAX = 64, CLASS_DEPTH_MAX = 4 };

/* White space is White_Space in Oniguruma; PCRE2's \s adds U+180E. Boolean properties came with PCRE2 10.40. */
#define SPACE_ITEM "\\x09-\\x0d\\x{85}\\p{Z}"
#define WORD_ITEM "\\p{L}\\p{M}\\p{N}\\p{Pc}"
#define HEX_ITEM "0-9A-Fa-f"

struct translation {
    struct str in;
    size_t at;
    char *out;
    size_t used, cap;
    size_t atom;     /* where the last atom starts in out */
    bool has_atom;   /* a quantifier may follow */
    bool quantified; /* the last atom has one already */
    bool references;
    unsigned depth;
    struct {
        size_t start;         /* of the group in out */
        unsigned extra_close; /* groups opened by isolated options inside it */
    } groups[GROUP_DEPTH_MAX];
    berth_error *err;
};

static berth_status refuse(const struct translation *t, const char *what)
{
    return error_set(t->err, BERTH_ERR_UNSUPPORTED,
                     "the pre-tokenizer pattern \"%.*s\" uses %s (at byte %llu), which this version cannot translate",
                     STR_ARG(t->in), what, (unsigned long long)t->at);
}

static void put(struct translation *t, const char *text, size_t bytes)
{
    if (bytes <= t->cap - t->used) {
        memcpy(t->out + t->used, text, bytes);
        t->used += bytes;
    }
}

static void puts_(struct translation *t, const char *text)
{
    put(t, text, strlen(text));
}

static int peek(const struct translation *t, size_t ahead)
{
    return t->at + ahead < t->in.bytes ? (unsigned char)t->in.ptr[t->at + ahead] : -1;
}

static bool looking_at(const struct translation *t, const char *text)
{
    struct str rest = {t->in.ptr + t->at, t->in.bytes - t->at};
    return str_starts(rest, str_from(text));
}

static void begin_atom(struct translation *t)
{
    t->atom = t->used;
    t->has_atom = true;
    t->quantified = false;
}

/* Puts "(?:" before the last atom and ")" after it, so that a second quantifier applies to the first. */
static void wrap_atom(struct translation *t)
{
    if (t->cap - t->used < 4) {
        t->used = t->cap;
        return;
    }
    memmove(t->out + t->atom + 3, t->out + t->atom, t->used - t->atom);
    memcpy(t->out + t->atom, "(?:", 3);
    t->used += 3;
    puts_(t, ")");
    t->quantified = false;
}

static const struct {
    const char *name; /* lower case, without blanks, '_' and '-' */
    const char *item; /* what stands for it inside a class */
} property_names[] = {
    {"alnum", "\\p{L}\\p{Nl}\\p{Nd}"},
    {"alpha", "\\p{L}\\p{Nl}"},
    {"alphabetic", "\\p{L}\\p{Nl}"},
    {"blank", "\\t\\p{Zs}"},
    {"digit", "\\p{Nd}"},
    {"lower", "\\p{Ll}"},
    {"upper", "\\p{Lu}"},
    {"punct", "\\p{P}\\p{S}"},
    {"space", SPACE_ITEM},
    {"whitespace", SPACE_ITEM},
    {"xdigit", HEX_ITEM},
    {"word", WORD_ITEM},
    {"cntrl", "\\p{Cc}"},
    {"letter", "\\p{L}"},
    {"uppercaseletter", "\\p{Lu}"},
    {"lowercaseletter", "\\p{Ll}"},
    {"titlecaseletter", "\\p{Lt}"},
    {"modifierletter", "\\p{Lm}"},
    {"otherletter", "\\p{Lo}"},
    {"mark", "\\p{M}"},
    {"nonspacingmark", "\\p{Mn}"},
    {"spacingmark", "\\p{Mc}"},
    {"enclosingmark", "\\p{Me}"},
    {"number", "\\p{N}"},
    {"decimalnumber", "\\p{Nd}"},
    {"letternumber", "\\p{Nl}"},
    {"othernumber", "\\p{No}"},
    {"punctuation", "\\p{P}"},
    {"symbol", "\\p{S}"},
    {"separator", "\\p{Z}"},
    {"spaceseparator", "\\p{Zs}"},
    {"other", "\\p{C}"},
};

/* A bare script name means the Script property in Oniguruma, and since 10.40 Script_Extensions in PCRE2. */
#if PCRE2_MAJOR > 10 || (PCRE2_MAJOR == 10 && PCRE2_MINOR >= 40)
#define SCRIPT_FORMAT "\\p{sc:%.*s}"
#else
#define SCRIPT_FORMAT "\\p{%.*s}"
#endif

/* What is neither a general category (one or two letters) nor one of the boolean properties is a script. */
static bool is_script(const char *plain_name)
{
    static const char *const others[] = {
        "any",         "l&",        "emoji",     "emojipresentation",   "emojimodifier",
        "ideographic", "uppercase", "lowercase", "extendedpictographic"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(others[i], plain_name) == 0) {
            return false;
        }
    }
    return strlen(plain_name) > 2;
}

/* One escape that stands for a set: its class item and whether it is the complement. False: not such an escape, and
 * nothing was consumed. */
static bool set_escape(struct translation *t, char item[80], bool *negative)
{
    int c = peek(t, 1);
    int low = c | 0x20;
    const char *known = low == 's'   ? SPACE_ITEM
                        : low == 'w' ? WORD_ITEM
                        : low == 'h' ? HEX_ITEM
                        : low == 'd' ? "\\p{Nd}"
                                     : NULL;
    if (peek(t, 0) != '\\' || c < 0) {
        return false;
    }
    if (known != NULL) {
        *negative = c < 'a';
        (void)snprintf(item, 80, "%s", known);
        t->at += 2;
        return true;
    }
    if (low != 'p' || peek(t, 2) != '{') {
        return false;
    }
    size_t name_at = t->at + 3;
    *negative = c == 'P';
    if (peek(t, 3) == '^') {
        *negative = !*negative;
        name_at++;
    }
    const char *close = memchr(t->in.ptr + name_at, '}', t->in.bytes - name_at);
    size_t bytes = close == NULL ? 0 : (size_t)(close - (t->in.ptr + name_at));
    if (bytes == 0 || bytes > 48) {
        return false;
    }
    char plain[64];
    size_t plain_bytes = 0;
    for (size_t i = 0; i < bytes; i++) {
        char letter = t->in.ptr[name_at + i];
        if (letter != ' ' && letter != '_' && letter != '-') {
            plain[plain_bytes++] = letter >= 'A' && letter <= 'Z' ? (char)(letter | 0x20) : letter;
        }
    }
    plain[plain_bytes] = '\0';
    (void)snprintf(item, 80, is_script(plain) ? SCRIPT_FORMAT : "\\p{%.*s}", (int)bytes, t->in.ptr + name_at);
    for (size_t i = 0; i < sizeof property_names / sizeof property_names[0]; i++) {
        if (strcmp(property_names[i].name, plain) == 0) {
            (void)snprintf(item, 80, "%s", property_names[i].item);
        }
    }
    t->at = name_at + bytes + 1;
    return true;
}

static bool is_hex(int c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* Length of \c...: \x{...}, \xHH, \k<...> and \g<...> are more than two bytes. */
static size_t escape_bytes(const struct translation *t, int c)
{
    int close = c == 'x' && peek(t, 2) == '{' ? '}' : (c == 'k' || c == 'g') && peek(t, 2) == '<' ? '>' : -1;
    const char *end = close < 0 ? NULL : memchr(t->in.ptr + t->at, close, t->in.bytes - t->at);
    if (end != NULL) {
        return (size_t)(end + 1 - (t->in.ptr + t->at));
    }
    size_t bytes = 2;
    while (c == 'x' && bytes < 4 && is_hex(peek(t, bytes))) {
        bytes++;
    }
    return bytes;
}

/* An escape for one character, in or out of a class: copied, or spelt anew. */
static berth_status character_escape(struct translation *t, bool in_class)
{
    int c = peek(t, 1);
    if (c < 0) {
        return refuse(t, "a single backslash at the end");
    }
    if (c == 'v') {
        puts_(t, "\\x0b");
    } else if (c == 'u') {
        for (size_t i = 2; i < 6; i++) {
            if (!is_hex(peek(t, i))) {
                return refuse(t, "\\u without four hexadecimal digits");
            }
        }
        puts_(t, "\\x{");
        put(t, t->in.ptr + t->at + 2, 4);
        puts_(t, "}");
        t->at += 4;
    } else if (c == 'x' && peek(t, 2) != '{' && peek(t, 2) >= '8') {
        return refuse(t, "\\x with an encoded byte");
    } else if (c >= 0x80) {
        t->at--; /* the character itself follows; its bytes are copied as they come */
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z' &&
               strchr(in_class ? "abefnrtx" : "abefnrtxAzZBGkgRX", c) == NULL) {
        char what[] = {'\\', (char)c, '\0'};
        return refuse(t, what);
    } else {
        t->references = t->references || (!in_class && ((c >= '1' && c <= '9') || c == 'k' || c == 'g'));
        size_t bytes = escape_bytes(t, c);
        put(t, t->in.ptr + t->at, bytes);
        t->at += bytes - 2;
    }
    t->at += 2;
    return BERTH_OK;
}

/* ---- classes ---- */

static berth_status class_items(struct translation *t, unsigned depth, bool negative, size_t class_start);

/* The general categories partition the code points, so the complement of a union of them is a union of the others. */
static bool complement_of_categories(const char *items, size_t bytes, char out[128])
{
    static const char *const minor[] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                        "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                        "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
    enum { MINORS = sizeof minor / sizeof minor[0] };
    bool have[MINORS] = {false};
    size_t at = 0;
    while (at < bytes) {
        size_t name_bytes = bytes - at >= 6 && items[at + 5] == '}' ? 2 : 1;
        if (bytes - at < 4 + name_bytes || memcmp(items + at, "\\p{", 3) != 0 || items[at + 3 + name_bytes] != '}') {
            return false;
        }
        bool known = false;
        for (size_t i = 0; i < MINORS; i++) {
            if (memcmp(minor[i], items + at + 3, name_bytes) == 0) {
                have[i] = true;
                known = true;
            }
        }
        if (!known) {
            return false;
        }
        at += 4 + name_bytes;
    }
    size_t used = 0;
    for (size_t i = 0; i < MINORS; i++) {
        size_t first = i;
        while (first > 0 && minor[first - 1][0] == minor[i][0]) {
            first--;
        }
        bool whole = true; /* no minor category of this letter is in the set: one item for all */
        for (size_t j = first; j < MINORS && minor[j][0] == minor[i][0]; j++) {
            whole = whole && !have[j];
        }
        if (!have[i] && (!whole || i == first)) {
            int wrote = snprintf(out + used, 128 - used, whole ? "\\p{%.1s}" : "\\p{%s}", minor[i]);
            used += wrote > 0 ? (size_t)wrote : 0;
            if (used >= 128) {
                return false;
            }
        }
    }
    return true;
}

/* out holds "[A" from class_start; the input is after "&&". Intersections come as A && [^B] or A && B. */
static berth_status class_intersection(struct translation *t, unsigned depth, bool negative, size_t class_start)
{
    size_t left_start = class_start + 1;
    size_t left_bytes = t->used - left_start;
    char left[512];
    if (negative || left_bytes == 0 || left_bytes > sizeof left) {
        return refuse(t, "an intersection of classes in this form");
    }
    memcpy(left, t->out + left_start, left_bytes);
    bool nested = looking_at(t, "[");
    bool right_negative = looking_at(t, "[^");
    t->at += right_negative ? 2 : nested ? 1 : 0;
    t->used = class_start;
    puts_(t, "[");
    TRY(class_items(t, depth + 1, false, class_start));
    if (t->used == class_start + 1 || t->out[t->used - 1] != ']') {
        return refuse(t, "an intersection of classes in this form");
    }
    size_t right_bytes = t->used - 1 - (class_start + 1);
    char right[512];
    if (right_bytes > sizeof right || (nested && peek(t, 0) != ']')) {
        return refuse(t, "an intersection of classes in this form");
    }
    memcpy(right, t->out + class_start + 1, right_bytes);
    t->at += nested ? 1 : 0;
    t->used = class_start;
    char others[128];
    if (right_negative && complement_of_categories(left, left_bytes, others)) {
        puts_(t, "[^");
        puts_(t, others);
        put(t, right, right_bytes);
        puts_(t, "]");
        return BERTH_OK;
    }
    puts_(t, right_negative ? "(?:(?![" : "(?:(?=[");
    put(t, right, right_bytes);
    puts_(t, "])[");
    put(t, left, left_bytes);
    puts_(t, "])");
    return BERTH_OK;
}

static berth_status class_escape(struct translation *t)
{
    char item[80];
    bool negative;
    if (!set_escape(t, item, &negative)) {
        return character_escape(t, true);
    }
    if (!negative) {
        puts_(t, item);
        return BERTH_OK;
    }
    /* A complement inside a union has no items of its own; single properties have a capital letter for it. */
    const char *capital = strcmp(item, SPACE_ITEM) == 0  ? "\\S"
                          : strcmp(item, WORD_ITEM) == 0 ? "\\W"
                          : strcmp(item, "\\p{Nd}") == 0 ? "\\D"
                                                         : NULL;
    if (capital != NULL) {
        puts_(t, capital);
        return BERTH_OK;
    }
    if (item[0] != '\\' || item[1] != 'p' || strchr(item, '}') != item + strlen(item) - 1) {
        return refuse(t, "the complement of this property inside a class");
    }
    item[1] = 'P';
    puts_(t, item);
    return BERTH_OK;
}

/* Items up to and with the closing ']'. */
static berth_status class_items(struct translation *t, unsigned depth, bool negative, size_t class_start)
{
    if (depth > CLASS_DEPTH_MAX) {
        return refuse(t, "deeply nested classes");
    }
    for (bool first = true;; first = false) {
        int c = peek(t, 0);
        if (c < 0) {
            return refuse(t, "a class without its closing bracket");
        }
        if (c == ']' && !first) {
            puts_(t, "]");
            t->at++;
            return BERTH_OK;
        }
        if (looking_at(t, "&&")) {
            t->at += 2;
            return class_intersection(t, depth, negative, class_start);
        }
        if (looking_at(t, "[:")) {
            return refuse(t, "a POSIX bracket");
        }
        if (c == '[') { /* a union; its brackets can go, unless it is negative */
            if (looking_at(t, "[^")) {
                return refuse(t, "a negative class inside a class");
            }
            t->at++;
            size_t before = t->used;
            TRY(class_items(t, depth + 1, true, before));
            t->used -= t->used > before ? 1u : 0u; /* the nested ']' */
        } else if (c == '\\') {
            TRY(class_escape(t));
        } else {
            put(t, c == ']' ? "\\]" : t->in.ptr + t->at, c == ']' ? 2 : 1);
            t->at++;
        }
    }
}

static berth_status translate_class(struct translation *t)
{
    begin_atom(t);
    size_t start = t->used;
    bool negative = looking_at(t, "[^");
    puts_(t, negative ? "[^" : "[");
    t->at += negative ? 2 : 1;
    return class_items(t, 0, negative, start);
}

/* ---- everything else ---- */

static berth_status open_group(struct translation *t, size_t start)
{
    if (t->depth + 1 >= GROUP_DEPTH_MAX) {
        return refuse(t, "deeply nested groups");
    }
    t->depth++;
    t->groups[t->depth].start = start;
    t->groups[t->depth].extra_close = 0;
    t->has_atom = false;
    return BERTH_OK;
}

/* (?imx-imx) and (?imx-imx:...). Oniguruma's m lets the dot match newlines. */
static berth_status translate_options(struct translation *t)
{
    size_t start = t->used;
    puts_(t, "(?");
    t->at += 2;
    for (;; t->at++) {
        int c = peek(t, 0);
        if (c == 'i' || c == '-') {
            put(t, t->in.ptr + t->at, 1);
        } else if (c == 'm') {
            puts_(t, "s");
        } else if (c == ':') {
            puts_(t, ":");
            t->at++;
            return open_group(t, start);
        } else if (c == ')') { /* holds, with what follows, to the end of the group */
            puts_(t, ":");
            t->at++;
            t->groups[t->depth].extra_close++;
            t->has_atom = false;
            return BERTH_OK;
        } else {
            return refuse(t, "a group option");
        }
    }
}

static berth_status translate_group(struct translation *t)
{
    static const char *const same[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        if (looking_at(t, same[i])) {
            size_t start = t->used;
            puts_(t, same[i]);
            t->at += strlen(same[i]);
            return open_group(t, start);
        }
    }
    if (looking_at(t, "(?i") || looking_at(t, "(?m") || looking_at(t, "(?-")) {
        return translate_options(t);
    }
    if (looking_at(t, "(?")) {
        return refuse(t, "a group of this kind");
    }
    size_t start = t->used;
    puts_(t, "(");
    t->at++;
    return open_group(t, start);
}

static berth_status close_group(struct translation *t)
{
    if (t->depth == 0) {
        return refuse(t, "a closing parenthesis too many");
    }
    for (unsigned i = 0; i <= t->groups[t->depth].extra_close; i++) {
        puts_(t, ")");
    }
    t->atom = t->groups[t->depth].start;
    t->has_atom = true;
    t->quantified = false;
    t->depth--;
    t->at++;
    return BERTH_OK;
}

/* {n}, {n,}, {n,m}, {,m}: its length; 0: the brace is an ordinary character. */
static size_t interval_bytes(const struct translation *t, bool *exact, bool *no_low)
{
    size_t i = 1;
    size_t digits = 0;
    while (peek(t, i) >= '0' && peek(t, i) <= '9') {
        i++;
        digits++;
    }
    *exact = peek(t, i) == '}';
    *no_low = digits == 0;
    if (*exact) {
        return digits == 0 ? 0 : i + 1;
    }
    if (peek(t, i) != ',') {
        return 0;
    }
    i++;
    size_t high = i;
    while (peek(t, i) >= '0' && peek(t, i) <= '9') {
        i++;
    }
    return peek(t, i) != '}' || (digits == 0 && i == high) ? 0 : i + 1;
}

static berth_status translate_quantifier(struct translation *t, size_t bytes, bool interval, bool exact, bool no_low)
{
    if (!t->has_atom) {
        return refuse(t, "a quantifier without anything before it");
    }
    if (t->quantified) {
        wrap_atom(t);
    }
    if (interval && no_low) {
        puts_(t, "{0");
        put(t, t->in.ptr + t->at + 1, bytes - 1);
    } else {
        put(t, t->in.ptr + t->at, bytes);
    }
    t->at += bytes;
    t->quantified = true;
    /* Lazy after anything but {n}; possessive only after ? * +. What is left applies to the whole. */
    if ((peek(t, 0) == '?' && !exact) || (peek(t, 0) == '+' && !interval)) {
        put(t, t->in.ptr + t->at, 1);
        t->at++;
    }
    return BERTH_OK;
}

static berth_status translate_escape(struct translation *t)
{
    char item[80];
    bool negative;
    begin_atom(t);
    if (!set_escape(t, item, &negative)) {
        if (peek(t, 1) == 'O') {
            puts_(t, "(?s:.)");
            t->at += 2;
            return BERTH_OK;
        }
        return character_escape(t, false);
    }
    if (item[0] == '\\' && item[1] == 'p' && strchr(item, '}') == item + strlen(item) - 1) {
        item[1] = negative ? 'P' : 'p';
        puts_(t, item);
        return BERTH_OK;
    }
    puts_(t, negative ? "[^" : "[");
    puts_(t, item);
    puts_(t, "]");
    return BERTH_OK;
}

static berth_status translate_next(struct translation *t)
{
    int c = peek(t, 0);
    bool exact = false;
    bool no_low = false;
    size_t interval = c == '{' ? interval_bytes(t, &exact, &no_low) : 0;
    switch (c) {
    case '\\':
        return translate_escape(t);
    case '[':
        return translate_class(t);
    case '(':
        return translate_group(t);
    case ')':
        return close_group(t);
    case '|':
        puts_(t, "|");
        t->has_atom = false;
        t->at++;
        return BERTH_OK;
    case '?':
    case '*':
    case '+':
        return translate_quantifier(t, 1, false, false, false);
    default:
        break;
    }
    if (interval != 0) {
        return translate_quantifier(t, interval, true, exact, no_low);
    }
    if ((c & 0xc0) != 0x80) { /* not the rest of a longer character */
        begin_atom(t);
    }
    put(t, c == '{' ? "\\{" : c == '}' ? "\\}" : t->in.ptr + t->at, c == '{' || c == '}' ? 2 : 1);
    t->at++;
    return BERTH_OK;
}

berth_status pattern_translate(const struct text_build *build, struct str source, struct str *out, bool *has_references,
                               berth_error *err)
{
    if (source.bytes > PATTERN_BYTES_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "a pre-tokenizer pattern has %llu bytes, at most %d are supported",
                         (unsigned long long)source.bytes, PATTERN_BYTES_MAX);
    }
    if (!utf8_is_valid(source.ptr, source.bytes)) {
        return error_set(err, BERTH_ERR_FORMAT, "a pre-tokenizer pattern is not UTF-8");
    }
    /* No element grows more than this: \p{^Word} and \s are the longest replacements. */
    struct translation t = {.in = source, .cap = source.bytes * 16 + 64, .err = err};
    void *place;
    TRY(text_build_temp(build, t.cap, 1, &place, err));
    t.out = place;
    /* A run of white space at the end is looked for at every position of a run that is not at the end, which takes
     * square time. The longest match starts the run, so looking at its first position gives the same. */
    if (str_is(source, "\\s+$")) {
        puts_(&t, "(?<![" SPACE_ITEM "])");
    }
    while (t.at < source.bytes) {
        TRY(translate_next(&t));
    }
    if (t.depth != 0) {
        return refuse(&t, "a group without its closing parenthesis");
    }
    for (unsigned i = 0; i < t.groups[0].extra_close; i++) {
        puts_(&t, ")");
    }
    if (t.used == t.cap) {
        return error_set(err, BERTH_ERR_INTERNAL, "the translation of a pre-tokenizer pattern is too long");
    }
    *out = (struct str){t.out, t.used};
    *has_references = t.references;
    return BERTH_OK;
}
