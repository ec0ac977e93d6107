/* SPDX-License-Identifier: MIT
 * src/tool.h: any model's shape and weights from its headers, and llama.cpp's rules for them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "family/shape.h"
#include "fit/llama_cpp.h"
#include "fit/llama_speed.h"
#include "fit/spec.h"
#include "model/checkpoint.h"
#include "os/memory.h"
#include "tool.h"

struct tool_model {
    void *region;
    uint64_t region_bytes;
    const struct checkpoint *checkpoint; /* own, or borrowed */
    struct checkpoint own;               /* no files when borrowed */
    struct shape shape;
    tool_model_info info;
    uint64_t embed_bytes; /* token embedding */
    uint64_t draft_bytes; /* blocks for further tokens, of those that are not loaded */
};

/* ---- opening ---------------------------------------------------------------------------------------- */

/* A directory or config.json without weights opens as configuration alone, and so does one whose sizes are said. */
static berth_status open_files(tool_model *model, const char *path, bool has_sizes, struct arena *arena,
                               berth_error *err)
{
    berth_error first;
    if (has_sizes) {
        TRY(checkpoint_open(&model->own, path, 0, arena, NULL, err));
        if (model->own.format != CHECKPOINT_GGUF) {
            return BERTH_OK;
        }
        berth_status status = error_set(err, BERTH_ERR_ARGUMENT,
                                        "sizes of weights can be said of a config.json or a Hugging Face directory; "
                                        "a GGUF file has its own");
        error_at_path(err, path);
        return status;
    }
    berth_status status = checkpoint_open(&model->own, path, CHECKPOINT_WANT_TENSORS, arena, NULL, &first);
    if (status == BERTH_OK) {
        return BERTH_OK;
    }
    if (str_ends(str_from(path), STR(".json"))) {
        berth_error second;
        if (checkpoint_open(&model->own, path, 0, arena, NULL, &second) == BERTH_OK) {
            return BERTH_OK;
        }
    }
    if (err != NULL) {
        *err = first;
    }
    return status;
}

static bool is_output(struct str name)
{
    return str_is(name, "output.weight") || str_ends(name, STR("lm_head.weight"));
}

static bool is_embedding(struct str name)
{
    return str_is(name, "token_embd.weight") || str_ends(name, STR("embed_tokens.weight"));
}

/* Not loaded for its number alone, or for a name that says so. */
static bool is_draft(struct str name)
{
    bool named = str_starts(name, STR("mtp."));
    for (size_t i = 0; !named && i + 5 <= name.bytes; i++) {
        named = memcmp(name.ptr + i, ".mtp.", 5) == 0;
    }
    return named || weight_class_of(name, UINT32_MAX) != WEIGHT_NOT_LOADED;
}

static void weigh(tool_model *model)
{
    tool_model_info *info = &model->info;
    const struct tensor_dir *dir = &model->checkpoint->tensors;
    struct weight_memo memo = {.rows = {{.bytes = 0}}};
    bool has_output = false;
    for (uint32_t i = 0; i < dir->count; i++) {
        const struct tensor *tensor = &dir->items[i];
        enum weight_class class = weight_class_next(&memo, tensor->name, model->shape.count);
        info->weight_bytes[class] += tensor_stored_bytes(tensor);
        info->parameters += tensor_elems(tensor);
        model->draft_bytes += class == WEIGHT_NOT_LOADED && is_draft(tensor->name) ? tensor_stored_bytes(tensor) : 0;
        has_output = has_output || is_output(tensor->name);
        model->embed_bytes += class == WEIGHT_LOOKUP && is_embedding(tensor->name) ? tensor_stored_bytes(tensor) : 0;
    }
    info->tensors = dir->count;
    info->has_params = dir->count > 0;
    info->is_tied = dir->count > 0 ? !has_output && model->embed_bytes > 0 : model->shape.tied;
    if (info->is_tied) {
        info->weight_bytes[WEIGHT_LOOKUP] -= model->embed_bytes;
        info->weight_bytes[WEIGHT_RESIDENT] += model->embed_bytes;
    }
}

