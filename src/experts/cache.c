/* SPDX-License-Identifier: MIT
 *
 * Expert cache: residency, visits, reads. See cache.h for the rules; which slot to take is the policy's (policy.h).
 *
 * A visit is an array of positions in hand-out order: [0, hits) resident, then misses. Four indices only move forward:
 *     next <= count         positions handed out
 *     assigned <= count     positions that own a slot (hits at once, misses as slots allow)
 *     submitted <= assigned positions whose reads were given to the I/O engine (hits need none)
 *     fetched <= submitted  positions whose reads have been waited for
 * Position p of a miss uses fetch record (p - hits) mod fetches_count, so submitted - fetched <= fetches_count. */
#include "experts/cache.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "experts/cache_parts.h"
#include "os/memory.h"
#include "os/thread.h"

/* ---- residency ------------------------------------------------------------------------------------------ */

static uint32_t *cell_of(struct cache *cache, uint32_t layer, uint32_t expert)
{
    return &cache->slot_of[(uint64_t)layer * cache->catalog->experts + expert];
}

/* Takes the slot from its owner; it is then neither free nor owned. */
static void slot_disown(struct cache *cache, uint32_t slot)
{
    struct slot *owned = &cache->slots[slot];
    if (owned->pinned) {
        cache->pool_pinned[cache->layer_pool[owned->layer]]--;
        cache->stats.pinned_slots--;
    } else {
        cache->policy->remove(cache->policy_state, slot);
        cache->layer_slots[owned->layer]--;
    }
    *cell_of(cache, owned->layer, owned->expert) = SLOT_NONE;
    cache->stats.slots_used--;
    owned->layer = SLOT_NONE;
    owned->held = owned->pinned = false;
}

static unsigned char *slot_memory(const struct cache *cache, uint32_t layer, uint32_t slot)
{
    const struct pool *pool = &cache->pools[cache->layer_pool[layer]];
    return pool->base + (slot - pool->first) * pool->slot_bytes;
}

static void slot_own(struct cache *cache, uint32_t slot, uint32_t layer, uint16_t expert, enum policy_end end)
{
    cache->slots[slot] =
        (struct slot){.layer = layer, .expert = expert, .held = true, .touched = cache->slots[slot].touched};
    *cell_of(cache, layer, expert) = slot;
    cache->layer_slots[layer]++;
    cache->stats.slots_used++;
    cache->policy->insert(cache->policy_state, slot, end);
}

/* Takes an owned slot out of the policy's sight. */
static void slot_pin(struct cache *cache, uint32_t slot)
{
    struct slot *owned = &cache->slots[slot];
    cache->policy->remove(cache->policy_state, slot);
    cache->layer_slots[owned->layer]--;
    owned->pinned = true;
    cache->pool_pinned[cache->layer_pool[owned->layer]]++;
    cache->stats.pinned_slots++;
}

static enum policy_end visit_end_of(const struct visit *visit)
{
    return visit->phase == BERTH_PHASE_PREFILL ? POLICY_COLD : POLICY_HOT;
}

static void slot_free(struct cache *cache, uint32_t slot)
{
    struct pool *pool = &cache->pools[cache->layer_pool[cache->visit.layer]];
    slot_disown(cache, slot);
    cache->free_slots[pool->first + pool->free_count++] = slot;
}

/* A free slot, or a victim's. SLOT_NONE: every slot that might be taken belongs to the running visit. */
static uint32_t slot_find(struct cache *cache, uint32_t layer)
{
    struct pool *pool = &cache->pools[cache->layer_pool[layer]];
    if (pool->free_count > 0) {
        return cache->free_slots[pool->first + --pool->free_count];
    }
    uint32_t slot = cache->policy->victim(cache->policy_state, layer);
    if (slot != SLOT_NONE) {
        assert(!cache->slots[slot].held && cache->slots[slot].layer != SLOT_NONE);
        slot_disown(cache, slot);
        cache->stats.evictions++;
    }
    return slot;
}

/* ---- a visit -------------------------------------------------------------------------------------------- */

