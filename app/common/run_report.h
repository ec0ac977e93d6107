/* SPDX-License-Identifier: MIT
 * What a run did: the summary on stderr and the JSON object. */
#ifndef APP_RUN_REPORT_H
#define APP_RUN_REPORT_H

#include <stdio.h>

#include "common/generate.h"
#include "common/host.h"

struct run_report {
    struct engine *engine;
    struct generated result;
    const int32_t *ids; /* [result.count] generated */
    uint32_t prompt_tokens;
    uint64_t text_bytes; /* of the answer as written */
    uint64_t prefill_ns, start_ns;
    berth_stats base; /* when generation began */
    double first_token_estimate_s;
    uint32_t turns; /* of a conversation; 0: one prompt */
    bool sampled;
    bool steady; /* the cache was filled before what counts began */
    uint64_t seed;
    char *piece; /* [piece_cap]: scratch for repeating the text */
    size_t piece_cap;
    /* filled by run_report_finish() */
    berth_stats stats;
    struct host_peak peak;
    struct limit_share share, prefill_share;
    double prefill_s, decode_s, prefill_tok_s, decode_tok_s;
    double ctx_mean; /* position of the generated tokens, on average; 0: one answer after the prompt */
};

void run_report_finish(struct run_report *report);
void run_report_print(const struct run_report *report, FILE *out);
void run_report_json(const struct run_report *report, FILE *out);

/* What --json prints when the model does not fit: `verdict`, `error`, and the plan that was refused. */
void run_report_refused(const struct engine *engine, FILE *out);

#endif
