/* SPDX-License-Identifier: MIT */
#include "model/layouts.h"

#include <stdio.h>

#include "base/checked.h"
#include "model/layouts_config.h"

/* A tensor P + weight with P + scales (and P + biases) beside it. */
struct layout {
    const char *weight, *scales, *biases; /* biases NULL: none */
    enum dtype stored;                    /* of the weight, in the file */
    enum packed_kind kind;
};

static const struct layout layouts[] = {
    {".weight", ".scales", ".biases", DTYPE_U32, PACKED_AFFINE},
    {".weight", ".weight_scale_inv", NULL, DTYPE_F8_E4M3, PACKED_TILES},
    {"_blocks", "_scales", NULL, DTYPE_U8, PACKED_MXFP4},
};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

const char *layouts_companion(enum dtype stored)
{
    for (int i = 0; i < LAYOUTS; i++) {
        if (layouts[i].stored == stored && stored != DTYPE_U8) {
            return layouts[i].scales;
        }
    }
    return NULL;
}

struct applying {
    struct checkpoint *checkpoint;
    struct arena *scratch;
    const struct layout *layout;
    struct tensor *items; /* the new directory; NULL while nothing has changed */
    uint8_t *gone;        /* [count] */
    struct layouts_config config;
    bool has_config; /* it has been read: at the first companion */
    berth_error *err;
};

static berth_status at_tensor(const struct applying *a, const struct tensor *tensor, berth_status status)
{
    error_at_path(a->err, a->checkpoint->files[tensor->file].path);
    error_at_object(a->err, tensor->name.ptr, tensor->name.bytes);
    return status;
}

static const char *shape_text(const struct tensor *tensor, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < tensor->dims_count && at + 24 < cap; i++) {
        at += (size_t)snprintf(out + at, cap - at, "%s%llu", i > 0 ? ", " : "", (unsigned long long)tensor->dims[i]);
    }
    return out;
}

/* The tensor that shares `prefix` with items[at]; NULL: absent. As a rule it is a neighbour. */
static const struct tensor *beside(const struct applying *a, uint32_t at, struct str prefix, const char *suffix)
{
    const struct tensor_dir *dir = &a->checkpoint->tensors;
    for (uint32_t near = at > 0 ? at - 1 : 0; near < dir->count && near <= at + 1; near++) {
        struct str name = dir->items[near].name;
        if (name.bytes == prefix.bytes + strlen(suffix) && str_ends(name, str_from(suffix)) &&
            str_starts(name, prefix)) {
            return &dir->items[near];
        }
    }
    char name[TENSOR_NAME_MAX + 32];
    size_t bytes = strlen(suffix);
    if (prefix.bytes > TENSOR_NAME_MAX) {
        return NULL;
    }
    memcpy(name, prefix.ptr, prefix.bytes);
    memcpy(name + prefix.bytes, suffix, bytes);
    return tensor_find(dir, (struct str){name, prefix.bytes + bytes});
}

/* ---- one matrix ------------------------------------------------------------------------------------- */

static enum dtype affine_type(uint64_t bits)
{
    static const enum dtype types[9] = {
        [2] = DTYPE_MLX2, [3] = DTYPE_MLX3, [4] = DTYPE_MLX4, [5] = DTYPE_MLX5, [6] = DTYPE_MLX6, [8] = DTYPE_MLX8};
    return bits <= 8 && types[bits] != DTYPE_F32 ? types[bits] : DTYPE_COUNT;
}

static berth_status wrong_shape(const struct applying *a, const struct tensor *tensor, const struct tensor *want)
{
    char got_text[128];
    char want_text[128];
    error_set(a->err, BERTH_ERR_FORMAT, "tensor %.*s has shape [%s], wanted [%s] beside its weight",
              STR_ARG(tensor->name), shape_text(tensor, got_text, sizeof got_text),
              shape_text(want, want_text, sizeof want_text));
    return at_tensor(a, tensor, BERTH_ERR_FORMAT);
}

