/* SPDX-License-Identifier: MIT
 * Building, encoding and the questions other rooms ask. */
#include "text/tokenizer.h"

#include <stdio.h>

#include "text/unicode.h"
#include "text/unicode_new.h"

enum {
    SLACK_BYTES = 256, /* prefixes that normalizers and pre-tokenizers put before a text */
    TEXT_BUFFERS_MAX = 2 + PRETOKENIZE_STEPS_MAX
};

int tokenizer_byte_token(struct str spelling)
{
    static const char digits[] = "0123456789ABCDEF0123456789abcdef";
    if (spelling.bytes != 6 || memcmp(spelling.ptr, "<0x", 3) != 0 || spelling.ptr[5] != '>') {
        return -1;
    }
    const char *high = memchr(digits, spelling.ptr[3], 32);
    const char *low = memchr(digits, spelling.ptr[4], 32);
    return high == NULL || low == NULL ? -1 : (int)((high - digits) % 16 * 16 + (low - digits) % 16);
}

void tokenizer_find_bytes(struct text *text)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        if (text->byte_level) {
            char spelling[4];
            size_t bytes = unicode_put(byte_level_point((unsigned char)byte), spelling);
            text->byte_ids[byte] = vocab_find(&text->vocab, (struct str){spelling, bytes});
        } else {
            static const char digits[] = "0123456789ABCDEF";
            char spelling[6] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
            text->byte_ids[byte] = vocab_find(&text->vocab, (struct str){spelling, sizeof spelling});
        }
    }
}

int32_t tokenizer_find(const struct text *text, struct str spelling)
{
    int32_t id = vocab_find(&text->vocab, spelling);
    for (uint32_t i = 0; id == VOCAB_NONE && i < text->vocab.count; i++) {
        if ((text->vocab.flags[i] & VOCAB_USED) != 0 && str_equal(vocab_spelling(&text->vocab, (int32_t)i), spelling)) {
            id = (int32_t)i;
        }
    }
    return id;
}

/* Ends of turns and texts of the published chat formats, by spelling: files name only one or two of them. */
void tokenizer_mark_ends(struct text *text, bool any)
{
    static const char *const ends[] = {"<|im_end|>",
                                       "<|eot_id|>",
                                       "<|eom_id|>",
                                       "<|eot|>",
                                       "<|end|>",
                                       "<|return|>",
                                       "<|call|>",
                                       "<|endoftext|>",
                                       "<|end_of_text|>",
                                       "<|end_of_turn|>",
                                       "<end_of_turn>",
                                       "<turn|>",
                                       "<end_of_utterance>",
                                       "<EOT>",
                                       "_<EOT>",
                                       "[EOT]",
                                       "[EOS]",
                                       "[e~[",
                                       "<\xef\xbd\x9c\x65nd\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"};
    enum { ENDS = sizeof ends / sizeof ends[0], END = 4, RETURN = 5 };
    int32_t ids[ENDS];
    for (unsigned i = 0; i < ENDS; i++) {
        ids[i] = VOCAB_NONE;
    }
    unsigned wanted = any ? VOCAB_USED : VOCAB_SPECIAL;
    for (uint32_t id = 0; id < text->vocab.count; id++) {
        struct str spelling = vocab_spelling(&text->vocab, (int32_t)id);
        bool candidate = (text->vocab.flags[id] & wanted) != 0 && spelling.bytes >= 4 && spelling.bytes < 40;
        for (unsigned i = 0; candidate && i < ENDS; i++) {
            ids[i] = str_is(spelling, ends[i]) ? (int32_t)id : ids[i];
        }
    }
    for (unsigned i = 0; i < ENDS; i++) {
        /* Where an answer returns, <|end|> ends only one of its messages. */
        if (ids[i] != VOCAB_NONE && !(i == END && ids[RETURN] != VOCAB_NONE)) {
            text->vocab.flags[ids[i]] |= VOCAB_SPECIAL;
            tokenizer_mark_end(text, ids[i]);
        }
    }
}

static size_t piece_max_bytes(const struct text *text)
{
    size_t longest = text->vocab.longest_bytes;
    for (uint32_t i = 0; i < text->added_normal.count; i++) {
        size_t bytes = text->added_normal.starts[i + 1] - text->added_normal.starts[i];
        longest = bytes > longest ? bytes : longest;
    }
    size_t growth = text->decode.content.bytes > 3 ? text->decode.content.bytes : 3; /* every byte may be broken */
    return (longest + 2) * growth + 8;
}

