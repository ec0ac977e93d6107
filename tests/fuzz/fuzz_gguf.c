/* SPDX-License-Identifier: MIT
 * GGUF headers: scanned in growing pieces as from a slow file, then parsed; what comes out must lie inside the input.
 */
#include "model/gguf.h"

#include <stdlib.h>

enum { SCRATCH_BYTES = 1 << 20, PIECE_BYTES = 97 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_inside(const uint8_t *data, size_t bytes, struct str text)
{
    if (text.bytes > bytes || (const uint8_t *)text.ptr < data ||
        (const uint8_t *)text.ptr > data + (bytes - text.bytes)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    /* The last byte says how much tensor data follows the header: the file is larger than what we hold. */
    uint64_t file_bytes = bytes + (bytes == 0 ? 0 : (uint64_t)data[bytes - 1] * 4096);
    struct gguf_scan scan;
    gguf_scan_begin(&scan, file_bytes);
    bool complete = false;
    size_t at_hand = 0;
    while (!complete) {
        at_hand = bytes - at_hand > PIECE_BYTES ? at_hand + PIECE_BYTES : bytes;
        if (gguf_scan_more(&scan, data, at_hand, &complete, NULL) != BERTH_OK) {
            return 0;
        }
        if (!complete && at_hand == bytes) {
            return 0;
        }
    }
    if (scan.header_bytes > bytes) {
        abort();
    }
    struct meta_pair *pairs = calloc(scan.pairs_count + 1, sizeof *pairs);
    struct tensor *tensors = calloc(scan.tensors_count + 1, sizeof *tensors);
    void *memory = aligned_alloc(4096, SCRATCH_BYTES);
    if (pairs != NULL && tensors != NULL && memory != NULL) {
        struct arena scratch;
        arena_carve(&scratch, memory, SCRATCH_BYTES);
        struct meta meta;
        uint64_t data_offset;
        berth_error err;
        if (gguf_parse_meta(&scan, data, pairs, &scratch, &meta, &err) == BERTH_OK &&
            gguf_parse_tensors(&scan, data, &meta, 0, tensors, &data_offset, &err) == BERTH_OK) {
            for (uint32_t i = 0; i < scan.tensors_count; i++) {
                check_inside(data, bytes, tensors[i].name);
                if (tensors[i].offset < data_offset || tensors[i].bytes > file_bytes ||
                    tensors[i].offset > file_bytes - tensors[i].bytes) {
                    abort();
                }
            }
        }
    }
    free(memory);
    free(tensors);
    free(pairs);
    return 0;
}
