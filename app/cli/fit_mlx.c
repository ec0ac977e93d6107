/* SPDX-License-Identifier: MIT
 * berth fit --engine mlx: the documents' contract for people and as JSON. */
#include "cli/fit_mlx.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/advice.h"
#include "common/json_out.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/table.h"

static const struct arg_choice engines[] = {
    {"berth", FIT_ENGINE_BERTH}, {"mlx", FIT_ENGINE_MLX}, {"llama.cpp", FIT_ENGINE_LLAMA}, {NULL, 0}};
#define AT(field) offsetof(struct mlx_options, field)

const struct arg_option mlx_option_rows[] = {
    {.name = "engine",
     .type = ARG_CHOICE,
     .offset = AT(engine),
     .choices = engines,
     .value = "NAME",
     .help = "whose rules: berth (default), mlx or llama.cpp"},
    {.name = "machine",
     .type = ARG_TEXT,
     .offset = AT(machine),
     .value = "NAME",
     .help = "a machine of the table, \"M4 Pro 24GB\"; default this one"},
    {.name = "machines",
     .type = ARG_TEXT,
     .offset = AT(machines_file),
     .value = "FILE",
     .help = "more machines, in the columns of tools/hardware.tsv"},
    {.name = "ram",
     .type = ARG_SIZE,
     .offset = AT(ram_bytes),
     .low = 1,
     .value = "SIZE",
     .help = "memory of the machine"},
    {.name = "bandwidth",
     .type = ARG_TEXT,
     .offset = AT(bandwidth),
     .value = "GB/S",
     .help = "memory bandwidth in 1e9 bytes a second"},
    {.name = "weights-bytes",
     .type = ARG_SIZE,
     .offset = AT(weights_bytes),
     .low = 1,
     .value = "SIZE",
     .help = "size of the weights, for a bare config.json"},
    {.name = "experts-bytes",
     .type = ARG_SIZE,
     .offset = AT(experts_bytes),
     .value = "SIZE",
     .help = "of those, routed experts"},
    {.name = "kv-quant",
     .type = ARG_TEXT,
     .offset = AT(kv_quant),
     .value = "4|8|config|off",
     .help = "bits of the KV cache, or as kv_config.json says"},
    {.name = "matrix",
     .type = ARG_FLAG,
     .offset = AT(matrix),
     .help = "which machines run it: all of the table, or by MLX rules\nthe 41 Apple ones that they list"},
    {.name = "filter",
     .type = ARG_TEXT,
     .offset = AT(filter),
     .value = "TEXT",
     .help = "with --matrix: machines of the whole table with this text, or all"},
    {.name = "explain", .type = ARG_FLAG, .offset = AT(explain), .help = "show the arithmetic"},
};
_Static_assert(sizeof mlx_option_rows / sizeof mlx_option_rows[0] == MLX_OPTIONS, "MLX_OPTIONS is stale");

enum { DEFAULT_CTX = 8192 };

struct mlx_fit {
    const struct mlx_options *options;
    tool_contract model;
    struct mlx_machine machine;
    berth_fit_request request;
    berth_fit_report report;
    berth_kv_cost cost;
    struct admission admission;
    bool is_computed;     /* weights: parameters times MLX's bytes */
    const char *damage;   /* why the weights are a lower bound; "": they are not */
    char other_layer[64]; /* a layer type that is billed as full attention though it is something else */
    uint32_t other_layers;
    struct advice_list advice;
};

/* ---- the request ------------------------------------------------------------------------------------ */

static int set_kv(struct mlx_fit *fit)
{
    const char *text = fit->options->kv_quant;
    if (text == NULL || strcmp(text, "off") == 0) {
        return EXIT_OK;
    }
    if (strcmp(text, "config") == 0) {
        if (!fit->model.config.has_kv_quant) {
            return report_usage("fit", "--kv-quant config: there is no kv_config.json beside the model");
        }
        fit->request.kv.layers = fit->model.config.kv_quant;
        fit->request.kv.layers_count = fit->model.config.kv_quant_count;
        return EXIT_OK;
    }
    uint64_t bits;
    if (!number_parse(text, &bits) || bits < 2 || bits > 8 || bits == 7) {
        return report_usage("fit", "--kv-quant is '%s', but 2, 3, 4, 5, 6, 8, config or off is wanted", text);
    }
    fit->request.kv.bits = (double)bits;
    return EXIT_OK;
}

