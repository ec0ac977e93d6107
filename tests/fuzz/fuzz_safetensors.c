/* SPDX-License-Identifier: MIT
 * Safetensors headers and shard indexes; tensors must lie inside the file, names inside the header. */
#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void parse_header(const uint8_t *data, size_t bytes)
{
    uint64_t file_bytes = bytes + (uint64_t)data[bytes - 1] * 4096;
    uint64_t header_bytes;
    berth_error err;
    if (safetensors_header_bytes(data, bytes, file_bytes, &header_bytes, &err) != BERTH_OK || header_bytes > bytes) {
        return;
    }
    char *copy = malloc(header_bytes);
    void *memory = aligned_alloc(4096, ARENA_BYTES);
    if (copy != NULL && memory != NULL) {
        memcpy(copy, data, header_bytes);
        struct arena arena;
        arena_carve(&arena, memory, ARENA_BYTES);
        uint32_t count = 0;
        if (safetensors_parse(copy, header_bytes, file_bytes, 0, &arena, &count, &err) == BERTH_OK) {
            const struct tensor *tensors = memory;
            for (uint32_t i = 0; i < count; i++) {
                const struct tensor *tensor = &tensors[i];
                if (tensor->name.ptr < copy || tensor->name.ptr + tensor->name.bytes > copy + header_bytes ||
                    tensor->offset < header_bytes || tensor->bytes > file_bytes ||
                    tensor->offset > file_bytes - tensor->bytes) {
                    abort();
                }
            }
        }
    }
    free(memory);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < SAFETENSORS_PREFIX_BYTES) {
        return 0;
    }
    parse_header(data, bytes);
    struct safetensors_index index;
    if (safetensors_index_begin(&index, (struct str){(const char *)data, bytes})) {
        struct json_token tensor;
        struct json_token file;
        while (safetensors_index_next(&index, &tensor, &file)) {
        }
    }
    berth_error err;
    (void)safetensors_index_fail(&index, &err);
    return 0;
}
