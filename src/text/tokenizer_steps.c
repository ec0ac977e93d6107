/* SPDX-License-Identifier: MIT
 * The steps around the model in tokenizer.json: normalizer, added tokens, pre-tokenizer, post-processor, decoder. Each
 * is an object with a "type"; a type that is not known is refused by name, for guessing would give other tokens. */
#include "text/tokenizer_json.h"

static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static berth_status type_of(const struct text_build *build, const struct json *at, const char *what, struct str *type,
                            berth_error *err)
{
    if (at->token.kind != JSON_OBJECT_BEGIN) {
        return json_read_wrong(at, what, "an object with a type", err);
    }
    return json_read_text(build, at, "type", type, err);
}

static berth_status unknown_type(const char *what, struct str type, berth_error *err)
{
    berth_status status = error_set(err, BERTH_ERR_UNSUPPORTED, "%s \"%.*s\" is not supported", what, STR_ARG(type));
    error_at_object(err, type.ptr, type.bytes);
    return status;
}

/* Calls `read` for each object of a member array. */
struct reading {
    const struct text_build *build;
    struct text *text;
};
typedef berth_status read_step(const struct reading *reading, const struct json *at, berth_error *err);

static berth_status read_sequence(const struct reading *reading, const struct json *at, const char *member,
                                  read_step *read, berth_error *err)
{
    struct json item;
    if (!json_read_member(at, member, &item) || item.token.kind != JSON_ARRAY_BEGIN) {
        return json_read_wrong(at, member, "an array", err);
    }
    while (json_next(&item) == JSON_OBJECT_BEGIN) {
        TRY(read(reading, &item, err));
        if (!json_skip(&item)) {
            break;
        }
    }
    return item.token.kind == JSON_ARRAY_END ? BERTH_OK : json_read_wrong(&item, member, "an array of objects", err);
}

/* {"String": "..."} or {"Regex": "..."} */
static berth_status read_pattern(const struct text_build *build, const struct json *object, struct pattern *out,
                                 berth_error *err)
{
    struct json pattern;
    struct json value;
    struct str text;
    if (!json_read_member(object, "pattern", &pattern)) {
        return json_read_wrong(object, "the step", "an object with a pattern", err);
    }
    if (json_read_member(&pattern, "String", &value)) {
        TRY(json_read_string(build, &value, "pattern.String", &text, err));
        return pattern_literal(build, text, out, err);
    }
    if (json_read_member(&pattern, "Regex", &value)) {
        TRY(json_read_string(build, &value, "pattern.Regex", &text, err));
        return pattern_compile(build, text, out, err);
    }
    return json_read_wrong(&pattern, "pattern", "an object with String or Regex", err);
}

/* ---- normalizer ---- */

static berth_status add_normalize(struct text *text, struct normalize_step **step, berth_error *err)
{
    if (text->normalize_count == NORMALIZE_STEPS_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "the normalizer has more than %d steps", NORMALIZE_STEPS_MAX);
    }
    *step = &text->normalize[text->normalize_count++];
    return BERTH_OK;
}

static berth_status read_normalize(const struct reading *reading, const struct json *at, berth_error *err)
{
    static const struct {
        const char *type;
        enum normalize_kind kind;
    } kinds[] = {
        {"NFC", NORMALIZE_NFC},
        {"NFD", NORMALIZE_NFD},
        {"NFKC", NORMALIZE_NFKC},
        {"NFKD", NORMALIZE_NFKD},
        {"Lowercase", NORMALIZE_LOWERCASE},
        {"Prepend", NORMALIZE_PREPEND},
        {"Replace", NORMALIZE_REPLACE},
        {"Strip", NORMALIZE_STRIP},
        {"StripAccents", NORMALIZE_NO_ACCENTS},
        {"ByteLevel", NORMALIZE_BYTE_LEVEL},
    };
    struct str type = {0};
    TRY(type_of(reading->build, at, "normalizer", &type, err));
    if (str_is(type, "Sequence")) {
        return read_sequence(reading, at, "normalizers", read_normalize, err);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!str_is(type, kinds[i].type)) {
            continue;
        }
        struct normalize_step *step = NULL;
        struct str text = {"", 0};
        TRY(add_normalize(reading->text, &step, err));
        step->kind = kinds[i].kind;
        if (step->kind == NORMALIZE_STRIP) {
            step->left = json_read_flag(at, "strip_left", true);
            step->right = json_read_flag(at, "strip_right", true);
        } else if (step->kind == NORMALIZE_PREPEND) {
            TRY(json_read_text(reading->build, at, "prepend", &text, err));
        } else if (step->kind == NORMALIZE_REPLACE) {
            TRY(json_read_text(reading->build, at, "content", &text, err));
            TRY(read_pattern(reading->build, at, &step->pattern, err));
        }
        return text_build_copy(reading->build, text, &step->content, err);
    }
    return unknown_type("normalizer", type, err);
}

