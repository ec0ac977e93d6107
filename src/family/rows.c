/* SPDX-License-Identifier: MIT
 * Names: Hugging Face transformers' published checkpoints, and the GGUF specification's standard tensor names. */
#include "family/rows.h"

#define LAYER "model.layers.%u."

#define COMMON_GLOBAL                                                                                                 \
    {ROLE_EMBED, "model.embed_tokens.weight", "token_embd.weight", {DIM_VOCAB, DIM_HIDDEN}, 0},                       \
        {ROLE_OUT_NORM, "model.norm.weight", "output_norm.weight", {DIM_HIDDEN, DIM_NONE}, TENSOR_VECTOR},            \
        {ROLE_HEAD, "lm_head.weight", "output.weight", {DIM_VOCAB, DIM_HIDDEN}, TENSOR_OPTIONAL},                     \
        {ROLE_ROPE_FACTORS, NULL, "rope_freqs.weight", {DIM_ROTARY_HALF, DIM_NONE}, TENSOR_VECTOR | TENSOR_OPTIONAL}, \
        {ROLE_ATTN_NORM,                                                                                              \
         LAYER "input_layernorm.weight",                                                                              \
         "blk.%u.attn_norm.weight",                                                                                   \
         {DIM_HIDDEN, DIM_NONE},                                                                                      \
         TENSOR_VECTOR},                                                                                              \
        {ROLE_FFN_NORM,                                                                                               \
         LAYER "post_attention_layernorm.weight",                                                                     \
         "blk.%u.ffn_norm.weight",                                                                                    \
         {DIM_HIDDEN, DIM_NONE},                                                                                      \
         TENSOR_VECTOR},                                                                                              \
        {ROLE_V, LAYER "self_attn.v_proj.weight", "blk.%u.attn_v.weight", {DIM_KV, DIM_HIDDEN}, 0},                   \
    {                                                                                                                 \
        ROLE_O, LAYER "self_attn.o_proj.weight", "blk.%u.attn_output.weight", {DIM_HIDDEN, DIM_Q}, 0                  \
    }

#define QK_ROWS(flags)                                                                                 \
    {ROLE_Q, LAYER "self_attn.q_proj.weight", "blk.%u.attn_q.weight", {DIM_Q, DIM_HIDDEN}, (flags)},   \
    {                                                                                                  \
        ROLE_K, LAYER "self_attn.k_proj.weight", "blk.%u.attn_k.weight", {DIM_KV, DIM_HIDDEN}, (flags) \
    }

const struct tensor_row rows_common[rows_common_count] = {COMMON_GLOBAL, QK_ROWS(0)};
const struct tensor_row rows_common_permuted[rows_common_permuted_count] = {COMMON_GLOBAL, QK_ROWS(TENSOR_PERMUTE)};

const struct tensor_row rows_qkv_bias[rows_qkv_bias_count] = {
    {ROLE_Q_BIAS,
     LAYER "self_attn.q_proj.bias",
     "blk.%u.attn_q.bias",
     {DIM_Q, DIM_NONE},
     TENSOR_VECTOR | TENSOR_OPTIONAL},
    {ROLE_K_BIAS,
     LAYER "self_attn.k_proj.bias",
     "blk.%u.attn_k.bias",
     {DIM_KV, DIM_NONE},
     TENSOR_VECTOR | TENSOR_OPTIONAL},
    {ROLE_V_BIAS,
     LAYER "self_attn.v_proj.bias",
     "blk.%u.attn_v.bias",
     {DIM_KV, DIM_NONE},
     TENSOR_VECTOR | TENSOR_OPTIONAL},
    {ROLE_O_BIAS,
     LAYER "self_attn.o_proj.bias",
     "blk.%u.attn_output.bias",
     {DIM_HIDDEN, DIM_NONE},
     TENSOR_VECTOR | TENSOR_OPTIONAL},
};

const struct tensor_row rows_qk_norm_head[rows_qk_norm_head_count] = {
    {ROLE_Q_NORM,
     LAYER "self_attn.q_norm.weight",
     "blk.%u.attn_q_norm.weight",
     {DIM_HEAD_DIM, DIM_NONE},
     TENSOR_VECTOR},
    {ROLE_K_NORM,
     LAYER "self_attn.k_norm.weight",
     "blk.%u.attn_k_norm.weight",
     {DIM_HEAD_DIM, DIM_NONE},
     TENSOR_VECTOR},
};

