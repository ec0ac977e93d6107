/* SPDX-License-Identifier: MIT
 * Usage ledgers for the program: opened by model or by file, looked at, added to, aged, and what they would pin. */
#include <stdio.h>
#include <string.h>

#include "experts/residency.h"
#include "experts/routes.h"
#include "fit/plan.h"
#include "os/file.h"
#include "os/memory.h"
#include "session/model.h"
#include "tool.h"

enum { TEXT_BYTES = 64 << 10 }; /* longest text of a tokenizer that nobody will ask */

struct tool_usage {
    struct usage *usage;
    struct usage_count *ranks; /* [layers x experts] */
    uint64_t *slot_bytes;      /* [layers] 0: unknown */
    tool_usage_info info;
    uint64_t region_bytes;
};

/* What is known before the tables are laid out. */
struct source {
    int64_t *layers; /* [layers_count] in the scratch region */
    uint64_t *slot_bytes;
    uint32_t layers_count, experts;
    struct usage_config usage;
    tool_usage_info info;
    char own[USAGE_PATH_MAX], fallback[USAGE_PATH_MAX];
    void *scratch;
    uint64_t scratch_bytes;
    struct spec *spec; /* NULL: a file alone */
};

static berth_status open_spec(const char *path, uint64_t text_bytes, struct spec **out, berth_error *err)
{
    struct spec_request request = {.path = path, .text_bytes_max = text_bytes, .cap_bytes = 4ull << 30};
    return spec_open(&request, out, err);
}

static void source_close(struct source *source)
{
    spec_close(source->spec);
    if (source->scratch != NULL) {
        os_release(source->scratch, source->scratch_bytes);
    }
}

static berth_status is_model(const char *path, bool *out, bool *directory, berth_error *err)
{
    uint64_t bytes = 0;
    TRY(os_path_info(path, directory, &bytes, err));
    *out = *directory;
    if (!*directory && bytes >= 4) {
        struct os_file file;
        char magic[4];
        TRY(os_file_open(&file, path, false, NULL, err));
        berth_status status = os_file_read(&file, 0, sizeof magic, magic, err);
        os_file_close(&file);
        TRY(status);
        *out = memcmp(magic, "GGUF", sizeof magic) == 0;
    }
    return BERTH_OK;
}

/* Where a model's ledger may lie; false: a path is too long. */
static bool ledger_places(const char *path, bool directory, const char *state_dir, char own[USAGE_PATH_MAX],
                          char fallback[USAGE_PATH_MAX])
{
    fallback[0] = '\0';
    return usage_default_path(path, directory, NULL, own, USAGE_PATH_MAX) &&
           (state_dir == NULL || usage_default_path(path, directory, state_dir, fallback, USAGE_PATH_MAX));
}

bool tool_usage_exists(const tool_usage_config *config)
{
    char own[USAGE_PATH_MAX];
    char fallback[USAGE_PATH_MAX];
    bool directory = false;
    bool any = false;
    uint64_t bytes;
    if (config->ledger_path != NULL) {
        return os_path_info(config->ledger_path, &any, &bytes, NULL) == BERTH_OK;
    }
    return os_path_info(config->path, &directory, &bytes, NULL) == BERTH_OK &&
           ledger_places(config->path, directory, config->state_dir, own, fallback) &&
           (os_path_info(own, &any, &bytes, NULL) == BERTH_OK ||
            (fallback[0] != '\0' && os_path_info(fallback, &any, &bytes, NULL) == BERTH_OK));
}

