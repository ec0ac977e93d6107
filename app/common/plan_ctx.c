/* SPDX-License-Identifier: MIT
 * The largest context of a run, as berth fit has it; apart from engine.c because it plans by itself. */
#include "common/plan_ctx.h"

#include "common/report.h"
#include "tool.h"

struct replanning {
    const char *verb;
    tool_planner *planner;
    tool_shape shape;
    uint32_t ctx_tokens; /* that ids need; counts where --ctx is absent */
};

static int plan_again(void *user, const struct model_options *options, berth_plan *plan)
{
    const struct replanning *r = user;
    struct engine_needs needs = {.shape = &r->shape, .ctx_tokens = r->ctx_tokens};
    berth_model_config config;
    int code = engine_config(r->verb, options, &needs, &config);
    *plan = BERTH_PLAN_INIT;
    return code != EXIT_OK                                                  ? code
           : tool_planner_plan(r->planner, &config, plan, NULL) == BERTH_OK ? EXIT_OK
                                                                            : EXIT_FAILED;
}

bool plan_exact_ctx(const char *verb, const struct model_options *options, uint32_t ctx_tokens, uint32_t *out)
{
    struct replanning r = {.verb = verb, .ctx_tokens = ctx_tokens};
    berth_plan plan;
    tool_summary summary;
    if (tool_planner_open(options->path, &r.planner, NULL) != BERTH_OK) {
        return false;
    }
    tool_summarise(tool_planner_checkpoint(r.planner), &summary);
    r.shape = (tool_shape){.vocab = summary.vocab, .ctx_max_tokens = summary.ctx_max_tokens};
    bool known =
        plan_again(&r, options, &plan) == EXIT_OK && engine_settle_ctx(options, &plan, plan_again, &r) == EXIT_OK;
    tool_planner_close(r.planner);
    *out = known ? plan.ctx_max_tokens : 0;
    return known;
}