/* Scales or biases of `weight`, whose dims are those of the values. */
static berth_status check_side(const struct applying *a, const struct tensor *weight, const struct packed *format,
                               const struct tensor *side)
{
    struct tensor want = *weight;
    uint32_t last = weight->dims_count - 1;
    want.dims[last] = packed_groups(format, weight->dims[last]);
    if (format->tile_rows > 1) {
        uint64_t rows = weight->dims[last - 1];
        want.dims[last - 1] = rows / format->tile_rows + (rows % format->tile_rows != 0 ? 1 : 0);
    }
    bool exponents = format->kind == PACKED_MXFP4;
    bool fine = exponents ? side->dtype == DTYPE_U8 || side->dtype == DTYPE_F8_E8M0
                          : side->dtype == DTYPE_F16 || side->dtype == DTYPE_BF16 || side->dtype == DTYPE_F32;
    if (!fine) {
        error_set(a->err, BERTH_ERR_UNSUPPORTED, "tensor %.*s has type %s, wanted %s", STR_ARG(side->name),
                  quant_row(side->dtype)->name, exponents ? "U8" : "F16, BF16 or F32");
        return at_tensor(a, side, BERTH_ERR_UNSUPPORTED);
    }
    bool same = side->dims_count == want.dims_count;
    for (uint32_t i = 0; same && i < want.dims_count; i++) {
        same = side->dims[i] == want.dims[i];
    }
    return same ? BERTH_OK : wrong_shape(a, side, &want);
}

/* Bits and groups of an affine matrix, and the dims of its values. */
static berth_status affine_shape(const struct applying *a, struct str module, struct tensor *weight,
                                 struct packed *format)
{
    uint64_t bits = 0;
    uint64_t group = 0;
    struct str wrong;
    enum layouts_found has_bits = layouts_config_number(&a->config, module, LAYOUTS_BITS, &bits, &wrong);
    enum layouts_found has_group = has_bits == LAYOUTS_NUMBER
                                       ? layouts_config_number(&a->config, module, LAYOUTS_GROUP, &group, &wrong)
                                       : has_bits;
    if (has_group == LAYOUTS_WRONG) {
        error_set(a->err, BERTH_ERR_FORMAT,
                  "tensor %.*s: config.json's \"quantization\" has %.*s for %s, wanted whole numbers for bits and "
                  "group_size",
                  STR_ARG(weight->name), (int)(wrong.bytes < 40 ? wrong.bytes : 40), wrong.ptr,
                  has_bits == LAYOUTS_NUMBER ? "group_size" : "bits");
        return at_tensor(a, weight, BERTH_ERR_FORMAT);
    }
    if (has_group == LAYOUTS_ABSENT) {
        error_set(a->err, BERTH_ERR_FORMAT,
                  "tensor %.*s is packed, but config.json has no \"quantization\" with bits and group_size",
                  STR_ARG(weight->name));
        return at_tensor(a, weight, BERTH_ERR_FORMAT);
    }
    enum packed_kind kind;
    if (!layouts_config_kind(&a->config, module, &kind)) {
        error_set(
            a->err, BERTH_ERR_UNSUPPORTED,
            "tensor %.*s: config.json asks for a \"mode\" of quantization that is not known here, wanted affine or "
            "mxfp4",
            STR_ARG(weight->name));
        return at_tensor(a, weight, BERTH_ERR_UNSUPPORTED);
    }
    bool exponents = kind == PACKED_MXFP4;
    enum dtype type = exponents && bits == 4 ? DTYPE_MXFP4_ROWS : affine_type(bits);
    bool group_fine = exponents ? group == 32 : group == 32 || group == 64 || group == 128;
    if (type == DTYPE_COUNT || !group_fine) {
        error_set(a->err, BERTH_ERR_UNSUPPORTED, "tensor %.*s: config.json says %llu bits in groups of %llu, wanted %s",
                  STR_ARG(weight->name), (unsigned long long)bits, (unsigned long long)group,
                  exponents ? "4 bits in groups of 32" : "2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128");
        return at_tensor(a, weight, BERTH_ERR_UNSUPPORTED);
    }
    uint64_t *columns = &weight->dims[weight->dims_count - 1];
    uint64_t stored_bits = 0;
    if (u64_mul_overflows(*columns, 32, &stored_bits) || stored_bits % bits != 0 || stored_bits / bits % group != 0) {
        error_set(a->err, BERTH_ERR_FORMAT,
                  "tensor %.*s has rows of %llu words of 32 bits, which %llu-bit values in groups of %llu do not fill",
                  STR_ARG(weight->name), (unsigned long long)*columns, (unsigned long long)bits,
                  (unsigned long long)group);
        return at_tensor(a, weight, BERTH_ERR_FORMAT);
    }
    *columns = stored_bits / bits;
    weight->dtype = type;
    *format = (struct packed){.kind = kind, .group = (uint32_t)group, .tile_rows = 1};
    return BERTH_OK;
}

