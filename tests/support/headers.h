/* SPDX-License-Identifier: MIT
 * Checkpoints of hundreds of gigabytes that are headers in front of holes: real shapes, nearly no blocks on the disk.
 */
#ifndef TESTS_SUPPORT_HEADERS_H
#define TESTS_SUPPORT_HEADERS_H

#include <stdbool.h>
#include <stdint.h>

struct headers_request {
    const char *folder; /* exists */
    const char *shape;  /* "qwen3-moe", "deepseek-v3": headers_shape() */
    bool gguf;      /* one file, experts one by one as the first mixture files had them; else safetensors and index */
    uint32_t files; /* safetensors; 0: as the shape's release */
    uint32_t layers, experts; /* 0: the shape's own */
};

struct headers_made {
    char path[512]; /* what to open: the folder, or the GGUF file in it */
    uint32_t tensors, files;
    uint64_t tensor_bytes, expert_bytes, parameters; /* parameters: elements, those of scales too */
};

/* Name of a shape; NULL past the last. */
const char *headers_shape(uint32_t i);
/* False: errno says why. Files that are there are overwritten. */
bool headers_make(const struct headers_request *request, struct headers_made *made);

#endif
