/* SPDX-License-Identifier: MIT
 *
 * Tokenizers from GGUF metadata (tokenizer.ggml.*). Three models: "gpt2" is byte-level BPE with a named pre-tokenizer,
 * "llama" is SentencePiece's BPE, whose merges follow from the scores, "gemma4" is BPE over plain characters with
 * U+2581 for spaces. Types of tokens: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
 */
#include "text/tokenizer.h"

#include "base/bytes.h"
#include "text/pretokenizers.h"

#define SPACE_MARK "\xe2\x96\x81" /* U+2581 */

enum token_type { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };

static berth_status bad_key(const char *key, const char *what, berth_error *err)
{
    berth_status status = error_set(err, BERTH_ERR_FORMAT, "%s %s", key, what);
    error_at_object(err, key, strlen(key));
    return status;
}

static berth_status begin_strings(const struct meta *meta, const char *key, struct meta_strings *walk, uint64_t *count,
                                  berth_error *err)
{
    const struct meta_pair *pair = meta_find(meta, str_from(key));
    if (pair == NULL) {
        return bad_key(key, "is missing", err);
    }
    if (!meta_strings_begin(pair, walk)) {
        return bad_key(key, "must be an array of strings", err);
    }
    *count = pair->count;
    return BERTH_OK;
}

/* ---- tokens ---- */

/* Type of a token; files without types have normal ones, and bytes by their spelling. */
static enum token_type type_of(const struct meta_pair *types, uint32_t id, struct str spelling)
{
    uint64_t type;
    if (types != NULL && meta_item_u64(types, id, &type)) {
        return type <= TYPE_BYTE ? (enum token_type)type : TYPE_NORMAL;
    }
    return tokenizer_byte_token(spelling) >= 0 ? TYPE_BYTE : TYPE_NORMAL;
}

static unsigned flags_of(enum token_type type)
{
    switch (type) {
    case TYPE_UNKNOWN:
    case TYPE_CONTROL:
        return VOCAB_USED | VOCAB_SPECIAL | VOCAB_RAW;
    case TYPE_USER_DEFINED:
        return VOCAB_USED | VOCAB_RAW;
    case TYPE_BYTE:
        return VOCAB_USED | VOCAB_BYTE;
    case TYPE_NORMAL:
    case TYPE_UNUSED:
        break;
    }
    return VOCAB_USED;
}

static berth_status read_tokens(const struct text_build *build, const struct meta *meta, struct text *text,
                                berth_error *err)
{
    struct meta_strings walk;
    struct meta_strings again;
    uint64_t count;
    TRY(begin_strings(meta, "tokenizer.ggml.tokens", &walk, &count, err));
    const struct meta_pair *types = meta_find(meta, STR("tokenizer.ggml.token_type"));
    if (count == 0 || count > VOCAB_IDS_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "tokenizer.ggml.tokens has %llu tokens, 1 to %d are supported",
                         (unsigned long long)count, VOCAB_IDS_MAX);
    }
    if (types != NULL && (types->type != META_ARRAY || types->count < count)) {
        return bad_key("tokenizer.ggml.token_type", "must be an array with an item for each token", err);
    }
    again = walk;
    uint64_t bytes = 0;
    struct str spelling;
    while (meta_strings_next(&walk, &spelling)) {
        bytes += spelling.bytes;
        if (spelling.bytes > VOCAB_TOKEN_BYTES_MAX) {
            return error_set(err, BERTH_ERR_LIMIT, "a token of %llu bytes, at most %d are supported",
                             (unsigned long long)spelling.bytes, VOCAB_TOKEN_BYTES_MAX);
        }
    }
    struct vocab *vocab = &text->vocab;
    TRY(vocab_layout(build, (uint32_t)count, (uint32_t)count, bytes, vocab, err));
    for (uint32_t id = 0; id < vocab->count && meta_strings_next(&again, &spelling); id++) {
        if (spelling.bytes != 0) {
            memcpy(vocab->bytes + vocab->starts[id], spelling.ptr, spelling.bytes);
        }
        vocab->starts[id + 1] = vocab->starts[id] + (uint32_t)spelling.bytes;
        vocab->flags[id] = (unsigned char)flags_of(type_of(types, id, spelling));
        vocab->longest_bytes = spelling.bytes > vocab->longest_bytes ? (uint32_t)spelling.bytes : vocab->longest_bytes;
    }
    tokenizer_mark_ends(text, true);
    for (uint32_t id = 0; id < vocab->count; id++) {
        /* Text must not turn into these by way of merges. */
        if ((vocab->flags[id] & (VOCAB_SPECIAL | VOCAB_BYTE)) == 0) {
            (void)vocab_index(vocab, (int32_t)id);
        }
    }
    return BERTH_OK;
}

