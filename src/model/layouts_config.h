/* SPDX-License-Identifier: MIT
 * Private to the model room: what config.json says about quantised matrices, read once. A release has tens of thousands
 * of them, and its configuration may have a member for each. */
#ifndef MODEL_LAYOUTS_CONFIG_H
#define MODEL_LAYOUTS_CONFIG_H

#include "memory/arena.h"
#include "model/json.h"
#include "quant/packed.h"

enum layouts_key { LAYOUTS_BITS, LAYOUTS_GROUP, LAYOUTS_MODE, LAYOUTS_KEYS };

struct layouts_module;

/* "quantization" (MLX) or "quantization_config": values for all modules, and objects with those of single ones (false
 * in the place of one: not quantised). */
struct layouts_section {
    bool has[LAYOUTS_KEYS];
    struct json value[LAYOUTS_KEYS];
    const struct layouts_module *modules; /* [modules_count] */
    uint32_t modules_count;
    const uint32_t *table; /* places of modules plus one by hash of the name; NULL: there are none */
    uint32_t table_mask;
};

struct layouts_config {
    struct layouts_section sections[2];
    uint64_t tile[2]; /* weight_block_size; 128 x 128 where nothing is said */
    bool is_tile_sound;
    const char *fp8_fault; /* "fmt" or "activation_scheme" is none that there is; NULL: neither */
};

/* What is found stays in the arena. */
berth_status layouts_config_read(struct layouts_config *out, struct str config, struct arena *arena, berth_error *err);
/* A setting of this module, or of all of them: the first that there is. null is none; LAYOUTS_WRONG: it is no whole
 * number, or the module's entry no object, and *wrong is its text. */
enum layouts_found { LAYOUTS_ABSENT, LAYOUTS_NUMBER, LAYOUTS_WRONG };
enum layouts_found layouts_config_number(const struct layouts_config *config, struct str module, enum layouts_key key,
                                         uint64_t *out, struct str *wrong);
/* What the scales of this module are: "mode" of the module, or of all of them. False: none that is known. */
bool layouts_config_kind(const struct layouts_config *config, struct str module, enum packed_kind *out);

#endif
