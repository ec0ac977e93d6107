/* SPDX-License-Identifier: MIT
 * Qwen3 dense (arXiv 2505.09388): per-head q/k norm. */
#include "family/rows.h"

const struct family family_qwen3 = {
    .name = "qwen3",
    .hf_model_type = "qwen3",
    .gguf_arch = "qwen3",
    .groups = {GROUP(common), GROUP(qkv_bias), GROUP(qk_norm_head), GROUP(dense_ffn)},
    .qk_norm = QK_NORM_HEAD,
    .hf_sliding_needs_flag = true,
    .hf_rope_theta = 10000.0f,
    .hf_norm_eps = 1e-6f,
};
