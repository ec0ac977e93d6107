/* SPDX-License-Identifier: MIT
 * Layout of a GGUF file, all numbers little-endian:
 *   "GGUF", u32 version, u64 tensors, u64 pairs,
 *   pairs:   key (u64 length, bytes), u32 type, value (scalar | string | u32 item type, u64 count, items)
 *   tensors: name (u64 length, bytes), u32 dims, u64 dim (innermost first) each, u32 type, u64 offset in the data part
 *   padding to general.alignment, data
 * The scan has validated all lengths when the parse runs, so the parse loads without checks of its own. */
#include "model/gguf.h"

#include "base/bytes.h"
#include "base/checked.h"
#include "base/sort.h"

enum { FIXED_BYTES = 24 };

static berth_status place(berth_status status, berth_error *err, struct str object, uint64_t offset)
{
    error_at_object(err, object.ptr, object.bytes);
    error_at_offset(err, offset);
    return status;
}

bool gguf_is(const void *ptr, uint64_t bytes)
{
    return bytes >= 4 && memcmp(ptr, "GGUF", 4) == 0;
}

void gguf_scan_begin(struct gguf_scan *scan, uint64_t file_bytes)
{
    *scan = (struct gguf_scan){.file_bytes = file_bytes, .need_bytes = FIXED_BYTES};
}

/* ---- scan ------------------------------------------------------------------------------------------- */

/* A step over bytes that may not be there yet. */
struct step {
    const unsigned char *ptr;
    uint64_t bytes; /* at hand */
    uint64_t file_bytes;
    uint64_t at;
    uint64_t need; /* 0: everything was there */
    bool cut;      /* the file itself is too short */
};

/* True when `count` bytes are there; then *start is where they begin and the step has moved past them. */
static bool take(struct step *step, uint64_t count, uint64_t *start)
{
    uint64_t end;
    if (u64_add_overflows(step->at, count, &end) || end > step->file_bytes) {
        step->cut = true;
        return false;
    }
    if (end > step->bytes) {
        step->need = end;
        return false;
    }
    *start = step->at;
    step->at = end;
    return true;
}

static bool take_str(struct step *step, struct str *out)
{
    uint64_t at;
    if (!take(step, 8, &at)) {
        return false;
    }
    uint64_t bytes = load_u64(step->ptr + at);
    if (!take(step, bytes, &at)) {
        return false;
    }
    *out = (struct str){(const char *)step->ptr + at, (size_t)bytes};
    return true;
}

static bool take_u32(struct step *step, uint32_t *out)
{
    uint64_t at;
    if (!take(step, 4, &at)) {
        return false;
    }
    *out = load_u32(step->ptr + at);
    return true;
}

/* Ends a unit that could not be taken whole: either more bytes are needed, or the file is cut off. */
static berth_status unfinished(struct gguf_scan *scan, const struct step *step, const char *what, uint32_t index,
                               berth_error *err)
{
    if (step->cut) {
        berth_status status = error_set(
            err, BERTH_ERR_FORMAT, "the header is cut off or damaged: %s %u runs past the end of the file (%llu bytes)",
            what, index, (unsigned long long)scan->file_bytes);
        return place(status, err, (struct str){NULL, 0}, step->at);
    }
    scan->need_bytes = step->need;
    return BERTH_OK;
}

static berth_status scan_fixed(struct gguf_scan *scan, struct step *step, berth_error *err)
{
    uint64_t at;
    const unsigned char *ptr = step->ptr;
    struct str none = {NULL, 0};
    if (step->bytes >= 4 && !gguf_is(ptr, step->bytes)) {
        return place(error_set(err, BERTH_ERR_FORMAT, "not a GGUF file: the first four bytes are not \"GGUF\""), err,
                     none, 0);
    }
    if (!take(step, FIXED_BYTES, &at)) {
        return unfinished(scan, step, "fixed part", 0, err);
    }
    uint32_t version = load_u32(ptr + 4);
    uint64_t tensors = load_u64(ptr + 8);
    uint64_t pairs = load_u64(ptr + 16);
    if ((version & 0xffffu) == 0 && version != 0) {
        return place(error_set(err, BERTH_ERR_UNSUPPORTED,
                               "a big-endian GGUF file (version %u); only little-endian files can be read: convert it "
                               "on the machine that it was made for",
                               (version >> 24) | (version >> 8 & 0xff00u)),
                     err, none, 4);
    }
    if (version != 2 && version != 3) {
        return place(error_set(err, BERTH_ERR_UNSUPPORTED, "GGUF version %u, wanted 2 or 3", version), err, none, 4);
    }
    if (tensors > TENSORS_MAX) {
        return place(error_set(err, BERTH_ERR_LIMIT, "the header announces %llu tensors, at most %d are read",
                               (unsigned long long)tensors, TENSORS_MAX),
                     err, none, 8);
    }
    if (pairs > GGUF_PAIRS_MAX) {
        return place(error_set(err, BERTH_ERR_LIMIT, "the header announces %llu metadata pairs, at most %d are read",
                               (unsigned long long)pairs, GGUF_PAIRS_MAX),
                     err, none, 16);
    }
    scan->version = version;
    scan->tensors_count = (uint32_t)tensors;
    scan->pairs_count = (uint32_t)pairs;
    return BERTH_OK;
}

