/* SPDX-License-Identifier: MIT
 * berth fit: the memory plan of a model, from its headers alone. */
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fit_llama.h"
#include "cli/fit_mlx.h"
#include "cli/fit_speed.h"
#include "cli/verbs.h"
#include "common/advice.h"
#include "common/engine.h"
#include "common/plan_out.h"
#include "common/report.h"
#include "common/sizes.h"
#include "tool.h"

struct fit_options {
    struct model_options model;
    struct mlx_options mlx;
    struct llama_options llama;
    struct admission_options admission;
    const char *disk, *hits;
    bool json, quiet;
};

#define AT(field) offsetof(struct fit_options, field)

static const struct arg_option rate_rows[] = {
    {.name = "disk",
     .type = ARG_TEXT,
     .offset = AT(disk),
     .value = "GB/S",
     .help = "rate that experts are read at, in 1e9 bytes a second\n(default: as measured here)"},
    {.name = "hits",
     .type = ARG_TEXT,
     .offset = AT(hits),
     .value = "PERCENT",
     .help = "experts found in memory, of those selected (default:\nof runs, the ledger, or of models like it)"},
};
static const struct arg_option output_rows[] = {
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print the plan as JSON"},
    {.name = "quiet",
     .letter = 'q',
     .type = ARG_FLAG,
     .offset = AT(quiet),
     .help = "print nothing: the exit status says it"},
};
enum {
    RATE_OPTIONS = sizeof rate_rows / sizeof rate_rows[0],
    OUTPUT_OPTIONS = sizeof output_rows / sizeof output_rows[0]
};

static const struct arg_group groups[] = {
    {"Plan", plan_option_rows, PLAN_OPTIONS, AT(model)},
    {"Machine", machine_option_rows, MACHINE_OPTIONS, AT(model)},
    {"Other machines and rules", mlx_option_rows, MLX_OPTIONS, AT(mlx)},
    {"Predicted speed", rate_rows, RATE_OPTIONS, 0},
    {"A request", admission_option_rows, ADMISSION_OPTIONS, AT(admission)},
    {"llama.cpp", llama_option_rows, LLAMA_OPTIONS, AT(llama)},
    {"Output", output_rows, OUTPUT_OPTIONS, 0},
};

static const struct arg_positional positionals[] = {{"MODEL", AT(model.path), false}};

static const struct arg_spec spec = {
    .verb = "fit",
    .synopsis = "MODEL [--engine NAME] [--budget SIZE] [--ctx N] [--explain] [--json]",
    .summary = "Show the memory plan of a model and whether it fits.",
    .details =
        "MODEL is a GGUF file (the first part of a split one) or a Hugging Face directory. Only headers are read.\n"
        "With --engine mlx or llama.cpp it may be a config.json and --weights-bytes.\n"
        "Exit status: 0 fits, 3 does not fit, 1 failure or only a lower bound, 2 usage.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = sizeof groups / sizeof groups[0],
};

struct fit {
    const struct model_options *options;
    struct tool_summary model;
    tool_planner *planner;
    berth_plan plan;
    struct advice_list advice; /* found by planning with it */
    bool explain;
    struct fit_target target;
    struct fit_speed speed;
    struct admission admission;
};

/* Plans with options as given; the program's own share depends on the context, so it is part of each plan. */
static int plan_with(struct fit *fit, const struct model_options *options, berth_plan *plan)
{
    const tool_summary *model = &fit->model;
    berth_model_config config;
    const tool_shape shape = {.vocab = model->vocab, .ctx_max_tokens = model->ctx_max_tokens};
    struct engine_needs needs = {.shape = &shape};
    int code = engine_config("fit", options, &needs, &config);
    if (code != EXIT_OK) {
        return code;
    }
    *plan = BERTH_PLAN_INIT;
    berth_error err;
    if (tool_planner_plan(fit->planner, &config, plan, &err) != BERTH_OK) {
        return report_error("fit", &err);
    }
    engine_name_budget(options, plan);
    return EXIT_OK;
}

static int plan_other(void *user, const struct model_options *options, berth_plan *plan)
{
    return plan_with(user, options, plan);
}

