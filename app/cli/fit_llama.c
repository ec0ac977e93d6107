/* SPDX-License-Identifier: MIT
 * berth fit --engine llama.cpp: what llama.cpp would take for a model, from its headers. */
#include "cli/fit_llama.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/fit_llama_speed.h"
#include "common/advice.h"
#include "common/json_out.h"
#include "common/report.h"
#include "common/sizes.h"

enum { OFFLOAD_AUTO = 0, OFFLOAD_NONE, OFFLOAD_ALL };
static const struct arg_choice offloads[] = {{"none", OFFLOAD_NONE}, {"all", OFFLOAD_ALL}, {NULL, 0}};
#define AT(field) offsetof(struct llama_options, field)

const struct arg_option llama_option_rows[] = {
    {.name = "cache-type-k",
     .type = ARG_TEXT,
     .offset = AT(type_k),
     .value = "TYPE",
     .help = "of keys: f32, f16 (default), bf16, q8_0, q5_1, q5_0,\nq4_1, q4_0, iq4_nl"},
    {.name = "cache-type-v", .type = ARG_TEXT, .offset = AT(type_v), .value = "TYPE", .help = "of values"},
    {.name = "slots",
     .type = ARG_U32,
     .offset = AT(slots),
     .low = 1,
     .high = 256,
     .value = "N",
     .help = "sequences at once, -np there (default 1)"},
    {.name = "kv-unified", .type = ARG_FLAG, .offset = AT(unified), .help = "the slots share the context"},
    {.name = "ubatch",
     .type = ARG_U32,
     .offset = AT(ubatch),
     .low = 1,
     .high = 1u << 20,
     .value = "N",
     .help = "micro-batch in tokens (default 512)"},
    {.name = "swa-full", .type = ARG_FLAG, .offset = AT(swa_full), .help = "windowed layers keep every position"},
    {.name = "no-flash-attn", .type = ARG_FLAG, .offset = AT(no_flash_attention), .help = "scores in full"},
    {.name = "outputs",
     .type = ARG_U32,
     .offset = AT(outputs),
     .low = 1,
     .high = 1u << 20,
     .value = "N",
     .help = "rows of logits of a micro-batch (default: the slots)"},
    {.name = "mla",
     .type = ARG_TEXT,
     .offset = AT(mla),
     .value = "KIND",
     .help = "latent attention keeps: latent (default), latent+v,\nor full keys and values"},
    {.name = "build",
     .type = ARG_TEXT,
     .offset = AT(build),
     .value = "NAME",
     .help = "rules of: current (default), 2026, 2025, ik, ik-2026"},
    {.name = "offload",
     .type = ARG_CHOICE,
     .offset = AT(offload),
     .choices = offloads,
     .help = "layers on an accelerator: none, or all\n(default: all on a machine that has one)"},
    {.name = "draft",
     .type = ARG_FLAG,
     .offset = AT(draft),
     .help = "and a context for the model's own blocks for further\ntokens (MTP)"},
};
_Static_assert(sizeof llama_option_rows / sizeof llama_option_rows[0] == LLAMA_OPTIONS, "LLAMA_OPTIONS is stale");

const char *llama_option_given(const struct llama_options *options)
{
    return options->type_k != NULL            ? "--cache-type-k"
           : options->type_v != NULL          ? "--cache-type-v"
           : options->slots > 0               ? "--slots"
           : options->unified                 ? "--kv-unified"
           : options->ubatch > 0              ? "--ubatch"
           : options->swa_full                ? "--swa-full"
           : options->no_flash_attention      ? "--no-flash-attn"
           : options->outputs > 0             ? "--outputs"
           : options->mla != NULL             ? "--mla"
           : options->build != NULL           ? "--build"
           : options->offload != OFFLOAD_AUTO ? "--offload"
           : options->draft                   ? "--draft"
                                              : NULL;
}

/* ---- solving ---------------------------------------------------------------------------------------- */