/* Sizes of the scratch for texts up to `bytes`. */
static size_t grown_bytes(uint64_t bytes)
{
    return (size_t)bytes * 3 + SLACK_BYTES;
}

static uint32_t symbols_count(uint64_t bytes)
{
    return (uint32_t)bytes + SLACK_BYTES;
}

struct scratch {
    void *repaired, *symbols, *heap;
    void *buffers[TEXT_BUFFERS_MAX]; /* of the normalizer's steps, then of the pre-tokenizer's */
};

/* Only counts when measuring. A carved scratch is zeroed, which also maps it in before the first text. */
static berth_status scratch_layout(struct arena *arena, unsigned buffers, uint64_t text_bytes_max, struct scratch *out,
                                   berth_error *err)
{
    if (text_bytes_max > UINT32_MAX / 4) {
        return error_set(err, BERTH_ERR_ARGUMENT, "texts of up to %llu bytes are asked for, at most 1 GiB is supported",
                         (unsigned long long)text_bytes_max);
    }
    const struct {
        void **place;
        uint64_t count, bytes;
    } parts[] = {{&out->repaired, grown_bytes(text_bytes_max), 1},
                 {&out->symbols, symbols_count(text_bytes_max), sizeof(struct merge_symbol)},
                 {&out->heap, symbols_count(text_bytes_max), 2 * sizeof(uint64_t)}};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    for (unsigned i = 0; i < PARTS + buffers; i++) {
        void **place = i < PARTS ? parts[i].place : &out->buffers[i - PARTS];
        uint64_t count = i < PARTS ? parts[i].count : grown_bytes(text_bytes_max);
        uint64_t bytes = i < PARTS ? parts[i].bytes : 1;
        *place = arena_take(arena, count, bytes, 0);
        TRY(arena_check(arena, "tokenizer", err));
        if (*place != NULL) {
            memset(*place, 0, (size_t)(count * bytes));
        }
    }
    return BERTH_OK;
}

static unsigned normalize_buffers(const struct text *text)
{
    return text->normalize_count < 2 ? text->normalize_count : 2;
}

static unsigned buffers_count(const struct text *text)
{
    unsigned count = normalize_buffers(text);
    for (unsigned i = 0; i < text->pretokenize_count; i++) {
        count += text->pretokenize[i].kind != PRETOKENIZE_SPLIT ? 1u : 0u;
    }
    return count;
}

static void place_scratch(struct text *text, const struct scratch *scratch, uint64_t text_bytes_max)
{
    size_t grown = grown_bytes(text_bytes_max);
    text->text_bytes_max = text_bytes_max;
    text->repaired = scratch->repaired;
    text->repaired_bytes = grown;
    text->symbols = scratch->symbols;
    text->symbols_count = symbols_count(text_bytes_max);
    text->heap = scratch->heap;
    /* While a text is normalised nothing is merged: the symbols' memory holds the code points. */
    text->normalize_scratch.points = scratch->symbols;
    text->normalize_scratch.points_count = (size_t)text->symbols_count * (sizeof *text->symbols / sizeof(int32_t));
    text->normalize_scratch.buffer_bytes = grown;
    unsigned used = normalize_buffers(text);
    for (unsigned i = 0; i < 2 && used != 0; i++) {
        text->normalize_scratch.buffers[i] = scratch->buffers[i < used ? i : 0]; /* of one step's, the second: unused */
    }
    for (unsigned i = 0; i < text->pretokenize_count; i++) {
        struct pretokenize_step *step = &text->pretokenize[i];
        if (step->kind != PRETOKENIZE_SPLIT) {
            step->buffer = scratch->buffers[used++];
            step->buffer_bytes = grown;
        }
    }
}

static berth_status build_text(const struct text_build *build, const struct checkpoint *checkpoint, bool json,
                               struct text **out, berth_error *err)
{
    void *place;
    TRY(text_build_keep(build, 1, sizeof **out, &place, err));
    struct text *text = place;
    text->bos = text->eos = text->unknown = VOCAB_NONE;
    TRY(pattern_matcher_layout(build, &text->matcher, err));
    text->normalize_scratch.matcher = text->matcher;
    TRY(json ? tokenizer_json_build(build, checkpoint, text, err) : tokenizer_gguf_build(build, checkpoint, text, err));
    text->piece_max_bytes = piece_max_bytes(text);
    *out = text;
    return BERTH_OK;
}

