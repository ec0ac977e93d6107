/* SPDX-License-Identifier: MIT
 *
 * llama.cpp's rules: what its caches, states and compute buffers take for a shape. Cells padded to 256, sliding layers
 * with room for a micro-batch, streams of slots, state in float32.
 */
#ifndef FIT_LLAMA_CPP_H
#define FIT_LLAMA_CPP_H

#include "family/shape.h"

/* Bytes of a cache type: a block of `elems` takes `bytes`. */
struct cache_type {
    const char *name;
    uint32_t elems, bytes;
};
/* NULL: no such type. */
const struct cache_type *cache_type_find(const char *name);
/* NULL past the last. */
const struct cache_type *cache_type_at(uint32_t i);

/* What differs between builds. */
struct llama_build {
    const char *name;
    uint32_t mask_bytes;   /* of an element of the attention mask, with flash attention */
    uint32_t input_copies; /* of the embeddings of a micro-batch, on the host */
    uint32_t index_copies; /* of an indexer's scores, every head's for every key: 0: a fused kernel keeps none */
    bool is_indexed;       /* without flash attention each value goes into the cache by its own index */
    bool is_swa_full;      /* windowed layers keep every position */
    const char *text;
};
const struct llama_build *llama_build_find(const char *name);
const struct llama_build *llama_build_at(uint32_t i);

enum llama_mla {
    LLAMA_MLA_LATENT,       /* one vector a position */
    LLAMA_MLA_LATENT_AND_V, /* and its value half again, as builds of mid-2025 and ik_llama.cpp -mla 1 */
    LLAMA_MLA_FULL          /* keys and values of every head: files without the tensors for it */
};

struct llama_request {
    uint64_t ctx_tokens;
    uint32_t ubatch_tokens; /* 0: 512 */
    uint32_t slots;         /* 0: 1 */
    uint32_t outputs;       /* rows of logits of a micro-batch; 0: the slots */
    bool is_unified;        /* the slots share one stream of cells */
    bool is_swa_full;       /* windowed layers keep every position */
    bool is_draft;          /* the context of the blocks for further tokens */
    bool no_flash_attention;
    bool is_device; /* every layer on an accelerator; otherwise all on the host */
    enum llama_mla mla;
    const struct cache_type *k, *v;  /* NULL: that half is not counted */
    const struct llama_build *build; /* NULL: the current one */
};

enum llama_part {
    LLAMA_PART_FULL,
    LLAMA_PART_WINDOW,
    LLAMA_PART_LATENT,
    LLAMA_PART_COMPRESSED,
    LLAMA_PART_INDEX,
    LLAMA_PARTS
};
const char *llama_part_name(enum llama_part part);

struct llama_report {
    struct {
        uint32_t layers;
        uint64_t cells;            /* of all slots, the most of a layer */
        uint32_t k_elems, v_elems; /* of the first such layer */
        uint64_t k_bytes, v_bytes;
    } part[LLAMA_PARTS];
    uint64_t kv_bytes;
    uint32_t state_layers;
    uint64_t state_bytes;
    uint64_t device_compute_bytes; /* 0 without a device */
    uint64_t host_compute_bytes;
    uint64_t output_bytes; /* logits handed to the caller, on the host */
};

/* False: a sum does not fit in 64 bits. */
bool llama_cache_bytes(const struct shape *shape, const struct llama_request *request, struct llama_report *out);
/* Caches and compute buffers. */
bool llama_solve(const struct shape *shape, const struct llama_request *request, struct llama_report *out);

#endif
