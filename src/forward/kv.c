/* SPDX-License-Identifier: MIT */
#include "forward/kv.h"

#include "base/checked.h"

berth_status kv_layout(struct arena *arena, const struct hparams *hparams, uint32_t ctx, berth_kv_type type,
                       struct kv *out, berth_error *err)
{
    uint64_t element_bytes = type == BERTH_KV_F32 ? 4 : 2;
    *out = (struct kv){
        .row_bytes = hparams->head_dim * element_bytes, .kv_heads = hparams->kv_heads, .ctx = ctx, .type = type};
    out->head_bytes = out->row_bytes * ctx; /* 2^14 x 2^30 at most */
    uint64_t heads = (uint64_t)hparams->layers * hparams->kv_heads;
    out->k = arena_take(arena, heads, out->head_bytes, 0);
    out->v = arena_take(arena, heads, out->head_bytes, 0);
    return arena_check(arena, "KV cache", err);
}
