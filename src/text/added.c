/* SPDX-License-Identifier: MIT */
#include "text/added.h"

#include <utf8proc.h>

#include "text/unicode.h"

static int compare_str(struct str a, struct str b)
{
    size_t common = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = common == 0 ? 0 : memcmp(a.ptr, b.ptr, common);
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

/* Heap sort by spelling, then by place, so that it takes no memory and keeps no state outside. `id` order of equals is
 * the order of entries because the caller numbers them. */
static bool entry_before(const struct added_entry *entries, const uint32_t *places, uint32_t a, uint32_t b)
{
    int order = compare_str(entries[places[a]].spelling, entries[places[b]].spelling);
    return order < 0 || (order == 0 && places[a] < places[b]);
}

static void sift_down(const struct added_entry *entries, uint32_t *places, uint32_t at, uint32_t count)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) {
            return;
        }
        if (child + 1 < count && entry_before(entries, places, child, child + 1)) {
            child++;
        }
        if (!entry_before(entries, places, at, child)) {
            return;
        }
        uint32_t swap = places[at];
        places[at] = places[child];
        places[child] = swap;
        at = child;
    }
}

static void sort_places(const struct added_entry *entries, uint32_t *places, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;) {
        sift_down(entries, places, i, count);
    }
    for (uint32_t last = count; last-- > 1;) {
        uint32_t swap = places[0];
        places[0] = places[last];
        places[last] = swap;
        sift_down(entries, places, 0, last);
    }
}

berth_status added_layout(const struct text_build *build, struct added_entry *entries, uint32_t count,
                          struct added *out, berth_error *err)
{
    *out = (struct added){.count = 0};
    void *place;
    TRY(text_build_temp(build, count, sizeof(uint32_t), &place, err));
    uint32_t *places = place;
    for (uint32_t i = 0; i < count; i++) {
        places[i] = i;
    }
    sort_places(entries, places, count);
    uint32_t kept = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct str spelling = entries[places[i]].spelling;
        if (i + 1 < count && str_equal(spelling, entries[places[i + 1]].spelling)) {
            continue;
        }
        places[kept++] = places[i];
        bytes += spelling.bytes;
    }
    void *ids;
    void *starts;
    void *flags;
    void *text;
    TRY(text_build_keep(build, kept, sizeof *out->ids, &ids, err));
    TRY(text_build_keep(build, (uint64_t)kept + 1, sizeof *out->starts, &starts, err));
    TRY(text_build_keep(build, kept, 1, &flags, err));
    TRY(text_build_keep(build, bytes, 1, &text, err));
    *out = (struct added){.count = kept, .ids = ids, .starts = starts, .flags = flags, .bytes = text};
    for (uint32_t i = 0; i < kept; i++) {
        const struct added_entry *entry = &entries[places[i]];
        out->ids[i] = entry->id;
        out->flags[i] = (unsigned char)entry->flags;
        memcpy(out->bytes + out->starts[i], entry->spelling.ptr, entry->spelling.bytes);
        out->starts[i + 1] = out->starts[i] + (uint32_t)entry->spelling.bytes;
        out->first[(unsigned char)entry->spelling.ptr[0] + 1u]++;
    }
    for (unsigned i = 1; i < 257; i++) {
        out->first[i] += out->first[i - 1];
    }
    return BERTH_OK;
}

static struct str added_spelling(const struct added *added, uint32_t index)
{
    return (struct str){added->bytes + added->starts[index], added->starts[index + 1] - added->starts[index]};
}

