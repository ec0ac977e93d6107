/* SPDX-License-Identifier: MIT
 *
 * tokenizer.json of Hugging Face: one walk over the document notes where its parts are and counts, then each part is
 * read into place. The document may have 33 MB; no tree is built, strings are compared where they lie. What the steps
 * around the model mean is in tokenizer_steps.c.
 */
#include "text/tokenizer_json.h"

#include <assert.h>

/* One of the vocabulary, as noted by the walk over the document. */
struct entry {
    uint32_t at; /* of the spelling as written, in the document */
    uint32_t written_bytes;
    uint32_t bytes : 31; /* without escapes */
    uint32_t escaped : 1;
    int32_t id;
};

struct scan {
    struct str document;
    struct json merges; /* at the first token of the value */
    bool has_vocab, has_merges;
    struct entry *entries; /* [entries_count] of vocab, in temp memory */
    uint32_t entries_count;
    uint64_t merges_count;
    int64_t last_id; /* largest id */
    uint64_t spelling_bytes;
    struct str unknown;
    bool byte_fallback, fuse_unknown, ignore_merges;
    char *spellings[2]; /* [VOCAB_TOKEN_BYTES_MAX] for spellings with escapes */
};

/* The current string, unescaped; borrowed from the document or from `spare`. */
static berth_status spelling_of(const struct json *at, char *spare, struct str *out, berth_error *err)
{
    if (at->token.raw.bytes > VOCAB_TOKEN_BYTES_MAX) {
        berth_status status = error_set(err, BERTH_ERR_LIMIT, "a token of %llu bytes, at most %d are supported",
                                        (unsigned long long)at->token.raw.bytes, VOCAB_TOKEN_BYTES_MAX);
        error_at_offset(err, at->token.offset);
        return status;
    }
    *out = at->token.escaped ? (struct str){spare, json_unescape(&at->token, spare, VOCAB_TOKEN_BYTES_MAX)}
                             : at->token.raw;
    return BERTH_OK;
}

static berth_status token_id(const struct json *at, int32_t *id, berth_error *err)
{
    uint64_t value;
    if (at->token.kind != JSON_NUMBER || !json_token_u64(&at->token, &value)) {
        return json_read_wrong(at, "a token id", "a whole number", err);
    }
    if (value >= VOCAB_IDS_MAX) {
        berth_status status = error_set(err, BERTH_ERR_LIMIT, "token id %llu, ids below %d are supported",
                                        (unsigned long long)value, VOCAB_IDS_MAX);
        error_at_offset(err, at->token.offset);
        return status;
    }
    *id = (int32_t)value;
    return BERTH_OK;
}

/* Notes an entry: nothing else takes temp memory meanwhile, so that they lie side by side. */
static berth_status note_entry(const struct text_build *build, struct scan *scan, const struct json_token *key,
                               struct entry entry, berth_error *err)
{
    struct entry *place = arena_take(build->temp, 1, sizeof *place, sizeof(uint32_t));
    TRY(arena_check(build->temp, "tokenizer", err));
    entry.at = (uint32_t)(key->raw.ptr - scan->document.ptr);
    entry.written_bytes = (uint32_t)key->raw.bytes;
    entry.escaped = key->escaped;
    *place = entry;
    scan->entries = scan->entries_count++ == 0 ? place : scan->entries;
    scan->spelling_bytes += entry.bytes;
    scan->last_id = entry.id > scan->last_id ? entry.id : scan->last_id;
    return BERTH_OK;
}

static berth_status count_vocab(const struct text_build *build, struct scan *scan, struct json *at, berth_error *err)
{
    if (json_next(at) != JSON_OBJECT_BEGIN) {
        return json_read_wrong(at, "model.vocab of a BPE tokenizer", "an object of spelling: id", err);
    }
    scan->has_vocab = true;
    scan->entries_count = 0;
    while (json_next(at) == JSON_KEY) {
        const struct json_token key = at->token;
        struct str spelling;
        struct entry entry = {0};
        TRY(spelling_of(at, scan->spellings[0], &spelling, err));
        entry.bytes = (uint32_t)spelling.bytes & INT32_MAX;
        (void)json_next(at);
        TRY(token_id(at, &entry.id, err));
        TRY(note_entry(build, scan, &key, entry, err));
        if (scan->entries_count > VOCAB_IDS_MAX) {
            return error_set(err, BERTH_ERR_LIMIT, "more than %d tokens", VOCAB_IDS_MAX);
        }
    }
    return at->token.kind == JSON_OBJECT_END ? BERTH_OK : json_read_wrong(at, "the vocabulary", "an object", err);
}

