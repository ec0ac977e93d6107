/* SPDX-License-Identifier: MIT
 *
 * GGUF headers, versions 2 and 3, little-endian: pure functions over (pointer, length). A header has no length field,
 * so reading goes in two steps: a scan that walks as far as the bytes at hand reach and says how many it needs, and,
 * once the whole header is there, a parse that fills the pairs and the tensors. Format: GGUF specification (ggml,
 * docs/gguf.md). Errors carry offset and object; the caller adds the path.
 */
#ifndef MODEL_GGUF_H
#define MODEL_GGUF_H

#include "model/meta.h"
#include "model/tensors.h"

enum {
    GGUF_DIMS_MAX = 4,
    GGUF_PAIRS_MAX = 1 << 16,
    GGUF_KEY_MAX = 65535,
    GGUF_ALIGNMENT_DEFAULT = 32,
    GGUF_ALIGNMENT_MAX = 1 << 30
};

struct gguf_scan {
    uint32_t version;
    uint32_t pairs_count, tensors_count;
    uint64_t need_bytes;   /* not complete: bytes from the start of the file that the next step wants at least */
    uint64_t header_bytes; /* complete: end of the last tensor's entry */
    /* private */
    uint64_t file_bytes;
    uint64_t at;         /* of the next unit */
    uint64_t tensors_at; /* of the first tensor's entry */
    uint64_t items_left; /* strings of an array that has been entered */
    uint32_t pairs_seen, tensors_seen;
};

bool gguf_is(const void *ptr, uint64_t bytes); /* the first four bytes say GGUF */

void gguf_scan_begin(struct gguf_scan *scan, uint64_t file_bytes);
/* Walks on in the first `bytes` bytes of the file. *complete: the whole header is there. Checks the structure: lengths,
 * types, counts, limits. */
berth_status gguf_scan_more(struct gguf_scan *scan, const unsigned char *ptr, uint64_t bytes, bool *complete,
                            berth_error *err);

/* After a complete scan, over the same bytes: fills pairs[scan->pairs_count], sorted by key, into meta. Work space
 * comes from scratch and is given back. */
berth_status gguf_parse_meta(const struct gguf_scan *scan, const unsigned char *ptr, struct meta_pair *pairs,
                             struct arena *scratch, struct meta *meta, berth_error *err);
/* Fills tensors[scan->tensors_count] (unsorted, tensor.file = file) and checks them against the size of the file.
 * *data_offset: where tensor data begins. Names are borrowed from ptr. */
berth_status gguf_parse_tensors(const struct gguf_scan *scan, const unsigned char *ptr, const struct meta *meta,
                                uint32_t file, struct tensor *tensors, uint64_t *data_offset, berth_error *err);

#endif