/* A GGUF file without the key and without tokens has as many as its embedding has rows. */
static void vocab_by_rows(tool_model *model)
{
    const struct tensor_dir *dir = &model->checkpoint->tensors;
    struct shape *shape = &model->shape;
    for (uint32_t i = 0; i < dir->count && shape->number[SHAPE_VOCAB] == 0; i++) {
        const struct tensor *tensor = &dir->items[i];
        if (is_embedding(tensor->name) && tensor->dims_count == 2 && tensor->dims[0] < 1u << 28) {
            shape->number[SHAPE_VOCAB] = (uint32_t)tensor->dims[0];
            if (str_is(str_from(shape->lack_key), "vocab_size")) {
                shape->lack[0] = '\0';
            }
        }
    }
}

/* Values of a quantiser that is not known here say nothing about how many weights they are. */
static bool is_plain(const struct tensor *tensor)
{
    return tensor->dtype < DTYPE_I8 || tensor->dtype == DTYPE_F8_E4M3 || tensor->dtype >= DTYPE_MLX2;
}

static bool layer_of(struct str name, uint32_t *layer)
{
    if (!str_starts(name, STR("blk."))) {
        return false;
    }
    *layer = 0;
    size_t i = 4;
    for (; i < name.bytes && name.ptr[i] >= '0' && name.ptr[i] <= '9' && *layer < SHAPE_LAYERS_MAX; i++) {
        *layer = *layer * 10 + (uint32_t)(name.ptr[i] - '0');
    }
    return i > 4 && i < name.bytes && name.ptr[i] == '.';
}

/* The first layer of a GGUF file that has no tensor at all; the count of layers when each has some. */
static uint32_t empty_layer(const tool_model *model)
{
    const struct tensor_dir *dir = &model->checkpoint->tensors;
    uint8_t seen[SHAPE_LAYERS_MAX / 8] = {0};
    uint32_t layer;
    for (uint32_t i = 0; i < dir->count; i++) {
        if (layer_of(dir->items[i].name, &layer) && layer < SHAPE_LAYERS_MAX) {
            seen[layer / 8] |= (uint8_t)(1u << layer % 8);
        }
    }
    for (layer = 0; layer < model->shape.count && (seen[layer / 8] >> layer % 8 & 1) != 0; layer++) {
    }
    return layer;
}

/* Weights that the shape counts and the files do not have. Norms and biases are left out: releases differ in them. */
static void find_missing(tool_model *model)
{
    tool_model_info *info = &model->info;
    const struct tensor_dir *dir = &model->checkpoint->tensors;
    struct weight_memo memo = {.rows = {{.bytes = 0}}};
    struct shape_params params;
    uint64_t experts = 0;
    uint64_t others = 0;
    bool plain = true;
    if (dir->count == 0) {
        snprintf(info->problem, sizeof info->problem, "the files hold no tensor");
        info->lacks_tensors = true;
    } else if (model->checkpoint->format == CHECKPOINT_GGUF && empty_layer(model) < model->shape.count) {
        snprintf(info->problem, sizeof info->problem, "layer %" PRIu32 " of %" PRIu32 " has no tensors",
                 empty_layer(model), model->shape.count);
        info->lacks_tensors = true;
    } else if (shape_count_params(&model->shape, &params)) {
        for (uint32_t i = 0; i < dir->count; i++) {
            enum weight_class class = weight_class_next(&memo, dir->items[i].name, model->shape.count);
            plain = plain && (class == WEIGHT_NOT_LOADED || is_plain(&dir->items[i]));
            experts += class == WEIGHT_EXPERT ? tensor_elems(&dir->items[i]) : 0;
            others += class == WEIGHT_RESIDENT || class == WEIGHT_LOOKUP ? tensor_elems(&dir->items[i]) : 0;
        }
        uint64_t want = params.total - params.experts - params.vectors;
        uint64_t surplus = others > want ? others - want : 0; /* norms, and biases of experts by some names */
        bool expert = experts < params.experts && params.experts - experts > surplus;
        if (plain && (expert || others < want)) {
            snprintf(info->problem, sizeof info->problem,
                     "weights are missing: the configuration has %" PRIu64 " in %s, the files have %" PRIu64,
                     expert ? params.experts : want, expert ? "routed experts" : "other matrices",
                     expert ? experts : others);
            info->lacks_tensors = true;
        }
    }
    info->is_known = info->is_known && !info->lacks_tensors;
}

