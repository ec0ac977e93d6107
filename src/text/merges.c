/* SPDX-License-Identifier: MIT */
#include "text/merges.h"

#include <assert.h>

enum { ID_BITS = 21, INDEX_BITS = 25, SMALL_PIECE = 24 };
static const uint32_t INDEX_MASK = (1u << INDEX_BITS) - 1;
static const uint32_t NO_PAIR = UINT32_MAX;
_Static_assert(VOCAB_IDS_MAX == 1 << ID_BITS, "three ids fit into 63 bits");
_Static_assert(MERGES_MAX < 1 << INDEX_BITS, "an index + 1 fits below the bits of the hash");

berth_status merges_layout(const struct text_build *build, uint64_t count, struct merges *out, berth_error *err)
{
    if (count > MERGES_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "the tokenizer has %llu merges, at most %d are supported",
                         (unsigned long long)count, MERGES_MAX);
    }
    void *packed;
    void *slots;
    *out = (struct merges){.count = (uint32_t)count, .slots_count = (uint32_t)(count + count / 2 + 8)};
    TRY(text_build_keep(build, count, sizeof *out->packed, &packed, err));
    TRY(text_build_keep(build, out->slots_count, sizeof *out->slots, &slots, err));
    out->packed = packed;
    out->slots = slots;
    return BERTH_OK;
}

static int32_t merge_result(const struct merges *merges, uint32_t pair)
{
    return (int32_t)(merges->packed[pair] >> (2 * ID_BITS));
}

static uint32_t merge_rank(const struct merges *merges, uint32_t pair)
{
    return merges->result_rank == NULL ? pair : merges->result_rank[merge_result(merges, pair)];
}

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left | (uint64_t)(uint32_t)right << ID_BITS;
}

static uint64_t pair_hash(uint64_t key)
{
    uint64_t hash = (key ^ key >> ID_BITS) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    return hash * 0xbf58476d1ce4e5b9u;
}

static uint32_t first_slot(const struct merges *merges, uint64_t hash)
{
    return (uint32_t)((hash >> 32) * merges->slots_count >> 32);
}

/* Finds the slot of a pair, or the free slot where its walk ends. Bits of the hash beside each index tell most other
 * pairs apart without a look at them: the usual answer, that two symbols do not merge, costs one cache miss. */
static uint32_t find_slot(const struct merges *merges, uint64_t key, uint32_t *mark)
{
    const uint64_t key_mask = ((uint64_t)1 << (2 * ID_BITS)) - 1;
    uint64_t hash = pair_hash(key);
    *mark = (uint32_t)hash & ~INDEX_MASK;
    uint32_t slot = first_slot(merges, hash);
    for (;;) {
        uint32_t entry = merges->slots[slot];
        if (entry == 0 ||
            ((entry & ~INDEX_MASK) == *mark && (merges->packed[(entry & INDEX_MASK) - 1] & key_mask) == key)) {
            return slot;
        }
        slot = slot + 1 == merges->slots_count ? 0 : slot + 1;
    }
}

void merges_expect(const struct merges *merges, int32_t left, int32_t right)
{
    __builtin_prefetch(&merges->slots[first_slot(merges, pair_hash(pair_key(left, right)))]);
}

void merges_add(struct merges *merges, uint32_t index, int32_t left, int32_t right, int32_t result, bool replace)
{
    uint64_t key = pair_key(left, right);
    uint32_t mark;
    uint32_t slot = find_slot(merges, key, &mark);
    merges->packed[index] = key | (uint64_t)(uint32_t)result << (2 * ID_BITS);
    if (merges->slots[slot] == 0 || replace) {
        merges->slots[slot] = mark | (index + 1);
    }
}

static uint32_t find_pair(const struct merges *merges, int32_t left, int32_t right)
{
    uint32_t mark;
    uint32_t slot = find_slot(merges, pair_key(left, right), &mark);
    return merges->slots[slot] == 0 ? NO_PAIR : (merges->slots[slot] & INDEX_MASK) - 1;
}

