/* SPDX-License-Identifier: MIT */
#include "forward/weights.h"

#include "base/checked.h"
#include "base/sort.h"
#include "model/layouts.h"

struct binder {
    struct arena *weights, *tables;
    const struct family *family;
    const struct checkpoint *checkpoint;
    const struct hparams *hparams;
    const bool *has_kernel;
    struct trunk *out;
    berth_error *err;
};

static berth_status no_kernel(const struct binder *b, const struct tensor *tensor)
{
    const char *companion = tensor->side == NULL ? layouts_companion(tensor->dtype) : NULL;
    if (companion != NULL) {
        error_set(b->err, BERTH_ERR_FORMAT, "tensor %.*s is stored as %s, but there is no %s beside it",
                  STR_ARG(tensor->name), quant_row(tensor->dtype)->name, companion);
        error_at_path(b->err, b->checkpoint->files[tensor->file].path);
        error_at_object(b->err, tensor->name.ptr, tensor->name.bytes);
        return BERTH_ERR_FORMAT;
    }
    error_set(b->err, BERTH_ERR_UNSUPPORTED, "tensor %.*s is stored as %s, which this version cannot compute with yet",
              STR_ARG(tensor->name), quant_row(tensor->dtype)->name);
    error_at_path(b->err, b->checkpoint->files[tensor->file].path);
    error_at_object(b->err, tensor->name.ptr, tensor->name.bytes);
    return BERTH_ERR_UNSUPPORTED;
}

static void note_read(struct binder *b, const struct tensor *tensor, enum role role, uint32_t layer, void *to,
                      bool widen)
{
    struct trunk *out = b->out;
    if (!arena_is_measuring(b->tables)) {
        out->reads[out->reads_count] = (struct trunk_read){.to = to,
                                                           .offset = tensor->offset,
                                                           .bytes = tensor->bytes,
                                                           .elems = tensor_elems(tensor),
                                                           .file = tensor->file,
                                                           .layer = (uint16_t)layer,
                                                           .role = (uint8_t)role,
                                                           .dtype = (uint8_t)tensor->dtype,
                                                           .widen = widen};
    }
    out->reads_count++;
    out->stored_bytes += tensor->bytes;
}

/* Scales or biases, in the format of the file. */
static const void *note_side(struct binder *b, const struct tensor *side, enum role role, uint32_t layer)
{
    if (side->bytes == 0) {
        return NULL;
    }
    void *data = arena_take(b->weights, 1, side->bytes, 0);
    note_read(b, side, role, layer, data, false);
    if (!arena_is_measuring(b->tables)) {
        b->out->reads[b->out->reads_count - 1].scales = quant_row(side->dtype)->dequantise != NULL;
    }
    return data;
}

static uint64_t side_row_bytes(const struct tensor *scales)
{
    return scales->dims[scales->dims_count - 1] * quant_row(scales->dtype)->block_bytes;
}

static bool can_compute(const struct binder *b, const struct tensor *tensor)
{
    return b->has_kernel[tensor->dtype] && quant_row(tensor->dtype)->sided == (tensor->side != NULL);
}

static berth_status bind_floats(struct binder *b, const struct tensor *tensor, enum role role, uint32_t layer,
                                const float **out)
{
    if (quant_row(tensor->dtype)->dequantise == NULL) {
        return no_kernel(b, tensor);
    }
    float *data = ARENA_NEW(b->weights, float, tensor_elems(tensor));
    *out = data;
    note_read(b, tensor, role, layer, data, true);
    b->out->parameters += tensor_elems(tensor);
    return BERTH_OK;
}

static berth_status bind_scale(struct binder *b, enum role role, uint32_t layer, const float **scale)
{
    const struct tensor *tensor = NULL;
    *scale = NULL;
    TRY(family_scale(b->family, b->checkpoint, b->hparams, role, layer, &tensor, b->err));
    return tensor == NULL ? BERTH_OK : bind_floats(b, tensor, role, layer, scale);
}

static berth_status bind_matrix(struct binder *b, enum role role, uint32_t layer, struct matrix *matrix)
{
    const struct tensor *tensor = NULL;
    TRY(family_tensor(b->family, b->checkpoint, b->hparams, role, layer, 0, &tensor, b->err));
    *matrix = (struct matrix){0};
    if (tensor == NULL) {
        return BERTH_OK;
    }
    if (!can_compute(b, tensor)) {
        return no_kernel(b, tensor);
    }
    uint64_t rows = tensor->dims_count > 1 ? tensor->dims[0] : 1;
    uint64_t k = tensor->dims[tensor->dims_count - 1];
    uint64_t row_bytes = 0;
    if (!quant_row_bytes(tensor->dtype, k, &row_bytes)) {
        return no_kernel(b, tensor);
    }
    void *data = arena_take(b->weights, 1, tensor->bytes, 0);
    *matrix = (struct matrix){
        .data = data, .row_bytes = row_bytes, .rows = (uint32_t)rows, .k = (uint32_t)k, .dtype = tensor->dtype};
    note_read(b, tensor, role, layer, data, false);
    b->out->parameters += tensor_elems(tensor);
    if (tensor->side != NULL) {
        matrix->side = (struct packed_side){.format = tensor->side->format,
                                            .scales = note_side(b, &tensor->side->scales, role, layer),
                                            .biases = note_side(b, &tensor->side->biases, role, layer),
                                            .row_bytes = side_row_bytes(&tensor->side->scales)};
    }
    return bind_scale(b, role, layer, &matrix->scale);
}

