/* SPDX-License-Identifier: MIT
 * The table of eviction policies. */
#include "experts/policy.h"

#include <stdio.h>
#include <string.h>

static const struct policy_row *const rows[] = {&policy_lru};
enum { ROWS_COUNT = sizeof rows / sizeof rows[0] };

berth_status policy_find(const char *name, const struct policy_row **out, berth_error *err)
{
    char names[160] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < ROWS_COUNT; i++) {
        if (name == NULL || strcmp(rows[i]->name, name) == 0) {
            *out = rows[i];
            return BERTH_OK;
        }
        int wrote = snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ", rows[i]->name);
        used += wrote > 0 && (size_t)wrote < sizeof names - used ? (size_t)wrote : 0;
    }
    berth_status status =
        error_set(err, BERTH_ERR_ARGUMENT, "unknown eviction policy, got \"%.60s\", wanted one of: %s", name, names);
    error_at_object(err, "policy", strlen("policy"));
    return status;
}