/* Where neither files nor an option say how much there is: what a "quantization" block makes of the parameters. */
static int compute_weights(struct mlx_fit *fit)
{
    berth_fit_weights weights = BERTH_FIT_WEIGHTS_INIT;
    berth_error err;
    berth_status status = berth_fit_weights_mlx(fit->model.config_json, 0, 0, &weights, &err);
    if (status == BERTH_ERR_NOT_FOUND) {
        return EXIT_OK;
    }
    if (status == BERTH_ERR_UNSUPPORTED) {
        return report_usage("fit",
                            "there are no weights beside %s, and they cannot be computed: %s; say --weights-bytes",
                            fit->options->path, err.message);
    }
    if (status != BERTH_OK) {
        return report_error("fit", &err);
    }
    fit->is_computed = true;
    fit->request.weights_bytes = weights.weights_bytes;
    fit->request.experts_bytes =
        fit->options->experts_bytes > 0 ? (double)fit->options->experts_bytes : weights.experts_bytes;
    return EXIT_OK;
}

static int set_weights(struct mlx_fit *fit)
{
    const struct mlx_options *options = fit->options;
    fit->request.weights_bytes = options->weights_bytes > 0 ? (double)options->weights_bytes : fit->model.weights_bytes;
    fit->request.experts_bytes = options->weights_bytes > 0 || options->experts_bytes > 0
                                     ? (double)options->experts_bytes
                                     : fit->model.experts_bytes;
    if (fit->request.weights_bytes == 0 && fit->model.files == 0) {
        int code = compute_weights(fit);
        if (code != EXIT_OK) {
            return code;
        }
    }
    if (fit->request.weights_bytes == 0) {
        return report_usage("fit", "there are no weights beside %s: say --weights-bytes", fit->options->path);
    }
    if (fit->request.experts_bytes > fit->request.weights_bytes) {
        return report_usage("fit", "--experts-bytes is more than the weights");
    }
    return EXIT_OK;
}

static void note_other_layers(struct mlx_fit *fit)
{
    static const char *const known[] = {"full_attention", "sliding_attention", "linear_attention"};
    for (size_t i = 0; i < fit->model.config.layer_types_count; i++) {
        berth_text type = fit->model.config.layer_types[i];
        bool is_known = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
            is_known = is_known || (type.bytes == strlen(known[k]) && memcmp(type.ptr, known[k], type.bytes) == 0);
        }
        if (!is_known && fit->other_layers++ == 0) {
            snprintf(fit->other_layer, sizeof fit->other_layer, "%.*s", (int)(type.bytes < 60 ? type.bytes : 60),
                     type.ptr);
        }
    }
}

static uint64_t whole_bytes(double bytes)
{
    return bytes < 1.8e19 ? (uint64_t)ceil(bytes) : UINT64_MAX;
}

/* A number that the configuration has and no size follows from: said with its file. */
static int solve_failed(const struct mlx_fit *fit, berth_error *err)
{
    const char *path = fit->options->path;
    size_t bytes = strlen(path);
    if (err->path[0] == '\0' && err->status == BERTH_ERR_FORMAT) {
        bool file = bytes > 5 && strcmp(path + bytes - 5, ".json") == 0;
        snprintf(err->path, sizeof err->path, "%s%s", path, file ? "" : "/config.json");
    }
    return report_error("fit", err);
}

static int try_change(struct mlx_fit *fit, const berth_fit_request *changed, const char *option, bool together)
{
    berth_fit_report report = BERTH_FIT_REPORT_INIT;
    berth_error err;
    if (berth_fit_solve(&fit->model.config, changed, &report, &err) != BERTH_OK) {
        return solve_failed(fit, &err);
    }
    if (together) {
        advice_add_all(&fit->advice, option, whole_bytes(report.total_bytes), report.fits);
    } else {
        advice_add(&fit->advice, option, whole_bytes(fit->report.total_bytes), whole_bytes(report.total_bytes),
                   report.fits);
    }
    return EXIT_OK;
}

