/* SPDX-License-Identifier: MIT */
#include "cli/fit_speed.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/plan_out.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/table.h"

/* ---- the machine ------------------------------------------------------------------------------------ */

berth_speed_class fit_speed_class(const char *kind, const char *vendor)
{
    if (strstr(kind, "gpu") != NULL) {
        return BERTH_SPEED_GPU;
    }
    if (strcmp(kind, "unified") == 0) {
        return strcmp(vendor, "Apple") == 0 ? BERTH_SPEED_UNIFIED : BERTH_SPEED_SHARED;
    }
    return BERTH_SPEED_CPU;
}

/* Memory that our process may take on a machine: what the automatic budget leaves free here, and 2 GiB of system. */
static double usable_bytes(const struct mlx_machine *machine)
{
    double ram = machine->machine.ram_bytes;
    if (machine->has_budget) {
        return machine->budget_bytes;
    }
    const double gib = 1073741824.0;
    double reserve = ram / 16 < gib ? ram / 16 : gib;
    double system = ram / 8 < 2 * gib ? ram / 8 : 2 * gib;
    return ram - reserve - system;
}

static int read_rate(const char *option, const char *text, double *out)
{
    double gbs = 0;
    if (text != NULL && (!real_parse(text, &gbs) || gbs < FIT_RATE_LEAST || gbs > FIT_RATE_MOST)) {
        return report_usage("fit", "%s is '%.60s', but GB/s from %g to %.0f are wanted", option, text, FIT_RATE_LEAST,
                            FIT_RATE_MOST);
    }
    *out = gbs * 1e9;
    return EXIT_OK;
}

int fit_target_read(const struct mlx_options *options, const char *disk, struct fit_target *out, uint64_t *budget_bytes)
{
    *out = (struct fit_target){.other = options->machine != NULL || options->ram_bytes > 0};
    int code = read_rate("--disk", disk, &out->read_rate);
    if (code == EXIT_OK) {
        code = read_rate("--bandwidth", options->bandwidth, &out->memory_rate);
    }
    if (code == EXIT_OK && out->other && !options->matrix) {
        code = mlx_find_machine(options, &out->machine);
        snprintf(out->kind, sizeof out->kind, "%s", out->machine.kind);
        if (code == EXIT_OK && *budget_bytes == 0) {
            *budget_bytes = (uint64_t)fmax(usable_bytes(&out->machine), 1); /* 0 would mean this machine's */
        }
    }
    return code;
}

static const char *machine_problem(const struct mlx_machine *machine, const char *kind, const char *vendor)
{
    return strstr(kind, "gpu") != NULL ? "it computes on processors, not on graphics cards"
           : strcmp(vendor, "Apple") == 0 || (machine->vendor != NULL && strcmp(machine->vendor, "Apple") == 0)
               ? "it needs Linux, on x86-64 or arm64"
               : NULL;
}

const char *fit_target_problem(const struct fit_target *target)
{
    return target->other ? machine_problem(&target->machine, target->kind, "") : NULL;
}

int fit_hits_read(const char *text, struct fit_target *out)
{
    double percent = 0;
    if (text != NULL && (!real_parse(text, &percent) || signbit(percent) || !(percent >= 0 && percent <= 100))) {
        return report_usage("fit", "--hits is '%s', but a percentage from 0 to 100 is wanted", text);
    }
    out->has_hit = text != NULL;
    out->hit = percent / 100;
    return EXIT_OK;
}

/* ---- predictions ------------------------------------------------------------------------------------ */