static berth_status check_name(struct str name, const char *what, uint64_t max, uint64_t offset, berth_error *err)
{
    const char *fault = tensor_name_fault(name, max);
    if (fault == NULL) {
        return BERTH_OK;
    }
    return place(error_set(err, BERTH_ERR_FORMAT, "the name of a %s %s (%zu bytes, 1 to %llu wanted)", what, fault,
                           name.bytes, (unsigned long long)max),
                 err, name, offset);
}

/* Enters an array: scalars are taken whole, strings one by one later. */
static berth_status scan_array(struct gguf_scan *scan, struct step *step, struct str key, berth_error *err)
{
    uint64_t at = step->at;
    uint64_t start;
    uint32_t item_type;
    if (!take_u32(step, &item_type) || !take(step, 8, &start)) {
        return BERTH_OK;
    }
    uint64_t count = load_u64(step->ptr + start);
    if (item_type == META_ARRAY) {
        return place(error_set(err, BERTH_ERR_UNSUPPORTED,
                               "an array of arrays; only arrays of scalars and strings are "
                               "read"),
                     err, key, at);
    }
    if (item_type > META_F64) {
        return place(error_set(err, BERTH_ERR_FORMAT, "an array of items of type %u, wanted 0 to 12", item_type), err,
                     key, at);
    }
    uint64_t item_bytes = meta_scalar_bytes((enum meta_type)item_type);
    uint64_t bytes;
    /* A string takes 8 bytes at least: a count that cannot be true is refused here. */
    if (u64_mul_overflows(count, item_bytes == 0 ? 8 : item_bytes, &bytes) || bytes > scan->file_bytes - step->at) {
        return place(error_set(err, BERTH_ERR_FORMAT,
                               "an array of %llu items does not fit in the file (%llu bytes): it is cut off or damaged",
                               (unsigned long long)count, (unsigned long long)scan->file_bytes),
                     err, key, at);
    }
    if (item_bytes == 0) {
        scan->items_left = count;
    } else {
        (void)take(step, bytes, &start);
    }
    return BERTH_OK;
}

static berth_status scan_items(struct gguf_scan *scan, struct step *step, berth_error *err)
{
    while (scan->items_left > 0) {
        struct str item;
        uint64_t before = step->at;
        if (!take_str(step, &item)) {
            scan->at = before;
            return unfinished(scan, step, "a string in metadata pair", scan->pairs_seen - 1, err);
        }
        scan->items_left--;
    }
    scan->at = step->at;
    return BERTH_OK;
}

static berth_status scan_pair(struct gguf_scan *scan, struct step *step, berth_error *err)
{
    struct str key;
    uint32_t type;
    uint64_t start = step->at;
    if (!take_str(step, &key) || !take_u32(step, &type)) {
        return unfinished(scan, step, "metadata pair", scan->pairs_seen, err);
    }
    TRY(check_name(key, "metadata key", GGUF_KEY_MAX, start, err));
    if (type > META_F64) {
        return place(error_set(err, BERTH_ERR_FORMAT, "a value of type %u, wanted 0 to 12", type), err, key,
                     step->at - 4);
    }
    uint64_t at;
    struct str string;
    if (type == META_ARRAY) {
        TRY(scan_array(scan, step, key, err));
    } else if (type == META_STRING) {
        (void)take_str(step, &string);
    } else {
        (void)take(step, meta_scalar_bytes((enum meta_type)type), &at);
    }
    if (step->cut || step->need != 0) {
        berth_status status = unfinished(scan, step, "metadata pair", scan->pairs_seen, err);
        return status == BERTH_OK ? status : place(status, err, key, step->at);
    }
    scan->at = step->at;
    scan->pairs_seen++;
    return BERTH_OK;
}

