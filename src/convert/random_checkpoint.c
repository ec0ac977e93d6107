/* SPDX-License-Identifier: MIT
 *
 * Random checkpoints in published shapes (the makers' config.json). Every row of a tensor has its own generator, seeded
 * from (seed, tensor, row), so that the bytes do not depend on threads or chunks. Values are uniform with the standard
 * deviation wanted. Q8_0 blocks are drawn as blocks; for the other block formats, whose writers search, a palette of
 * blocks is written once for each format and deviation, and a row draws its blocks from that.
 *
 * Why `spread`: with ordinary scaling what attention and experts write soon outweighs the token's own embedding, hidden
 * states of different tokens point the same way, and routing collapses onto few experts, so that any cache looks
 * brilliant. With the writes scaled down to a tenth of the embedding, each token routes by itself.
 */
#include <math.h>
#include <stdio.h>

#include "base/bytes.h"
#include "convert/convert.h"
#include "convert/output.h"

struct shape {
    const char *name, *family;
    uint32_t layers, hidden, vocab, ctx_max, heads, kv_heads, head_dim, ffn;
    uint32_t experts, top_k, expert_ffn, shared_ffn;
    float norm_eps, rope_theta;
    bool norm_topk, tied, qkv_bias;
};

/* clang-format off */
static const struct shape shapes[] = {
    /*                                 layers hidden   vocab   ctx  heads kv  dim    ffn  exp top  effn shffn   eps    theta */
    {"tiny",              "qwen3-moe",     2,    64,    256,   256,  4,   2,  16,    96,   8,  2,   32,    0, 1e-6f, 1e4f, true,  false, false},
    {"pocket",            "qwen3-moe",     8,   256,   8192,  1024,  4,   2,  64,   512,  64,  8,   64,    0, 1e-6f, 1e4f, true,  true,  false},
    {"qwen3-30b-a3b",     "qwen3-moe",    48,  2048, 151936, 40960, 32,   4, 128,  6144, 128,  8,  768,    0, 1e-6f, 1e6f, true,  false, false},
    {"qwen3-235b-a22b",   "qwen3-moe",    94,  4096, 151936, 40960, 64,   4, 128, 12288, 128,  8, 1536,    0, 1e-6f, 1e6f, true,  false, false},
    {"qwen1.5-moe-a2.7b", "qwen2-moe",    24,  2048, 151936,  8192, 16,  16, 128,  5632,  60,  4, 1408, 5632, 1e-6f, 1e6f, false, false, true},
    {"olmoe-1b-7b",       "olmoe",        16,  2048,  50304,  4096, 16,  16, 128,  1024,  64,  8, 1024,    0, 1e-5f, 1e4f, false, false, false},
    {"mixtral-8x7b",      "mixtral",      32,  4096,  32000, 32768, 32,   8, 128, 14336,   8,  2, 14336,   0, 1e-5f, 1e6f, true,  false, false},
    {"mixtral-8x22b",     "mixtral",      56,  6144,  32768, 65536, 48,   8, 128, 16384,   8,  2, 16384,   0, 1e-5f, 1e6f, true,  false, false},
};
/* clang-format on */
enum { SHAPES_COUNT = sizeof shapes / sizeof shapes[0], META_BYTES = 64 * 1024 };

const char *convert_random_shape(uint32_t i)
{
    return i < SHAPES_COUNT ? shapes[i].name : NULL;
}

/* ---- generator ---------------------------------------------------------------------------------------- */

/* splitmix64 (Steele, Lea, Flood 2014): one addition and one mix a value, any state is a good seed. */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return mix(*state);
}

/* Half-width of a uniform distribution with standard deviation 1. */
static const float uniform_width = 1.7320508f;

static void draw_f32(uint64_t state, float width, uint64_t k, unsigned char *out)
{
    for (uint64_t i = 0; i < k; i++) {
        float value = (float)((int64_t)(draw(&state) >> 40) - (1 << 23)) * (width * 0x1p-23f);
        memcpy(out + 4 * i, &value, sizeof value);
    }
}