static berth_status count_merges(struct scan *scan, struct json *at, berth_error *err)
{
    if (json_next(at) != JSON_ARRAY_BEGIN) {
        return json_read_wrong(at, "model.merges", "an array", err);
    }
    scan->merges = *at;
    scan->has_merges = true;
    scan->merges_count = 0;
    while (json_next(at) == JSON_STRING || at->token.kind == JSON_ARRAY_BEGIN) {
        struct str left;
        struct str right;
        scan->merges_count++;
        if (!json_took_pair(at, VOCAB_TOKEN_BYTES_MAX, &left, &right) && !json_skip(at)) {
            break;
        }
    }
    return at->token.kind == JSON_ARRAY_END
               ? BERTH_OK
               : json_read_wrong(at, "a merge", "a string \"a b\" or an array [\"a\", \"b\"]", err);
}

/* continuing_subword_prefix and end_of_word_suffix: absent, null or empty. */
static berth_status refuse_affix(struct json *at, const char *name, berth_error *err)
{
    enum json_kind kind = json_next(at);
    if (kind == JSON_NULL || (kind == JSON_STRING && at->token.raw.bytes == 0)) {
        return BERTH_OK;
    }
    return error_set(err, BERTH_ERR_UNSUPPORTED, "the tokenizer has a %s, which is not supported", name);
}

static berth_status scan_member(const struct text_build *build, struct scan *scan, struct json *at, berth_error *err)
{
    const struct json_token key = at->token;
    if (json_token_is(&key, "vocab")) {
        return count_vocab(build, scan, at, err);
    }
    if (json_token_is(&key, "merges")) {
        return count_merges(scan, at, err);
    }
    if (json_token_is(&key, "continuing_subword_prefix")) {
        return refuse_affix(at, "continuing_subword_prefix", err);
    }
    if (json_token_is(&key, "end_of_word_suffix")) {
        return refuse_affix(at, "end_of_word_suffix", err);
    }
    bool *flag = json_token_is(&key, "byte_fallback")   ? &scan->byte_fallback
                 : json_token_is(&key, "fuse_unk")      ? &scan->fuse_unknown
                 : json_token_is(&key, "ignore_merges") ? &scan->ignore_merges
                                                        : NULL;
    if (flag != NULL) {
        enum json_kind kind = json_next(at);
        *flag = kind == JSON_TRUE;
        return kind == JSON_TRUE || kind == JSON_FALSE || kind == JSON_NULL
                   ? BERTH_OK
                   : json_read_wrong(at, "a flag of the model", "true or false", err);
    }
    if (json_token_is(&key, "unk_token")) {
        if (json_next(at) == JSON_NULL) {
            return BERTH_OK;
        }
        return json_read_string(build, at, "model.unk_token", &scan->unknown, err);
    }
    if (json_token_is(&key, "type")) {
        struct str type;
        (void)json_next(at);
        TRY(json_read_string(build, at, "model.type", &type, err));
        return str_is(type, "BPE") ? BERTH_OK
                                   : error_set(err, BERTH_ERR_UNSUPPORTED,
                                               "tokenizer model \"%.*s\" is not supported (BPE is)", STR_ARG(type));
    }
    return json_skip(at) ? BERTH_OK : json_read_wrong(at, "the model", "well-formed", err);
}

static berth_status scan_model(const struct text_build *build, struct scan *scan, struct json *at, berth_error *err)
{
    if (json_next(at) != JSON_OBJECT_BEGIN) {
        return json_read_wrong(at, "model", "an object", err);
    }
    while (json_next(at) == JSON_KEY) {
        TRY(scan_member(build, scan, at, err));
    }
    return at->token.kind == JSON_OBJECT_END ? BERTH_OK : json_read_wrong(at, "the model", "well-formed", err);
}