static berth_status bind_vector(struct binder *b, enum role role, uint32_t layer, const float **vector)
{
    const struct tensor *tensor = NULL;
    *vector = NULL;
    TRY(family_tensor(b->family, b->checkpoint, b->hparams, role, layer, 0, &tensor, b->err));
    return tensor == NULL ? BERTH_OK : bind_floats(b, tensor, role, layer, vector);
}

static const enum role expert_roles[EXPERT_PARTS] = {ROLE_EXPERT_GATE, ROLE_EXPERT_UP, ROLE_EXPERT_DOWN};

static berth_status bind_layer(struct binder *b, uint32_t layer, struct layer_weights *w)
{
    TRY(bind_vector(b, ROLE_ATTN_NORM, layer, &w->attn_norm));
    TRY(bind_matrix(b, ROLE_Q, layer, &w->q));
    TRY(bind_vector(b, ROLE_Q_BIAS, layer, &w->q_bias));
    TRY(bind_matrix(b, ROLE_K, layer, &w->k));
    TRY(bind_vector(b, ROLE_K_BIAS, layer, &w->k_bias));
    TRY(bind_matrix(b, ROLE_V, layer, &w->v));
    TRY(bind_vector(b, ROLE_V_BIAS, layer, &w->v_bias));
    TRY(bind_vector(b, ROLE_Q_NORM, layer, &w->q_norm));
    TRY(bind_vector(b, ROLE_K_NORM, layer, &w->k_norm));
    TRY(bind_matrix(b, ROLE_O, layer, &w->o));
    TRY(bind_vector(b, ROLE_O_BIAS, layer, &w->o_bias));
    TRY(bind_vector(b, ROLE_FFN_NORM, layer, &w->ffn_norm));
    TRY(bind_matrix(b, ROLE_GATE, layer, &w->gate));
    TRY(bind_matrix(b, ROLE_UP, layer, &w->up));
    TRY(bind_matrix(b, ROLE_DOWN, layer, &w->down));
    TRY(bind_matrix(b, ROLE_ROUTER, layer, &w->router));
    TRY(bind_matrix(b, ROLE_SHARED_ROUTER, layer, &w->shared_router));
    TRY(bind_matrix(b, ROLE_SHARED_GATE, layer, &w->shared_gate));
    TRY(bind_matrix(b, ROLE_SHARED_UP, layer, &w->shared_up));
    TRY(bind_matrix(b, ROLE_SHARED_DOWN, layer, &w->shared_down));
    for (int part = 0; part < EXPERT_PARTS && b->hparams->layer_moe[layer] != 0 && !b->family->gguf_plain_experts;
         part++) {
        TRY(bind_scale(b, expert_roles[part], layer, &w->expert_scale[part]));
    }
    return BERTH_OK;
}

