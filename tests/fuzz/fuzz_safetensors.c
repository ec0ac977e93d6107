/* SPDX-License-Identifier: MIT
 * Fuzz target: safetensors headers and shard indexes. The input is the front of a file, its last byte says how many
 * bytes follow it, which the parser never sees; and it is an index. Checks that what is accepted is sorted and covers
 * the file exactly.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

enum { SCRATCH_BYTES = 4 << 20 };

static _Alignas(4096) unsigned char scratch[SCRATCH_BYTES];

static void walk_index(struct str document)
{
    struct safetensors_index index;
    struct json_token key;
    struct json_token file;
    if (safetensors_index_begin(&index, document)) {
        while (safetensors_index_next(&index, &key, &file)) {
            MUST(key.kind == JSON_KEY && file.kind == JSON_STRING);
        }
    }
    berth_error err;
    berth_status status = safetensors_index_fail(&index, &err);
    struct json value;
    bool present = json_find(document, (const char *const[]){"weight_map", NULL}, &value);
    MUST(status != BERTH_OK || present);
}

static void check(const struct tensor_dir *dir, uint64_t header_bytes, uint64_t file_bytes)
{
    uint64_t total = header_bytes;
    for (uint32_t i = 0; i < dir->count; i++) {
        const struct tensor *t = &dir->items[i];
        MUST(tensor_find(dir, t->name) == t && utf8_is_valid(t->name.ptr, t->name.bytes));
        MUST(t->offset >= header_bytes && t->bytes <= file_bytes && t->offset <= file_bytes - t->bytes);
        total += t->bytes;
    }
    MUST(total == file_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    walk_index((struct str){(const char *)data, size});
    uint64_t file_bytes = size + data[size - 1];
    uint64_t header_bytes;
    if (safetensors_header_bytes(data, size, file_bytes, &header_bytes, NULL) == BERTH_OK && header_bytes <= size) {
        struct arena arena;
        struct tensor_dir dir;
        uint32_t count = 0;
        char *header = malloc(header_bytes);
        memcpy(header, data, header_bytes);
        arena_carve(&arena, scratch, SCRATCH_BYTES);
        uint32_t most = safetensors_most(header, header_bytes);
        struct tensor *tensors = ARENA_NEW(&arena, struct tensor, most);
        struct tensor_file file = {"x", header_bytes, file_bytes, true};
        berth_error err;
        berth_status status = tensors == NULL
                                  ? BERTH_ERR_LIMIT
                                  : safetensors_parse(header, header_bytes, file_bytes, 0, tensors, most, &count, &err);
        MUST(status != BERTH_ERR_INTERNAL && count <= most);
        if (status == BERTH_OK && tensor_dir_build(&dir, tensors, count, &file, 1, &arena, NULL) == BERTH_OK) {
            check(&dir, header_bytes, file_bytes);
        }
        free(header);
    }
    return 0;
}
