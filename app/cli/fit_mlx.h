/* SPDX-License-Identifier: MIT
 * berth fit --engine mlx: the documents' memory contract. */
#ifndef CLI_FIT_MLX_H
#define CLI_FIT_MLX_H

#include "cli/fit_admission.h"
#include "common/args.h"
#include "tool.h"

enum fit_engine { FIT_ENGINE_BERTH = 0, FIT_ENGINE_MLX = 1, FIT_ENGINE_LLAMA = 2 };

struct mlx_options {
    int engine;
    const char *machine, *bandwidth, *kv_quant, *machines_file, *filter;
    uint64_t ram_bytes, weights_bytes, experts_bytes;
    bool matrix, explain;
    /* shared with the other engine */
    const char *path;
    uint64_t budget_bytes;
    uint32_t ctx_tokens, chunk_tokens;
    bool json, quiet;
    const struct admission_options *admission;
};

extern const struct arg_option mlx_option_rows[];
enum { MLX_OPTIONS = 11 };

int fit_mlx(const struct mlx_options *options);

/* What a rate on the command line may be, in GB/s. */
#define FIT_RATE_LEAST 0.001
#define FIT_RATE_MOST 1e6

/* One machine to assess. */
struct mlx_machine {
    berth_sku_machine machine;
    const char *basis; /* where the bandwidth comes from */
    char kind[32];     /* "unified", "desktop gpu", "memory"; "": unknown */
    const char *vendor;
    bool has_budget;
    double budget_bytes;
};
/* The machine that the options name. The exit code. */
int mlx_find_machine(const struct mlx_options *options, struct mlx_machine *out);
/* Calls fn for every row of the built-in table and of the user's file that the filter lets pass, once a memory size.
 * The exit code. */
typedef int mlx_machine_fn(void *user, const struct mlx_machine *machine, const char *vendor);
int mlx_each_machine(const struct mlx_options *options, mlx_machine_fn *fn, void *user);

#endif
