/* SPDX-License-Identifier: MIT
 *
 * Model families as data: one file each, holding its names (GGUF architecture, HF model_type), defaults and tensor
 * names. Adding a family is one file and one line in families.c. No code outside this room asks which family it is:
 * what differs is a field of `hparams` or a row here; new maths is a new block kind in forward/.
 */
#ifndef FAMILY_FAMILY_H
#define FAMILY_FAMILY_H

#include "base/error.h"
#include "model/checkpoint.h"

enum { LAYERS_MAX = 1024 };

enum rope_scaling { ROPE_SCALING_NONE = 0, ROPE_SCALING_LINEAR, ROPE_SCALING_LLAMA3, ROPE_SCALING_YARN };
/* Per head [head_dim], or over all heads at once [heads * head_dim]. */
enum qk_norm { QK_NORM_NONE = 0, QK_NORM_HEAD, QK_NORM_FULL };

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
    float rope_factor, rope_low_freq, rope_high_freq; /* llama3; factor also linear and yarn */
    float rope_beta_fast, rope_beta_slow;             /* yarn */
    float rope_attention_factor;                      /* yarn: explicit; 0: derived from factor and mscales */
    float rope_mscale, rope_mscale_all_dim;           /* yarn: 0: not given */
    float rope_attention_multiplier;                  /* yarn in GGUF: on top; 1 otherwise */
    uint32_t rope_original_ctx;
    enum qk_norm qk_norm;
    float clip_qkv;          /* 0: none */
    uint32_t sliding_window; /* on sliding layers a key is visible when query - key < window; 0: none slide */
    bool tied_embeddings;
    uint32_t experts, top_k, expert_ffn; /* 0 experts: dense model */
    uint32_t shared_ffn;                 /* 0: no shared expert */
    bool norm_topk;                      /* divide the selected probabilities by their sum */
    uint8_t layer_moe[LAYERS_MAX];       /* 1: MoE layer, 0: dense FFN */
    uint8_t layer_slides[LAYERS_MAX];    /* 1: sliding window */
    uint32_t moe_layers;
};

/* What a tensor is for. Order is the file order of `convert`. */
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
    ROLE_O_BIAS,
    ROLE_FFN_NORM,
    ROLE_GATE,
    ROLE_UP,
    ROLE_DOWN,
    ROLE_ROUTER,
    ROLE_SHARED_ROUTER, /* [1][hidden]: its sigmoid scales the shared expert */
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
    DIM_ONE,
    DIM_HIDDEN,
    DIM_VOCAB,
    DIM_HEAD_DIM,
    DIM_Q,  /* heads * head_dim */
    DIM_KV, /* kv_heads * head_dim */
    DIM_FFN,
    DIM_EXPERTS,
    DIM_EXPERT_FFN,
    DIM_SHARED_FFN,
    DIM_ROTARY_HALF
};

enum tensor_flags {
    TENSOR_OPTIONAL = 1,  /* may be absent (tied head, biases) */
    TENSOR_VECTOR = 2,    /* norm or bias: dims[0] only; held and converted as F32 */
    TENSOR_ROUTER = 4,    /* convert keeps it F32 */
    TENSOR_PERMUTE = 8,   /* GGUF stores the rows of each head interleaved: HF row (half, i) of a head -> 2i + half */
    TENSOR_MOE_ONLY = 16, /* on MoE layers only */
    TENSOR_DENSE_ONLY = 32
};

struct tensor_row {
    enum role role;
    const char *hf; /* "model.layers.%u.self_attn.q_proj.weight"; experts: a second %u is the expert. NULL: not there */
    const char *gguf; /* "blk.%u.attn_q.weight"; experts: one 3-D tensor [experts][rows][k] */
    enum dim dims[2]; /* [rows][k] */
    unsigned flags;
};

/* Rows that several families share; a family lists the groups it is made of. */
struct tensor_group {
    const struct tensor_row *rows;
    uint32_t count;
};
enum { FAMILY_GROUPS_MAX = 8 };

struct family {
    const char *name;                              /* "qwen3-moe" */
    const char *hf_model_type;                     /* "qwen3_moe" */
    const char *gguf_arch;                         /* "qwen3moe" */
    bool moe;                                      /* tells apart families that share a gguf_arch: has experts */
    struct tensor_group groups[FAMILY_GROUPS_MAX]; /* ends at count 0 */
    enum qk_norm qk_norm;
    bool gguf_interleaved;             /* GGUF holds the interleaved RoPE order */
    bool hf_expert_ffn_is_ffn;         /* the expert width is intermediate_size */
    bool hf_norm_topk, gguf_norm_topk; /* when the key is absent */
    bool hf_sliding_needs_flag;        /* sliding_window counts only with use_sliding_window true */
    bool gguf_plain_experts; /* "<name>.scale" of experts is stored but not applied (llama.cpp's graph, measured) */
    bool hf_tied;            /* tie_word_embeddings when absent */
    float hf_rope_theta;     /* rope_theta when absent */
    float hf_norm_eps;
};