/* Another machine: the law of its class at the bandwidth of the table. */
static void predict_other(const struct fit_target *target, const berth_speed_work *work, const berth_plan *plan,
                          double ctx, struct speed_answer *out)
{
    *out = (struct speed_answer){.decode = BERTH_SPEED_INIT, .prefill = BERTH_SPEED_INIT};
    out->machine = BERTH_SPEED_MACHINE_INIT;
    berth_speed_machine_class(fit_speed_class(target->kind, target->machine.vendor), &out->machine);
    bool table = strcmp(target->machine.basis, "table") == 0;
    double table_rate = table ? target->machine.machine.bandwidth_gbs * 1e9 : 0; /* no default: unknown stays unknown */
    out->machine.memory_bytes_per_s = target->memory_rate > 0 ? target->memory_rate : table_rate;
    out->machine.read_bytes_per_s = target->read_rate;
    out->memory_basis = target->memory_rate > 0 ? "given" : table_rate > 0 ? "table" : "unknown";
    out->read_basis = target->read_rate > 0 ? "given" : "unknown";
    double share = plan->experts_count > 0 ? (double)plan->slots_count / (double)plan->experts_count : 1;
    out->hit = plan->resident    ? (berth_speed_hit){1, 1, 1}
               : target->has_hit ? (berth_speed_hit){target->hit, target->hit, target->hit}
                                 : berth_speed_hit_of(share, 0);
    out->hit_basis = plan->resident ? "resident" : target->has_hit ? "given" : "generic";
    berth_speed_decode(work, &out->machine, ctx, plan->resident ? NULL : &out->hit, &out->decode, NULL);
    if (out->decode.tokens_per_s > 0) {
        snprintf(out->basis, sizeof out->basis, "the law, memory %s, hits %s", out->memory_basis, out->hit_basis);
    } else if (out->machine.memory_bytes_per_s <= 0) {
        snprintf(out->basis, sizeof out->basis, "unknown: give --bandwidth");
    } else {
        snprintf(out->basis, sizeof out->basis, "unknown: give --disk, the rate that experts are read at");
    }
}

/* What is not to be kept is not looked up either. */
static bool ledger_is_off(const struct model_options *options)
{
    int chosen = options->ledger;
    return (chosen != LEDGER_DEFAULT || engine_ledger_setting("fit", &chosen) == EXIT_OK) && chosen == LEDGER_OFF;
}

static void fill_request(const struct fit_target *target, const struct model_options *options,
                         const tool_summary *model, const berth_plan *plan, struct speed_request *request)
{
    static char kernels[96];
    tool_kernels(kernels, sizeof kernels);
    kernels[strcspn(kernels, " ")] = '\0';
    static const char *const isa_names[] = {NULL, "ref", "avx2", "avx512", "neon"};
    bool named = options->isa > 0 && (size_t)options->isa < sizeof isa_names / sizeof isa_names[0];
    static char policy[64];
    snprintf(policy, sizeof policy, "%s", options->policy != NULL ? options->policy : "next-use");
    policy[strcspn(policy, ":")] = '\0';
    *request = (struct speed_request){
        .fingerprint = model->fingerprint,
        .path = options->path,
        .dtype = model->dtypes_count > 0 ? model->dtypes[0].dtype : "",
        .kv = plan_kv_name(plan->kv_type),
        .policy = policy,
        .isa = named ? isa_names[options->isa] : kernels,
        .threads = plan->threads,
        .chunk_tokens = plan->chunk_tokens,
        .request_bytes = speed_request_bytes((double)plan->experts_bytes, (double)plan->experts_count),
        .slots = (int64_t)plan->slots_count,
        .experts = (int64_t)plan->experts_count,
        .resident = plan->resident,
        .memory_rate = target->memory_rate,
        .read_rate = target->read_rate,
        .has_hit = target->has_hit,
        .hit = target->hit,
        .known_hit = plan->resident || ledger_is_off(options) ? 0 : speed_ledger_hit(options, plan->slots_count),
    };
}

void fit_speed_predict(const struct fit_target *target, const struct model_options *options, const tool_summary *model,
                       const berth_plan *plan, struct fit_speed *out)
{
    *out = (struct fit_speed){.known = plan->fits};
    if (!plan->fits) {
        return;
    }
    berth_speed_work work;
    tool_speed_work(model, plan, &work);
    out->ctx[0] = 0;
    out->ctx[1] = plan->ctx_tokens;
    out->ctx[2] = plan->ctx_max_tokens > plan->ctx_tokens ? plan->ctx_max_tokens : plan->ctx_tokens;
    if (target->other) {
        snprintf(out->machine, sizeof out->machine, "%s", target->machine.machine.name);
        for (int i = 0; i < FIT_SPEED_PLACES; i++) {
            predict_other(target, &work, plan, out->ctx[i], &out->at[i]);
        }
        return;
    }
    struct machine_row machine;
    struct speed_request request;
    char problem[STORE_PROBLEM_MAX];
    fill_request(target, options, model, plan, &request);
    request.work = &work;
    request.machine = machine_identify(&machine, NULL) ? machine.key : "";
    struct store *store =
        store_open_within(false, STORE_WAIT_BRIEF_MS, problem); /* none yet: the law alone, and rates that were given */
    for (int i = 0; i < FIT_SPEED_PLACES; i++) {
        request.ctx_tokens = request.prompt_tokens = out->ctx[i];
        runs_predict(store, &request, &out->at[i]);
    }
    store_close(store);
}

