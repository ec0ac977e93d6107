/* SPDX-License-Identifier: MIT
 * berth fit --engine llama.cpp, and what is said of a model that Berth cannot run. */
#ifndef CLI_FIT_LLAMA_H
#define CLI_FIT_LLAMA_H

#include "cli/fit_mlx.h"
#include "common/args.h"
#include "tool.h"

struct llama_options {
    const char *type_k, *type_v, *mla, *build;
    uint32_t slots, ubatch, outputs;
    int offload;
    bool unified, swa_full, no_flash_attention, draft;
    /* shared with the other engines */
    const struct mlx_options *machine;
    const char *path;
    uint64_t budget_bytes;
    uint32_t ctx_tokens;
    bool json, explain, quiet;
};

extern const struct arg_option llama_option_rows[];
enum { LLAMA_OPTIONS = 12 };

/* The first option given that only these rules know; NULL: none. */
const char *llama_option_given(const struct llama_options *options);
int fit_llama(const struct llama_options *options);
/* Berth itself cannot run the model: says so, and what llama.cpp would take. Exit code 1. */
int fit_cannot_run(const struct llama_options *options, const tool_checkpoint *checkpoint, const char *reason);

#endif