/* Phi-3's tokens swallow the white space behind them, but for three; GGUF has no place to say so. */
static bool swallows_space(const struct meta *meta, struct str spelling)
{
    struct str model = {"", 0};
    struct str architecture = {"", 0};
    (void)meta_str(meta, STR("tokenizer.ggml.model"), &model);
    (void)meta_str(meta, STR("general.architecture"), &architecture);
    return str_is(model, "llama") && (str_is(architecture, "phi3") || str_is(architecture, "phimoe")) &&
           !str_is(spelling, "<unk>") && !str_is(spelling, "<s>") && !str_is(spelling, "<|endoftext|>");
}

/* Control, unknown and user-defined tokens are looked for in the text; the first two only on demand. */
static berth_status read_added(const struct text_build *build, const struct meta *meta, struct text *text,
                               berth_error *err)
{
    const struct vocab *vocab = &text->vocab;
    uint32_t count = 0;
    for (uint32_t id = 0; id < vocab->count; id++) {
        count += (vocab->flags[id] & (VOCAB_RAW | VOCAB_SPECIAL)) != 0 ? 1u : 0u;
    }
    void *place;
    TRY(text_build_temp(build, count, sizeof(struct added_entry), &place, err));
    struct added_entry *entries = place;
    count = 0;
    for (uint32_t id = vocab->count; id-- > 0;) { /* of equal spellings the last entry stays: the lowest id */
        struct str spelling = vocab_spelling(vocab, (int32_t)id);
        if ((vocab->flags[id] & (VOCAB_RAW | VOCAB_SPECIAL)) != 0 && spelling.bytes != 0) {
            unsigned flags = (vocab->flags[id] & VOCAB_SPECIAL) != 0 ? (unsigned)ADDED_SPECIAL : 0u;
            flags |= swallows_space(meta, spelling) ? (unsigned)ADDED_RSTRIP : 0u;
            entries[count++] = (struct added_entry){spelling, (int32_t)id, flags};
        }
    }
    return added_layout(build, entries, count, &text->added_plain, err);
}

/* ---- merges ---- */

static berth_status read_merges(const struct text_build *build, const struct meta *meta, struct text *text,
                                berth_error *err)
{
    struct meta_strings walk;
    uint64_t count;
    struct str merge;
    TRY(begin_strings(meta, "tokenizer.ggml.merges", &walk, &count, err));
    TRY(merges_layout(build, count, &text->merges, err));
    uint32_t kept = 0;
    int32_t result = VOCAB_NONE;
    for (uint64_t number = 0; meta_strings_next(&walk, &merge); number++) {
        /* The first character may be a space itself. */
        const char *space = merge.bytes < 2 ? NULL : memchr(merge.ptr + 1, ' ', merge.bytes - 1);
        size_t left_bytes = space == NULL ? 0 : (size_t)(space - merge.ptr);
        struct str left = {merge.ptr, left_bytes};
        struct str right = {merge.ptr + left_bytes + 1, space == NULL ? 0 : merge.bytes - left_bytes - 1};
        int32_t left_id = space == NULL ? VOCAB_NONE : vocab_find(&text->vocab, left);
        int32_t right_id = space == NULL ? VOCAB_NONE : vocab_find(&text->vocab, right);
        result = space == NULL ? VOCAB_NONE : vocab_find_joined_near(&text->vocab, left, right, result + 1);
        if (left_id == VOCAB_NONE || right_id == VOCAB_NONE || result == VOCAB_NONE) {
            return error_set(err, BERTH_ERR_FORMAT,
                             "tokenizer.ggml.merges: merge %llu, \"%.*s\", is not two tokens that make a third",
                             (unsigned long long)number, STR_ARG(merge));
        }
        merges_add(&text->merges, kept++, left_id, right_id, result, false);
    }
    text->merges.count = kept;
    return BERTH_OK;
}

