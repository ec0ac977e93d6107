/* SPDX-License-Identifier: MIT */
#include "cli/fit_llama_speed.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/report.h"

bool llama_has_device(const struct mlx_machine *machine)
{
    return strstr(machine->machine.name, "DDR") == NULL;
}

double llama_usable(const struct mlx_machine *machine, bool is_device)
{
    return machine->has_budget ? machine->budget_bytes
                               : machine->machine.ram_bytes * (is_device ? BERTH_FIT_WIRED_FRACTION : 1);
}

/* ---- the machine ------------------------------------------------------------------------------------ */

/* The constants of a class, and the bandwidth: given, of the table, measured here, or unknown. */
static void find_machine(const struct llama_speed *of, struct speed_answer *out)
{
    const struct fit_target *target = of->target;
    berth_speed_class kind = !target->other  ? (of->is_device ? BERTH_SPEED_GPU : BERTH_SPEED_MEASURED)
                             : of->is_device ? fit_speed_class(target->kind, target->machine.vendor)
                                             : BERTH_SPEED_CPU;
    double rate = target->memory_rate;
    out->memory_basis = "given";
    if (rate <= 0 && target->other) {
        /* A card's bandwidth says nothing of the memory beside it. */
        bool holds = of->is_device || strstr(target->kind, "gpu") == NULL;
        rate = holds && strcmp(target->machine.basis, "table") == 0 ? target->machine.machine.bandwidth_gbs * 1e9 : 0;
        out->memory_basis = "table";
    } else if (rate <= 0 && !of->is_device) {
        rate = fit_speed_measured_memory();
        out->memory_basis = "measured";
    }
    if (rate <= 0) {
        out->memory_basis = "unknown";
    }
    berth_speed_machine_class(kind, &out->machine);
    out->machine.memory_bytes_per_s = rate;
}

/* ---- predictions ------------------------------------------------------------------------------------ */

static int predict(const struct llama_speed *of, const tool_model_info *info, double ctx, struct speed_answer *out)
{
    berth_speed_work work;
    berth_error err;
    *out = (struct speed_answer){.decode = BERTH_SPEED_INIT, .prefill = BERTH_SPEED_INIT};
    out->machine = BERTH_SPEED_MACHINE_INIT;
    out->hit = (berth_speed_hit){1, 1, 1};
    out->decode.binding = "unknown";
    out->hit_basis = "resident";
    out->read_basis = "unknown";
    find_machine(of, out);
    if (tool_model_work(of->model, of->request, (uint64_t)ctx, &work, &err) != BERTH_OK) {
        return report_error("fit", &err);
    }
    out->work_bytes = work.trunk_bytes + work.expert_bytes + work.state_bytes + work.kv_token_bytes * ctx;
    bool weighed = work.trunk_bytes > 0;
    if (!weighed) {
        snprintf(out->basis, sizeof out->basis, "unknown: say --weights-bytes");
        return EXIT_OK;
    }
    if (out->machine.memory_bytes_per_s <= 0) {
        snprintf(out->basis, sizeof out->basis, "unknown: give --bandwidth%s",
                 of->target->other || of->is_device ? "" : ", or run berth bench machine");
        return EXIT_OK;
    }
    berth_speed_decode(&work, &out->machine, ctx, NULL, &out->decode, NULL);
    tool_model_widen(info, &out->decode);
    snprintf(out->basis, sizeof out->basis, "the law, memory %s%s%s", out->memory_basis,
             info->has_linear ? "; linear attention is often slower" : "",
             info->experts_by_params && info->experts > 0 ? "; experts by parameters" : "");
    return EXIT_OK;
}

int llama_speed_predict(const struct llama_speed *of, double ctx, double ctx_max, struct fit_speed *out)
{
    tool_model_info info;
    tool_model_describe(of->model, &info);
    *out = (struct fit_speed){.known = true};
    out->ctx[1] = ctx;
    out->ctx[2] = fmax(ctx, ctx_max);
    if (of->target->other) {
        snprintf(out->machine, sizeof out->machine, "%s", of->target->machine.machine.name);
    }
    int code = EXIT_OK;
    for (int i = 0; code == EXIT_OK && i < FIT_SPEED_PLACES; i++) {
        code = predict(of, &info, out->ctx[i], &out->at[i]);
    }
    return code;
}

