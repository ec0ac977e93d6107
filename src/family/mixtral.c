/* SPDX-License-Identifier: MIT
 * Mixtral (arXiv 2401.04088). GGUF files carry it as architecture "llama" with experts; its router always renormalises.
 */
#include "family/rows.h"

const struct family family_mixtral = {
    .name = "mixtral",
    .hf_model_type = "mixtral",
    .gguf_arch = "llama",
    .moe = true,
    .groups = {GROUP(common_permuted), GROUP(qkv_bias), GROUP(experts_w123)},
    .gguf_interleaved = true,
    .hf_expert_ffn_is_ffn = true,
    .hf_norm_topk = true,
    .gguf_norm_topk = true,
    .hf_rope_theta = 1000000.0f,
    .hf_norm_eps = 1e-5f,
};
