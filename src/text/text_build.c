/* SPDX-License-Identifier: MIT */
#include "text/text_build.h"

static berth_status take(struct arena *arena, uint64_t count, uint64_t bytes, void **out, berth_error *err)
{
    void *place = arena_take(arena, count, bytes, 0);
    TRY(arena_check(arena, "tokenizer", err));
    if (place == NULL) {
        return error_set(err, BERTH_ERR_INTERNAL, "tokenizer: the scratch arena must be a carving one");
    }
    memset(place, 0, (size_t)(count * bytes));
    *out = place;
    return BERTH_OK;
}

berth_status text_build_keep(const struct text_build *build, uint64_t count, uint64_t bytes, void **out,
                             berth_error *err)
{
    if (!arena_is_measuring(build->arena)) {
        return take(build->arena, count, bytes, out, err);
    }
    (void)arena_take(build->arena, count, bytes, 0);
    TRY(arena_check(build->arena, "tokenizer", err));
    return take(build->temp, count, bytes, out, err);
}

berth_status text_build_temp(const struct text_build *build, uint64_t count, uint64_t bytes, void **out,
                             berth_error *err)
{
    return take(build->temp, count, bytes, out, err);
}

berth_status text_build_copy(const struct text_build *build, struct str from, struct str *out, berth_error *err)
{
    void *place;
    TRY(text_build_keep(build, from.bytes, 1, &place, err));
    if (from.bytes != 0) {
        memcpy(place, from.ptr, from.bytes);
    }
    *out = (struct str){place, from.bytes};
    return BERTH_OK;
}