static berth_status from_model(const tool_usage_config *config, bool directory, struct arena *arena,
                               struct source *source, berth_error *err)
{
    TRY(open_spec(config->path, TEXT_BYTES, &source->spec, err));
    const struct spec *spec = source->spec;
    const struct hparams *h = &spec->hparams;
    if (h->moe_layers == 0) {
        return error_set(err, BERTH_ERR_ARGUMENT, "the model has no experts, so it keeps no usage ledger");
    }
    source->layers_count = h->moe_layers;
    source->experts = h->experts;
    source->layers = ARENA_NEW(arena, int64_t, h->moe_layers);
    source->slot_bytes = ARENA_NEW(arena, uint64_t, h->moe_layers);
    TRY(arena_check(arena, "layers of the ledger", err));
    engine_moe_layers(spec, source->layers);
    for (uint32_t layer = 0; layer < h->moe_layers; layer++) {
        source->slot_bytes[layer] = spec->catalog.classes[spec->catalog.layer_class[layer]].slot_bytes;
    }
    bool named = config->ledger_path != NULL;
    if (!named && !ledger_places(spec->checkpoint.path, directory, config->state_dir, source->own, source->fallback)) {
        return error_set(err, BERTH_ERR_LIMIT, "the path of the usage ledger is longer than %d bytes", USAGE_PATH_MAX);
    }
    source->usage =
        (struct usage_config){.path = named ? config->ledger_path : source->own,
                              .fallback_path = config->state_dir != NULL && !named ? source->fallback : NULL,
                              .any_engine = named,
                              .engine = spec->family->hf_model_type,
                              .model_layers = h->layers,
                              .fingerprint = engine_fingerprint(spec)};
    source->info.top_k = h->top_k;
    size_t bytes = strlen(config->path);
    while (bytes > 1 && config->path[bytes - 1] == '/') {
        bytes--;
    }
    size_t base = bytes;
    while (base > 0 && config->path[base - 1] != '/') {
        base--;
    }
    snprintf(source->info.model, sizeof source->info.model, "%.*s", (int)(bytes - base), config->path + base);
    return BERTH_OK;
}

static berth_status from_file(const tool_usage_config *config, struct arena *arena, struct source *source,
                              berth_error *err)
{
    struct usage_shape *shape = ARENA_NEW(arena, struct usage_shape, 1);
    source->layers = ARENA_NEW(arena, int64_t, CATALOG_LAYERS_MAX);
    source->slot_bytes = ARENA_NEW(arena, uint64_t, CATALOG_LAYERS_MAX);
    TRY(arena_check(arena, "layers of the ledger", err));
    TRY(usage_scan(arena, config->path, shape, err));
    uint32_t experts = shape->file_experts > 0 && shape->file_experts <= EXPERTS_MAX ? (uint32_t)shape->file_experts
                       : config->experts > 0                                         ? config->experts
                                                                                     : shape->experts;
    for (uint32_t layer = 0; shape->rows == 0 && layer < shape->file_layers && layer < CATALOG_LAYERS_MAX; layer++) {
        shape->layers[layer / 8] |= (uint8_t)(1u << layer % 8); /* emptied: nothing says which have experts */
        shape->layers_count++;
    }
    if (shape->layers_count == 0 || experts == 0) {
        error_set(err, BERTH_ERR_FORMAT,
                  "not a usage ledger, or an empty one: %llu rows that count, %llu that do not%s%s",
                  (unsigned long long)shape->rows, (unsigned long long)shape->damaged,
                  shape->problem[0] != '\0' ? "; " : "", shape->problem);
        error_at_path(err, config->path);
        return BERTH_ERR_FORMAT;
    }
    for (uint32_t layer = 0; layer < CATALOG_LAYERS_MAX; layer++) {
        if ((shape->layers[layer / 8] >> layer % 8 & 1) != 0) {
            source->layers[source->layers_count++] = layer;
        }
    }
    source->experts = experts;
    source->usage = (struct usage_config){
        .path = config->path, .any_engine = true, .model_layers = (uint32_t)(shape->file_layers & UINT32_MAX)};
    return BERTH_OK;
}

