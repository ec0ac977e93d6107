/* SPDX-License-Identifier: MIT
 *
 * The shape of a model: what each layer keeps for a sequence and how many weights it has, read from config.json or from
 * GGUF metadata alone. Every total of every engine is a sum over it. Families are rows of data (shapes.c), known here
 * whether or not this version can run them; a configuration that lists its layers mostly describes itself.
 */
#ifndef FAMILY_SHAPE_H
#define FAMILY_SHAPE_H

#include "memory/arena.h"
#include "model/meta.h"

enum shape_cache {
    SHAPE_NO_CACHE, /* feed-forward, or state only */
    SHAPE_FULL,     /* every position */
    SHAPE_SLIDING,  /* the last `window` positions */
    SHAPE_CHUNKED,  /* positions since the last multiple of `window` */
    SHAPE_LATENT    /* every position, one latent vector instead of keys and values */
};

enum shape_state {
    SHAPE_NO_STATE,
    SHAPE_MAMBA,     /* convolution and state of a selective state space */
    SHAPE_DELTA,     /* gated delta net */
    SHAPE_KDA,       /* delta attention with a gate per channel (Kimi) */
    SHAPE_LIGHTNING, /* linear attention without convolution (MiniMax) */
    SHAPE_CONV,      /* short convolution alone */
    SHAPE_RWKV,
    SHAPE_COMPRESSOR /* positions waiting to be compressed (DeepSeek-V4) */
};

struct shape_layer {
    enum shape_cache cache;
    enum shape_state state;
    uint32_t k_elems, v_elems;         /* a position, all heads */
    uint32_t window;                   /* positions; SLIDING, CHUNKED */
    uint32_t owner;                    /* the layer whose cache this one uses: itself, or an earlier one */
    uint32_t comp_elems, comp_ratio;   /* beside the cache: one vector for every comp_ratio positions */
    uint32_t index_elems, index_ratio; /* keys of a sparse attention's indexer, one for every index_ratio positions */
    uint64_t conv_elems, state_elems;  /* recurrent state of a sequence */
    uint32_t state_heads, state_dim;   /* KDA */
    uint32_t full_k_elems, full_v_elems, latent_v_elems; /* LATENT: decompressed, and the value half some builds keep */
    uint32_t heads, q_elems;                             /* queries of a position */
    uint32_t ffn;                                        /* width of what is active: dense, or top-k of experts */
    bool is_moe;
    bool is_hashed;                                       /* experts by token: the router has no correction */
    uint64_t matrix_params, vector_params, expert_params; /* without routed experts; norms and biases; routed experts */
    uint64_t index_params;                                /* the indexer of a sparse attention */
};

/* The numbers a shape is made of, as the file gives them; 0: not there. */
enum shape_number {
    SHAPE_LAYERS,
    SHAPE_HIDDEN,
    SHAPE_VOCAB,
    SHAPE_CTX,
    SHAPE_HEADS,
    SHAPE_KV_HEADS,
    SHAPE_HEAD_DIM,
    SHAPE_V_DIM,
    SHAPE_SLIDING_HEADS,
    SHAPE_SLIDING_KV_HEADS,
    SHAPE_SLIDING_DIM,
    SHAPE_SLIDING_V_DIM,
    SHAPE_GLOBAL_KV_HEADS,
    SHAPE_GLOBAL_DIM,
    SHAPE_WINDOW,
    SHAPE_CHUNK,
    SHAPE_SHARED_LAYERS,
    SHAPE_MTP,
    SHAPE_Q_RANK,
    SHAPE_KV_RANK,
    SHAPE_NOPE_DIM,
    SHAPE_ROPE_DIM,
    SHAPE_MLA_K,
    SHAPE_MLA_V,
    SHAPE_INDEX_HEADS,
    SHAPE_INDEX_DIM,
    SHAPE_EXPERTS,
    SHAPE_TOP_K,
    SHAPE_EXPERT_FFN,
    SHAPE_EXPERT_HIDDEN,
    SHAPE_SHARED_EXPERTS,
    SHAPE_SHARED_FFN,
    SHAPE_DENSE_LEAD,
    SHAPE_MOE_STEP,
    SHAPE_MOE_PERIOD,
    SHAPE_MOE_OFFSET,
    SHAPE_FFN,
    SHAPE_DENSE_FFN,
    SHAPE_INTERVAL, /* every so many layers there is one of full attention */
    SHAPE_ATTN_PERIOD,
    SHAPE_ATTN_OFFSET,
    SHAPE_GROUP,
    SHAPE_SSM_INNER,
    SHAPE_SSM_STATE,
    SHAPE_SSM_CONV,
    SHAPE_SSM_GROUPS,
    SHAPE_SSM_HEADS,
    SHAPE_SSM_HEAD_DIM,
    SHAPE_SSM_EXPAND,
    SHAPE_LINEAR_V_HEADS,
    SHAPE_LINEAR_K_HEADS,
    SHAPE_LINEAR_V_DIM,
    SHAPE_LINEAR_K_DIM,
    SHAPE_LINEAR_CONV,
    SHAPE_KDA_HEADS,
    SHAPE_KDA_DIM,
    SHAPE_CONV_CACHE,
    SHAPE_RWKV_DIM,
    SHAPE_TOKEN_SHIFT,
    SHAPE_DT_RANK,
    SHAPE_PLE_DIM, /* embeddings that every layer looks up for itself: width a layer, rows */
    SHAPE_PLE_VOCAB,
    SHAPE_LAUREL_RANK,
    SHAPE_ALTUP,      /* copies of the residual stream (Gemma 3n) */
    SHAPE_HYPER,      /* residual streams of hyper-connections */
    SHAPE_OUT_GROUPS, /* DeepSeek-V4: the output matrix in groups, and its rank */
    SHAPE_OUT_RANK,
    SHAPE_HASH_LAYERS,  /* leading layers whose experts are chosen by token, without a router's correction */
    SHAPE_INDEX_POOL,   /* positions that share one key of the indexer */
    SHAPE_FFN_MULTIPLE, /* LFM2: feed-forward widths go up to a multiple of this */
    SHAPE_INDEX_TOP_K,  /* keys that an indexer chooses */
    SHAPE_NUMBERS
};

