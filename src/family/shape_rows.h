/* SPDX-License-Identifier: MIT
 * Inside the shape readers: rows of families and the reader's own state. */
#ifndef FAMILY_SHAPE_ROWS_H
#define FAMILY_SHAPE_ROWS_H

#include "family/shape.h"
#include "family/shape_source.h"

/* Which layers are what, when the configuration has no list of them. */
enum shape_pattern {
    PATTERN_FULL,
    PATTERN_WINDOW,      /* one of full attention every `period` layers, the others windowed */
    PATTERN_STATE,       /* one of full attention every `period` layers, the others recurrent */
    PATTERN_STATE_HEADS, /* recurrent where a layer has no key-value heads (GGUF); the configuration has a list */
    PATTERN_LETTERS,     /* the same, and a layer with a feed-forward width is that alone */
    PATTERN_JAMBA,       /* attn_layer_period and attn_layer_offset */
    PATTERN_BOTH,        /* attention and state in every layer */
    PATTERN_ALL_STATE,   /* no attention */
    PATTERN_GROUPS,      /* the last of every layer_group_size has full attention, and what is left over */
    PATTERN_COMPRESSED
};

enum shape_flags {
    SHAPE_CHUNKS = 1,           /* windows are chunks */
    SHAPE_FULL_FIRST = 2,       /* the full layer is the first of a period */
    SHAPE_NO_WINDOW = 4,        /* the window in the file is not used by engines */
    SHAPE_IS_LATENT = 8,        /* attention keeps latents where the file gives their rank */
    SHAPE_HAS_INDEX = 16,       /* sparse attention with its own keys */
    SHAPE_NO_CACHE_AT_ALL = 32, /* encoders and the like */
    /* For counting parameters: */
    SHAPE_COUNTED = 64,
    SHAPE_QKV_BIAS = 128,
    SHAPE_O_BIAS = 256,
    SHAPE_NORM_HEAD = 512,   /* q and k norm, one for all heads */
    SHAPE_NORM_FULL = 1024,  /* q and k norm over all heads at once */
    SHAPE_NORM_ASKED = 2048, /* only where use_qk_norm says so */
    SHAPE_FOUR_NORMS = 4096,
    SHAPE_ONE_NORM = 8192,
    SHAPE_NORM_BIAS = 16384, /* layer norms: with biases, and the head has one */
    SHAPE_SINKS = 32768,
    SHAPE_EXPERT_BIAS = 65536,
    SHAPE_ROUTER_BIAS = 131072, /* a correction for each expert */
    SHAPE_SHARED_GATE = 262144,
    SHAPE_EXPERTS_ARE_FFN = 524288, /* intermediate_size is the experts' */
    SHAPE_TIED = 1 << 20,           /* when tie_word_embeddings is absent */
    SHAPE_GATED_Q = 1 << 21,        /* queries come with a gate of the output */
    SHAPE_GATE_WIDE = 1 << 22,      /* a matrix of its own for it */
    SHAPE_GATE_HEAD = 1 << 23,      /* one gate a head */
    SHAPE_NO_GATE = 1 << 24,        /* feed-forward of two matrices */
    SHAPE_SINKS_WINDOW = 1 << 25,   /* sinks in windowed layers alone */
    SHAPE_KDA_WIDE = 1 << 26,       /* gates of the delta attention by one matrix, not by two of low rank */
    SHAPE_LAYER_SCALE = 1 << 27,    /* one number a layer */
    SHAPE_MIXER_ONLY = 1 << 28,     /* a layer is a mixer or a feed-forward, with one norm */
    SHAPE_STATE_NORM = 1 << 29,     /* the state's output is normed (mamba 2) */
    SHAPE_NOT_FIRST = 1 << 30       /* with FULL_FIRST: but layer 0 is not */
};