static berth_status lay_out(struct arena *arena, const struct source *source, tool_usage **out, berth_error *err)
{
    uint64_t cells = (uint64_t)source->layers_count * source->experts;
    tool_usage *usage = ARENA_NEW(arena, tool_usage, 1);
    struct usage_count *ranks = ARENA_NEW(arena, struct usage_count, cells);
    uint64_t *slot_bytes = ARENA_NEW(arena, uint64_t, source->layers_count);
    struct usage *inside = NULL;
    TRY(usage_layout(arena, &source->usage, &inside, err));
    if (usage != NULL) {
        *usage = (tool_usage){.usage = inside, .ranks = ranks, .slot_bytes = slot_bytes, .info = source->info};
        memcpy(slot_bytes, source->slot_bytes, source->layers_count * sizeof *slot_bytes);
    }
    *out = usage;
    return BERTH_OK;
}

static berth_status make(struct source *source, tool_usage **out, berth_error *err)
{
    struct arena arena;
    void *region = NULL;
    tool_usage *usage = NULL;
    source->usage.layers = source->layers;
    source->usage.layers_count = source->layers_count;
    source->usage.experts = source->experts;
    source->info.layers = source->layers_count;
    source->info.experts = source->experts;
    arena_measure(&arena);
    TRY(lay_out(&arena, source, &usage, err));
    uint64_t bytes = arena.used_bytes + OS_PAGE_BYTES;
    TRY(os_reserve(NULL, bytes, false, &region, err));
    arena_carve(&arena, region, bytes);
    enum usage_load_result result = USAGE_ABSENT;
    berth_status status = lay_out(&arena, source, &usage, err);
    status = status == BERTH_OK ? usage_load(usage->usage, &result, err) : status;
    if (status != BERTH_OK) {
        os_release(region, bytes);
        return status;
    }
    usage->region_bytes = bytes;
    usage->info.exists = result != USAGE_ABSENT;
    usage->info.refused = result == USAGE_REFUSED;
    *out = usage;
    return BERTH_OK;
}

berth_status tool_usage_open(const tool_usage_config *config, tool_usage **out, berth_error *err)
{
    struct source source = {.scratch_bytes = 1 << 20};
    bool model = false;
    bool directory = false;
    TRY(is_model(config->path, &model, &directory, err));
    TRY(os_reserve(NULL, source.scratch_bytes, false, &source.scratch, err));
    struct arena arena;
    arena_carve(&arena, source.scratch, source.scratch_bytes);
    berth_status status =
        model ? from_model(config, directory, &arena, &source, err) : from_file(config, &arena, &source, err);
    source.usage.warn = config->warn;
    source.usage.warn_user = config->warn_user;
    status = status == BERTH_OK ? make(&source, out, err) : status;
    source_close(&source);
    return status;
}

void tool_usage_close(tool_usage *usage)
{
    if (usage != NULL) {
        os_release(usage, usage->region_bytes);
    }
}

void tool_usage_describe(const tool_usage *usage, tool_usage_info *out)
{
    struct usage_snapshot snapshot;
    usage_get_snapshot(usage->usage, &snapshot);
    *out = usage->info;
    out->selections = snapshot.total_count;
    out->used = snapshot.nonzero_counts;
    snprintf(out->path, sizeof out->path, "%s", usage_path(usage->usage));
}

int64_t tool_usage_layer(const tool_usage *usage, uint32_t index)
{
    return usage_layer(usage->usage, index);
}

uint32_t tool_usage_find(const tool_usage *usage, int64_t layer)
{
    uint32_t index = 0;
    while (index < usage->info.layers && usage_layer(usage->usage, index) != layer) {
        index++;
    }
    return index;
}

const uint32_t *tool_usage_counts(const tool_usage *usage, uint32_t index)
{
    return usage_counts(usage->usage, index);
}

uint64_t tool_usage_slot_bytes(const tool_usage *usage, int64_t layer)
{
    uint32_t index = tool_usage_find(usage, layer);
    return index < usage->info.layers ? usage->slot_bytes[index] : 0;
}

/* session/ledger.c asserts that the two structs are alike. */
uint64_t tool_usage_ranked(tool_usage *usage, const berth_ledger_count **out)
{
    *out = (const berth_ledger_count *)(const void *)usage->ranks;
    return usage_ranked(usage->usage, usage->ranks, (uint64_t)usage->info.layers * usage->info.experts);
}

