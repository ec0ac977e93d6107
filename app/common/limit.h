/* SPDX-License-Identifier: MIT
 *
 * The speed law (docs/cli.md, "The limit"): what this machine could do at most with this model and this cache, and
 * which share of it a run reached.
 *
 *     disk    = bytes read a token / W
 *     memory  = (trunk + experts of a token + filled part of the KV cache) / M
 *     compute = multiply-adds a token / kernel rate
 *     limit   = 1 / max(disk, memory, compute)
 *
 * W, M and the kernel rate are measured by tool_measure_rates() just before the model opens. A rate that could not be
 * measured makes its term unknown; with no known term there is no limit, and none is printed. The measurements are
 * short: a run that beats them shows what the machine can do, and is the limit itself.
 */
#ifndef APP_LIMIT_H
#define APP_LIMIT_H

#include "common/json_out.h"
#include "tool.h"

struct limit {
    tool_rates rates;
    bool measured;
    bool reads_observed; /* the run itself read faster than the measurement did */
};

/* The best disk rate seen so far counts: an observation faster than the measurement replaces it. */
void limit_observe_reads(struct limit *limit, double bytes_per_s);

/* What one token took, on average. */
struct limit_work {
    double read_bytes;   /* asked from the files */
    double memory_bytes; /* streamed from memory */
    double macs;
    double tokens_per_s; /* achieved */
};

struct limit_share {
    double disk_s, memory_s, compute_s; /* 0: unknown or nothing to do */
    double tokens_per_s;                /* the limit; 0: unknown */
    double share;                       /* achieved / limit, at most 1 */
    bool observed;                      /* faster than the measured rates allow: the run is the better measurement */
    const char *binding;                /* "disk", "memory", "compute"; NULL: unknown */
};
/* prompt: many tokens at a time, so the kernel rate is that of matrix by matrix. */
void limit_of(const struct limit *limit, const struct limit_work *work, bool prompt, struct limit_share *out);

/* Bytes of memory one token streams at a mean position of `ctx_tokens_mean`. */
double limit_memory_bytes(const berth_plan *plan, double ctx_tokens_mean);

/* About how long a prompt of `tokens` takes; 0: unknown. */
double limit_prefill_s(const struct limit *limit, const berth_plan *plan, const berth_model_info *info,
                       uint64_t tokens);

/* Object of the shares and what they rest on. */
void limit_json(struct json_out *json, const char *key, const struct limit *limit, const struct limit_share *answer,
                const struct limit_share *prompt);

#endif