static berth_status scan_document(const struct text_build *build, struct str document, struct scan *scan,
                                  struct tokenizer_parts *parts, berth_error *err)
{
    struct json json;
    scan->document = document;
    json_begin(&json, document);
    if (json_next(&json) != JSON_OBJECT_BEGIN) {
        return json_read_wrong(&json, "tokenizer.json", "an object", err);
    }
    while (json_next(&json) == JSON_KEY) {
        const struct json_token key = json.token;
        struct json *part = json_token_is(&key, "added_tokens")     ? &parts->added_tokens
                            : json_token_is(&key, "normalizer")     ? &parts->normalizer
                            : json_token_is(&key, "pre_tokenizer")  ? &parts->pre_tokenizer
                            : json_token_is(&key, "post_processor") ? &parts->post_processor
                            : json_token_is(&key, "decoder")        ? &parts->decoder
                                                                    : NULL;
        if (json_token_is(&key, "model")) {
            TRY(scan_model(build, scan, &json, err));
            continue;
        }
        if (part != NULL) {
            *part = json;
            (void)json_next(part);
        }
        if (!json_skip(&json)) {
            break;
        }
    }
    if (json.token.kind != JSON_OBJECT_END || json_next(&json) != JSON_END) {
        return json_read_wrong(&json, "tokenizer.json", "one object", err);
    }
    if (!scan->has_vocab || !scan->has_merges) {
        return error_set(err, BERTH_ERR_FORMAT, "tokenizer.json has no model with a vocabulary and merges");
    }
    return BERTH_OK;
}

/* ---- added tokens ---- */

static berth_status read_added(const struct text_build *build, const struct json *at, struct added_token *out,
                               berth_error *err)
{
    struct json id;
    TRY(json_read_text(build, at, "content", &out->spelling, err));
    if (out->spelling.bytes > VOCAB_TOKEN_BYTES_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "an added token of %llu bytes, at most %d are supported",
                         (unsigned long long)out->spelling.bytes, VOCAB_TOKEN_BYTES_MAX);
    }
    if (!json_read_member(at, "id", &id)) {
        return json_read_wrong(at, "an added token", "an object with an id", err);
    }
    TRY(token_id(&id, &out->id, err));
    out->normalized = json_read_flag(at, "normalized", false);
    out->flags = (json_read_flag(at, "special", false) ? (unsigned)ADDED_SPECIAL : 0u) |
                 (json_read_flag(at, "single_word", false) ? (unsigned)ADDED_SINGLE_WORD : 0u) |
                 (json_read_flag(at, "lstrip", false) ? (unsigned)ADDED_LSTRIP : 0u) |
                 (json_read_flag(at, "rstrip", false) ? (unsigned)ADDED_RSTRIP : 0u);
    return BERTH_OK;
}

/* All added tokens into temp memory. Empty ones mean nothing and are left out. */
static berth_status read_all_added(const struct text_build *build, const struct json *array, struct added_token **out,
                                   uint32_t *count, berth_error *err)
{
    *out = NULL;
    *count = 0;
    if (array->token.kind == JSON_ERROR || array->token.kind == JSON_NULL) { /* no such member */
        return BERTH_OK;
    }
    if (array->token.kind != JSON_ARRAY_BEGIN) {
        return json_read_wrong(array, "added_tokens", "an array", err);
    }
    uint64_t items = 0;
    struct json at = *array;
    while (json_next(&at) == JSON_OBJECT_BEGIN && json_skip(&at)) {
        items++;
    }
    if (at.token.kind != JSON_ARRAY_END) {
        return json_read_wrong(&at, "an added token", "an object", err);
    }
    if (items > VOCAB_IDS_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "more than %d added tokens", VOCAB_IDS_MAX);
    }
    void *place;
    TRY(text_build_temp(build, items, sizeof **out, &place, err));
    *out = place;
    at = *array;
    while (json_next(&at) == JSON_OBJECT_BEGIN) {
        TRY(read_added(build, &at, &(*out)[*count], err));
        *count += (*out)[*count].spelling.bytes != 0 ? 1u : 0u;
        (void)json_skip(&at);
    }
    return BERTH_OK;
}