/* Of the estimate of a compute buffer, by what the program printed; measured with bench/fit_peer.py (docs/fit.md). */
struct spread {
    double low, high;
    uint32_t runs;
    const char *where;
};
static const struct spread spreads[2] = {{0.98, 1.06, 460, "CPU"}, {0.86, 1.20, 234, "Vulkan, flash attention"}};

struct llama_fit {
    const struct llama_options *options;
    tool_model *model;
    tool_model_info info;
    tool_llama request;
    tool_llama_report report;
    uint64_t usable_bytes, needed_bytes, max_ctx;
    struct admission admission;
    struct fit_target target;
    struct fit_speed speed;
    char machine[160];
    char binding[256];
    bool is_device, fits;
    struct advice_list advice;
    const char *cannot_run; /* NULL: these rules were asked for */
};

static uint64_t needed(const struct llama_fit *fit, const tool_llama_report *report)
{
    return fit->is_device ? report->device_bytes : report->host_bytes;
}

/* What the machine gives: an explicit budget, a card less what its driver takes, three quarters of unified memory, the
 * memory of a named processor, or what this machine has free. */
static int find_usable(struct llama_fit *fit)
{
    const struct llama_options *options = fit->options;
    const struct mlx_options *named = options->machine;
    berth_error err;
    bool given = named->machine != NULL || named->ram_bytes > 0;
    struct mlx_machine machine = {.basis = ""};
    if (given) {
        int code = mlx_find_machine(named, &machine);
        if (code != EXIT_OK) {
            return code;
        }
    }
    fit->is_device = options->offload == OFFLOAD_ALL ||
                     (options->offload == OFFLOAD_AUTO && named->machine != NULL && llama_has_device(&machine));
    snprintf(fit->machine, sizeof fit->machine, "%s", given ? machine.machine.name : "this machine");
    if (options->budget_bytes > 0) {
        fit->usable_bytes = options->budget_bytes;
        snprintf(fit->binding, sizeof fit->binding, "--budget");
    } else if (given) {
        fit->usable_bytes = (uint64_t)llama_usable(&machine, fit->is_device);
        snprintf(fit->binding, sizeof fit->binding, "%s",
                 machine.has_budget ? "card memory less 749 MiB"
                 : fit->is_device   ? "75 % of memory"
                                    : "memory");
    } else {
        berth_budget budget = BERTH_BUDGET_INIT;
        if (berth_budget_auto(&budget, &err) != BERTH_OK) {
            return report_error("fit", &err);
        }
        fit->usable_bytes = budget.bytes;
        snprintf(fit->binding, sizeof fit->binding, "%s", budget.binding);
    }
    return EXIT_OK;
}

static int try_change(struct llama_fit *fit, const tool_llama *changed, const char *option, bool together)
{
    tool_llama_report report;
    berth_error err;
    if (tool_model_llama(fit->model, changed, &report, &err) != BERTH_OK) {
        return report_error("fit", &err);
    }
    uint64_t bytes = needed(fit, &report);
    if (together) {
        advice_add_all(&fit->advice, option, bytes, bytes <= fit->usable_bytes);
    } else {
        advice_add(&fit->advice, option, fit->needed_bytes, bytes, bytes <= fit->usable_bytes);
    }
    return EXIT_OK;
}

