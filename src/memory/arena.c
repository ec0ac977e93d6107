/* SPDX-License-Identifier: MIT */
#include "memory/arena.h"

#include <assert.h>

#include "base/checked.h"

void arena_measure(struct arena *arena)
{
    *arena = (struct arena){.cap_bytes = UINT64_MAX};
}

void arena_carve(struct arena *arena, void *base, uint64_t cap_bytes)
{
    assert(base != NULL);
    *arena = (struct arena){.base = base, .cap_bytes = cap_bytes};
}

void *arena_take(struct arena *arena, uint64_t count, uint64_t bytes, uint64_t align)
{
    align = align == 0 ? ARENA_ALIGN : align;
    assert((align & (align - 1)) == 0 && align <= 4096);
    uint64_t total;
    uint64_t start;
    uint64_t end;
    if (arena->failed || u64_mul_overflows(count, bytes, &total) ||
        u64_round_up_overflows(arena->used_bytes, align, &start) || u64_add_overflows(start, total, &end) ||
        end > arena->cap_bytes) {
        arena->failed = true;
        return NULL;
    }
    arena->used_bytes = end;
    arena->peak_bytes = end > arena->peak_bytes ? end : arena->peak_bytes;
    return arena->base == NULL ? NULL : arena->base + start;
}

berth_status arena_check(const struct arena *arena, const char *what, berth_error *err)
{
    if (!arena->failed) {
        return BERTH_OK;
    }
    if (arena_is_measuring(arena)) {
        return error_set(err, BERTH_ERR_LIMIT, "%s: the sizes in the file add up to more than 64 bits", what);
    }
    return error_set(err, BERTH_ERR_LIMIT, "%s: needs more than the %llu bytes set aside for it", what,
                     (unsigned long long)arena->cap_bytes);
}

void arena_rewind(struct arena *arena, uint64_t mark)
{
    assert(mark <= arena->used_bytes);
    arena->used_bytes = mark;
}
