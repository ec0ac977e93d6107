/* SPDX-License-Identifier: MIT */
#include "common/speed.h"

#include "common/host.h"

void speed_work(const tool_summary *model, const berth_plan *plan, berth_speed_work *out)
{
    *out = BERTH_SPEED_WORK_INIT;
    double trunk = (double)plan->line_bytes[BERTH_LINE_TRUNK] - (double)model->lookup_bytes;
    out->trunk_bytes = trunk > 0 ? trunk : 0;
    out->expert_bytes = (double)plan->token_expert_bytes;
    out->experts_bytes = (double)plan->experts_bytes;
    out->state_bytes = (double)plan->line_bytes[BERTH_LINE_STATE];
    if (plan->ctx_tokens > 0) {
        out->kv_token_bytes = (double)plan->line_bytes[BERTH_LINE_KV] / plan->ctx_tokens;
    }
    out->macs = model->token_macs > 0 ? model->token_macs : 0;
    out->kv_token_macs = 2.0 * model->layers * model->heads * model->head_dim; /* scores and values */
    out->layers = model->layers;
    out->moe_layers = model->moe_layers;
    out->experts = model->experts;
    out->top_k = model->top_k;
}

double speed_request_bytes(const berth_plan *plan)
{
    enum { MATRICES = 3 }; /* gate, up, down: a read each */
    return plan->experts_count > 0 ? (double)plan->experts_bytes / (double)plan->experts_count / MATRICES : 0;
}

double speed_ledger_hit(const struct model_options *options, uint64_t slots)
{
    enum { SELECTIONS_LEAST = 5000 };
    char path[HOST_PATH_MAX + 32];
    char state_dir[HOST_PATH_MAX];
    uint64_t bytes;
    const char *state = host_state_dir(state_dir, sizeof state_dir) ? state_dir : NULL;
    if (options->ledger_path == NULL &&
        (berth_ledger_default_path(options->path, state, path, sizeof path, NULL) != BERTH_OK ||
         !host_file_size(path, &bytes))) {
        return 0;
    }
    const tool_usage_config config = {.path = options->path, .ledger_path = options->ledger_path, .state_dir = state};
    tool_usage *usage;
    if (tool_usage_open(&config, &usage, NULL) != BERTH_OK) {
        return 0;
    }
    tool_usage_info info;
    tool_usage_describe(usage, &info);
    double hit = 0;
    if (info.exists && !info.refused && info.selections >= SELECTIONS_LEAST) {
        const berth_ledger_count *counts;
        uint64_t used = tool_usage_ranked(usage, &counts);
        double held = 0;
        double all = 0;
        for (uint64_t i = 0; i < used; i++) {
            held += i < slots ? counts[i].count : 0;
            all += counts[i].count;
        }
        hit = all > 0 ? held / all : 0;
    }
    tool_usage_close(usage);
    return hit;
}
