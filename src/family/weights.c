/* SPDX-License-Identifier: MIT
 * What a tensor is for, by its name: the spellings of GGUF, of Hugging Face checkpoints and of MLX's. */
#include "family/shape.h"

/* A name and which pairs of neighbouring bytes it has (some pairs share a bit): of the dozens of parts that are looked
 * for, nearly all are ruled out by their first pair. Checkpoints have tens of thousands of names. */
struct text {
    struct str str;
    uint64_t pairs[16];
};

static uint32_t pair_of(const char *at)
{
    return ((uint32_t)(unsigned char)at[0] * 37 + (unsigned char)at[1]) % 1024;
}

static struct text text_of(struct str name)
{
    struct text text = {.str = name, .pairs = {0}};
    for (size_t i = 0; i + 1 < name.bytes; i++) {
        uint32_t pair = pair_of(name.ptr + i);
        text.pairs[pair / 64] |= (uint64_t)1 << pair % 64;
    }
    return text;
}

/* The first place of the part (of two bytes or more); NULL: none. */
static const char *find(const struct text *text, const char *part)
{
    size_t bytes = 0;
    for (; part[bytes] != '\0'; bytes++) {
        uint32_t pair = part[bytes + 1] != '\0' ? pair_of(part + bytes) : pair_of(part);
        if ((text->pairs[pair / 64] >> pair % 64 & 1) == 0) {
            return NULL;
        }
    }
    for (size_t i = 0; i + bytes <= text->str.bytes; i++) {
        if (text->str.ptr[i] == part[0] && memcmp(text->str.ptr + i, part, bytes) == 0) {
            return text->str.ptr + i;
        }
    }
    return NULL;
}

static bool contains(const struct text *text, const char *part)
{
    return find(text, part) != NULL;
}

static bool contains_any(const struct text *text, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (contains(text, parts[i])) {
            return true;
        }
    }
    return false;
}
#define ANY(text, list) contains_any((text), (list), sizeof(list) / sizeof(list)[0])

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The number at `at`, which is left behind its digits. Large ones come out as large, not exact. */
static uint32_t number_at(const char **at, const char *end)
{
    uint32_t number = 0;
    for (; *at < end && is_digit(**at); ++*at) {
        number = number < 1 << 20 ? number * 10 + (uint32_t)(**at - '0') : number;
    }
    return number;
}

/* Where the number after the first `prefix` begins, wherever that stands; NULL: none. */
static const char *block_digits(const struct text *text, const char *prefix)
{
    const char *found = find(text, prefix);
    const char *from = found == NULL ? NULL : found + strlen(prefix);
    return from != NULL && from < text->str.ptr + text->str.bytes && is_digit(*from) ? from : NULL;
}

/* The digits of the block; NULL: the name has none. */
static const char *block_of(const struct text *text)
{
    const char *at = block_digits(text, "blk.");
    return at != NULL ? at : block_digits(text, "layers.");
}

