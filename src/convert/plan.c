/* SPDX-License-Identifier: MIT
 * Type rule: vectors and routers F32, matrices as the recipe says. In a GGUF file, where roles may be unknown, what is
 * not a matrix or must stay exact keeps its stored type. */
#include "convert/plan.h"

#include <stdio.h>

#include "base/sort.h"

static char *name_copy(struct arena *arena, const char *text, size_t bytes)
{
    char *copy = arena_take(arena, bytes + 1, 1, 1);
    if (copy != NULL) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

/* The GGUF name of a row: our own literals with at most one %u. */
static size_t gguf_name(const struct tensor_row *row, uint32_t layer, char *buffer, size_t cap)
{
    const char *number = strstr(row->gguf, "%u");
    int bytes = number == NULL ? snprintf(buffer, cap, "%s", row->gguf)
                               : snprintf(buffer, cap, "%.*s%u%s", (int)(number - row->gguf), row->gguf,
                                          (unsigned)layer, number + 2);
    return bytes < 0 || (size_t)bytes >= cap ? 0 : (size_t)bytes;
}

static berth_status plan_reserve(struct arena *arena, uint64_t cap, struct convert_plan *out, berth_error *err)
{
    *out = (struct convert_plan){0};
    if (cap > TENSORS_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "the result would have %llu tensors, at most %d are allowed",
                         (unsigned long long)cap, TENSORS_MAX);
    }
    out->cap = (uint32_t)cap;
    out->tensors = ARENA_NEW(arena, struct gguf_tensor, cap);
    out->items = ARENA_NEW(arena, struct convert_item, cap);
    return arena_check(arena, "convert: tensor list", err);
}

/* What the plans of one model are made with. */
struct planner {
    struct arena *arena;
    const struct convert_recipe *recipe;
    const char *overrides;
    struct recipe_model shape;
    struct convert_plan *plan;
};

/* Type for a matrix of row length k; counts the fallback. `name` ends with a NUL. */
static enum dtype matrix_type(const struct planner *p, struct str name, uint64_t k)
{
    bool fell_back = false;
    enum dtype type = convert_recipe_type(p->recipe, p->overrides, &p->shape, name, k, &fell_back);
    if (fell_back) {
        p->plan->fallback_type = p->plan->fallbacks == 0 ? quant_row(type)->name : p->plan->fallback_type;
        p->plan->fallback_at = p->plan->fallbacks++ == 0 ? name.ptr : p->plan->fallback_at;
    }
    return type;
}

static berth_status plan_add(struct convert_plan *plan, struct gguf_tensor tensor, struct convert_item item,
                             berth_error *err)
{
    uint64_t elems = 1;
    for (uint32_t d = 0; d < tensor.dims_count; d++) {
        if (__builtin_mul_overflow(elems, tensor.dims[d], &elems)) {
            elems = UINT64_MAX; /* refused by the block check below or as too large */
            break;
        }
    }
    if (plan->count == plan->cap || elems == UINT64_MAX || !quant_row_bytes(tensor.dtype, elems, &tensor.bytes) ||
        __builtin_add_overflow(plan->bytes, tensor.bytes, &plan->bytes)) {
        error_set(err, BERTH_ERR_LIMIT, "the shape of this tensor is not a whole number of blocks, or too large");
        error_at_object(err, tensor.name.ptr, tensor.name.bytes);
        return BERTH_ERR_LIMIT;
    }
    plan->tensors[plan->count] = tensor;
    plan->items[plan->count] = item;
    plan->count++;
    return BERTH_OK;
}

/* ---- a family's tensors ------------------------------------------------------------------------------- */

/* Whether the generator draws a row; a checkpoint answers for itself. */
static bool random_has(const struct convert_model *model, const struct tensor_row *row, uint32_t layer)
{
    const struct hparams *h = model->hparams;
    if (((row->flags & TENSOR_MOE_ONLY) != 0 && h->layer_moe[layer] == 0) ||
        ((row->flags & TENSOR_DENSE_ONLY) != 0 && h->layer_moe[layer] != 0)) {
        return false;
    }
    if (row->role == ROLE_HEAD) {
        return !h->tied_embeddings;
    }
    if (row->role == ROLE_Q_BIAS || row->role == ROLE_K_BIAS || row->role == ROLE_V_BIAS) {
        return model->qkv_bias;
    }
    if (row->role >= ROLE_SHARED_ROUTER && row->role <= ROLE_SHARED_DOWN) {
        return h->shared_ffn > 0;
    }
    return (row->flags & TENSOR_OPTIONAL) == 0;
}

