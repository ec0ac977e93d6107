/* SPDX-License-Identifier: MIT
 *
 * For policies whose order within a layer changes only at that layer's own visits: the victim of every layer is found
 * once and kept until the layer changes, so that a choice costs one comparison a layer. Private to policy_*.c. */
#ifndef EXPERTS_POLICY_SCORED_H
#define EXPERTS_POLICY_SCORED_H

#include "experts/policy_lists.h"

struct scored {
    const struct policy_view *view;
    struct slot_lists lists;
    uint32_t *coldest; /* [layers] its slot to take; SLOT_NONE: there is none */
    double *keep;      /* [layers] worth() of that slot's score */
    uint8_t *known;    /* [layers] coldest is up to date */
};

/* What keeping an expert is worth, as of its layer's last visit. */
typedef double scored_keep_fn(const void *policy, uint32_t layer, uint32_t expert);
/* What of that the choice between layers needs, worked out once for each coldest slot. */
typedef double scored_worth_fn(const void *policy, double keep);
/* How much the layer's coldest slot should go when `wanting` needs one; the largest goes. */
typedef double scored_evict_fn(const void *policy, uint32_t holder, uint32_t wanting, double worth);

struct scored_order {
    scored_keep_fn *keep;
    scored_worth_fn *worth;
    scored_evict_fn *evict;
};

static inline void scored_layout(struct arena *tables, const struct policy_view *view, struct scored *out)
{
    out->view = view;
    slot_lists_layout(tables, view, &out->lists);
    out->coldest = ARENA_NEW(tables, uint32_t, view->catalog->layers);
    out->keep = ARENA_NEW(tables, double, view->catalog->layers);
    out->known = ARENA_NEW(tables, uint8_t, view->catalog->layers);
}

static inline void scored_clear(const struct scored *scored)
{
    slot_lists_clear(&scored->lists, scored->view);
    for (uint32_t layer = 0; layer < scored->view->catalog->layers; layer++) {
        scored->known[layer] = 0;
    }
}

static inline void scored_add(const struct scored *scored, uint32_t slot)
{
    uint32_t layer = scored->view->slots[slot].layer;
    slot_lists_add(&scored->lists, layer, slot);
    scored->known[layer] = 0;
}

static inline void scored_drop(const struct scored *scored, uint32_t slot)
{
    uint32_t layer = scored->view->slots[slot].layer;
    slot_lists_drop(&scored->lists, layer, slot);
    scored->known[layer] = 0;
}

static inline void scored_find(const struct scored *scored, const void *policy, const struct scored_order *order,
                               uint32_t layer)
{
    uint32_t best = SLOT_NONE;
    double best_keep = 0.0;
    for (uint32_t slot = scored->lists.first[layer]; slot != SLOT_NONE; slot = scored->lists.next[slot]) {
        const struct slot *owned = &scored->view->slots[slot];
        if (owned->held) {
            continue;
        }
        double value = order->keep(policy, layer, owned->expert);
        if (best == SLOT_NONE || value < best_keep ||
            (value == best_keep && owned->expert < scored->view->slots[best].expert)) {
            best = slot;
            best_keep = value;
        }
    }
    scored->coldest[layer] = best;
    scored->keep[layer] = best != SLOT_NONE ? order->worth(policy, best_keep) : 0.0;
    scored->known[layer] = 1;
}

static inline uint32_t scored_victim(const struct scored *scored, const void *policy, const struct scored_order *order,
                                     uint32_t wanting)
{
    const struct policy_view *view = scored->view;
    uint32_t best = SLOT_NONE;
    double best_evict = 0.0;
    for (uint32_t holder = 0; holder < view->catalog->layers; holder++) {
        if (view->layer_pool[holder] != view->layer_pool[wanting] || !policy_may_take(view, holder, wanting)) {
            continue;
        }
        if (!scored->known[holder]) {
            scored_find(scored, policy, order, holder);
        }
        if (scored->coldest[holder] == SLOT_NONE) {
            continue;
        }
        double value = order->evict(policy, holder, wanting, scored->keep[holder]);
        if (best == SLOT_NONE || value > best_evict) {
            best = scored->coldest[holder];
            best_evict = value;
        }
    }
    return best;
}

#endif
