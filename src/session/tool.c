/* SPDX-License-Identifier: MIT
 * src/tool.h: looking into checkpoints and writing them, for the program. */
#include "tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "compute/kernels.h"
#include "convert/convert.h"
#include "fit/spec.h"
#include "memory/arena.h"
#include "model/checkpoint.h"
#include "model/json.h"
#include "os/memory.h"

/* ---- the build -------------------------------------------------------------------------------------- */

void tool_kernels(char *text, size_t cap)
{
    static const berth_isa order[] = {BERTH_ISA_AVX512, BERTH_ISA_AVX2, BERTH_ISA_NEON, BERTH_ISA_REF};
    size_t used = 0;
    if (cap > 0) {
        text[0] = '\0';
    }
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const struct kernels *row = kernels_select(order[i]);
        if (row != NULL && used < cap) {
            int written = snprintf(text + used, cap - used, "%s%s", used > 0 ? " " : "", row->name);
            used += written > 0 ? (size_t)written : 0;
        }
    }
}

/* ---- looking into a checkpoint ---------------------------------------------------------------------- */

/* A tool_checkpoint is a spec after its first half, so that a planner's is one too. */
static const struct spec *spec_of(const tool_checkpoint *tool)
{
    return (const struct spec *)tool;
}

berth_status tool_open(const char *path, tool_checkpoint **out, berth_error *err)
{
    const struct spec_request request = {.path = path, .cap_bytes = (uint64_t)4 << 30, .may_be_less = true};
    struct spec *spec = NULL;
    TRY(spec_begin(&request, CHECKPOINT_WANT_TENSORS, &spec, err));
    *out = (tool_checkpoint *)spec;
    return BERTH_OK;
}

void tool_close(tool_checkpoint *tool)
{
    spec_close((struct spec *)tool);
}

static void count_dtype(tool_summary *out, const struct tensor *tensor)
{
    const char *name = quant_row(tensor->dtype)->name;
    uint32_t at = 0;
    while (at < out->dtypes_count && strcmp(out->dtypes[at].dtype, name) != 0) {
        at++;
    }
    if (at == TOOL_DTYPES_MAX) {
        return;
    }
    if (at == out->dtypes_count) {
        out->dtypes_count++;
        out->dtypes[at].dtype = name;
    }
    out->dtypes[at].tensors++;
    out->dtypes[at].bytes += tensor->bytes;
}

static void sort_dtypes(tool_summary *out)
{
    for (uint32_t i = 1; i < out->dtypes_count; i++) {
        for (uint32_t j = i; j > 0 && out->dtypes[j].bytes > out->dtypes[j - 1].bytes; j--) {
            const char *dtype = out->dtypes[j].dtype;
            uint32_t tensors = out->dtypes[j].tensors;
            uint64_t bytes = out->dtypes[j].bytes;
            out->dtypes[j] = out->dtypes[j - 1];
            out->dtypes[j - 1].dtype = dtype;
            out->dtypes[j - 1].tensors = tensors;
            out->dtypes[j - 1].bytes = bytes;
        }
    }
}

/* Names a model for calibration; keeps no secret. */
static void fingerprint(const struct checkpoint *checkpoint, char text[17])
{
    uint64_t hash = hash_bytes(HASH_SEED, checkpoint->name, strlen(checkpoint->name));
    for (uint32_t i = 0; i < checkpoint->tensors.count; i++) {
        const struct tensor *tensor = &checkpoint->tensors.items[i];
        uint32_t dtype = (uint32_t)tensor->dtype;
        hash = hash_bytes(hash, tensor->name.ptr, tensor->name.bytes);
        hash = hash_bytes(hash, &dtype, sizeof dtype);
        hash = hash_bytes(hash, tensor->dims, tensor->dims_count * sizeof tensor->dims[0]);
    }
    snprintf(text, 17, "%016" PRIx64, hash);
}

