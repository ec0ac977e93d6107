/* SPDX-License-Identifier: MIT
 * What a model is and has done. */
#include <stdio.h>
#include <string.h>

#include "session/model.h"

#define BERTH_TEXT_(x) #x
#define BERTH_TEXT(x) BERTH_TEXT_(x)

const char *berth_version(void)
{
    return BERTH_TEXT(BERTH_VERSION_MAJOR) "." BERTH_TEXT(BERTH_VERSION_MINOR) "." BERTH_TEXT(BERTH_VERSION_PATCH);
}

static uint64_t expert_parameters(const struct hparams *h)
{
    return 3ull * h->hidden * h->expert_ffn * h->experts * h->moe_layers;
}

static void describe_weights(const struct berth_model *model, berth_model_info *out)
{
    const struct hparams *h = model->engine.hparams;
    out->layers = h->layers;
    out->hidden = h->hidden;
    out->heads = h->heads;
    out->kv_heads = h->kv_heads;
    out->head_dim = h->head_dim;
    out->vocab = h->vocab;
    out->ctx_max_tokens = h->ctx_max;
    out->moe_layers = h->moe_layers;
    out->experts = h->experts;
    out->top_k = h->top_k;
    out->parameters = model->engine.trunk.parameters + expert_parameters(h);
    out->file_bytes = model->engine.trunk.stored_bytes + model->plan.experts_bytes;
    snprintf(out->family, sizeof out->family, "%s", model->family->name);
    snprintf(out->kernels, sizeof out->kernels, "%s", model->kernels->name);
    snprintf(out->io_engine, sizeof out->io_engine, "%s", io_engine_name(model->engine.io));
    snprintf(out->policy, sizeof out->policy, "%s", model->policy);
}

berth_status berth_model_get_info(const berth_model *model, berth_model_info *info)
{
    if (model == NULL || info == NULL || info->struct_size < sizeof *info) {
        return BERTH_ERR_ARGUMENT;
    }
    berth_model_info out = BERTH_MODEL_INFO_INIT;
    snprintf(out.name, sizeof out.name, "%s", model->name);
    if (model->format == CHECKPOINT_GGUF) {
        snprintf(out.format, sizeof out.format, "GGUF v%u", (unsigned)model->format_version);
    } else {
        snprintf(out.format, sizeof out.format, "safetensors");
    }
    out.bos_id = out.eos_id = -1;
    if (!model->text_only) {
        describe_weights(model, &out);
    }
    if (model->engine.text != NULL) {
        out.has_tokenizer = true;
        out.bos_id = text_bos(model->engine.text);
        out.eos_id = text_eos(model->engine.text);
        out.vocab = out.vocab > 0 ? out.vocab : text_vocab(model->engine.text);
    }
    *info = out;
    return BERTH_OK;
}

berth_status berth_model_get_plan(const berth_model *model, berth_plan *plan)
{
    if (model == NULL || plan == NULL || plan->struct_size < sizeof *plan) {
        return BERTH_ERR_ARGUMENT;
    }
    *plan = model->plan;
    return BERTH_OK;
}

berth_status berth_model_get_stats(const berth_model *model, berth_stats *stats)
{
    if (model == NULL || stats == NULL || stats->struct_size < sizeof *stats) {
        return BERTH_ERR_ARGUMENT;
    }
    berth_stats out = BERTH_STATS_INIT;
    out.prefill_tokens = model->tokens[BERTH_PHASE_PREFILL];
    out.decode_tokens = model->tokens[BERTH_PHASE_DECODE];
    out.prefill_ns = model->ns[BERTH_PHASE_PREFILL];
    out.decode_ns = model->ns[BERTH_PHASE_DECODE];
    out.macs = model->engine.forward.macs;
    out.kernel_calls = model->engine.forward.kernel_calls;
    out.open_ns = model->open_ns;
    out.open_read_bytes = model->open_read_bytes;
    out.slots_count = model->plan.slots_count;
    out.memory_locked = model->locked;
    out.major_faults = os_major_faults() - model->open_major_faults;
    out.direct_io = model->engine.files_count > 0 && model->engine.files[0].direct;
    if (model->engine.cache != NULL) {
        struct cache_stats cache;
        cache_get_stats(model->engine.cache, &cache);
        memcpy(out.hits, cache.hits, sizeof out.hits);
        memcpy(out.misses, cache.misses, sizeof out.misses);
        memcpy(out.read_bytes, cache.read_bytes, sizeof out.read_bytes);
        memcpy(out.reads, cache.reads, sizeof out.reads);
        memcpy(out.stall_ns, cache.stall_ns, sizeof out.stall_ns);
        out.evictions = cache.evictions;
        out.slots_used = cache.slots_used;
        out.pinned_slots = cache.pinned_slots;
        out.warm_experts = cache.warm_experts;
        out.warm_read_bytes = cache.warm_read_bytes;
        out.policy_ns = cache.policy_ns;
    }
    *stats = out;
    return BERTH_OK;
}
