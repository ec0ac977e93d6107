/* SPDX-License-Identifier: MIT
 * OLMoE (arXiv 2409.02060): q/k norm over all heads at once, optional clipping of q, k and v. */
#include "family/rows.h"

const struct family family_olmoe = {
    .name = "olmoe",
    .hf_model_type = "olmoe",
    .gguf_arch = "olmoe",
    .moe = true,
    .groups = {GROUP(common), GROUP(qkv_bias), GROUP(qk_norm_full), GROUP(experts)},
    .qk_norm = QK_NORM_FULL,
    .gguf_plain_experts = true,
    .hf_expert_ffn_is_ffn = true,
    .hf_rope_theta = 10000.0f,
    .hf_norm_eps = 1e-5f,
};
