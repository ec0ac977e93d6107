/* SPDX-License-Identifier: MIT
 * The slots of each layer as lists without order, for policies that look at all of a layer's slots. Private to
 * policy_*.c. */
#ifndef EXPERTS_POLICY_LISTS_H
#define EXPERTS_POLICY_LISTS_H

#include "experts/policy.h"

struct slot_lists {
    uint32_t *first;           /* [layers] */
    uint32_t *next, *previous; /* [slots] */
};

static inline void slot_lists_layout(struct arena *tables, const struct policy_view *view, struct slot_lists *out)
{
    out->first = ARENA_NEW(tables, uint32_t, view->catalog->layers);
    out->next = ARENA_NEW(tables, uint32_t, view->slots_count);
    out->previous = ARENA_NEW(tables, uint32_t, view->slots_count);
}

static inline void slot_lists_clear(const struct slot_lists *lists, const struct policy_view *view)
{
    for (uint32_t layer = 0; layer < view->catalog->layers; layer++) {
        lists->first[layer] = SLOT_NONE;
    }
}

static inline void slot_lists_add(const struct slot_lists *lists, uint32_t layer, uint32_t slot)
{
    lists->previous[slot] = SLOT_NONE;
    lists->next[slot] = lists->first[layer];
    if (lists->first[layer] != SLOT_NONE) {
        lists->previous[lists->first[layer]] = slot;
    }
    lists->first[layer] = slot;
}

static inline void slot_lists_drop(const struct slot_lists *lists, uint32_t layer, uint32_t slot)
{
    *(lists->previous[slot] == SLOT_NONE ? &lists->first[layer] : &lists->next[lists->previous[slot]]) =
        lists->next[slot];
    if (lists->next[slot] != SLOT_NONE) {
        lists->previous[lists->next[slot]] = lists->previous[slot];
    }
}

#endif