/* Only changes that are changes and lower the sum; then all of them, each option to be used as it is printed. */
static int find_advice(struct llama_fit *fit)
{
    const tool_llama *request = &fit->request;
    tool_llama changed = *request;
    tool_llama all = *request;
    char option[64];
    int code = EXIT_OK;
    if (fit->max_ctx > 0 && fit->max_ctx < fit->report.ctx_tokens) {
        changed.ctx_tokens = all.ctx_tokens = fit->max_ctx;
        snprintf(option, sizeof option, "--ctx %" PRIu64, fit->max_ctx);
        code = try_change(fit, &changed, option, false);
    }
    bool narrow = request->type_k != NULL && strcmp(request->type_k, "f16") != 0;
    if (code == EXIT_OK && !narrow && !request->no_flash_attention) {
        changed = *request;
        changed.type_k = changed.type_v = all.type_k = all.type_v = "q8_0";
        code = try_change(fit, &changed, "--cache-type-k q8_0 --cache-type-v q8_0", false);
    }
    if (code == EXIT_OK && request->no_flash_attention) {
        changed = *request;
        changed.no_flash_attention = all.no_flash_attention = false;
        code = try_change(fit, &changed, "leaving out --no-flash-attn", false);
    }
    if (code == EXIT_OK && request->is_swa_full) {
        changed = *request;
        changed.is_swa_full = all.is_swa_full = false;
        code = try_change(fit, &changed, "leaving out --swa-full", false);
    }
    if (code == EXIT_OK && request->is_draft) {
        changed = *request;
        changed.is_draft = all.is_draft = false;
        code = try_change(fit, &changed, "leaving out --draft", false);
    }
    if (code == EXIT_OK && (request->ubatch_tokens == 0 || request->ubatch_tokens > 128)) {
        changed = *request;
        changed.ubatch_tokens = all.ubatch_tokens = 128;
        code = try_change(fit, &changed, "--ubatch 128", false);
    }
    if (code == EXIT_OK && fit->advice.count > 1) {
        char together[ADVICE_OPTION_MAX];
        advice_join(&fit->advice, together, sizeof together);
        code = try_change(fit, &all, together, true);
    }
    return code;
}

static void fill_request(struct llama_fit *fit)
{
    const struct llama_options *options = fit->options;
    fit->request = (tool_llama){.ctx_tokens = options->ctx_tokens,
                                .ubatch_tokens = options->ubatch,
                                .slots = options->slots,
                                .outputs = options->outputs,
                                .is_unified = options->unified,
                                .is_swa_full = options->swa_full,
                                .is_draft = options->draft,
                                .no_flash_attention = options->no_flash_attention,
                                .is_device = fit->is_device,
                                .type_k = options->type_k,
                                .type_v = options->type_v,
                                .mla = options->mla,
                                .build = options->build};
}

static int solve_speed(struct llama_fit *fit)
{
    uint64_t ignored = 1;
    int code = fit_target_read(fit->options->machine, NULL, &fit->target, &ignored);
    if (code != EXIT_OK || !fit->fits || !fit->info.is_known) {
        return code;
    }
    const struct llama_speed of = {fit->model, &fit->request, &fit->target, fit->is_device};
    return llama_speed_predict(&of, (double)fit->report.ctx_tokens, (double)fit->max_ctx, &fit->speed);
}

static int solve(struct llama_fit *fit)
{
    berth_error err;
    int code = find_usable(fit);
    if (code != EXIT_OK) {
        return code;
    }
    fill_request(fit);
    if (tool_model_llama(fit->model, &fit->request, &fit->report, &err) != BERTH_OK ||
        tool_model_llama_ctx(fit->model, &fit->request, fit->is_device, fit->usable_bytes, &fit->max_ctx, &err) !=
            BERTH_OK) {
        return report_error("fit", &err);
    }
    fit->needed_bytes = needed(fit, &fit->report);
    fit->fits = fit->needed_bytes <= fit->usable_bytes;
    code = solve_speed(fit);
    return fit->fits || code != EXIT_OK ? code : find_advice(fit);
}

/* ---- text ------------------------------------------------------------------------------------------- */

static void line(const char *name, uint64_t bytes, const char *more)
{
    char text[FORMAT_MAX];
    printf("  %-20s %12s%s%s\n", name, size_format(bytes, text), more[0] != '\0' ? "  " : "", more);
}

static void print_bar(uint64_t used, uint64_t usable)
{
    enum { CELLS = 50 };
    double share = usable > 0 ? (double)used / (double)usable : 1e6;
    int filled = share < 1 ? (int)(share * CELLS) : CELLS;
    printf("  [");
    for (int i = 0; i < CELLS; i++) {
        putchar(i < filled ? '#' : '.');
    }
    printf("] %.0f %%\n", share < 9999 ? share * 100 : 999999);
}

