/* SPDX-License-Identifier: MIT */
#include "common/run_report.h"

#include <inttypes.h>

#include "common/json_out.h"
#include "common/live.h"
#include "common/plan_out.h"
#include "common/sizes.h"

/* The weights of a chunk are streamed once for all of its tokens. */
static void prefill_share(struct run_report *r)
{
    const struct engine *engine = r->engine;
    const berth_plan *plan = &engine->plan;
    r->prefill_share = (struct limit_share){0};
    if (r->prompt_tokens == 0 || r->result.end == GENERATE_RUNNING || r->base.macs == 0) {
        return;
    }
    double tokens = r->prompt_tokens;
    double chunks = (tokens + plan->chunk_tokens - 1) / plan->chunk_tokens;
    const struct limit_work work = {
        .read_bytes =
            (double)(r->base.read_bytes[BERTH_PHASE_PREFILL] + r->base.read_bytes[BERTH_PHASE_DECODE]) / tokens,
        .memory_bytes = (double)plan->line_bytes[BERTH_LINE_TRUNK] * chunks / tokens,
        .macs = (double)r->base.macs / tokens,
        .tokens_per_s = r->prefill_tok_s,
    };
    limit_of(&engine->limit, &work, true, &r->prefill_share);
}

void run_report_finish(struct run_report *r)
{
    struct engine *engine = r->engine;
    r->stats = BERTH_STATS_INIT;
    berth_model_get_stats(engine->model, &r->stats);
    host_read_peak(&r->peak);
    r->prefill_s = (double)r->prefill_ns * 1e-9;
    r->prefill_tok_s = r->prefill_s > 0 ? r->prompt_tokens / r->prefill_s : 0;
    /* The first token comes out of the prompt's logits; the others took one evaluation each. */
    uint64_t tokens = r->stats.decode_tokens - r->base.decode_tokens;
    uint64_t spent = r->result.last_ns > r->start_ns ? r->result.last_ns - r->start_ns : 0;
    r->decode_s = (double)spent * 1e-9;
    r->decode_tok_s = r->result.count > 1 && spent > 0 ? (double)tokens / r->decode_s : 0;
    struct limit_work work;
    double reads = (double)(r->stats.read_bytes[BERTH_PHASE_DECODE] - r->base.read_bytes[BERTH_PHASE_DECODE]);
    double stall = (double)(r->stats.stall_ns[BERTH_PHASE_DECODE] - r->base.stall_ns[BERTH_PHASE_DECODE]) * 1e-9;
    if (r->decode_s > 0 && stall > 0) {
        limit_observe_reads(&engine->limit, reads / r->decode_s);
    }
    prefill_share(r);
    r->share = (struct limit_share){0};
    if (tokens > 0) {
        live_work(engine, &r->base, r->decode_tok_s, &work);
        limit_of(&engine->limit, &work, false, &r->share);
    }
}

static double hit_rate(const struct run_report *r, berth_phase phase)
{
    uint64_t visits = r->stats.hits[phase] + r->stats.misses[phase];
    return visits > 0 ? (double)r->stats.hits[phase] / (double)visits : 0;
}

static void print_limit(const struct run_report *r, FILE *out)
{
    const struct limit_share *s = &r->share;
    const tool_rates *rates = &r->engine->limit.rates;
    char text[FORMAT_MAX];
    if (s->binding == NULL) {
        fputs("  limit    unknown (this machine's rates could not be measured)\n", out);
        return;
    }
    fprintf(out, "  limit    %.0f %% of %.2f tok/s, bound by %s\n           %smeasured: ", 100 * s->share,
            s->tokens_per_s, s->binding, s->observed ? "faster than " : "");
    if (rates->read_bytes_per_s > 0) {
        fprintf(out, "disk %s, ", rate_format(rates->read_bytes_per_s, text));
    }
    if (rates->memory_bytes_per_s > 0) {
        fprintf(out, "memory %s, ", rate_format(rates->memory_bytes_per_s, text));
    }
    fprintf(out, "%s kernel %.1f GMAC/s\n", rates->dtype, rates->gemv_macs_per_s * 1e-9);
    if (r->prefill_share.binding != NULL) {
        fprintf(out, "           prompt: %.0f %% of %.1f tok/s, bound by %s\n", 100 * r->prefill_share.share,
                r->prefill_share.tokens_per_s, r->prefill_share.binding);
    }
}