static void sift_down(uint64_t *keys, uint32_t at, uint32_t count)
{
    uint64_t key = keys[at];
    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && keys[child] < keys[child + 1] ? 1u : 0u;
        if (keys[child] <= key) {
            break;
        }
        keys[at] = keys[child];
        at = child;
    }
    keys[at] = key;
}

static void sort_keys(uint64_t *keys, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;) {
        sift_down(keys, i, count);
    }
    for (uint32_t last = count; last-- > 1;) {
        uint64_t key = keys[0];
        keys[0] = keys[last];
        keys[last] = key;
        sift_down(keys, 0, last);
    }
}

/* Rank of each token by falling score, the same for equal scores. */
static berth_status rank_scores(const struct text_build *build, const struct meta *meta, const struct vocab *vocab,
                                uint32_t *ranks, berth_error *err)
{
    const struct meta_pair *scores = meta_find(meta, STR("tokenizer.ggml.scores"));
    if (scores == NULL || scores->type != META_ARRAY || scores->count < vocab->count) {
        return bad_key("tokenizer.ggml.scores", "must be an array with an item for each token", err);
    }
    void *place;
    TRY(text_build_temp(build, vocab->count, sizeof(uint64_t), &place, err));
    uint64_t *keys = place;
    for (uint32_t id = 0; id < vocab->count; id++) {
        double score;
        if (!meta_item_f64(scores, id, &score)) {
            return bad_key("tokenizer.ggml.scores", "must be an array of numbers", err);
        }
        /* As an unsigned integer that falls as the score rises; -0 counts as 0. */
        uint32_t bits = f32_to_bits((float)score + 0.0f);
        uint32_t rising = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
        keys[id] = (uint64_t)~rising << 32 | id;
    }
    sort_keys(keys, vocab->count);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < vocab->count; i++) {
        rank += i != 0 && keys[i] >> 32 != keys[i - 1] >> 32 ? 1u : 0u;
        ranks[(uint32_t)keys[i]] = rank;
    }
    return BERTH_OK;
}

/* Every way to make a token out of two others is a merge. `merges` NULL: only counts. */
static uint64_t derive_merges(const struct vocab *vocab, struct merges *merges)
{
    uint64_t count = 0;
    for (uint32_t id = 0; id < vocab->count; id++) {
        struct str whole = vocab_spelling(vocab, (int32_t)id);
        if ((vocab->flags[id] & (VOCAB_SPECIAL | VOCAB_BYTE)) != 0 || vocab_find(vocab, whole) != (int32_t)id) {
            continue;
        }
        for (size_t cut = 1; cut < whole.bytes; cut++) {
            if (((unsigned char)whole.ptr[cut] & 0xc0) == 0x80) { /* inside a character */
                continue;
            }
            int32_t left = vocab_find(vocab, (struct str){whole.ptr, cut});
            int32_t right =
                left == VOCAB_NONE ? VOCAB_NONE : vocab_find(vocab, (struct str){whole.ptr + cut, whole.bytes - cut});
            if (right == VOCAB_NONE) {
                continue;
            }
            if (merges != NULL) {
                merges_add(merges, (uint32_t)count, left, right, (int32_t)id, false);
            }
            count++;
        }
    }
    return count;
}

static berth_status merges_from_scores(const struct text_build *build, const struct meta *meta, struct text *text,
                                       berth_error *err)
{
    void *place;
    TRY(text_build_keep(build, text->vocab.count, sizeof(uint32_t), &place, err));
    TRY(rank_scores(build, meta, &text->vocab, place, err));
    TRY(merges_layout(build, derive_merges(&text->vocab, NULL), &text->merges, err));
    (void)derive_merges(&text->vocab, &text->merges);
    text->merges.result_rank = place;
    return BERTH_OK;
}

/* ---- steps ---- */