/* ---- vocabulary ---- */

static berth_status taken_twice(int32_t id, struct str spelling, berth_error *err)
{
    berth_status status = error_set(err, BERTH_ERR_FORMAT, "token id %d is given to more than one token, \"%.*s\" too",
                                    (int)id, STR_ARG(spelling));
    error_at_object(err, spelling.ptr, spelling.bytes);
    return status;
}

/* Unescaped; borrowed from the document or from scan->spellings[0]. */
static struct str entry_spelling(const struct scan *scan, const struct entry *entry)
{
    const struct json_token written = {
        JSON_KEY, {scan->document.ptr + entry->at, entry->written_bytes}, entry->escaped, 0};
    if (!written.escaped) {
        return written.raw;
    }
    return (struct str){scan->spellings[0], json_unescape(&written, scan->spellings[0], VOCAB_TOKEN_BYTES_MAX)};
}

/* First lengths, then (places known) the spellings themselves. */
static berth_status walk_vocab(const struct scan *scan, struct vocab *vocab, bool measure, berth_error *err)
{
    for (uint32_t i = 0; i < scan->entries_count; i++) {
        const struct entry *entry = &scan->entries[i];
        if (!measure) {
            struct str spelling = entry_spelling(scan, entry);
            memcpy(vocab->bytes + vocab->starts[entry->id], spelling.ptr, spelling.bytes);
        } else if ((vocab->flags[entry->id] & VOCAB_USED) != 0) {
            return taken_twice(entry->id, entry_spelling(scan, entry), err);
        } else {
            vocab->flags[entry->id] = VOCAB_USED;
            vocab->starts[entry->id + 1] = entry->bytes;
            vocab->longest_bytes = entry->bytes > vocab->longest_bytes ? entry->bytes : vocab->longest_bytes;
        }
    }
    return BERTH_OK;
}

/* An added token that the vocabulary has already keeps that id; found by position later, so only new ones are placed
 * here. Needs an index, which needs the spellings, so added tokens are matched in a second step. */
static berth_status place_added(struct vocab *vocab, struct added_token *added, uint32_t count, berth_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        int32_t id = vocab_find(vocab, added[i].spelling);
        if (id != VOCAB_NONE) {
            added[i].id = id;
        } else if (!str_equal(vocab_spelling(vocab, added[i].id), added[i].spelling)) {
            return taken_twice(added[i].id, added[i].spelling, err);
        }
        unsigned flags = vocab->flags[added[i].id];
        flags |= (added[i].flags & ADDED_SPECIAL) != 0 ? (unsigned)VOCAB_SPECIAL : 0u;
        vocab->flags[added[i].id] = (unsigned char)flags;
    }
    return BERTH_OK;
}