void run_report_print(const struct run_report *r, FILE *out)
{
    char a[FORMAT_MAX];
    char b[FORMAT_MAX];
    const berth_plan *plan = &r->engine->plan;
    fprintf(out, "\n  prompt   %" PRIu32 " tokens in %s (%.1f tok/s)\n", r->prompt_tokens, time_format(r->prefill_s, a),
            r->prefill_tok_s);
    if (r->result.count > 0) {
        fprintf(out, "  answer   %" PRIu32 " tokens in %s (%.2f tok/s), %s", r->result.count,
                time_format(r->decode_s, a), r->decode_tok_s, generate_end_text(r->result.end));
        if (r->sampled) {
            fprintf(out, ", seed %" PRIu64, r->seed);
        }
        fputc('\n', out);
    } else {
        fprintf(out, "  answer   none, %s\n", generate_end_text(r->result.end));
    }
    if (plan->experts_count > 0) {
        fprintf(out, "  experts  hits %.1f %% prompt, %.1f %% answer; %s read\n",
                100 * hit_rate(r, BERTH_PHASE_PREFILL), 100 * hit_rate(r, BERTH_PHASE_DECODE),
                size_format(r->stats.read_bytes[BERTH_PHASE_PREFILL] + r->stats.read_bytes[BERTH_PHASE_DECODE], a));
    }
    fprintf(out, "  memory   peak %s, plan %s", size_format(r->peak.resident_bytes, a),
            size_format(plan->plan_bytes, b));
    fprintf(out, ", budget %s (%s)\n", size_format(plan->budget_bytes, a), plan->binding);
    if (r->result.count > 1) {
        print_limit(r, out);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

static void add_text(void *user, const char *text, size_t bytes)
{
    json_out_string_add(user, text, bytes);
}

static void json_answer(struct json_out *json, const struct run_report *r)
{
    const struct engine *engine = r->engine;
    json_out_array(json, "ids", true);
    for (uint32_t i = 0; i < r->result.count; i++) {
        json_out_i64(json, NULL, r->ids[i]);
    }
    json_out_close(json);
    if (engine->info.has_tokenizer) {
        json_out_string_begin(json, "text");
        generate_text_again(engine->model, r->ids, r->result.count, r->text_bytes, r->piece, r->piece_cap, add_text,
                            json);
        json_out_string_end(json);
    } else {
        json_out_null(json, "text");
    }
    json_out_string(json, "end", generate_end_name(r->result.end));
    if (r->result.end == GENERATE_FAILED) {
        json_out_string(json, "error", r->result.err.message);
    }
}

static void json_phase(struct json_out *json, const char *key, const struct run_report *r, berth_phase phase)
{
    json_out_object(json, key);
    json_out_u64(json, "hits", r->stats.hits[phase]);
    json_out_u64(json, "misses", r->stats.misses[phase]);
    json_out_real(json, "hit_rate", hit_rate(r, phase));
    json_out_u64(json, "reads", r->stats.reads[phase]);
    json_out_u64(json, "read_bytes", r->stats.read_bytes[phase]);
    json_out_real(json, "stall_s", (double)r->stats.stall_ns[phase] * 1e-9);
    json_out_close(json);
}

static void json_peak(struct json_out *json, const struct host_peak *peak)
{
    json_out_object(json, "peak");
    if (peak->resident_bytes > 0) {
        json_out_u64(json, "resident_bytes", peak->resident_bytes);
    } else {
        json_out_null(json, "resident_bytes");
    }
    if (peak->cgroup_file[0] != '\0') {
        json_out_u64(json, "cgroup_bytes", peak->cgroup_bytes);
        json_out_string(json, "cgroup_file", peak->cgroup_file);
    } else {
        json_out_null(json, "cgroup_bytes");
        json_out_null(json, "cgroup_file");
    }
    if (peak->cgroup_limit_bytes != UINT64_MAX) {
        json_out_u64(json, "cgroup_limit_bytes", peak->cgroup_limit_bytes);
    } else {
        json_out_null(json, "cgroup_limit_bytes");
    }
    json_out_close(json);
}

static void json_model(struct json_out *json, const berth_model_info *info)
{
    json_out_object(json, "model");
    json_out_string(json, "name", info->name);
    json_out_string(json, "family", info->family);
    json_out_string(json, "format", info->format);
    json_out_string(json, "kernels", info->kernels);
    json_out_string(json, "io_engine", info->io_engine);
    json_out_string(json, "policy", info->policy);
    json_out_u64(json, "parameters", info->parameters);
    json_out_close(json);
}

void run_report_json(const struct run_report *r, FILE *out)
{
    struct json_out json;
    json_out_begin(&json, out);
    json_out_object(&json, NULL);
    json_out_string(&json, "version", berth_version());
    json_answer(&json, r);
    json_out_u64(&json, "prompt_tokens", r->prompt_tokens);
    json_out_u64(&json, "generated_tokens", r->result.count);
    json_out_u64(&json, "seed", r->seed);
    json_model(&json, &r->engine->info);
    json_out_object(&json, "timings");
    json_out_real(&json, "open_s", (double)r->engine->open_ns * 1e-9);
    json_out_u64(&json, "open_read_bytes", r->stats.open_read_bytes);
    json_out_real(&json, "prefill_s", r->prefill_s);
    json_out_real(&json, "prefill_tokens_per_s", r->prefill_tok_s);
    json_out_real(&json, "first_token_estimate_s", r->first_token_estimate_s);
    json_out_real(&json, "decode_s", r->decode_s);
    json_out_real(&json, "decode_tokens_per_s", r->decode_tok_s);
    json_out_close(&json);
    json_out_object(&json, "experts");
    json_phase(&json, "prefill", r, BERTH_PHASE_PREFILL);
    json_phase(&json, "decode", r, BERTH_PHASE_DECODE);
    json_out_u64(&json, "evictions", r->stats.evictions);
    json_out_u64(&json, "slots_used", r->stats.slots_used);
    json_out_u64(&json, "pinned_slots", r->stats.pinned_slots);
    json_out_u64(&json, "warm_experts", r->stats.warm_experts);
    json_out_u64(&json, "warm_read_bytes", r->stats.warm_read_bytes);
    json_out_real(&json, "policy_s", (double)r->stats.policy_ns * 1e-9);
    json_out_close(&json);
    json_out_object(&json, "compute");
    json_out_u64(&json, "macs", r->stats.macs);
    json_out_u64(&json, "kernel_calls", r->stats.kernel_calls);
    json_out_bool(&json, "direct_io", r->stats.direct_io);
    json_out_bool(&json, "memory_locked", r->stats.memory_locked);
    json_out_u64(&json, "major_faults", r->stats.major_faults);
    json_out_close(&json);
    limit_json(&json, "limit", &r->engine->limit, &r->share, &r->prefill_share);
    plan_json(&json, "plan", &r->engine->plan);
    json_peak(&json, &r->peak);
    json_out_close(&json);
    json_out_end(&json);
}

void run_report_refused(const struct engine *engine, FILE *out)
{
    struct json_out json;
    json_out_begin(&json, out);
    json_out_object(&json, NULL);
    json_out_string(&json, "version", berth_version());
    json_out_string(&json, "verdict", "no-fit");
    json_out_string(&json, "error", engine->refused.message);
    if (engine->plan.hard_floor_bytes > 0) {
        plan_json(&json, "plan", &engine->plan);
    } else {
        json_out_null(&json, "plan"); /* not even the headers fit */
    }
    json_out_close(&json);
    json_out_end(&json);
}