const struct tensor_row rows_qk_norm_full[rows_qk_norm_full_count] = {
    {ROLE_Q_NORM, LAYER "self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight", {DIM_Q, DIM_NONE}, TENSOR_VECTOR},
    {ROLE_K_NORM, LAYER "self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight", {DIM_KV, DIM_NONE}, TENSOR_VECTOR},
};

const struct tensor_row rows_dense_ffn[rows_dense_ffn_count] = {
    {ROLE_GATE, LAYER "mlp.gate_proj.weight", "blk.%u.ffn_gate.weight", {DIM_FFN, DIM_HIDDEN}, TENSOR_DENSE_ONLY},
    {ROLE_UP, LAYER "mlp.up_proj.weight", "blk.%u.ffn_up.weight", {DIM_FFN, DIM_HIDDEN}, TENSOR_DENSE_ONLY},
    {ROLE_DOWN, LAYER "mlp.down_proj.weight", "blk.%u.ffn_down.weight", {DIM_HIDDEN, DIM_FFN}, TENSOR_DENSE_ONLY},
};

#define EXPERT_ROWS(router, prefix, gate, up, down)                                                                    \
    {ROLE_ROUTER,                                                                                                      \
     LAYER router,                                                                                                     \
     "blk.%u.ffn_gate_inp.weight",                                                                                     \
     {DIM_EXPERTS, DIM_HIDDEN},                                                                                        \
     TENSOR_ROUTER | TENSOR_MOE_ONLY},                                                                                 \
        {ROLE_EXPERT_GATE,                                                                                             \
         LAYER prefix gate,                                                                                            \
         "blk.%u.ffn_gate_exps.weight",                                                                                \
         {DIM_EXPERT_FFN, DIM_HIDDEN},                                                                                 \
         TENSOR_MOE_ONLY},                                                                                             \
        {ROLE_EXPERT_UP, LAYER prefix up, "blk.%u.ffn_up_exps.weight", {DIM_EXPERT_FFN, DIM_HIDDEN}, TENSOR_MOE_ONLY}, \
    {                                                                                                                  \
        ROLE_EXPERT_DOWN, LAYER prefix down, "blk.%u.ffn_down_exps.weight", {DIM_HIDDEN, DIM_EXPERT_FFN},              \
            TENSOR_MOE_ONLY                                                                                            \
    }

const struct tensor_row rows_experts[rows_experts_count] = {
    EXPERT_ROWS("mlp.gate.weight", "mlp.experts.%u.", "gate_proj.weight", "up_proj.weight", "down_proj.weight")};

const struct tensor_row rows_experts_w123[rows_experts_w123_count] = {
    EXPERT_ROWS("block_sparse_moe.gate.weight", "block_sparse_moe.experts.%u.", "w1.weight", "w3.weight", "w2.weight")};

const struct tensor_row rows_shared_expert[rows_shared_expert_count] = {
    {ROLE_SHARED_ROUTER,
     LAYER "mlp.shared_expert_gate.weight",
     "blk.%u.ffn_gate_inp_shexp.weight",
     {DIM_ONE, DIM_HIDDEN},
     TENSOR_ROUTER | TENSOR_MOE_ONLY},
    {ROLE_SHARED_GATE,
     LAYER "mlp.shared_expert.gate_proj.weight",
     "blk.%u.ffn_gate_shexp.weight",
     {DIM_SHARED_FFN, DIM_HIDDEN},
     TENSOR_MOE_ONLY},
    {ROLE_SHARED_UP,
     LAYER "mlp.shared_expert.up_proj.weight",
     "blk.%u.ffn_up_shexp.weight",
     {DIM_SHARED_FFN, DIM_HIDDEN},
     TENSOR_MOE_ONLY},
    {ROLE_SHARED_DOWN,
     LAYER "mlp.shared_expert.down_proj.weight",
     "blk.%u.ffn_down_shexp.weight",
     {DIM_HIDDEN, DIM_SHARED_FFN},
     TENSOR_MOE_ONLY},
};
