/* SPDX-License-Identifier: MIT
 * Tokenizers of any bytes: a GGUF header's metadata or a tokenizer.json. What builds must measure as it carves, encode
 * texts to ids that exist, and decode any ids to whole characters. */
#include <stdlib.h>

#include "model/gguf.h"
#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { TEMP_BYTES = 48 << 20, ARENA_BYTES = 24 << 20, SCRATCH_BYTES = 1 << 20, TEXT_BYTES = 256, IDS_MAX = 1024 };

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void decode(const struct text *text, const int32_t *ids, size_t count, bool show_special)
{
    berth_detok detok = {.show_special = show_special};
    size_t cap = text_piece_max_bytes(text);
    char *buffer = malloc(cap);
    size_t wrote;
    if (buffer == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        require(text_detok_push(text, &detok, ids[i], buffer, cap, &wrote) == BERTH_OK);
        require(wrote <= cap && utf8_is_valid(buffer, wrote) && detok.pending_bytes <= 3);
    }
    require(text_detok_finish(&detok, buffer, cap, &wrote) == BERTH_OK && utf8_is_valid(buffer, wrote));
    free(buffer);
}

static void encode(struct text *text, struct str input, unsigned flags)
{
    int32_t ids[IDS_MAX];
    int32_t few[2];
    size_t count = 0;
    size_t again = 0;
    berth_error err = {0};
    berth_status status = text_encode(text, input, flags, ids, IDS_MAX, &count, &err);
    if (status != BERTH_OK) {
        require(status == BERTH_ERR_LIMIT || status == BERTH_ERR_UNSUPPORTED);
        require(err.message[0] != '\0');
        return;
    }
    for (size_t i = 0; i < count; i++) {
        bool special;
        require(text_token(text, ids[i], &special).ptr != NULL);
    }
    status = text_encode(text, input, flags, few, 2, &again, NULL);
    require(again == count && (status == BERTH_OK) == (count <= 2));
    require(count == 0 || few[0] == ids[0]);
    decode(text, ids, count, (flags & BERTH_TOKENIZE_SPECIAL) != 0);
}

static void use(struct text *text)
{
    static const char *const inputs[] = {"",
                                         "a",
                                         " ab  ba\n",
                                         "<s>a</s> b",
                                         "Hello, World's 123 4567!\r\n\t",
                                         "e\xcc\x81\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80",
                                         "\xff\xe4\xb8",
                                         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        encode(text, str_from(inputs[i]), (unsigned)i % 4);
        encode(text, str_from(inputs[i]), 3);
    }
    uint32_t vocab = text_vocab(text);
    for (uint32_t id = 0; id < vocab && id < 64; id++) {
        int32_t one = (int32_t)(id * 7919u % vocab);
        decode(text, &one, 1, true);
        (void)text_is_end(text, one);
    }
    (void)text_chat_template(text);
    (void)text_bos(text);
    (void)text_eos(text);
}

static void build(const struct checkpoint *checkpoint, unsigned char *memory)
{
    struct arena measure;
    struct arena temp;
    struct arena arena;
    struct text *text;
    berth_error err = {0};
    arena_carve(&temp, memory, TEMP_BYTES);
    arena_measure(&measure);
    berth_status status = text_layout(&measure, &temp, checkpoint, TEXT_BYTES, &text, &err);
    require(text == NULL && temp.used_bytes == 0);
    require((status == BERTH_OK) == (err.message[0] == '\0'));
    arena_carve(&arena, memory + TEMP_BYTES, ARENA_BYTES);
    berth_status carved = text_layout(&arena, &temp, checkpoint, TEXT_BYTES, &text, &err);
    require(temp.used_bytes == 0);
    if (status == BERTH_OK && measure.used_bytes <= ARENA_BYTES) {
        require(carved == BERTH_OK && arena.used_bytes == measure.used_bytes);
    }
    if (text != NULL) {
        require(carved == BERTH_OK);
        use(text);
    }
}

static void build_gguf(const uint8_t *data, size_t bytes, unsigned char *memory)
{
    struct checkpoint checkpoint = {.path = "fuzz.gguf"};
    struct gguf_scan scan;
    struct arena scratch;
    berth_error err;
    bool complete = false;
    gguf_scan_begin(&scan, bytes);
    if (gguf_scan_more(&scan, data, bytes, &complete, &err) != BERTH_OK || !complete) {
        return;
    }
    struct meta_pair *pairs = calloc(scan.pairs_count + 1, sizeof *pairs);
    arena_carve(&scratch, memory + TEMP_BYTES + ARENA_BYTES, SCRATCH_BYTES);
    if (pairs != NULL && gguf_parse_meta(&scan, data, pairs, &scratch, &checkpoint.meta, &err) == BERTH_OK) {
        build(&checkpoint, memory);
    }
    free(pairs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static unsigned char *memory;
    if (memory == NULL) {
        memory = aligned_alloc(4096, TEMP_BYTES + ARENA_BYTES + SCRATCH_BYTES);
    }
    if (memory == NULL) {
        return 0;
    }
    if (gguf_is(data, bytes)) {
        build_gguf(data, bytes, memory);
        return 0;
    }
    struct str document = {(const char *)data, bytes};
    struct checkpoint checkpoint = {.tokenizer_json = document,
                                    .tokenizer_config_json = document,
                                    .generation_config_json = document,
                                    .path = "fuzz"};
    build(&checkpoint, memory);
    return 0;
}
