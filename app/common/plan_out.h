/* SPDX-License-Identifier: MIT
 * A memory plan, for people and as JSON. */
#ifndef APP_PLAN_OUT_H
#define APP_PLAN_OUT_H

#include "berth.h"
#include "common/json_out.h"

/* The lines and their sum, the bar, floor, hard floor and full, verdict. */
void plan_print(const berth_plan *plan, FILE *out);
/* One line: "3.2 GiB of 8.0 GiB (--budget): 512 of 6144 experts in memory". */
void plan_print_short(const berth_plan *plan, FILE *out);
/* An object of stable keys (docs/cli.md). */
void plan_json(struct json_out *json, const char *key, const berth_plan *plan);

const char *plan_kv_name(berth_kv_type type);

#endif
