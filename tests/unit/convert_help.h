/* SPDX-License-Identifier: MIT
 * What the tests of convert share: a scratch directory, opening checkpoints, whole files and tensors in memory. */
#ifndef TESTS_CONVERT_HELP_H
#define TESTS_CONVERT_HELP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "convert/convert.h"
#include "family/family.h"
#include "model/checkpoint.h"

#define GOLDEN_DIR BERTH_TESTS_DIR "/golden"

static const char *const help_families[] = {"llama", "qwen3", "qwen2-moe", "qwen3-moe", "olmoe", "mixtral"};
enum { HELP_FAMILIES = 6 };

static char help_dir[64];

static inline int help_setup(void **state)
{
    (void)state;
    strcpy(help_dir, "/tmp/berth-convert-XXXXXX");
    return mkdtemp(help_dir) == NULL ? -1 : 0;
}

static inline const char *help_path(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", help_dir, name);
    return path;
}

static inline const char *help_golden(const char *family)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, family);
    return path;
}

/* Entries of the scratch directory. */
static inline unsigned help_count_files(void)
{
    unsigned count = 0;
    DIR *dir = opendir(help_dir);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        count += e->d_name[0] == '.' ? 0 : 1;
    }
    closedir(dir);
    return count;
}

static inline void help_clear(void)
{
    DIR *dir = opendir(help_dir);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (e->d_name[0] != '.') {
            char path[512];
            snprintf(path, sizeof path, "%s/%s", help_dir, e->d_name);
            if (unlink(path) != 0) {
                rmdir(path);
            }
        }
    }
    closedir(dir);
}

static inline int help_teardown(void **state)
{
    (void)state;
    help_clear();
    return rmdir(help_dir);
}

static inline unsigned char *help_read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*bytes + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *bytes, file), *bytes);
    data[*bytes] = 0;
    fclose(file);
    return data;
}

static inline void help_write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void help_same_files(const char *a, const char *b)
{
    size_t a_bytes;
    size_t b_bytes;
    unsigned char *x = help_read_file(a, &a_bytes);
    unsigned char *y = help_read_file(b, &b_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(x, y, a_bytes);
    free(x);
    free(y);
}

/* A status that must be BERTH_OK; prints the error otherwise. */
static inline void help_ok(berth_status status, const berth_error *error)
{
    if (status != BERTH_OK) {
        print_error("status %d: %s [%s] [%s]\n", status, error->message, error->path, error->object);
    }
    assert_int_equal(status, BERTH_OK);
}

struct opened {
    struct arena scratch;
    struct checkpoint checkpoint;
};
enum { HELP_SCRATCH_BYTES = 512 * 1024 * 1024 };

static inline void help_open(struct opened *opened, const char *path)
{
    berth_error error;
    void *base;
    help_ok(os_reserve(NULL, HELP_SCRATCH_BYTES, false, &base, &error), &error);
    arena_carve(&opened->scratch, base, HELP_SCRATCH_BYTES);
    help_ok(checkpoint_open(&opened->checkpoint, path, CHECKPOINT_WANT_TENSORS | CHECKPOINT_WANT_TEXT, &opened->scratch,
                            NULL, &error),
            &error);
}

static inline void help_close(struct opened *opened)
{
    checkpoint_close(&opened->checkpoint);
    os_release(opened->scratch.base, HELP_SCRATCH_BYTES);
}

/* A tensor's stored bytes, malloc'ed. */
static inline unsigned char *help_tensor_bytes(const struct opened *opened, const struct tensor *tensor)
{
    berth_error error;
    const struct os_file *file = &opened->checkpoint.files[tensor->file];
    uint64_t skip = tensor->offset % OS_DIRECT_ALIGN;
    uint64_t span = (skip + tensor->bytes + OS_DIRECT_ALIGN - 1) / OS_DIRECT_ALIGN * OS_DIRECT_ALIGN;
    unsigned char *data = aligned_alloc(OS_DIRECT_ALIGN, (size_t)span + OS_DIRECT_ALIGN);
    assert_non_null(data);
    help_ok(os_file_read(file, tensor->offset - skip, skip + tensor->bytes, data, &error), &error);
    memmove(data, data + skip, (size_t)tensor->bytes);
    return data;
}

/* The same as float32, malloc'ed. */
static inline float *help_tensor_floats(const struct opened *opened, const struct tensor *tensor)
{
    uint64_t count = tensor_elems(tensor);
    float *floats = malloc((size_t)count * sizeof *floats + 1);
    unsigned char *data = help_tensor_bytes(opened, tensor);
    assert_non_null(floats);
    quant_row(tensor->dtype)->dequantise(data, floats, (size_t)count);
    free(data);
    return floats;
}

#endif