/* First index in [low, high) whose byte at `depth` is at least `byte`; all of the range have that many bytes. */
static uint32_t narrow(const struct added *added, uint32_t low, uint32_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((unsigned char)added->bytes[added->starts[middle] + depth] < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The longest spelling that text starts with: its index, or UINT32_MAX. */
static uint32_t longest_at(const struct added *added, const char *text, size_t bytes)
{
    unsigned first = (unsigned char)text[0];
    uint32_t low = added->first[first];
    uint32_t high = added->first[first + 1];
    uint32_t best = UINT32_MAX;
    for (size_t depth = 1; low < high; depth++) {
        if (added_spelling(added, low).bytes == depth) { /* a spelling sorts before those it is a prefix of */
            best = low++;
        }
        if (depth == bytes) {
            break;
        }
        unsigned byte = (unsigned char)text[depth];
        low = narrow(added, low, high, depth, byte);
        high = narrow(added, low, high, depth, byte + 1);
    }
    return best;
}

static bool is_word_point(uint32_t point)
{
    switch (utf8proc_category((int32_t)point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_NO:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
        break;
    }
    return point == 0x200c || point == 0x200d; /* joiners */
}

/* Start of the character that ends before `end`. */
static size_t step_back(struct str text, size_t end)
{
    size_t start = end - 1;
    while (start > 0 && ((unsigned char)text.ptr[start] & 0xc0) == 0x80) {
        start--;
    }
    return start;
}

static bool is_single_word(struct str text, size_t start, size_t end)
{
    size_t length;
    if (start > 0) {
        size_t before = step_back(text, start);
        if (is_word_point(unicode_next(text.ptr + before, start - before, &length))) {
            return false;
        }
    }
    return end == text.bytes || !is_word_point(unicode_next(text.ptr + end, text.bytes - end, &length));
}

static size_t skip_space_back(struct str text, size_t from, size_t start)
{
    while (start > from) {
        size_t length;
        size_t before = step_back(text, start);
        if (before < from || !unicode_is_white_space(unicode_next(text.ptr + before, start - before, &length))) {
            break;
        }
        start = before;
    }
    return start;
}

static size_t skip_space(struct str text, size_t end)
{
    size_t length;
    while (end < text.bytes && unicode_is_white_space(unicode_next(text.ptr + end, text.bytes - end, &length))) {
        end += length;
    }
    return end;
}

void added_walk_begin(struct added_walk *walk, const struct added *added, struct str text, bool want_special)
{
    *walk = (struct added_walk){.added = added, .text = text, .held = VOCAB_NONE, .want_special = want_special};
}

/* Finds the next token that counts; false: none up to the end. Matches that do not count hide what lies in them. */
static bool find_token(struct added_walk *walk, size_t *start, size_t *end, int32_t *id)
{
    const struct added *added = walk->added;
    while (walk->scan < walk->text.bytes && added->count != 0) {
        size_t at = walk->scan;
        unsigned byte = (unsigned char)walk->text.ptr[at];
        uint32_t index = added->first[byte] == added->first[byte + 1]
                             ? UINT32_MAX
                             : longest_at(added, walk->text.ptr + at, walk->text.bytes - at);
        if (index == UINT32_MAX) {
            walk->scan++;
            continue;
        }
        unsigned flags = added->flags[index];
        *start = at;
        *end = at + added_spelling(added, index).bytes;
        *id = added->ids[index];
        walk->scan = *end;
        if (((flags & ADDED_SPECIAL) != 0 && !walk->want_special) ||
            ((flags & ADDED_SINGLE_WORD) != 0 && !is_single_word(walk->text, *start, *end))) {
            continue;
        }
        if ((flags & ADDED_LSTRIP) != 0) {
            *start = skip_space_back(walk->text, walk->from, *start);
        }
        if ((flags & ADDED_RSTRIP) != 0) {
            *end = skip_space(walk->text, *end);
            walk->scan = *end;
        }
        return true;
    }
    return false;
}

bool added_walk_next(struct added_walk *walk, struct str *stretch, int32_t *id)
{
    if (walk->held != VOCAB_NONE) {
        *stretch = (struct str){walk->text.ptr + walk->from, walk->held_end - walk->from};
        *id = walk->held;
        walk->from = walk->held_end;
        walk->held = VOCAB_NONE;
        return true;
    }
    if (walk->from >= walk->text.bytes) {
        return false;
    }
    size_t start = walk->text.bytes;
    size_t end = walk->text.bytes;
    int32_t token = VOCAB_NONE;
    bool found = find_token(walk, &start, &end, &token);
    start = found ? start : walk->text.bytes; /* find_token() leaves what did not count behind */
    *stretch = (struct str){walk->text.ptr + walk->from, start - walk->from};
    *id = VOCAB_NONE;
    if (found && start > walk->from) {
        walk->held = token;
        walk->held_end = end;
        walk->from = start;
        return true;
    }
    if (found) {
        *stretch = (struct str){walk->text.ptr + walk->from, end - walk->from};
        *id = token;
        walk->from = end;
        return true;
    }
    walk->from = walk->text.bytes;
    return true;
}
