/* SPDX-License-Identifier: MIT
 * What a token of a model takes, for the speed law: the numbers of its headers and of a plan together. */
#include "base/error.h"
#include "fit/spec.h"
#include "tool.h"

void tool_speed_work(const tool_summary *model, const berth_plan *plan, berth_speed_work *out)
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

/* As far as the two can tell. */
static bool is_of(const berth_plan *plan, const tool_summary *model)
{
    return plan->experts_count == (uint64_t)model->moe_layers * model->experts && plan->ctx_tokens > 0 &&
           plan->ctx_tokens <= model->ctx_max_tokens && plan->line_bytes[BERTH_LINE_TRUNK] > 0;
}

berth_status berth_speed_work_of(const char *path, const berth_plan *plan, berth_speed_work *work, berth_error *err)
{
    if (path == NULL || plan == NULL || work == NULL || plan->struct_size < sizeof *plan ||
        work->struct_size < sizeof *work) {
        return error_set(err, BERTH_ERR_ARGUMENT, "a path, a plan and a berth_speed_work with its _INIT are needed");
    }
    tool_checkpoint *checkpoint;
    TRY(tool_open(path, &checkpoint, err));
    const struct spec *spec = (const struct spec *)checkpoint; /* tool.c */
    tool_summary model;
    tool_summarise(checkpoint, &model);
    berth_status status = spec->family_status;
    if (status != BERTH_OK && err != NULL) {
        *err = spec->family_problem;
    }
    tool_close(checkpoint);
    TRY(status);
    if (!is_of(plan, &model)) {
        status = error_set(err, BERTH_ERR_ARGUMENT,
                           "the plan is not of this model; berth_plan_memory() of the same path makes one");
        error_at_path(err, path);
        return status;
    }
    size_t struct_size = work->struct_size;
    tool_speed_work(&model, plan, work);
    work->struct_size = struct_size;
    return BERTH_OK;
}