double fit_speed_measured_memory(void)
{
    struct machine_row own;
    struct machine_row kept = {.memory_all = 0};
    char problem[STORE_PROBLEM_MAX];
    if (!machine_identify(&own, NULL)) {
        return 0;
    }
    struct store *store = store_open_within(false, STORE_WAIT_BRIEF_MS, problem);
    double rate = store != NULL && machine_get(store, own.key, &kept) ? kept.memory_all : 0;
    if (rate <= 0) { /* of earlier runs */
        const berth_speed_work nothing = BERTH_SPEED_WORK_INIT;
        const struct speed_request request = {.work = &nothing,
                                              .fingerprint = "",
                                              .machine = own.key,
                                              .dtype = "",
                                              .kv = "",
                                              .policy = "",
                                              .isa = "",
                                              .resident = true};
        struct speed_answer answer;
        runs_predict(store, &request, &answer);
        rate = answer.machine.memory_bytes_per_s;
    }
    store_close(store);
    return rate;
}

/* ---- output ----------------------------------------------------------------------------------------- */

static void print_place(const struct fit_speed *speed, int i, FILE *out)
{
    const berth_speed *s = &speed->at[i].decode;
    fprintf(out, "  %8.2f tok/s (%.2f to %.2f) at %.0f tokens of context\n", s->tokens_per_s, s->low, s->high,
            speed->ctx[i]);
}

void fit_speed_print(const struct fit_speed *speed, FILE *out)
{
    if (!speed->known) {
        return;
    }
    const struct speed_answer *here = &speed->at[1];
    fprintf(out, "\nSpeed%s%s: ", speed->machine[0] != '\0' ? " of " : "", speed->machine);
    if (here->decode.tokens_per_s <= 0) {
        fprintf(out, "%s\n", here->basis);
        return;
    }
    fprintf(out, "bound by %s", here->decode.binding);
    if (here->hit.rate < 1) {
        fprintf(out, ", hit rate %.0f %% (%.0f to %.0f)", 100 * here->hit.rate, 100 * here->hit.low,
                100 * here->hit.high);
    }
    fputc('\n', out);
    for (int i = 0; i < FIT_SPEED_PLACES; i++) {
        if (i == 0 || speed->ctx[i] > speed->ctx[i - 1]) {
            print_place(speed, i, out);
        }
    }
    if (here->prefill.tokens_per_s > 0) {
        fprintf(out, "  %8.1f tok/s (%.1f to %.1f) reading a prompt of %.0f\n", here->prefill.tokens_per_s,
                here->prefill.low, here->prefill.high, speed->ctx[1]);
    }
    fprintf(out, "  basis: %s\n", here->basis);
}

static void json_real_or_null(struct json_out *json, const char *key, double value)
{
    if (value > 0) {
        json_out_real(json, key, value);
    } else {
        json_out_null(json, key);
    }
}

