/* SPDX-License-Identifier: MIT
 * Fuzz target: source layouts. The input is config.json, a NUL, and tensors as "name dtype dim,dim;...". What is
 * accepted must be readable: every row of every matrix is dequantised from buffers of exactly the stated sizes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/layouts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

enum { SCRATCH_BYTES = 1 << 20, INPUT_MAX = 4096, TENSORS = 32, READ_MAX = 1 << 16 };

static _Alignas(4096) unsigned char scratch[SCRATCH_BYTES];

/* One "name dtype dims" of the list; false: it is no tensor. */
static bool parse_tensor(char *text, uint64_t *at, struct tensor *out)
{
    char *name_end = strchr(text, ' ');
    char *dtype_end = name_end == NULL ? NULL : strchr(name_end + 1, ' ');
    if (dtype_end == NULL) {
        return false;
    }
    struct str dtype = {name_end + 1, (size_t)(dtype_end - name_end - 1)};
    *out = (struct tensor){.name = {text, (size_t)(name_end - text)}, .dtype = quant_from_safetensors(dtype)};
    if (out->dtype == DTYPE_COUNT || tensor_name_fault(out->name, TENSOR_NAME_MAX) != NULL) {
        return false;
    }
    for (char *p = dtype_end + 1; *p != '\0' && out->dims_count < TENSOR_DIMS_MAX;) {
        out->dims[out->dims_count++] = strtoull(p, &p, 10);
        p += *p != '\0' ? 1 : 0;
    }
    if (!tensor_size(out) || out->bytes > UINT32_MAX) {
        return false;
    }
    out->offset = *at;
    *at += out->bytes;
    return true;
}

static void read_all(const struct tensor *tensor)
{
    const struct tensor_side *side = tensor->side;
    uint64_t k = tensor->dims[tensor->dims_count - 1];
    uint64_t row_bytes = 0;
    if (k == 0 || tensor_stored_bytes(tensor) > READ_MAX) {
        return;
    }
    MUST(quant_row_bytes(tensor->dtype, k, &row_bytes) && tensor_elems(tensor) / k * row_bytes == tensor->bytes);
    unsigned char *w = calloc(1, tensor->bytes + 1);
    unsigned char *scales = calloc(1, side->scales.bytes + 1);
    unsigned char *biases = side->biases.bytes > 0 ? calloc(1, side->biases.bytes + 1) : NULL;
    float *out = malloc(k * sizeof *out);
    const struct packed_side beside = {side->format, scales + 1, biases == NULL ? NULL : biases + 1,
                                       packed_groups(&side->format, k) * quant_row(side->scales.dtype)->block_bytes};
    for (uint64_t row = 0; row < tensor_elems(tensor) / k; row++) {
        packed_dequantise(tensor->dtype, &beside, w + 1 + row * row_bytes, row, 0, k, out);
    }
    free(w);
    free(scales);
    free(biases);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[INPUT_MAX + 1];
    static struct os_file files[1];
    size = size < INPUT_MAX ? size : INPUT_MAX;
    memcpy(text, data, size);
    text[size] = '\0';
    struct checkpoint checkpoint = {.format = CHECKPOINT_SAFETENSORS, .files = files, .files_count = 1};
    struct tensor tensors[TENSORS];
    uint32_t count = 0;
    uint64_t at = 0;
    checkpoint.config_json = str_from(text);
    size_t config_bytes = checkpoint.config_json.bytes;
    char *item = config_bytes < size ? text + config_bytes + 1 : NULL;
    while (item != NULL && count < TENSORS) {
        char *end = strchr(item, ';');
        if (end != NULL) {
            *end = '\0';
        }
        count += parse_tensor(item, &at, &tensors[count]) ? 1 : 0;
        item = end == NULL ? NULL : end + 1;
    }
    struct arena arena;
    arena_carve(&arena, scratch, SCRATCH_BYTES);
    struct tensor_file file = {"x", 0, at, false};
    if (tensor_dir_build(&checkpoint.tensors, tensors, count, &file, 1, &arena, NULL) == BERTH_OK &&
        layouts_apply(&checkpoint, &arena, NULL) == BERTH_OK) {
        for (uint32_t i = 0; i < checkpoint.tensors.count; i++) {
            const struct tensor *tensor = &checkpoint.tensors.items[i];
            MUST(tensor->side == NULL || quant_row(tensor->dtype)->sided);
            if (tensor->side != NULL) {
                read_all(tensor);
            }
        }
    }
    return 0;
}