/* What a token multiplies by: every matrix once, of the experts those it selects. */
static void count_work(const struct spec *spec, tool_summary *out)
{
    const struct hparams *h = &spec->hparams;
    const struct tensor_dir *dir = &spec->checkpoint.tensors;
    double lookup = 0;
    for (uint32_t i = 0; i < dir->count && !h->tied_embeddings; i++) {
        const struct tensor *tensor = &dir->items[i];
        if (str_is(tensor->name, "token_embd.weight") || str_is(tensor->name, "model.embed_tokens.weight")) {
            out->lookup_bytes = tensor->bytes;
            lookup = (double)tensor_elems(tensor);
        }
    }
    double expert = 3.0 * h->hidden * h->expert_ffn;
    double idle = (double)h->moe_layers * (h->experts - h->top_k) * expert;
    out->token_macs = (double)out->parameters - lookup - idle;
}

void tool_summarise(const tool_checkpoint *tool, tool_summary *out)
{
    const struct spec *spec = spec_of(tool);
    const struct checkpoint *checkpoint = &spec->checkpoint;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", checkpoint->name);
    if (checkpoint->format == CHECKPOINT_GGUF) {
        snprintf(out->format, sizeof out->format, "GGUF v%" PRIu32, checkpoint->version);
    } else {
        snprintf(out->format, sizeof out->format, "safetensors");
    }
    out->files = checkpoint->files_count;
    out->tensors = checkpoint->tensors.count;
    out->meta_pairs = checkpoint->meta.count;
    out->header_bytes = checkpoint->header_bytes;
    for (uint32_t i = 0; i < checkpoint->files_count; i++) {
        out->file_bytes += checkpoint->files[i].size_bytes;
    }
    for (uint32_t i = 0; i < checkpoint->tensors.count; i++) {
        const struct tensor *tensor = &checkpoint->tensors.items[i];
        out->tensor_bytes += tensor_stored_bytes(tensor);
        out->parameters += tensor_elems(tensor);
        count_dtype(out, tensor);
    }
    sort_dtypes(out);
    fingerprint(checkpoint, out->fingerprint);
    if (spec->family == NULL) {
        snprintf(out->family_problem, sizeof out->family_problem, "%s", spec->family_problem.message);
        out->family_is_broken = spec->family_status == BERTH_ERR_FORMAT;
        return;
    }
    const struct hparams *h = &spec->hparams;
    snprintf(out->family, sizeof out->family, "%s", spec->family->name);
    out->layers = h->layers;
    out->hidden = h->hidden;
    out->heads = h->heads;
    out->kv_heads = h->kv_heads;
    out->head_dim = h->head_dim;
    out->vocab = h->vocab;
    out->ctx_max_tokens = h->ctx_max;
    out->moe_layers = h->moe_layers;
    out->experts = h->experts;
    out->top_k = h->top_k;
    out->expert_ffn = h->expert_ffn;
    out->shared_ffn = h->shared_ffn;
    out->ffn = h->ffn;
    out->sliding_window = h->sliding_window;
    count_work(spec, out);
}

void tool_each_tensor(const tool_checkpoint *tool, tool_tensor_fn *fn, void *user)
{
    const struct tensor_dir *dir = &spec_of(tool)->checkpoint.tensors;
    for (uint32_t i = 0; i < dir->count; i++) {
        const struct tensor *tensor = &dir->items[i];
        tool_tensor shown = {
            .name = tensor->name.ptr,
            .name_bytes = tensor->name.bytes,
            .dtype = quant_row(tensor->dtype)->name,
            .dims_count = tensor->dims_count,
            .file = tensor->file,
            .offset = tensor->offset,
            .bytes = tensor_stored_bytes(tensor),
        };
        _Static_assert(sizeof shown.dims == sizeof tensor->dims, "room for every dim");
        memcpy(shown.dims, tensor->dims, sizeof shown.dims);
        if (!fn(user, &shown)) {
            return;
        }
    }
}

const char *tool_file_name(const tool_checkpoint *tool, uint32_t file)
{
    const struct checkpoint *checkpoint = &spec_of(tool)->checkpoint;
    return file < checkpoint->files_count ? checkpoint->files[file].path : "";
}

/* ---- metadata as text ------------------------------------------------------------------------------- */

static const char *const meta_type_names[] = {
    [META_U8] = "u8",   [META_I8] = "i8",   [META_U16] = "u16",   [META_I16] = "i16",       [META_U32] = "u32",
    [META_I32] = "i32", [META_F32] = "f32", [META_BOOL] = "bool", [META_STRING] = "string", [META_ARRAY] = "array",
    [META_U64] = "u64", [META_I64] = "i64", [META_F64] = "f64",
};

