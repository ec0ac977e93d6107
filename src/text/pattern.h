/* SPDX-License-Identifier: MIT
 *
 * Regular expressions of tokenizers, through PCRE2. tokenizer.json is written for Oniguruma; pattern_compile()
 * translates what differs (white space, \h, \v, intervals, set operations in classes, option letters). PCRE2 works in
 * arena memory alone: compiled code is kept beside the vocabulary, matching uses a fixed pool. A pattern that needs
 * more steps or more memory than that ends with BERTH_ERR_LIMIT.
 */
#ifndef TEXT_PATTERN_H
#define TEXT_PATTERN_H

#include "text/text_build.h"

enum { PATTERN_BYTES_MAX = 1 << 16 };

struct pattern {
    void *code; /* pcre2_code; NULL: `literal` is looked for instead */
    struct str literal;
};

/* The working memory of matching, one for all patterns of a tokenizer. */
struct pattern_matcher;
berth_status pattern_matcher_layout(const struct text_build *build, struct pattern_matcher **out, berth_error *err);

/* Patterns read `like` wherever their subject lies in `text`, which has the same length (unicode_new.h); empty:
 * nowhere. Holds until the next call. */
void pattern_matcher_read_like(struct pattern_matcher *matcher, struct str text, struct str like);

berth_status pattern_compile(const struct text_build *build, struct str source, struct pattern *out, berth_error *err);
berth_status pattern_literal(const struct text_build *build, struct str literal, struct pattern *out, berth_error *err);

/* All matches of a pattern in a subject (valid UTF-8), one call each, left to right. Empty matches count, but not right
 * where the match before ended. */
struct pattern_walk {
    const struct pattern *pattern;
    struct pattern_matcher *matcher;
    struct str subject;
    const char *like; /* what the pattern reads: subject.ptr or its stand-in */
    size_t from;
    size_t last_end; /* SIZE_MAX: no match yet */
};
void pattern_walk_begin(struct pattern_walk *walk, const struct pattern *pattern, struct pattern_matcher *matcher,
                        struct str subject);
berth_status pattern_walk_next(struct pattern_walk *walk, bool *found, size_t *start, size_t *end, berth_error *err);

/* Private to the room, for tests: the PCRE2 spelling of an Oniguruma pattern, in temp memory. */
berth_status pattern_translate(const struct text_build *build, struct str source, struct str *out, bool *has_references,
                               berth_error *err);

#endif
