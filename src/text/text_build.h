/* SPDX-License-Identifier: MIT
 *
 * How a tokenizer is built: the same code runs on a measuring arena and on a carving one. What stays comes from
 * text_build_keep(); while measuring it is counted in the arena and lives in `temp`, so that sizes which only the
 * finished work can tell (compiled patterns, merges derived from scores) are counted exactly.
 */
#ifndef TEXT_TEXT_BUILD_H
#define TEXT_TEXT_BUILD_H

#include "base/str.h"
#include "memory/arena.h"

struct text_build {
    struct arena *arena;
    struct arena *temp;
};

/* Zeroed memory, count x bytes; *out is never NULL on success. */
berth_status text_build_keep(const struct text_build *build, uint64_t count, uint64_t bytes, void **out,
                             berth_error *err);
berth_status text_build_temp(const struct text_build *build, uint64_t count, uint64_t bytes, void **out,
                             berth_error *err);
/* A kept copy of a string. */
berth_status text_build_copy(const struct text_build *build, struct str from, struct str *out, berth_error *err);

#endif