enum { META_TEXT_MAX = 512, META_ITEM_MAX = 24, META_ITEMS_SHOWN = 8 };

static size_t scalar_width(enum meta_type type)
{
    static const unsigned char widths[] = {
        [META_U8] = 1,  [META_I8] = 1,   [META_U16] = 2, [META_I16] = 2, [META_U32] = 4, [META_I32] = 4,
        [META_F32] = 4, [META_BOOL] = 1, [META_U64] = 8, [META_I64] = 8, [META_F64] = 8,
    };
    return (size_t)type < sizeof widths ? widths[type] : 0;
}

/* One scalar at its little-endian bytes. */
static void scalar_text(enum meta_type type, const unsigned char *at, char *text, size_t cap)
{
    size_t width = scalar_width(type);
    uint64_t bits = 0;
    memcpy(&bits, at, width);
    if (type == META_F32) {
        snprintf(text, cap, "%.9g", (double)f32_from_bits((uint32_t)bits));
    } else if (type == META_F64) {
        double value;
        memcpy(&value, &bits, sizeof value);
        snprintf(text, cap, "%.17g", value);
    } else if (type == META_BOOL) {
        snprintf(text, cap, "%s", bits != 0 ? "true" : "false");
    } else if (type == META_I8 || type == META_I16 || type == META_I32 || type == META_I64) {
        unsigned shift = (unsigned)(64 - width * 8);
        snprintf(text, cap, "%" PRId64, (int64_t)(bits << shift) >> shift);
    } else {
        snprintf(text, cap, "%" PRIu64, bits);
    }
}

static size_t append(char *text, size_t used, const char *more, size_t bytes)
{
    size_t room = META_TEXT_MAX - used;
    bytes = bytes < room ? bytes : room;
    memcpy(text + used, more, bytes);
    return used + bytes;
}

/* The first items of an array: "[1, 2, 3, ...]". */
static size_t array_text(const struct meta_pair *pair, char text[META_TEXT_MAX])
{
    size_t used = append(text, 0, "[", 1);
    struct meta_strings walk;
    bool strings = meta_strings_begin(pair, &walk);
    uint64_t shown = pair->count < META_ITEMS_SHOWN ? pair->count : META_ITEMS_SHOWN;
    for (uint64_t i = 0; i < shown; i++) {
        if (i > 0) {
            used = append(text, used, ", ", 2);
        }
        if (strings) {
            struct str item;
            if (!meta_strings_next(&walk, &item)) {
                break;
            }
            used = append(text, used, "\"", 1);
            used = append(text, used, item.ptr, item.bytes < META_ITEM_MAX ? item.bytes : META_ITEM_MAX);
            used = append(text, used, "\"", 1);
        } else {
            char item[40];
            scalar_text(pair->item_type, pair->value + i * scalar_width(pair->item_type), item, sizeof item);
            used = append(text, used, item, strlen(item));
        }
    }
    const char *end = shown < pair->count ? ", ...]" : "]";
    return append(text, used, end, strlen(end));
}

static void each_pair(const struct meta *meta, tool_meta_fn *fn, void *user)
{
    for (uint32_t i = 0; i < meta->count; i++) {
        const struct meta_pair *pair = &meta->pairs[i];
        char text[META_TEXT_MAX];
        tool_meta shown = {
            .key = pair->key.ptr,
            .key_bytes = pair->key.bytes,
            .type = meta_type_names[pair->type],
            .value = text,
            .count = 1,
        };
        struct str string;
        if (pair->type == META_ARRAY) {
            shown.count = pair->count;
            shown.value_bytes = array_text(pair, text);
        } else if (pair->type == META_STRING && meta_str(meta, pair->key, &string)) {
            shown.value = string.ptr;
            shown.value_bytes = string.bytes;
        } else {
            scalar_text(pair->type, pair->value, text, sizeof text);
            shown.value_bytes = strlen(text);
        }
        if (!fn(user, &shown)) {
            return;
        }
    }
}

