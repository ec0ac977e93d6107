/* SPDX-License-Identifier: MIT
 *
 * Model families as data: one file each, holding its names (GGUF architecture, HF model_type), defaults, tensor names
 * and layer recipe. Adding a family is one file and one line in families.def. No code outside this room asks which
 * family it is: what differs is a field of `hparams` or a row here; new maths is a new block kind in forward/.
 */
#ifndef FAMILY_FAMILY_H
#define FAMILY_FAMILY_H

#include "base/error.h"
#include "model/checkpoint.h"

enum { LAYERS_MAX = 1024 };

enum rope_scaling { ROPE_SCALING_NONE = 0, ROPE_SCALING_LINEAR, ROPE_SCALING_LLAMA3, ROPE_SCALING_YARN };
enum qk_norm {
    QK_NORM_NONE = 0,
    QK_NORM_HEAD,
    QK_NORM_FULL
}; /* per head [head_dim], or over all heads [heads * head_dim] */

/* Everything the layouts and the forward pass need to know about a model's shape; filled from metadata, then checked.
 */
struct hparams {
    uint32_t layers, hidden, vocab, ctx_max;
    uint32_t heads, kv_heads, head_dim;
    uint32_t ffn; /* dense intermediate size */
    float norm_eps;
    float rope_theta;
    uint32_t rotary_dim; /* leading dims of a head that rotate; head_dim unless partial */
    bool rope_half;      /* pairs (i, i + rotary/2); false: (2i, 2i+1), as GGUF stores llama-type models */
    enum rope_scaling rope_scaling;
    float rope_factor, rope_low_freq, rope_high_freq, rope_beta_fast, rope_beta_slow,
        rope_attention_factor; /* attention factor 0: derived */
    uint32_t rope_original_ctx;
    enum qk_norm qk_norm;
    float clip_qkv;              /* 0: none */
    uint32_t sliding_window;     /* 0: full attention; else a key is visible when query - key < window */
    uint32_t sliding_from_layer; /* layers below this attend in full (max_window_layers); 0: all slide */
    bool tied_embeddings;
    uint32_t experts, top_k, expert_ffn; /* 0 experts: dense model */
    uint32_t shared_ffn;                 /* 0: no shared expert */
    bool shared_gate;                    /* shared expert scaled by sigmoid(router) */
    bool norm_topk;                      /* divide the selected probabilities by their sum */
    uint8_t layer_moe[LAYERS_MAX];       /* 1: MoE layer, 0: dense FFN */
    uint32_t moe_layers;
};

/* What a tensor is for. Order is file order of `convert`. */
enum role {
    ROLE_EMBED = 0,
    ROLE_OUT_NORM,
    ROLE_HEAD,
    ROLE_ROPE_FACTORS, /* GGUF rope_freqs.weight [rotary/2]: divides the frequencies */
    ROLE_ATTN_NORM,    /* first per-layer role */
    ROLE_Q,
    ROLE_Q_BIAS,
    ROLE_K,
    ROLE_K_BIAS,
    ROLE_V,
    ROLE_V_BIAS,
    ROLE_Q_NORM,
    ROLE_K_NORM,
    ROLE_O,
    ROLE_FFN_NORM,
    ROLE_GATE,
    ROLE_UP,
    ROLE_DOWN,
    ROLE_ROUTER,
    ROLE_SHARED_ROUTER,
    ROLE_SHARED_GATE,
    ROLE_SHARED_UP,
    ROLE_SHARED_DOWN,
    ROLE_EXPERT_GATE, /* first per-expert role */
    ROLE_EXPERT_UP,
    ROLE_EXPERT_DOWN,
    ROLE_COUNT
};

/* Sizes a dimension can name. */
enum dim {
    DIM_NONE = 0,
    DIM_HIDDEN,
    DIM_VOCAB,
    DIM_HEAD_DIM,
    DIM_Q,  /* heads * head_dim */
    DIM_KV, /* kv_heads * head_dim */
    DIM_FFN,
    DIM_EXPERTS,
    DIM_EXPERT_FFN,
    DIM_SHARED_FFN,
    DIM_ONE,
    DIM_ROTARY_HALF
};

enum tensor_flags {
    TENSOR_OPTIONAL = 1,  /* may be absent (tied head, biases) */
    TENSOR_VECTOR = 2,    /* norm or bias: held and converted as F32 */
    TENSOR_ROUTER = 4,    /* convert keeps it F32 */
    TENSOR_PERMUTE_Q = 8, /* GGUF stores rows in the interleaved RoPE order: HF row (h, half, i) -> (h, i, half); heads
                             or kv_heads by role */
    TENSOR_MOE_ONLY = 16,
    TENSOR_DENSE_ONLY = 32
};

struct tensor_row {
    enum role role;
    const char *hf;   /* "model.layers.%u.self_attn.q_proj.weight"; experts: second %u is the expert */
    const char *gguf; /* "blk.%u.attn_q.weight"; experts: one 3-D tensor [experts][rows][k] */
    enum dim dims[2]; /* [rows][k]; vectors: dims[0] only */
    unsigned flags;
};

struct family {
    const char *name;          /* "qwen3-moe" */
    const char *hf_model_type; /* "qwen3_moe" */
    const char *gguf_arch;     /* "qwen3moe" */
    const struct tensor_row *tensors;
    uint32_t tensors_count;
    struct family_defaults {
        float norm_eps, rope_theta;
        enum qk_norm qk_norm;
        bool norm_topk, norm_topk_fixed;    /* fixed: the key is ignored (mixtral) */
        bool shared_gate, gguf_interleaved; /* GGUF holds interleaved RoPE order */
        bool hf_expert_ffn_is_intermediate; /* moe width is intermediate_size (olmoe, mixtral) */
        uint32_t experts, top_k;            /* when the key is absent; 0: required or dense */
        uint32_t ctx_max, kv_heads_is_heads;
        bool tied;
    } defaults;
};

extern const struct family *const families[];
extern const uint32_t families_count;

/* Finds the family and reads and checks its hparams; the error names key or tensor, got and wanted. */
berth_status family_read(const struct checkpoint *checkpoint, const struct family **family, struct hparams *out,
                         berth_error *err);

/* The tensor of a role, checked against the expected shape. BERTH_OK and *out NULL for an absent optional one. For
 * expert roles of safetensors `expert` picks the tensor; for GGUF the whole 3-D tensor is returned. `layer` is ignored
 * for global roles. */
berth_status family_tensor(const struct family *family, const struct checkpoint *checkpoint,
                           const struct hparams *hparams, enum role role, uint32_t layer, uint32_t expert,
                           const struct tensor **out, berth_error *err);
/* Row of a role; NULL: the family has none. */
const struct tensor_row *family_row(const struct family *family, enum role role);
uint64_t family_dim(const struct hparams *hparams, enum dim dim);

/* hparams back to GGUF metadata, for convert: one row per key of this family, in a fixed order. Keys that keep their
 * default are left out. */
struct family_meta {
    char key[96];
    enum meta_type type; /* META_U32, META_F32, META_BOOL, META_STRING */
    uint32_t u32;
    float f32;
    const char *text;
};
enum { FAMILY_META_MAX = 48 };
uint32_t family_to_meta(const struct family *family, const struct hparams *hparams,
                        struct family_meta out[FAMILY_META_MAX]);

#endif
