/* SPDX-License-Identifier: MIT
 * Normal forms follow Unicode annex 15. Decomposition and composition of characters are utf8proc's; the ordering of
 * marks is done here, because utf8proc's takes square time on long runs of marks. */
#include "text/normalize.h"

#include <utf8proc.h>

#include "text/unicode.h"

struct sink {
    char *ptr;
    size_t used, cap;
};

static bool sink_put(struct sink *sink, const char *ptr, size_t bytes)
{
    if (bytes > sink->cap - sink->used) {
        return false;
    }
    if (bytes != 0) {
        memcpy(sink->ptr + sink->used, ptr, bytes);
    }
    sink->used += bytes;
    return true;
}

static bool sink_point(struct sink *sink, uint32_t point)
{
    char bytes[4];
    return sink_put(sink, bytes, unicode_put(point, bytes));
}

static int combining_class(int32_t point)
{
    return point < 0x300 ? 0 : utf8proc_get_property(point)->combining_class;
}

/* Sorts marks[0..count) by combining class, equal ones keep their order. `spare` holds as many. */
static void order_run(int32_t *marks, size_t count, int32_t *spare)
{
    if (count <= 16) {
        for (size_t i = 1; i < count; i++) {
            int32_t mark = marks[i];
            int class_of_mark = combining_class(mark);
            size_t at = i;
            for (; at > 0 && combining_class(marks[at - 1]) > class_of_mark; at--) {
                marks[at] = marks[at - 1];
            }
            marks[at] = mark;
        }
        return;
    }
    uint32_t starts[257] = {0};
    for (size_t i = 0; i < count; i++) {
        starts[combining_class(marks[i]) + 1]++;
    }
    for (size_t i = 1; i < 257; i++) {
        starts[i] += starts[i - 1];
    }
    for (size_t i = 0; i < count; i++) {
        spare[starts[combining_class(marks[i])]++] = marks[i];
    }
    memcpy(marks, spare, count * sizeof *marks);
}