/* A heap entry is rank << 32 | position: its order is the order of merging. */
static void heap_push(uint64_t *heap, uint32_t *count, uint64_t entry)
{
    uint32_t at = (*count)++;
    while (at > 0 && heap[(at - 1) / 2] > entry) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

static uint64_t heap_pop(uint64_t *heap, uint32_t *count)
{
    uint64_t top = heap[0];
    uint64_t last = heap[--*count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= *count) {
            break;
        }
        child += child + 1 < *count && heap[child + 1] < heap[child] ? 1u : 0u;
        if (heap[child] >= last) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* Most pieces are a word: no heap, no links; looks through all pairs for each merge. */
static uint32_t apply_small(const struct merges *merges, struct merge_symbol *symbols, uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count; i++) {
        symbols[i].pair = find_pair(merges, symbols[i].id, symbols[i + 1].id);
    }
    while (count > 1) {
        uint32_t best = NO_PAIR;
        uint32_t best_rank = UINT32_MAX;
        for (uint32_t i = 0; i + 1 < count; i++) {
            if (symbols[i].pair != NO_PAIR) {
                uint32_t rank = merge_rank(merges, symbols[i].pair);
                if (best == NO_PAIR || rank < best_rank) {
                    best = i;
                    best_rank = rank;
                }
            }
        }
        if (best == NO_PAIR) {
            break;
        }
        symbols[best].id = merge_result(merges, symbols[best].pair);
        count--;
        memmove(&symbols[best + 1], &symbols[best + 2], (count - best - 1) * sizeof *symbols);
        symbols[best].pair = best + 1 < count ? find_pair(merges, symbols[best].id, symbols[best + 1].id) : NO_PAIR;
        if (best > 0) {
            symbols[best - 1].pair = find_pair(merges, symbols[best - 1].id, symbols[best].id);
        }
    }
    return count;
}

struct merging {
    const struct merges *merges;
    struct merge_symbol *symbols;
    uint64_t *heap;
    uint32_t symbols_count;
    uint32_t heap_count;
};

static void look_at_pair(struct merging *m, uint32_t at)
{
    struct merge_symbol *symbol = &m->symbols[at];
    symbol->pair =
        symbol->next < m->symbols_count ? find_pair(m->merges, symbol->id, m->symbols[symbol->next].id) : NO_PAIR;
    if (symbol->pair != NO_PAIR) {
        assert(m->heap_count < 2 * m->symbols_count);
        heap_push(m->heap, &m->heap_count, (uint64_t)merge_rank(m->merges, symbol->pair) << 32 | at);
    }
}

static void merge_at(struct merging *m, uint32_t at)
{
    struct merge_symbol *symbol = &m->symbols[at];
    struct merge_symbol *gone = &m->symbols[symbol->next];
    symbol->id = merge_result(m->merges, symbol->pair);
    symbol->next = gone->next;
    gone->id = VOCAB_NONE;
    gone->pair = NO_PAIR;
    if (symbol->next < m->symbols_count) {
        m->symbols[symbol->next].prev = at;
    }
    if (symbol->prev != UINT32_MAX) {
        look_at_pair(m, symbol->prev);
    }
    look_at_pair(m, at);
}

uint32_t merges_apply(const struct merges *merges, struct merge_symbol *symbols, uint32_t count, uint64_t *heap)
{
    if (count <= SMALL_PIECE) {
        return apply_small(merges, symbols, count);
    }
    struct merging m = {.merges = merges, .symbols = symbols, .heap = heap, .symbols_count = count};
    for (uint32_t i = 0; i < count; i++) {
        symbols[i].next = i + 1;
        symbols[i].prev = i == 0 ? UINT32_MAX : i - 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        look_at_pair(&m, i);
    }
    while (m.heap_count > 0) {
        uint64_t top = heap_pop(heap, &m.heap_count);
        uint32_t at = (uint32_t)top;
        /* An entry whose pair has changed meanwhile is stale: its place was queued again with the new rank. */
        if (symbols[at].pair != NO_PAIR && merge_rank(merges, symbols[at].pair) == (uint32_t)(top >> 32)) {
            merge_at(&m, at);
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i = symbols[i].next) {
        symbols[kept++].id = symbols[i].id;
    }
    return kept;
}