/* ---- added tokens ---- */

/* Running the normalizer while building: on scratch of its own, large enough for any token. */
static berth_status normalize_once(const struct text_build *build, const struct text *text, struct str in,
                                   struct str *out, berth_error *err)
{
    struct normalize_scratch scratch = {.buffer_bytes = in.bytes * 3 + 256, .matcher = text->matcher};
    scratch.points_count = in.bytes * 4 + 256;
    void *place;
    for (unsigned i = 0; i < 2; i++) {
        TRY(text_build_temp(build, scratch.buffer_bytes, 1, &place, err));
        scratch.buffers[i] = place;
    }
    TRY(text_build_temp(build, scratch.points_count, sizeof *scratch.points, &place, err));
    scratch.points = place;
    return normalize_run(text->normalize, text->normalize_count, &scratch, in, out, err);
}

static berth_status read_added_sets(const struct text_build *build, const struct tokenizer_parts *parts,
                                    struct text *text, berth_error *err)
{
    void *plain_place;
    void *normal_place;
    TRY(text_build_temp(build, parts->added_count, sizeof(struct added_entry), &plain_place, err));
    TRY(text_build_temp(build, parts->added_count, sizeof(struct added_entry), &normal_place, err));
    struct added_entry *plain = plain_place;
    struct added_entry *normal = normal_place;
    uint32_t plain_count = 0;
    uint32_t normal_count = 0;
    for (uint32_t i = 0; i < parts->added_count; i++) {
        const struct added_token *token = &parts->added[i];
        struct added_entry entry = {token->spelling, token->id, token->flags};
        if (!token->normalized) {
            plain[plain_count++] = entry;
            continue;
        }
        TRY(normalize_once(build, text, token->spelling, &entry.spelling, err));
        if (!str_equal(entry.spelling, token->spelling)) {
            text->vocab.flags[token->id] |= VOCAB_RESPELT;
        }
        if (entry.spelling.bytes != 0) {
            normal[normal_count++] = entry;
        }
    }
    TRY(added_layout(build, plain, plain_count, &text->added_plain, err));
    return added_layout(build, normal, normal_count, &text->added_normal, err);
}

/* ---- pre-tokenizer ---- */

static berth_status add_pretokenize(struct text *text, enum pretokenize_kind kind, struct pretokenize_step **step,
                                    berth_error *err)
{
    if (text->pretokenize_count == PRETOKENIZE_STEPS_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "the pre-tokenizer has more than %d steps", PRETOKENIZE_STEPS_MAX);
    }
    *step = &text->pretokenize[text->pretokenize_count++];
    (*step)->kind = kind;
    return BERTH_OK;
}

static berth_status add_split(const struct reading *reading, const char *pattern, enum split_behavior behavior,
                              bool invert, berth_error *err)
{
    struct pretokenize_step *step = NULL;
    TRY(add_pretokenize(reading->text, PRETOKENIZE_SPLIT, &step, err));
    step->behavior = behavior;
    step->invert = invert;
    return pattern_compile(reading->build, str_from(pattern), &step->pattern, err);
}

static berth_status read_behavior(const struct text_build *build, const struct json *at, enum split_behavior *out,
                                  berth_error *err)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
    struct str name;
    TRY(json_read_text(build, at, "behavior", &name, err));
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (str_is(name, names[i])) {
            *out = (enum split_behavior)i;
            return BERTH_OK;
        }
    }
    return unknown_type("split behavior", name, err);
}

static berth_status read_split(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct pretokenize_step *step = NULL;
    TRY(add_pretokenize(reading->text, PRETOKENIZE_SPLIT, &step, err));
    TRY(read_behavior(reading->build, at, &step->behavior, err));
    step->invert = json_read_flag(at, "invert", false);
    return read_pattern(reading->build, at, &step->pattern, err);
}

static berth_status read_byte_level(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct pretokenize_step *step = NULL;
    if (json_read_flag(at, "add_prefix_space", true)) {
        TRY(add_pretokenize(reading->text, PRETOKENIZE_SPACE_PREFIX, &step, err));
    }
    if (json_read_flag(at, "use_regex", true)) {
        TRY(add_split(reading, gpt2_pattern, SPLIT_ISOLATED, false, err));
    }
    return add_pretokenize(reading->text, PRETOKENIZE_BYTE_LEVEL, &step, err);
}