extern const struct family *const families[];
extern const uint32_t families_count;

/* Finds the family and reads and checks its hparams; the error names key or tensor, got and wanted. Tensors that the
 * family does not know are refused (BERTH_ERR_UNSUPPORTED): ignoring a weight would give wrong answers in silence. */
berth_status family_read(const struct checkpoint *checkpoint, const struct family **family, struct hparams *out,
                         berth_error *err);

/* The tensor of a role, checked against the expected shape. BERTH_OK and *out NULL for an absent optional one or a role
 * that this layer does not have. Expert roles: safetensors: `expert` picks the tensor; GGUF: the whole 3-D tensor.
 * `layer` is ignored for global roles. */
berth_status family_tensor(const struct family *family, const struct checkpoint *checkpoint,
                           const struct hparams *hparams, enum role role, uint32_t layer, uint32_t expert,
                           const struct tensor **out, berth_error *err);
/* Experts of a layer in one tensor [experts][rows][k]. */
static inline bool tensor_is_stacked(const struct tensor *tensor)
{
    return tensor->dims_count == 3;
}
/* GGUF files may hold "<name>.scale" beside "<name>.weight": float32 [1], or [experts] for expert roles, that the
 * product with the matrix is multiplied by. BERTH_OK and *out NULL when there is none. */
berth_status family_scale(const struct family *family, const struct checkpoint *checkpoint,
                          const struct hparams *hparams, enum role role, uint32_t layer, const struct tensor **out,
                          berth_error *err);
/* The other way round, for walks over a whole directory in its order: which expert's matrix of which layer a tensor is.
 * A release has tens of thousands of them, and looking each up by its name is mostly waiting for memory. */
struct family_experts {
    const struct hparams *hparams;
    struct {
        struct str before, between, after; /* the numbers of layer and expert */
        uint64_t rows, k;
    } parts[3]; /* from ROLE_EXPERT_GATE */
};
struct family_expert {
    uint32_t part, layer, expert; /* the role is ROLE_EXPERT_GATE + part */
};
/* False: this family has no experts, or this format keeps those of a layer together. */
bool family_experts_begin(const struct family *family, const struct checkpoint *checkpoint,
                          const struct hparams *hparams, struct family_experts *out);
/* False: it is none, by its name or its shape. Two tensors of one directory never are the same. */
bool family_expert_of(const struct family_experts *experts, const struct tensor *tensor, struct family_expert *out);
/* The name a role's tensor has in this format; false (and "") when it has none. */
bool family_tensor_name(const struct family *family, enum checkpoint_format format, enum role role, uint32_t layer,
                        uint32_t expert, char buffer[TENSOR_NAME_MAX]);
/* Row of a role; NULL: the family has none. */
const struct tensor_row *family_row(const struct family *family, enum role role);
uint64_t family_dim(const struct hparams *hparams, enum dim dim);
static inline bool role_is_layer(enum role role)
{
    return role >= ROLE_ATTN_NORM;
}
static inline bool role_is_expert(enum role role)
{
    return role >= ROLE_EXPERT_GATE && role < ROLE_COUNT;
}

/* hparams back to GGUF metadata, for convert: the architecture's keys in a fixed order. */
/* llama.cpp's graphs fix whether the router renormalises; its expert_weights_norm says nothing for these architectures.
 * Where a model differs from its architecture's rule, our own key says so. */
#define FAMILY_NORM_TOPK_KEY "berth.norm_topk"
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

/* Inverse frequencies [rotary/2] of RoPE in float32 with its scaling applied (linear, llama3, yarn), from hparams
 * alone. `power` and `logarithm` are the caller's exact functions (family holds no maths library). ROLE_ROPE_FACTORS,
 * when present, divides them afterwards. */
struct rope_maths {
    double (*power)(double base, double exponent);
    double (*logarithm)(double x);
};
void family_rope_frequencies(const struct hparams *hparams, const struct rope_maths *maths, float *out);
/* What cos and sin are multiplied by: YaRN's magnitude correction; 1 without YaRN. */
float family_rope_attention(const struct hparams *hparams, const struct rope_maths *maths);
/* llama3 and the like as division factors [rotary/2], as GGUF's rope_freqs.weight holds them. */
void family_rope_factors(const struct hparams *hparams, const struct rope_maths *maths, float *out);

#endif
