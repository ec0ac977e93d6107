/* SPDX-License-Identifier: MIT
 * Tokens to text, one at a time. Bytes go through a window of at most one unfinished UTF-8 sequence, so that what comes
 * out is whole characters; what cannot become one is U+FFFD, once per broken sequence. */
#include "text/tokenizer.h"

#include "text/unicode.h"

struct output {
    const struct decode *decode; /* NULL: no start to strip */
    berth_detok *state;
    char *ptr;
    size_t used;
};

static void put_character(struct output *out, const char *ptr, size_t bytes)
{
    if (out->decode != NULL && out->decode->strip.bytes != 0 && !out->state->started) {
        out->state->started = true;
        if (str_equal((struct str){ptr, bytes}, out->decode->strip)) {
            return;
        }
    }
    memcpy(out->ptr + out->used, ptr, bytes);
    out->used += bytes;
}

static void put_replacement(struct output *out)
{
    put_character(out, "\xef\xbf\xbd", 3);
}

static void put_byte(struct output *out, unsigned char byte)
{
    berth_detok *state = out->state;
    if (state->pending_bytes > 3) { /* the caller's struct is not ours to trust */
        state->pending_bytes = 0;
    }
    state->pending[state->pending_bytes] = byte;
    int sequence = utf8_sequence(state->pending, state->pending_bytes + 1);
    if (sequence == 0 && state->pending_bytes > 0) {
        state->pending_bytes = 0;
        put_replacement(out);
        state->pending[0] = byte;
        sequence = utf8_sequence(state->pending, 1);
    }
    if (sequence > 0) {
        put_character(out, (const char *)state->pending, (size_t)sequence);
        state->pending_bytes = 0;
    } else if (sequence == 0) {
        put_replacement(out);
    } else {
        state->pending_bytes++;
    }
}

static void put_bytes(struct output *out, struct str bytes)
{
    for (size_t i = 0; i < bytes.bytes; i++) {
        put_byte(out, (unsigned char)bytes.ptr[i]);
    }
}

static void put_byte_level(struct output *out, struct str spelling)
{
    size_t length;
    for (size_t at = 0; at < spelling.bytes; at += length) {
        if (byte_level_byte(unicode_next(spelling.ptr + at, spelling.bytes - at, &length)) < 0) {
            put_bytes(out, spelling); /* not written in the alphabet: an added token */
            return;
        }
    }
    for (size_t at = 0; at < spelling.bytes; at += length) {
        put_byte(out, (unsigned char)byte_level_byte(unicode_next(spelling.ptr + at, spelling.bytes - at, &length)));
    }
}

static void put_spelling(struct output *out, const struct decode *decode, struct str spelling, bool is_first)
{
    struct str space = is_first && !decode->metaspace_first_is_space ? (struct str){"", 0} : STR(" ");
    for (size_t at = 0; at < spelling.bytes;) {
        struct str rest = {spelling.ptr + at, spelling.bytes - at};
        if (decode->replace.bytes != 0 && str_starts(rest, decode->replace)) {
            put_bytes(out, decode->content);
            at += decode->replace.bytes;
        } else if (decode->metaspace.bytes != 0 && str_starts(rest, decode->metaspace)) {
            put_bytes(out, space);
            at += decode->metaspace.bytes;
        } else {
            put_byte(out, (unsigned char)spelling.ptr[at]);
            at++;
        }
    }
}

/* What the added-token list holds instead of the stored spelling. */
static struct str respelt(const struct text *text, int32_t id)
{
    const struct added *added = &text->added_normal;
    for (uint32_t i = 0; i < added->count; i++) {
        if (added->ids[i] == id) {
            return (struct str){added->bytes + added->starts[i], added->starts[i + 1] - added->starts[i]};
        }
    }
    return vocab_spelling(&text->vocab, id);
}

berth_status text_detok_push(const struct text *text, berth_detok *detok, int32_t id, char *buffer, size_t cap,
                             size_t *count)
{
    if (id < 0 || cap < text->piece_max_bytes) {
        return BERTH_ERR_ARGUMENT;
    }
    *count = 0;
    unsigned flags = (uint32_t)id < text->vocab.count ? text->vocab.flags[id] : 0;
    if ((flags & VOCAB_USED) == 0 || ((flags & VOCAB_SPECIAL) != 0 && !detok->show_special)) {
        return BERTH_OK; /* rows of the model's output beyond the vocabulary mean nothing */
    }
    const struct decode *decode = &text->decode;
    struct output out = {.decode = decode, .state = detok, .ptr = buffer};
    struct str spelling = (flags & VOCAB_RESPELT) != 0 ? respelt(text, id) : vocab_spelling(&text->vocab, id);
    bool is_first = !detok->started;
    int byte = decode->byte_fallback && (flags & VOCAB_RAW) == 0 ? tokenizer_byte_token(spelling) : -1;
    if (byte >= 0) {
        put_byte(&out, (unsigned char)byte);
    } else if ((flags & VOCAB_RAW) != 0) {
        put_bytes(&out, spelling);
    } else if (decode->kind == DECODE_BYTE_LEVEL) {
        put_byte_level(&out, spelling);
    } else {
        if (decode->kind == DECODE_JOIN && !is_first) {
            put_byte(&out, ' ');
        }
        put_spelling(&out, decode, spelling, is_first);
    }
    if (decode->strip.bytes == 0) { /* with a strip, the first character decides */
        detok->started = true;
    }
    *count = out.used;
    return BERTH_OK;
}

berth_status text_detok_finish(berth_detok *detok, char *buffer, size_t cap, size_t *count)
{
    if (detok->pending_bytes != 0 && cap < 3) {
        return BERTH_ERR_ARGUMENT;
    }
    *count = 0;
    if (detok->pending_bytes != 0) {
        struct output out = {.state = detok, .ptr = buffer};
        put_replacement(&out);
        *count = out.used;
    }
    detok->pending_bytes = 0;
    return BERTH_OK;
}
