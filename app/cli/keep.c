/* SPDX-License-Identifier: MIT */
#include "cli/keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/host_files.h"
#include "common/plan_out.h"
#include "common/report.h"
#include "common/speed.h"
#include "store/runs.h"

/* What SQLite takes while a run is stored: 1.5 MiB of library, its heap, pages of the file and its journal. Below
 * that the model has not given back enough, and the run is not kept. */
enum { ROOM_BYTES = 6 << 20, KIND_TOKENS_LEAST = 2 };

static uint64_t given_back(const berth_plan *plan)
{
    uint64_t stays = plan->line_bytes[BERTH_LINE_PROCESS] + plan->line_bytes[BERTH_LINE_APP];
    return plan->plan_bytes > stays ? plan->plan_bytes - stays : 0;
}

static void fill_composition(const struct run_report *report, const struct model_options *options, struct run_row *row)
{
    const struct engine *engine = report->engine;
    const berth_plan *plan = &engine->plan;
    row->at = store_now();
    snprintf(row->model, sizeof row->model, "%s", engine->info.name);
    if (!host_real_path(options->path, row->path, sizeof row->path)) {
        snprintf(row->path, sizeof row->path, "%s", options->path);
    }
    snprintf(row->engine, sizeof row->engine, "berth");
    snprintf(row->kv, sizeof row->kv, "%s", plan_kv_name(plan->kv_type));
    snprintf(row->policy, sizeof row->policy, "%s", engine->info.policy);
    snprintf(row->isa, sizeof row->isa, "%.15s", engine->info.kernels);
    snprintf(row->io, sizeof row->io, "%.15s", engine->info.io_engine);
    row->threads = plan->threads;
    row->budget = (int64_t)plan->budget_bytes;
    row->ctx = plan->ctx_tokens;
    row->chunk = plan->chunk_tokens;
    row->slots = (int64_t)plan->slots_count;
    row->experts = (int64_t)plan->experts_count;
    row->resident = plan->resident ? 1 : 0;
    row->layers = engine->info.layers;
    row->steady = report->steady || report->stats.warm_experts > 0;
}

static void fill_measured(const struct run_report *report, struct run_row *row)
{
    const berth_stats *s = &report->stats;
    const berth_stats *base = &report->base;
    const struct limit *limit = &report->engine->limit;
    double tokens = (double)(s->decode_tokens - base->decode_tokens);
    row->predicted_peak = (int64_t)report->engine->plan.plan_bytes;
    row->peak = (int64_t)report->peak.resident_bytes;
    row->tps = report->decode_tok_s;
    row->tokens = report->result.count;
    row->prefill = report->prefill_tok_s;
    row->prompt = report->prompt_tokens;
    row->ctx_mean = report->ctx_mean > 0 ? report->ctx_mean : report->prompt_tokens + tokens / 2;
    uint64_t hits = s->hits[BERTH_PHASE_DECODE] - base->hits[BERTH_PHASE_DECODE];
    uint64_t misses = s->misses[BERTH_PHASE_DECODE] - base->misses[BERTH_PHASE_DECODE];
    row->hit = hits + misses > 0 ? (double)hits / (double)(hits + misses) : 0;
    if (limit->measured) {
        row->memory_rate = limit->rates.memory_bytes_per_s;
        row->stream = limit->rates.kernel_bytes_per_s;
        row->read_rate = limit->rates.read_bytes_per_s;
        row->decode_macs = limit->rates.gemv_macs_per_s;
        row->prefill_macs = limit->rates.gemm_macs_per_s;
    }
    if (tokens > 0) {
        double reads = (double)(s->read_bytes[BERTH_PHASE_DECODE] - base->read_bytes[BERTH_PHASE_DECODE]);
        row->disk_s = row->read_rate > 0 ? reads / tokens / row->read_rate : 0;
        row->stall_s = (double)(s->stall_ns[BERTH_PHASE_DECODE] - base->stall_ns[BERTH_PHASE_DECODE]) * 1e-9 / tokens;
    }
}

/* What fit would have said, from everything known before this run and the rates measured just before it. */
static bool fill_predicted(struct store *store, const struct run_report *report, const struct model_options *options,
                           struct run_row *row)
{
    struct machine_row machine;
    tool_checkpoint *checkpoint;
    berth_error err;
    if (!machine_identify(&machine, &err) || tool_open(options->path, &checkpoint, &err) != BERTH_OK) {
        return false;
    }
    static tool_summary summary;
    tool_summarise(checkpoint, &summary);
    tool_close(checkpoint);
    snprintf(row->machine, sizeof row->machine, "%s", machine.key);
    snprintf(row->fingerprint, sizeof row->fingerprint, "%s", summary.fingerprint);
    const berth_plan *plan = &report->engine->plan;
    berth_speed_work work;
    tool_speed_work(&summary, plan, &work);
    const struct speed_request request = {
        .work = &work,
        .fingerprint = row->fingerprint,
        .machine = row->machine,
        .path = options->path,
        .dtype = summary.dtypes_count > 0 ? summary.dtypes[0].dtype : "",
        .kv = row->kv,
        .policy = row->policy,
        .isa = row->isa,
        .threads = row->threads,
        .ctx_tokens = row->ctx_mean,
        .prompt_tokens = (double)report->prompt_tokens / (report->turns > 0 ? report->turns : 1),
        .run_tokens = row->steady ? 0 : report->result.count,
        .chunk_tokens = plan->chunk_tokens,
        .request_bytes = speed_request_bytes((double)plan->experts_bytes, (double)plan->experts_count),
        .slots = row->slots,
        .experts = row->experts,
        .resident = plan->resident,
        .rates = report->engine->limit.measured ? &report->engine->limit.rates : NULL,
    };
    struct speed_answer answer;
    bool done = runs_predict(store, &request, &answer);
    row->predicted_tps = answer.decode.tokens_per_s;
    row->predicted_low = answer.decode.low;
    row->predicted_high = answer.decode.high;
    row->predicted_prefill = answer.prefill.tokens_per_s;
    row->predicted_hit = answer.hit.rate;
    row->work_bytes = answer.work_bytes;
    row->work_macs = answer.work_macs;
    row->law_prefill = answer.law_prefill;
    snprintf(row->basis, sizeof row->basis, "%s", answer.basis);
    return done;
}

void keep_run(const struct run_report *report, const struct model_options *options, const char *kind)
{
    if (options->no_store || report->result.count < KIND_TOKENS_LEAST ||
        given_back(&report->engine->plan) < ROOM_BYTES) {
        return;
    }
    char problem[STORE_PROBLEM_MAX];
    struct store *store = store_open_within(true, STORE_WAIT_BRIEF_MS, problem);
    struct run_row *row = calloc(1, sizeof *row);
    bool kept = false;
    if (store != NULL && row != NULL) {
        snprintf(row->kind, sizeof row->kind, "%s", kind);
        fill_composition(report, options, row);
        fill_measured(report, row);
        kept = fill_predicted(store, report, options, row) && runs_add(store, row);
        if (!kept) {
            snprintf(problem, sizeof problem, "%s", store_problem(store));
        }
    }
    if (!kept && !options->quiet) {
        report_note("this run was not kept: %s", problem);
    }
    free(row);
    store_close(store);
}