/* Errors say which file they are about, unless whoever set them did. */
static void name_file(const struct checkpoint *checkpoint, berth_error *err)
{
    char path[sizeof checkpoint->path + 32];
    if (err == NULL || err->path[0] != '\0') {
        return;
    }
    bool json = checkpoint->tokenizer_json.bytes != 0;
    (void)snprintf(path, sizeof path, json ? "%s/tokenizer.json" : "%s", checkpoint->path);
    error_at_path(err, path);
}

/* All but the scratch of encoding. Leaves *out NULL when there is no tokenizer; while measuring it lies in temp, which
 * the caller rewinds. */
static berth_status build_fixed(struct arena *arena, struct arena *temp, const struct checkpoint *checkpoint,
                                struct text **out, berth_error *err)
{
    struct str model = {"", 0};
    bool json = checkpoint->tokenizer_json.bytes != 0;
    bool gguf = meta_str(&checkpoint->meta, STR("tokenizer.ggml.model"), &model);
    *out = NULL;
    if (!json && (!gguf || str_is(model, "none") || str_is(model, "no_vocab"))) {
        return BERTH_OK;
    }
    struct text_build build = {arena, temp};
    berth_status status = build_text(&build, checkpoint, json, out, err);
    if (status != BERTH_OK) {
        name_file(checkpoint, err);
    }
    return status;
}

berth_status text_layout(struct arena *arena, struct arena *temp, const struct checkpoint *checkpoint,
                         uint64_t text_bytes_max, struct text **out, berth_error *err)
{
    uint64_t mark = arena_mark(temp);
    uint64_t arena_start = arena_mark(arena);
    struct text *text = NULL;
    struct scratch scratch;
    *out = NULL;
    berth_status status = build_fixed(arena, temp, checkpoint, &text, err);
    if (status == BERTH_OK && text != NULL) {
        status = scratch_layout(arena, buffers_count(text), text_bytes_max, &scratch, err);
        if (status != BERTH_OK) {
            name_file(checkpoint, err);
        }
    }
    if (status == BERTH_OK && text != NULL && !arena_is_measuring(arena)) {
        place_scratch(text, &scratch, text_bytes_max);
        *out = text;
    }
    arena_rewind(temp, mark);
    if (status != BERTH_OK) {
        arena_rewind(arena, arena_start);
    }
    return status;
}

berth_status text_measure(struct arena *temp, const struct checkpoint *checkpoint, struct text_size *out,
                          berth_error *err)
{
    struct arena arena;
    struct text *text = NULL;
    uint64_t mark = arena_mark(temp);
    arena_measure(&arena);
    berth_status status = build_fixed(&arena, temp, checkpoint, &text, err);
    *out = (struct text_size){0, 0, false};
    if (status == BERTH_OK && text != NULL) {
        *out = (struct text_size){arena.used_bytes, buffers_count(text), true};
    }
    arena_rewind(temp, mark);
    return status;
}

berth_status text_size_bytes(const struct text_size *size, const struct checkpoint *checkpoint, uint64_t text_bytes_max,
                             uint64_t *bytes, berth_error *err)
{
    struct arena arena;
    struct scratch scratch;
    *bytes = 0;
    if (!size->is_there) {
        return BERTH_OK;
    }
    arena_measure(&arena);
    (void)arena_take(&arena, size->fixed_bytes, 1, 0);
    berth_status status = scratch_layout(&arena, size->buffers, text_bytes_max, &scratch, err);
    if (status != BERTH_OK) {
        name_file(checkpoint, err);
    }
    *bytes = arena.used_bytes;
    return status;
}

/* ---- encoding ---- */

struct encoder {
    struct text *text;
    int32_t *ids;
    size_t cap, count;
    size_t repaired_used;
};

static void put_id(struct encoder *encoder, int32_t id)
{
    if (encoder->count < encoder->cap) {
        encoder->ids[encoder->count] = id;
    }
    encoder->count++;
}

struct word {
    const struct text *text;
    uint32_t count;
    bool full;
    bool unknown_pending;
};

static void word_put(struct word *word, int32_t id)
{
    if (word->count == word->text->symbols_count) {
        word->full = true;
        return;
    }
    word->text->symbols[word->count++].id = id;
}

static void word_flush_unknown(struct word *word)
{
    if (word->unknown_pending) {
        word_put(word, word->text->unknown);
        word->unknown_pending = false;
    }
}