/* Sizes for a configuration alone: what the caller says, and of it the experts' share. */
static berth_status estimate(tool_model *model, uint64_t weights_bytes, uint64_t experts_bytes, berth_error *err)
{
    tool_model_info *info = &model->info;
    struct shape_params params;
    bool counted = shape_count_params(&model->shape, &params);
    info->has_params = counted;
    info->parameters = counted ? params.total : 0;
    if (experts_bytes > weights_bytes) {
        return error_set(err, BERTH_ERR_ARGUMENT, "the experts have more bytes than all the weights");
    }
    if (weights_bytes > 0 && experts_bytes == 0 && model->shape.number[SHAPE_EXPERTS] > 0) {
        if (counted) {
            experts_bytes = (uint64_t)((double)weights_bytes * ((double)params.experts / (double)params.total));
            info->experts_by_params = true;
        }
    }
    info->weight_bytes[WEIGHT_EXPERT] = experts_bytes;
    info->weight_bytes[WEIGHT_RESIDENT] = weights_bytes - experts_bytes;
    info->is_tied = model->shape.tied;
    if (weights_bytes > 0 && counted && params.total > params.experts) { /* tables, by their share of the rest */
        double rest_bytes = (double)info->weight_bytes[WEIGHT_RESIDENT] / (double)(params.total - params.experts);
        uint64_t tables = (uint64_t)fmin(rest_bytes * llama_lookup_params(&model->shape), (double)weights_bytes);
        tables = tables < info->weight_bytes[WEIGHT_RESIDENT] ? tables : 0;
        model->embed_bytes = (uint64_t)(rest_bytes * (double)model->shape.embed_params);
        info->weight_bytes[WEIGHT_LOOKUP] = tables;
        info->weight_bytes[WEIGHT_RESIDENT] -= tables;
    }
    return BERTH_OK;
}

static berth_status read_model(tool_model *model, const char *path, uint64_t weights_bytes, uint64_t experts_bytes,
                               struct arena *arena, berth_error *err)
{
    const struct checkpoint *checkpoint = model->checkpoint;
    tool_model_info *info = &model->info;
    bool gguf = checkpoint->format == CHECKPOINT_GGUF;
    if (gguf) {
        TRY(shape_read_gguf(&checkpoint->meta, checkpoint->path, arena, &model->shape, err));
        vocab_by_rows(model);
        TRY(shape_check_whole(&model->shape, checkpoint->path, err));
    } else if (checkpoint->config_json.bytes == 0) {
        berth_status status = error_set(err, BERTH_ERR_NOT_FOUND, "config.json is missing beside the weights");
        error_at_path(err, path);
        return status;
    } else {
        char config_path[560];
        bool file = str_ends(str_from(checkpoint->path), STR(".json")) ||
                    str_ends(str_from(checkpoint->path), STR(".safetensors"));
        snprintf(config_path, sizeof config_path, "%s%s", checkpoint->path, file ? "" : "/config.json");
        TRY(shape_read_json(checkpoint->config_json, config_path, arena, &model->shape, err));
        TRY(shape_check_whole(&model->shape, config_path, err));
    }
    const struct shape *shape = &model->shape;
    snprintf(info->name, sizeof info->name, "%s", checkpoint->name);
    snprintf(info->family, sizeof info->family, "%s", shape->family);
    if (gguf) {
        snprintf(info->format, sizeof info->format, "GGUF v%" PRIu32, checkpoint->version);
    } else {
        snprintf(info->format, sizeof info->format, "%s",
                 checkpoint->tensors.count > 0 ? "safetensors" : "configuration");
    }
    snprintf(info->problem, sizeof info->problem, "%s", shape->problem);
    info->is_known = shape->is_known;
    info->has_linear = llama_has_linear(shape);
    for (uint32_t i = 0; i < SHAPE_NUMBERS; i++) {
        info->defaults_count += shape->is_default[i] ? 1 : 0;
    }
    snprintf(info->defaults_of, sizeof info->defaults_of, "%s", shape->defaults_of);
    info->files = checkpoint->files_count;
    info->layers = shape->count;
    info->mtp_layers = shape->mtp_count;
    info->ctx_max_tokens = shape->number[SHAPE_CTX];
    info->experts = shape->number[SHAPE_EXPERTS];
    info->top_k = shape->number[SHAPE_TOP_K];
    if (checkpoint->files_count > 0 && info->is_known) {
        find_missing(model);
    }
    if (checkpoint->tensors.count > 0) {
        weigh(model);
        return BERTH_OK;
    }
    if (weights_bytes == 0 && info->is_known) {
        snprintf(info->problem, sizeof info->problem, "no weights are counted, as none are there and no sum is given");
        info->is_known = false;
    }
    return estimate(model, weights_bytes, experts_bytes, err);
}

