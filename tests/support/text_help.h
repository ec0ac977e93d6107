/* SPDX-License-Identifier: MIT
 * Building tokenizers in tests, the way a session does: measure, carve, and see that both took the same. */
#ifndef TESTS_SUPPORT_TEXT_HELP_H
#define TESTS_SUPPORT_TEXT_HELP_H

#include <stdio.h>
#include <stdlib.h>

#include "model/json.h"
#include "os/memory.h"
#include "text/text.h"

struct text_help {
    struct text *text;
    void *base, *temp_base;
    uint64_t bytes, temp_bytes;
    uint64_t temp_peak;
    berth_error err;
};

enum { TEXT_HELP_TEMP_BYTES = 64 << 20 };

/* What the planner is told must be what the tokenizer takes, for any length of text. */
static inline void text_help_check_size(struct text_help *help, struct arena *temp, const struct checkpoint *checkpoint)
{
    static const uint64_t lengths[] = {0, 1, 1000, 1 << 16, UINT32_MAX / 4};
    struct text_size size;
    berth_status status = text_measure(temp, checkpoint, &size, &help->err);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct arena measure;
        struct text *none;
        uint64_t bytes = 0;
        arena_measure(&measure);
        if (status != BERTH_OK || text_layout(&measure, temp, checkpoint, lengths[i], &none, &help->err) != BERTH_OK ||
            text_size_bytes(&size, checkpoint, lengths[i], &bytes, &help->err) != BERTH_OK ||
            bytes != measure.used_bytes || temp->used_bytes != 0) {
            fprintf(stderr, "planned %llu bytes, measured %llu\n", (unsigned long long)bytes,
                    (unsigned long long)measure.used_bytes);
            abort();
        }
    }
}

/* On failure .text is NULL, .err says why, and nothing is left to free but with text_help_free(). */
static inline berth_status text_help_build(struct text_help *help, const struct checkpoint *checkpoint,
                                           uint64_t text_bytes_max)
{
    struct arena measure;
    struct arena temp;
    struct arena arena;
    *help = (struct text_help){.temp_bytes = TEXT_HELP_TEMP_BYTES};
    berth_status status = os_reserve(NULL, help->temp_bytes, false, &help->temp_base, &help->err);
    if (status != BERTH_OK) {
        return status;
    }
    arena_carve(&temp, help->temp_base, help->temp_bytes);
    arena_measure(&measure);
    (void)arena_take(&measure, 1, 100, 8); /* as behind other rooms' memory */
    status = text_layout(&measure, &temp, checkpoint, text_bytes_max, &help->text, &help->err);
    if (status != BERTH_OK) {
        return status;
    }
    help->bytes = measure.used_bytes;
    if (help->text != NULL || temp.used_bytes != 0) {
        fprintf(stderr, "measuring gave a tokenizer or kept scratch\n");
        abort();
    }
    if (checkpoint->tokenizer_json.bytes < 64 << 10) { /* else it takes long */
        text_help_check_size(help, &temp, checkpoint);
    }
    status = os_reserve(NULL, help->bytes + 1, false, &help->base, &help->err);
    if (status != BERTH_OK) {
        return status;
    }
    arena_carve(&arena, help->base, help->bytes);
    (void)arena_take(&arena, 1, 100, 8);
    status = text_layout(&arena, &temp, checkpoint, text_bytes_max, &help->text, &help->err);
    help->temp_peak = temp.peak_bytes;
    if (status == BERTH_OK && (arena.used_bytes != measure.used_bytes || temp.used_bytes != 0)) {
        fprintf(stderr, "measured %llu bytes, carved %llu\n", (unsigned long long)measure.used_bytes,
                (unsigned long long)arena.used_bytes);
        abort();
    }
    return status;
}

static inline void text_help_free(struct text_help *help)
{
    if (help->base != NULL) {
        os_release(help->base, help->bytes + 1);
    }
    if (help->temp_base != NULL) {
        os_release(help->temp_base, help->temp_bytes);
    }
    *help = (struct text_help){0};
}

/* All tokens to text, in one go; the result's length. */
static inline size_t text_help_decode(const struct text *text, const int32_t *ids, size_t count, bool show_special,
                                      char *out, size_t cap)
{
    berth_detok detok = {.show_special = show_special};
    size_t used = 0;
    size_t wrote = 0;
    for (size_t i = 0; i < count; i++) {
        if (text_detok_push(text, &detok, ids[i], out + used, cap - used, &wrote) != BERTH_OK) {
            return SIZE_MAX;
        }
        if (!utf8_is_valid(out + used, wrote) || wrote > text_piece_max_bytes(text)) {
            return SIZE_MAX;
        }
        used += wrote;
    }
    return text_detok_finish(&detok, out + used, cap - used, &wrote) == BERTH_OK ? used + wrote : SIZE_MAX;
}

static inline struct str text_help_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return (struct str){NULL, 0};
    }
    (void)fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    char *text = malloc((size_t)bytes + 1);
    size_t got = text == NULL ? 0 : fread(text, 1, (size_t)bytes, file);
    (void)fclose(file);
    return (struct str){text, got};
}

#endif
