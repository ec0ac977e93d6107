/* SPDX-License-Identifier: MIT
 *
 * What convert will write: the output tensors in file order, and beside each where its values come from. Made from
 * headers alone; nothing is read or written here.
 */
#ifndef CONVERT_PLAN_H
#define CONVERT_PLAN_H

#include "convert/gguf_write.h"
#include "convert/recipe.h"
#include "family/family.h"
#include "memory/arena.h"

enum convert_source {
    SOURCE_TENSOR = 0,   /* one stored tensor */
    SOURCE_EXPERTS,      /* one stored tensor an expert, stacked in order of the experts */
    SOURCE_ROPE_FACTORS, /* computed from hparams */
    SOURCE_RANDOM        /* drawn */
};

struct convert_item {
    enum convert_source source;
    const struct tensor *tensor; /* SOURCE_TENSOR */
    enum role role;              /* SOURCE_EXPERTS, SOURCE_RANDOM; with `layer` */
    uint32_t layer;
    uint64_t rows, k; /* the whole tensor as [rows][k] along which blocks lie; vectors from a checkpoint: [n][1] */
    uint32_t permute; /* rows of a head whose halves are interleaved; 0: none */
    /* Two matrices whose rows alternate in one stored tensor (gate and up of gpt-oss): this is every row_step-th row
     * from row_first on. 0: all rows. Not together with permute. */
    uint32_t row_step, row_first;
};

struct convert_plan {
    struct gguf_tensor *tensors; /* [count] */
    struct convert_item *items;  /* [count] */
    uint32_t count, cap;
    uint64_t bytes;            /* of all tensors */
    const char *fallback_type; /* format of the first of them */
    uint32_t fallbacks;        /* matrices written in another format because the block does not divide their rows */
    const char *fallback_at;   /* the first of them */
};

/* Where the tensors of a family come from: a checkpoint, or (checkpoint NULL) the generator. */
struct convert_model {
    const struct family *family;
    const struct hparams *hparams;
    const struct checkpoint *checkpoint;
    bool qkv_bias; /* generator: draw the optional biases */
};

/* All tensors of a model, in the order of enum role. Names and arrays are taken from `arena`. */
berth_status convert_plan_family(struct arena *arena, const struct convert_model *model,
                                 const struct convert_recipe *recipe, const char *overrides, struct convert_plan *out,
                                 berth_error *err);
/* All tensors of a GGUF checkpoint, in the order in which they lie in its files. */
berth_status convert_plan_copy(struct arena *arena, const struct checkpoint *checkpoint,
                               const struct convert_recipe *recipe, const char *overrides, struct convert_plan *out,
                               berth_error *err);

#endif
