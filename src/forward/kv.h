/* SPDX-License-Identifier: MIT
 * KV cache: per layer, per KV head, one row of head_dim elements a position, so that attention of one head walks memory
 * in order. */
#ifndef FORWARD_KV_H
#define FORWARD_KV_H

#include "family/family.h"
#include "memory/arena.h"
#include "quant/quant.h"

struct kv {
    unsigned char *k, *v; /* [layers][kv_heads][ctx][head_dim] of `type` */
    uint64_t row_bytes;   /* one position of one head */
    uint64_t head_bytes;  /* ctx rows */
    uint32_t kv_heads, ctx;
    berth_kv_type type;
};

/* The stored format of one row. */
enum dtype kv_dtype(berth_kv_type type);

/* BERTH_ERR_UNSUPPORTED: the type's blocks do not divide this model's heads. */
berth_status kv_layout(struct arena *arena, const struct hparams *hparams, uint32_t ctx, berth_kv_type type,
                       struct kv *out, berth_error *err);
static inline void *kv_head(const struct kv *kv, unsigned char *base, uint32_t layer, uint32_t head)
{
    return base + ((uint64_t)layer * kv->kv_heads + head) * kv->head_bytes;
}

#endif
