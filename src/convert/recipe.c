/* SPDX-License-Identifier: MIT
 * The mixes are llama.cpp's, as facts about its files: names, numbers and which tensors differ (its release 0.5.0). */
#include "convert/recipe.h"

#include <string.h>

/* Layers that a rule is about, of `layers` in all. */
enum where {
    ALL_LAYERS = 0,
    FIRST_TWO,
    FIRST_FOUR,
    FIRST_EIGHTH,
    FIRST_SIXTEENTH,
    OUTER_AND_THIRDS /* the first and the last eighth, and every third layer between them */
};

struct recipe_rule {
    const char *part; /* of the name, after "blk.N." */
    enum where where;
    enum dtype type;
    uint8_t experts; /* nonzero: only in models with exactly so many experts */
    uint8_t groups;  /* nonzero: only with at least so many query heads a key head */
};

#define END          \
    {                \
        .part = NULL \
    }
/* Eight experts as in Mixtral: attention is so small a share that the bits are nothing. */
#define EIGHT_EXPERTS_KV                        \
    {"attn_v.", ALL_LAYERS, DTYPE_Q8_0, 8, 0},  \
    {                                           \
        "attn_k.", ALL_LAYERS, DTYPE_Q8_0, 8, 0 \
    }
#define EIGHT_EXPERTS_OUT                            \
    {                                                \
        "attn_output.", ALL_LAYERS, DTYPE_Q5_K, 8, 0 \
    }

static const struct recipe_rule rules_plain_k[] = {EIGHT_EXPERTS_KV, END};
static const struct recipe_rule rules_q2_k[] = {EIGHT_EXPERTS_KV,
                                                EIGHT_EXPERTS_OUT,
                                                {"attn_v.", ALL_LAYERS, DTYPE_Q4_K, 0, 4},
                                                {"attn_v.", ALL_LAYERS, DTYPE_Q3_K, 0, 0},
                                                {"ffn_down", ALL_LAYERS, DTYPE_Q3_K, 0, 0},
                                                {"attn_output.", ALL_LAYERS, DTYPE_Q3_K, 0, 0},
                                                END};
static const struct recipe_rule rules_q3_k_s[] = {EIGHT_EXPERTS_KV, EIGHT_EXPERTS_OUT, END};
static const struct recipe_rule rules_q3_k_m[] = {EIGHT_EXPERTS_KV,
                                                  EIGHT_EXPERTS_OUT,
                                                  {"attn_v.", FIRST_TWO, DTYPE_Q5_K, 0, 0},
                                                  {"attn_v.", ALL_LAYERS, DTYPE_Q4_K, 0, 0},
                                                  {"ffn_down", FIRST_SIXTEENTH, DTYPE_Q5_K, 0, 0},
                                                  {"ffn_down", ALL_LAYERS, DTYPE_Q4_K, 0, 0},
                                                  {"attn_output.", ALL_LAYERS, DTYPE_Q4_K, 0, 0},
                                                  {"attn_qkv.", ALL_LAYERS, DTYPE_Q4_K, 0, 0},
                                                  END};
static const struct recipe_rule rules_q3_k_l[] = {EIGHT_EXPERTS_KV,
                                                  {"attn_output.", ALL_LAYERS, DTYPE_Q3_K, 8, 0},
                                                  {"attn_v.", ALL_LAYERS, DTYPE_Q5_K, 0, 0},
                                                  {"ffn_down", ALL_LAYERS, DTYPE_Q5_K, 0, 0},
                                                  {"attn_output.", ALL_LAYERS, DTYPE_Q5_K, 0, 0},
                                                  {"attn_qkv.", ALL_LAYERS, DTYPE_Q4_K, 0, 0},
                                                  END};
static const struct recipe_rule rules_q4_k_s[] = {EIGHT_EXPERTS_KV,
                                                  EIGHT_EXPERTS_OUT,
                                                  {"attn_v.", FIRST_FOUR, DTYPE_Q5_K, 0, 0},
                                                  {"ffn_down", FIRST_EIGHTH, DTYPE_Q5_K, 0, 0},
                                                  END};
static const struct recipe_rule rules_q4_k_m[] = {EIGHT_EXPERTS_KV,
                                                  EIGHT_EXPERTS_OUT,
                                                  {"attn_v.", OUTER_AND_THIRDS, DTYPE_Q6_K, 0, 0},
                                                  {"ffn_down", OUTER_AND_THIRDS, DTYPE_Q6_K, 0, 0},
                                                  {"attn_qkv.", ALL_LAYERS, DTYPE_Q5_K, 0, 0},
                                                  END};
static const struct recipe_rule rules_q5_k_m[] = {EIGHT_EXPERTS_KV,
                                                  {"attn_v.", OUTER_AND_THIRDS, DTYPE_Q6_K, 0, 0},
                                                  {"ffn_down", OUTER_AND_THIRDS, DTYPE_Q6_K, 0, 0},
                                                  {"attn_qkv.", ALL_LAYERS, DTYPE_Q6_K, 0, 0},
                                                  END};