static berth_status scan_tensor(struct gguf_scan *scan, struct step *step, berth_error *err)
{
    struct str name;
    uint32_t dims;
    uint64_t start = step->at;
    if (!take_str(step, &name) || !take_u32(step, &dims)) {
        return unfinished(scan, step, "tensor entry", scan->tensors_seen, err);
    }
    TRY(check_name(name, "tensor", TENSOR_NAME_MAX, start, err));
    if (dims > GGUF_DIMS_MAX) {
        return place(
            error_set(err, BERTH_ERR_FORMAT, "the tensor has %u dims, at most %d are allowed", dims, GGUF_DIMS_MAX),
            err, name, step->at - 4);
    }
    uint64_t at;
    if (!take(step, 8 * (uint64_t)dims + 4 + 8, &at)) {
        berth_status status = unfinished(scan, step, "tensor entry", scan->tensors_seen, err);
        return status == BERTH_OK ? status : place(status, err, name, step->at);
    }
    scan->at = step->at;
    scan->tensors_seen++;
    return BERTH_OK;
}

berth_status gguf_scan_more(struct gguf_scan *scan, const unsigned char *ptr, uint64_t bytes, bool *complete,
                            berth_error *err)
{
    *complete = false;
    scan->need_bytes = 0;
    while (scan->need_bytes == 0) {
        struct step step = {ptr, bytes, scan->file_bytes, scan->at, 0, false};
        if (scan->at == 0) {
            TRY(scan_fixed(scan, &step, err));
            scan->at = scan->need_bytes == 0 ? step.at : 0;
        } else if (scan->items_left > 0) {
            TRY(scan_items(scan, &step, err));
        } else if (scan->pairs_seen < scan->pairs_count) {
            TRY(scan_pair(scan, &step, err));
        } else if (scan->tensors_seen < scan->tensors_count) {
            scan->tensors_at = scan->tensors_seen == 0 ? scan->at : scan->tensors_at;
            TRY(scan_tensor(scan, &step, err));
        } else {
            scan->header_bytes = scan->at;
            *complete = true;
            return BERTH_OK;
        }
    }
    return BERTH_OK;
}

/* ---- parse ------------------------------------------------------------------------------------------ */

/* All loads below are inside the scanned header. */
static struct str load_str(const unsigned char *ptr, uint64_t *at)
{
    struct str out = {(const char *)ptr + *at + 8, (size_t)load_u64(ptr + *at)};
    *at += 8 + out.bytes;
    return out;
}

static void load_pair(const unsigned char *ptr, uint64_t *at, struct meta_pair *pair)
{
    *pair = (struct meta_pair){.key = load_str(ptr, at)};
    pair->type = (enum meta_type)load_u32(ptr + *at);
    *at += 4;
    if (pair->type == META_ARRAY) {
        pair->item_type = (enum meta_type)load_u32(ptr + *at);
        pair->count = load_u64(ptr + *at + 4);
        *at += 12;
    }
    pair->value = ptr + *at;
    uint64_t start = *at;
    if (pair->type == META_STRING) {
        (void)load_str(ptr, at);
    } else if (pair->type != META_ARRAY) {
        *at += meta_scalar_bytes(pair->type);
    } else if (pair->item_type != META_STRING) {
        *at += pair->count * meta_scalar_bytes(pair->item_type);
    } else {
        for (uint64_t i = 0; i < pair->count; i++) {
            (void)load_str(ptr, at);
        }
    }
    pair->value_bytes = *at - start;
}

static int compare_keys(const void *user, uint32_t a, uint32_t b)
{
    struct str x = ((const struct meta_pair *)user)[a].key;
    struct str y = ((const struct meta_pair *)user)[b].key;
    int order = memcmp(x.ptr, y.ptr, x.bytes < y.bytes ? x.bytes : y.bytes);
    return order != 0 ? order : (x.bytes > y.bytes) - (x.bytes < y.bytes);
}

berth_status gguf_parse_meta(const struct gguf_scan *scan, const unsigned char *ptr, struct meta_pair *pairs,
                             struct arena *scratch, struct meta *meta, berth_error *err)
{
    uint32_t count = scan->pairs_count;
    uint64_t mark = arena_mark(scratch);
    struct meta_pair *unsorted = ARENA_NEW(scratch, struct meta_pair, count);
    uint32_t *order = ARENA_NEW(scratch, uint32_t, count);
    uint32_t *spare = ARENA_NEW(scratch, uint32_t, count);
    TRY(arena_check(scratch, "sorting the metadata", err));
    uint64_t at = FIXED_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        load_pair(ptr, &at, &unsorted[i]);
    }
    sort_order(order, spare, count, compare_keys, unsorted);
    for (uint32_t i = 0; i < count; i++) {
        pairs[i] = unsorted[order[i]];
    }
    arena_rewind(scratch, mark);
    for (uint32_t i = 1; i < count; i++) {
        if (str_equal(pairs[i - 1].key, pairs[i].key)) {
            return place(error_set(err, BERTH_ERR_FORMAT, "the metadata key appears twice"), err, pairs[i].key,
                         (uint64_t)((const unsigned char *)pairs[i].key.ptr - ptr));
        }
    }
    *meta = (struct meta){pairs, count};
    return BERTH_OK;
}