static void draw_16(uint64_t state, float width, uint64_t k, bool brain, unsigned char *out)
{
    uint64_t bits = 0;
    for (uint64_t i = 0; i < k; i++) {
        bits = i % 4 == 0 ? draw(&state) : bits >> 16;
        float value = (float)(int16_t)(uint16_t)bits * (width * 0x1p-15f);
        uint16_t half = brain ? bf16_from_f32(value) : f16_from_f32(value);
        memcpy(out + 2 * i, &half, sizeof half);
    }
}

/* Block scales differ by up to a factor of two, quants fill -127..127. */
static void draw_q8_0(uint64_t state, float width, uint64_t k, unsigned char *out)
{
    uint16_t scales[4];
    for (uint32_t i = 0; i < 4; i++) {
        scales[i] = f16_from_f32(width / 127.0f * (0.7f + 0.2f * (float)i));
    }
    for (uint64_t at = 0; at < k; at += 32, out += 34) {
        memcpy(out, &scales[draw(&state) >> 62], 2);
        for (uint32_t i = 0; i < 32; i += 8) {
            uint64_t bits = draw(&state);
            /* -128 is not a value of this format's writers: bytes equal to 0x80 become 0x81 */
            uint64_t x = bits ^ 0x8080808080808080u;
            uint64_t nonzero = ((x & 0x7f7f7f7f7f7f7f7fu) + 0x7f7f7f7f7f7f7f7fu) | x;
            bits |= (~nonzero & 0x8080808080808080u) >> 7;
            memcpy(out + 2 + i, &bits, 8);
        }
    }
}

/* Written blocks of one format and deviation: PALETTE_BLOCKS super-blocks of 256 values. */
struct palette {
    enum dtype type;
    float width;
    unsigned char *blocks;
};
enum { PALETTES_MAX = 64, PALETTE_BLOCKS = 512, PALETTE_VALUES = 256 };

struct random_job {
    const struct convert_plan *plan;
    const struct hparams *hparams;
    uint64_t seed;
    bool spread;
    struct palette *palettes; /* [palettes_count] */
    uint32_t palettes_count;
};

/* Standard deviation of a tensor's values; 0: all ones. */
static float deviation(const struct random_job *job, const struct convert_item *item)
{
    const struct hparams *h = job->hparams;
    float embedding = h->tied_embeddings ? 1.0f / sqrtf((float)h->hidden) : job->spread ? 1.0f : 0.02f;
    float unit = 1.0f / sqrtf((float)item->k);
    switch ((int)item->role) {
    case ROLE_OUT_NORM:
    case ROLE_ATTN_NORM:
    case ROLE_FFN_NORM:
    case ROLE_Q_NORM:
    case ROLE_K_NORM:
        return 0;
    case ROLE_EMBED:
        return embedding;
    case ROLE_Q_BIAS:
    case ROLE_K_BIAS:
    case ROLE_V_BIAS:
        return 0.1f;
    case ROLE_O:
    case ROLE_DOWN:
    case ROLE_SHARED_DOWN:
    case ROLE_EXPERT_DOWN:
        return job->spread ? 0.1f * embedding * unit : unit;
    default:
        return unit;
    }
}

static bool has_palette(enum dtype type)
{
    return quant_row(type)->block_elems > 1 && type != DTYPE_Q8_0;
}

static const struct palette *palette_of(const struct random_job *job, enum dtype type, float width)
{
    for (uint32_t i = 0; i < job->palettes_count; i++) {
        if (job->palettes[i].type == type && job->palettes[i].width == width) {
            return &job->palettes[i];
        }
    }
    return NULL;
}

/* Bytes of 256 values, in whole blocks. */
static uint64_t palette_unit(enum dtype type)
{
    return (uint64_t)PALETTE_VALUES / quant_row(type)->block_elems * quant_row(type)->block_bytes;
}