/* A model in a reservation of its own; what is left of that is *arena. */
static berth_status reserve_model(struct arena *arena, tool_model **out, berth_error *err)
{
    void *region = NULL;
    uint64_t bytes = 0;
    berth_status status = BERTH_ERR_MEMORY;
    for (uint64_t want = (uint64_t)4 << 30; status != BERTH_OK && want >= (uint64_t)64 << 20; want /= 4) {
        bytes = want;
        status = os_reserve(NULL, want, false, &region, err);
    }
    TRY(status);
    arena_carve(arena, region, bytes);
    tool_model *model = ARENA_NEW(arena, tool_model, 1); /* zero: the reservation is fresh */
    model->region = region;
    model->region_bytes = bytes;
    *out = model;
    return BERTH_OK;
}

berth_status tool_model_open(const char *path, uint64_t weights_bytes, uint64_t experts_bytes, tool_model **out,
                             berth_error *err)
{
    struct arena arena;
    tool_model *model = NULL;
    TRY(reserve_model(&arena, &model, err));
    model->checkpoint = &model->own;
    berth_status status = open_files(model, path, weights_bytes > 0, &arena, err);
    if (status == BERTH_OK) {
        status = read_model(model, path, weights_bytes, experts_bytes, &arena, err);
    }
    if (status != BERTH_OK) {
        tool_model_close(model);
        return status;
    }
    *out = model;
    return BERTH_OK;
}

berth_status tool_model_of(const tool_checkpoint *checkpoint, tool_model **out, berth_error *err)
{
    struct arena arena;
    tool_model *model = NULL;
    TRY(reserve_model(&arena, &model, err));
    model->checkpoint = &((const struct spec *)checkpoint)->checkpoint; /* as in tool.c */
    berth_status status = read_model(model, model->checkpoint->path, 0, 0, &arena, err);
    if (status != BERTH_OK) {
        tool_model_close(model);
        return status;
    }
    *out = model;
    return BERTH_OK;
}

void tool_model_close(tool_model *model)
{
    if (model != NULL) {
        void *region = model->region;
        uint64_t bytes = model->region_bytes;
        checkpoint_close(&model->own);
        os_release(region, bytes);
    }
}

void tool_model_describe(const tool_model *model, tool_model_info *out)
{
    *out = model->info;
}

const char *tool_model_default(const tool_model *model, uint32_t i, uint32_t *value)
{
    for (int number = 0; number < SHAPE_NUMBERS; number++) {
        if (model->shape.is_default[number] && i-- == 0) {
            *value = model->shape.number[number];
            return shape_default_key(str_from(model->shape.defaults_of), (enum shape_number)number);
        }
    }
    return NULL;
}

/* ---- llama.cpp -------------------------------------------------------------------------------------- */

static berth_status find_type(const char *name, const struct cache_type **out, berth_error *err)
{
    *out = cache_type_find(name != NULL ? name : "f16");
    return *out != NULL ? BERTH_OK
                        : error_set(err, BERTH_ERR_ARGUMENT,
                                    "'%.40s' is not a cache type of llama.cpp: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, "
                                    "q4_0, iq4_nl",
                                    name);
}

static berth_status fill_request(const tool_model *model, const tool_llama *request, struct llama_request *out,
                                 berth_error *err)
{
    static const char *const mla[] = {"latent", "latent+v", "full"};
    uint64_t most =
        model->info.ctx_max_tokens > 0 && model->info.ctx_max_tokens < 4096 ? model->info.ctx_max_tokens : 4096;
    *out = (struct llama_request){.ctx_tokens = request->ctx_tokens > 0 ? request->ctx_tokens : most,
                                  .ubatch_tokens = request->ubatch_tokens > 0 ? request->ubatch_tokens : 512,
                                  .slots = request->slots > 0 ? request->slots : 1,
                                  .outputs = request->outputs,
                                  .is_unified = request->is_unified,
                                  .is_swa_full = request->is_swa_full,
                                  .no_flash_attention = request->no_flash_attention,
                                  .is_device = request->is_device};
    TRY(find_type(request->type_k, &out->k, err));
    TRY(find_type(request->type_v, &out->v, err));
    out->build = llama_build_find(request->build != NULL ? request->build : "current");
    if (out->build == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT, "'%.40s' is not a build: current, 2026, 2025, ik, ik-2026",
                         request->build);
    }
    for (int i = 0; i < 3; i++) {
        if (request->mla != NULL && strcmp(request->mla, mla[i]) == 0) {
            out->mla = (enum llama_mla)i;
            return BERTH_OK;
        }
    }
    return request->mla == NULL
               ? BERTH_OK
               : error_set(err, BERTH_ERR_ARGUMENT, "'%.40s' is none of latent, latent+v, full", request->mla);
}