static berth_status read_prepend_scheme(const struct text_build *build, const struct json *at, enum prepend_scheme *out,
                                        berth_error *err)
{
    struct json value;
    struct str name = STR("always");
    if (json_read_member(at, "prepend_scheme", &value)) {
        TRY(json_read_string(build, &value, "prepend_scheme", &name, err));
    }
    bool known = str_is(name, "always") || str_is(name, "first") || str_is(name, "never");
    *out = str_is(name, "always") ? PREPEND_ALWAYS : str_is(name, "first") ? PREPEND_FIRST : PREPEND_NEVER;
    if (!json_read_flag(at, "add_prefix_space", true)) { /* the older name of "never" */
        *out = PREPEND_NEVER;
    }
    return known ? BERTH_OK : unknown_type("prepend_scheme", name, err);
}

static berth_status read_metaspace(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct pretokenize_step *step = NULL;
    struct str replacement;
    TRY(add_pretokenize(reading->text, PRETOKENIZE_METASPACE, &step, err));
    TRY(json_read_text(reading->build, at, "replacement", &replacement, err));
    if (replacement.bytes == 0 || replacement.bytes > 4) {
        return json_read_wrong(at, "replacement", "one character", err);
    }
    TRY(text_build_copy(reading->build, replacement, &step->content, err));
    TRY(read_prepend_scheme(reading->build, at, &step->prepend, err));
    if (!json_read_flag(at, "split", true)) {
        return BERTH_OK;
    }
    TRY(add_pretokenize(reading->text, PRETOKENIZE_SPLIT, &step, err));
    step->behavior = SPLIT_MERGED_WITH_NEXT;
    return pattern_literal(reading->build, replacement, &step->pattern, err);
}

static berth_status read_punctuation(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct json value;
    enum split_behavior behavior = SPLIT_ISOLATED;
    if (json_read_member(at, "behavior", &value)) {
        TRY(read_behavior(reading->build, at, &behavior, err));
    }
    return add_split(reading, "[!-/:-@\\[-`{-~\\p{P}]", behavior, false, err);
}

static berth_status read_delimiter(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct pretokenize_step *step = NULL;
    struct str delimiter;
    TRY(json_read_text(reading->build, at, "delimiter", &delimiter, err));
    TRY(add_pretokenize(reading->text, PRETOKENIZE_SPLIT, &step, err));
    step->behavior = SPLIT_REMOVED;
    return pattern_literal(reading->build, delimiter, &step->pattern, err);
}

static berth_status read_pretokenize(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct str type = {0};
    TRY(type_of(reading->build, at, "pre_tokenizer", &type, err));
    if (str_is(type, "Sequence")) {
        return read_sequence(reading, at, "pretokenizers", read_pretokenize, err);
    }
    if (str_is(type, "Split")) {
        return read_split(reading, at, err);
    }
    if (str_is(type, "ByteLevel")) {
        return read_byte_level(reading, at, err);
    }
    if (str_is(type, "Metaspace")) {
        return read_metaspace(reading, at, err);
    }
    if (str_is(type, "Digits")) {
        bool each = json_read_flag(at, "individual_digits", false);
        return add_split(reading, "\\p{N}", each ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, false, err);
    }
    if (str_is(type, "Punctuation")) {
        return read_punctuation(reading, at, err);
    }
    if (str_is(type, "Whitespace")) {
        return add_split(reading, "\\w+|[^\\w\\s]+", SPLIT_REMOVED, true, err);
    }
    if (str_is(type, "WhitespaceSplit")) {
        return add_split(reading, "\\s", SPLIT_REMOVED, false, err);
    }
    if (str_is(type, "CharDelimiterSplit")) {
        return read_delimiter(reading, at, err);
    }
    return unknown_type("pre_tokenizer", type, err);
}

/* ---- post-processor ---- */

static berth_status add_around(struct text *text, bool after, int64_t id, berth_error *err)
{
    struct text_template *around = &text->around;
    unsigned *count = after ? &around->after_count : &around->before_count;
    if (id < 0 || id >= (int64_t)text->vocab.count || (text->vocab.flags[id] & VOCAB_USED) == 0) {
        return error_set(err, BERTH_ERR_FORMAT, "the post_processor adds token %lld, which does not exist",
                         (long long)id);
    }
    if (*count == TEMPLATE_IDS_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "the post_processor adds more than %d tokens on one side",
                         TEMPLATE_IDS_MAX);
    }
    (after ? around->after : around->before)[(*count)++] = (int32_t)id;
    return BERTH_OK;
}

