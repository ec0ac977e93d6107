/* SPDX-License-Identifier: MIT
 *
 * Opening: headers into the open-phase reservation -> plan -> refuse or reserve -> the same layouts carve -> release
 * the open phase -> read the trunk. From here on the token path allocates nothing.
 */
#include "session/model.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "experts/policy.h"
#include "os/memory.h"
#include "tool.h"

/* Address space for headers and tokenizer parsing: as much as the budget, at least enough to name the floor of a model
 * that is refused. */
enum { OPEN_CAP_LEAST = 64 << 20 };
static const uint64_t open_cap_most = 4ull << 30;

berth_status config_complete(const berth_model_config *config, berth_model_config *out, berth_error *err)
{
    *out = BERTH_MODEL_CONFIG_INIT;
    if (config == NULL) {
        return BERTH_OK;
    }
    if (config->struct_size < offsetof(berth_model_config, app_bytes) || config->struct_size > 4096) {
        return error_set(err, BERTH_ERR_ARGUMENT,
                         "berth_model_config must be initialised with BERTH_MODEL_CONFIG_INIT");
    }
    memcpy(out, config, config->struct_size < sizeof *out ? config->struct_size : sizeof *out);
    out->struct_size = sizeof *out;
    return BERTH_OK;
}

/* Of one call that encodes. */
static uint64_t longest_text(const berth_model_config *config)
{
    if (config->text_bytes > 0) {
        return config->text_bytes;
    }
    uint64_t bytes = 8ull * (config->ctx_tokens > 0 ? config->ctx_tokens : 4096);
    return bytes > 64 << 10 ? bytes : 64 << 10;
}

static berth_status open_request(const char *path, const berth_model_config *config, uint64_t budget,
                                 const struct os_hooks *hooks, struct spec_request *out, berth_error *err)
{
    if (path == NULL || path[0] == '\0') {
        return error_set(err, BERTH_ERR_ARGUMENT, "no model path given");
    }
    uint64_t cap = budget > OPEN_CAP_LEAST ? budget : OPEN_CAP_LEAST;
    *out = (struct spec_request){.path = path,
                                 .text_only = config->mode == BERTH_OPEN_TEXT,
                                 .isa = config->isa,
                                 .text_bytes_max = longest_text(config),
                                 .cap_bytes = cap < open_cap_most ? cap : open_cap_most,
                                 .hooks = hooks};
    return BERTH_OK;
}

/* The part of a plan's making that is the same for headers just read and headers kept. */
struct planning {
    berth_model_config config;
    struct plan_request request;
    struct spec_request open;
    char binding[256];
};

static berth_status planning_begin(struct planning *p, const char *path, const berth_model_config *config,
                                   const berth_plan *plan, berth_error *err)
{
    if (plan == NULL || plan->struct_size < sizeof *plan) {
        return error_set(err, BERTH_ERR_ARGUMENT, "berth_plan must be initialised with BERTH_PLAN_INIT");
    }
    p->request =
        (struct plan_request){.config = &p->config, .binding = p->binding, .host_bytes = sizeof(struct berth_model)};
    TRY(config_complete(config, &p->config, err));
    TRY(budget_resolve(&p->config, &p->request.budget_bytes, p->binding, err));
    return open_request(path, &p->config, p->request.budget_bytes, NULL, &p->open, err);
}

static berth_status planning_end(struct planning *p, struct spec *spec, berth_plan *plan, berth_error *err)
{
    struct engine_dims dims;
    berth_plan solved = BERTH_PLAN_INIT;
    TRY(plan_solve(spec, &p->request, &dims, &solved, err));
    *plan = solved;
    return BERTH_OK;
}

berth_status berth_plan_memory(const char *path, const berth_model_config *config, berth_plan *plan, berth_error *err)
{
    struct planning p;
    struct spec *spec = NULL;
    TRY(planning_begin(&p, path, config, plan, err));
    TRY(spec_open(&p.open, &spec, err));
    berth_status status = planning_end(&p, spec, plan, err);
    spec_close(spec);
    return status;
}

