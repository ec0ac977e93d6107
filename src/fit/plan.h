/* SPDX-License-Identifier: MIT
 *
 * The contract: machine + layouts + budget -> plan. Spending order: trunk, KV and scratch, then slots with what is
 * left. Named floors: hard floor (slots of the neediest layer), floor (slots of one cycle), full (every expert).
 */
#ifndef FIT_PLAN_H
#define FIT_PLAN_H

#include "fit/engine.h"

struct plan_request {
    const berth_model_config *config; /* complete: every field readable */
    uint64_t budget_bytes;            /* resolved */
    const char *binding;
    uint64_t host_bytes;
};

/* Fills *plan and the *dims that give it. BERTH_OK also when it does not fit (plan->fits false; dims are those of the
 * hard floor then). */
berth_status plan_solve(struct spec *spec, const struct plan_request *request, struct engine_dims *dims,
                        berth_plan *plan, berth_error *err);
/* BERTH_ERR_BUDGET with the numbers and what would lower them. */
berth_status plan_refuse(const berth_plan *plan, const char *path, berth_error *err);

extern const char budget_given[]; /* the binding of a budget that is not automatic */
/* What the automatic budget leaves of `available` bytes to everybody else; less than all of it. */
uint64_t budget_reserve(uint64_t available);
/* Resolves config->budget_bytes (0: automatic). `binding` gets 256 bytes. */
berth_status budget_resolve(const berth_model_config *config, uint64_t *bytes, char *binding, berth_error *err);

/* Offsets of the lines in the one reservation: page-aligned, in plan order; returns the bytes of the reservation. */
uint64_t plan_region(const uint64_t line_bytes[BERTH_LINE_COUNT], uint64_t offsets[BERTH_LINE_COUNT]);
/* True for lines that are our own memory (not process, app, device). */
bool plan_line_is_region(berth_line line);

#endif