static berth_status tile_shape(const struct applying *a, const struct tensor *weight, struct packed *format)
{
    const uint64_t *tile = a->config.tile;
    if (!a->config.is_tile_sound) {
        error_set(a->err, BERTH_ERR_UNSUPPORTED, "config.json: weight_block_size is not a list of two numbers");
        return at_tensor(a, weight, BERTH_ERR_UNSUPPORTED);
    }
    if (a->config.fp8_fault != NULL) {
        error_set(a->err, BERTH_ERR_UNSUPPORTED,
                  "config.json: \"%s\" of quantization_config is not known here, wanted %s", a->config.fp8_fault,
                  a->config.fp8_fault[0] == 'f' ? "e4m3" : "a name");
        return at_tensor(a, weight, BERTH_ERR_UNSUPPORTED);
    }
    if (tile[0] == 0 || tile[1] == 0 || tile[0] > PACKED_GROUP_MAX || tile[1] > PACKED_GROUP_MAX ||
        tile[1] % PACKED_GROUP_STEP != 0) {
        error_set(
            a->err, BERTH_ERR_UNSUPPORTED,
            "config.json: weight_block_size is %llu x %llu, wanted two numbers up to %d, the second a multiple of "
            "%d",
            (unsigned long long)tile[0], (unsigned long long)tile[1], PACKED_GROUP_MAX, PACKED_GROUP_STEP);
        return at_tensor(a, weight, BERTH_ERR_UNSUPPORTED);
    }
    if (weight->dims_count != 2 || weight->dims[1] % PACKED_GROUP_STEP != 0) {
        char text[128];
        error_set(a->err, BERTH_ERR_UNSUPPORTED,
                  "tensor %.*s has shape [%s], wanted two dims, the second a multiple of %d", STR_ARG(weight->name),
                  shape_text(weight, text, sizeof text), PACKED_GROUP_STEP);
        return at_tensor(a, weight, BERTH_ERR_UNSUPPORTED);
    }
    *format = (struct packed){.kind = PACKED_TILES, .group = (uint32_t)tile[1], .tile_rows = (uint32_t)tile[0]};
    return BERTH_OK;
}

/* [..][blocks][16 bytes] is [..][32 blocks]. */
static berth_status mxfp4_shape(const struct applying *a, struct tensor *weight, struct packed *format)
{
    uint32_t last = weight->dims_count - 1;
    uint64_t values = 0;
    if (weight->dims_count < 3 || weight->dims[last] != 16 || u64_mul_overflows(weight->dims[last - 1], 32, &values)) {
        char text[128];
        error_set(a->err, BERTH_ERR_FORMAT, "tensor %.*s has shape [%s], wanted [.., blocks, 16]",
                  STR_ARG(weight->name), shape_text(weight, text, sizeof text));
        return at_tensor(a, weight, BERTH_ERR_FORMAT);
    }
    weight->dims[last - 1] = values;
    weight->dims_count = last;
    weight->dtype = DTYPE_MXFP4_ROWS;
    *format = (struct packed){.kind = PACKED_MXFP4, .group = 32, .tile_rows = 1};
    return BERTH_OK;
}

static berth_status copy_directory(struct applying *a)
{
    const struct tensor_dir *dir = &a->checkpoint->tensors;
    if (a->items != NULL) {
        return BERTH_OK;
    }
    a->items = ARENA_NEW(a->scratch, struct tensor, dir->count);
    a->gone = ARENA_NEW(a->scratch, uint8_t, dir->count);
    TRY(arena_check(a->scratch, "the tensor directory", a->err));
    memcpy(a->items, dir->items, dir->count * sizeof *a->items);
    memset(a->gone, 0, dir->count);
    return BERTH_OK;
}