static berth_status too_big(berth_error *err)
{
    return error_set(err, BERTH_ERR_LIMIT, "a size does not fit in 64 bits");
}

/* The context of the blocks for further tokens: a cache of f16 whatever the other's is, weights, a graph of its own. */
static berth_status add_draft(const tool_model *model, const struct llama_request *main_request, tool_llama_report *out,
                              berth_error *err)
{
    struct llama_request own = *main_request;
    struct llama_report report;
    const uint64_t most = UINT64_MAX / 8;
    if (model->shape.mtp_count == 0) {
        return error_set(err, BERTH_ERR_ARGUMENT, "the model has no blocks for further tokens to draft with");
    }
    own.is_draft = true;
    own.k = own.v = cache_type_find("f16");
    if (!llama_solve(&model->shape, &own, &report)) {
        return too_big(err);
    }
    for (int i = 0; i < LLAMA_PARTS; i++) {
        out->draft.cells = report.part[i].cells > out->draft.cells ? report.part[i].cells : out->draft.cells;
    }
    out->draft.layers = model->shape.mtp_count;
    out->draft.weights_bytes = model->draft_bytes;
    if (u64_add_overflows(report.kv_bytes, report.state_bytes, &out->draft.kv_bytes) || out->draft.kv_bytes > most ||
        report.device_compute_bytes > most || report.host_compute_bytes > most) {
        return too_big(err);
    }
    out->draft.compute_bytes = own.is_device ? report.device_compute_bytes : report.host_compute_bytes;
    uint64_t all = out->draft.weights_bytes + out->draft.kv_bytes + out->draft.compute_bytes;
    out->device_bytes += own.is_device ? all : 0;
    out->host_bytes += (own.is_device ? report.host_compute_bytes : all) + report.output_bytes;
    return BERTH_OK;
}

berth_status tool_model_llama(const tool_model *model, const tool_llama *request, tool_llama_report *out,
                              berth_error *err)
{
    struct llama_request own;
    struct llama_report report;
    const uint64_t *weights = model->info.weight_bytes;
    TRY(fill_request(model, request, &own, err));
    if (!llama_solve(&model->shape, &own, &report)) {
        return too_big(err);
    }
    *out = (tool_llama_report){.ctx_tokens = own.ctx_tokens,
                               .kv_bytes = report.kv_bytes,
                               .state_bytes = report.state_bytes,
                               .state_layers = report.state_layers,
                               .device_compute_bytes = report.device_compute_bytes,
                               .host_compute_bytes = report.host_compute_bytes,
                               .output_bytes = report.output_bytes};
    for (int i = 0; i < LLAMA_PARTS; i++) {
        out->part[i].name = llama_part_name((enum llama_part)i);
        out->part[i].layers = report.part[i].layers;
        out->part[i].cells = report.part[i].cells;
        out->part[i].k_bytes = report.part[i].k_bytes;
        out->part[i].v_bytes = report.part[i].v_bytes;
        out->part[i].k_elems = report.part[i].k_elems;
        out->part[i].v_elems = report.part[i].v_elems;
    }
    /* With an accelerator tables stay on the host; an embedding that is the output matrix too is there twice. */
    uint64_t loaded = weights[WEIGHT_RESIDENT] + weights[WEIGHT_EXPERT];
    uint64_t tables = weights[WEIGHT_LOOKUP] + (model->info.is_tied && own.is_device ? model->embed_bytes : 0);
    out->weights_device_bytes = own.is_device ? loaded : 0;
    out->weights_host_bytes = own.is_device ? tables : loaded + tables;
    uint64_t caches;
    if (u64_add_overflows(report.kv_bytes, report.state_bytes, &caches) || caches > UINT64_MAX / 4) {
        return too_big(err);
    }
    out->device_bytes = own.is_device ? out->weights_device_bytes + caches + report.device_compute_bytes : 0;
    out->host_bytes =
        out->weights_host_bytes + (own.is_device ? 0 : caches) + report.host_compute_bytes + report.output_bytes;
    return request->is_draft ? add_draft(model, &own, out, err) : BERTH_OK;
}