/* ---- the matrix ------------------------------------------------------------------------------------- */

struct llama_matrix {
    const tool_model *model;
    tool_model_info info;
    tool_llama request[2]; /* on the host, on an accelerator */
    tool_llama_report report[2];
    int device;
    struct fit_target target;
    struct fit_matrix *table;
};

static int matrix_row(void *user, const struct mlx_machine *machine, const char *vendor)
{
    struct llama_matrix *m = user;
    bool is_device = m->device >= 0 ? m->device == 1 : llama_has_device(machine);
    uint64_t bytes = is_device ? m->report[1].device_bytes : m->report[0].host_bytes;
    struct fit_matrix_row row = {.machine = machine, .vendor = vendor, .usable = llama_usable(machine, is_device)};
    struct speed_answer speed = {.decode = BERTH_SPEED_INIT};
    speed.decode.binding = "unknown";
    row.fits = (double)bytes <= row.usable;
    row.verdict = !row.fits ? "too big" : m->info.is_known ? "fits" : "unknown";
    m->target.other = true;
    m->target.machine = *machine;
    m->target.machine.vendor = vendor;
    snprintf(m->target.kind, sizeof m->target.kind, "%s", machine->kind);
    if (row.fits && m->info.is_known) {
        const struct llama_speed of = {m->model, &m->request[is_device], &m->target, is_device};
        int code = predict(&of, &m->info, (double)m->report[is_device].ctx_tokens, &speed);
        if (code != EXIT_OK) {
            return code;
        }
    }
    row.total_bytes = bytes;
    row.speed = &speed.decode;
    fit_matrix_put(m->table, &row);
    return EXIT_OK;
}

int llama_speed_matrix(const struct mlx_options *options, const tool_model *model, const tool_llama *request,
                       int device, const char *cannot_run)
{
    struct fit_matrix table = {.as_json = options->json};
    struct llama_matrix m = {.model = model, .device = device, .table = &table};
    berth_error err;
    uint64_t ignored = 1;
    int code = fit_target_read(options, NULL, &m.target, &ignored);
    for (int i = 0; code == EXIT_OK && i < 2; i++) {
        m.request[i] = *request;
        m.request[i].is_device = i == 1;
        if (tool_model_llama(model, &m.request[i], &m.report[i], &err) != BERTH_OK) {
            code = report_error("fit", &err);
        }
    }
    if (code != EXIT_OK) {
        return code;
    }
    tool_model_describe(model, &m.info);
    if (options->json) {
        struct json_out *json = &table.json;
        json_out_begin(json, stdout);
        json_out_object(json, NULL);
        json_out_string(json, "engine", cannot_run != NULL ? "berth" : "llama.cpp");
        json_out_string(json, "rules", "llama.cpp");
        if (cannot_run != NULL) {
            json_out_string(json, "reason", cannot_run);
        }
        if (!m.info.is_known) {
            json_out_string(json, "lower_bound_because", m.info.problem);
        }
        json_out_u64(json, "ctx", m.report[0].ctx_tokens);
    } else if (cannot_run != NULL) {
        printf("Berth cannot run this model yet: %s\nBy llama.cpp's rules:\n\n", cannot_run);
    }
    code = fit_matrix_all(&table, options, matrix_row, &m);
    if (code == EXIT_OK && !options->json) {
        printf("\nAt %" PRIu64 " tokens of context, by llama.cpp's totals and the law of each class of machine at the\n"
               "bandwidth of its data sheet, %s. GiB: usable.\n",
               m.report[0].ctx_tokens,
               device < 0    ? "every layer on its accelerator if it has one"
               : device == 0 ? "every layer on the processor"
                             : "every layer on an accelerator");
        if (!m.info.is_known) {
            printf("\nA LOWER BOUND: %s.\n", m.info.problem);
        }
    }
    return code != EXIT_OK ? code : cannot_run != NULL || !m.info.is_known ? EXIT_FAILED : EXIT_OK;
}