static berth_status set_side(struct applying *a, const struct tensor *stored, struct tensor *weight,
                             struct tensor_side *made)
{
    const struct tensor *first = a->checkpoint->tensors.items;
    TRY(check_side(a, weight, &made->format, &made->scales));
    if (made->biases.name.ptr != NULL) { /* present, however few bytes it claims */
        TRY(check_side(a, weight, &made->format, &made->biases));
        if (made->biases.dtype != made->scales.dtype) {
            error_set(a->err, BERTH_ERR_UNSUPPORTED, "tensor %.*s has type %s, its scales have %s",
                      STR_ARG(made->biases.name), quant_row(made->biases.dtype)->name,
                      quant_row(made->scales.dtype)->name);
            return at_tensor(a, &made->biases, BERTH_ERR_UNSUPPORTED);
        }
    }
    made->format.scale_type = made->scales.dtype;
    TRY(copy_directory(a));
    struct tensor_side *side = ARENA_NEW(a->scratch, struct tensor_side, 1);
    TRY(arena_check(a->scratch, "the tensor directory", a->err));
    *side = *made;
    weight->side = side;
    a->items[stored - first] = *weight;
    return BERTH_OK;
}

/* A tensor whose name ends like the scales of the layout. */
static berth_status apply_row(struct applying *a, const struct tensor *scales)
{
    const struct layout *layout = a->layout;
    const struct tensor *first = a->checkpoint->tensors.items;
    struct str prefix = {scales->name.ptr, scales->name.bytes - strlen(layout->scales)};
    const struct tensor *stored = beside(a, (uint32_t)(scales - first), prefix, layout->weight);
    if (stored == NULL || stored->dims_count < 2) {
        return BERTH_OK; /* scales of something else: who uses the directory will not know them */
    }
    if (stored->dtype != layout->stored) {
        error_set(a->err, BERTH_ERR_UNSUPPORTED, "tensor %.*s has scales beside it and type %s, wanted %s",
                  STR_ARG(stored->name), quant_row(stored->dtype)->name, quant_row(layout->stored)->name);
        return at_tensor(a, stored, BERTH_ERR_UNSUPPORTED);
    }
    if (!a->has_config) {
        TRY(layouts_config_read(&a->config, a->checkpoint->config_json, a->scratch, a->err));
        a->has_config = true;
    }
    struct tensor weight = *stored;
    struct tensor_side side = {.scales = *scales};
    TRY(layout->kind == PACKED_AFFINE  ? affine_shape(a, prefix, &weight, &side.format)
        : layout->kind == PACKED_TILES ? tile_shape(a, &weight, &side.format)
                                       : mxfp4_shape(a, &weight, &side.format));
    const struct tensor *biases =
        side.format.kind == PACKED_AFFINE ? beside(a, (uint32_t)(scales - first), prefix, layout->biases) : NULL;
    if (side.format.kind == PACKED_AFFINE && biases == NULL) {
        error_set(a->err, BERTH_ERR_FORMAT, "tensor %.*s has scales but no %.*s%s beside it", STR_ARG(stored->name),
                  STR_ARG(prefix), layout->biases);
        return at_tensor(a, stored, BERTH_ERR_FORMAT);
    }
    if (biases != NULL) {
        side.biases = *biases;
    }
    TRY(set_side(a, stored, &weight, &side));
    a->gone[scales - first] = 1;
    if (biases != NULL) {
        a->gone[biases - first] = 1;
    }
    return BERTH_OK;
}

berth_status layouts_apply(struct checkpoint *checkpoint, struct arena *scratch, berth_error *err)
{
    struct applying a = {.checkpoint = checkpoint, .scratch = scratch, .err = err};
    const struct tensor_dir *dir = &checkpoint->tensors;
    for (int row = 0; row < LAYOUTS; row++) {
        a.layout = &layouts[row];
        for (uint32_t i = 0; i < dir->count; i++) {
            if (str_ends(dir->items[i].name, str_from(layouts[row].scales))) {
                TRY(apply_row(&a, &dir->items[i]));
            }
        }
    }
    if (a.items == NULL) {
        return BERTH_OK;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < dir->count; i++) {
        if (a.gone[i] == 0) {
            a.items[kept++] = a.items[i];
        }
    }
    checkpoint->tensors = (struct tensor_dir){.items = a.items, .count = kept};
    return tensor_dir_index(&checkpoint->tensors, scratch, err);
}