/* Finds the source of a row in this model: *present false when it has none. */
static berth_status find_source(const struct convert_model *model, const struct tensor_row *row, uint32_t layer,
                                struct convert_item *item, bool *present, berth_error *err)
{
    *item = (struct convert_item){.source = SOURCE_RANDOM, .role = row->role, .layer = layer};
    if (model->checkpoint == NULL) {
        *present = random_has(model, row, layer);
        return BERTH_OK;
    }
    if (row->role == ROLE_ROPE_FACTORS) {
        item->source = SOURCE_ROPE_FACTORS;
        *present = model->hparams->rope_scaling == ROPE_SCALING_LLAMA3;
        return BERTH_OK;
    }
    *present = false;
    if (row->role == ROLE_HEAD && model->hparams->tied_embeddings) {
        return BERTH_OK;
    }
    TRY(family_tensor(model->family, model->checkpoint, model->hparams, row->role, layer, 0, &item->tensor, err));
    *present = item->tensor != NULL;
    bool apart = role_is_expert(row->role) && *present && !tensor_is_stacked(item->tensor);
    item->source = apart ? SOURCE_EXPERTS : SOURCE_TENSOR;
    return BERTH_OK;
}

static berth_status plan_row(const struct planner *p, const struct convert_model *model, const struct tensor_row *row,
                             uint32_t layer, berth_error *err)
{
    const struct hparams *h = model->hparams;
    struct convert_item item;
    bool present = false;
    TRY(find_source(model, row, layer, &item, &present, err));
    if (!present) {
        return BERTH_OK;
    }
    char buffer[TENSOR_NAME_MAX];
    size_t bytes = gguf_name(row, layer, buffer, sizeof buffer);
    char *name = name_copy(p->arena, buffer, bytes);
    TRY(arena_check(p->arena, "convert: tensor names", err));
    struct gguf_tensor tensor = {.name = {name, bytes}};
    if (role_is_expert(row->role)) {
        tensor.dims[tensor.dims_count++] = h->experts;
    }
    /* [1][hidden] is stored as [hidden], as vectors are */
    if (row->dims[0] != DIM_ONE) {
        tensor.dims[tensor.dims_count++] = family_dim(h, row->dims[0]);
    }
    bool vector = (row->flags & TENSOR_VECTOR) != 0;
    if (!vector) {
        tensor.dims[tensor.dims_count++] = family_dim(h, row->dims[1]);
    }
    item.rows = family_dim(h, row->dims[0]) * (role_is_expert(row->role) ? h->experts : 1);
    item.k = vector ? 1 : family_dim(h, row->dims[1]);
    tensor.dtype = vector || (row->flags & TENSOR_ROUTER) != 0 ? DTYPE_F32 : matrix_type(p, tensor.name, item.k);
    item.permute = (row->flags & TENSOR_PERMUTE) != 0 && model->checkpoint != NULL ? h->head_dim : 0;
    if (item.permute != 0 && h->rotary_dim != h->head_dim) {
        error_set(err, BERTH_ERR_UNSUPPORTED,
                  "only %u of %u dimensions of a head rotate; GGUF has no row order for that in this family",
                  h->rotary_dim, h->head_dim);
        error_at_object(err, name, bytes);
        return BERTH_ERR_UNSUPPORTED;
    }
    return plan_add(p->plan, tensor, item, err);
}

berth_status convert_plan_family(struct arena *arena, const struct convert_model *model,
                                 const struct convert_recipe *recipe, const char *overrides, struct convert_plan *out,
                                 berth_error *err)
{
    const struct hparams *h = model->hparams;
    const struct planner p = {.arena = arena,
                              .recipe = recipe,
                              .overrides = overrides,
                              .shape = {.layers = h->layers,
                                        .experts = h->experts,
                                        .query_groups = h->kv_heads == 0 ? 1 : h->heads / h->kv_heads,
                                        .tied = h->tied_embeddings},
                              .plan = out};
    uint64_t cap = ROLE_ATTN_NORM + (uint64_t)model->hparams->layers * (ROLE_COUNT - ROLE_ATTN_NORM);
    TRY(plan_reserve(arena, cap, out, err));
    for (int role = 0; role < ROLE_ATTN_NORM; role++) {
        const struct tensor_row *row = family_row(model->family, (enum role)role);
        if (row != NULL) {
            TRY(plan_row(&p, model, row, 0, err));
        }
    }
    for (uint32_t layer = 0; layer < model->hparams->layers; layer++) {
        for (int role = ROLE_ATTN_NORM; role < ROLE_COUNT; role++) {
            const struct tensor_row *row = family_row(model->family, (enum role)role);
            if (row != NULL) {
                TRY(plan_row(&p, model, row, layer, err));
            }
        }
    }
    return BERTH_OK;
}