berth_status tool_planner_open(const char *path, tool_planner **out, berth_error *err)
{
    const struct spec_request request = {.path = path, .cap_bytes = open_cap_most, .may_be_less = true};
    struct spec *spec = NULL;
    TRY(spec_begin(&request, CHECKPOINT_WANT_TENSORS | CHECKPOINT_WANT_TEXT, &spec, err));
    *out = (tool_planner *)spec;
    return BERTH_OK;
}

const tool_checkpoint *tool_planner_checkpoint(const tool_planner *planner)
{
    return (const tool_checkpoint *)planner; /* both are a spec: tool.c */
}

berth_status tool_planner_plan(tool_planner *planner, const berth_model_config *config, berth_plan *plan,
                               berth_error *err)
{
    struct planning p;
    struct spec *spec = (struct spec *)planner;
    TRY(planning_begin(&p, spec->checkpoint.path, config, plan, err));
    if (p.open.text_only) {
        return error_set(err, BERTH_ERR_ARGUMENT, "a planner is for whole models, not for text alone");
    }
    TRY(spec->is_whole ? spec_text_again(spec, p.open.text_bytes_max, err) : spec_finish(spec, &p.open, err));
    TRY(spec_within(spec, p.open.cap_bytes, err));
    return planning_end(&p, spec, plan, err);
}

void tool_planner_close(tool_planner *planner)
{
    spec_close((struct spec *)planner);
}

/* Reopens the files for an engine that wants them the other way (io_engine "buffered"). */
static berth_status reopen_files(struct spec *spec, const berth_model_config *config, const struct os_hooks *hooks,
                                 berth_error *err)
{
    bool direct = true;
    TRY(io_engine_direct(config->io_engine, &direct, err));
    for (uint32_t i = 0; !direct && i < spec->checkpoint.files_count; i++) {
        struct os_file *file = &spec->checkpoint.files[i];
        if (file->direct) {
            struct os_file again;
            TRY(os_file_open(&again, file->path, false, hooks, err));
            os_file_close(file);
            *file = again;
        }
    }
    return BERTH_OK;
}

/* Reserves the region and carves every line; each must come out exactly as planned. */
static berth_status carve(struct spec *spec, const struct engine_dims *dims, const berth_plan *plan,
                          const struct os_hooks *hooks, struct berth_model **out, berth_error *err)
{
    uint64_t offsets[BERTH_LINE_COUNT] = {0};
    uint64_t bytes = plan_region(plan->line_bytes, offsets);
    void *region = NULL;
    TRY(os_reserve(hooks, bytes, true, &region, err));
    struct arena lines[BERTH_LINE_COUNT];
    for (int line = 0; line < BERTH_LINE_COUNT; line++) {
        if (plan_line_is_region((berth_line)line)) {
            arena_carve(&lines[line], (unsigned char *)region + offsets[line], plan->line_bytes[line]);
        } else {
            arena_measure(&lines[line]);
        }
    }
    struct engine engine;
    memset(&engine, 0, sizeof engine);
    berth_status status = engine_layout(lines, spec, dims, &engine, err);
    for (int line = 0; status == BERTH_OK && line < BERTH_LINE_COUNT; line++) {
        if (plan_line_is_region((berth_line)line) &&
            size_round_up((size_t)lines[line].used_bytes, OS_PAGE_BYTES) != plan->line_bytes[line]) {
            status = error_set(err, BERTH_ERR_INTERNAL, "plan line %s: planned %llu bytes, allocated %llu",
                               berth_line_name((berth_line)line), (unsigned long long)plan->line_bytes[line],
                               (unsigned long long)lines[line].used_bytes);
        }
    }
    if (status != BERTH_OK) {
        os_release(region, bytes);
        return status;
    }
    struct berth_model *model = engine.host;
    model->engine = engine;
    model->region = region;
    model->region_bytes = bytes;
    model->plan = *plan;
    *out = model;
    return BERTH_OK;
}

