/* SPDX-License-Identifier: MIT
 * Qwen3 MoE (arXiv 2505.09388): per-head q/k norm, no shared expert, dense layers possible between MoE layers. */
#include "family/rows.h"

const struct family family_qwen3_moe = {
    .name = "qwen3-moe",
    .hf_model_type = "qwen3_moe",
    .gguf_arch = "qwen3moe",
    .moe = true,
    .groups = {GROUP(common), GROUP(qkv_bias), GROUP(qk_norm_head), GROUP(dense_ffn), GROUP(experts)},
    .qk_norm = QK_NORM_HEAD,
    .gguf_norm_topk = true,
    .hf_sliding_needs_flag = true,
    .hf_rope_theta = 10000.0f,
    .hf_norm_eps = 1e-6f,
};
