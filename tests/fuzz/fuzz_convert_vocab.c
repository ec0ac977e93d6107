/* SPDX-License-Identifier: MIT
 * tokenizer.json to GGUF metadata. The input is tokenizer.json and, after a zero byte, tokenizer_config.json. Whatever
 * it holds, the pairs fit the bound that is set aside for them, and a success reads back as one array of each length.
 */
#include "convert/vocab.h"

#include <stdlib.h>

#include "base/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { VOCAB = 48, SCRATCH_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static _Alignas(4096) unsigned char scratch_memory[SCRATCH_BYTES];
    struct checkpoint checkpoint = {.format = CHECKPOINT_SAFETENSORS, .path = "fuzz"};
    const uint8_t *zero = bytes == 0 ? NULL : memchr(data, 0, bytes);
    size_t first = zero == NULL ? bytes : (size_t)(zero - data);
    checkpoint.tokenizer_json = (struct str){(const char *)data, first};
    if (zero != NULL) {
        checkpoint.tokenizer_config_json = (struct str){(const char *)zero + 1, bytes - first - 1};
        checkpoint.generation_config_json = checkpoint.tokenizer_config_json;
    }
    struct arena scratch;
    arena_carve(&scratch, scratch_memory, SCRATCH_BYTES);
    uint64_t bound = convert_vocab_bytes(&checkpoint, VOCAB);
    struct gguf_meta meta = {.bytes.cap_bytes = bound};
    meta.bytes.ptr = malloc((size_t)bound);
    if (meta.bytes.ptr == NULL) {
        return 0;
    }
    const struct log_sink silent = {NULL, NULL};
    berth_error error;
    berth_status status = convert_vocab(&checkpoint, VOCAB, &scratch, &silent, &meta, &error);
    if (meta.bytes.failed || (status == BERTH_OK && (meta.count == 0 || (first > 0 && meta.count < 6))) ||
        (status != BERTH_OK && (error.status != status || error.message[0] == '\0'))) {
        abort();
    }
    free(meta.bytes.ptr);
    return 0;
}
