/* SPDX-License-Identifier: MIT
 * Fuzz target: ledger files. The first byte picks mode, header checks and the length of the pieces that the rest is fed
 * in. Whatever comes, the pieces do not matter, counts stay within the tables, and what is told is printable.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experts/catalog.h"
#include "experts/usage_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

enum { LAYERS = 3, EXPERTS = 16, SCRATCH_BYTES = 64 << 10, INPUT_MAX = 64 << 10 };

static _Alignas(4096) unsigned char scratch[SCRATCH_BYTES];
static struct usage_reader readers[2];
static struct usage_shape shapes[2];

static void feed(struct usage_reader *reader, const uint8_t *data, size_t size, size_t piece)
{
    for (size_t at = 0; at < size; at += piece) {
        usage_reader_feed(reader, (const char *)data + at, size - at < piece ? size - at : piece);
    }
    usage_reader_end(reader);
}

static void check_told(const struct usage_reader *reader)
{
    MUST(memchr(reader->problem, '\0', sizeof reader->problem) != NULL);
    MUST((reader->problem[0] != '\0') == (reader->damaged > 0 || reader->refused));
    for (const char *p = reader->problem; *p != '\0'; p++) {
        MUST((unsigned char)*p >= ' ' && *p != 0x7f);
    }
}

static void check_ledger(const uint8_t *data, size_t size, unsigned how)
{
    static const int64_t layers[LAYERS] = {0, 2, 5};
    static uint32_t counts[2][LAYERS * EXPERTS];
    struct usage_config config = {.path = "ledger",
                                  .layers = layers,
                                  .layers_count = LAYERS,
                                  .experts = EXPERTS,
                                  .mode = (how & 1) != 0 ? USAGE_SEED : USAGE_TOLERANT,
                                  .engine = "olmoe",
                                  .model_layers = 6,
                                  .fingerprint = 0x100000002};
    struct arena arena;
    struct usage *usage = NULL;
    arena_carve(&arena, scratch, sizeof scratch);
    MUST(usage_layout(&arena, &config, &usage, NULL) == BERTH_OK);
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < 2; i++) {
        usage_reader_begin(&readers[i], usage, counts[i], (how & 2) != 0);
        feed(&readers[i], data, size, i == 0 ? size + 1 : 1 + (how >> 2));
        check_told(&readers[i]);
    }
    MUST(memcmp(counts[0], counts[1], sizeof counts[0]) == 0);
    MUST(readers[0].rows == readers[1].rows && readers[0].damaged == readers[1].damaged);
    uint64_t used = 0;
    for (size_t i = 0; i < sizeof counts[0] / sizeof counts[0][0]; i++) {
        used += counts[0][i] > 0 ? 1 : 0;
    }
    MUST(used <= readers[0].rows);
}

static void check_scan(const uint8_t *data, size_t size, unsigned how)
{
    memset(shapes, 0, sizeof shapes);
    for (int i = 0; i < 2; i++) {
        usage_reader_begin_scan(&readers[i], &shapes[i]);
        feed(&readers[i], data, size, i == 0 ? size + 1 : 1 + (how >> 2));
        check_told(&readers[i]);
    }
    MUST(memcmp(&shapes[0], &shapes[1], sizeof shapes[0]) == 0);
    MUST(shapes[0].experts <= EXPERTS_MAX && shapes[0].layers_count <= CATALOG_LAYERS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > INPUT_MAX) {
        return 0;
    }
    check_ledger(data + 1, size - 1, data[0]);
    check_scan(data + 1, size - 1, data[0]);
    return 0;
}