static int settle_ctx_max(struct fit *fit)
{
    return engine_settle_ctx(fit->options, &fit->plan, plan_other, fit);
}

static int advise(struct fit *fit, const struct model_options *changed, const char *option, bool together)
{
    berth_plan plan;
    int code = plan_with(fit, changed, &plan);
    if (code == EXIT_OK && together) {
        advice_add_all(&fit->advice, option, plan.hard_floor_bytes, plan.fits);
    } else if (code == EXIT_OK) {
        advice_add(&fit->advice, option, fit->plan.hard_floor_bytes, plan.hard_floor_bytes, plan.fits);
    }
    return code;
}

/* Tries one change at a time, then all of them. */
static int find_advice(struct fit *fit)
{
    enum { SMALL_CTX = 512, LEAST_CTX = 128, SMALL_CHUNK = 8 };
    struct model_options all = *fit->options;
    struct model_options one = *fit->options;
    char option[48];
    int code = EXIT_OK;
    /* The largest that fits; where none does, the least that anybody wants, for what it adds to other changes. */
    uint32_t ctx = fit->plan.ctx_max_tokens > 0 && fit->plan.ctx_max_tokens < fit->plan.ctx_tokens
                       ? fit->plan.ctx_max_tokens
                   : fit->plan.ctx_tokens > SMALL_CTX ? SMALL_CTX
                                                      : LEAST_CTX;
    if (ctx < fit->plan.ctx_tokens) {
        one.ctx_tokens = all.ctx_tokens = ctx;
        snprintf(option, sizeof option, "--ctx %" PRIu32, ctx);
        code = advise(fit, &one, option, false);
    }
    bool wide = fit->plan.kv_type == BERTH_KV_F32;
    if (code == EXIT_OK && (wide || (fit->plan.kv_type == BERTH_KV_F16 && fit->model.head_dim % 32 == 0))) {
        one = *fit->options;
        one.kv = all.kv = wide ? BERTH_KV_F16 : BERTH_KV_Q8_0;
        code = advise(fit, &one, wide ? "--kv f16" : "--kv q8_0", false);
    }
    if (code == EXIT_OK && fit->plan.chunk_tokens > SMALL_CHUNK) {
        one = *fit->options;
        one.chunk_tokens = all.chunk_tokens = SMALL_CHUNK;
        snprintf(option, sizeof option, "--chunk %d", SMALL_CHUNK);
        code = advise(fit, &one, option, false);
    }
    if (code == EXIT_OK && fit->advice.count > 1) {
        char together[ADVICE_OPTION_MAX];
        advice_join(&fit->advice, together, sizeof together);
        code = advise(fit, &all, together, true);
    }
    return code;
}

/* ---- the arithmetic --------------------------------------------------------------------------------- */

static void print_line(void *user, const char *text)
{
    (void)user;
    printf("  %s\n", text);
}

static void json_line(void *user, const char *text)
{
    json_out_string(user, NULL, text);
}

static void say(tool_line_fn *fn, void *user, const char *format, ...) BASE_PRINTF(3, 4);

