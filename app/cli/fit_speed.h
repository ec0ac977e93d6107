/* SPDX-License-Identifier: MIT
 * How fast the planned model would be, on this machine or another, and the matrix of machines. */
#ifndef CLI_FIT_SPEED_H
#define CLI_FIT_SPEED_H

#include "cli/fit_mlx.h"
#include "common/engine.h"
#include "common/json_out.h"
#include "common/speed.h"
#include "common/table.h"
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

/* The class of a machine of the table. */
berth_speed_class fit_speed_class(const char *kind, const char *vendor);
/* What bench machine or earlier runs say of this machine's memory, bytes/s; 0: nothing. */
double fit_speed_measured_memory(void);

/* A table of machines, as text or as a JSON array that ends its document. */
struct fit_matrix {
    struct table table;
    struct json_out json;
    bool as_json;
    uint32_t count;
};
struct fit_matrix_row {
    const struct mlx_machine *machine;
    const char *vendor, *verdict;
    const char *problem; /* why Berth itself does not run there; NULL: it does, or is not asked */
    const char *share;   /* the verdict in the text; NULL: the same */
    double usable;
    bool fits;
    uint64_t total_bytes, slots; /* total_bytes 0: slots are shown */
    const berth_speed *speed;
};
void fit_matrix_put(struct fit_matrix *out, const struct fit_matrix_row *row);
/* JSON: what comes before the rows is written. `fn` puts a row a machine that --filter lets pass, twice for text. */
int fit_matrix_all(struct fit_matrix *out, const struct mlx_options *options, mlx_machine_fn *fn, void *user);

/* berth fit --matrix under our own rules. `plan`: with memory for everything. The exit code. */
int fit_speed_matrix(const struct mlx_options *options, const char *disk, const tool_summary *model,
                     const berth_plan *plan);

#endif
