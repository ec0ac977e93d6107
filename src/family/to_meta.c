/* SPDX-License-Identifier: MIT
 * hparams as GGUF metadata, for convert. */
#include <stdio.h>

#include "family/family.h"

struct writer {
    const struct family *family;
    struct family_meta *out;
    uint32_t count;
};

static struct family_meta *next(struct writer *w, const char *suffix, enum meta_type type)
{
    struct family_meta *meta = &w->out[w->count++];
    *meta = (struct family_meta){.type = type};
    snprintf(meta->key, sizeof meta->key, "%s.%s", w->family->gguf_arch, suffix);
    return meta;
}

static void put_u32(struct writer *w, const char *suffix, uint32_t value)
{
    next(w, suffix, META_U32)->u32 = value;
}

static void put_f32(struct writer *w, const char *suffix, float value)
{
    next(w, suffix, META_F32)->f32 = value;
}

static void put_moe(struct writer *w, const struct hparams *h)
{
    put_u32(w, "expert_count", h->experts);
    put_u32(w, "expert_used_count", h->top_k);
    put_u32(w, "expert_feed_forward_length", h->expert_ffn);
    if (h->shared_ffn > 0) {
        put_u32(w, "expert_shared_feed_forward_length", h->shared_ffn);
    }
    if (h->norm_topk != w->family->gguf_norm_topk) {
        struct family_meta *meta = next(w, "", META_BOOL);
        snprintf(meta->key, sizeof meta->key, "%s", FAMILY_NORM_TOPK_KEY);
        meta->u32 = h->norm_topk;
    }
}

static void put_rope(struct writer *w, const struct hparams *h)
{
    put_f32(w, "rope.freq_base", h->rope_theta);
    put_u32(w, "rope.dimension_count", h->rotary_dim);
    if (h->rope_scaling == ROPE_SCALING_LINEAR || h->rope_scaling == ROPE_SCALING_YARN) {
        next(w, "rope.scaling.type", META_STRING)->text = h->rope_scaling == ROPE_SCALING_LINEAR ? "linear" : "yarn";
        put_f32(w, "rope.scaling.factor", h->rope_factor);
        put_u32(w, "rope.scaling.original_context_length", h->rope_original_ctx);
    }
    if (h->rope_scaling == ROPE_SCALING_YARN) {
        put_f32(w, "rope.scaling.yarn_beta_fast", h->rope_beta_fast);
        put_f32(w, "rope.scaling.yarn_beta_slow", h->rope_beta_slow);
    }
}

uint32_t family_to_meta(const struct family *family, const struct hparams *hparams,
                        struct family_meta out[FAMILY_META_MAX])
{
    struct writer w = {family, out, 0};
    put_u32(&w, "block_count", hparams->layers);
    put_u32(&w, "context_length", hparams->ctx_max);
    put_u32(&w, "embedding_length", hparams->hidden);
    put_u32(&w, "feed_forward_length", hparams->ffn > 0 ? hparams->ffn : hparams->expert_ffn);
    put_u32(&w, "attention.head_count", hparams->heads);
    put_u32(&w, "attention.head_count_kv", hparams->kv_heads);
    put_u32(&w, "attention.key_length", hparams->head_dim);
    put_u32(&w, "attention.value_length", hparams->head_dim);
    put_f32(&w, "attention.layer_norm_rms_epsilon", hparams->norm_eps);
    put_u32(&w, "vocab_size", hparams->vocab);
    if (hparams->clip_qkv > 0) {
        put_f32(&w, "attention.clamp_kqv", hparams->clip_qkv);
    }
    if (hparams->sliding_window > 0) {
        put_u32(&w, "attention.sliding_window", hparams->sliding_window);
    }
    put_rope(&w, hparams);
    if (family->moe) {
        put_moe(&w, hparams);
    }
    return w.count;
}
