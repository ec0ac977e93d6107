/* SPDX-License-Identifier: MIT
 * Qwen1.5 / Qwen2 MoE (arXiv 2407.10671): q/k/v biases, shared expert scaled by a sigmoid. */
#include "family/rows.h"

const struct family family_qwen2_moe = {
    .name = "qwen2-moe",
    .hf_model_type = "qwen2_moe",
    .gguf_arch = "qwen2moe",
    .moe = true,
    .groups = {GROUP(common), GROUP(qkv_bias), GROUP(dense_ffn), GROUP(experts), GROUP(shared_expert)},
    .hf_sliding_needs_flag = true,
    .hf_rope_theta = 10000.0f,
    .hf_norm_eps = 1e-6f,
};