static berth_status fill_palettes(struct random_job *job, struct arena *scratch, berth_error *err)
{
    float values[PALETTE_VALUES];
    job->palettes = ARENA_NEW(scratch, struct palette, PALETTES_MAX);
    TRY(arena_check(scratch, "random: palettes", err));
    for (uint32_t i = 0; i < job->plan->count; i++) {
        enum dtype type = job->plan->tensors[i].dtype;
        float width = deviation(job, &job->plan->items[i]) * uniform_width;
        if (!has_palette(type) || palette_of(job, type, width) != NULL) {
            continue;
        }
        if (job->palettes_count == PALETTES_MAX) {
            return error_set(err, BERTH_ERR_LIMIT, "more than %d pairs of format and deviation", PALETTES_MAX);
        }
        struct palette palette = {.type = type, .width = width};
        palette.blocks = arena_take(scratch, PALETTE_BLOCKS, palette_unit(type), 0);
        TRY(arena_check(scratch, "random: palettes", err));
        for (uint32_t b = 0; b < PALETTE_BLOCKS; b++) {
            draw_f32(mix(mix(job->seed + type) + b), width, PALETTE_VALUES, (unsigned char *)(void *)values);
            quant_row(type)->quantise(values, palette.blocks + b * palette_unit(type), PALETTE_VALUES);
        }
        job->palettes[job->palettes_count++] = palette;
    }
    return BERTH_OK;
}

static void draw_blocks(const struct palette *palette, uint64_t state, uint64_t k, unsigned char *out)
{
    uint64_t unit = palette_unit(palette->type);
    for (uint64_t at = 0; at < k; at += PALETTE_VALUES, out += unit) {
        const unsigned char *from = palette->blocks + (draw(&state) >> 32) % PALETTE_BLOCKS * unit;
        uint64_t left = k - at; /* whole blocks, less than a unit at the end */
        memcpy(out, from,
               left >= PALETTE_VALUES
                   ? unit
                   : left / quant_row(palette->type)->block_elems * quant_row(palette->type)->block_bytes);
    }
}

static void draw_rows(void *user, uint32_t index, uint64_t row, uint64_t rows, unsigned char *out)
{
    const struct random_job *job = user;
    const struct convert_item *item = &job->plan->items[index];
    enum dtype type = job->plan->tensors[index].dtype;
    uint64_t row_bytes = item->k / quant_row(type)->block_elems * quant_row(type)->block_bytes;
    float width = deviation(job, item) * uniform_width;
    for (uint64_t i = 0; i < rows; i++, out += row_bytes) {
        uint64_t state = mix(mix(job->seed + index) + row + i);
        if (width == 0) {
            const float one = 1.0f; /* norms are F32 vectors */
            memcpy(out, &one, sizeof one);
        } else if (type == DTYPE_F32) {
            draw_f32(state, width, item->k, out);
        } else if (type == DTYPE_Q8_0) {
            draw_q8_0(state, width, item->k, out);
        } else if (has_palette(type)) {
            draw_blocks(palette_of(job, type, width), state, item->k, out);
        } else {
            draw_16(state, width, item->k, type == DTYPE_BF16, out);
        }
    }
}

/* ---- model -------------------------------------------------------------------------------------------- */

static const struct shape *find_shape(const char *name)
{
    for (uint32_t i = 0; i < SHAPES_COUNT; i++) {
        if (strcmp(shapes[i].name, name) == 0) {
            return &shapes[i];
        }
    }
    return NULL;
}

static berth_status unknown_shape(const char *name, berth_error *err)
{
    char list[256];
    size_t at = 0;
    for (uint32_t i = 0; i < SHAPES_COUNT && at + 32 < sizeof list; i++) {
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "", shapes[i].name);
    }
    return error_set(err, BERTH_ERR_NOT_FOUND, "no shape is called \"%s\"; there are: %s", name, list);
}