/* ---- changing it ---------------------------------------------------------------------------------------- */

/* Recorded routes begin with our mark, an object (JSON lines) or a line with commas (CSV); ledgers do neither. */
static berth_status is_routes(const char *path, bool *out, berth_error *err)
{
    struct os_file file;
    char text[256];
    TRY(os_file_open(&file, path, false, NULL, err));
    uint64_t bytes = file.size_bytes < sizeof text ? file.size_bytes : sizeof text;
    berth_status status = os_file_read(&file, 0, bytes, text, err);
    os_file_close(&file);
    TRY(status);
    const char *stop = memchr(text, '\n', (size_t)bytes);
    size_t line = stop != NULL ? (size_t)(stop - text) : (size_t)bytes;
    *out = line > 0 && (text[0] == '{' || text[0] == '#' || memchr(text, ',', line) != NULL);
    return BERTH_OK;
}

static berth_status add_routes(tool_usage *usage, const struct routes *routes, tool_usage_added *out, berth_error *err)
{
    if (routes->experts > usage->info.experts && routes->has_cache) {
        return error_set(err, BERTH_ERR_ARGUMENT, "the routes are of %u experts a layer, the ledger of %u",
                         routes->experts, usage->info.experts);
    }
    for (uint64_t i = 0; i < routes->steps_count; i++) {
        const struct route_step *step = &routes->steps[i];
        uint32_t index = tool_usage_find(usage, routes->model_layer[step->layer]);
        for (uint32_t row = 0; row < step->rows; row++) {
            const uint16_t *ids = routes->ids + step->first + (uint64_t)row * routes->top_k;
            bool fits = index < usage->info.layers;
            for (uint32_t rank = 0; rank < routes->top_k && fits; rank++) {
                fits = ids[rank] < usage->info.experts;
            }
            if (fits) {
                usage_record_row(usage->usage, index, ids, routes->top_k);
            }
            *(fits ? &out->rows : &out->skipped) += routes->top_k;
        }
        usage_add_tokens(usage->usage, step->layer == 0 ? step->rows : 0);
    }
    return BERTH_OK;
}

berth_status tool_usage_add(tool_usage *usage, const char *path, tool_usage_added *out, berth_error *err)
{
    *out = (tool_usage_added){0};
    TRY(is_routes(path, &out->routes, err));
    if (!out->routes) {
        struct usage_import counts;
        TRY(usage_import(usage->usage, path, &counts, err));
        out->rows = counts.rows;
        out->skipped = counts.skipped;
        out->damaged = counts.damaged;
        out->first_damaged_line = counts.first_damaged_line;
        return BERTH_OK;
    }
    struct routes *routes = NULL;
    TRY(routes_read(&path, 1, 0, &routes, err));
    berth_status status = add_routes(usage, routes, out, err);
    routes_free(routes);
    return status;
}

void tool_usage_scale(tool_usage *usage, double factor)
{
    usage_scale(usage->usage, factor);
}

berth_status tool_usage_save(tool_usage *usage, berth_error *err)
{
    usage_keep_backup(usage->usage);
    return usage_flush(usage->usage, err);
}

berth_status tool_usage_write(tool_usage *usage, const char *path, berth_error *err)
{
    return usage_write_copy(usage->usage, path, err);
}

/* ---- what would be pinned ------------------------------------------------------------------------------- */

static int64_t slot_bytes(void *user, int64_t layer)
{
    return (int64_t)tool_usage_slot_bytes(user, layer);
}