static berth_status alignment_of(const unsigned char *ptr, const struct meta *meta, uint64_t *out, berth_error *err)
{
    const struct meta_pair *pair = meta_find(meta, STR("general.alignment"));
    *out = GGUF_ALIGNMENT_DEFAULT;
    if (pair == NULL) {
        return BERTH_OK;
    }
    uint64_t value;
    if (!meta_u64(meta, pair->key, &value)) {
        return place(error_set(err, BERTH_ERR_FORMAT, "general.alignment is not a number"), err, pair->key,
                     (uint64_t)(pair->value - ptr));
    }
    /* The specification asks for a multiple of 8, the common reader for a power of two. */
    if (value == 0 || value > GGUF_ALIGNMENT_MAX || (value % 8 != 0 && (value & (value - 1)) != 0)) {
        return place(error_set(err, BERTH_ERR_FORMAT,
                               "general.alignment is %llu, wanted a power of two or a multiple of 8, up to %d",
                               (unsigned long long)value, GGUF_ALIGNMENT_MAX),
                     err, pair->key, (uint64_t)(pair->value - ptr));
    }
    *out = value;
    return BERTH_OK;
}

/* Shape and type of the entry behind the name; *at moves to the offset field. */
static berth_status load_shape(const unsigned char *ptr, uint64_t *at, struct tensor *tensor, berth_error *err)
{
    tensor->dims_count = load_u32(ptr + *at);
    *at += 4;
    for (uint32_t d = 0; d < tensor->dims_count; d++) {
        uint64_t dim = load_u64(ptr + *at);
        if (dim == 0) {
            return place(error_set(err, BERTH_ERR_FORMAT, "dim %u of the tensor is 0", d), err, tensor->name, *at);
        }
        tensor->dims[tensor->dims_count - 1 - d] = dim;
        *at += 8;
    }
    uint32_t type = load_u32(ptr + *at);
    tensor->dtype = quant_from_ggml(type);
    if (tensor->dtype == DTYPE_COUNT) {
        return place(
            error_set(err, BERTH_ERR_UNSUPPORTED, "the tensor has element type %u, which is not known here", type), err,
            tensor->name, *at);
    }
    if (!tensor_size(tensor)) {
        const struct quant_row *row = quant_row(tensor->dtype);
        uint64_t k = tensor->dims_count == 0 ? 1 : tensor->dims[tensor->dims_count - 1];
        berth_status status =
            k % row->block_elems != 0
                ? error_set(err, BERTH_ERR_FORMAT, "rows of %llu elements are not whole blocks of %s (%u elements)",
                            (unsigned long long)k, row->name, row->block_elems)
                : error_set(err, BERTH_ERR_FORMAT, "the dims of the tensor multiply to more than 64 bits");
        return place(status, err, tensor->name, *at);
    }
    *at += 4;
    return BERTH_OK;
}

berth_status gguf_parse_tensors(const struct gguf_scan *scan, const unsigned char *ptr, const struct meta *meta,
                                uint32_t file, struct tensor *tensors, uint64_t *data_offset, berth_error *err)
{
    uint64_t alignment;
    TRY(alignment_of(ptr, meta, &alignment, err));
    uint64_t padding = (alignment - scan->header_bytes % alignment) % alignment;
    uint64_t data = scan->header_bytes + padding;
    uint64_t at = scan->tensors_at;
    for (uint32_t i = 0; i < scan->tensors_count; i++) {
        struct tensor *tensor = &tensors[i];
        *tensor = (struct tensor){.file = file, .name = load_str(ptr, &at)};
        TRY(load_shape(ptr, &at, tensor, err));
        uint64_t offset = load_u64(ptr + at);
        uint64_t end;
        if (offset % alignment != 0) {
            return place(error_set(err, BERTH_ERR_FORMAT, "the data offset %llu is not a multiple of %llu",
                                   (unsigned long long)offset, (unsigned long long)alignment),
                         err, tensor->name, at);
        }
        if (u64_add_overflows(data, offset, &tensor->offset) ||
            u64_add_overflows(tensor->offset, tensor->bytes, &end) || end > scan->file_bytes) {
            return place(error_set(err, BERTH_ERR_FORMAT,
                                   "%llu bytes at data offset %llu reach past the end of the file (%llu bytes): it is "
                                   "cut off or damaged",
                                   (unsigned long long)tensor->bytes, (unsigned long long)offset,
                                   (unsigned long long)scan->file_bytes),
                         err, tensor->name, at);
        }
        at += 8;
    }
    *data_offset = data;
    return BERTH_OK;
}