static berth_status steps_layout(const struct text_build *build, struct text *text, berth_error *err)
{
    void *place;
    TRY(text_build_keep(build, NORMALIZE_STEPS_MAX, sizeof *text->normalize, &place, err));
    text->normalize = place;
    TRY(text_build_keep(build, PRETOKENIZE_STEPS_MAX, sizeof *text->pretokenize, &place, err));
    text->pretokenize = place;
    return BERTH_OK;
}

static berth_status add_split(const struct text_build *build, struct text *text, const char *pattern, berth_error *err)
{
    struct pretokenize_step *step = &text->pretokenize[text->pretokenize_count++];
    step->kind = PRETOKENIZE_SPLIT;
    step->behavior = SPLIT_ISOLATED;
    return pattern_compile(build, str_from(pattern), &step->pattern, err);
}

/* Spaces are written as U+2581 in the vocabulary. */
static berth_status add_space_marks(const struct text_build *build, struct text *text, berth_error *err)
{
    struct normalize_step *step = &text->normalize[text->normalize_count++];
    step->kind = NORMALIZE_REPLACE;
    TRY(pattern_literal(build, STR(" "), &step->pattern, err));
    TRY(text_build_copy(build, STR(SPACE_MARK), &step->content, err));
    text->decode.kind = DECODE_SPELLING;
    TRY(text_build_copy(build, STR(SPACE_MARK), &text->decode.replace, err));
    return text_build_copy(build, STR(" "), &text->decode.content, err);
}

/* Byte tokens, wherever they are; the index does not have them. */
static void find_byte_tokens(struct text *text)
{
    for (unsigned i = 0; i < 256; i++) {
        text->byte_ids[i] = VOCAB_NONE;
    }
    for (uint32_t id = 0; id < text->vocab.count; id++) {
        int byte = (text->vocab.flags[id] & VOCAB_BYTE) != 0
                       ? tokenizer_byte_token(vocab_spelling(&text->vocab, (int32_t)id))
                       : -1;
        if (byte >= 0 && text->byte_ids[byte] == VOCAB_NONE) {
            text->byte_ids[byte] = (int32_t)id;
        }
    }
    text->byte_fallback = true;
    text->decode.byte_fallback = true;
}

static berth_status build_gpt2(const struct text_build *build, const struct meta *meta, struct text *text,
                               bool *add_bos, berth_error *err)
{
    struct str name = STR("default");
    (void)meta_str(meta, STR("tokenizer.ggml.pre"), &name);
    const struct pretokenizers_row *row = pretokenizers_find(name);
    if (row == NULL) {
        berth_status status =
            error_set(err, BERTH_ERR_UNSUPPORTED,
                      "tokenizer.ggml.pre \"%.*s\" is not a pre-tokenizer this version knows", STR_ARG(name));
        error_at_object(err, name.ptr, name.bytes);
        return status;
    }
    TRY(read_merges(build, meta, text, err));
    for (unsigned i = 0; i < PRETOKENIZERS_PATTERNS_MAX && row->patterns[i] != NULL; i++) {
        TRY(add_split(build, text, row->patterns[i], err));
    }
    if ((row->flags & PRE_NFC) != 0) {
        text->normalize[text->normalize_count++].kind = NORMALIZE_NFC;
    }
    text->byte_level = true;
    text->whole_words = (row->flags & PRE_WHOLE_WORDS) != 0;
    text->decode.kind = DECODE_BYTE_LEVEL;
    *add_bos = (row->flags & PRE_BOS) != 0;
    tokenizer_find_bytes(text);
    return BERTH_OK;
}

static berth_status build_llama(const struct text_build *build, const struct meta *meta, struct text *text,
                                berth_error *err)
{
    bool space_prefix = true;
    bool squeeze = false;
    (void)meta_bool(meta, STR("tokenizer.ggml.add_space_prefix"), &space_prefix);
    (void)meta_bool(meta, STR("tokenizer.ggml.remove_extra_whitespaces"), &squeeze);
    TRY(merges_from_scores(build, meta, text, err));
    if (squeeze) {
        text->normalize[text->normalize_count++].kind = NORMALIZE_SQUEEZE;
    }
    if (space_prefix) {
        struct normalize_step *step = &text->normalize[text->normalize_count++];
        step->kind = NORMALIZE_PREPEND;
        TRY(text_build_copy(build, STR(" "), &step->content, err));
        TRY(text_build_copy(build, STR(" "), &text->decode.strip, err));
    }
    TRY(add_space_marks(build, text, err));
    find_byte_tokens(text);
    text->fuse_unknown = true;
    return BERTH_OK;
}

