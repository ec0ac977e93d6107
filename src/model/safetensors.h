/* SPDX-License-Identifier: MIT
 *
 * Safetensors headers and their shard index: pure functions over (pointer, length). Errors carry offset and object; the
 * caller adds the path. Format: safetensors specification (u64 header length, JSON header, data without holes).
 */
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include "model/json.h"
#include "model/tensors.h"

enum {
    SAFETENSORS_PREFIX_BYTES = 8,
    SAFETENSORS_HEADER_MAX = 100000000, /* of the reference reader */
};

/* Bytes from the start of the file to the end of the header, from the first `bytes` (8 at least) bytes of the file. */
berth_status safetensors_header_bytes(const void *ptr, uint64_t bytes, uint64_t file_bytes, uint64_t *header_bytes,
                                      berth_error *err);

/* Tensors that a header of this many bytes can have at most: one for every brace, which as a rule is how many it has.
 * At most TENSORS_MAX + 1. */
uint32_t safetensors_most(const char *ptr, uint64_t header_bytes);

/* Parses the first header_bytes bytes of the file into tensors[safetensors_most()] (tensor.file = file). Names are
 * borrowed from ptr, where escaped ones are unescaped in place. */
berth_status safetensors_parse(char *ptr, uint64_t header_bytes, uint64_t file_bytes, uint32_t file,
                               struct tensor *tensors, uint32_t most, uint32_t *count, berth_error *err);

/* Walks the weight_map of a model.safetensors.index.json. */
struct safetensors_index {
    struct json json;
    bool any; /* weight_map was there */
};
/* False: malformed or without weight_map (use safetensors_index_fail()). */
bool safetensors_index_begin(struct safetensors_index *index, struct str document);
/* The next member: token of the tensor's name and of the file's name. False at the end and on error. */
bool safetensors_index_next(struct safetensors_index *index, struct json_token *tensor, struct json_token *file);
/* BERTH_OK when the walk came to a regular end. */
berth_status safetensors_index_fail(const struct safetensors_index *index, berth_error *err);

#endif