/* A shorter context, a narrower cache, both. */
static int find_advice(struct mlx_fit *fit)
{
    berth_fit_request changed = fit->request;
    berth_fit_request all = fit->request;
    char ctx[32] = "";
    char both[64];
    int code = EXIT_OK;
    if (fit->report.max_safe_context >= 1 && fit->report.max_safe_context < fit->request.context_tokens) {
        changed.context_tokens = all.context_tokens = fit->report.max_safe_context;
        snprintf(ctx, sizeof ctx, "--ctx %.0f", changed.context_tokens);
        code = try_change(fit, &changed, ctx, false);
    }
    for (int bits = 8; code == EXIT_OK && bits >= 4; bits -= 4) {
        if (fit->request.kv.layers_count == 0 && (fit->request.kv.bits == 0 || fit->request.kv.bits > bits)) {
            changed = fit->request;
            changed.kv.bits = all.kv.bits = bits;
            code = try_change(fit, &changed, bits == 8 ? "--kv-quant 8" : "--kv-quant 4", false);
        }
    }
    if (code == EXIT_OK && ctx[0] != '\0' && all.kv.bits == 4 && fit->request.kv.bits != 4) {
        snprintf(both, sizeof both, "%s --kv-quant 4", ctx);
        code = try_change(fit, &all, both, true);
    }
    return code;
}

static int solve(struct mlx_fit *fit)
{
    const struct mlx_options *options = fit->options;
    berth_error err;
    fit->request = BERTH_FIT_REQUEST_INIT;
    fit->request.context_tokens = options->ctx_tokens > 0 ? options->ctx_tokens : DEFAULT_CTX;
    fit->request.chunk_tokens = options->chunk_tokens;
    fit->request.machine = fit->machine.machine;
    fit->request.has_budget = options->budget_bytes > 0 || fit->machine.has_budget;
    fit->request.budget_bytes = options->budget_bytes > 0 ? (double)options->budget_bytes : fit->machine.budget_bytes;
    if (fit->model.config.number[BERTH_FIT_MAX_POSITIONS] < 0) { /* the documents compute on: no context is safe */
        return report_failure("fit",
                              "%s: \"max_position_embeddings\" is %g, but a context that a model can have is wanted",
                              options->path, fit->model.config.number[BERTH_FIT_MAX_POSITIONS]);
    }
    int code = set_weights(fit);
    code = code == EXIT_OK ? set_kv(fit) : code;
    if (code != EXIT_OK) {
        return code;
    }
    fit->report = BERTH_FIT_REPORT_INIT;
    if (berth_fit_solve(&fit->model.config, &fit->request, &fit->report, &err) != BERTH_OK) {
        return solve_failed(fit, &err);
    }
    berth_kv_cost_of(&fit->model.config, &fit->request.kv, &fit->cost);
    note_other_layers(fit);
    fit->damage = options->weights_bytes == 0 ? fit->model.problem : "";
    fit->report.lower_bound = fit->report.lower_bound || fit->damage[0] != '\0';
    code = admission_solve(options->admission, fit->report.max_safe_context, 0, &fit->admission);
    return code == EXIT_OK && !fit->report.fits ? find_advice(fit) : code;
}

/* The rules bill a context that the model does not have; what they say of it is read with that in mind. */
static void print_above(const struct mlx_fit *fit)
{
    double most = fit->model.config.number[BERTH_FIT_MAX_POSITIONS];
    if (fit->report.context_tokens > most) {
        printf("This context%s is above the model's own maximum of %.0f tokens:\n--ctx %.0f asks about that.\n",
               fit->options->ctx_tokens > 0 ? "" : " (the default)", most, most);
    }
}

/* ---- text ------------------------------------------------------------------------------------------- */

static const char *bytes_text(double bytes, char text[FORMAT_MAX])
{
    return size_format(whole_bytes(bytes), text);
}

static void line(const char *name, double bytes, const char *more)
{
    char text[FORMAT_MAX];
    printf("  %-18s %12s%s%s\n", name, bytes_text(bytes, text), more[0] != '\0' ? "  " : "", more);
}

static void print_bar(double used, double usable)
{
    enum { CELLS = 50 };
    int filled = usable > 0 && used < usable ? (int)(used / usable * CELLS) : CELLS;
    printf("  [");
    for (int i = 0; i < CELLS; i++) {
        putchar(i < filled ? '#' : '.');
    }
    printf("] %.0f %%\n", usable > 0 ? fmin(used / usable * 100, 999999) : 999999);
}

