/* SPDX-License-Identifier: MIT
 * Checkpoint (GGUF or safetensors) to GGUF, in bounded memory, streaming. */
#ifndef CONVERT_CONVERT_H
#define CONVERT_CONVERT_H

#include "base/log.h"
#include "convert/recipe.h"

struct convert_config {
    const struct convert_recipe *recipe; /* NULL: convert_recipe_plain(type). Norms, biases and routers stay F32 */
    enum dtype type;
    const char *overrides; /* convert_check_overrides(); NULL: none */
    uint64_t split_bytes;  /* 0: one file; otherwise parts named NAME-%05u-of-%05u.gguf of about this size */
    uint32_t alignment;    /* general.alignment; 0: 32. 4096 makes every expert's tensor page-aligned */
    uint32_t threads;      /* quantiser threads; 0: the CPUs we may use */
    uint64_t buffer_bytes; /* 0: 64 MiB; everything convert holds at once, headers aside */
    berth_progress_fn *progress;
    void *progress_user;
    struct log_sink log;
};
/* The error for a type name without a recipe: lists them all. */
berth_status convert_unknown_type(const char *name, berth_error *err);
/* out_path must not exist unless overwrite. On failure nothing is left behind. */
berth_status convert_run(const char *in_path, const char *out_path, const struct convert_config *config, bool overwrite,
                         berth_error *err);

/* Random-weight checkpoint in a published shape, for tests and benchmarks: finite weights, norms of 1, no vocabulary
 * (tokenizer model "none"). The same spec gives the same bytes, whatever the threads and buffers. */
struct convert_random {
    const char *shape; /* row name: "qwen3-30b-a3b", "olmoe-1b-7b", "mixtral-8x7b", "pocket", "tiny", ... */
    uint32_t layers;   /* 0: the shape's own */
    uint32_t experts;  /* 0: the shape's own; at least its top-k */
    enum dtype type;   /* as in convert_config */
    const struct convert_recipe *recipe;
    uint64_t seed;
    bool spread; /* scale the residual writes down so that routing spreads over all experts (worst case for caches) */
};
/* The format is spec's; config's is ignored. */
berth_status convert_write_random(const char *out_path, const struct convert_random *spec,
                                  const struct convert_config *config, bool overwrite, berth_error *err);
/* Name of shape row i; NULL past the last. */
const char *convert_random_shape(uint32_t i);

#endif