struct shape_row;

struct shape {
    struct shape_layer *layers; /* [count + mtp_count]: blocks that predict further tokens come last */
    uint32_t count, mtp_count;
    uint32_t number[SHAPE_NUMBERS];
    char defaults_of[64];           /* the model_type whose defaults hold; empty: none */
    bool is_default[SHAPE_NUMBERS]; /* not in the file: what the class of this model_type says */
    bool is_known;                  /* false: something here is not understood, so every sum is a lower bound */
    char problem[160];              /* what */
    char lack[256], lack_key[64];   /* a number that caches do without and totals do not; empty: all are there */
    char family[64];                /* model_type or architecture, as the file has it */
    const struct shape_row *row;    /* NULL: no such family */
    bool tied;
    bool has_params; /* parameters are counted for this family */
    uint64_t embed_params, head_params, global_matrix_params, global_vector_params;
};

enum { SHAPE_LAYERS_MAX = 4096 };

/* The layers live in the arena. BERTH_ERR_FORMAT names key, value and what is wanted when a number is missing, has a
 * wrong type or no sense. An unknown family is not an error: is_known is false, and only layers that the file itself
 * describes are there. `path` is for errors and may be NULL. */
berth_status shape_read_json(struct str config_json, const char *path, struct arena *arena, struct shape *out,
                             berth_error *err);
berth_status shape_read_gguf(const struct meta *meta, const char *path, struct arena *arena, struct shape *out,
                             berth_error *err);

/* BERTH_ERR_FORMAT names the first number that a total needs and the file does not have. */
berth_status shape_check_whole(const struct shape *shape, const char *path, berth_error *err);

/* What a configuration of this model_type means by leaving a number out: the published default of its class
 * (shape_defaults.c). false: there is none. */
bool shape_default(struct str model_type, enum shape_number number, uint32_t *value);
bool shape_has_defaults(struct str model_type);
const char *shape_number_key(enum shape_number number);
/* The name that the class gives a number it has a default for. */
const char *shape_default_key(struct str model_type, enum shape_number number);

/* Parameters as model cards count them, without blocks that predict further tokens and without a sparse attention's
 * indexer (which is apart): all, those of routed experts, and norms and biases (what no quantiser shrinks). Only with
 * has_params; false: they do not fit in 64 bits. */
struct shape_params {
    uint64_t total, experts, vectors, index;
};
bool shape_count_params(const struct shape *shape, struct shape_params *out);
/* MLX: matrices in `bits` bits with a float16 scale and bias a group, the rest in two bytes. */
bool shape_mlx_bytes(const struct shape *shape, uint32_t bits, uint32_t group, uint64_t *bytes);

/* What the weights of a tensor are for, by its name. */
enum weight_class {
    WEIGHT_RESIDENT,   /* read for every token */
    WEIGHT_EXPERT,     /* routed experts: may be streamed */
    WEIGHT_LOOKUP,     /* tables of which a token reads a row: embeddings, n-grams */
    WEIGHT_NOT_LOADED, /* blocks for further tokens, vision, audio, inverse frequencies */
    WEIGHT_CLASSES
};
/* `layers` is the number of main layers (UINT32_MAX: unknown). A tied embedding is the caller's to tell apart. */
enum weight_class weight_class_of(struct str name, uint32_t layers);
/* The same for one name after the other of a checkpoint, most of which differ from earlier ones in numbers alone. */
enum { WEIGHT_MEMO_ROWS = 16, WEIGHT_MEMO_NAME = 96, WEIGHT_MEMO_NUMBERS = 8 };
struct weight_memo { /* zero at first */
    struct {
        char name[WEIGHT_MEMO_NAME]; /* every number written as one zero */
        uint32_t bytes;              /* 0: nothing here yet */
        enum weight_class class;     /* of a main layer */
        uint32_t block;              /* which number is that of the layer; WEIGHT_MEMO_NUMBERS: none */
    } rows[WEIGHT_MEMO_ROWS];
};
enum weight_class weight_class_next(struct weight_memo *memo, struct str name, uint32_t layers);
const char *weight_class_name(enum weight_class class);

const char *shape_cache_name(enum shape_cache cache);
const char *shape_state_name(enum shape_state state);

#endif