/* special_tokens: {"<s>": {"id": "<s>", "ids": [1], ...}} */
static berth_status add_special(const struct reading *reading, const struct json *at, struct str name, bool after,
                                berth_error *err)
{
    struct json table;
    if (!json_read_member(at, "special_tokens", &table) || table.token.kind != JSON_OBJECT_BEGIN) {
        return json_read_wrong(at, "special_tokens", "an object", err);
    }
    while (json_next(&table) == JSON_KEY) {
        struct str key;
        TRY(json_read_string(reading->build, &table, "special_tokens", &key, err));
        struct json entry = table;
        struct json item;
        (void)json_next(&entry);
        if (str_equal(key, name) && json_read_member(&entry, "ids", &item) && item.token.kind == JSON_ARRAY_BEGIN) {
            while (json_next(&item) == JSON_NUMBER) {
                int64_t id;
                if (!json_token_i64(&item.token, &id)) {
                    return json_read_wrong(&item, "an id of special_tokens", "a whole number", err);
                }
                TRY(add_around(reading->text, after, id, err));
            }
            return BERTH_OK;
        }
        if (!json_skip(&table)) {
            break;
        }
    }
    return error_set(err, BERTH_ERR_FORMAT, "the post_processor adds \"%.*s\", which special_tokens does not list",
                     STR_ARG(name));
}

static berth_status read_template(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct json piece;
    struct json value;
    bool after = false;
    if (!json_read_member(at, "single", &piece) || piece.token.kind != JSON_ARRAY_BEGIN) {
        return json_read_wrong(at, "post_processor.single", "an array", err);
    }
    while (json_next(&piece) == JSON_OBJECT_BEGIN) {
        if (json_read_member(&piece, "SpecialToken", &value)) {
            struct str name;
            TRY(json_read_text(reading->build, &value, "id", &name, err));
            TRY(add_special(reading, at, name, after, err));
        } else if (json_read_member(&piece, "Sequence", &value) && !after) {
            after = true;
        } else {
            return json_read_wrong(&piece, "post_processor.single", "special tokens around one text", err);
        }
        if (!json_skip(&piece)) {
            break;
        }
    }
    return piece.token.kind == JSON_ARRAY_END ? BERTH_OK
                                              : json_read_wrong(&piece, "post_processor.single", "an array", err);
}

/* "cls": ["<s>", 0] */
static berth_status read_pair(const struct reading *reading, const struct json *at, const char *key, bool after,
                              berth_error *err)
{
    struct json item;
    int64_t id;
    if (!json_read_member(at, key, &item) || item.token.kind != JSON_ARRAY_BEGIN || json_next(&item) != JSON_STRING ||
        json_next(&item) != JSON_NUMBER || !json_token_i64(&item.token, &id)) {
        return json_read_wrong(at, key, "[spelling, id]", err);
    }
    return add_around(reading->text, after, id, err);
}

static berth_status read_post_processor(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct str type = {0};
    TRY(type_of(reading->build, at, "post_processor", &type, err));
    if (str_is(type, "Sequence")) {
        return read_sequence(reading, at, "processors", read_post_processor, err);
    }
    if (str_is(type, "TemplateProcessing")) {
        return read_template(reading, at, err);
    }
    if (str_is(type, "RobertaProcessing") || str_is(type, "BertProcessing")) {
        TRY(read_pair(reading, at, "cls", false, err));
        return read_pair(reading, at, "sep", true, err);
    }
    /* ByteLevel changes offsets only. */
    return str_is(type, "ByteLevel") ? BERTH_OK : unknown_type("post_processor", type, err);
}

/* ---- decoder ---- */

static berth_status read_decode_replace(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct decode *decode = &reading->text->decode;
    struct json pattern;
    struct json value;
    struct str text;
    if (!json_read_member(at, "pattern", &pattern) || !json_read_member(&pattern, "String", &value)) {
        return error_set(err, BERTH_ERR_UNSUPPORTED, "a decoder that replaces a regular expression is not supported");
    }
    if (decode->replace.bytes != 0) {
        return error_set(err, BERTH_ERR_UNSUPPORTED, "a decoder with two replacements is not supported");
    }
    TRY(json_read_string(reading->build, &value, "pattern.String", &text, err));
    TRY(text_build_copy(reading->build, text, &decode->replace, err));
    TRY(json_read_text(reading->build, at, "content", &text, err));
    return text_build_copy(reading->build, text, &decode->content, err);
}