/* What must survive the open phase. The files change owner. */
static void take_over(struct berth_model *model, struct spec *spec, const berth_model_config *config,
                      const struct os_hooks *hooks)
{
    struct engine *e = &model->engine;
    for (uint32_t i = 0; i < e->files_count; i++) {
        e->files[i].hooks = hooks;
    }
    spec->checkpoint.files = NULL;
    model->log = (struct log_sink){config->log, config->log_user};
    model->family = spec->family;
    model->kernels = spec->kernels;
    model->text_only = config->mode == BERTH_OPEN_TEXT;
    model->format = spec->checkpoint.format;
    model->format_version = spec->checkpoint.version;
    snprintf(model->name, sizeof model->name, "%s", spec->checkpoint.name);
    snprintf(model->policy, sizeof model->policy, "%s",
             config->policy != NULL ? config->policy : policy_default_name());
    snprintf(model->text_problem, sizeof model->text_problem, "%s", spec->text_problem);
    model->open_read_bytes = spec->checkpoint.header_bytes;
    model->session.model = model;
}

/* Everything but the slots (which the cache maps in one by one) is in place before the first thread starts: no page
 * fault, and no two threads in one, on the token path. */
static void populate(const struct berth_model *model)
{
    uint64_t offsets[BERTH_LINE_COUNT] = {0};
    plan_region(model->plan.line_bytes, offsets);
    for (int line = 0; line < BERTH_LINE_COUNT; line++) {
        if (plan_line_is_region((berth_line)line) && line != BERTH_LINE_SLOTS) {
            os_populate((unsigned char *)model->region + offsets[line], model->plan.line_bytes[line]);
        }
    }
}

static berth_status start(struct berth_model *model, const berth_model_config *config,
                          const struct residency_config *residency, berth_error *err)
{
    struct engine *e = &model->engine;
    populate(model);
    TRY(io_start(e->io, err));
    TRY(pool_start(e->pool, err));
    struct trunk_load load = {.trunk = &e->trunk,
                              .staging = &e->staging,
                              .io = e->io,
                              .family = model->family,
                              .format = model->format,
                              .progress = config->progress,
                              .progress_user = config->progress_user};
    TRY(trunk_load(&load, err));
    model->open_read_bytes += e->trunk.stored_bytes;
    struct forward *fw = &e->forward;
    fw->hparams = e->hparams;
    fw->trunk = &e->trunk;
    fw->formats = e->formats;
    fw->kernels = model->kernels;
    fw->pool = e->pool;
    fw->cache = e->cache;
    fw->cancel = &model->session.cancel;
    forward_start(fw);
    if (e->residency == NULL) {
        return BERTH_OK;
    }
    fw->residency = e->residency;
    return residency_start(e->residency, e->cache, residency, err);
}

/* Where the ledger lies and what the user wants kept; strings are borrowed until the model is open. */
struct open_names {
    char ledger[USAGE_PATH_MAX], fallback[USAGE_PATH_MAX];
};

static berth_status ledger_names(const struct spec *spec, const berth_model_config *config, struct open_names *names,
                                 struct residency_config *out, berth_error *err)
{
    bool directory = false;
    uint64_t bytes = 0;
    const char *path = spec->checkpoint.path;
    TRY(os_path_info(path, &directory, &bytes, err));
    bool named = config->ledger_path != NULL;
    if ((!named && !usage_default_path(path, directory, NULL, names->ledger, sizeof names->ledger)) ||
        (config->state_dir != NULL &&
         !usage_default_path(path, directory, config->state_dir, names->fallback, sizeof names->fallback))) {
        return error_set(err, BERTH_ERR_LIMIT, "the path of the usage ledger is longer than %d bytes", USAGE_PATH_MAX);
    }
    out->ledger = true;
    out->read_only = config->ledger == BERTH_LEDGER_READ;
    out->usage = (struct usage_config){.path = named ? config->ledger_path : names->ledger,
                                       .fallback_path = config->state_dir != NULL && !named ? names->fallback : NULL,
                                       .any_engine = named,
                                       .half_life_tokens = config->ledger_half_life_tokens};
    return BERTH_OK;
}

