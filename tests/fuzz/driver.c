/* SPDX-License-Identifier: MIT
 *
 * Runs a fuzz target without libFuzzer: every file of a corpus folder, then a number of mutations of them.
 * Deterministic for a seed. The input that brings the process down is written to crash-<target> in the working folder.
 *
 *     <target> CORPUS_FOLDER [--mutations N] [--seconds S] [--seed K]
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Present when a sanitizer is linked in. */
__attribute__((weak)) extern void __sanitizer_set_death_callback(void (*callback)(void));

enum { FILES_MAX = 4096, INPUT_MAX = 1 << 20, STACKED_MAX = 8 };

struct input {
    uint8_t *data;
    size_t bytes;
};

static struct input corpus[FILES_MAX];
static size_t corpus_count;
static struct input running;
static char crash_name[256];

static void save_running(void)
{
    FILE *file = running.data == NULL ? NULL : fopen(crash_name, "wb");
    if (file != NULL) {
        (void)fwrite(running.data, 1, running.bytes, file);
        (void)fclose(file);
        (void)fprintf(stderr, "the input is in %s (%zu bytes)\n", crash_name, running.bytes);
    }
}

static void on_signal(int number)
{
    (void)signal(number, SIG_DFL);
    save_running();
    (void)raise(number);
}

static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
    random_state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = random_state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    mixed ^= mixed >> 31;
    return limit == 0 ? 0 : mixed % limit;
}

/* Exactly `bytes` long on the heap, so that a sanitizer sees a read past the end. */
static void run(const uint8_t *data, size_t bytes)
{
    running.data = malloc(bytes == 0 ? 1 : bytes);
    if (running.data == NULL) {
        abort();
    }
    memcpy(running.data, data, bytes);
    running.bytes = bytes;
    (void)LLVMFuzzerTestOneInput(running.data, bytes);
    free(running.data);
    running = (struct input){NULL, 0};
}

static size_t insert(uint8_t *data, size_t bytes, size_t at, const uint8_t *from, size_t count)
{
    if (bytes + count > INPUT_MAX) {
        return bytes;
    }
    memmove(data + at + count, data + at, bytes - at);
    memcpy(data + at, from, count);
    return bytes + count;
}

static void overwrite_number(uint8_t *data, size_t bytes)
{
    static const uint64_t edges[] = {0,          1,          2,          0x7f,       0x80,       0xff,     0x7fff,
                                     0xffff,     0x10000,    0x7fffffff, 0x80000000, 0xffffffff, 1u << 20, 1ull << 32,
                                     1ull << 40, 1ull << 62, INT64_MAX,  1ull << 63, UINT64_MAX, 32,       64};
    size_t width = (size_t)1 << random_below(4);
    if (bytes < width) {
        return;
    }
    size_t at = random_below(bytes - width + 1);
    uint64_t value = 0;
    memcpy(&value, data + at, width);
    value = random_below(2) == 0 ? value + random_below(9) - 4 : edges[random_below(sizeof edges / sizeof edges[0])];
    memcpy(data + at, &value, width);
}

static size_t mutate(uint8_t *data, size_t bytes)
{
    for (uint64_t count = 1 + random_below(STACKED_MAX); count > 0; count--) {
        size_t at = random_below(bytes + 1);
        size_t length = random_below(bytes - at + 1);
        const struct input *other = &corpus[random_below(corpus_count)];
        uint8_t byte = (uint8_t)random_below(256);
        switch (random_below(7)) {
        case 0: /* one bit */
            if (at < bytes) {
                data[at] ^= (uint8_t)(1u << random_below(8));
            }
            break;
        case 1: /* one byte */
            if (at < bytes) {
                data[at] = byte;
            }
            break;
        case 2:
            overwrite_number(data, bytes);
            break;
        case 3: /* drop a piece */
            length = length > 64 && random_below(4) != 0 ? random_below(64) : length;
            memmove(data + at, data + at + length, bytes - at - length);
            bytes -= length;
            break;
        case 4: /* a byte more */
            bytes = insert(data, bytes, at, &byte, 1);
            break;
        case 5: { /* a piece of another input */
            size_t from = random_below(other->bytes + 1);
            bytes = insert(data, bytes, at, other->data + from, random_below(other->bytes - from + 1));
            break;
        }
        default: /* cut off */
            bytes = random_below(8) == 0 ? at : bytes;
            break;
        }
    }
    return bytes;
}

static int load(const char *folder)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        (void)fprintf(stderr, "%s: cannot be opened\n", folder);
        return -1;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL && corpus_count < FILES_MAX; entry = readdir(dir)) {
        char path[4096];
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path) {
            continue;
        }
        FILE *file = fopen(path, "rb");
        uint8_t *data = malloc(INPUT_MAX);
        if (file == NULL || data == NULL) {
            (void)fprintf(stderr, "%s: cannot be read\n", path);
            return -1;
        }
        corpus[corpus_count++] = (struct input){data, fread(data, 1, INPUT_MAX, file)};
        (void)fclose(file);
    }
    (void)closedir(dir);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t mutations = 0;
    double seconds = 0.0;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--mutations") == 0) {
            mutations = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            seconds = (double)strtoull(argv[i + 1], NULL, 10);
            mutations = UINT64_MAX;
        } else if (strcmp(argv[i], "--seed") == 0) {
            random_state = strtoull(argv[i + 1], NULL, 10);
        } else {
            argc = 0;
        }
    }
    if (argc < 2 || argc % 2 != 0) {
        (void)fprintf(stderr, "usage: %s CORPUS_FOLDER [--mutations N] [--seconds S] [--seed K]\n", argv[0]);
        return 2;
    }
    const char *slash = strrchr(argv[0], '/');
    (void)snprintf(crash_name, sizeof crash_name, "crash-%s", slash == NULL ? argv[0] : slash + 1);
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(save_running);
    } else {
        (void)signal(SIGSEGV, on_signal);
        (void)signal(SIGBUS, on_signal);
        (void)signal(SIGFPE, on_signal);
    }
    (void)signal(SIGABRT, on_signal);
    if (load(argv[1]) != 0 || corpus_count == 0) {
        (void)fprintf(stderr, "%s: no corpus\n", argv[1]);
        return 1;
    }
    for (size_t i = 0; i < corpus_count; i++) {
        run(corpus[i].data, corpus[i].bytes);
    }
    uint8_t *data = malloc(INPUT_MAX);
    if (data == NULL) {
        return 1;
    }
    time_t began = time(NULL);
    uint64_t done = 0;
    while (done < mutations && (seconds == 0.0 || difftime(time(NULL), began) < seconds)) {
        const struct input *from = &corpus[random_below(corpus_count)];
        memcpy(data, from->data, from->bytes);
        run(data, mutate(data, from->bytes));
        done++;
    }
    free(data);
    (void)printf("%s: %zu files, %llu mutations\n", argv[1], corpus_count, (unsigned long long)done);
    return 0;
}
