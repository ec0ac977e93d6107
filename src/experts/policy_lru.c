/* SPDX-License-Identifier: MIT
 *
 * Global least recently used. Every layer has a list of its slots from hot to cold, and every slot a stamp that falls
 * along the list; the victim is the smallest stamp among the layers' coldest slots. So a choice costs one step a layer,
 * also when most layers are at their floor, where one long list would have to be searched. */
#include "experts/policy.h"

struct link {
    uint32_t hotter, colder; /* slots; SLOT_NONE: end */
    int64_t stamp;
};

struct ends {
    uint32_t hottest, coldest;
};

struct lru {
    const struct policy_view *view;
    struct link *links; /* [slots] */
    struct ends *ends;  /* [layers] */
    int64_t hot_stamp;  /* last given at the hot end: counts up */
    int64_t cold_stamp; /* last given at the cold end: counts down */
};

static berth_status lru_layout(struct arena *tables, const struct policy_view *view, void **state, berth_error *err)
{
    static const char *const no_keys[] = {NULL};
    TRY(policy_check_options(view->options, no_keys, err));
    struct lru *lru = ARENA_NEW(tables, struct lru, 1);
    struct link *links = ARENA_NEW(tables, struct link, view->slots_count);
    struct ends *ends = ARENA_NEW(tables, struct ends, view->catalog->layers);
    TRY(arena_check(tables, "lru policy", err));
    if (lru != NULL) {
        *lru = (struct lru){.view = view, .links = links, .ends = ends};
        for (uint32_t layer = 0; layer < view->catalog->layers; layer++) {
            ends[layer] = (struct ends){SLOT_NONE, SLOT_NONE};
        }
        *state = lru;
    }
    return BERTH_OK;
}

static void lru_insert(void *state, uint32_t slot, enum policy_end end)
{
    struct lru *lru = state;
    struct ends *ends = &lru->ends[lru->view->slots[slot].layer];
    if (end == POLICY_HOT) {
        lru->links[slot] = (struct link){SLOT_NONE, ends->hottest, ++lru->hot_stamp};
    } else {
        lru->links[slot] = (struct link){ends->coldest, SLOT_NONE, --lru->cold_stamp};
    }
    const struct link *link = &lru->links[slot];
    *(link->hotter == SLOT_NONE ? &ends->hottest : &lru->links[link->hotter].colder) = slot;
    *(link->colder == SLOT_NONE ? &ends->coldest : &lru->links[link->colder].hotter) = slot;
}

static void lru_remove(void *state, uint32_t slot)
{
    struct lru *lru = state;
    struct ends *ends = &lru->ends[lru->view->slots[slot].layer];
    const struct link *link = &lru->links[slot];
    *(link->hotter == SLOT_NONE ? &ends->hottest : &lru->links[link->hotter].colder) = link->colder;
    *(link->colder == SLOT_NONE ? &ends->coldest : &lru->links[link->colder].hotter) = link->hotter;
}

static void lru_hit(void *state, uint32_t slot)
{
    lru_remove(state, slot);
    lru_insert(state, slot, POLICY_HOT);
}

static uint32_t lru_victim(void *state, uint32_t layer)
{
    const struct lru *lru = state;
    const struct policy_view *view = lru->view;
    uint32_t best = SLOT_NONE;
    for (uint32_t holder = 0; holder < view->catalog->layers; holder++) {
        if (view->layer_pool[holder] != view->layer_pool[layer] || !policy_may_take(view, holder, layer)) {
            continue;
        }
        uint32_t slot = lru->ends[holder].coldest;
        while (slot != SLOT_NONE && view->slots[slot].held) { /* only the running visit's layer has held slots */
            slot = lru->links[slot].hotter;
        }
        if (slot != SLOT_NONE && (best == SLOT_NONE || lru->links[slot].stamp < lru->links[best].stamp)) {
            best = slot;
        }
    }
    return best;
}

const struct policy_row policy_lru = {.name = "lru",
                                      .layout = lru_layout,
                                      .hit = lru_hit,
                                      .insert = lru_insert,
                                      .remove = lru_remove,
                                      .victim = lru_victim};