/* An unknown character waits for the next known one, so that runs can be fused; byte tokens do not end the wait (the
 * reference library has it so). */
static void word_put_unknown(struct word *word)
{
    if (word->text->unknown == VOCAB_NONE) {
        return;
    }
    if (!word->text->fuse_unknown) {
        word_flush_unknown(word);
    }
    word->unknown_pending = true;
}

/* A character that is no token becomes its bytes' tokens, if all of them exist. */
static bool word_put_bytes(struct word *word, struct str character)
{
    const int32_t *byte_ids = word->text->byte_ids;
    for (size_t i = 0; i < character.bytes; i++) {
        if (byte_ids[(unsigned char)character.ptr[i]] == VOCAB_NONE) {
            return false;
        }
    }
    for (size_t i = 0; i < character.bytes; i++) {
        word_put(word, byte_ids[(unsigned char)character.ptr[i]]);
    }
    return true;
}

static void split_characters(struct word *word, struct str piece)
{
    const struct text *text = word->text;
    for (size_t at = 0, length = 1; at < piece.bytes; at += length) {
        struct str character = {piece.ptr + at, 1};
        int32_t id;
        if (text->byte_level) {
            id = text->byte_ids[(unsigned char)piece.ptr[at]];
        } else {
            (void)unicode_next(piece.ptr + at, piece.bytes - at, &length);
            character.bytes = length;
            id = vocab_find(&text->vocab, character);
        }
        if (id != VOCAB_NONE) {
            word_flush_unknown(word);
            word_put(word, id);
        } else if (text->byte_level || !text->byte_fallback || !word_put_bytes(word, character)) {
            word_put_unknown(word);
        }
    }
    word_flush_unknown(word);
}

static bool is_newlines(struct str piece)
{
    for (size_t i = 0; i < piece.bytes; i++) {
        if (piece.ptr[i] != '\n') {
            return false;
        }
    }
    return true;
}

static berth_status encode_piece(void *user, struct str piece, berth_error *err)
{
    struct encoder *encoder = user;
    struct text *text = encoder->text;
    if (text->whole_words || (text->whole_newlines && is_newlines(piece))) {
        int32_t whole = text->byte_level ? vocab_find_byte_level(&text->vocab, piece) : vocab_find(&text->vocab, piece);
        if (whole != VOCAB_NONE && (text->vocab.flags[whole] & (VOCAB_SPECIAL | VOCAB_BYTE)) == 0) {
            put_id(encoder, whole);
            return BERTH_OK;
        }
    }
    struct word word = {.text = text};
    split_characters(&word, piece);
    if (word.full) {
        return error_set(err, BERTH_ERR_LIMIT,
                         "a piece of the text has more than the %u symbols set aside for it; break the text up",
                         text->symbols_count);
    }
    uint32_t count = merges_apply(&text->merges, text->symbols, word.count, text->heap);
    for (uint32_t i = 0; i < count; i++) {
        put_id(encoder, text->symbols[i].id);
    }
    return BERTH_OK;
}

/* Where the repaired input ends, if there was one, there is room for the copy that patterns read. Text that fills the
 * buffer with repairs alone goes without. */
static void read_like_known_characters(const struct encoder *encoder, struct str text)
{
    struct str none = {NULL, 0};
    char *out = encoder->text->repaired + encoder->repaired_used;
    size_t room = encoder->text->repaired_bytes - encoder->repaired_used;
    bool differs = text.bytes <= room && unicode_new_replace(text, out);
    pattern_matcher_read_like(encoder->text->matcher, differs ? text : none,
                              differs ? (struct str){out, text.bytes} : none);
}

/* Between added tokens: normalise, look for the added tokens that want that, cut, merge. */
static berth_status encode_stretch(struct encoder *encoder, struct str stretch, bool at_start, bool want_special,
                                   berth_error *err)
{
    struct text *text = encoder->text;
    struct str normal;
    const struct str none = {NULL, 0};
    pattern_matcher_read_like(text->matcher, none, none); /* the copy of the stretch before is stale */
    TRY(normalize_run(text->normalize, text->normalize_count, &text->normalize_scratch, stretch, &normal, err));
    read_like_known_characters(encoder, normal);
    const struct pretokenize run = {text->pretokenize, text->pretokenize_count, text->matcher, encode_piece, encoder};
    struct added_walk walk;
    added_walk_begin(&walk, &text->added_normal, normal, want_special);
    struct str part;
    int32_t id;
    while (added_walk_next(&walk, &part, &id)) {
        if (id != VOCAB_NONE) {
            put_id(encoder, id);
        } else {
            TRY(pretokenize_run(&run, part, at_start && part.ptr == normal.ptr, err));
        }
    }
    return BERTH_OK;
}