/* The cache of the plan with nothing read into it, for what its policy keeps free. */
static berth_status working_bytes(const struct spec *spec, const struct engine_dims *dims, const char *policy,
                                  uint64_t *out, berth_error *err)
{
    struct arena tables;
    struct arena slots;
    struct cache *cache = NULL;
    void *region[2] = {NULL, NULL};
    arena_measure(&tables);
    arena_measure(&slots);
    TRY(cache_layout(&tables, &slots, &spec->catalog, &dims->slots, policy, NULL, &cache, err));
    uint64_t bytes[2] = {tables.used_bytes + OS_PAGE_BYTES, slots.used_bytes + OS_PAGE_BYTES};
    TRY(os_reserve(NULL, bytes[0], false, &region[0], err));
    berth_status status = os_reserve(NULL, bytes[1], false, &region[1], err);
    if (status == BERTH_OK) {
        arena_carve(&tables, region[0], bytes[0]);
        arena_carve(&slots, region[1], bytes[1]);
        status = cache_layout(&tables, &slots, &spec->catalog, &dims->slots, policy, NULL, &cache, err);
        *out = status == BERTH_OK ? cache_working_bytes(cache) : 0;
        os_release(region[1], bytes[1]);
    }
    os_release(region[0], bytes[0]);
    return status;
}

static berth_status plan_pins(tool_usage *usage, struct spec *spec, const berth_model_config *config,
                              tool_pin_plan *out, berth_error *err)
{
    char binding[256];
    struct engine_dims dims;
    berth_plan plan = BERTH_PLAN_INIT;
    struct plan_request request = {.config = config, .binding = binding, .host_bytes = sizeof(struct berth_model)};
    struct residency_seed seed;
    const char *options = strchr(config->policy, ':');
    TRY(budget_resolve(config, &request.budget_bytes, binding, err));
    TRY(plan_solve(spec, &request, &dims, &plan, err));
    if (!plan.fits) {
        return plan_refuse(&plan, spec->checkpoint.path, err);
    }
    TRY(residency_seed_options(options != NULL ? options + 1 : "", &seed, err));
    TRY(working_bytes(spec, &dims, config->policy, &out->working_bytes, err));
    struct autopin_config pins = {.slot_bytes = slot_bytes,
                                  .user = usage,
                                  .min_history = (int64_t)seed.min_history,
                                  .full_history = (int64_t)seed.full_history,
                                  .min_pin_bytes = (int64_t)seed.min_bytes,
                                  .share = (double)seed.share / 100.0};
    residency_tiers(&spec->catalog, &dims.slots, out->working_bytes, &pins);
    struct autopin_plan found;
    TRY(usage_autopin(usage->usage, &pins, usage->ranks, (uint64_t)usage->info.layers * usage->info.experts, &found,
                      err));
    out->plan = (berth_autopin_plan){found.history,      found.confidence,    found.requested_bytes,
                                     found.usable_bytes, found.planned_bytes, found.pins};
    out->pins = (const berth_ledger_count *)(const void *)usage->ranks;
    out->budget_bytes = request.budget_bytes;
    out->slots_bytes = dims.slots.bytes;
    out->resident_bytes = (uint64_t)pins.resident_bytes;
    out->mandatory_bytes = (uint64_t)pins.mandatory_bytes;
    out->min_history = seed.min_history;
    out->full_history = seed.full_history;
    out->share_percent = seed.share;
    out->min_bytes = seed.min_bytes;
    out->autopin = seed.autopin;
    return BERTH_OK;
}

berth_status tool_usage_plan(tool_usage *usage, const char *model_path, const berth_model_config *config,
                             tool_pin_plan *out, berth_error *err)
{
    struct spec *spec = NULL;
    *out = (tool_pin_plan){0};
    if (config->policy == NULL || strncmp(config->policy, "seed", 4) != 0 ||
        (config->policy[4] != '\0' && config->policy[4] != ':')) {
        return error_set(err, BERTH_ERR_ARGUMENT, "only the policy \"seed\" pins by itself, got \"%.60s\"",
                         config->policy != NULL ? config->policy : "");
    }
    TRY(open_spec(model_path, config->text_bytes > 0 ? config->text_bytes : TEXT_BYTES, &spec, err));
    berth_status status = plan_pins(usage, spec, config, out, err);
    spec_close(spec);
    return status;
}
