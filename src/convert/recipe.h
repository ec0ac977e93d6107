/* SPDX-License-Identifier: MIT
 *
 * Which matrix gets which element format. A recipe is what users of llama.cpp know by its name: one format for all
 * matrices (q8_0), or a mix that spends more bits on the tensors that hurt most (q4_k_m). The rules read tensor names
 * of GGUF files, so that they serve a family's plan and a file of an unknown architecture alike.
 */
#ifndef CONVERT_RECIPE_H
#define CONVERT_RECIPE_H

#include "base/error.h"
#include "quant/quant.h"

struct recipe_rule;

struct convert_recipe {
    const char *name;   /* "q4_k_m" */
    enum dtype base;    /* what no rule speaks about */
    uint32_t file_type; /* general.file_type */
    enum dtype head;    /* of the matrix that makes the logits: output, or the embedding where it serves as both */
    const struct recipe_rule *rules; /* in order, the first that matches decides; ends at part NULL */
};

/* "q4_k_m", any case; NULL: no such recipe. */
const struct convert_recipe *convert_recipe_find(struct str name);
/* All matrices in one format; NULL: it cannot be written. */
const struct convert_recipe *convert_recipe_plain(enum dtype type);
/* Row i; NULL past the last. */
const struct convert_recipe *convert_recipe_row(uint32_t i);

/* The model that a tensor belongs to. */
struct recipe_model {
    uint32_t layers, experts;
    uint32_t query_groups; /* heads / kv_heads */
    bool tied;             /* the embedding makes the logits */
};
/* Formats that the user gives to tensors by name, before any rule: "PART=TYPE,PART=TYPE". The first PART that occurs in
 * a tensor's name decides; TYPE is a format's name. Refuses a list that is malformed, or a format without a writer. */
berth_status convert_check_overrides(const char *overrides, berth_error *err);
/* The PART of the next item of a checked list, which moves on; false: the list is over. */
bool convert_override_part(const char **overrides, struct str *part);
bool convert_override_fits(struct str part, struct str name);

/* Format for the matrix of this GGUF name with rows of k values. *fell_back: the block of the wanted format does not
 * divide the row, and another one was taken. overrides: NULL, or a list that was checked. */
enum dtype convert_recipe_type(const struct convert_recipe *recipe, const char *overrides,
                               const struct recipe_model *model, struct str name, uint64_t k, bool *fell_back);

#endif