static void print_speed(const struct mlx_fit *fit)
{
    if (isfinite(fit->report.predicted_decode_tps)) {
        printf("  %-18s %12.1f  tok/s (%g GB/s, %s)\n", "predicted decode", fit->report.predicted_decode_tps,
               fit->request.machine.bandwidth_gbs, fit->machine.basis);
    } else {
        printf("  %-18s %12s\n", "predicted decode", "unknown");
    }
}

static void print_notes(const struct mlx_fit *fit)
{
    const double *number = fit->model.config.number;
    char text[FORMAT_MAX];
    if (fit->damage[0] != '\0') {
        printf("\nA LOWER BOUND of the weights: %s.\n", fit->damage);
    } else if (fit->report.lower_bound) {
        printf(
            "\nA LOWER BOUND: the configuration does not say how many layers there are, so the KV cache is missing.\n");
    }
    if (fit->model.stray_files > 0) {
        printf("\nThese rules add up every *.safetensors file: %" PRIu32 " of them, %s, are not the model's.\n",
               fit->model.stray_files, bytes_text(fit->model.stray_bytes, text));
    }
    if (fit->other_layers > 0) {
        printf("\nThese rules bill %" PRIu32 " layers of type '%s' as full attention.\n", fit->other_layers,
               fit->other_layer);
    }
    if (number[BERTH_FIT_KV_SHARED_LAYERS] > 0) {
        double owned = berth_kv_owned_bytes_at(&fit->model.config, fit->report.context_tokens, &fit->request.kv);
        printf("\nThese rules bill every layer; %.0f share another layer's cache, which leaves %s.\n",
               number[BERTH_FIT_KV_SHARED_LAYERS], bytes_text(owned, text));
    }
    if (fit->model.switch_bytes == 0 && fit->request.experts_bytes > 0 && !fit->model.config.enable_moe_block) {
        printf("\nThese rules know a mixture by enable_moe_block alone: speed is that of a dense model.\n");
    }
    if (fit->model.switch_bytes > 0) {
        printf("\nThese rules do not see %s of experts named switch_mlp: speed is that of a dense model.\n",
               bytes_text(fit->model.switch_bytes, text));
    }
}

static void print_layer(void *user, const char *text)
{
    (void)user;
    printf("  %s\n", text);
}

/* The layers by kind, two bytes an element; these rules then bill them by the sums below. */
static void print_layers(const struct mlx_fit *fit)
{
    tool_model *model;
    uint64_t weights = (uint64_t)fit->request.weights_bytes;
    if (tool_model_open(fit->options->path, weights > 0 ? weights : 1, 0, &model, NULL) != BERTH_OK) {
        return;
    }
    printf("\nLayers, in 16 bits:\n");
    tool_model_explain(model, (uint64_t)fit->request.context_tokens, 2, 1, print_layer, NULL);
    tool_model_close(model);
}

static void print_explain(const struct mlx_fit *fit)
{
    const berth_fit_request *request = &fit->request;
    const berth_fit_config *config = &fit->model.config;
    double n = request->context_tokens;
    double chunk = request->chunk_tokens > 0 ? request->chunk_tokens : BERTH_FIT_DEFAULT_CHUNK;
    double scores = berth_kv_sdpa_fallback_bytes(config, chunk, n);
    bool moe = config->enable_moe_block && config->number[BERTH_FIT_EXPERTS] > 0;
    print_layers(fit);
    printf("\nkv cache  = %.10g B/token (full) x %.0f + %.10g B/token (sliding) x min(%.0f, window %.0f) + %.0f B "
           "(state)\n",
           fit->cost.full_bytes_per_token, n, fit->cost.sliding_bytes_per_token, n, fit->cost.window_tokens,
           fit->cost.state_bytes);
    printf("transient = min(chunk %.0f, %.0f) x %.0f B + %.0f B of attention scores\n", chunk, n,
           BERTH_FIT_TRANSIENT_PER_TOKEN, scores);
    printf("total     = %.10g + %.10g + %.10g = %.11g B\n", fit->report.weights_bytes, fit->report.kv_bytes,
           fit->report.transient_bytes, fit->report.total_bytes);
    if (request->has_budget) {
        printf("usable    = %.0f B, the budget\n", fit->report.usable_bytes);
    } else {
        printf("usable    = %.0f B x %g\n", request->machine.ram_bytes, BERTH_FIT_WIRED_FRACTION);
    }
    printf("decode    = %g GB/s / (weights%s + kv cache) x %g\n", request->machine.bandwidth_gbs,
           moe ? " - experts not chosen" : "", moe ? BERTH_FIT_MOE_DECODE_EFFICIENCY : BERTH_FIT_DECODE_EFFICIENCY);
}

