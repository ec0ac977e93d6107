/* SPDX-License-Identifier: MIT
 * Fuzz target: the GGUF parser. The input is the front of a file; its last byte says how many times 64 bytes follow it,
 * which the parser never sees. Checks that reading in pieces and at once agree, and that what is accepted is sorted
 * and lies inside the file without overlaps. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fit/llama_cpp.h"
#include "model/gguf.h"

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

/* With the fewest bytes every time, in a fresh block of exactly that size. */
static berth_status scan_in_pieces(const uint8_t *image, uint64_t bytes, uint64_t file_bytes, struct gguf_scan *scan)
{
    bool complete = false;
    uint64_t have = 0;
    gguf_scan_begin(scan, file_bytes);
    for (unsigned step = 0; !complete; step++) {
        MUST(scan->need_bytes > have);
        have = scan->need_bytes < bytes ? scan->need_bytes : bytes;
        uint8_t *block = malloc(have + 1);
        memcpy(block, image, have);
        berth_status status = gguf_scan_more(scan, block, have, &complete, NULL);
        free(block);
        TRY(status);
        if (!complete && have == bytes) {
            return BERTH_ERR_STATE; /* wants bytes of the data part that this input does not spell out */
        }
        if (step == 200) { /* the rest at once: pieces make this quadratic */
            scan->need_bytes = bytes > scan->need_bytes ? bytes : scan->need_bytes;
        }
    }
    return BERTH_OK;
}

static void check_meta(const struct meta *meta)
{
    for (uint32_t i = 0; i < meta->count; i++) {
        const struct meta_pair *pair = &meta->pairs[i];
        struct meta_strings walk;
        struct str text;
        uint64_t number;
        double real;
        MUST(meta_find(meta, pair->key) == pair);
        meta_u64(meta, pair->key, &number);
        meta_f64(meta, pair->key, &real);
        meta_str(meta, pair->key, &text);
        uint64_t count = 0;
        if (meta_strings_begin(pair, &walk)) {
            while (meta_strings_next(&walk, &text)) {
                count++;
                MUST(text.bytes == 0 || text.ptr[text.bytes - 1] == text.ptr[text.bytes - 1]);
            }
            MUST(count == pair->count && walk.at == walk.end);
        } else if (pair->type == META_ARRAY && pair->count > 0) {
            MUST(meta_item_f64(pair, pair->count - 1, &real));
            MUST(!meta_item_f64(pair, pair->count, &real));
        }
    }
}

static void check_tensors(const struct tensor_dir *dir, uint64_t data_offset, uint64_t file_bytes)
{
    for (uint32_t i = 0; i < dir->count; i++) {
        const struct tensor *t = &dir->items[i];
        MUST(tensor_find(dir, t->name) == t);
        MUST(t->offset >= data_offset && t->bytes <= file_bytes && t->offset <= file_bytes - t->bytes);
        MUST(t->dims_count <= GGUF_DIMS_MAX && t->dtype < DTYPE_COUNT && t->bytes > 0);
        for (uint32_t j = 0; j < i && i < 64; j++) {
            const struct tensor *other = &dir->items[j];
            MUST(other->offset + other->bytes <= t->offset || t->offset + t->bytes <= other->offset);
        }
    }
}

/* Whatever the metadata say, a shape is refused or its sums are sums. */
static void check_shape(const struct meta *meta, struct arena *arena)
{
    struct shape shape;
    struct llama_report report;
    struct llama_request request = {.ctx_tokens = 5000, .slots = 3, .k = cache_type_find("q8_0")};
    request.v = request.k;
    if (shape_read_gguf(meta, NULL, arena, &shape, NULL) != BERTH_OK) {
        return;
    }
    for (uint32_t i = 0; i < shape.count + shape.mtp_count; i++) {
        const struct shape_layer *layer = &shape.layers[i];
        MUST(layer->owner <= i && shape.layers[layer->owner].cache == layer->cache);
        MUST(layer->cache == SHAPE_NO_CACHE || layer->k_elems > 0);
    }
    MUST(shape.is_known == (shape.problem[0] == '\0'));
    MUST(llama_cache_bytes(&shape, &request, &report));
    llama_solve(&shape, &request, &report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    uint64_t bytes = size;
    uint64_t file_bytes = bytes + 64 * (uint64_t)data[size - 1];
    const uint8_t *image = data;
    struct gguf_scan scan;
    struct gguf_scan pieces;
    bool complete;
    gguf_scan_begin(&scan, file_bytes);
    berth_status at_once = gguf_scan_more(&scan, image, bytes, &complete, NULL);
    berth_status in_pieces = scan_in_pieces(image, bytes, file_bytes, &pieces);
    if (at_once != BERTH_OK || !complete) {
        MUST(in_pieces == (at_once != BERTH_OK ? at_once : BERTH_ERR_STATE));
        return 0;
    }
    MUST(in_pieces == BERTH_OK && pieces.header_bytes == scan.header_bytes && pieces.tensors_at == scan.tensors_at);
    struct arena arena;
    struct meta meta;
    struct tensor_dir dir;
    uint64_t data_offset;
    arena_carve(&arena, scratch, SCRATCH_BYTES);
    struct meta_pair *pairs = ARENA_NEW(&arena, struct meta_pair, scan.pairs_count);
    struct tensor *tensors = ARENA_NEW(&arena, struct tensor, scan.tensors_count);
    if (!arena.failed && gguf_parse_meta(&scan, image, pairs, &arena, &meta, NULL) == BERTH_OK) {
        check_meta(&meta);
        check_shape(&meta, &arena);
        if (gguf_parse_tensors(&scan, image, &meta, 0, tensors, &data_offset, NULL) == BERTH_OK) {
            struct tensor_file file = {"x", data_offset, file_bytes, false};
            if (tensor_dir_build(&dir, tensors, scan.tensors_count, &file, 1, &arena, NULL) == BERTH_OK) {
                check_tensors(&dir, data_offset, file_bytes);
            }
        }
    }
    return 0;
}