static berth_status fill_hparams(const struct shape *shape, const struct convert_random *spec, struct hparams *h,
                                 berth_error *err)
{
    *h = (struct hparams){.layers = spec->layers == 0 ? shape->layers : spec->layers,
                          .hidden = shape->hidden,
                          .vocab = shape->vocab,
                          .ctx_max = shape->ctx_max,
                          .heads = shape->heads,
                          .kv_heads = shape->kv_heads,
                          .head_dim = shape->head_dim,
                          .ffn = shape->ffn,
                          .norm_eps = shape->norm_eps,
                          .rope_theta = shape->rope_theta,
                          .rotary_dim = shape->head_dim,
                          .rope_factor = 1,
                          .rope_attention_multiplier = 1,
                          .tied_embeddings = shape->tied,
                          .experts = spec->experts == 0 ? shape->experts : spec->experts,
                          .top_k = shape->top_k,
                          .expert_ffn = shape->expert_ffn,
                          .shared_ffn = shape->shared_ffn,
                          .norm_topk = shape->norm_topk};
    if (h->layers > LAYERS_MAX || h->experts < h->top_k || h->experts > 4096) {
        return error_set(err, BERTH_ERR_ARGUMENT,
                         "%u layers and %u experts: want at most %d layers, and %u to 4096 "
                         "experts",
                         h->layers, h->experts, LAYERS_MAX, h->top_k);
    }
    memset(h->layer_moe, 1, h->layers);
    h->moe_layers = h->layers;
    return BERTH_OK;
}

static berth_status random_write(struct convert_output *output, const struct shape *shape,
                                 const struct convert_random *spec, berth_error *err)
{
    struct convert_model model = {.qkv_bias = shape->qkv_bias};
    struct hparams hparams;
    struct convert_plan plan;
    struct gguf_meta meta;
    char name[128];
    for (uint32_t i = 0; i < families_count; i++) {
        model.family = strcmp(families[i]->name, shape->family) == 0 ? families[i] : model.family;
    }
    if (model.family == NULL) {
        return error_set(err, BERTH_ERR_INTERNAL, "shape %s names family %s, which does not exist", shape->name,
                         shape->family);
    }
    TRY(fill_hparams(shape, spec, &hparams, err));
    model.hparams = &hparams;
    TRY(convert_plan_family(output->scratch, &model, output->recipe, output->config->overrides, &plan, err));
    TRY(convert_take_meta(output->scratch, META_BYTES, &meta, err));
    snprintf(name, sizeof name, "random %s seed %llu%s", shape->name, (unsigned long long)spec->seed,
             spec->spread ? " spread" : "");
    TRY(convert_general_meta(&model, name, output->recipe, output->scratch, &meta, err));
    gguf_meta_str(&meta, "tokenizer.ggml.model", STR("none"));
    struct random_job job = {.plan = &plan, .hparams = &hparams, .seed = spec->seed, .spread = spec->spread};
    TRY(fill_palettes(&job, output->scratch, err));
    output->plan = &plan;
    output->meta = &meta;
    output->model = &model;
    output->draw = draw_rows;
    output->draw_user = &job;
    return convert_write(output, err);
}

berth_status convert_write_random(const char *out_path, const struct convert_random *spec,
                                  const struct convert_config *config, bool overwrite, berth_error *err)
{
    struct convert_config used = *config;
    const struct convert_recipe *recipe = NULL;
    used.type = spec->type;
    used.recipe = spec->recipe;
    TRY(convert_check_config(&used, &recipe, err));
    const struct shape *shape = find_shape(spec->shape);
    if (shape == NULL) {
        return unknown_shape(spec->shape, err);
    }
    struct arena scratch;
    TRY(convert_reserve_scratch(&scratch, err));
    struct convert_output output = {
        .path = out_path, .overwrite = overwrite, .config = &used, .recipe = recipe, .scratch = &scratch};
    berth_status status = random_write(&output, shape, spec, err);
    os_release(scratch.base, scratch.cap_bytes);
    return status;
}