static void print_weights(const struct llama_fit *fit)
{
    static const char *const names[TOOL_WEIGHTS_COUNT] = {"resident", "routed experts", "lookup tables", "not loaded"};
    char text[FORMAT_MAX];
    char classes[400];
    bool first = true;
    size_t used = (size_t)snprintf(classes, sizeof classes, "Weights by class: ");
    for (int i = 0; i < TOOL_WEIGHTS_COUNT; i++) {
        if (fit->info.weight_bytes[i] > 0) {
            used += (size_t)snprintf(classes + used, sizeof classes - used, "%s%s %s", first ? "" : ", ", names[i],
                                     size_format(fit->info.weight_bytes[i], text));
            first = false;
        }
    }
    snprintf(classes + used, sizeof classes - used, "%s%s", first ? "unknown: say --weights-bytes" : "",
             fit->info.experts_by_params ? " (by their shares of the parameters)" : "");
    report_wrap(stdout, 0, 2, classes);
}

static void print_caches(const struct llama_fit *fit)
{
    char name[48];
    char more[128];
    for (int i = 0; i < TOOL_LLAMA_PARTS; i++) {
        if (fit->report.part[i].layers == 0) {
            continue;
        }
        snprintf(name, sizeof name, "kv, %s", fit->report.part[i].name);
        snprintf(more, sizeof more, "%" PRIu32 " layers x %" PRIu64 " cells", fit->report.part[i].layers,
                 fit->report.part[i].cells);
        line(name, fit->report.part[i].k_bytes + fit->report.part[i].v_bytes, more);
    }
    if (fit->report.state_bytes > 0) {
        snprintf(more, sizeof more, "%" PRIu32 " layers", fit->report.state_layers);
        line("recurrent state", fit->report.state_bytes, more);
    }
    if (fit->report.draft.layers > 0) {
        snprintf(more, sizeof more, "%" PRIu32 " layers x %" PRIu64 " cells, f16", fit->report.draft.layers,
                 fit->report.draft.cells);
        line("kv, draft", fit->report.draft.kv_bytes, more);
        if (fit->report.draft.weights_bytes > 0) { /* else they are among the others, or there are no files */
            line("weights, draft", fit->report.draft.weights_bytes, "");
        }
        line("compute, draft", fit->report.draft.compute_bytes, "(estimate, never measured)");
    }
}

static void print_line(void *user, const char *text)
{
    (void)user;
    printf("  %s\n", text);
}

static void type_size(const char *name, uint32_t *num, uint32_t *den)
{
    static const struct {
        const char *name;
        uint32_t num, den;
    } rows[] = {{"f32", 4, 1},    {"q8_0", 34, 32}, {"q5_1", 24, 32},  {"q5_0", 22, 32},
                {"q4_1", 20, 32}, {"q4_0", 18, 32}, {"iq4_nl", 18, 32}};
    *num = 2;
    *den = 1;
    for (size_t i = 0; name != NULL && i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            *num = rows[i].num;
            *den = rows[i].den;
        }
    }
}

static void print_explain(const struct llama_fit *fit)
{
    uint32_t num;
    uint32_t den;
    const tool_llama_report *report = &fit->report;
    uint32_t ubatch = fit->request.ubatch_tokens > 0 ? fit->request.ubatch_tokens : 512;
    type_size(fit->request.type_k, &num, &den);
    printf("\nLayers, positions as asked (the type of keys for both halves):\n");
    tool_model_explain(fit->model, report->ctx_tokens, num, den, print_line, NULL);
    printf("Caches, in cells: positions go up to a multiple of 256; a windowed layer keeps min(context, window%s + "
           "micro-batch), so rounded.\n",
           fit->request.is_unified ? " x slots" : "");
    for (int i = 0; i < TOOL_LLAMA_PARTS; i++) {
        if (report->part[i].layers > 0) {
            printf("  %-10s %" PRIu32 " layers x %" PRIu64 " cells x (%" PRIu32 " K + %" PRIu32 " V) = %" PRIu64
                   " + %" PRIu64 " B\n",
                   report->part[i].name, report->part[i].layers, report->part[i].cells, report->part[i].k_elems,
                   report->part[i].v_elems, report->part[i].k_bytes, report->part[i].v_bytes);
        }
    }
    if (fit->is_device) {
        printf("Host buffer: cells x micro-batch %" PRIu32 " x bytes of the mask + copies of the embeddings = %" PRIu64
               " B\n",
               ubatch, report->host_compute_bytes);
    }
    const struct spread *spread = &spreads[fit->is_device];
    printf("Compute buffer: the graph of a micro-batch of %" PRIu32 " packed tensor by tensor = %" PRIu64
           " B. An estimate: %.2f to %.2f of what llama.cpp v0.5.0 printed (%" PRIu32 " runs, %s; docs/fit.md)\n",
           ubatch, fit->is_device ? report->device_compute_bytes : report->host_compute_bytes, spread->low,
           spread->high, spread->runs, spread->where);
}