static int by_place(const void *user, uint32_t a, uint32_t b)
{
    const struct trunk_read *x = (const struct trunk_read *)user + a;
    const struct trunk_read *y = (const struct trunk_read *)user + b;
    if (x->file != y->file) {
        return x->file < y->file ? -1 : 1;
    }
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

berth_status trunk_layout(struct arena *weights, struct arena *tables, const struct family *family,
                          const struct checkpoint *checkpoint, const struct hparams *hparams,
                          const bool has_kernel[DTYPE_COUNT], struct trunk *out, berth_error *err)
{
    *out = (struct trunk){0};
    struct binder b = {weights, tables, family, checkpoint, hparams, has_kernel, out, err};
    bool measuring = arena_is_measuring(tables);
    out->layers = ARENA_NEW(tables, struct layer_weights, hparams->layers);
    uint64_t reads_max = ((uint64_t)hparams->layers + 1) * 3 * (uint64_t)ROLE_COUNT; /* with scales and biases */
    out->reads = ARENA_NEW(tables, struct trunk_read, reads_max);
    out->order = ARENA_NEW(tables, uint32_t, reads_max);
    uint32_t *spare = ARENA_NEW(tables, uint32_t, reads_max);
    TRY(arena_check(tables, "trunk tables", err));
    TRY(bind_matrix(&b, ROLE_EMBED, 0, &out->embed));
    TRY(bind_vector(&b, ROLE_OUT_NORM, 0, &out->out_norm));
    TRY(bind_vector(&b, ROLE_ROPE_FACTORS, 0, &out->rope_factors));
    out->head = out->embed;
    if (!hparams->tied_embeddings) {
        TRY(bind_matrix(&b, ROLE_HEAD, 0, &out->head));
    }
    uint32_t moe_index = 0;
    for (uint32_t layer = 0; layer < hparams->layers; layer++) {
        struct layer_weights w = {0};
        TRY(bind_layer(&b, layer, &w));
        w.moe = hparams->layer_moe[layer] != 0;
        w.slides = hparams->layer_slides[layer] != 0;
        w.moe_index = w.moe ? moe_index++ : 0;
        if (!measuring) {
            out->layers[layer] = w;
        }
    }
    TRY(arena_check(weights, "trunk", err));
    if (!measuring) {
        sort_order(out->order, spare, out->reads_count, by_place, out->reads);
    }
    return BERTH_OK;
}

/* This expert's part of a tensor, all of one or a share of a stacked one. */
static berth_status expert_slice_of(const struct binder *b, const struct tensor *tensor, bool stacked, uint32_t expert,
                                    struct expert_slice *slice)
{
    uint64_t bytes = stacked ? tensor->bytes / b->hparams->experts : tensor->bytes;
    if (bytes > UINT32_MAX - OS_DIRECT_ALIGN * 2) {
        error_set(b->err, BERTH_ERR_LIMIT, "one expert of tensor %.*s has %llu bytes, the limit is 4 GiB",
                  STR_ARG(tensor->name), (unsigned long long)bytes);
        return BERTH_ERR_LIMIT;
    }
    *slice = (struct expert_slice){tensor->offset + (stacked ? bytes * expert : 0), tensor->file, (uint32_t)bytes};
    return BERTH_OK;
}

/* Fills the part's slices from its tensor. */
static berth_status place_part(const struct binder *b, const struct catalog *catalog, const struct tensor *tensor,
                               uint32_t part, uint32_t moe, uint32_t expert, struct packed *packed)
{
    if (!can_compute(b, tensor)) {
        return no_kernel(b, tensor);
    }
    bool stacked = tensor_is_stacked(tensor);
    TRY(expert_slice_of(b, tensor, stacked, expert, catalog_slice(catalog, moe, expert, part)));
    *packed = (struct packed){PACKED_NONE, DTYPE_F32, 0, 0};
    for (uint32_t p = EXPERT_SCALES + part; p < catalog->parts; p += EXPERT_BIASES - EXPERT_SCALES) {
        *catalog_slice(catalog, moe, expert, p) = (struct expert_slice){0};
    }
    if (tensor->side != NULL) {
        *packed = tensor->side->format;
        TRY(expert_slice_of(b, &tensor->side->scales, stacked, expert,
                            catalog_slice(catalog, moe, expert, EXPERT_SCALES + part)));
        if (tensor->side->biases.bytes > 0) {
            TRY(expert_slice_of(b, &tensor->side->biases, stacked, expert,
                                catalog_slice(catalog, moe, expert, EXPERT_BIASES + part)));
        }
    }
    return BERTH_OK;
}

static berth_status expert_part(const struct binder *b, const struct catalog *catalog, uint32_t part, uint32_t layer,
                                uint32_t moe, uint32_t expert, enum dtype *dtype, struct packed *packed)
{
    const struct tensor *tensor = NULL;
    TRY(family_tensor(b->family, b->checkpoint, b->hparams, expert_roles[part], layer, expert, &tensor, b->err));
    if (tensor == NULL) {
        return error_set(b->err, BERTH_ERR_INTERNAL, "no tensor for part %u of layer %u", (unsigned)part,
                         (unsigned)layer);
    }
    *dtype = tensor->dtype;
    return place_part(b, catalog, tensor, part, moe, expert, packed);
}

static berth_status expert_all_parts(const struct binder *b, const struct catalog *catalog, uint32_t layer,
                                     uint32_t moe, uint32_t expert, struct expert_formats *f)
{
    TRY(expert_part(b, catalog, EXPERT_GATE, layer, moe, expert, &f->gate, &f->packed[EXPERT_GATE]));
    TRY(expert_part(b, catalog, EXPERT_UP, layer, moe, expert, &f->up, &f->packed[EXPERT_UP]));
    return expert_part(b, catalog, EXPERT_DOWN, layer, moe, expert, &f->down, &f->packed[EXPERT_DOWN]);
}

static bool same_packed(const struct packed *a, const struct packed *b)
{
    return a->kind == b->kind && a->scale_type == b->scale_type && a->group == b->group && a->tile_rows == b->tile_rows;
}

static bool same_formats(const struct expert_formats *a, const struct expert_formats *b)
{
    bool same = a->gate == b->gate && a->up == b->up && a->down == b->down;
    for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
        same = same && same_packed(&a->packed[part], &b->packed[part]);
    }
    return same;
}