/* What llama.cpp's graph of a family does beside the usual. */
enum shape_graph {
    GRAPH_GATED = 1,          /* queries come with a gate of their width */
    GRAPH_REPEATS_KEYS = 2,   /* of a delta net, one copy for every value head */
    GRAPH_LATE_ROWS = 4,      /* rows without logits go after the last layer, not inside it */
    GRAPH_ONTO_RESIDUAL = 8,  /* a layer's output is added in the residual's place */
    GRAPH_PARALLEL = 16,      /* feed-forward beside attention */
    GRAPH_WEIGHS_FIRST = 32,  /* experts' inputs are weighed, not their outputs */
    GRAPH_DENSE_TOO = 64,     /* a dense feed-forward beside the experts, each with its own norm */
    GRAPH_NO_ROPE = 256,      /* in layers without a window */
    GRAPH_HIGH_LOGITS = 1024, /* they lie above a hole of an expert tensor's size */
    GRAPH_SHARED_GATE = 512,  /* shared experts' output is multiplied by a gate */
    GRAPH_LAYER_NORM = 128,   /* which does not work in place */
};

struct shape_row {
    const char *hf[6];   /* model_type */
    const char *gguf[6]; /* general.architecture */
    enum shape_pattern pattern;
    uint32_t period;        /* when the file has none */
    const char *period_key; /* in config.json */
    enum shape_state state;
    uint32_t flags;
    bool first_full;     /* PATTERN_WINDOW: layer 0 too */
    uint32_t window;     /* when the file has none */
    uint32_t graph;      /* of enum shape_graph */
    uint32_t own_layers; /* layers that keep a cache, when the file does not say how many share */
};

extern const struct shape_key shape_keys[SHAPE_NUMBERS];
const struct shape_row *shape_row_hf(struct str model_type);
const struct shape_row *shape_row_gguf(struct str architecture);

/* What a layer is, before its geometry. */
enum layer_kind { KIND_NONE, KIND_FULL, KIND_WINDOW, KIND_CHUNK, KIND_STATE, KIND_BOTH, KIND_CSA, KIND_HCA };

struct shape_reading {
    struct shape_source source;
    struct shape *out;
    struct arena *arena;
    const struct shape_row *row;      /* NULL: unknown */
    uint8_t *kinds;                   /* [all] of enum layer_kind */
    uint32_t *heads, *kv_heads, *ffn; /* [all] */
    uint32_t *head_dims;              /* [all]; 0: by kind */
    uint8_t *states;                  /* [all] of enum shape_state, for lists that name them */
    struct str type;                  /* model_type whose defaults hold; empty: none */
    uint32_t all;                     /* layers and blocks for further tokens */
    bool has_latents;                 /* GGUF: the file has the tensors for it */
};

/* shape_lists.c: fills kinds from the lists of config.json, or from GGUF's arrays. *found false: there is none. */
berth_status shape_read_lists(struct shape_reading *reading, bool *found);
berth_status shape_read_arrays(struct shape_reading *reading);
/* A list that goes by layers: too short is an error, too long leaves a lower bound. */
berth_status shape_check_length(struct shape_reading *reading, const char *key, uint64_t items);
/* shape_check.c: numbers that contradict each other are an error; one that is not there goes into the shape's lack. */
berth_status shape_check_layers(struct shape_reading *reading);
void shape_note_lacks(struct shape_reading *reading);
/* The words for a number that is missing. */
void shape_lack_text(const struct shape_reading *reading, enum shape_number number, const char *what, char *text,
                     size_t bytes);
/* shape_params.c */
berth_status shape_read_params(struct shape_reading *reading);
/* shape_count.c: the mixers of a layer: matrix_params, vector_params, index_params. */
struct shape_biases {
    bool qkv, out, norms, conv, state, kv_equal; /* kv_equal: values of full layers are their keys */
};
void shape_count_mixer(const struct shape_reading *reading, struct shape_layer *layer,
                       const struct shape_biases *biases);

/* Makes every sum a lower bound; the first reason stays. */
void shape_doubt(struct shape *shape, const char *format, ...) BASE_PRINTF(2, 3);

#endif