static void print_text(const struct mlx_fit *fit)
{
    const berth_fit_report *report = &fit->report;
    const berth_fit_config *config = &fit->model.config;
    char text[FORMAT_MAX];
    char more[160] = "";
    printf("%s @ %.0f context - %s (MLX rules)\n", fit->model.name, report->context_tokens, fit->request.machine.name);
    print_above(fit);
    putchar('\n');
    if (config->enable_moe_block && fit->request.experts_bytes > 0) {
        snprintf(more, sizeof more, "(experts %s; top %.0f/%.0f read per token)",
                 bytes_text(fit->request.experts_bytes, text), config->number[BERTH_FIT_TOP_K],
                 config->number[BERTH_FIT_EXPERTS]);
    }
    line("weights", report->weights_bytes, more);
    if (fit->is_computed) {
        printf("  %-18s %12s  (an estimate: parameters x %g bits, groups of %g)\n", "", "computed", config->quant_bits,
               config->quant_group_size);
    }
    if (fit->model.sidecar_bytes > 0) {
        line("vision sidecar", fit->model.sidecar_bytes, "(not in the total)");
    }
    line("kv cache", report->kv_bytes, "");
    line("transient", report->transient_bytes, "");
    snprintf(more, sizeof more, "of %s usable (%s): %s", bytes_text(report->usable_bytes, text),
             fit->options->budget_bytes > 0 ? "--budget"
             : fit->machine.has_budget      ? "card memory less 749 MiB"
                                            : "75 % of memory",
             !report->fits         ? "DOES NOT FIT"
             : report->lower_bound ? "UNKNOWN"
                                   : "FITS");
    line("total", report->total_bytes, more);
    print_bar(report->total_bytes, report->usable_bytes);
    printf("\n  %-18s %12.0f  tokens\n", "max safe context", report->max_safe_context);
    print_speed(fit);
    if (fit->admission.asked) {
        char request[256];
        admission_text(&fit->admission, request, sizeof request);
        printf("\nRequest %s\n", request);
        if (fit->options->ctx_tokens > 0 && fit->options->ctx_tokens < report->max_safe_context) {
            printf("(by these rules --ctx is what the plan bills, and the largest safe context what a request may\n"
                   "take)\n");
        }
    }
    print_notes(fit);
    if (!report->fits) {
        advice_print(&fit->advice, whole_bytes(report->total_bytes),
                     report->lower_bound ? "is the smallest that holds this bound" : "is the smallest that holds it");
    }
    if (fit->options->explain) {
        print_explain(fit);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

static void number(struct json_out *json, const char *key, double value)
{
    if (value >= 0 && value < 9e15 && value == floor(value)) {
        json_out_u64(json, key, (uint64_t)value);
    } else {
        json_out_real(json, key, value);
    }
}

static void text_member(struct json_out *json, const char *key, berth_text text)
{
    json_out_text(json, key, text.ptr != NULL ? text.ptr : "", text.bytes);
}

static void json_plan(struct json_out *json, const struct mlx_fit *fit)
{
    const berth_fit_report *report = &fit->report;
    json_out_object(json, "plan");
    number(json, "schemaVersion", report->schema_version);
    json_out_string(json, "strategy", report->strategy);
    json_out_bool(json, "fits", report->fits);
    json_out_bool(json, "lowerBound", report->lower_bound);
    number(json, "contextTokens", report->context_tokens);
    number(json, "maxSafeContext", report->max_safe_context);
    number(json, "weightsBytes", report->weights_bytes);
    number(json, "kvBytes", report->kv_bytes);
    number(json, "transientBytes", report->transient_bytes);
    number(json, "reserveBytes", report->reserve_bytes);
    number(json, "totalBytes", report->total_bytes);
    number(json, "usableBytes", report->usable_bytes);
    json_out_real(json, "predictedDecodeTps", report->predicted_decode_tps);
    json_out_close(json);
}

static void json_arithmetic(struct json_out *json, const struct mlx_fit *fit)
{
    double chunk = fit->request.chunk_tokens > 0 ? fit->request.chunk_tokens : BERTH_FIT_DEFAULT_CHUNK;
    json_out_object(json, "arithmetic");
    number(json, "full_bytes_per_token", fit->cost.full_bytes_per_token);
    number(json, "sliding_bytes_per_token", fit->cost.sliding_bytes_per_token);
    number(json, "window_tokens", fit->cost.window_tokens);
    number(json, "state_bytes", fit->cost.state_bytes);
    number(json, "chunk_tokens", chunk);
    number(json, "score_bytes", berth_kv_sdpa_fallback_bytes(&fit->model.config, chunk, fit->request.context_tokens));
    number(json, "owned_kv_bytes",
           berth_kv_owned_bytes_at(&fit->model.config, fit->request.context_tokens, &fit->request.kv));
    number(json, "layers_billed_as_full", fit->other_layers);
    json_out_close(json);
}

static void print_json(const struct mlx_fit *fit)
{
    struct json_out json;
    char fingerprint[BERTH_FINGERPRINT_BYTES];
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    json_out_string(&json, "engine", "mlx");
    json_out_string(&json, "verdict", !fit->report.fits ? "no-fit" : fit->report.lower_bound ? "unknown" : "fits");
    json_out_object(&json, "model");
    json_out_string(&json, "path", fit->options->path);
    json_out_string(&json, "name", fit->model.name);
    text_member(&json, "model_type", fit->model.config.model_type);
    number(&json, "files", fit->model.files);
    number(&json, "experts_bytes", fit->request.experts_bytes);
    json_out_string(&json, "weights_basis",
                    fit->is_computed                  ? "computed"
                    : fit->options->weights_bytes > 0 ? "given"
                                                      : "files");
    number(&json, "sidecar_bytes", fit->model.sidecar_bytes);
    number(&json, "stray_bytes", fit->model.stray_bytes);
    if (berth_config_fingerprint(&fit->model.config, fingerprint, NULL, NULL) == BERTH_OK) {
        json_out_string(&json, "config_fingerprint", fingerprint);
    }
    json_out_close(&json);
    json_out_object(&json, "machine");
    json_out_string(&json, "name", fit->request.machine.name);
    number(&json, "ram_bytes", fit->request.machine.ram_bytes);
    json_out_real(&json, "bandwidth_gbs", fit->request.machine.bandwidth_gbs);
    json_out_string(&json, "bandwidth_basis", fit->machine.basis);
    json_out_close(&json);
    if (fit->damage[0] != '\0') {
        json_out_string(&json, "lower_bound_because", fit->damage);
    }
    json_plan(&json, fit);
    json_arithmetic(&json, fit);
    advice_json(&json, &fit->advice, "total_bytes");
    admission_json(&json, &fit->admission);
    json_out_close(&json);
    json_out_end(&json);
}

/* ---- matrix ----------------------------------------------------------------------------------------- */

struct matrix {
    const struct mlx_fit *fit;
    struct json_out *json; /* NULL: text */
    struct table *table;
    uint32_t rows;
};

static void matrix_row(struct matrix *matrix, const char *name, const char *vendor, double ram_bytes,
                       const berth_fit_report *report)
{
    matrix->rows++;
    if (matrix->json != NULL) {
        json_out_object(matrix->json, NULL);
        json_out_string(matrix->json, "machine", name);
        json_out_string(matrix->json, "vendor", vendor);
        number(matrix->json, "ram_bytes", ram_bytes);
        json_out_bool(matrix->json, "fits", report->fits);
        number(matrix->json, "max_context", report->max_safe_context);
        json_out_real(matrix->json, "decode_tps", report->predicted_decode_tps);
        json_out_close(matrix->json);
        return;
    }
    char context[FORMAT_MAX];
    char speed[FORMAT_MAX];
    snprintf(context, sizeof context, "%.0f", report->max_safe_context);
    snprintf(speed, sizeof speed, isfinite(report->predicted_decode_tps) ? "%.1f" : "unknown",
             report->predicted_decode_tps);
    enum { NAME_COLUMNS = 32 };
    const char *verdict = !report->fits ? "no" : matrix->fit->report.lower_bound ? "unknown" : "fits";
    const char *cells[] = {table_name(matrix->table, name, NAME_COLUMNS), vendor, verdict, context, speed};
    table_row(matrix->table, cells);
}

static int matrix_machine(void *user, const struct mlx_machine *machine, const char *vendor)
{
    struct matrix *matrix = user;
    berth_fit_request request = matrix->fit->request;
    berth_fit_report report = BERTH_FIT_REPORT_INIT;
    berth_error err;
    request.machine = machine->machine;
    request.has_budget = machine->has_budget;
    request.budget_bytes = machine->budget_bytes;
    if (berth_fit_solve(&matrix->fit->model.config, &request, &report, &err) != BERTH_OK) {
        return solve_failed(matrix->fit, &err);
    }
    matrix_row(matrix, machine->machine.name, vendor, machine->machine.ram_bytes, &report);
    return EXIT_OK;
}

static int seed_rows(struct matrix *matrix)
{
    berth_sku_row rows[BERTH_SKU_ROWS];
    berth_error err;
    if (berth_sku_matrix(&matrix->fit->model.config, &matrix->fit->request, rows, &err) != BERTH_OK) {
        return solve_failed(matrix->fit, &err);
    }
    for (int i = 0; i < BERTH_SKU_ROWS; i++) {
        char name[64];
        berth_fit_report report = {
            .fits = rows[i].fits, .max_safe_context = rows[i].max_context, .predicted_decode_tps = rows[i].decode_tps};
        snprintf(name, sizeof name, "%s %" PRIu32 "GB", rows[i].sku, rows[i].ram_gb);
        matrix_row(matrix, name, "Apple", rows[i].ram_gb * 1073741824.0, &report);
    }
    return EXIT_OK;
}

static int all_rows(struct matrix *matrix)
{
    const struct mlx_options *options = matrix->fit->options;
    matrix->rows = 0;
    return options->filter != NULL || options->machines_file != NULL ? mlx_each_machine(options, matrix_machine, matrix)
                                                                     : seed_rows(matrix);
}

static int print_matrix(const struct mlx_fit *fit)
{
    struct json_out json;
    struct table table;
    struct matrix matrix = {.fit = fit};
    static const char *const head[] = {"machine", "maker", "verdict", "max context", "tok/s"};
    int code;
    if (fit->options->json) {
        matrix.json = &json;
        json_out_begin(&json, stdout);
        json_out_object(&json, NULL);
        json_out_string(&json, "engine", "mlx");
        number(&json, "schemaVersion", fit->report.schema_version);
        json_out_string(&json, "strategy", fit->report.strategy);
        number(&json, "contextTokens", fit->report.context_tokens);
        json_out_bool(&json, "lowerBound", fit->report.lower_bound);
        json_out_array(&json, "matrix", false);
        code = all_rows(&matrix);
        json_out_close(&json);
        json_out_close(&json);
        json_out_end(&json);
        return code;
    }
    matrix.table = &table;
    table_begin(&table, stdout, "lllrr", 2);
    table_row(&table, head);
    code = all_rows(&matrix);
    if (code != EXIT_OK) {
        return code;
    }
    if (matrix.rows == 0) {
        return report_usage("fit", "--filter: no machine of the table has '%s'", fit->options->filter);
    }
    printf("%s @ %.0f context (MLX rules)\n", fit->model.name, fit->report.context_tokens);
    print_above(fit);
    putchar('\n');
    table_print(&table);
    table_row(&table, head);
    code = all_rows(&matrix);
    print_notes(fit);
    return code;
}

/* ---- the verb --------------------------------------------------------------------------------------- */

static int verdict_code(const struct mlx_fit *fit)
{
    if (!fit->report.fits || admission_refused(&fit->admission)) {
        return EXIT_NO_FIT;
    }
    return fit->report.lower_bound ? EXIT_FAILED : EXIT_OK; /* what is known fits, but not all is known */
}

int fit_mlx(const struct mlx_options *options)
{
    struct mlx_fit fit = {.options = options};
    berth_error err;
    int code = mlx_find_machine(options, &fit.machine);
    if (code != EXIT_OK) {
        return code;
    }
    if (tool_contract_open(options->path, &fit.model, &err) != BERTH_OK) {
        return report_error("fit", &err);
    }
    code = solve(&fit);
    if (code == EXIT_OK && options->matrix) {
        code = print_matrix(&fit);
        code = code == EXIT_OK && fit.report.lower_bound ? EXIT_FAILED : code;
    } else if (code == EXIT_OK) {
        if (options->json) {
            print_json(&fit);
        } else if (!options->quiet) {
            print_text(&fit);
        }
        code = verdict_code(&fit);
    }
    tool_contract_close(&fit.model);
    return code;
}