berth_status tool_model_llama_ctx(const tool_model *model, const tool_llama *request, bool device, uint64_t bytes,
                                  uint64_t *ctx_tokens, berth_error *err)
{
    tool_llama probe = *request;
    tool_llama_report report;
    uint64_t low = 0;
    uint64_t high = model->info.ctx_max_tokens > 0 ? model->info.ctx_max_tokens : 1u << 20;
    while (low < high) {
        probe.ctx_tokens = low + (high - low + 1) / 2;
        TRY(tool_model_llama(model, &probe, &report, err));
        if ((device ? report.device_bytes : report.host_bytes) <= bytes) {
            low = probe.ctx_tokens;
        } else {
            high = probe.ctx_tokens - 1;
        }
    }
    *ctx_tokens = low;
    return BERTH_OK;
}

berth_status tool_model_work(const tool_model *model, const tool_llama *request, uint64_t context,
                             berth_speed_work *out, berth_error *err)
{
    struct llama_request own;
    TRY(fill_request(model, request, &own, err));
    own.ctx_tokens = context;
    return llama_work(&model->shape, &own, model->info.weight_bytes, out) ? BERTH_OK : too_big(err);
}

/* What the law's own margin does not hold: kernels of linear attention took up to twice the time of the law (its bytes
 * are few, its steps many), and experts whose bytes are known by their share of the parameters may weigh less a
 * parameter than the rest of the model (gpt-oss: a sixth of the speed). */
static const double linear_slower = 2.1;
static const double shares_off = 1.2;

void tool_model_widen(const tool_model_info *info, berth_speed *speed)
{
    if (info->has_linear && speed->low > speed->tokens_per_s / linear_slower) {
        speed->low = speed->tokens_per_s / linear_slower;
    }
    if (info->experts_by_params && info->experts > 0) {
        speed->low /= shares_off;
        speed->high *= shares_off;
    }
}

/* ---- the arithmetic --------------------------------------------------------------------------------- */

static bool same_kind(const struct shape_layer *a, uint32_t a_at, const struct shape_layer *b, uint32_t b_at)
{
    return a->cache == b->cache && a->state == b->state && a->k_elems == b->k_elems && a->v_elems == b->v_elems &&
           a->window == b->window && (a->owner == a_at) == (b->owner == b_at) && a->comp_ratio == b->comp_ratio &&
           a->index_elems == b->index_elems && a->conv_elems == b->conv_elems && a->state_elems == b->state_elems;
}

struct explaining {
    const struct shape_layer *layer;
    uint32_t count, first;
    uint64_t ctx;
    uint32_t num, den;
    tool_line_fn *fn;
    void *user;
};

/* Of so many positions of `elems` stored elements, in all layers of the row. */
static double side_bytes(const struct explaining *e, uint64_t positions, uint32_t elems)
{
    return (double)e->count * (double)positions * elems * e->num / e->den;
}