static void say(tool_line_fn *fn, void *user, const char *format, ...)
{
    char line[400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fn(user, line);
}

/* Each line of the plan as a product or a sum; the layers by kind come from the headers. */
static int explain(const struct fit *fit, tool_line_fn *fn, void *user)
{
    const berth_plan *plan = &fit->plan;
    const tool_summary *model = &fit->model;
    uint32_t num = plan->kv_type == BERTH_KV_F32 ? 4 : plan->kv_type == BERTH_KV_Q8_0 ? 34 : 2;
    uint32_t den = plan->kv_type == BERTH_KV_Q8_0 ? 32 : 1;
    uint64_t row = (uint64_t)model->head_dim * num / den;
    tool_model *shape;
    tool_model_info info;
    berth_error err;
    if (tool_model_of(tool_planner_checkpoint(fit->planner), &shape, &err) != BERTH_OK) {
        return report_error("fit", &err);
    }
    tool_model_describe(shape, &info);
    tool_model_explain(shape, plan->ctx_tokens, num, den, fn, user);
    tool_model_close(shape);
    say(fn, user,
        "trunk = resident %" PRIu64 " + lookup %" PRIu64 " B of the file, small vectors in float32: %" PRIu64 " B",
        info.weight_bytes[TOOL_WEIGHTS_RESIDENT], info.weight_bytes[TOOL_WEIGHTS_LOOKUP],
        plan->line_bytes[BERTH_LINE_TRUNK]);
    say(fn, user,
        "kv = %" PRIu32 " layers x %" PRIu32 " heads x %" PRIu32 " positions x %" PRIu64 " B x 2 = %" PRIu64
        ", in pages %" PRIu64 " B; windowed layers keep every position here",
        model->layers, model->kv_heads, plan->ctx_tokens, row,
        (uint64_t)model->layers * model->kv_heads * plan->ctx_tokens * row * 2, plan->line_bytes[BERTH_LINE_KV]);
    if (plan->experts_count > 0) {
        say(fn, user,
            "slots = %" PRIu64 " of %" PRIu64 " experts; a cycle is %" PRIu32 " layers x %" PRIu32 " = %" PRIu64
            " B, and a token reads %" PRIu64 " B of the file",
            plan->slots_count, plan->experts_count, model->moe_layers, model->top_k, plan->cycle_bytes,
            plan->token_expert_bytes);
    }
    say(fn, user, "hard floor = the other lines + the slots of the neediest layer = %" PRIu64 " B",
        plan->hard_floor_bytes);
    say(fn, user, "floor = the other lines + one cycle = %" PRIu64 " B; full = every expert = %" PRIu64 " B",
        plan->floor_bytes, plan->full_bytes);
    say(fn, user, "plan = max(open %" PRIu64 ", run %" PRIu64 ") = %" PRIu64 " B of a budget of %" PRIu64 " (%s)",
        plan->open_bytes, plan->run_bytes, plan->plan_bytes, plan->budget_bytes, plan->binding);
    return EXIT_OK;
}

static int print_text(const struct fit *fit)
{
    const struct tool_summary *model = &fit->model;
    char count[FORMAT_MAX];
    char bytes[FORMAT_MAX];
    printf("%s: %s, %s, %s parameters, %s on disk\n", model->name[0] != '\0' ? model->name : fit->options->path,
           model->family, model->format, count_format(model->parameters, count),
           size_format(model->tensor_bytes, bytes));
    printf("context %" PRIu32 ", chunk %" PRIu32 ", KV %s, %" PRIu32 " threads\n\n", fit->plan.ctx_tokens,
           fit->plan.chunk_tokens, plan_kv_name(fit->plan.kv_type), fit->plan.threads);
    plan_print(&fit->plan, stdout);
    const char *problem = fit_target_problem(&fit->target);
    if (problem != NULL) {
        printf("Berth does not run there: %s.\nThis is what it would need if it did.\n", problem);
    }
    if (fit->admission.asked) {
        char request[256];
        admission_text(&fit->admission, request, sizeof request);
        printf("\nRequest %s\n", request);
    }
    fit_speed_print(&fit->speed, stdout);
    if (!fit->plan.fits) {
        advice_print(&fit->advice, fit->plan.hard_floor_bytes, "is the smallest that runs");
    }
    if (fit->explain) {
        printf("\nThe arithmetic:\n");
        return explain(fit, print_line, NULL);
    }
    return EXIT_OK;
}

/* Numbers that config.json leaves to its class. A GGUF file has all of its own. */
static void json_defaults(struct json_out *json, const struct fit *fit)
{
    char path[4096];
    tool_model *model = NULL;
    const char *key;
    uint32_t value;
    int bytes = snprintf(path, sizeof path, "%s/config.json", fit->options->path);
    json_out_object(json, "defaults");
    if (strcmp(fit->model.format, "safetensors") == 0 && bytes > 0 && (size_t)bytes < sizeof path &&
        tool_model_open(path, 1, 0, &model, NULL) == BERTH_OK) {
        for (uint32_t i = 0; (key = tool_model_default(model, i, &value)) != NULL; i++) {
            json_out_u64(json, key, value);
        }
    }
    tool_model_close(model);
    json_out_close(json);
}

static int print_json(const struct fit *fit)
{
    int code = EXIT_OK;
    const struct tool_summary *model = &fit->model;
    struct json_out json;
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    json_out_object(&json, "model");
    json_out_string(&json, "path", fit->options->path);
    json_out_string(&json, "name", model->name);
    json_out_string(&json, "family", model->family);
    json_out_string(&json, "format", model->format);
    json_out_u64(&json, "parameters", model->parameters);
    json_out_u64(&json, "tensor_bytes", model->tensor_bytes);
    json_out_u64(&json, "ctx_max", model->ctx_max_tokens);
    json_defaults(&json, fit);
    json_out_close(&json);
    json_out_string(&json, "engine", "berth");
    json_out_string(&json, "verdict", !fit->plan.fits ? "no-fit" : fit->plan.cached ? "fits" : "fits-uncached");
    const char *problem = fit_target_problem(&fit->target);
    if (problem != NULL) {
        json_out_string(&json, "machine_problem", problem);
    } else {
        json_out_null(&json, "machine_problem");
    }
    plan_json(&json, "plan", &fit->plan);
    fit_speed_json(&json, "speed", &fit->speed);
    advice_json(&json, &fit->advice, "hard_floor_bytes");
    admission_json(&json, &fit->admission);
    if (fit->explain) {
        json_out_array(&json, "arithmetic", false);
        code = explain(fit, json_line, &json);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_end(&json);
    return code;
}

/* An option that the chosen rules do not know, and where it goes; NULL: none. */
static const char *stray_option(const struct fit_options *options, const char **place)
{
    const struct mlx_options *mlx = &options->mlx;
    const char *llama = llama_option_given(&options->llama);
    const char *both = mlx->weights_bytes > 0 ? "--weights-bytes" : mlx->experts_bytes > 0 ? "--experts-bytes" : NULL;
    const char *mlx_only = mlx->kv_quant != NULL ? "--kv-quant" : NULL;
    bool other = mlx->engine != FIT_ENGINE_BERTH;
    if (other && options->model.kv != BERTH_KV_DEFAULT) {
        *place = mlx->engine == FIT_ENGINE_MLX ? "--engine berth; here it is --kv-quant"
                                               : "--engine berth; here it is --cache-type-k and --cache-type-v";
        return "--kv";
    }
    if (other && mlx->engine == FIT_ENGINE_LLAMA && options->model.chunk_tokens > 0) {
        *place = "--engine berth or mlx; here it is --ubatch";
        return "--chunk";
    }
    if (llama != NULL && mlx->engine != FIT_ENGINE_LLAMA) {
        *place = "--engine llama.cpp";
        return llama;
    }
    if (mlx->engine == FIT_ENGINE_LLAMA && mlx->experts_bytes > 0 && mlx->weights_bytes == 0) {
        *place = "--weights-bytes";
        return "--experts-bytes";
    }
    if (both != NULL && !other) {
        *place = "--engine mlx or llama.cpp";
        return both;
    }
    if ((options->disk != NULL || options->hits != NULL) && other) {
        *place = "--engine berth";
        return options->disk != NULL ? "--disk" : "--hits";
    }
    if (options->hits != NULL && mlx->matrix) {
        *place = "one machine; with --matrix each holds another share";
        return "--hits";
    }
    if (mlx->filter != NULL && !mlx->matrix) {
        *place = "--matrix";
        return "--filter";
    }
    *place = "--engine mlx";
    if (mlx->engine == FIT_ENGINE_MLX) {
        return NULL;
    }
    return mlx_only;
}

static void share_options(struct fit_options *options)
{
    struct llama_options *llama = &options->llama;
    llama->machine = &options->mlx;
    llama->path = options->model.path;
    llama->budget_bytes = options->model.budget_bytes;
    llama->ctx_tokens = options->model.ctx_tokens;
    llama->json = options->json;
    llama->explain = options->mlx.explain;
    llama->quiet = options->quiet;
    options->mlx.admission = &options->admission;
    options->mlx.quiet = options->quiet;
    options->mlx.json = options->json;
}

static int run_mlx(struct fit_options *options)
{
    options->mlx.path = options->model.path;
    options->mlx.budget_bytes = options->model.budget_bytes;
    options->mlx.ctx_tokens = options->model.ctx_tokens;
    options->mlx.chunk_tokens = options->model.chunk_tokens;
    options->mlx.json = options->json;
    return fit_mlx(&options->mlx);
}

static int run_own(struct fit *fit, struct fit_options *options)
{
    options->mlx.json = options->json;
    int code = fit_target_read(&options->mlx, options->disk, &fit->target, &options->model.budget_bytes);
    code = code == EXIT_OK ? fit_hits_read(options->hits, &fit->target) : code;
    if (code == EXIT_OK && options->mlx.matrix) {
        options->model.budget_bytes = (uint64_t)1 << 50;
        code = plan_with(fit, &options->model, &fit->plan);
        return code == EXIT_OK ? fit_speed_matrix(&options->mlx, options->disk, &fit->model, &fit->plan) : code;
    }
    if (code == EXIT_OK) {
        code = plan_with(fit, &options->model, &fit->plan);
    }
    if (code == EXIT_OK && fit->target.other) {
        snprintf(fit->plan.binding, sizeof fit->plan.binding, "memory of %s", fit->target.machine.machine.name);
    }
    if (code == EXIT_OK) {
        code = settle_ctx_max(fit);
    }
    if (code == EXIT_OK && !fit->plan.fits) {
        code = find_advice(fit);
    }
    if (code != EXIT_OK) {
        return code;
    }
    code = admission_solve(&options->admission, fit->plan.ctx_max_tokens, options->model.ctx_tokens, &fit->admission);
    if (code == EXIT_OK && (options->json || !options->quiet)) {
        fit_speed_predict(&fit->target, &options->model, &fit->model, &fit->plan, &fit->speed);
        code = options->json ? print_json(fit) : print_text(fit);
    }
    if (code != EXIT_OK) {
        return code;
    }
    return fit->plan.fits && !admission_refused(&fit->admission) ? EXIT_OK : EXIT_NO_FIT;
}

/* A configuration that reads as one, and nothing beside it. */
static bool is_bare(const char *path)
{
    tool_model *model = NULL;
    bool bare = tool_model_open(path, 1, 0, &model, NULL) == BERTH_OK;
    tool_model_close(model);
    return bare;
}

static int run(int argc, char **argv)
{
    struct fit_options options = {.admission = ADMISSION_OPTIONS_INIT};
    int code;
    if (!report_args(&spec, argc, argv, &options, &code)) {
        return code;
    }
    const char *place;
    const char *stray = stray_option(&options, &place);
    if (stray != NULL) {
        return report_usage("fit", "%s goes with %s", stray, place);
    }
    share_options(&options);
    code = admission_check(&options.admission, options.mlx.matrix);
    if (code != EXIT_OK) {
        return code;
    }
    if (options.mlx.engine == FIT_ENGINE_LLAMA) {
        return fit_llama(&options.llama);
    }
    if (options.mlx.engine == FIT_ENGINE_MLX) {
        return run_mlx(&options);
    }
    struct fit fit = {.options = &options.model, .explain = options.mlx.explain};
    berth_error err;
    if (tool_planner_open(options.model.path, &fit.planner, &err) != BERTH_OK) {
        return err.status == BERTH_ERR_NOT_FOUND && is_bare(options.model.path)
                   ? report_failure("fit",
                                    "%s: a configuration without weights; say --engine mlx or llama.cpp, and "
                                    "--weights-bytes",
                                    options.model.path)
                   : report_error("fit", &err);
    }
    const tool_checkpoint *checkpoint = tool_planner_checkpoint(fit.planner);
    tool_summarise(checkpoint, &fit.model);
    char *pins = NULL;
    code = engine_read_pins("fit", options.model.pins, &pins); /* which experts they are changes no plan */
    free(pins);
    if (code == EXIT_OK && fit.model.family_is_broken) {
        code = report_failure("fit", "%s: %s", options.model.path, fit.model.family_problem);
    } else if (code == EXIT_OK) {
        code = fit.model.family[0] != '\0' ? run_own(&fit, &options)
                                           : fit_cannot_run(&options.llama, checkpoint, fit.model.family_problem);
    }
    tool_planner_close(fit.planner);
    return code;
}

const struct verb verb_fit = {"fit", &spec, run, false};