/* The first reader maps the slot in, here and now: reader threads that fault the same huge page at once would each be
 * charged for one, over the plan. */
static void slot_touch(struct cache *cache, uint32_t layer, uint32_t slot)
{
    if (!cache->slots[slot].touched && cache->io != NULL) {
        os_populate(slot_memory(cache, layer, slot), cache->pools[cache->layer_pool[layer]].slot_bytes);
    }
    cache->slots[slot].touched = true;
}

static void position_fetch(struct cache *cache, uint32_t position)
{
    struct visit *visit = &cache->visit;
    slot_touch(cache, visit->layer, visit->slots[position]);
    struct fetch *fetch = &cache->fetches[(position - visit->hits) % cache->fetches_count];
    struct expert_place place;
    catalog_place(cache->catalog, visit->layer, visit->experts[position], &place);
    unsigned char *memory = slot_memory(cache, visit->layer, visit->slots[position]);
    fetch->count = cache->io == NULL ? 0 : place.spans_count;
    fetch->err.status = BERTH_OK;
    for (uint32_t i = 0; i < fetch->count; i++) {
        const struct expert_span *span = &place.spans[i];
        fetch->requests[i] = (struct io_request){.offset = span->offset,
                                                 .bytes = span->bytes,
                                                 .buffer = memory + span->slot_offset,
                                                 .file = span->file,
                                                 .err = &fetch->err};
        io_submit(cache->io, &fetch->requests[i]);
    }
    const struct slot_class *class = &cache->catalog->classes[cache->catalog->layer_class[visit->layer]];
    uint64_t bytes = slot_class_stored_bytes(class);
    *(visit->warm ? &cache->stats.warm_reads : &cache->stats.reads[visit->phase]) += place.spans_count;
    *(visit->warm ? &cache->stats.warm_read_bytes : &cache->stats.read_bytes[visit->phase]) += bytes;
}

/* Waits for all reads of the next unfetched position. */
static berth_status position_await(struct cache *cache)
{
    struct visit *visit = &cache->visit;
    struct fetch *fetch = &cache->fetches[(visit->fetched - visit->hits) % cache->fetches_count];
    berth_status status = BERTH_OK;
    for (uint32_t i = 0; i < fetch->count; i++) {
        berth_status one = io_wait(cache->io, &fetch->requests[i]);
        status = status == BERTH_OK ? one : status;
    }
    visit->fetched++;
    return status;
}

/* The position whose slot the next waiting miss reuses. */
static uint32_t recycle_position(const struct visit *visit)
{
    uint32_t turn = visit->assigned - visit->hits - visit->given;
    return turn < visit->recycled ? visit->pinned + turn : visit->hits + (turn - visit->recycled);
}

/* Gives slots to waiting misses and reads to the I/O engine, as far as both allow. */
static void visit_pump(struct cache *cache)
{
    struct visit *visit = &cache->visit;
    while (visit->assigned < visit->count) {
        uint32_t from = recycle_position(visit);
        if (visit->states[from] != POSITION_RELEASED) {
            break;
        }
        uint32_t slot = visit->slots[from];
        visit->states[from] = POSITION_GONE;
        slot_disown(cache, slot);
        cache->stats.evictions++;
        slot_own(cache, slot, visit->layer, visit->experts[visit->assigned], visit_end_of(visit));
        visit->slots[visit->assigned++] = slot;
    }
    while (visit->submitted < visit->assigned && visit->submitted - visit->fetched < cache->fetches_count) {
        position_fetch(cache, visit->submitted++);
    }
}

/* Where an expert goes in the order of handing out. */
enum { ORDER_PINNED, ORDER_HIT, ORDER_MISS, ORDERS };
static uint32_t order_of(struct cache *cache, uint32_t layer, uint32_t expert)
{
    uint32_t slot = *cell_of(cache, layer, expert);
    return slot == SLOT_NONE ? ORDER_MISS : (cache->slots[slot].pinned ? ORDER_PINNED : ORDER_HIT);
}