/* The catalog of experts that are a tensor each, in the order of the directory. False: they are not, or something is
 * wrong with them; then expert_catalog() goes from expert to expert and says what. */
static bool fill_in_order(const struct binder *with, const struct catalog *catalog, struct expert_formats *formats)
{
    struct binder b = *with;
    struct family_experts names;
    struct family_expert found;
    uint64_t filled = 0;
    uint32_t layer = UINT32_MAX;
    uint32_t moe = 0; /* place of that layer among those with experts */
    b.err = NULL;
    if (!family_experts_begin(b.family, b.checkpoint, b.hparams, &names)) {
        return false;
    }
    for (uint32_t i = 0; i < catalog->layers; i++) {
        formats[i] = (struct expert_formats){.gate = DTYPE_COUNT, .up = DTYPE_COUNT, .down = DTYPE_COUNT};
    }
    for (uint32_t i = 0; i < b.checkpoint->tensors.count; i++) {
        const struct tensor *tensor = &b.checkpoint->tensors.items[i];
        struct packed packed;
        if (!family_expert_of(&names, tensor, &found)) {
            continue;
        }
        if (found.layer != layer) {
            layer = found.layer;
            moe = 0;
            for (uint32_t before = 0; before < layer; before++) {
                moe += b.hparams->layer_moe[before] != 0 ? 1u : 0u;
            }
        }
        struct expert_formats *f = &formats[moe];
        enum dtype *dtype = found.part == EXPERT_GATE ? &f->gate : found.part == EXPERT_UP ? &f->up : &f->down;
        if (place_part(&b, catalog, tensor, found.part, moe, found.expert, &packed) != BERTH_OK) {
            return false;
        }
        if (*dtype == DTYPE_COUNT) {
            *dtype = tensor->dtype;
            f->packed[found.part] = packed;
        } else if (*dtype != tensor->dtype || !same_packed(&f->packed[found.part], &packed)) {
            return false;
        }
        filled++;
    }
    return filled == (uint64_t)catalog->layers * catalog->experts * EXPERT_PARTS;
}

/* Parts of an expert in this checkpoint: more where anything has scales of its own. */
static uint32_t parts_of(const struct checkpoint *checkpoint)
{
    for (uint32_t i = 0; i < checkpoint->tensors.count; i++) {
        if (checkpoint->tensors.items[i].side != NULL) {
            return EXPERT_PARTS_MAX;
        }
    }
    return EXPERT_PARTS;
}

berth_status expert_catalog(struct arena *tables, const struct family *family, const struct checkpoint *checkpoint,
                            const struct hparams *hparams, const bool has_kernel[DTYPE_COUNT], struct catalog *catalog,
                            struct expert_formats **formats, berth_error *err)
{
    struct binder b = {NULL, tables, family, checkpoint, hparams, has_kernel, NULL, err};
    TRY(catalog_layout_parts(tables, hparams->moe_layers, hparams->experts, hparams->top_k, parts_of(checkpoint),
                             catalog, err));
    *formats = ARENA_NEW(tables, struct expert_formats, hparams->moe_layers);
    TRY(arena_check(tables, "expert catalog", err));
    if (arena_is_measuring(tables)) {
        return BERTH_OK;
    }
    if (fill_in_order(&b, catalog, *formats)) {
        return catalog_seal(catalog, err);
    }
    uint32_t moe = 0;
    for (uint32_t layer = 0; layer < hparams->layers; layer++) {
        if (hparams->layer_moe[layer] == 0) {
            continue;
        }
        struct expert_formats first = {.gate = DTYPE_COUNT};
        for (uint32_t expert = 0; expert < hparams->experts; expert++) {
            struct expert_formats f;
            TRY(expert_all_parts(&b, catalog, layer, moe, expert, &f));
            first = expert == 0 ? f : first;
            if (!same_formats(&f, &first)) {
                error_set(err, BERTH_ERR_UNSUPPORTED, "the experts of layer %u are stored in different formats",
                          (unsigned)layer);
                error_at_path(err, checkpoint->path);
                error_at_expert(err, (int32_t)layer, (int32_t)expert);
                return BERTH_ERR_UNSUPPORTED;
            }
        }
        (*formats)[moe++] = first;
    }
    return moe > 0 ? catalog_seal(catalog, err) : BERTH_OK;
}