static berth_status complete_residency(const struct spec *spec, const berth_model_config *config,
                                       struct open_names *names, struct residency_config *out, berth_error *err)
{
    if (config->ledger != BERTH_LEDGER_OFF && config->mode == BERTH_OPEN_FULL) {
        TRY(ledger_names(spec, config, names, out, err));
    }
    out->policy = config->policy;
    out->pins = config->pins;
    out->record = config->record_routes;
    out->log = (struct log_sink){config->log, config->log_user};
    return BERTH_OK;
}

/* What the person at the keyboard should know, once. */
static void say(const struct berth_model *model)
{
    const berth_plan *plan = &model->plan;
    const struct log_sink *log = &model->log;
    if (!model->text_only && !plan->cached) {
        log_write(log, BERTH_LOG_WARN,
                  "running uncached: the budget of %.1f MiB is below the floor of %.1f MiB, every expert is read anew",
                  (double)plan->budget_bytes / 1048576.0, (double)plan->floor_bytes / 1048576.0);
    }
    if (model->text_problem[0] != '\0') {
        log_write(log, BERTH_LOG_WARN, "no text, token ids only: %s", model->text_problem);
    }
    if (!model->text_only && !model->engine.files[0].direct) {
        log_write(log, BERTH_LOG_INFO, "%s is read through the page cache: its file system refuses direct reads",
                  model->engine.files[0].path);
    }
    if (!model->locked) {
        log_write(log, BERTH_LOG_INFO, "memory is not locked (the limit for this user is lower than the plan)");
    }
}

berth_status model_open_hooked(const char *path, const berth_model_config *config, const struct os_hooks *hooks,
                               berth_model **out, berth_error *err)
{
    if (out == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT, "no place for the model handle");
    }
    uint64_t began = os_now_ns();
    berth_model_config complete;
    struct spec *spec = NULL;
    struct berth_model *model = NULL;
    struct engine_dims dims;
    struct spec_request open;
    struct open_names names = {{0}, {0}};
    char binding[256];
    berth_plan plan = BERTH_PLAN_INIT;
    struct plan_request request = {.config = &complete, .binding = binding, .host_bytes = sizeof(struct berth_model)};
    TRY(config_complete(config, &complete, err));
    TRY(budget_resolve(&complete, &request.budget_bytes, binding, err));
    TRY(open_request(path, &complete, request.budget_bytes, hooks, &open, err));
    TRY(spec_open(&open, &spec, err));
    berth_status status = plan_solve(spec, &request, &dims, &plan, err);
    if (status == BERTH_OK && !plan.fits) {
        status = plan_refuse(&plan, path, err);
    }
    if (status == BERTH_OK) {
        status = reopen_files(spec, &complete, hooks, err);
    }
    if (status == BERTH_OK) {
        status = complete_residency(spec, &complete, &names, &dims.residency, err);
    }
    if (status == BERTH_OK) {
        status = carve(spec, &dims, &plan, hooks, &model, err);
    }
    if (status == BERTH_OK) {
        take_over(model, spec, &complete, hooks);
    }
    spec_close(spec);
    if (status == BERTH_OK && complete.mode == BERTH_OPEN_FULL) {
        dims.residency.model = model->name;
        status = start(model, &complete, &dims.residency, err);
    }
    if (status != BERTH_OK) {
        berth_model_close(model);
        return status;
    }
    model->locked = os_lock(model->region, model->region_bytes);
    os_prefault_code();
    model->open_ns = os_now_ns() - began;
    model->open_major_faults = os_major_faults();
    say(model);
    *out = model;
    return BERTH_OK;
}

berth_status berth_model_open(const char *path, const berth_model_config *config, berth_model **out, berth_error *err)
{
    return model_open_hooked(path, config, NULL, out, err);
}

void berth_model_close(berth_model *model)
{
    if (model == NULL) {
        return;
    }
    if (model->engine.residency != NULL) {
        berth_error err;
        if (residency_stop(model->engine.residency, &err) != BERTH_OK) {
            log_write(&model->log, BERTH_LOG_WARN, "%s: %s", err.path, err.message);
        }
    }
    pool_stop(model->engine.pool);
    io_stop(model->engine.io);
    for (uint32_t i = 0; i < model->engine.files_count; i++) {
        os_file_close(&model->engine.files[i]);
    }
    os_release(model->region, model->region_bytes);
}
