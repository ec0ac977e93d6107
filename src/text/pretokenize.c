/* SPDX-License-Identifier: MIT */
#include "text/pretokenize.h"

#include "text/unicode.h"

static berth_status run_from(const struct pretokenize *run, unsigned step, struct str piece, bool at_start,
                             berth_error *err);

/* Joins the segments of a split (matches and what lies between them) as its behaviour says. `held` is the piece that
 * may still grow. */
struct joiner {
    const struct pretokenize *run;
    unsigned step;
    bool at_start;
    struct str text;
    size_t held_start, held_end;
    bool holding;
    bool last_match; /* kind of the segment before */
};

static berth_status joiner_emit(const struct joiner *joiner, size_t start, size_t end, berth_error *err)
{
    struct str piece = {joiner->text.ptr + start, end - start};
    return run_from(joiner->run, joiner->step + 1, piece, joiner->at_start && start == 0, err);
}

static berth_status joiner_flush(struct joiner *joiner, berth_error *err)
{
    if (!joiner->holding) {
        return BERTH_OK;
    }
    joiner->holding = false;
    return joiner_emit(joiner, joiner->held_start, joiner->held_end, err);
}

static berth_status joiner_segment(struct joiner *joiner, size_t start, size_t end, bool match, berth_error *err)
{
    bool grows = false;
    switch (joiner->run->steps[joiner->step].behavior) {
    case SPLIT_ISOLATED:
        return joiner_emit(joiner, start, end, err);
    case SPLIT_REMOVED:
        return match ? BERTH_OK : joiner_emit(joiner, start, end, err);
    case SPLIT_CONTIGUOUS:
        grows = match == joiner->last_match;
        break;
    case SPLIT_MERGED_WITH_PREVIOUS:
        grows = match && !joiner->last_match;
        break;
    case SPLIT_MERGED_WITH_NEXT:
        grows = !match && joiner->last_match;
        break;
    }
    joiner->last_match = match;
    if (joiner->holding && grows) {
        joiner->held_end = end;
        return BERTH_OK;
    }
    TRY(joiner_flush(joiner, err));
    joiner->held_start = start;
    joiner->held_end = end;
    joiner->holding = true;
    return BERTH_OK;
}

static berth_status run_split(const struct pretokenize *run, unsigned step, struct str text, bool at_start,
                              berth_error *err)
{
    const struct pretokenize_step *split = &run->steps[step];
    struct joiner joiner = {.run = run, .step = step, .at_start = at_start, .text = text};
    struct pattern_walk walk;
    pattern_walk_begin(&walk, &split->pattern, run->matcher, text);
    size_t done = 0;
    for (;;) {
        bool found;
        size_t start = text.bytes;
        size_t end = text.bytes;
        TRY(pattern_walk_next(&walk, &found, &start, &end, err));
        if (start > done) {
            TRY(joiner_segment(&joiner, done, start, split->invert, err));
        }
        if (!found) {
            return joiner_flush(&joiner, err);
        }
        TRY(joiner_segment(&joiner, start, end, !split->invert, err));
        done = end;
    }
}

static berth_status too_long(const struct pretokenize_step *step, berth_error *err)
{
    return error_set(err, BERTH_ERR_LIMIT, "the text grows past %llu bytes while it is split; break it up",
                     (unsigned long long)step->buffer_bytes);
}

/* Copies text to the buffer with `from` bytes replaced and a prefix; the three kinds of change share it. */
static berth_status change(const struct pretokenize_step *step, struct str text, struct str prefix, struct str *out,
                           berth_error *err)
{
    size_t used = prefix.bytes;
    if (prefix.bytes > step->buffer_bytes) {
        return too_long(step, err);
    }
    memcpy(step->buffer, prefix.ptr, prefix.bytes);
    for (size_t i = 0; i < text.bytes; i++) {
        if (step->buffer_bytes - used < 4 || step->buffer_bytes - used < step->content.bytes) {
            return too_long(step, err);
        }
        if (step->kind == PRETOKENIZE_BYTE_LEVEL) {
            used += unicode_put(byte_level_point((unsigned char)text.ptr[i]), step->buffer + used);
        } else if (step->kind == PRETOKENIZE_METASPACE && text.ptr[i] == ' ') {
            memcpy(step->buffer + used, step->content.ptr, step->content.bytes);
            used += step->content.bytes;
        } else {
            step->buffer[used++] = text.ptr[i];
        }
    }
    *out = (struct str){step->buffer, used};
    return BERTH_OK;
}

static berth_status run_from(const struct pretokenize *run, unsigned at, struct str piece, bool at_start,
                             berth_error *err)
{
    if (piece.bytes == 0) {
        return BERTH_OK;
    }
    if (at == run->count) {
        return run->piece(run->user, piece, err);
    }
    const struct pretokenize_step *step = &run->steps[at];
    struct str prefix = {"", 0};
    switch (step->kind) {
    case PRETOKENIZE_SPLIT:
        return run_split(run, at, piece, at_start, err);
    case PRETOKENIZE_SPACE_PREFIX:
        if (piece.ptr[0] == ' ') {
            return run_from(run, at + 1, piece, at_start, err);
        }
        prefix = STR(" ");
        break;
    case PRETOKENIZE_METASPACE:
        if (piece.ptr[0] != ' ' && !str_starts(piece, step->content) &&
            (step->prepend == PREPEND_ALWAYS || (step->prepend == PREPEND_FIRST && at_start))) {
            prefix = step->content;
        }
        break;
    case PRETOKENIZE_BYTE_LEVEL:
        break;
    }
    TRY(change(step, piece, prefix, &piece, err));
    return run_from(run, at + 1, piece, at_start, err);
}

berth_status pretokenize_run(const struct pretokenize *run, struct str text, bool at_start, berth_error *err)
{
    return run_from(run, 0, text, at_start, err);
}
