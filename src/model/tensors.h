/* SPDX-License-Identifier: MIT
 * The tensor directory: one list for every file format. */
#ifndef MODEL_TENSORS_H
#define MODEL_TENSORS_H

#include "base/error.h"
#include "base/str.h"
#include "memory/arena.h"
#include "quant/packed.h"

/* Six dims: convolutions of vision towers have five. */
enum { TENSOR_DIMS_MAX = 6, TENSOR_NAME_MAX = 256, TENSORS_MAX = 1 << 20 };

struct tensor_side;

struct tensor {
    struct str name;
    enum dtype dtype;
    uint32_t dims_count;
    uint64_t dims[TENSOR_DIMS_MAX]; /* row-major, outermost first ([rows][k]); GGUF's order is reversed on load */
    uint32_t file;                  /* index into checkpoint.files */
    uint64_t offset;                /* first byte, from the start of that file */
    uint64_t bytes;
    const struct tensor_side *side; /* NULL: the values need nothing beside them */
};

/* Scales (and biases) that lie in tensors of their own. These are not in the directory: their tensor is dtype, dims and
 * side of what they belong to, whose dims are those of the values. Filled by layouts_apply(). */
struct tensor_side {
    struct packed format;
    struct tensor scales, biases; /* biases.bytes 0: none */
};

struct tensor_dir {
    const struct tensor *items; /* sorted by name (bytes) */
    uint32_t count;
    const uint32_t *table; /* of large directories: places of items plus one by hash of the name; NULL: none */
    uint32_t table_mask;
};

/* Makes the table of a directory of many tensors, where a binary search misses the processor's caches at every step. */
berth_status tensor_dir_index(struct tensor_dir *dir, struct arena *arena, berth_error *err);
/* NULL: absent. */
const struct tensor *tensor_find(const struct tensor_dir *dir, struct str name);
/* Elements of all dims. */
uint64_t tensor_elems(const struct tensor *tensor);

/* What tensor_dir_build() knows about a file. */
struct tensor_file {
    const char *path;
    uint64_t data_offset; /* where tensor data may begin */
    uint64_t bytes;
    bool packed; /* the data part must be covered without holes (safetensors) */
};

/* Sorts items in place and checks that no two have one name, that none overlap, and that packed files are packed. Items
 * come grouped by file, in order; names hold no NUL. The work space is taken from scratch and given back. */
berth_status tensor_dir_build(struct tensor_dir *out, struct tensor *items, uint32_t count,
                              const struct tensor_file *files, uint32_t files_count, struct arena *scratch,
                              berth_error *err);

/* Stored bytes with what lies beside. */
uint64_t tensor_stored_bytes(const struct tensor *tensor);

/* Elements and bytes of tensor->dims and dtype into tensor->bytes. False on overflow, or when a row is not a whole
 * number of blocks. */
bool tensor_size(struct tensor *tensor);

/* Fit for a tensor or key: 1 to `max` bytes of UTF-8 without NUL. NULL, or what is wrong (static text). */
const char *tensor_name_fault(struct str name, uint64_t max);

#endif