static const struct recipe_rule rules_iq4[] = {EIGHT_EXPERTS_KV,
                                               EIGHT_EXPERTS_OUT,
                                               {"attn_v.", ALL_LAYERS, DTYPE_Q5_K, 0, 4},
                                               {"ffn_down", FIRST_EIGHTH, DTYPE_Q5_K, 0, 0},
                                               END};
/* Attention holds few of a mixture's weights. */
static const struct recipe_rule rules_mxfp4[] = {{"ffn_gate_exps.", ALL_LAYERS, DTYPE_MXFP4, 0, 0},
                                                 {"ffn_up_exps.", ALL_LAYERS, DTYPE_MXFP4, 0, 0},
                                                 {"ffn_gate_up_exps.", ALL_LAYERS, DTYPE_MXFP4, 0, 0},
                                                 {"ffn_down_exps.", ALL_LAYERS, DTYPE_MXFP4, 0, 0},
                                                 END};
static const struct recipe_rule rules_none[] = {END};

/* clang-format off */
static const struct convert_recipe recipes[] = {
    {"f32",    DTYPE_F32,    0,  DTYPE_F32,  rules_none},
    {"f16",    DTYPE_F16,    1,  DTYPE_F16,  rules_none},
    {"bf16",   DTYPE_BF16,   32, DTYPE_BF16, rules_none},
    {"q8_0",   DTYPE_Q8_0,   7,  DTYPE_Q8_0, rules_none},
    {"q4_0",   DTYPE_Q4_0,   2,  DTYPE_Q6_K, rules_plain_k},
    {"q4_1",   DTYPE_Q4_1,   3,  DTYPE_Q6_K, rules_plain_k},
    {"q5_0",   DTYPE_Q5_0,   8,  DTYPE_Q6_K, rules_plain_k},
    {"q5_1",   DTYPE_Q5_1,   9,  DTYPE_Q6_K, rules_plain_k},
    {"q2_k",   DTYPE_Q2_K,   10, DTYPE_Q6_K, rules_q2_k},
    {"q3_k_s", DTYPE_Q3_K,   11, DTYPE_Q6_K, rules_q3_k_s},
    {"q3_k_m", DTYPE_Q3_K,   12, DTYPE_Q6_K, rules_q3_k_m},
    {"q3_k_l", DTYPE_Q3_K,   13, DTYPE_Q6_K, rules_q3_k_l},
    {"q4_k_s", DTYPE_Q4_K,   14, DTYPE_Q6_K, rules_q4_k_s},
    {"q4_k_m", DTYPE_Q4_K,   15, DTYPE_Q6_K, rules_q4_k_m},
    {"q5_k_s", DTYPE_Q5_K,   16, DTYPE_Q6_K, rules_plain_k},
    {"q5_k_m", DTYPE_Q5_K,   17, DTYPE_Q6_K, rules_q5_k_m},
    {"q6_k",   DTYPE_Q6_K,   18, DTYPE_Q6_K, rules_plain_k},
    {"iq4_nl", DTYPE_IQ4_NL, 25, DTYPE_Q6_K, rules_iq4},
    {"iq4_xs", DTYPE_IQ4_XS, 30, DTYPE_Q6_K, rules_iq4},
    {"mxfp4",  DTYPE_Q8_0,   38, DTYPE_Q8_0, rules_mxfp4},
    /* One format for all matrices but the head: the plain names of the K formats. */
    {"q3_k",   DTYPE_Q3_K,   11, DTYPE_Q6_K, rules_none},
    {"q4_k",   DTYPE_Q4_K,   14, DTYPE_Q6_K, rules_none},
    {"q5_k",   DTYPE_Q5_K,   16, DTYPE_Q6_K, rules_none},
};
/* clang-format on */
enum { RECIPES = sizeof recipes / sizeof recipes[0] };

const struct convert_recipe *convert_recipe_row(uint32_t i)
{
    return i < RECIPES ? &recipes[i] : NULL;
}

const struct convert_recipe *convert_recipe_find(struct str name)
{
    for (uint32_t i = 0; i < RECIPES; i++) {
        if (str_same(name, str_from(recipes[i].name))) {
            return &recipes[i];
        }
    }
    return NULL;
}

const struct convert_recipe *convert_recipe_plain(enum dtype type)
{
    return (unsigned)type < DTYPE_COUNT ? convert_recipe_find(str_from(quant_row(type)->name)) : NULL;
}

static bool layer_matches(enum where where, uint32_t layer, uint32_t layers)
{
    uint32_t eighth = layers / 8;
    switch (where) {
    case ALL_LAYERS:
        return true;
    case FIRST_TWO:
        return layer < 2;
    case FIRST_FOUR:
        return layer < 4;
    case FIRST_EIGHTH:
        return layer < eighth;
    case FIRST_SIXTEENTH:
        return layer < layers / 16;
    case OUTER_AND_THIRDS:
        return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
    }
    return false;
}