static berth_status build_gemma4(const struct text_build *build, const struct meta *meta, struct text *text,
                                 berth_error *err)
{
    TRY(read_merges(build, meta, text, err));
    TRY(add_split(build, text, "[^\\n]+|[\\n]+", err));
    TRY(add_space_marks(build, text, err));
    find_byte_tokens(text);
    text->whole_newlines = true;
    return BERTH_OK;
}

/* ---- ids ---- */

static int32_t id_of(const struct meta *meta, struct str key, const struct text *text, int32_t otherwise)
{
    uint64_t id;
    if (!meta_u64(meta, key, &id)) {
        return otherwise < (int32_t)text->vocab.count ? otherwise : VOCAB_NONE;
    }
    return id < text->vocab.count ? (int32_t)id : VOCAB_NONE;
}

static void read_ids(const struct meta *meta, struct text *text, bool sentencepiece, bool add_bos)
{
    text->bos = id_of(meta, STR("tokenizer.ggml.bos_token_id"), text, sentencepiece ? 1 : VOCAB_NONE);
    text->eos = id_of(meta, STR("tokenizer.ggml.eos_token_id"), text, sentencepiece ? 2 : VOCAB_NONE);
    text->unknown = id_of(meta, STR("tokenizer.ggml.unknown_token_id"), text, sentencepiece ? 0 : VOCAB_NONE);
    tokenizer_mark_end(text, text->eos);
    tokenizer_mark_end(text, id_of(meta, STR("tokenizer.ggml.eot_token_id"), text, VOCAB_NONE));
    tokenizer_mark_end(text, id_of(meta, STR("tokenizer.ggml.eom_token_id"), text, VOCAB_NONE));
    bool add_eos = false;
    (void)meta_bool(meta, STR("tokenizer.ggml.add_bos_token"), &add_bos);
    (void)meta_bool(meta, STR("tokenizer.ggml.add_eos_token"), &add_eos);
    if (add_bos && text->bos != VOCAB_NONE) {
        text->around.before[text->around.before_count++] = text->bos;
    }
    if (add_eos && text->eos != VOCAB_NONE) {
        text->around.after[text->around.after_count++] = text->eos;
    }
}

berth_status tokenizer_gguf_build(const struct text_build *build, const struct checkpoint *checkpoint,
                                  struct text *text, berth_error *err)
{
    const struct meta *meta = &checkpoint->meta;
    struct str model = {"", 0};
    (void)meta_str(meta, STR("tokenizer.ggml.model"), &model);
    bool gpt2 = str_is(model, "gpt2");
    bool llama = str_is(model, "llama");
    bool gemma4 = str_is(model, "gemma4");
    if (!gpt2 && !llama && !gemma4) {
        berth_status status =
            error_set(err, BERTH_ERR_UNSUPPORTED,
                      "tokenizer.ggml.model \"%.*s\" is not supported (gpt2, llama and gemma4 are)", STR_ARG(model));
        error_at_object(err, model.ptr, model.bytes);
        return status;
    }
    bool add_bos = !gpt2;
    struct str source;
    TRY(read_tokens(build, meta, text, err));
    TRY(read_added(build, meta, text, err));
    TRY(steps_layout(build, text, err));
    if (gpt2) {
        TRY(build_gpt2(build, meta, text, &add_bos, err));
    } else {
        TRY(llama ? build_llama(build, meta, text, err) : build_gemma4(build, meta, text, err));
    }
    read_ids(meta, text, llama, add_bos);
    if (meta_str(meta, STR("tokenizer.chat_template"), &source)) {
        return text_build_copy(build, source, &text->chat_template, err);
    }
    return BERTH_OK;
}