static void print_text(const struct llama_fit *fit)
{
    const tool_llama_report *report = &fit->report;
    char text[FORMAT_MAX];
    char more[320];
    if (fit->cannot_run != NULL) {
        printf("Berth cannot run this model yet: %s\nBy llama.cpp's rules:\n\n", fit->cannot_run);
    }
    printf("%s: %s, %s @ %" PRIu64 " context - %s (llama.cpp rules)\n", fit->info.name, fit->info.family,
           fit->info.format, report->ctx_tokens, fit->machine);
    print_weights(fit);
    putchar('\n');
    line("weights", fit->is_device ? report->weights_device_bytes : report->weights_host_bytes, "");
    print_caches(fit);
    line("compute", fit->is_device ? report->device_compute_bytes : report->host_compute_bytes, "(estimate)");
    if (!fit->is_device) {
        line("logits", report->output_bytes, "");
    }
    snprintf(more, sizeof more, "of %s usable (%s): %s", size_format(fit->usable_bytes, text), fit->binding,
             !fit->info.is_known ? fit->fits ? "UNKNOWN" : "DOES NOT FIT"
             : fit->fits         ? "FITS"
                                 : "DOES NOT FIT");
    line("total", fit->needed_bytes, more);
    print_bar(fit->needed_bytes, fit->usable_bytes);
    if (fit->is_device) {
        snprintf(more, sizeof more, "beside it: tables %s, inputs %s", size_format(report->weights_host_bytes, text),
                 size_format(report->host_compute_bytes, (char[FORMAT_MAX]){0}));
        line("host memory", report->host_bytes, more);
    }
    printf("\n  %-20s %12" PRIu64 "  tokens\n", "largest context", fit->max_ctx);
    if (fit->info.defaults_count > 0) {
        printf("\n%" PRIu32 " number%s not in config.json: the default%s of model_type %s\n(--explain lists them)\n",
               fit->info.defaults_count, fit->info.defaults_count > 1 ? "s are" : " is",
               fit->info.defaults_count > 1 ? "s" : "", fit->info.defaults_of);
    }
    if (fit->admission.asked) {
        char request[256];
        admission_text(&fit->admission, request, sizeof request);
        printf("\nRequest %s\n", request);
    }
    fit_speed_print(&fit->speed, stdout);
    if (!fit->info.is_known) {
        printf("\nA LOWER BOUND: %s.\n", fit->info.problem);
    }
    if (!fit->fits) {
        advice_print(&fit->advice, fit->needed_bytes,
                     fit->info.is_known ? "is the smallest that holds it" : "is the smallest that holds this bound");
    }
    if (fit->options->explain) {
        print_explain(fit);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

static void json_model(struct json_out *json, const struct llama_fit *fit)
{
    const tool_model_info *info = &fit->info;
    json_out_object(json, "model");
    json_out_string(json, "path", fit->options->path);
    json_out_string(json, "name", info->name);
    json_out_string(json, "family", info->family);
    json_out_string(json, "format", info->format);
    json_out_u64(json, "layers", info->layers);
    json_out_u64(json, "mtp_layers", info->mtp_layers);
    json_out_u64(json, "experts", info->experts);
    json_out_u64(json, "top_k", info->top_k);
    json_out_u64(json, "ctx_max", info->ctx_max_tokens);
    if (info->has_params) {
        json_out_u64(json, "parameters", info->parameters);
    } else {
        json_out_null(json, "parameters");
    }
    uint32_t value;
    const char *key;
    json_out_object(json, "defaults");
    for (uint32_t i = 0; (key = tool_model_default(fit->model, i, &value)) != NULL; i++) {
        json_out_u64(json, key, value);
    }
    json_out_close(json);
    json_out_object(json, "weights");
    json_out_u64(json, "resident_bytes", info->weight_bytes[TOOL_WEIGHTS_RESIDENT]);
    json_out_u64(json, "expert_bytes", info->weight_bytes[TOOL_WEIGHTS_EXPERTS]);
    json_out_u64(json, "lookup_bytes", info->weight_bytes[TOOL_WEIGHTS_LOOKUP]);
    json_out_u64(json, "not_loaded_bytes", info->weight_bytes[TOOL_WEIGHTS_NOT_LOADED]);
    json_out_bool(json, "experts_by_parameters", info->experts_by_params);
    json_out_close(json);
    json_out_close(json);
}

static void json_plan(struct json_out *json, const struct llama_fit *fit)
{
    const tool_llama_report *report = &fit->report;
    json_out_object(json, "plan");
    json_out_bool(json, "fits", fit->fits);
    json_out_bool(json, "lower_bound", !fit->info.is_known);
    json_out_u64(json, "ctx", report->ctx_tokens);
    json_out_u64(json, "ctx_max", fit->max_ctx);
    json_out_u64(json, "total_bytes", fit->needed_bytes);
    json_out_u64(json, "usable_bytes", fit->usable_bytes);
    json_out_string(json, "binding", fit->binding);
    json_out_bool(json, "device", fit->is_device);
    json_out_u64(json, "device_bytes", report->device_bytes);
    json_out_u64(json, "host_bytes", report->host_bytes);
    json_out_u64(json, "weights_device_bytes", report->weights_device_bytes);
    json_out_u64(json, "weights_host_bytes", report->weights_host_bytes);
    json_out_u64(json, "kv_bytes", report->kv_bytes);
    json_out_array(json, "kv", false);
    for (int i = 0; i < TOOL_LLAMA_PARTS; i++) {
        if (report->part[i].layers > 0) {
            json_out_object(json, NULL);
            json_out_string(json, "part", report->part[i].name);
            json_out_u64(json, "layers", report->part[i].layers);
            json_out_u64(json, "cells", report->part[i].cells);
            json_out_u64(json, "k_bytes", report->part[i].k_bytes);
            json_out_u64(json, "v_bytes", report->part[i].v_bytes);
            json_out_close(json);
        }
    }
    json_out_close(json);
    json_out_u64(json, "state_bytes", report->state_bytes);
    json_out_u64(json, "device_compute_bytes", report->device_compute_bytes);
    json_out_u64(json, "host_compute_bytes", report->host_compute_bytes);
    json_out_u64(json, "output_bytes", report->output_bytes);
    if (report->draft.layers > 0) {
        json_out_object(json, "draft");
        json_out_u64(json, "layers", report->draft.layers);
        json_out_u64(json, "cells", report->draft.cells);
        json_out_u64(json, "kv_bytes", report->draft.kv_bytes);
        json_out_u64(json, "weights_bytes", report->draft.weights_bytes);
        json_out_u64(json, "compute_bytes", report->draft.compute_bytes);
        json_out_close(json);
    } else {
        json_out_null(json, "draft");
    }
    const struct spread *spread = &spreads[fit->is_device];
    json_out_object(json, "compute_estimate"); /* of the compute buffer of the whole graph */
    json_out_string(json, "against", "llama.cpp v0.5.0");
    json_out_string(json, "where", spread->where);
    json_out_u64(json, "runs", spread->runs);
    json_out_real(json, "low", spread->low);
    json_out_real(json, "high", spread->high);
    json_out_close(json);
    json_out_close(json);
}

static void json_line(void *user, const char *text)
{
    json_out_string(user, NULL, text);
}

static void print_json(const struct llama_fit *fit)
{
    struct json_out json;
    uint32_t num;
    uint32_t den;
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    json_model(&json, fit);
    json_out_string(&json, "engine", fit->cannot_run != NULL ? "berth" : "llama.cpp");
    json_out_string(&json, "rules", "llama.cpp");
    json_out_string(&json, "machine", fit->machine);
    json_out_string(&json, "verdict",
                    fit->cannot_run != NULL            ? "cannot-run"
                    : !fit->info.is_known && fit->fits ? "unknown"
                    : fit->fits                        ? "fits"
                                                       : "no-fit");
    if (fit->cannot_run != NULL) {
        json_out_string(&json, "reason", fit->cannot_run);
    }
    if (!fit->info.is_known) {
        json_out_string(&json, "lower_bound_because", fit->info.problem);
    }
    json_plan(&json, fit);
    fit_speed_json(&json, "speed", &fit->speed);
    advice_json(&json, &fit->advice, "total_bytes");
    admission_json(&json, &fit->admission);
    if (fit->options->explain) {
        type_size(fit->request.type_k, &num, &den);
        json_out_array(&json, "arithmetic", false);
        tool_model_explain(fit->model, fit->report.ctx_tokens, num, den, json_line, &json);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_end(&json);
}

/* ---- both ------------------------------------------------------------------------------------------- */

/* The model is fit->model, which is closed. */
static int fit_model(struct llama_fit *fit)
{
    const struct llama_options *options = fit->options;
    tool_model_describe(fit->model, &fit->info);
    if (options->machine->matrix) {
        int device = options->offload == OFFLOAD_AUTO ? -1 : options->offload == OFFLOAD_ALL ? 1 : 0;
        fill_request(fit);
        int all = llama_speed_matrix(options->machine, fit->model, &fit->request, device, fit->cannot_run);
        tool_model_close(fit->model);
        return all;
    }
    int code = solve(fit);
    if (code == EXIT_OK) {
        code = admission_solve(options->machine->admission, (double)fit->max_ctx, options->ctx_tokens, &fit->admission);
    }
    if (code == EXIT_OK && options->json) {
        print_json(fit);
    } else if (code == EXIT_OK && !options->quiet) {
        print_text(fit);
    }
    tool_model_close(fit->model);
    if (code != EXIT_OK) {
        return code;
    }
    return !fit->fits || admission_refused(&fit->admission) ? EXIT_NO_FIT
           : fit->cannot_run != NULL || !fit->info.is_known ? EXIT_FAILED
                                                            : EXIT_OK;
}

int fit_llama(const struct llama_options *options)
{
    struct llama_fit fit = {.options = options};
    berth_error err;
    if (tool_model_open(options->path, options->machine->weights_bytes, options->machine->experts_bytes, &fit.model,
                        &err) != BERTH_OK) {
        return report_error("fit", &err);
    }
    return fit_model(&fit);
}

int fit_cannot_run(const struct llama_options *options, const tool_checkpoint *checkpoint, const char *reason)
{
    struct llama_fit fit = {.options = options, .cannot_run = reason};
    berth_error err;
    if (tool_model_of(checkpoint, &fit.model, &err) != BERTH_OK) {
        char message[sizeof err.message];
        snprintf(message, sizeof message, "%.320s; nor do llama.cpp's rules help: %.280s", reason, err.message);
        snprintf(err.message, sizeof err.message, "%s", message);
        err.object[0] = '\0'; /* it is in the message */
        return report_error("fit", &err);
    }
    int code = fit_model(&fit);
    if (code == EXIT_FAILED || code == EXIT_NO_FIT) {
        report_failure("fit", "Berth cannot run this model yet: %s", reason); /* who reads no report, and scripts */
    }
    return code;
}
