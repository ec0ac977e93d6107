/* SPDX-License-Identifier: MIT
 * The tensor directory: one list for every file format. */
#ifndef MODEL_TENSORS_H
#define MODEL_TENSORS_H

#include "base/error.h"
#include "base/str.h"
#include "quant/quant.h"

enum { TENSOR_DIMS_MAX = 4, TENSOR_NAME_MAX = 256, TENSORS_MAX = 1 << 20 };

struct tensor {
    struct str name;
    enum dtype dtype;
    uint32_t dims_count;
    uint64_t dims[TENSOR_DIMS_MAX]; /* row-major, outermost first ([rows][k]); GGUF's order is reversed on load */
    uint32_t file;                  /* index into checkpoint.files */
    uint64_t offset;                /* first byte, from the start of that file */
    uint64_t bytes;
};

struct tensor_dir {
    const struct tensor *items; /* sorted by name (bytes) */
    uint32_t count;
};

/* NULL: absent. */
const struct tensor *tensor_find(const struct tensor_dir *dir, struct str name);
/* Elements of all dims. */
uint64_t tensor_elems(const struct tensor *tensor);

#endif
