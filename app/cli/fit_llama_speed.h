/* SPDX-License-Identifier: MIT
 * How fast llama.cpp would be: the speed law with what a token takes by its rules. */
#ifndef CLI_FIT_LLAMA_SPEED_H
#define CLI_FIT_LLAMA_SPEED_H

#include "cli/fit_speed.h"

struct llama_speed {
    const tool_model *model;
    const tool_llama *request;
    const struct fit_target *target;
    bool is_device; /* every layer on an accelerator */
};

/* At an empty context, at `ctx` and at `ctx_max`. The exit code. */
int llama_speed_predict(const struct llama_speed *of, double ctx, double ctx_max, struct fit_speed *out);

/* --matrix: a machine a row, by llama.cpp's totals. `device`: every layer on an accelerator (1), none (0), or as the
 * machine has one (-1); the flag of `request` is ignored. */
int llama_speed_matrix(const struct mlx_options *options, const tool_model *model, const tool_llama *request,
                       int device, const char *cannot_run);

/* Whether llama.cpp would use an accelerator of the machine, when it is not told. */
bool llama_has_device(const struct mlx_machine *machine);
/* What a model may take of the machine's memory. */
double llama_usable(const struct mlx_machine *machine, bool is_device);

#endif
