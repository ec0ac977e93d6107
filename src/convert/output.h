/* SPDX-License-Identifier: MIT
 * The part that every conversion ends with: place the tensors, check the destination, stream, put in place. */
#ifndef CONVERT_OUTPUT_H
#define CONVERT_OUTPUT_H

#include "convert/stream.h"

struct convert_output {
    const char *path;
    bool overwrite;
    const struct convert_config *config;
    const struct convert_recipe *recipe;
    struct arena *scratch; /* carving */
    struct convert_plan *plan;
    const struct gguf_meta *meta;
    const struct convert_model *model;   /* as in struct stream_job */
    const struct checkpoint *checkpoint; /* the same */
    convert_draw_fn *draw;
    void *draw_user;
};

/* Refuses a config outside its documented ranges; the recipe that it asks for. */
berth_status convert_check_config(const struct convert_config *config, const struct convert_recipe **recipe,
                                  berth_error *err);

/* Address space for headers and lists: large, touched only as used. Release with os_release(). */
berth_status convert_reserve_scratch(struct arena *scratch, berth_error *err);

/* A metadata buffer of `cap_bytes` from scratch. */
berth_status convert_take_meta(struct arena *scratch, uint64_t cap_bytes, struct gguf_meta *meta, berth_error *err);

/* general.* and the architecture's own keys. */
berth_status convert_general_meta(const struct convert_model *model, const char *name,
                                  const struct convert_recipe *recipe, struct arena *scratch, struct gguf_meta *meta,
                                  berth_error *err);

berth_status convert_write(const struct convert_output *output, berth_error *err);

#endif