/* Sorts the experts into positions: pinned hits, other hits, misses; each in file order. */
static berth_status visit_sort(struct cache *cache, uint32_t layer, const uint16_t *experts, uint32_t count,
                               berth_error *err)
{
    struct visit *visit = &cache->visit;
    uint32_t limit = cache->catalog->experts;
    berth_status status = BERTH_OK;
    for (uint32_t i = 0; i < count && status == BERTH_OK; i++) {
        uint32_t expert = experts[i];
        uint32_t rank = expert < limit ? cache->file_rank[(uint64_t)layer * limit + expert] : 0;
        if (expert >= limit || visit->by_rank[rank] != RANK_NONE) {
            status = error_set(err, BERTH_ERR_ARGUMENT, "expert %u is %s", expert,
                               expert >= limit ? "out of range" : "named twice in one visit");
            error_at_expert(err, (int32_t)layer, (int32_t)expert);
            break;
        }
        visit->by_rank[rank] = expert;
    }
    uint32_t counts[ORDERS] = {0};
    for (uint32_t rank = 0; rank < limit && status == BERTH_OK; rank++) {
        if (visit->by_rank[rank] != RANK_NONE) {
            counts[order_of(cache, layer, visit->by_rank[rank])]++;
        }
    }
    uint32_t at[ORDERS] = {0, counts[ORDER_PINNED], counts[ORDER_PINNED] + counts[ORDER_HIT]};
    for (uint32_t rank = 0; rank < limit; rank++) {
        uint32_t expert = visit->by_rank[rank];
        visit->by_rank[rank] = RANK_NONE;
        if (expert != RANK_NONE && status == BERTH_OK) {
            visit->experts[at[order_of(cache, layer, expert)]++] = (uint16_t)expert;
        }
    }
    visit->pinned = counts[ORDER_PINNED];
    visit->hits = counts[ORDER_PINNED] + counts[ORDER_HIT];
    return status;
}

berth_status cache_visit_begin(struct cache *cache, uint32_t layer, berth_phase phase, const uint16_t *experts,
                               uint32_t count, berth_error *err)
{
    struct visit *visit = &cache->visit;
    if (visit->running) {
        return error_set(err, BERTH_ERR_STATE, "a visit of layer %u is running", visit->layer);
    }
    if (layer >= cache->catalog->layers || count > cache->catalog->experts ||
        (phase != BERTH_PHASE_PREFILL && phase != BERTH_PHASE_DECODE)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "visit of layer %u with %u experts; there are %u layers of %u", layer,
                         count, cache->catalog->layers, cache->catalog->experts);
    }
    uint64_t began_ns = os_now_ns();
    TRY(visit_sort(cache, layer, experts, count, err));
    visit->running = true;
    visit->warm = false;
    visit->layer = layer;
    visit->phase = phase;
    visit->count = count;
    visit->next = visit->held = 0;
    visit->failure = BERTH_OK;
    memset(visit->states, POSITION_WAITING, count);
    cache->view.visits++;
    cache->layer_visits[layer]++;
    if (cache->policy->visit != NULL) {
        struct policy_visit seen = {.layer = layer,
                                    .phase = phase,
                                    .experts = visit->experts,
                                    .count = count,
                                    .hits = visit->hits,
                                    .order = experts};
        cache->policy->visit(cache->policy_state, &seen);
    }
    for (uint32_t position = 0; position < visit->hits; position++) {
        uint32_t slot = *cell_of(cache, layer, visit->experts[position]);
        visit->slots[position] = slot;
        cache->slots[slot].held = true;
        if (position >= visit->pinned) {
            cache->policy->hit(cache->policy_state, slot);
        }
    }
    visit->assigned = visit->submitted = visit->fetched = visit->hits;
    while (visit->assigned < count) {
        uint32_t slot = slot_find(cache, layer);
        if (slot == SLOT_NONE) {
            break;
        }
        slot_own(cache, slot, layer, visit->experts[visit->assigned], visit_end_of(visit));
        visit->slots[visit->assigned++] = slot;
    }
    visit->given = visit->assigned - visit->hits;
    visit->recycled = visit->given < CACHE_STREAM_SLOTS ? CACHE_STREAM_SLOTS - visit->given : 0;
    uint32_t loose = visit->hits - visit->pinned;
    visit->recycled = visit->recycled < loose ? visit->recycled : loose;
    cache->stats.hits[phase] += visit->hits;
    cache->stats.misses[phase] += count - visit->hits;
    cache->stats.policy_ns += os_now_ns() - began_ns;
    visit_pump(cache);
    return BERTH_OK;
}