/* Malformed sequences become U+FFFD, as a lossy decoder makes them. */
static berth_status repair(struct text *text, struct str input, struct str *out, berth_error *err)
{
    size_t used = 0;
    for (size_t at = 0, length; at < input.bytes; at += length) {
        uint32_t point = unicode_next(input.ptr + at, input.bytes - at, &length);
        if (text->repaired_bytes - used < 4) {
            return error_set(err, BERTH_ERR_INTERNAL, "the buffer for repaired text is too small");
        }
        used += unicode_put(point, text->repaired + used);
    }
    *out = (struct str){text->repaired, used};
    return BERTH_OK;
}

static berth_status encode_input(struct encoder *encoder, struct str input, unsigned flags, berth_error *err)
{
    struct text *text = encoder->text;
    bool want_special = (flags & BERTH_TOKENIZE_SPECIAL) != 0;
    struct added_walk walk;
    added_walk_begin(&walk, &text->added_plain, input, want_special);
    struct str stretch;
    int32_t id;
    while (added_walk_next(&walk, &stretch, &id)) {
        if (id != VOCAB_NONE) {
            put_id(encoder, id);
        } else {
            TRY(encode_stretch(encoder, stretch, stretch.ptr == input.ptr, want_special, err));
        }
    }
    return BERTH_OK;
}

berth_status text_encode(struct text *text, struct str input, unsigned flags, int32_t *ids, size_t cap, size_t *count,
                         berth_error *err)
{
    if ((flags & ~(unsigned)(BERTH_TOKENIZE_BOS | BERTH_TOKENIZE_SPECIAL)) != 0) {
        return error_set(err, BERTH_ERR_ARGUMENT, "unknown tokenizer flags 0x%x", flags);
    }
    if (input.bytes > text->text_bytes_max) {
        return error_set(
            err, BERTH_ERR_LIMIT,
            "the text has %llu bytes, at most %llu were planned for (text_bytes); break it up or plan more",
            (unsigned long long)input.bytes, (unsigned long long)text->text_bytes_max);
    }
    struct encoder encoder = {.text = text, .ids = ids, .cap = cap};
    bool around = (flags & BERTH_TOKENIZE_BOS) != 0;
    for (unsigned i = 0; around && i < text->around.before_count; i++) {
        put_id(&encoder, text->around.before[i]);
    }
    if (!utf8_is_valid(input.ptr, input.bytes)) {
        TRY(repair(text, input, &input, err));
        encoder.repaired_used = input.bytes;
    }
    TRY(encode_input(&encoder, input, flags, err));
    for (unsigned i = 0; around && i < text->around.after_count; i++) {
        put_id(&encoder, text->around.after[i]);
    }
    *count = encoder.count;
    if (encoder.count > cap && ids != NULL) {
        return error_set(err, BERTH_ERR_LIMIT, "the text has %llu tokens, the caller has room for %llu",
                         (unsigned long long)encoder.count, (unsigned long long)cap);
    }
    return BERTH_OK;
}

/* ---- questions ---- */

uint32_t text_vocab(const struct text *text)
{
    return text->vocab.count;
}

struct str text_token(const struct text *text, int32_t id, bool *is_special)
{
    bool used = id >= 0 && (uint32_t)id < text->vocab.count && (text->vocab.flags[id] & VOCAB_USED) != 0;
    *is_special = used && (text->vocab.flags[id] & VOCAB_SPECIAL) != 0;
    return used ? vocab_spelling(&text->vocab, id) : (struct str){NULL, 0};
}

size_t text_piece_max_bytes(const struct text *text)
{
    return text->piece_max_bytes;
}

int32_t text_bos(const struct text *text)
{
    return text->bos;
}

int32_t text_eos(const struct text *text)
{
    return text->eos;
}

bool text_is_end(const struct text *text, int32_t id)
{
    return id >= 0 && (uint32_t)id < text->vocab.count && (text->vocab.flags[id] & VOCAB_END) != 0;
}

struct str text_chat_template(const struct text *text)
{
    return text->chat_template;
}