static const char *json_type_name(enum json_kind kind)
{
    switch (kind) {
    case JSON_OBJECT_BEGIN:
        return "object";
    case JSON_ARRAY_BEGIN:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_NUMBER:
        return "number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "bool";
    case JSON_NULL:
        return "null";
    case JSON_ERROR:
    case JSON_END:
    case JSON_KEY:
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        break;
    }
    return "unknown";
}

/* Top-level members of config.json, values as they are spelled there. */
static void each_member(struct str document, tool_meta_fn *fn, void *user)
{
    struct json json;
    json_begin(&json, document);
    json.allow_nonfinite = true;
    if (document.bytes == 0 || json_next(&json) != JSON_OBJECT_BEGIN) {
        return;
    }
    while (json_next(&json) == JSON_KEY) {
        struct json_token key = json.token;
        enum json_kind kind = json_next(&json);
        struct json_token value = json.token;
        if (kind == JSON_ERROR || !json_skip(&json)) {
            return;
        }
        /* After the skip the parser stands behind the value. */
        tool_meta shown = {.key = key.raw.ptr, .key_bytes = key.raw.bytes, .type = json_type_name(kind), .count = 1};
        shown.value = document.ptr + value.offset;
        shown.value_bytes = json.at - value.offset;
        if (kind == JSON_STRING) {
            shown.value = value.raw.ptr;
            shown.value_bytes = value.raw.bytes;
        }
        if (!fn(user, &shown)) {
            return;
        }
    }
}

void tool_each_meta(const tool_checkpoint *tool, tool_meta_fn *fn, void *user)
{
    const struct checkpoint *checkpoint = &spec_of(tool)->checkpoint;
    if (checkpoint->format == CHECKPOINT_GGUF) {
        each_pair(&checkpoint->meta, fn, user);
    } else {
        each_member(checkpoint->config_json, fn, user);
    }
}

berth_status tool_read_shape(const char *path, tool_shape *out, berth_error *err)
{
    tool_checkpoint *tool;
    TRY(tool_open(path, &tool, err));
    const struct spec *spec = spec_of(tool);
    berth_status status = spec->family_status;
    if (status == BERTH_OK) {
        *out = (tool_shape){.vocab = spec->hparams.vocab, .ctx_max_tokens = spec->hparams.ctx_max};
    } else if (err != NULL) {
        *err = spec->family_problem;
    }
    tool_close(tool);
    return status;
}

/* ---- writing checkpoints ---------------------------------------------------------------------------- */

static berth_status convert_settings(const tool_convert *config, struct convert_config *out, berth_error *err)
{
    const struct convert_recipe *recipe = convert_recipe_find(str_from(config->type));
    if (recipe == NULL) {
        convert_unknown_type(config->type, err);
        error_at_object(err, "--type", 6);
        return BERTH_ERR_ARGUMENT;
    }
    *out = (struct convert_config){
        .recipe = recipe,
        .overrides = config->overrides,
        .split_bytes = config->split_bytes,
        .alignment = config->alignment,
        .threads = config->threads,
        .buffer_bytes = config->buffer_bytes,
        .progress = config->progress,
        .progress_user = config->progress_user,
        .log = {config->log, config->log_user},
    };
    return BERTH_OK;
}

const char *tool_convert_type(uint32_t i)
{
    const struct convert_recipe *row = convert_recipe_row(i);
    return row != NULL ? row->name : NULL;
}

berth_status tool_convert_run(const char *in_path, const char *out_path, const tool_convert *config, berth_error *err)
{
    struct convert_config settings;
    TRY(convert_settings(config, &settings, err));
    return convert_run(in_path, out_path, &settings, config->overwrite, err);
}

berth_status tool_random_run(const char *out_path, const tool_random *spec, const tool_convert *config,
                             berth_error *err)
{
    struct convert_config settings;
    TRY(convert_settings(config, &settings, err));
    struct convert_random random = {
        .shape = spec->shape,
        .layers = spec->layers,
        .experts = spec->experts,
        .recipe = settings.recipe,
        .seed = spec->seed,
        .spread = spec->spread,
    };
    return convert_write_random(out_path, &random, &settings, config->overwrite, err);
}

const char *tool_random_shape(uint32_t i)
{
    return convert_random_shape(i);
}
