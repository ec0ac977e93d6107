/* SPDX-License-Identifier: MIT */
#include "fit/engine.h"

static berth_status layout_files(struct arena *tables, const struct spec *spec, struct engine *out, berth_error *err)
{
    out->files_count = spec->checkpoint.files_count;
    out->files = ARENA_NEW(tables, struct os_file, out->files_count);
    out->hparams = ARENA_NEW(tables, struct hparams, 1);
    TRY(arena_check(tables, "file table", err));
    if (!arena_is_measuring(tables)) {
        if (out->files_count > 0) { /* a tokenizer alone has none */
            memcpy(out->files, spec->checkpoint.files, out->files_count * sizeof *out->files);
        }
        *out->hparams = spec->hparams;
    }
    return BERTH_OK;
}

/* The tokenizer is parsed once for its size (spec_open); later measuring runs take the number. */
static berth_status layout_text(struct arena *arena, struct spec *spec, struct engine *out, berth_error *err)
{
    out->text = NULL;
    if (spec->text_problem[0] != '\0') {
        return BERTH_OK;
    }
    if (arena_is_measuring(arena)) {
        arena_take(arena, 1, spec->text_bytes, 0);
        return arena_check(arena, "tokenizer", err);
    }
    return text_layout(arena, &spec->scratch, &spec->checkpoint, spec->text_bytes_max, &out->text, err);
}

/* Ledgers of another model must not be taken for this one's. */
uint64_t engine_fingerprint(const struct spec *spec)
{
    const struct hparams *h = &spec->hparams;
    const uint32_t shape[] = {h->layers, h->moe_layers, h->hidden,   h->experts,  h->top_k,
                              h->vocab,  h->heads,      h->kv_heads, h->head_dim, h->expert_ffn};
    uint64_t hash = hash_bytes(HASH_SEED, spec->family->name, strlen(spec->family->name));
    return hash_bytes(hash, shape, sizeof shape);
}

void engine_moe_layers(const struct spec *spec, int64_t *layers)
{
    const struct hparams *h = &spec->hparams;
    uint32_t moe = 0;
    for (uint32_t layer = 0; layer < h->layers; layer++) {
        if (h->layer_moe[layer] != 0) {
            layers[moe++] = layer;
        }
    }
}

static berth_status layout_residency(struct arena *tables, struct spec *spec, const struct engine_dims *dims,
                                     const struct catalog *catalog, struct engine *out, berth_error *err)
{
    const struct hparams *h = &spec->hparams;
    struct residency_config config = dims->residency;
    int64_t *layers = ARENA_NEW(tables, int64_t, h->moe_layers);
    if (layers != NULL) {
        engine_moe_layers(spec, layers);
    }
    config.layers = layers;
    config.policy = dims->policy;
    config.slots = &dims->slots;
    config.usage.path = config.usage.path != NULL ? config.usage.path : "planned";
    config.usage.model_layers = h->layers;
    config.usage.engine = spec->family->hf_model_type;
    config.usage.fingerprint = engine_fingerprint(spec);
    return residency_layout(tables, catalog, &config, &out->residency, err);
}

static berth_status layout_experts(struct arena lines[BERTH_LINE_COUNT], struct spec *spec,
                                   const struct engine_dims *dims, struct engine *out, berth_error *err)
{
    struct arena *tables = &lines[BERTH_LINE_TABLES];
    out->cache = NULL;
    out->residency = NULL;
    out->formats = NULL;
    if (spec->hparams.moe_layers == 0) {
        return BERTH_OK;
    }
    struct catalog measured;
    bool measuring = arena_is_measuring(tables);
    out->catalog = ARENA_NEW(tables, struct catalog, 1);
    TRY(arena_check(tables, "expert catalog", err));
    TRY(expert_catalog(tables, spec->family, &spec->checkpoint, &spec->hparams, spec->has_kernel,
                       measuring ? &measured : out->catalog, &out->formats, err));
    const struct catalog *catalog = measuring ? &spec->catalog : out->catalog;
    TRY(cache_layout(tables, &lines[BERTH_LINE_SLOTS], catalog, &dims->slots, dims->policy, out->io, &out->cache, err));
    return layout_residency(tables, spec, dims, catalog, out, err);
}

berth_status engine_layout(struct arena lines[BERTH_LINE_COUNT], struct spec *spec, const struct engine_dims *dims,
                           struct engine *out, berth_error *err)
{
    struct arena *tables = &lines[BERTH_LINE_TABLES];
    struct arena *threads = &lines[BERTH_LINE_THREADS];
    out->host = arena_take(tables, 1, dims->host_bytes, 0);
    TRY(layout_files(tables, spec, out, err));
    TRY(layout_text(&lines[BERTH_LINE_TEXT], spec, out, err));
    if (dims->text_only) {
        return BERTH_OK;
    }
    TRY(trunk_layout(&lines[BERTH_LINE_TRUNK], tables, spec->family, &spec->checkpoint, &spec->hparams,
                     spec->has_kernel, &out->trunk, err));
    TRY(staging_layout(&lines[BERTH_LINE_STAGING], out->trunk.stored_bytes, &out->staging, err));
    struct io_config io = {.files = out->files,
                           .files_count = out->files_count,
                           .threads = dims->io_threads,
                           .queue_max = CACHE_REQUESTS_MAX + STAGING_BUFFERS,
                           .engine = dims->io_engine};
    TRY(io_layout(tables, threads, &io, &out->io, err));
    TRY(pool_layout(tables, threads, dims->threads, &out->pool, err));
    TRY(layout_experts(lines, spec, dims, out, err));
    struct forward_dims forward = {.hparams = arena_is_measuring(tables) ? &spec->hparams : out->hparams,
                                   .trunk = &out->trunk,
                                   .formats = out->formats,
                                   .chunk_tokens = dims->chunk_tokens,
                                   .ctx_tokens = dims->ctx_tokens,
                                   .threads = dims->threads,
                                   .kv_type = dims->kv_type};
    return forward_layout(&lines[BERTH_LINE_KV], &lines[BERTH_LINE_SCRATCH], tables, &forward, &out->forward, err);
}
