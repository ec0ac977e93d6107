/* SPDX-License-Identifier: MIT
 * Which model to load when none is named, and which one to recommend. */
#include <string.h>

#include "berth.h"

/* The candidate after `last` in the order "larger first, then earlier"; -1: none left. Selecting instead of sorting
 * needs no memory and asks the predicates in the same order. */
static int64_t next_by_size(const berth_choose_candidate *candidates, size_t count, int64_t last)
{
    int64_t best = -1;
    for (size_t i = 0; i < count; i++) {
        double size = candidates[i].size_bytes;
        bool after = last < 0 || size < candidates[last].size_bytes ||
                     (size == candidates[last].size_bytes && (int64_t)i > last);
        if (after && (best < 0 || size > candidates[best].size_bytes)) {
            best = (int64_t)i;
        }
    }
    return best;
}

static int64_t largest_that(const berth_choose_candidate *candidates, size_t count, berth_choose_fn *fits, void *user)
{
    int64_t at = next_by_size(candidates, count, -1);
    while (at >= 0 && !fits(user, &candidates[at])) {
        at = next_by_size(candidates, count, at);
    }
    return at;
}

int64_t berth_choose_auto_model(const berth_choose_candidate *candidates, size_t count, const char *default_repo_id,
                                berth_choose_fn *fits_full, berth_choose_fn *fits_coexist, void *user)
{
    for (size_t i = 0; i < count; i++) {
        if (default_repo_id != NULL && strcmp(candidates[i].repo_id, default_repo_id) == 0) {
            if (fits_full(user, &candidates[i])) {
                return (int64_t)i;
            }
            break;
        }
    }
    int64_t chosen = largest_that(candidates, count, fits_coexist, user);
    return chosen >= 0 ? chosen : largest_that(candidates, count, fits_full, user);
}

const char *berth_choose_recommended(double ram_bytes)
{
    (void)ram_bytes;
    return BERTH_FIT_DEFAULT_REPO_ID;
}

const char *berth_choose_largest_recommended(double ram_bytes)
{
    double gib = ram_bytes / 1073741824.0;
    return gib >= 48   ? "mlx-community/gemma-4-26B-A4B-it-OptiQ-4bit"
           : gib >= 24 ? "mlx-community/gemma-4-12B-it-OptiQ-4bit"
                       : BERTH_FIT_DEFAULT_REPO_ID;
}
