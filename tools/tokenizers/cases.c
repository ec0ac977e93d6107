/* SPDX-License-Identifier: MIT
 *
 * text_cases MODEL < cases > answers: encodes and decodes many texts with one tokenizer, for compare.js and vectors.js.
 * MODEL is a GGUF file, a directory with config.json and tokenizer.json, or a tokenizer.json alone.
 * A case is u32 flags, u32 bytes, text. An answer is i32 status, u32 count, ids (i32), u32 bytes and the text that
 * those ids decode to. On stderr: what building took.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model/checkpoint.h"
#include "os/memory.h"
#include "text/text.h"

enum { TEXT_MAX = 4 << 20 };

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const berth_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", err->path, err->object, err->message);
    exit(1);
}

static struct str read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(bytes + 1);
    bytes = text == NULL ? 0 : fread(text, 1, bytes, file);
    fclose(file);
    return (struct str){text, bytes};
}

static void arena_make(struct arena *arena, uint64_t bytes)
{
    void *base;
    berth_error err = {0};
    if (os_reserve(NULL, bytes, false, &base, &err) != BERTH_OK) {
        fail(&err);
    }
    arena_carve(arena, base, bytes);
}

static struct text *build(const struct checkpoint *checkpoint, uint64_t text_bytes)
{
    struct arena measure;
    struct arena temp;
    struct arena arena;
    struct text *text;
    berth_error err = {0};
    arena_make(&temp, (uint64_t)4 << 30);
    arena_measure(&measure);
    double start = now();
    if (text_layout(&measure, &temp, checkpoint, text_bytes, &text, &err) != BERTH_OK) {
        fail(&err);
    }
    double measured = now();
    arena_make(&arena, measure.used_bytes + 4096);
    if (text_layout(&arena, &temp, checkpoint, text_bytes, &text, &err) != BERTH_OK) {
        fail(&err);
    }
    fprintf(stderr, "measured in %.0f ms, carved in %.0f ms, %.2f MiB for texts of %.2f MiB, scratch %.2f MiB\n",
            1e3 * (measured - start), 1e3 * (now() - measured), (double)arena.used_bytes / 1048576,
            (double)text_bytes / 1048576, (double)temp.peak_bytes / 1048576);
    if (arena.used_bytes != measure.used_bytes || text == NULL) {
        fprintf(stderr, "measured %llu bytes, carved %llu\n", (unsigned long long)measure.used_bytes,
                (unsigned long long)arena.used_bytes);
        exit(1);
    }
    return text;
}

static size_t decode(const struct text *text, const int32_t *ids, size_t count, char *out, size_t cap)
{
    berth_detok detok = {.show_special = false};
    size_t used = 0;
    size_t wrote;
    for (size_t i = 0; i < count; i++) {
        if (text_detok_push(text, &detok, ids[i], out + used, cap - used, &wrote) != BERTH_OK) {
            fprintf(stderr, "decoding failed\n");
            exit(1);
        }
        used += wrote;
    }
    if (text_detok_finish(&detok, out + used, cap - used, &wrote) != BERTH_OK) {
        exit(1);
    }
    return used + wrote;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: text_cases MODEL < cases > answers\n");
        return 2;
    }
    struct checkpoint checkpoint = {0};
    struct arena scratch;
    berth_error err = {0};
    size_t length = strlen(argv[1]);
    if (length > 14 && strcmp(argv[1] + length - 14, "tokenizer.json") == 0) {
        checkpoint.tokenizer_json = read_all(argv[1]);
    } else {
        arena_make(&scratch, (uint64_t)1 << 30);
        if (checkpoint_open(&checkpoint, argv[1], CHECKPOINT_WANT_TEXT, &scratch, NULL, &err) != BERTH_OK) {
            fail(&err);
        }
    }
    struct text *text = build(&checkpoint, 65536);
    text = getenv("TEXT_CASES_LONG") != NULL ? build(&checkpoint, TEXT_MAX) : text;
    char *input = malloc(TEXT_MAX);
    int32_t *ids = malloc(sizeof(int32_t) * TEXT_MAX);
    size_t cap = (size_t)TEXT_MAX * 4 + text_piece_max_bytes(text);
    char *output = malloc(cap);
    uint32_t head[2];
    double spent = 0;
    double bytes = 0;
    while (input != NULL && ids != NULL && output != NULL && fread(head, sizeof head, 1, stdin) == 1) {
        if (head[1] > TEXT_MAX || fread(input, 1, head[1], stdin) != head[1]) {
            return 1;
        }
        size_t count = 0;
        double start = now();
        berth_status status = text_encode(text, (struct str){input, head[1]}, head[0], ids, TEXT_MAX, &count, &err);
        spent += now() - start;
        bytes += head[1];
        if (status != BERTH_OK) {
            fprintf(stderr, "%s\n", err.message);
            count = 0;
        }
        int32_t answer[2] = {status, (int32_t)count};
        fwrite(answer, sizeof answer, 1, stdout);
        fwrite(ids, sizeof *ids, count, stdout);
        uint32_t decoded = (uint32_t)decode(text, ids, count, output, cap);
        fwrite(&decoded, sizeof decoded, 1, stdout);
        fwrite(output, 1, decoded, stdout);
    }
    fprintf(stderr, "encoded %.0f bytes in %.1f ms, %.2f MB/s\n", bytes, 1e3 * spent,
            spent > 0 ? bytes / spent / 1e6 : 0.0);
    return 0;
}
