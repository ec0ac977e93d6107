/* SPDX-License-Identifier: MIT */
#include "forward/kv.h"

#include "base/checked.h"

enum dtype kv_dtype(berth_kv_type type)
{
    return type == BERTH_KV_F32 ? DTYPE_F32 : type == BERTH_KV_Q8_0 ? DTYPE_Q8_0 : DTYPE_F16;
}

berth_status kv_layout(struct arena *arena, const struct hparams *hparams, uint32_t ctx, berth_kv_type type,
                       struct kv *out, berth_error *err)
{
    *out = (struct kv){.kv_heads = hparams->kv_heads, .ctx = ctx, .type = type};
    if (!quant_row_bytes(kv_dtype(type), hparams->head_dim, &out->row_bytes)) {
        return error_set(err, BERTH_ERR_UNSUPPORTED,
                         "a q8_0 KV cache wants heads of a multiple of 32 dimensions, this model has %u; use f16",
                         (unsigned)hparams->head_dim);
    }
    out->head_bytes = out->row_bytes * ctx; /* 2^14 x 2^30 at most */
    uint64_t heads = (uint64_t)hparams->layers * hparams->kv_heads;
    out->k = arena_take(arena, heads, out->head_bytes, 0);
    out->v = arena_take(arena, heads, out->head_bytes, 0);
    return arena_check(arena, "KV cache", err);
}
