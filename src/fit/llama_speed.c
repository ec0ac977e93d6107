/* SPDX-License-Identifier: MIT
 * What a token takes under llama.cpp's rules, for the speed law of berth.h. */
#include "fit/llama_speed.h"

bool llama_work(const struct shape *shape, const struct llama_request *request, const uint64_t weights[WEIGHT_CLASSES],
                berth_speed_work *out)
{
    struct llama_request own = *request;
    struct llama_report report;
    own.slots = 1; /* one sequence: others read caches of their own */
    own.is_unified = own.is_draft = false;
    if (!llama_cache_bytes(shape, &own, &report)) {
        return false;
    }
    *out = BERTH_SPEED_WORK_INIT;
    out->trunk_bytes = (double)weights[WEIGHT_RESIDENT];
    out->experts_bytes = (double)weights[WEIGHT_EXPERT];
    out->experts = shape->number[SHAPE_EXPERTS];
    out->top_k = shape->number[SHAPE_TOP_K] < out->experts ? shape->number[SHAPE_TOP_K] : out->experts;
    out->expert_bytes = out->experts > 0 ? out->experts_bytes * out->top_k / out->experts : out->experts_bytes;
    out->state_bytes = 2.0 * (double)report.state_bytes; /* read, and written anew */
    out->kv_token_bytes = own.ctx_tokens > 0 ? (double)report.kv_bytes / (double)own.ctx_tokens : 0;
    out->layers = shape->count;
    for (uint32_t i = 0; i < shape->count; i++) {
        out->moe_layers += shape->layers[i].is_moe ? 1 : 0;
    }
    return true;
}

double llama_lookup_params(const struct shape *shape)
{
    const uint32_t *n = shape->number;
    double rows = n[SHAPE_PLE_VOCAB] > 0 ? n[SHAPE_PLE_VOCAB] : n[SHAPE_VOCAB];
    return (shape->tied ? 0 : (double)shape->embed_params) + rows * n[SHAPE_PLE_DIM] * shape->count;
}

bool llama_has_linear(const struct shape *shape)
{
    for (uint32_t i = 0; i < shape->count; i++) {
        enum shape_state state = shape->layers[i].state;
        if (state == SHAPE_DELTA || state == SHAPE_KDA || state == SHAPE_LIGHTNING) {
            return true;
        }
    }
    return false;
}
