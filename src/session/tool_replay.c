/* SPDX-License-Identifier: MIT */
#include "tool.h"

#include <stdio.h>
#include <string.h>

#include "experts/policy.h"
#include "experts/replay.h"

static const struct routes *inner(const tool_routes *routes)
{
    return (const struct routes *)(const void *)routes;
}

berth_status tool_routes_open(const char *const *paths, uint32_t count, uint32_t experts, tool_routes **out,
                              berth_error *err)
{
    struct routes *routes = NULL;
    TRY(routes_read(paths, count, experts, &routes, err));
    *out = (tool_routes *)(void *)routes;
    return BERTH_OK;
}

void tool_routes_close(tool_routes *routes)
{
    routes_free((struct routes *)(void *)routes);
}

void tool_routes_describe(const tool_routes *routes, tool_routes_info *out)
{
    const struct routes *r = inner(routes);
    *out = (tool_routes_info){.layers = r->layers,
                              .experts = r->experts,
                              .top_k = r->top_k,
                              .sessions = r->sessions,
                              .steps = r->steps_count,
                              .overlap = routes_overlap(r),
                              .has_cache = r->has_cache,
                              .has_bytes = true,
                              .slots = r->slots.total,
                              .has_totals = r->has_totals};
    memcpy(out->tokens, r->tokens, sizeof out->tokens);
    memcpy(out->hits, r->hits, sizeof out->hits);
    memcpy(out->misses, r->misses, sizeof out->misses);
    snprintf(out->model, sizeof out->model, "%s", r->model);
    snprintf(out->policy, sizeof out->policy, "%s", r->policy);
    for (uint32_t layer = 0; layer < r->layers; layer++) {
        out->has_bytes = out->has_bytes && r->layer_bytes[layer] > 0;
    }
}

berth_status tool_replay_run(const tool_routes *routes, const tool_replay *replay, tool_replay_result *out,
                             berth_error *err)
{
    static const enum replay_prior priors[] = {REPLAY_PRIOR_NONE, REPLAY_PRIOR_RECORDED, REPLAY_PRIOR_HALF};
    struct replay_config config = {.policy = replay->policy,
                                   .as_recorded = replay->as_recorded,
                                   .slots = replay->slots,
                                   .bytes = replay->bytes,
                                   .global = replay->global,
                                   .per_layer = replay->per_layer,
                                   .prefill = replay->prefill,
                                   .prior = priors[replay->prior],
                                   .scored_from = replay->score_all ? 0 : UINT64_MAX};
    struct replay_result result;
    TRY(replay_run(inner(routes), &config, &result, err));
    *out =
        (tool_replay_result){.slots = result.slots,
                             .scored_hits = result.scored_hits,
                             .scored = result.scored,
                             .cold_hits = result.cold_hits,
                             .cold = result.cold,
                             .evictions = result.evictions,
                             .bypassed = result.bypassed,
                             .read_bytes = result.read_bytes,
                             .warm_experts = result.warm_experts,
                             .policy_ns = result.visits > 0 ? (double)result.policy_ns / (double)result.visits : 0.0};
    memcpy(out->hits, result.hits, sizeof out->hits);
    memcpy(out->misses, result.misses, sizeof out->misses);
    return BERTH_OK;
}

const char *tool_policy_name(uint32_t i, bool *replay_only)
{
    const struct policy_row *row = policy_at(i);
    *replay_only = row != NULL && row->replay_only;
    return row != NULL ? row->name : NULL;
}