static berth_status visit_fail(struct cache *cache, uint32_t position, berth_status status)
{
    struct visit *visit = &cache->visit;
    const struct fetch *fetch =
        &cache->fetches[(position - visit->hits) % cache->fetches_count]; /* NOLINT(clang-analyzer-core.DivideZero): a
                                                                             cache that read has fetches */
    cache->failure = fetch->err;
    char object[64];
    int bytes = snprintf(object, sizeof object, "layer %u expert %u", visit->layer, visit->experts[position]);
    error_at_object(&cache->failure, object, bytes > 0 ? (size_t)bytes : 0);
    error_at_expert(&cache->failure, (int32_t)visit->layer, visit->experts[position]);
    visit->failure = status;
    visit->states[position] = POSITION_GONE;
    slot_free(cache, visit->slots[position]);
    return status;
}

static berth_status await_next(struct cache *cache)
{
    struct visit *visit = &cache->visit;
    uint32_t position = visit->next;
    if (position < visit->hits) {
        return BERTH_OK;
    }
    assert(visit->fetched == position && visit->submitted > position);
    uint64_t start_ns = os_now_ns();
    berth_status status = position_await(cache);
    cache->stats.stall_ns[visit->phase] += os_now_ns() - start_ns;
    return status == BERTH_OK ? BERTH_OK : visit_fail(cache, position, status);
}

berth_status cache_visit_next(struct cache *cache, struct expert_weights *out, berth_error *err)
{
    struct visit *visit = &cache->visit;
    uint32_t most = cache->catalog->top_k < 2 ? 2 : cache->catalog->top_k;
    if (!visit->running || visit->next == visit->count) {
        return error_set(err, BERTH_ERR_STATE, "no expert is left to hand out");
    }
    if (visit->held >= most || (visit->next >= visit->assigned && visit->failure == BERTH_OK)) {
        return error_set(err, BERTH_ERR_STATE, "release an expert first: %u of at most %u are held", visit->held, most);
    }
    if (visit->failure == BERTH_OK && await_next(cache) == BERTH_OK) {
        uint32_t position = visit->next++;
        visit->states[position] = POSITION_HANDED;
        visit->held++;
        struct expert_place place;
        catalog_place(cache->catalog, visit->layer, visit->experts[position], &place);
        const unsigned char *memory = slot_memory(cache, visit->layer, visit->slots[position]);
        *out = (struct expert_weights){.expert = visit->experts[position], .handle = position};
        for (uint32_t part = 0; part < cache->catalog->parts; part++) {
            bool stored = catalog_slice(cache->catalog, visit->layer, out->expert, part)->bytes > 0;
            out->part[part] = stored ? memory + place.part_offset[part] : NULL;
        }
        visit_pump(cache);
        return BERTH_OK;
    }
    if (err != NULL) {
        *err = cache->failure;
    }
    return visit->failure;
}

uint32_t cache_visit_ready(struct cache *cache)
{
    const struct visit *visit = &cache->visit;
    uint32_t position = visit->next;
    while (visit->failure == BERTH_OK && position < visit->submitted) {
        if (position >= visit->hits) {
            const struct fetch *fetch = &cache->fetches[(position - visit->hits) % cache->fetches_count];
            bool done = true;
            for (uint32_t i = 0; i < fetch->count; i++) {
                done = done && io_done(cache->io, &fetch->requests[i]);
            }
            if (!done) {
                break;
            }
        }
        position++;
    }
    return position - visit->next;
}

