/* SPDX-License-Identifier: MIT
 * How the dialects of config.json are read (docs/seeds.md). A dialect is chosen by model_type alone. */
#ifndef FIT_SEED_CONFIG_H
#define FIT_SEED_CONFIG_H

#include "fit/seed_read.h"

struct seed_parse {
    struct seed_scope top, text; /* `text` is text_config when there is one */
    struct arena arena;
    berth_fit_config *out;
    struct str generation_json; /* generation_config.json, empty: absent */
    berth_error *err;
};

enum {
    SEED_ROPE_MAX = 16,
    SEED_ARCHITECTURES_MAX = 64,
    SEED_TOKENS_MAX = 1024,
};

berth_status seed_parse_glm(struct seed_parse *parse);

/* Sets a number and marks it as there; seed_unset() marks it absent. */
void seed_set(berth_fit_config *config, berth_fit_field field, double value);
void seed_unset(berth_fit_config *config, berth_fit_field field);
/* layer_types = `count` times full attention. */
berth_status seed_all_full(struct seed_parse *parse, double count);
/* Room for one entry of the rope map. */
berth_status seed_one_rope(struct seed_parse *parse, double theta, berth_text type, double partial);
berth_status seed_bos_and_eos(struct seed_parse *parse);

#define SEED_TEXT(literal) ((berth_text){(literal), sizeof(literal) - 1})

#endif