void fit_speed_json(struct json_out *json, const char *key, const struct fit_speed *speed)
{
    if (!speed->known) {
        json_out_null(json, key);
        return;
    }
    const struct speed_answer *here = &speed->at[1];
    json_out_object(json, key);
    if (speed->machine[0] != '\0') {
        json_out_string(json, "machine", speed->machine);
    } else {
        json_out_null(json, "machine");
    }
    json_out_array(json, "decode", false);
    for (int i = 0; i < FIT_SPEED_PLACES; i++) {
        const berth_speed *s = &speed->at[i].decode;
        json_out_object(json, NULL);
        json_out_real(json, "context", speed->ctx[i]);
        json_real_or_null(json, "tokens_per_s", s->tokens_per_s);
        json_real_or_null(json, "low", s->low);
        json_real_or_null(json, "high", s->high);
        json_out_real(json, "memory_s", s->memory_s);
        json_out_real(json, "compute_s", s->compute_s);
        json_out_real(json, "layers_s", s->layers_s);
        json_out_real(json, "disk_s", s->disk_s);
        json_out_string(json, "binding", s->binding);
        json_out_close(json);
    }
    json_out_close(json);
    json_real_or_null(json, "prefill_tokens_per_s", here->prefill.tokens_per_s);
    json_real_or_null(json, "prefill_low", here->prefill.low);
    json_real_or_null(json, "prefill_high", here->prefill.high);
    json_out_object(json, "hit_rate");
    json_out_real(json, "rate", here->hit.rate);
    json_out_real(json, "low", here->hit.low);
    json_out_real(json, "high", here->hit.high);
    json_out_string(json, "basis", here->hit_basis);
    json_out_close(json);
    json_out_string(json, "memory_basis", here->memory_basis);
    json_out_string(json, "read_basis", here->read_basis);
    json_out_u64(json, "model_runs", here->model_runs);
    json_out_u64(json, "machine_runs", here->machine_runs);
    json_out_string(json, "basis", here->basis);
    json_out_close(json);
}

/* ---- the matrix ------------------------------------------------------------------------------------- */

void fit_matrix_put(struct fit_matrix *out, const struct fit_matrix_row *row)
{
    const berth_speed *speed = row->speed;
    const char *name = row->machine->machine.name;
    out->count++;
    if (out->as_json) {
        struct json_out *json = &out->json;
        json_out_object(json, NULL);
        json_out_string(json, "machine", name);
        json_out_string(json, "vendor", row->vendor);
        json_out_string(json, "kind", row->machine->kind);
        json_out_real(json, "usable_bytes", row->usable);
        json_out_string(json, "verdict", row->verdict);
        if (row->total_bytes > 0) {
            json_out_u64(json, "total_bytes", row->total_bytes);
        } else {
            json_out_u64(json, "slots", row->slots);
        }
        json_real_or_null(json, "tokens_per_s", speed->tokens_per_s);
        json_real_or_null(json, "low", speed->low);
        json_real_or_null(json, "high", speed->high);
        json_out_string(json, "binding", row->fits ? speed->binding : "memory size");
        if (row->problem != NULL) {
            json_out_string(json, "machine_problem", row->problem);
        } else if (row->total_bytes == 0) {
            json_out_null(json, "machine_problem");
        }
        json_out_close(json);
        return;
    }
    enum { NAME_COLUMNS = 30 };
    char memory[32];
    char tps[64] = "-";
    snprintf(memory, sizeof memory, "%.1f", row->usable / 0x1p30);
    if (speed->tokens_per_s > 0) {
        int places = speed->high < 100 ? 1 : 0;
        snprintf(tps, sizeof tps, "%.*f (%.*f-%.*f)", places, speed->tokens_per_s, places, speed->low, places,
                 speed->high);
    } else if (row->fits) {
        snprintf(tps, sizeof tps, "unknown");
    }
    const char *cells[] = {table_name(&out->table, name, NAME_COLUMNS), memory,
                           row->share != NULL ? row->share : row->verdict, tps, row->fits ? speed->binding : "size"};
    table_row(&out->table, cells);
}

int fit_matrix_all(struct fit_matrix *out, const struct mlx_options *options, mlx_machine_fn *fn, void *user)
{
    struct mlx_options all = *options;
    int code = EXIT_OK;
    all.filter = options->filter != NULL ? options->filter : "all";
    if (out->as_json) {
        json_out_array(&out->json, "matrix", false);
        code = mlx_each_machine(&all, fn, user);
        json_out_close(&out->json);
        json_out_close(&out->json);
        json_out_end(&out->json);
        return code;
    }
    table_begin(&out->table, stdout, "lrlll", 0);
    static const char *const head[] = {"machine", "GiB", "verdict", "tok/s", "limit"};
    for (int pass = 0; pass < 2 && code == EXIT_OK; pass++) {
        table_row(&out->table, head);
        code = mlx_each_machine(&all, fn, user);
        if (code == EXIT_OK && out->count == 0) {
            return report_usage("fit", "--filter: no machine of the table has '%.80s'", all.filter);
        }
        table_print(&out->table);
    }
    return code;
}