void cache_release(struct cache *cache, uint32_t handle)
{
    struct visit *visit = &cache->visit;
    bool handed = visit->running && handle < visit->next && visit->states[handle] == POSITION_HANDED;
    assert(handed && "released once, within its visit");
    if (handed) {
        visit->states[handle] = POSITION_RELEASED;
        visit->held--;
        if (visit->failure == BERTH_OK) {
            visit_pump(cache);
        }
    }
}

static bool visit_missed(const struct visit *visit, const struct slot *owned)
{
    for (uint32_t position = visit->hits; owned->layer == visit->layer && position < visit->count; position++) {
        if (visit->experts[position] == owned->expert) {
            return true;
        }
    }
    return false;
}

/* Gives back what the policy does not keep. */
static void visit_settle(struct cache *cache)
{
    uint64_t began_ns = os_now_ns();
    uint32_t slot;
    while ((slot = cache->policy->settle(cache->policy_state, cache->visit.layer)) != SLOT_NONE) {
        bool missed = visit_missed(&cache->visit, &cache->slots[slot]);
        cache->stats.bypassed += missed ? 1 : 0;
        cache->stats.evictions += missed ? 0 : 1;
        slot_free(cache, slot);
    }
    cache->stats.policy_ns += os_now_ns() - began_ns;
}

void cache_visit_end(struct cache *cache)
{
    struct visit *visit = &cache->visit;
    if (!visit->running) {
        return;
    }
    assert(visit->held == 0 && "every expert is released before the visit ends");
    while (visit->fetched < visit->submitted) {
        uint32_t position = visit->fetched;
        if (position_await(cache) != BERTH_OK) {
            visit->states[position] = POSITION_GONE;
            slot_free(cache, visit->slots[position]);
        }
    }
    for (uint32_t position = 0; position < visit->assigned; position++) {
        if (position >= visit->submitted) { /* never asked for */
            slot_free(cache, visit->slots[position]);
        } else if (visit->states[position] != POSITION_GONE) {
            cache->slots[visit->slots[position]].held = false;
        }
    }
    visit->running = false;
    if (cache->policy->settle != NULL) {
        visit_settle(cache);
    }
}

/* ---- before anybody asks -------------------------------------------------------------------------------- */

void cache_set_prior(struct cache *cache, uint32_t layer, const float *shares)
{
    memcpy(cache->prior + (uint64_t)layer * cache->catalog->experts, shares, cache->catalog->experts * sizeof *shares);
}

uint32_t cache_free_slots(const struct cache *cache, uint32_t layer)
{
    return cache->pools[cache->layer_pool[layer]].free_count;
}

uint32_t cache_pool(const struct cache *cache, uint32_t layer)
{
    return cache->layer_pool[layer];
}

uint64_t cache_working_bytes(const struct cache *cache)
{
    uint64_t slots = cache->policy->working != NULL ? cache->policy->working(cache->policy_state) : 0;
    return slots * cache->pools[cache->layer_pool[0]].slot_bytes;
}

uint32_t cache_in_file_order(const struct cache *cache, uint32_t layer, uint32_t rank)
{
    const uint16_t *ranks = cache->file_rank + (uint64_t)layer * cache->catalog->experts;
    uint32_t expert = 0;
    while (expert + 1 < cache->catalog->experts && ranks[expert] != rank) {
        expert++;
    }
    return expert;
}

/* Slots of the layer's pool that must stay unpinned: every layer's floor, or one layer's set where all share. */
static uint32_t pool_reserve(const struct cache *cache, uint32_t layer)
{
    uint32_t pool = cache->layer_pool[layer];
    uint32_t layers = cache->view.floor == 0 ? 1 : cache->catalog->classes[pool].layers;
    return layers * cache->catalog->top_k;
}

/* `taken` slots of this call will be pinned once they are read. */
static uint32_t preload_slot(struct cache *cache, uint32_t layer, bool pin, uint32_t taken)
{
    const struct pool *pool = &cache->pools[cache->layer_pool[layer]];
    if (!pin) {
        return pool->free_count > 0 ? slot_find(cache, layer) : SLOT_NONE;
    }
    uint64_t kept = (uint64_t)cache->pool_pinned[cache->layer_pool[layer]] + taken + pool_reserve(cache, layer);
    bool room = pool->count > kept;
    return room ? slot_find(cache, layer) : SLOT_NONE;
}

