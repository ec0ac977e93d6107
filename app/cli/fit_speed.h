/* SPDX-License-Identifier: MIT
 * How fast the planned model would be, on this machine or another, and the matrix of machines. */
#ifndef CLI_FIT_SPEED_H
#define CLI_FIT_SPEED_H

#include "cli/fit_mlx.h"
#include "common/engine.h"
#include "common/json_out.h"
#include "common/speed.h"
#include "store/runs.h"

enum { FIT_SPEED_PLACES = 3 }; /* an empty context, this one, the largest */

struct fit_speed {
    bool known; /* there is a plan that fits */
    double ctx[FIT_SPEED_PLACES];
    struct speed_answer at[FIT_SPEED_PLACES];
    char machine[80]; /* another machine's name; "": this one */
};

/* The machine whose memory is planned for. */
struct fit_target {
    bool other; /* not this machine */
    struct mlx_machine machine;
    char kind[32];
    double memory_rate, read_rate; /* given, bytes/s; 0: not */
    bool has_hit;                  /* given */
    double hit;
};
/* Reads --machine, --ram, --bandwidth, --disk; sets a budget when another machine gives one. The exit code. */
int fit_target_read(const struct mlx_options *options, const char *disk, struct fit_target *out,
                    uint64_t *budget_bytes);

/* Why Berth itself does not run on the machine that was named; NULL: it does, or it is this one. */
const char *fit_target_problem(const struct fit_target *target);

/* --hits; text NULL: not given. The exit code. */
int fit_hits_read(const char *text, struct fit_target *out);

/* After everything was planned: opens the store. */
void fit_speed_predict(const struct fit_target *target, const struct model_options *options, const tool_summary *model,
                       const berth_plan *plan, struct fit_speed *out);
void fit_speed_print(const struct fit_speed *speed, FILE *out);
void fit_speed_json(struct json_out *json, const char *key, const struct fit_speed *speed);

/* berth fit --matrix under our own rules. `plan`: with memory for everything. The exit code. */
int fit_speed_matrix(const struct mlx_options *options, const char *disk, const tool_summary *model,
                     const berth_plan *plan);

#endif