static void say_cache(const struct explaining *e)
{
    const struct shape_layer *layer = e->layer;
    char line[320];
    bool windowed = layer->cache == SHAPE_SLIDING || layer->cache == SHAPE_CHUNKED;
    uint64_t kept = windowed && layer->window < e->ctx ? layer->window : e->ctx;
    double bytes = (double)e->count * (double)kept * ((double)layer->k_elems + layer->v_elems) * e->num / e->den;
    char window[64] = "";
    if (windowed) {
        snprintf(window, sizeof window, " of window %" PRIu32, layer->window);
    }
    if (layer->owner != e->first) {
        snprintf(line, sizeof line,
                 "%3" PRIu32 " x %s: use the cache of layer %" PRIu32 " or the last of its kind, 0 B", e->count,
                 shape_cache_name(layer->cache), layer->owner);
    } else {
        snprintf(line, sizeof line,
                 "%3" PRIu32 " x %s%s: %" PRIu64 " positions x (%" PRIu32 " + %" PRIu32 ") elements x %" PRIu32
                 "/%" PRIu32 " B = %.0f B",
                 e->count, shape_cache_name(layer->cache), window, kept, layer->k_elems, layer->v_elems, e->num, e->den,
                 bytes);
    }
    e->fn(e->user, line);
    if (layer->comp_ratio > 0) {
        snprintf(line, sizeof line,
                 "      and compressed: %" PRIu64 " / %" PRIu32 " x %" PRIu32 " elements x %" PRIu32 "/%" PRIu32
                 " B = %.0f B",
                 e->ctx, layer->comp_ratio, layer->comp_elems, e->num, e->den,
                 side_bytes(e, e->ctx / layer->comp_ratio, layer->comp_elems));
        e->fn(e->user, line);
    }
    if (layer->index_ratio > 0) {
        snprintf(line, sizeof line,
                 "      and indexer keys: %" PRIu64 " / %" PRIu32 " x %" PRIu32 " elements x %" PRIu32 "/%" PRIu32
                 " B = %.0f B",
                 e->ctx, layer->index_ratio, layer->index_elems, e->num, e->den,
                 side_bytes(e, e->ctx / layer->index_ratio, layer->index_elems));
        e->fn(e->user, line);
    }
}

static void say_kind(const struct explaining *e)
{
    const struct shape_layer *layer = e->layer;
    char line[320];
    if (layer->cache != SHAPE_NO_CACHE) {
        say_cache(e);
    }
    if (layer->state != SHAPE_NO_STATE) {
        snprintf(line, sizeof line,
                 "%3" PRIu32 " x %s state: (%" PRIu64 " convolution + %" PRIu64
                 " state) elements x 4 B = %.0f B a slot",
                 e->count, shape_state_name(layer->state), layer->conv_elems, layer->state_elems,
                 (double)e->count * ((double)layer->conv_elems + (double)layer->state_elems) * 4);
        e->fn(e->user, line);
    }
    if (layer->cache == SHAPE_NO_CACHE && layer->state == SHAPE_NO_STATE) {
        snprintf(line, sizeof line, "%3" PRIu32 " x no attention: 0 B", e->count);
        e->fn(e->user, line);
    }
}

/* What the configuration left out, some numbers a line. */
static void say_defaults(const tool_model *model, tool_line_fn *fn, void *user)
{
    enum { WIDTH = 110 };
    char line[320];
    size_t head = 0;
    size_t used = 0;
    const char *key;
    uint32_t value;
    for (uint32_t i = 0; (key = tool_model_default(model, i, &value)) != NULL; i++) {
        if (used == 0) {
            int written =
                snprintf(line, sizeof line, "not in config.json, so the default of %s: ", model->shape.defaults_of);
            head = used = written > 0 && (size_t)written < sizeof line ? (size_t)written : 0;
        }
        int written = snprintf(line + used, sizeof line - used, "%s%s %" PRIu32, used > head ? ", " : "", key, value);
        used += written > 0 && (size_t)written < sizeof line - used ? (size_t)written : 0;
        if (used > WIDTH || i + 1 == model->info.defaults_count) {
            fn(user, line);
            used = 0;
        }
    }
}

void tool_model_explain(const tool_model *model, uint64_t ctx_tokens, uint32_t kv_num, uint32_t kv_den,
                        tool_line_fn *fn, void *user)
{
    const struct shape *shape = &model->shape;
    for (uint32_t i = 0; i < shape->count; i++) {
        const struct shape_layer *layer = &shape->layers[i];
        uint32_t before = 0;
        uint32_t count = 0;
        for (uint32_t k = 0; k < shape->count; k++) {
            bool same = same_kind(layer, i, &shape->layers[k], k);
            before += k < i && same ? 1 : 0;
            count += same ? 1 : 0;
        }
        if (before == 0) {
            say_kind(&(struct explaining){layer, count, i, ctx_tokens, kv_num, kv_den > 0 ? kv_den : 1, fn, user});
        }
    }
    if (shape->mtp_count > 0) {
        char line[160];
        snprintf(line, sizeof line, "%3" PRIu32 " x block for further tokens: not loaded, 0 B", shape->mtp_count);
        fn(user, line);
    }
    say_defaults(model, fn, user);
}