/* ".ffn_gate.3.weight": one matrix an expert, as the first mixture GGUF files had it. */
static bool is_split_expert(const struct text *name)
{
    static const char *const parts[] = {".ffn_gate.", ".ffn_up.", ".ffn_down."};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (block_digits(name, parts[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static bool is_expert(const struct text *name)
{
    static const char *const routed[] = {".experts.", ".switch_mlp.", "exps."};
    static const char *const fused[] = {"block_sparse_moe.input_linear", "block_sparse_moe.output_linear",
                                        "ffn.experts.mlp"};
    static const char *const beside[] = {"shared_expert", "_bias", ".bias", "exps.scale", "input_scale"};
    bool is_scale =
        str_ends(name->str, STR(".scales")) || str_ends(name->str, STR(".biases")); /* MLX: part of the matrix */
    if (ANY(name, fused) || is_split_expert(name)) {
        return true;
    }
    return ANY(name, routed) && (is_scale || !ANY(name, beside));
}

static bool is_lookup(const struct text *name)
{
    static const char *const tables[] = {"token_embd.",          "embed_tokens.", "embed_tokens_per_layer",
                                         "per_layer_token_embd", "ngram",         "engram",
                                         "word_embeddings.",     "wte.weight",    "embeddings.weight"};
    static const char *const beside[] = {"_norm", "_proj", "norm.", "proj."};
    return ANY(name, tables) && !ANY(name, beside);
}

static bool is_not_loaded(const struct text *name, uint32_t layers)
{
    static const char *const towers[] = {"vision_tower",          "vision_model", "visual.",
                                         "multi_modal_projector", "mm_projector", "audio_tower",
                                         "embed_vision.",         "embed_audio.", "rotary_emb.inv_freq"};
    const char *block = block_of(name);
    return ANY(name, towers) || str_starts(name->str, STR("mtp.")) || contains(name, ".mtp.") ||
           str_starts(name->str, STR("v.")) || str_starts(name->str, STR("mm.")) ||
           (block != NULL && number_at(&block, name->str.ptr + name->str.bytes) >= layers);
}

enum weight_class weight_class_of(struct str name, uint32_t layers)
{
    const struct text text = text_of(name);
    return is_not_loaded(&text, layers) ? WEIGHT_NOT_LOADED
           : is_expert(&text)           ? WEIGHT_EXPERT
           : is_lookup(&text)           ? WEIGHT_LOOKUP
                                        : WEIGHT_RESIDENT;
}

/* ---- names that differ in numbers ------------------------------------------------------------------- */

/* A name with every number as one zero, and the first numbers. False: too long. */
struct plain {
    char name[WEIGHT_MEMO_NAME];
    uint32_t bytes;
    uint32_t numbers[WEIGHT_MEMO_NUMBERS];
};

static bool make_plain(struct str name, struct plain *out)
{
    const char *end = name.ptr + name.bytes;
    uint32_t count = 0;
    if (name.bytes > WEIGHT_MEMO_NAME) {
        return false;
    }
    out->bytes = 0;
    memset(out->numbers, 0, sizeof out->numbers);
    for (const char *at = name.ptr; at < end;) {
        if (is_digit(*at)) {
            uint32_t number = number_at(&at, end);
            out->name[out->bytes++] = '0';
            if (count < WEIGHT_MEMO_NUMBERS) {
                out->numbers[count++] = number;
            }
        } else {
            out->name[out->bytes++] = *at++;
        }
    }
    return true;
}

/* Which of the name's numbers is its block's; WEIGHT_MEMO_NUMBERS: none, UINT32_MAX: one past those that are kept. */
static uint32_t block_place(struct str name)
{
    const struct text text = text_of(name);
    const char *block = block_of(&text);
    uint32_t place = 0;
    if (block == NULL) {
        return WEIGHT_MEMO_NUMBERS;
    }
    for (const char *at = name.ptr; at < block;) {
        if (is_digit(*at)) {
            (void)number_at(&at, block);
            place++;
        } else {
            at++;
        }
    }
    return place < WEIGHT_MEMO_NUMBERS ? place : UINT32_MAX;
}

/* No part that the classes are told by has a digit in it: the rest of a name decides, but for the block's number. */
enum weight_class weight_class_next(struct weight_memo *memo, struct str name, uint32_t layers)
{
    struct plain plain;
    if (!make_plain(name, &plain)) {
        return weight_class_of(name, layers);
    }
    uint64_t row = hash_name((struct str){plain.name, plain.bytes}) % WEIGHT_MEMO_ROWS;
    bool known = plain.bytes > 0 && memo->rows[row].bytes == plain.bytes &&
                 memcmp(memo->rows[row].name, plain.name, plain.bytes) == 0;
    if (!known) {
        memcpy(memo->rows[row].name, plain.name, plain.bytes);
        memo->rows[row].bytes = plain.bytes;
        memo->rows[row].class = weight_class_of(name, UINT32_MAX);
        memo->rows[row].block = block_place(name);
    }
    uint32_t block = memo->rows[row].block;
    if (block == UINT32_MAX) {
        return weight_class_of(name, layers);
    }
    return block < WEIGHT_MEMO_NUMBERS && plain.numbers[block] >= layers ? WEIGHT_NOT_LOADED : memo->rows[row].class;
}

const char *weight_class_name(enum weight_class class)
{
    static const char *const names[WEIGHT_CLASSES] = {"resident", "experts", "lookup", "not_loaded"};
    return (unsigned)class < WEIGHT_CLASSES ? names[class] : NULL;
}
