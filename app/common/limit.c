/* SPDX-License-Identifier: MIT */
#include "common/limit.h"

#include <math.h>

void limit_observe_reads(struct limit *limit, double bytes_per_s)
{
    if (limit->measured && bytes_per_s > limit->rates.read_bytes_per_s) {
        limit->rates.read_bytes_per_s = bytes_per_s;
        limit->reads_observed = true;
    }
}

static double term(double work, double rate)
{
    return work > 0 && rate > 0 ? work / rate : 0;
}

double limit_memory_bytes(const berth_plan *plan, double ctx_tokens_mean)
{
    double kv = (double)plan->line_bytes[BERTH_LINE_KV];
    double filled = plan->ctx_tokens > 0 ? ctx_tokens_mean / plan->ctx_tokens : 0;
    return (double)plan->line_bytes[BERTH_LINE_TRUNK] + (double)plan->token_expert_bytes + kv * fmin(filled, 1);
}

double limit_prefill_s(const struct limit *limit, const berth_plan *plan, const berth_model_info *info, uint64_t tokens)
{
    if (!limit->measured || limit->rates.gemm_macs_per_s <= 0 || info->file_bytes == 0) {
        return 0;
    }
    /* Parameters that one token uses, in proportion to bytes. */
    double file = (double)info->file_bytes;
    double idle = (double)plan->experts_bytes - (double)plan->token_expert_bytes;
    double active = (double)info->parameters * (file - fmax(idle, 0)) / file;
    /* Each token attends to half of the prompt on average: scores and values. */
    double attention = (double)info->layers * info->heads * info->head_dim * (double)tokens;
    double compute_s = (active + attention) * (double)tokens / limit->rates.gemm_macs_per_s;
    double disk_s = 0;
    if (plan->experts_count > 0 && plan->chunk_tokens > 0 && info->experts > 0) {
        if (limit->rates.read_bytes_per_s <= 0) {
            return 0;
        }
        /* Experts that a chunk touches if tokens choose independently, less those that have a slot. */
        double chunk = fmin((double)tokens, (double)plan->chunk_tokens);
        double missed = pow(1 - (double)info->top_k / info->experts, chunk);
        double kept = plan->resident ? 1 : (double)plan->slots_count / (double)plan->experts_count;
        double chunks = ceil((double)tokens / chunk);
        double bytes = (double)plan->experts_bytes * (1 - missed);
        /* The first chunk finds the cache empty. */
        disk_s = (bytes + (chunks - 1) * bytes * (1 - kept)) / limit->rates.read_bytes_per_s;
    }
    /* Reading and computing overlap in part; how far is not known beforehand, half is assumed. */
    return fmax(compute_s, disk_s) + fmin(compute_s, disk_s) / 2;
}

static void pick(struct limit_share *share)
{
    const struct {
        const char *name;
        double seconds;
    } terms[] = {{"disk", share->disk_s}, {"memory", share->memory_s}, {"compute", share->compute_s}};
    double worst = 0;
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++) {
        if (terms[i].seconds > worst) {
            worst = terms[i].seconds;
            share->binding = terms[i].name;
        }
    }
    share->tokens_per_s = worst > 0 ? 1 / worst : 0;
}

void limit_of(const struct limit *limit, const struct limit_work *work, bool prompt, struct limit_share *out)
{
    *out = (struct limit_share){0};
    /* Reads whose rate is unknown could be what binds. */
    if (!limit->measured || (work->read_bytes > 0 && limit->rates.read_bytes_per_s <= 0)) {
        return;
    }
    out->disk_s = term(work->read_bytes, limit->rates.read_bytes_per_s);
    out->memory_s = term(work->memory_bytes, limit->rates.memory_bytes_per_s);
    out->compute_s = term(work->macs, prompt ? limit->rates.gemm_macs_per_s : limit->rates.gemv_macs_per_s);
    pick(out);
    if (out->binding == NULL) {
        return;
    }
    out->observed = work->tokens_per_s > out->tokens_per_s;
    out->tokens_per_s = out->observed ? work->tokens_per_s : out->tokens_per_s;
    out->share = work->tokens_per_s / out->tokens_per_s;
}

static void json_share(struct json_out *json, const struct limit_share *share)
{
    if (share->binding != NULL) {
        json_out_real(json, "tokens_per_s", share->tokens_per_s);
        json_out_real(json, "share", share->share);
        json_out_string(json, "binding", share->binding);
    } else {
        json_out_null(json, "tokens_per_s");
        json_out_null(json, "share");
        json_out_null(json, "binding");
    }
    json_out_bool(json, "observed", share->observed);
    json_out_real(json, "disk_s_per_token", share->disk_s);
    json_out_real(json, "memory_s_per_token", share->memory_s);
    json_out_real(json, "compute_s_per_token", share->compute_s);
}

void limit_json(struct json_out *json, const char *key, const struct limit *limit, const struct limit_share *answer,
                const struct limit_share *prompt)
{
    const char *basis = !limit->measured ? "unknown" : limit->reads_observed ? "observed" : "measured";
    json_out_object(json, key);
    json_share(json, answer);
    json_out_object(json, "prefill");
    json_share(json, prompt);
    json_out_close(json);
    json_out_object(json, "rates");
    json_out_real(json, "read_bytes_per_s", limit->rates.read_bytes_per_s);
    json_out_string(json, "read_basis", basis);
    json_out_u64(json, "read_sample_bytes", limit->rates.read_sample_bytes);
    json_out_bool(json, "direct_io", limit->rates.direct_io);
    json_out_real(json, "memory_bytes_per_s", limit->rates.memory_bytes_per_s);
    json_out_u64(json, "memory_sample_bytes", limit->rates.memory_sample_bytes);
    json_out_real(json, "gemv_macs_per_s", limit->rates.gemv_macs_per_s);
    json_out_real(json, "gemm_macs_per_s", limit->rates.gemm_macs_per_s);
    json_out_string(json, "kernel_dtype", limit->rates.dtype);
    json_out_close(json);
    json_out_close(json);
}
