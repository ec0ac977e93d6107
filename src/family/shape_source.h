/* SPDX-License-Identifier: MIT
 * Where a shape is read from: the members of config.json (text_config first, when there is one), or GGUF metadata under
 * "<arch>.". Absent and null are the same; a value of the wrong type or out of range is an error that names the key,
 * what it is and what is wanted. */
#ifndef FAMILY_SHAPE_SOURCE_H
#define FAMILY_SHAPE_SOURCE_H

#include "memory/arena.h"
#include "model/json.h"
#include "model/meta.h"

/* One quantity: its spellings in config.json (first found wins) and its GGUF suffix; NULL: it has none there. */
struct shape_key {
    const char *hf[5];
    const char *gguf;
    uint32_t max;
};

struct shape_member {
    struct str key;
    struct json value;
};

struct shape_source {
    const struct meta *meta;               /* NULL: config.json */
    struct str arch;                       /* GGUF */
    struct shape_member *members, *nested; /* top level; text_config, or NULL */
    uint32_t members_count, nested_count;
    const char *path;
    berth_error *err;
};

enum { SHAPE_MEMBERS_MAX = 4096 };

/* config_json must be one JSON object. */
berth_status source_open_json(struct shape_source *source, struct str config_json, struct arena *arena);

/* config.json only. The value's first token; false: absent or null. */
bool source_find(const struct shape_source *source, const char *key, struct json *value);
/* A member of an object that source_find() found; false: absent or null. */
bool source_inside(const struct json *object, const char *key, struct json *value);

/* One number for the model; a list is an error. */
berth_status source_u32(const struct shape_source *source, const struct shape_key *key, uint32_t otherwise,
                        uint32_t *out);
/* The largest of a number for each layer, or one number for all. */
berth_status source_most(const struct shape_source *source, const struct shape_key *key, uint32_t *out);
/* Whether the value is a list, its items, and the name it goes by. */
bool source_is_list(const struct shape_source *source, const struct shape_key *key, uint64_t *items, const char **name);
/* Whether the file itself says that the number is 0. */
bool source_says_zero(const struct shape_source *source, const struct shape_key *key);
/* A number for each of `count` layers: a list, or one number for all. *found false: out untouched. A longer list is
 * allowed (blocks beyond the last layer), a shorter one is an error. */
berth_status source_list(const struct shape_source *source, const struct shape_key *key, uint32_t count, uint32_t *out,
                         bool *found);
berth_status source_bool(const struct shape_source *source, const char *hf, bool *out);
/* Whether config.json has the key in any spelling, be it null. */
bool source_mentions(const struct shape_source *source, const struct shape_key *key);
/* The name the reader gives in errors. */
const char *source_name(const struct shape_source *source, const struct shape_key *key);
/* The number of a JSON value, whole and from 0 to max. */
berth_status source_json_u32(const struct shape_source *source, const char *key, const struct json *value, uint32_t max,
                             uint32_t *out);
berth_status source_wrong(const struct shape_source *source, const char *key, const struct json *value,
                          const char *wanted);

#endif