struct matrix {
    struct fit_target target;
    const berth_plan *plan;
    berth_speed_work work;
    struct fit_matrix table;
};

/* The plan of a machine from that of the largest: only the slots differ. */
static void plan_machine(const struct matrix *m, double usable, berth_plan *plan)
{
    *plan = *m->plan;
    double slots = (double)plan->line_bytes[BERTH_LINE_SLOTS];
    double fixed = (double)plan->run_bytes - slots;
    plan->fits = usable >= (double)plan->hard_floor_bytes;
    plan->cached = usable >= (double)plan->floor_bytes;
    plan->resident = usable >= (double)plan->full_bytes || plan->experts_count == 0;
    double share = slots > 0 && usable > fixed ? (usable - fixed) / slots : 0;
    share = plan->resident ? 1 : plan->cached && share < 1 ? share : share < 1 ? 0 : 1;
    plan->slots_count = (uint64_t)(share * (double)plan->experts_count);
    plan->resident = plan->resident || plan->slots_count == plan->experts_count;
}

static int matrix_row(void *user, const struct mlx_machine *machine, const char *vendor)
{
    struct matrix *m = user;
    struct fit_matrix_row row = {.machine = machine, .vendor = vendor, .usable = usable_bytes(machine)};
    berth_plan plan;
    char share[32];
    struct speed_answer speed = {.decode = BERTH_SPEED_INIT};
    plan_machine(m, row.usable, &plan);
    m->target.machine = *machine;
    m->target.machine.vendor = vendor;
    snprintf(m->target.kind, sizeof m->target.kind, "%s", machine->kind);
    if (plan.fits) {
        predict_other(&m->target, &m->work, &plan, plan.ctx_tokens, &speed);
    }
    row.fits = plan.fits;
    row.verdict = !plan.fits ? "too big" : plan.resident ? "fits" : plan.cached ? "streams" : "uncached";
    row.slots = plan.fits ? plan.slots_count : 0;
    row.speed = &speed.decode;
    row.problem = machine_problem(machine, machine->kind, vendor);
    if (plan.fits && plan.cached && !plan.resident) {
        snprintf(share, sizeof share, "streams %.0f %%", 100 * (double)plan.slots_count / (double)plan.experts_count);
        row.share = share;
    }
    fit_matrix_put(&m->table, &row);
    return EXIT_OK;
}

int fit_speed_matrix(const struct mlx_options *options, const char *disk, const tool_summary *model,
                     const berth_plan *plan)
{
    struct matrix m = {.plan = plan, .table = {.as_json = options->json}};
    uint64_t ignored = 1;
    int code = fit_target_read(options, disk, &m.target, &ignored);
    if (code != EXIT_OK) {
        return code;
    }
    tool_speed_work(model, plan, &m.work);
    if (options->json) {
        json_out_begin(&m.table.json, stdout);
        json_out_object(&m.table.json, NULL);
        json_out_string(&m.table.json, "engine", "berth");
        json_out_u64(&m.table.json, "ctx", plan->ctx_tokens);
        json_out_u64(&m.table.json, "hard_floor_bytes", plan->hard_floor_bytes);
        json_out_u64(&m.table.json, "full_bytes", plan->full_bytes);
    }
    code = fit_matrix_all(&m.table, options, matrix_row, &m);
    if (code == EXIT_OK && !options->json) {
        printf("\nAt %" PRIu32 " tokens of context, by the law of each class of machine at the bandwidth\n"
               "of its data sheet. GiB: usable. Berth runs on Linux, on x86-64 and arm64:\n"
               "rows of Apple machines and of graphics cards are what it would do there.\n"
               "The speed of streaming needs --disk GB/S.\n",
               plan->ctx_tokens);
    }
    return code;
}
