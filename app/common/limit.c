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

void limit_decode(const struct limit *limit, const struct limit_work *work, struct limit_share *out)
{
    *out = (struct limit_share){0};
    if (!limit->measured) {
        return;
    }
    out->disk_s = term(work->read_bytes, limit->rates.read_bytes_per_s);
    out->memory_s = term(work->memory_bytes, limit->rates.memory_bytes_per_s);
    out->compute_s = term(work->macs, limit->rates.gemv_macs_per_s);
    double worst = out->disk_s;
    out->binding = "disk";
    if (out->memory_s > worst) {
        worst = out->memory_s;
        out->binding = "memory";
    }
    if (out->compute_s > worst) {
        worst = out->compute_s;
        out->binding = "compute";
    }
    /* Reads whose rate is unknown could be what binds. */
    bool blind = work->read_bytes > 0 && limit->rates.read_bytes_per_s <= 0;
    if (worst <= 0 || blind) {
        out->binding = NULL;
        return;
    }
    out->tokens_per_s = 1 / worst;
    out->share = work->tokens_per_s * worst;
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
    double compute_s = active * (double)tokens / limit->rates.gemm_macs_per_s;
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
    return fmax(compute_s, disk_s);
}

void limit_json(struct json_out *json, const char *key, const struct limit *limit, const struct limit_share *share)
{
    json_out_object(json, key);
    if (share->binding != NULL) {
        json_out_real(json, "tokens_per_s", share->tokens_per_s);
        json_out_real(json, "share", share->share);
        json_out_string(json, "binding", share->binding);
    } else {
        json_out_null(json, "tokens_per_s");
        json_out_null(json, "share");
        json_out_null(json, "binding");
    }
    json_out_real(json, "disk_s_per_token", share->disk_s);
    json_out_real(json, "memory_s_per_token", share->memory_s);
    json_out_real(json, "compute_s_per_token", share->compute_s);
    json_out_object(json, "rates");
    json_out_real(json, "read_bytes_per_s", limit->rates.read_bytes_per_s);
    json_out_string(json, "read_basis", !limit->measured ? "unknown" : limit->reads_observed ? "observed" : "measured");
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
