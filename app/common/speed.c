/* SPDX-License-Identifier: MIT */
#include "common/speed.h"

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