/* Pins what is resident already, as far as there is room. */
static void preload_resident(struct cache *cache, uint32_t layer, bool pin, struct cache_preload *counts)
{
    struct visit *visit = &cache->visit;
    const struct pool *pool = &cache->pools[cache->layer_pool[layer]];
    for (uint32_t position = visit->pinned; pin && position < visit->hits; position++) {
        if (pool->count - cache->pool_pinned[cache->layer_pool[layer]] > pool_reserve(cache, layer)) {
            slot_pin(cache, *cell_of(cache, layer, visit->experts[position]));
        } else {
            counts->left_out++;
        }
    }
    counts->resident = visit->hits;
}

berth_status cache_preload(struct cache *cache, uint32_t layer, const uint16_t *experts, uint32_t count, bool pin,
                           struct cache_preload *counts, berth_error *err)
{
    struct visit *visit = &cache->visit;
    *counts = (struct cache_preload){0};
    if (visit->running || layer >= cache->catalog->layers || count > cache->catalog->experts ||
        cache->fetches_count == 0) {
        return error_set(err, BERTH_ERR_ARGUMENT, "preload of layer %u with %u experts", layer, count);
    }
    TRY(visit_sort(cache, layer, experts, count, err));
    visit->warm = true;
    visit->layer = layer;
    visit->phase = BERTH_PHASE_PREFILL;
    visit->failure = BERTH_OK;
    preload_resident(cache, layer, pin, counts);
    uint32_t end = visit->hits;
    for (uint32_t position = visit->hits; position < count; position++) {
        uint32_t slot = preload_slot(cache, layer, pin, end - visit->hits);
        if (slot == SLOT_NONE) {
            counts->left_out += count - position;
            break;
        }
        slot_own(cache, slot, layer, visit->experts[position], POLICY_HOT);
        visit->slots[position] = slot;
        end++;
    }
    visit->submitted = visit->fetched = visit->hits;
    berth_status status = BERTH_OK;
    while (visit->fetched < end) {
        while (status == BERTH_OK && visit->submitted < end &&
               visit->submitted - visit->fetched < cache->fetches_count) {
            position_fetch(cache, visit->submitted++);
        }
        uint32_t position = visit->fetched;
        berth_status one = BERTH_ERR_CANCELLED; /* never asked for: an earlier read failed */
        if (position < visit->submitted) {
            one = position_await(cache);
        } else {
            visit->fetched++;
        }
        if (one != BERTH_OK) {
            if (status == BERTH_OK) {
                status = visit_fail(cache, position, one);
            } else {
                slot_free(cache, visit->slots[position]);
            }
            continue;
        }
        cache->slots[visit->slots[position]].held = false;
        counts->loaded++;
        cache->stats.warm_experts++;
        if (pin) {
            slot_pin(cache, visit->slots[position]);
        }
    }
    if (status != BERTH_OK && err != NULL) {
        *err = cache->failure;
    }
    return status;
}

void cache_unpin(struct cache *cache, uint32_t layer, uint32_t expert)
{
    uint32_t slot = *cell_of(cache, layer, expert);
    if (slot != SLOT_NONE && cache->slots[slot].pinned) {
        struct slot *owned = &cache->slots[slot];
        owned->pinned = false;
        cache->pool_pinned[cache->layer_pool[layer]]--;
        cache->stats.pinned_slots--;
        cache->layer_slots[layer]++;
        cache->policy->insert(cache->policy_state, slot, POLICY_COLD);
    }
}

void cache_get_stats(const struct cache *cache, struct cache_stats *out)
{
    *out = cache->stats;
}

bool cache_peek(const struct cache *cache, uint32_t layer, uint32_t expert)
{
    return layer < cache->catalog->layers && expert < cache->catalog->experts &&
           cache->slot_of[(uint64_t)layer * cache->catalog->experts + expert] != SLOT_NONE;
}