static bool normal_form(const struct normalize_scratch *scratch, struct str text, bool compatible, bool compose,
                        struct sink *out)
{
    int32_t *points = scratch->points;
    size_t cap = scratch->points_count / 2; /* the other half is spare */
    size_t count = 0;
    unsigned options = UTF8PROC_DECOMPOSE | (compatible ? (unsigned)UTF8PROC_COMPAT : 0u);
    for (size_t at = 0, length; at < text.bytes; at += length) {
        uint32_t point = unicode_next(text.ptr + at, text.bytes - at, &length);
        int boundary = 0;
        ptrdiff_t made = utf8proc_decompose_char((int32_t)point, points + count, (ptrdiff_t)(cap - count),
                                                 (utf8proc_option_t)options, &boundary);
        if (made < 0 || (size_t)made > cap - count) {
            return false;
        }
        count += (size_t)made;
    }
    for (size_t at = 0; at < count;) {
        size_t end = at;
        while (end < count && combining_class(points[end]) != 0) {
            end++;
        }
        if (end - at > 1) {
            order_run(points + at, end - at, points + cap);
        }
        at = end + 1;
    }
    if (compose) {
        ptrdiff_t left =
            utf8proc_normalize_utf32(points, (ptrdiff_t)count, (utf8proc_option_t)(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
        count = left < 0 ? 0 : (size_t)left;
    }
    for (size_t i = 0; i < count; i++) {
        if (!sink_point(out, (uint32_t)points[i])) {
            return false;
        }
    }
    return true;
}

/* Nothing that NFC or NFD (compatible: NFKC, NFKD) would change, judged quickly: false may still be unchanged.
 * Below U+0300 nothing combines; Latin-1 has decompositions only from U+00A0; the ideographs from U+3400 have none. */
static bool is_normal(struct str text, bool compatible, bool compose)
{
    uint32_t low_end = compatible || !compose ? 0xa0 : 0x300;
    for (size_t at = 0, length; at < text.bytes; at += length) {
        uint32_t point = unicode_next(text.ptr + at, text.bytes - at, &length);
        bool plain = point < low_end || (point >= 0x3400 && point <= 0x4dbf) || (point >= 0x4e00 && point <= 0x9fff) ||
                     (compose && point >= 0xac00 && point <= 0xd7a3);
        if (!plain) {
            return false;
        }
    }
    return true;
}

static bool lowercase(struct str text, struct sink *out)
{
    for (size_t at = 0, length; at < text.bytes; at += length) {
        uint32_t point = unicode_next(text.ptr + at, text.bytes - at, &length);
        if (point == 0x130) { /* the one lower case of two characters */
            if (!sink_put(out, "i\xcc\x87", 3)) {
                return false;
            }
        } else if (!sink_point(out, (uint32_t)utf8proc_tolower((int32_t)point))) {
            return false;
        }
    }
    return true;
}

static berth_status replace(const struct normalize_step *step, const struct normalize_scratch *scratch, struct str text,
                            struct sink *out, bool *fits, berth_error *err)
{
    struct pattern_walk walk;
    pattern_walk_begin(&walk, &step->pattern, scratch->matcher, text);
    size_t done = 0;
    for (;;) {
        bool found;
        size_t start = 0;
        size_t end = 0;
        TRY(pattern_walk_next(&walk, &found, &start, &end, err));
        if (!found) {
            *fits = sink_put(out, text.ptr + done, text.bytes - done);
            return BERTH_OK;
        }
        if (!sink_put(out, text.ptr + done, start - done) || !sink_put(out, step->content.ptr, step->content.bytes)) {
            *fits = false;
            return BERTH_OK;
        }
        done = end;
    }
}

static struct str strip(struct str text, bool left, bool right)
{
    size_t length;
    while (left && text.bytes > 0 && unicode_is_white_space(unicode_next(text.ptr, text.bytes, &length))) {
        text = (struct str){text.ptr + length, text.bytes - length};
    }
    while (right && text.bytes > 0) {
        size_t start = text.bytes - 1;
        while (start > 0 && ((unsigned char)text.ptr[start] & 0xc0) == 0x80) {
            start--;
        }
        if (!unicode_is_white_space(unicode_next(text.ptr + start, text.bytes - start, &length))) {
            break;
        }
        text.bytes = start;
    }
    return text;
}

static bool without_accents(struct str text, struct sink *out)
{
    for (size_t at = 0, length; at < text.bytes; at += length) {
        uint32_t point = unicode_next(text.ptr + at, text.bytes - at, &length);
        utf8proc_category_t category = utf8proc_category((int32_t)point);
        bool mark =
            category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
        if (!mark && !sink_put(out, text.ptr + at, length)) {
            return false;
        }
    }
    return true;
}

static bool byte_level(struct str text, struct sink *out)
{
    for (size_t i = 0; i < text.bytes; i++) {
        if (!sink_point(out, byte_level_point((unsigned char)text.ptr[i]))) {
            return false;
        }
    }
    return true;
}

static bool squeeze(struct str text, struct sink *out)
{
    while (text.bytes > 0 && text.ptr[text.bytes - 1] == ' ') {
        text.bytes--;
    }
    char last = ' ';
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.ptr[i];
        if (!(c == ' ' && last == ' ') && !sink_put(out, &c, 1)) {
            return false;
        }
        last = c;
    }
    return true;
}

static berth_status run_step(const struct normalize_step *step, const struct normalize_scratch *scratch,
                             struct str text, struct sink *out, bool *fits, berth_error *err)
{
    switch (step->kind) {
    case NORMALIZE_NFC:
        *fits = normal_form(scratch, text, false, true, out);
        return BERTH_OK;
    case NORMALIZE_NFD:
        *fits = normal_form(scratch, text, false, false, out);
        return BERTH_OK;
    case NORMALIZE_NFKC:
        *fits = normal_form(scratch, text, true, true, out);
        return BERTH_OK;
    case NORMALIZE_NFKD:
        *fits = normal_form(scratch, text, true, false, out);
        return BERTH_OK;
    case NORMALIZE_LOWERCASE:
        *fits = lowercase(text, out);
        return BERTH_OK;
    case NORMALIZE_PREPEND:
        *fits = sink_put(out, step->content.ptr, step->content.bytes) && sink_put(out, text.ptr, text.bytes);
        return BERTH_OK;
    case NORMALIZE_REPLACE:
        return replace(step, scratch, text, out, fits, err);
    case NORMALIZE_NO_ACCENTS:
        *fits = without_accents(text, out);
        return BERTH_OK;
    case NORMALIZE_BYTE_LEVEL:
        *fits = byte_level(text, out);
        return BERTH_OK;
    case NORMALIZE_SQUEEZE:
        *fits = squeeze(text, out);
        return BERTH_OK;
    case NORMALIZE_STRIP:
        break;
    }
    return error_set(err, BERTH_ERR_INTERNAL, "an unknown normalizer step");
}

/* The step would leave the text as it is: no copy. */
static bool is_idle(const struct normalize_step *step, struct str text)
{
    switch (step->kind) {
    case NORMALIZE_NFC:
        return is_normal(text, false, true);
    case NORMALIZE_NFD:
        return is_normal(text, false, false);
    case NORMALIZE_NFKC:
        return is_normal(text, true, true);
    case NORMALIZE_NFKD:
        return is_normal(text, true, false);
    case NORMALIZE_LOWERCASE:
    case NORMALIZE_PREPEND:
    case NORMALIZE_REPLACE:
    case NORMALIZE_STRIP:
    case NORMALIZE_NO_ACCENTS:
    case NORMALIZE_BYTE_LEVEL:
    case NORMALIZE_SQUEEZE:
        return text.bytes == 0;
    }
    return true;
}

berth_status normalize_run(const struct normalize_step *steps, unsigned count, const struct normalize_scratch *scratch,
                           struct str text, struct str *out, berth_error *err)
{
    unsigned turn = 0;
    for (unsigned i = 0; i < count; i++) {
        if (is_idle(&steps[i], text)) {
            continue;
        }
        if (steps[i].kind == NORMALIZE_STRIP) {
            text = strip(text, steps[i].left, steps[i].right);
            continue;
        }
        struct sink sink = {scratch->buffers[turn], 0, scratch->buffer_bytes};
        bool fits = true;
        TRY(run_step(&steps[i], scratch, text, &sink, &fits, err));
        if (!fits) {
            return error_set(err, BERTH_ERR_LIMIT, "the text grows past %llu bytes while it is normalised; break it up",
                             (unsigned long long)scratch->buffer_bytes);
        }
        text = (struct str){sink.ptr, sink.used};
        turn ^= 1u;
    }
    *out = text;
    return BERTH_OK;
}
