/* SPDX-License-Identifier: MIT
 *
 * The layer table: what each layer of a model keeps for a sequence, read from config.json. Every total of every engine
 * is a sum over it. Families are rows of data; a config.json that lists its layer_types mostly describes itself.
 */
#ifndef FIT_LAYERS_H
#define FIT_LAYERS_H

#include "base/str.h"
#include "memory/arena.h"

enum layer_cache {
    LAYER_NO_CACHE, /* feed-forward, or state only */
    LAYER_FULL,     /* every position */
    LAYER_SLIDING,  /* the last `window` positions */
    LAYER_CHUNKED,  /* positions since the last multiple of `window` */
    LAYER_LATENT    /* every position, one latent vector instead of keys and values */
};

struct layer {
    enum layer_cache cache;
    uint32_t k_elems, v_elems;        /* a position, all heads */
    uint32_t window;                  /* positions; SLIDING, CHUNKED */
    uint32_t owner;                   /* the layer whose cache this one uses: itself, or an earlier one */
    uint64_t conv_elems, state_elems; /* recurrent state of a sequence */
};

struct layers {
    struct layer *items;
    uint32_t count;
    bool is_known; /* false: the architecture has no row, so what is missing makes every sum a lower bound */
    char family[64];
};

enum { LAYERS_MAX = 4096 };

/* The tables live in the arena. BERTH_ERR_FORMAT names the key when a number is missing, or no size. An unknown
 * model_type is not an error: `is_known` is false and only layers that the file itself describes are there. */
berth_status layers_read(struct str config_json, struct arena *arena, struct layers *out, berth_error *err);

/* ---- llama.cpp's rules -------------------------------------------------------------------------------- */

/* Bytes of a cache type: a block of `elems` takes `bytes`. */
struct cache_type {
    const char *name;
    uint32_t elems, bytes;
};
/* NULL: no such type. */
const struct cache_type *cache_type_find(const char *name);

struct llama_cache {
    uint64_t ctx_tokens;
    uint32_t batch_tokens; /* micro-batch; 0: 512 */
    uint32_t slots;        /* 0: 1 */
    bool is_unified;       /* the slots share one stream of cells */
    bool is_swa_full;      /* sliding layers keep every position */
    const struct cache_type *k, *v;
};

/* False: a sum does not fit in 64 bits. */
bool layers_llama_kv_bytes(const struct layers *layers, const struct llama_cache *cache, uint64_t *bytes);
bool layers_llama_state_bytes(const struct layers *layers, uint32_t slots, uint64_t *bytes);

#endif
