/* SPDX-License-Identifier: MIT
 *
 * How a tokenizer is built: the same code runs on a measuring arena and on a carving one. What stays comes from
 * build_keep(); while measuring it is counted in the arena and lives in `temp`, so that sizes which only the finished
 * work can tell (compiled patterns, merges derived from scores) are counted exactly.
 */
#ifndef TEXT_BUILD_H
#define TEXT_BUILD_H

#include "base/str.h"
#include "memory/arena.h"

struct build {
    struct arena *arena;
    struct arena *temp;
    uint64_t text_bytes_max;
};

/* Zeroed memory, count x bytes; *out is never NULL on success. */
berth_status build_keep(const struct build *build, uint64_t count, uint64_t bytes, void **out, berth_error *err);
berth_status build_temp(const struct build *build, uint64_t count, uint64_t bytes, void **out, berth_error *err);
/* A kept copy of a string. */
berth_status build_copy(const struct build *build, struct str from, struct str *out, berth_error *err);

#endif