/* Only what happens to the start of the whole text: as many characters as have to be known are known then. */
static berth_status read_decode_strip(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct json value;
    uint64_t start = 0;
    uint64_t stop = 0;
    struct str content;
    bool read = json_read_member(at, "start", &value) && json_token_u64(&value.token, &start);
    read = read && json_read_member(at, "stop", &value) && json_token_u64(&value.token, &stop);
    if (!read || start > 1 || stop != 0) {
        return error_set(err, BERTH_ERR_UNSUPPORTED,
                         "a decoder that strips %llu characters at the start and %llu at the end is not supported (1 "
                         "and 0 are)",
                         (unsigned long long)start, (unsigned long long)stop);
    }
    if (start != 0 && !reading->text->decode.fused) {
        return error_set(err, BERTH_ERR_UNSUPPORTED, "a decoder that strips every token is not supported");
    }
    TRY(json_read_text(reading->build, at, "content", &content, err));
    return start == 0 ? BERTH_OK : text_build_copy(reading->build, content, &reading->text->decode.strip, err);
}

static berth_status read_decode_metaspace(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct decode *decode = &reading->text->decode;
    enum prepend_scheme scheme;
    struct str replacement;
    TRY(json_read_text(reading->build, at, "replacement", &replacement, err));
    TRY(read_prepend_scheme(reading->build, at, &scheme, err));
    decode->metaspace_first_is_space = scheme == PREPEND_NEVER;
    return text_build_copy(reading->build, replacement, &decode->metaspace, err);
}

static berth_status read_decode(const struct reading *reading, const struct json *at, berth_error *err)
{
    struct decode *decode = &reading->text->decode;
    struct str type = {0};
    TRY(type_of(reading->build, at, "decoder", &type, err));
    if (str_is(type, "ByteLevel")) {
        decode->kind = DECODE_BYTE_LEVEL;
        return BERTH_OK;
    }
    decode->kind = decode->kind == DECODE_BYTE_LEVEL ? DECODE_BYTE_LEVEL : DECODE_SPELLING;
    if (str_is(type, "Sequence")) {
        return read_sequence(reading, at, "decoders", read_decode, err);
    }
    if (str_is(type, "Replace")) {
        return read_decode_replace(reading, at, err);
    }
    if (str_is(type, "ByteFallback")) {
        decode->byte_fallback = true;
        return BERTH_OK;
    }
    if (str_is(type, "Fuse")) {
        decode->fused = true;
        return BERTH_OK;
    }
    if (str_is(type, "Strip")) {
        return read_decode_strip(reading, at, err);
    }
    if (str_is(type, "Metaspace")) {
        return read_decode_metaspace(reading, at, err);
    }
    return unknown_type("decoder", type, err);
}

/* ---- all ---- */

static bool is_there(const struct json *part)
{
    return part->token.kind != JSON_ERROR && part->token.kind != JSON_NULL;
}

berth_status tokenizer_steps_read(const struct text_build *build, const struct tokenizer_parts *parts,
                                  struct text *text, berth_error *err)
{
    const struct reading reading = {build, text};
    void *place;
    TRY(text_build_keep(build, NORMALIZE_STEPS_MAX, sizeof *text->normalize, &place, err));
    text->normalize = place;
    TRY(text_build_keep(build, PRETOKENIZE_STEPS_MAX, sizeof *text->pretokenize, &place, err));
    text->pretokenize = place;
    if (is_there(&parts->normalizer)) {
        TRY(read_normalize(&reading, &parts->normalizer, err));
    }
    TRY(read_added_sets(build, parts, text, err));
    if (is_there(&parts->pre_tokenizer)) {
        TRY(read_pretokenize(&reading, &parts->pre_tokenizer, err));
    }
    unsigned last = text->pretokenize_count;
    if (last != 0 && text->pretokenize[last - 1].kind == PRETOKENIZE_BYTE_LEVEL) {
        text->pretokenize_count--;
        text->byte_level = true;
    }
    if (is_there(&parts->post_processor)) {
        TRY(read_post_processor(&reading, &parts->post_processor, err));
    }
    if (is_there(&parts->decoder)) {
        TRY(read_decode(&reading, &parts->decoder, err));
    }
    const struct decode *decode = &text->decode;
    if (decode->kind == DECODE_BYTE_LEVEL &&
        (decode->byte_fallback || decode->replace.bytes != 0 || decode->metaspace.bytes != 0)) {
        return error_set(err, BERTH_ERR_UNSUPPORTED,
                         "a decoder that mixes ByteLevel with other steps is not supported");
    }
    return BERTH_OK;
}