static berth_status read_vocab(const struct text_build *build, const struct scan *scan, struct added_token *added,
                               uint32_t added_count, struct vocab *vocab, berth_error *err)
{
    int64_t last_id = scan->last_id;
    uint64_t bytes = scan->spelling_bytes;
    for (uint32_t i = 0; i < added_count; i++) {
        last_id = added[i].id > last_id ? added[i].id : last_id;
        bytes += added[i].spelling.bytes;
    }
    TRY(vocab_layout(build, (uint32_t)(last_id + 1), scan->entries_count, bytes, vocab, err));
    TRY(walk_vocab(scan, vocab, true, err));
    for (uint32_t i = 0; i < added_count; i++) { /* ids that the vocabulary leaves free */
        int32_t id = added[i].id;
        if ((vocab->flags[id] & VOCAB_USED) == 0) {
            vocab->flags[id] = VOCAB_USED | VOCAB_BYTE; /* BYTE marks "not in the index" until it is filled */
            vocab->starts[id + 1] = (uint32_t)added[i].spelling.bytes;
            vocab->longest_bytes = added[i].spelling.bytes > vocab->longest_bytes ? (uint32_t)added[i].spelling.bytes
                                                                                  : vocab->longest_bytes;
        }
    }
    for (uint32_t i = 0; i < vocab->count; i++) {
        vocab->starts[i + 1] += vocab->starts[i];
    }
    TRY(walk_vocab(scan, vocab, false, err));
    for (uint32_t i = 0; i < added_count; i++) {
        int32_t id = added[i].id;
        if ((vocab->flags[id] & VOCAB_BYTE) != 0 && vocab_spelling(vocab, id).bytes == added[i].spelling.bytes) {
            memcpy(vocab->bytes + vocab->starts[id], added[i].spelling.ptr, added[i].spelling.bytes);
        }
    }
    for (uint32_t i = 0; i < vocab->count; i++) {
        bool in_model = (vocab->flags[i] & (VOCAB_USED | VOCAB_BYTE)) == VOCAB_USED;
        vocab->flags[i] &= (unsigned char)~VOCAB_BYTE;
        if (in_model && vocab_index(vocab, (int32_t)i) != (int32_t)i) {
            struct str spelling = vocab_spelling(vocab, (int32_t)i);
            return error_set(err, BERTH_ERR_FORMAT, "the token \"%.*s\" is listed twice", STR_ARG(spelling));
        }
    }
    return place_added(vocab, added, added_count, err);
}

/* ---- merges ---- */

/* Merges are looked up many at a time. */
struct pending {
    struct str sides[VOCAB_FIND_MANY]; /* left and right of each */
    uint64_t offsets[VOCAB_FIND_MANY / 2];
    uint64_t number; /* of the first one in the list of the document */
    uint32_t count, kept;
    int32_t result; /* of the last one */
};

static berth_status bad_merge(uint64_t offset, uint64_t number, const char *what, struct str token, berth_error *err)
{
    berth_status status =
        error_set(err, BERTH_ERR_FORMAT, "merge %llu %s \"%.*s\"", (unsigned long long)number, what, STR_ARG(token));
    error_at_offset(err, offset);
    return status;
}

static berth_status add_pending(struct pending *p, struct text *text, berth_error *err)
{
    int32_t ids[VOCAB_FIND_MANY];
    vocab_find_many(&text->vocab, p->sides, 2 * p->count, ids);
    for (size_t i = 0; i < p->count; i++) {
        merges_expect(&text->merges, ids[2 * i], ids[2 * i + 1]);
    }
    for (size_t i = 0; i < p->count; i++) {
        struct str left = p->sides[2 * i];
        struct str right = p->sides[2 * i + 1];
        int32_t left_id = ids[2 * i];
        int32_t right_id = ids[2 * i + 1];
        if (left_id == VOCAB_NONE || right_id == VOCAB_NONE) {
            return bad_merge(p->offsets[i], p->number + i,
                             "names a token that is not in the vocabulary:", left_id == VOCAB_NONE ? left : right, err);
        }
        /* Training numbers the tokens in the order of the merges that make them. */
        p->result = vocab_find_joined_near(&text->vocab, left, right, p->result + 1);
        if (p->result == VOCAB_NONE) {
            return bad_merge(p->offsets[i], p->number + i,
                             "makes a token that is not in the vocabulary, out of its second half", right, err);
        }
        /* Text must not turn into a control token by way of merges. */
        if ((text->vocab.flags[p->result] & VOCAB_SPECIAL) == 0) {
            merges_add(&text->merges, p->kept++, left_id, right_id, p->result, true);
        }
    }
    p->number += p->count;
    p->count = 0;
    return BERTH_OK;
}