/* ---- a GGUF file's tensors ---------------------------------------------------------------------------- */

/* Matrices by shape that must not be rounded: routers and small state of recurrent blocks. */
static bool keeps_type(const struct tensor *tensor)
{
    static const char *const exact[] = {".ffn_gate_inp", "_norm.", ".ssm_", ".shortconv", "rope_", ".exp_probs_b"};
    if (tensor->dims_count < 2 || !str_ends(tensor->name, STR(".weight"))) {
        return true;
    }
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        size_t bytes = strlen(exact[i]);
        for (size_t at = 0; at + bytes <= tensor->name.bytes; at++) {
            if (memcmp(tensor->name.ptr + at, exact[i], bytes) == 0) {
                return true;
            }
        }
    }
    return tensor->dtype >= DTYPE_F64 && tensor->dtype <= DTYPE_BOOL; /* numbers, not weights */
}

static int by_place(const void *user, uint32_t a, uint32_t b)
{
    const struct tensor *items = user;
    if (items[a].file != items[b].file) {
        return items[a].file < items[b].file ? -1 : 1;
    }
    return items[a].offset == items[b].offset ? 0 : items[a].offset < items[b].offset ? -1 : 1;
}

/* A number of the file's architecture; 0: not stated. */
static uint32_t arch_number(const struct checkpoint *checkpoint, const char *suffix)
{
    struct str arch;
    char key[160];
    uint64_t value = 0;
    if (!meta_str(&checkpoint->meta, STR("general.architecture"), &arch) || arch.bytes > 64) {
        return 0;
    }
    (void)snprintf(key, sizeof key, "%.*s.%s", STR_ARG(arch), suffix);
    return meta_u64(&checkpoint->meta, str_from(key), &value) && value <= UINT32_MAX ? (uint32_t)value : 0;
}

berth_status convert_plan_copy(struct arena *arena, const struct checkpoint *checkpoint,
                               const struct convert_recipe *recipe, const char *overrides, struct convert_plan *out,
                               berth_error *err)
{
    const struct tensor_dir *dir = &checkpoint->tensors;
    uint32_t kv_heads = arch_number(checkpoint, "attention.head_count_kv");
    const struct planner p = {
        .arena = arena,
        .recipe = recipe,
        .overrides = overrides,
        .shape = {.layers = arch_number(checkpoint, "block_count"),
                  .experts = arch_number(checkpoint, "expert_count"),
                  .query_groups = kv_heads == 0 ? 1 : arch_number(checkpoint, "attention.head_count") / kv_heads,
                  .tied = tensor_find(dir, STR("output.weight")) == NULL},
        .plan = out};
    TRY(plan_reserve(arena, dir->count, out, err));
    uint32_t *order = ARENA_NEW(arena, uint32_t, dir->count);
    uint32_t *spare = ARENA_NEW(arena, uint32_t, dir->count);
    TRY(arena_check(arena, "convert: tensor order", err));
    sort_order(order, spare, dir->count, by_place, dir->items);
    for (uint32_t i = 0; i < dir->count; i++) {
        const struct tensor *source = &dir->items[order[i]];
        char *name = name_copy(arena, source->name.ptr, source->name.bytes);
        TRY(arena_check(arena, "convert: tensor names", err));
        struct convert_item item = {.source = SOURCE_TENSOR, .tensor = source};
        struct gguf_tensor tensor = {.name = {name, source->name.bytes}, .dims_count = source->dims_count};
        memcpy(tensor.dims, source->dims, sizeof tensor.dims);
        item.k = source->dims_count == 0 ? 1 : source->dims[source->dims_count - 1];
        item.rows = item.k == 0 ? 0 : tensor_elems(source) / item.k;
        tensor.dtype = keeps_type(source) ? source->dtype : matrix_type(&p, tensor.name, item.k);
        TRY(plan_add(out, tensor, item, err));
    }
    return BERTH_OK;
}
