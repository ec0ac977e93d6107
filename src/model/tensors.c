/* SPDX-License-Identifier: MIT
 * The tensor directory: sorted by name once, found by binary search. Also the two checks that need all tensors at once:
 * no two tensors of one name, no two tensors over the same bytes. */
#include "model/tensors.h"

#include "base/bytes.h"
#include "base/checked.h"
#include "base/sort.h"

enum { TABLE_MIN = 1024 };

static int name_compare(struct str a, struct str b)
{
    size_t common = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = common == 0 ? 0 : memcmp(a.ptr, b.ptr, common);
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

berth_status tensor_dir_index(struct tensor_dir *dir, struct arena *arena, berth_error *err)
{
    dir->table = NULL;
    if (dir->count < TABLE_MIN) {
        return BERTH_OK;
    }
    uint32_t cells = 1;
    while (cells < 2 * dir->count) {
        cells *= 2;
    }
    uint32_t *table = ARENA_NEW(arena, uint32_t, cells);
    TRY(arena_check(arena, "the tensor directory", err));
    memset(table, 0, cells * sizeof *table);
    for (uint32_t i = 0; i < dir->count; i++) {
        uint64_t at = hash_name(dir->items[i].name);
        while (table[at & (cells - 1)] != 0) {
            at++;
        }
        table[at & (cells - 1)] = i + 1;
    }
    dir->table = table;
    dir->table_mask = cells - 1;
    return BERTH_OK;
}

static const struct tensor *look_up(const struct tensor_dir *dir, struct str name)
{
    uint64_t at = hash_name(name);
    for (;; at++) { /* the table is never more than half full */
        uint32_t cell = dir->table[at & dir->table_mask];
        if (cell == 0) {
            return NULL;
        }
        if (str_equal(dir->items[cell - 1].name, name)) {
            return &dir->items[cell - 1];
        }
    }
}

const struct tensor *tensor_find(const struct tensor_dir *dir, struct str name)
{
    if (dir->table != NULL) {
        return look_up(dir, name);
    }
    uint32_t low = 0;
    uint32_t high = dir->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int order = name_compare(dir->items[mid].name, name);
        if (order == 0) {
            return &dir->items[mid];
        }
        if (order < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return NULL;
}

uint64_t tensor_elems(const struct tensor *tensor)
{
    uint64_t elems = 1;
    for (uint32_t d = 0; d < tensor->dims_count; d++) {
        elems *= tensor->dims[d];
    }
    return elems;
}

uint64_t tensor_stored_bytes(const struct tensor *tensor)
{
    return tensor->bytes + (tensor->side == NULL ? 0 : tensor->side->scales.bytes + tensor->side->biases.bytes);
}

bool tensor_size(struct tensor *tensor)
{
    uint64_t rows = 1;
    uint64_t row_elems = tensor->dims_count == 0 ? 1 : tensor->dims[tensor->dims_count - 1];
    uint64_t row_bytes;
    uint64_t elems;
    for (uint32_t d = 0; d + 1 < tensor->dims_count; d++) {
        if (u64_mul_overflows(rows, tensor->dims[d], &rows)) {
            return false;
        }
    }
    return !u64_mul_overflows(rows, row_elems, &elems) && quant_row_bytes(tensor->dtype, row_elems, &row_bytes) &&
           !u64_mul_overflows(rows, row_bytes, &tensor->bytes);
}

const char *tensor_name_fault(struct str name, uint64_t max)
{
    if (name.bytes == 0) {
        return "is empty";
    }
    if (name.bytes > max) {
        return "is too long";
    }
    if (memchr(name.ptr, '\0', name.bytes) != NULL) {
        return "contains a NUL byte";
    }
    return utf8_is_valid(name.ptr, name.bytes) ? NULL : "is not UTF-8";
}

/* ---- building --------------------------------------------------------------------------------------- */

/* Bytes 8 x depth .. of a name as a number that orders like the bytes; names hold no NUL, so a shorter one is less. */
static uint64_t name_chunk(struct str name, size_t depth)
{
    size_t from = 8 * depth;
    uint64_t chunk = 0;
    if (name.bytes >= from + 8) {
        return __builtin_bswap64(load_u64(name.ptr + from));
    }
    for (size_t i = from; i < name.bytes; i++) {
        chunk |= (uint64_t)(unsigned char)name.ptr[i] << (56 - 8 * (i - from));
    }
    return chunk;
}

/* Sorts by eight bytes of the name, then each group of equals by the next eight: at most TENSOR_NAME_MAX / 8 levels. */
static void sort_by_name(struct sort_item *items, struct sort_item *spare, uint32_t count, const struct tensor *tensors,
                         size_t depth)
{
    for (uint32_t i = 0; i < count; i++) {
        items[i].key = name_chunk(tensors[items[i].index].name, depth);
    }
    sort_items(items, spare, count);
    for (uint32_t start = 0; start < count;) {
        uint32_t end = start + 1;
        while (end < count && items[end].key == items[start].key) {
            end++;
        }
        if (end - start > 1 && (items[start].key & 0xffu) != 0) { /* the names go on */
            sort_by_name(items + start, spare, end - start, tensors, depth + 1);
        }
        start = end;
    }
}

/* items[i] becomes the old items[order[i].index]; order is used up. */
static void reorder(struct tensor *items, struct sort_item *order, uint32_t count)
{
    for (uint32_t start = 0; start < count; start++) {
        if (order[start].index == start) {
            continue;
        }
        struct tensor first = items[start];
        uint32_t at = start;
        while (order[at].index != start) {
            uint32_t from = order[at].index;
            items[at] = items[from];
            order[at].index = at;
            at = from;
        }
        items[at] = first;
        order[at].index = at;
    }
}

static berth_status place(berth_status status, const struct tensor *tensor, const struct tensor_file *file,
                          berth_error *err)
{
    error_at_path(err, file->path);
    error_at_object(err, tensor->name.ptr, tensor->name.bytes);
    error_at_offset(err, tensor->offset);
    return status;
}

static berth_status check_names(const struct tensor *items, uint32_t count, const struct tensor_file *files,
                                berth_error *err)
{
    for (uint32_t i = 1; i < count; i++) {
        if (str_equal(items[i - 1].name, items[i].name)) {
            const struct tensor_file *other = &files[items[i - 1].file];
            berth_status status =
                error_set(err, BERTH_ERR_FORMAT, "two tensors have this name; the other one is at byte %llu of %.200s",
                          (unsigned long long)items[i - 1].offset, other->path);
            return place(status, &items[i], &files[items[i].file], err);
        }
    }
    return BERTH_OK;
}

/* One file's tensors, in order of place: order[0..count). */
static berth_status check_file(const struct tensor *items, const struct sort_item *order, uint32_t count,
                               const struct tensor_file *file, berth_error *err)
{
    uint64_t end = file->data_offset;
    const struct tensor *before = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *tensor = &items[order[i].index];
        if (tensor->offset < end && before != NULL && tensor->bytes != 0) {
            berth_status status = error_set(err, BERTH_ERR_FORMAT, "the tensor overlaps %.*s, which ends at byte %llu",
                                            STR_ARG(before->name), (unsigned long long)end);
            return place(status, tensor, file, err);
        }
        if (file->packed && tensor->offset != end) {
            berth_status status =
                error_set(err, BERTH_ERR_FORMAT,
                          "the tensor begins at byte %llu, wanted %llu: the format allows no holes between tensors",
                          (unsigned long long)tensor->offset, (unsigned long long)end);
            return place(status, tensor, file, err);
        }
        if (tensor->bytes != 0) {
            end = tensor->offset + tensor->bytes;
            before = tensor;
        }
    }
    if (file->packed && end != file->bytes) {
        error_set(err, BERTH_ERR_FORMAT, "the tensors end at byte %llu, the file has %llu bytes; it is %s",
                  (unsigned long long)end, (unsigned long long)file->bytes,
                  end > file->bytes ? "cut off" : "too long or damaged");
        error_at_path(err, file->path);
        error_at_offset(err, end);
        return BERTH_ERR_FORMAT;
    }
    return BERTH_OK;
}

/* Items are still grouped by file, in order of the files. */
static berth_status check_places(const struct tensor *items, uint32_t count, const struct tensor_file *files,
                                 uint32_t files_count, struct sort_item *order, struct sort_item *spare,
                                 berth_error *err)
{
    uint32_t at = 0;
    for (uint32_t f = 0; f < files_count; f++) {
        uint32_t first = at;
        for (; at < count && items[at].file == f; at++) {
            uint32_t empty_first = items[at].bytes != 0 ? 1 : 0;
            order[at] = (struct sort_item){items[at].offset, empty_first, at};
        }
        sort_items(order + first, spare, at - first);
        TRY(check_file(items, order + first, at - first, &files[f], err));
    }
    return at == count ? BERTH_OK : error_set(err, BERTH_ERR_INTERNAL, "the tensors are not grouped by file");
}

berth_status tensor_dir_build(struct tensor_dir *out, struct tensor *items, uint32_t count,
                              const struct tensor_file *files, uint32_t files_count, struct arena *scratch,
                              berth_error *err)
{
    uint64_t mark = arena_mark(scratch);
    struct sort_item *order = ARENA_NEW(scratch, struct sort_item, count);
    struct sort_item *spare = ARENA_NEW(scratch, struct sort_item, count);
    TRY(arena_check(scratch, "sorting the tensors", err));
    berth_status status = check_places(items, count, files, files_count, order, spare, err);
    if (status == BERTH_OK) {
        for (uint32_t i = 0; i < count; i++) {
            order[i] = (struct sort_item){0, 0, i};
        }
        sort_by_name(order, spare, count, items, 0);
        reorder(items, order, count);
        status = check_names(items, count, files, err);
    }
    arena_rewind(scratch, mark);
    TRY(status);
    *out = (struct tensor_dir){.items = items, .count = count};
    return tensor_dir_index(out, scratch, err);
}
