/* SPDX-License-Identifier: MIT
 * The automatic budget: what the machine and every cgroup level leave, minus a reserve for everybody else. */
#include <stdio.h>

#include "fit/plan.h"
#include "os/memory.h"

const char budget_given[] = "given budget";

/* One sixteenth of what is available, at least 64 MiB, at most 1 GiB: other programs keep moving after we have
 * measured. Of less than 256 MiB (a small container, where few others move) a quarter. */
uint64_t budget_reserve(uint64_t available)
{
    uint64_t least = available / 4 < 64ull << 20 ? available / 4 : 64ull << 20;
    uint64_t reserve = available / 16;
    reserve = reserve < least ? least : reserve;
    return reserve > 1ull << 30 ? 1ull << 30 : reserve;
}

berth_status berth_budget_auto(berth_budget *out, berth_error *err)
{
    if (out == NULL || out->struct_size < sizeof *out) {
        return error_set(err, BERTH_ERR_ARGUMENT, "berth_budget must be initialised with BERTH_BUDGET_INIT");
    }
    struct os_memory_limit limit;
    TRY(os_memory_limit("", &limit, err));
    out->limit_bytes = limit.available_bytes;
    out->reserve_bytes = budget_reserve(limit.available_bytes);
    out->bytes = out->limit_bytes - out->reserve_bytes;
    snprintf(out->binding, sizeof out->binding, "%s", limit.binding);
    return BERTH_OK;
}

berth_status budget_resolve(const berth_model_config *config, uint64_t *bytes, char *binding, berth_error *err)
{
    if (config->budget_bytes > 0) {
        *bytes = config->budget_bytes;
        snprintf(binding, 256, "%s", budget_given);
        return BERTH_OK;
    }
    berth_budget budget = BERTH_BUDGET_INIT;
    TRY(berth_budget_auto(&budget, err));
    *bytes = budget.bytes;
    memcpy(binding, budget.binding, sizeof budget.binding);
    return BERTH_OK;
}