/* "blk.12.attn_v.weight" into 12 and "attn_v.weight"; false: the name is none of a layer. */
static bool layer_part(struct str name, uint32_t *layer, struct str *part)
{
    if (!str_starts(name, STR("blk."))) {
        return false;
    }
    size_t at = 4;
    *layer = 0;
    while (at < name.bytes && name.ptr[at] >= '0' && name.ptr[at] <= '9' && at < 12) {
        *layer = *layer * 10 + (uint32_t)(name.ptr[at++] - '0');
    }
    if (at == 4 || at == name.bytes || name.ptr[at] != '.') {
        return false;
    }
    *part = (struct str){name.ptr + at + 1, name.bytes - at - 1};
    return true;
}

static enum dtype wanted(const struct convert_recipe *recipe, const struct recipe_model *model, struct str name)
{
    uint32_t layer;
    struct str part;
    if (str_is(name, "output.weight") || (model->tied && str_is(name, "token_embd.weight"))) {
        return recipe->head;
    }
    if (!layer_part(name, &layer, &part)) {
        return recipe->base;
    }
    for (const struct recipe_rule *rule = recipe->rules; rule->part != NULL; rule++) {
        if (str_starts(part, str_from(rule->part)) && (rule->experts == 0 || rule->experts == model->experts) &&
            model->query_groups >= rule->groups && layer_matches(rule->where, layer, model->layers)) {
            return rule->type;
        }
    }
    return recipe->base;
}

/* A format of about as many bits whose smaller block may divide the row. */
static enum dtype smaller_block(enum dtype type)
{
    switch ((int)type) {
    case DTYPE_Q2_K:
    case DTYPE_Q3_K:
        return DTYPE_Q4_0;
    case DTYPE_IQ4_XS:
        return DTYPE_IQ4_NL;
    case DTYPE_Q4_K:
        return DTYPE_Q5_0;
    case DTYPE_Q5_K:
        return DTYPE_Q5_1;
    case DTYPE_Q6_K:
        return DTYPE_Q8_0;
    default:
        return DTYPE_F16;
    }
}

/* ---- overrides --------------------------------------------------------------------------------------- */

struct override {
    struct str part, type;
};

/* The next item of the list at *at, which moves on; false: the list is over. */
static bool next_override(const char **at, struct override *out)
{
    if (**at == '\0') {
        return false;
    }
    size_t bytes = strcspn(*at, ",");
    const char *equals = memchr(*at, '=', bytes);
    size_t part = equals == NULL ? bytes : (size_t)(equals - *at);
    *out = (struct override){{*at, part}, {*at + part + 1, equals == NULL ? 0 : bytes - part - 1}};
    *at += bytes;
    *at += **at == ',' ? 1 : 0;
    return true;
}

static bool str_has(struct str text, struct str part)
{
    for (size_t i = 0; i + part.bytes <= text.bytes; i++) {
        if (memcmp(text.ptr + i, part.ptr, part.bytes) == 0) {
            return true;
        }
    }
    return false;
}

berth_status convert_check_overrides(const char *overrides, berth_error *err)
{
    struct override item;
    while (overrides != NULL && next_override(&overrides, &item)) {
        if (item.part.bytes == 0 || item.type.bytes == 0) {
            return error_set(err, BERTH_ERR_ARGUMENT, "a tensor type is given as PART=TYPE, not \"%.*s\"",
                             STR_ARG(item.part));
        }
        enum dtype type = quant_from_name(item.type);
        if (type == DTYPE_COUNT || quant_row(type)->quantise == NULL) {
            return error_set(err, BERTH_ERR_ARGUMENT, "tensors \"%.*s\": %.*s is no format that convert writes",
                             STR_ARG(item.part), STR_ARG(item.type));
        }
    }
    return BERTH_OK;
}

bool convert_override_part(const char **overrides, struct str *part)
{
    struct override item;
    bool more = *overrides != NULL && next_override(overrides, &item);
    if (more) {
        *part = item.part;
    }
    return more;
}

bool convert_override_fits(struct str part, struct str name)
{
    return str_has(name, part);
}

static bool overridden(const char *overrides, struct str name, enum dtype *type)
{
    struct override item;
    while (overrides != NULL && next_override(&overrides, &item)) {
        if (str_has(name, item.part)) {
            *type = quant_from_name(item.type);
            return true;
        }
    }
    return false;
}

enum dtype convert_recipe_type(const struct convert_recipe *recipe, const char *overrides,
                               const struct recipe_model *model, struct str name, uint64_t k, bool *fell_back)
{
    enum dtype type;
    if (!overridden(overrides, name, &type)) {
        type = wanted(recipe, model, name);
    }
    *fell_back = false;
    while (k % quant_row(type)->block_elems != 0) {
        type = smaller_block(type);
        *fell_back = true;
    }
    return type;
}