/* One merge, in either of its spellings. *skip: a version line of the old format. */
static berth_status read_merge(const struct scan *scan, struct json *at, uint64_t number, struct str *left,
                               struct str *right, bool *skip, berth_error *err)
{
    *skip = false;
    if (at->token.kind == JSON_STRING) {
        struct str both;
        TRY(spelling_of(at, scan->spellings[0], &both, err));
        *skip = str_starts(both, STR("#version"));
        const char *space = memchr(both.ptr, ' ', both.bytes);
        size_t left_bytes = space == NULL ? 0 : (size_t)(space - both.ptr);
        if (*skip) {
            return BERTH_OK;
        }
        if (space == NULL || memchr(space + 1, ' ', both.bytes - left_bytes - 1) != NULL) {
            return bad_merge(at->token.offset, number, "must be two tokens with a space between them, it is", both,
                             err);
        }
        *left = (struct str){both.ptr, left_bytes};
        *right = (struct str){space + 1, both.bytes - left_bytes - 1};
        return BERTH_OK;
    }
    if (json_next(at) != JSON_STRING) {
        return json_read_wrong(at, "a part of a merge", "a string", err);
    }
    TRY(spelling_of(at, scan->spellings[0], left, err));
    if (json_next(at) != JSON_STRING) {
        return json_read_wrong(at, "a part of a merge", "a string", err);
    }
    TRY(spelling_of(at, scan->spellings[1], right, err));
    return json_next(at) == JSON_ARRAY_END ? BERTH_OK : json_read_wrong(at, "a merge", "an array of two strings", err);
}

static berth_status read_merges(const struct text_build *build, const struct scan *scan, struct text *text,
                                berth_error *err)
{
    struct pending pending = {.count = 0, .result = VOCAB_NONE};
    struct json at = scan->merges;
    TRY(merges_layout(build, scan->merges_count, &text->merges, err));
    while (json_next(&at) == JSON_STRING || at.token.kind == JSON_ARRAY_BEGIN) {
        struct str *sides = &pending.sides[(size_t)2 * pending.count];
        bool skip = false;
        bool borrowed = false; /* from the place where the next one is unescaped, too */
        if (!json_took_pair(&at, VOCAB_TOKEN_BYTES_MAX, &sides[0], &sides[1])) {
            borrowed = at.token.kind != JSON_STRING || at.token.escaped;
            berth_error late;
            berth_status status =
                read_merge(scan, &at, pending.number + pending.count, &sides[0], &sides[1], &skip, &late);
            if (status != BERTH_OK) {
                TRY(add_pending(&pending, text, err)); /* an earlier one may be wrong, too */
                if (err != NULL) {
                    *err = late;
                }
                return status;
            }
        }
        if (skip) {
            TRY(add_pending(&pending, text, err));
            pending.number++;
            continue;
        }
        pending.offsets[pending.count++] = at.token.offset;
        if (borrowed || pending.count == VOCAB_FIND_MANY / 2) {
            TRY(add_pending(&pending, text, err));
        }
    }
    TRY(add_pending(&pending, text, err));
    text->merges.count = pending.kept;
    return at.token.kind == JSON_ARRAY_END ? BERTH_OK : json_read_wrong(&at, "model.merges", "an array of merges", err);
}

berth_status tokenizer_json_build(const struct text_build *build, const struct checkpoint *checkpoint,
                                  struct text *text, berth_error *err)
{
    struct scan scan = {.last_id = -1};
    struct tokenizer_parts parts = {0};
    for (unsigned i = 0; i < 2; i++) {
        void *place;
        TRY(text_build_temp(build, VOCAB_TOKEN_BYTES_MAX, 1, &place, err));
        scan.spellings[i] = place;
    }
    TRY(scan_document(build, checkpoint->tokenizer_json, &scan, &parts, err));
    TRY(read_all_added(build, &parts.added_tokens, &parts.added, &parts.added_count, err));
    TRY(read_vocab(build, &scan, parts.added, parts.added_count, &text->vocab, err));
    TRY(read_merges(build, &scan, text, err));
    text->byte_fallback = scan.byte_fallback;
    text->fuse_unknown = scan.fuse_unknown;
    text->whole_words = scan.ignore_merges;
    text->unknown = scan.unknown.bytes == 0 ? VOCAB_NONE : tokenizer_find(text, scan.unknown);
    TRY(tokenizer_steps_read(build, &parts, text, err));
    tokenizer_find_bytes(text);
    return tokenizer_config_read(build, checkpoint, text, err);
}
