/* SPDX-License-Identifier: MIT
 * Llama 2 / 3 and models of the same layout (arXiv 2307.09288, 2407.21783). */
#include "family/rows.h"

const struct family family_llama = {
    .name = "llama",
    .hf_model_type = "llama",
    .gguf_arch = "llama",
    .groups = {GROUP(common_permuted), GROUP(qkv_bias), GROUP(dense_ffn)},
    .gguf_interleaved = true,
    .hf_rope_theta = 10000.0f,
    .hf_norm_eps = 1e-6f,
};
