/* SPDX-License-Identifier: MIT
 * src/tool.h: fingerprints of a checkpoint. In byte order every tensor has a digest of its own, so that threads take
 * one tensor after another; the documents' digest runs through all of them and has one thread. */
#include <stdio.h>

#include "fit/fingerprint.h"
#include "model/checkpoint.h"
#include "os/cpu.h"
#include "os/file.h"
#include "os/memory.h"
#include "os/thread.h"
#include "tool.h"

enum { PIECE_BYTES = 4 << 20, BUFFER_BYTES = PIECE_BYTES + 2 * OS_DIRECT_ALIGN, THREADS_MAX = 64, ORDERS = 2 };

struct tool_prints {
    void *region;
    uint64_t region_bytes;
    struct arena arena;
    struct checkpoint checkpoint;
    berth_tensor_item *items; /* in the directory's order, which is that of the bytes of the names */
    uint64_t bytes;
    char config[BERTH_FINGERPRINT_BYTES];
    char tensors[ORDERS][SHA256_TEXT_BYTES]; /* empty: not computed yet */
};

/* ---- opening ---------------------------------------------------------------------------------------- */

/* No number in the documents. */
#define NO_DTYPE UINT32_MAX

static uint32_t dtype_number(const char *name)
{
    int number = berth_tensor_dtype(name);
    return number >= 0 ? (uint32_t)number : NO_DTYPE;
}

/* The element type as the file has it: packed quants are matrices of 32-bit words there. */
static void fill_item(const struct tensor *tensor, char *name, uint64_t *dims, berth_tensor_item *item)
{
    const struct quant_row *row = quant_row(tensor->dtype);
    uint64_t rows = 1;
    memcpy(name, tensor->name.ptr, tensor->name.bytes);
    name[tensor->name.bytes] = '\0';
    memcpy(dims, tensor->dims, tensor->dims_count * sizeof *dims);
    *item = (berth_tensor_item){.name = name,
                                .dtype = dtype_number(row->safetensors != NULL ? row->safetensors : row->name),
                                .dims = dims,
                                .dims_count = tensor->dims_count,
                                .data_bytes = tensor->bytes};
    if (row->sided && tensor->dims_count > 0) {
        for (uint32_t i = 0; i + 1 < tensor->dims_count; i++) {
            rows *= tensor->dims[i];
        }
        item->dtype = dtype_number("U32");
        dims[tensor->dims_count - 1] = rows > 0 ? tensor->bytes / rows / 4 : 0;
    }
}

static berth_status fill_items(tool_prints *prints, berth_error *err)
{
    const struct tensor_dir *dir = &prints->checkpoint.tensors;
    prints->items = ARENA_NEW(&prints->arena, berth_tensor_item, dir->count);
    for (uint32_t i = 0; i < dir->count; i++) {
        const struct tensor *tensor = &dir->items[i];
        char *name = arena_take(&prints->arena, tensor->name.bytes + 1, 1, 1);
        uint64_t *dims = arena_take(&prints->arena, tensor->dims_count, sizeof *dims, sizeof *dims);
        TRY(arena_check(&prints->arena, "the tensors' names", err));
        fill_item(tensor, name, dims, &prints->items[i]);
        prints->bytes += tensor->bytes;
    }
    return BERTH_OK;
}

berth_status tool_prints_open(const char *path, tool_prints **out, berth_error *err)
{
    void *region = NULL;
    uint64_t bytes = 0;
    struct arena arena;
    berth_status status = BERTH_ERR_MEMORY;
    for (uint64_t want = (uint64_t)4 << 30; status != BERTH_OK && want >= (uint64_t)64 << 20; want /= 4) {
        bytes = want;
        status = os_reserve(NULL, want, false, &region, err);
    }
    TRY(status);
    arena_carve(&arena, region, bytes);
    tool_prints *prints = ARENA_NEW(&arena, tool_prints, 1);
    if (prints == NULL) {
        os_release(region, bytes);
        return error_set(err, BERTH_ERR_INTERNAL, "no room for the header of a checkpoint");
    }
    memset(prints, 0, sizeof *prints);
    status = checkpoint_open(&prints->checkpoint, path, CHECKPOINT_WANT_TENSORS, &arena, NULL, err);
    if (status != BERTH_OK) {
        os_release(region, bytes);
        return status;
    }
    prints->region = region;
    prints->region_bytes = bytes;
    prints->arena = arena;
    status = fill_items(prints, err);
    if (status != BERTH_OK) {
        tool_prints_close(prints);
        return status;
    }
    *out = prints;
    return BERTH_OK;
}

void tool_prints_close(tool_prints *prints)
{
    if (prints != NULL) {
        void *region = prints->region;
        uint64_t bytes = prints->region_bytes;
        checkpoint_close(&prints->checkpoint);
        os_release(region, bytes);
    }
}

berth_status tool_prints_config(tool_prints *prints, char fingerprint[17], berth_error *err)
{
    if (prints->checkpoint.format == CHECKPOINT_GGUF || prints->checkpoint.config_json.bytes == 0) {
        return error_set(err, BERTH_ERR_UNSUPPORTED, "there is no config.json to take a fingerprint of");
    }
    if (prints->config[0] == '\0') {
        berth_fit_source source = BERTH_FIT_SOURCE_INIT;
        berth_fit_config config = BERTH_FIT_CONFIG_INIT;
        uint64_t mark = arena_mark(&prints->arena);
        source.config_json = (berth_text){prints->checkpoint.config_json.ptr, prints->checkpoint.config_json.bytes};
        source.generation_config_json = (berth_text){prints->checkpoint.generation_config_json.ptr,
                                                     prints->checkpoint.generation_config_json.bytes};
        size_t bytes = berth_fit_config_bytes(&source);
        void *memory = arena_take(&prints->arena, bytes, 1, 0);
        berth_status status = arena_check(&prints->arena, "the configuration", err);
        if (status == BERTH_OK) {
            status = berth_fit_config_parse(&source, memory, bytes, &config, err);
        }
        if (status == BERTH_OK) {
            status = berth_config_fingerprint(&config, prints->config, NULL, err);
        }
        arena_rewind(&prints->arena, mark);
        TRY(status);
    }
    memcpy(fingerprint, prints->config, sizeof prints->config);
    return BERTH_OK;
}

/* ---- hashing ---------------------------------------------------------------------------------------- */

struct hashing {
    const tool_prints *prints;
    unsigned char *digests; /* [count][32] */
    struct os_mutex mutex;
    uint32_t next;
    uint64_t done;
    berth_progress_fn *progress;
    void *progress_user;
    berth_status status; /* the first that went wrong; the others stop */
    berth_error err;
};

struct worker {
    struct hashing *hashing;
    struct os_thread thread;
    void *stack, *buffer;
};

/* A piece through the aligned buffer; *data: where it begins there. */
static berth_status read_piece(const tool_prints *prints, uint32_t index, uint64_t at, uint64_t bytes, void *buffer,
                               const unsigned char **data, berth_error *err)
{
    const struct tensor *tensor = &prints->checkpoint.tensors.items[index];
    uint64_t from = tensor->offset + at;
    uint64_t start = from & ~(uint64_t)(OS_DIRECT_ALIGN - 1);
    TRY(os_file_read(&prints->checkpoint.files[tensor->file], start, from + bytes - start, buffer, err));
    *data = (const unsigned char *)buffer + (from - start);
    return BERTH_OK;
}

/* False: stop. */
static bool report(struct hashing *hashing, uint32_t index, uint64_t bytes)
{
    os_mutex_lock(&hashing->mutex);
    hashing->done += bytes;
    if (hashing->status == BERTH_OK && hashing->progress != NULL &&
        !hashing->progress(hashing->progress_user, hashing->prints->items[index].name, hashing->done,
                           hashing->prints->bytes)) {
        hashing->status = error_set(&hashing->err, BERTH_ERR_CANCELLED, "the caller stopped the fingerprint");
    }
    bool go_on = hashing->status == BERTH_OK;
    os_mutex_unlock(&hashing->mutex);
    return go_on;
}

static berth_status hash_one(struct worker *worker, uint32_t index, berth_error *err)
{
    const tool_prints *prints = worker->hashing->prints;
    const berth_tensor_item *item = &prints->items[index];
    struct sha256 sha;
    sha256_begin(&sha);
    fingerprint_head(&sha, item,
                     item->dtype == NO_DTYPE ? quant_row(prints->checkpoint.tensors.items[index].dtype)->name : NULL);
    for (uint64_t at = 0; at < item->data_bytes;) {
        uint64_t left = item->data_bytes - at;
        uint64_t part = left < PIECE_BYTES ? left : PIECE_BYTES;
        const unsigned char *data;
        TRY(read_piece(prints, index, at, part, worker->buffer, &data, err));
        sha256_add(&sha, data, (size_t)part);
        at += part;
        if (!report(worker->hashing, index, part)) {
            return BERTH_ERR_CANCELLED;
        }
    }
    sha256_end(&sha, worker->hashing->digests + (size_t)index * SHA256_BYTES);
    return BERTH_OK;
}

static void work(void *arg)
{
    struct worker *worker = arg;
    struct hashing *hashing = worker->hashing;
    for (;;) {
        berth_error err;
        os_mutex_lock(&hashing->mutex);
        uint32_t index = hashing->status == BERTH_OK ? hashing->next++ : UINT32_MAX;
        os_mutex_unlock(&hashing->mutex);
        if (index >= hashing->prints->checkpoint.tensors.count) {
            return;
        }
        berth_status status = hash_one(worker, index, &err);
        if (status != BERTH_OK) {
            os_mutex_lock(&hashing->mutex);
            if (hashing->status == BERTH_OK) {
                hashing->status = status;
                hashing->err = err;
            }
            os_mutex_unlock(&hashing->mutex);
            return;
        }
    }
}

/* Runs the workers, the first on this thread; one that cannot start is done without. */
static void run_workers(struct worker *workers, uint32_t count)
{
    bool started[THREADS_MAX] = {false};
    for (uint32_t i = 1; i < count; i++) {
        started[i] = os_thread_start(&workers[i].thread, workers[i].stack, work, &workers[i], NULL) == BERTH_OK;
    }
    work(&workers[0]);
    for (uint32_t i = 1; i < count; i++) {
        if (started[i]) {
            os_thread_join(&workers[i].thread);
        }
    }
}

static berth_status hash_bytes_order(tool_prints *prints, uint32_t threads, berth_progress_fn *progress, void *user,
                                     char text[SHA256_TEXT_BYTES], berth_error *err)
{
    uint32_t count = prints->checkpoint.tensors.count;
    struct hashing hashing = {.prints = prints, .progress = progress, .progress_user = user, .status = BERTH_OK};
    threads = threads > 0 ? threads : os_cpu_count();
    threads = threads < THREADS_MAX ? threads : THREADS_MAX;
    threads = threads < count ? threads : count > 0 ? count : 1;
    hashing.digests = arena_take(&prints->arena, count, SHA256_BYTES, 0);
    struct worker *workers = ARENA_NEW(&prints->arena, struct worker, threads);
    TRY(arena_check(&prints->arena, "the digests", err));
    for (uint32_t i = 0; i < threads; i++) {
        workers[i] = (struct worker){.hashing = &hashing,
                                     .stack = arena_take(&prints->arena, OS_STACK_BYTES, 1, OS_DIRECT_ALIGN),
                                     .buffer = arena_take(&prints->arena, BUFFER_BYTES, 1, OS_DIRECT_ALIGN)};
        TRY(arena_check(&prints->arena, "the digests", err));
    }
    os_mutex_init(&hashing.mutex);
    run_workers(workers, threads);
    os_mutex_destroy(&hashing.mutex);
    if (hashing.status != BERTH_OK) {
        if (err != NULL) {
            *err = hashing.err;
        }
        return hashing.status;
    }
    struct sha256 all;
    sha256_begin(&all);
    sha256_add(&all, FINGERPRINT_BYTES_LINE, sizeof FINGERPRINT_BYTES_LINE - 1);
    sha256_add(&all, hashing.digests, (size_t)count * SHA256_BYTES);
    sha256_end_text(&all, text);
    return BERTH_OK;
}

struct reading {
    const tool_prints *prints;
    void *buffer;
};

static berth_status read_for_set(void *user, size_t index, uint64_t offset, size_t bytes, void *buffer,
                                 berth_error *err)
{
    const struct reading *reading = user;
    const unsigned char *data;
    TRY(read_piece(reading->prints, (uint32_t)index, offset, bytes, reading->buffer, &data, err));
    memcpy(buffer, data, bytes);
    return BERTH_OK;
}

static berth_status hash_locale_order(tool_prints *prints, berth_progress_fn *progress, void *user,
                                      char text[SHA256_TEXT_BYTES], berth_error *err)
{
    uint32_t count = prints->checkpoint.tensors.count;
    struct reading reading = {prints, arena_take(&prints->arena, BUFFER_BYTES, 1, OS_DIRECT_ALIGN)};
    berth_tensor_set set = BERTH_TENSOR_SET_INIT;
    for (uint32_t i = 0; i < count; i++) {
        if (prints->items[i].dtype == NO_DTYPE) {
            berth_status status =
                error_set(err, BERTH_ERR_UNSUPPORTED,
                          "the documents' order has no number for elements of type %s; the byte order has",
                          quant_row(prints->checkpoint.tensors.items[i].dtype)->name);
            error_at_object(err, prints->items[i].name, strlen(prints->items[i].name));
            return status;
        }
    }
    set.items = prints->items;
    set.count = count;
    set.order = BERTH_TENSOR_ORDER_LOCALE;
    set.work = arena_take(&prints->arena, 2 * (uint64_t)count, sizeof *set.work, 0);
    set.read = read_for_set;
    set.read_user = &reading;
    set.buffer = arena_take(&prints->arena, PIECE_BYTES, 1, 0);
    set.buffer_bytes = PIECE_BYTES;
    set.progress = progress;
    set.progress_user = user;
    TRY(arena_check(&prints->arena, "the digests", err));
    return berth_tensor_fingerprint(&set, text, err);
}

berth_status tool_prints_tensors(tool_prints *prints, berth_tensor_order order, uint32_t threads,
                                 berth_progress_fn *progress, void *progress_user, char sha256[65], berth_error *err)
{
    bool bytes = order == BERTH_TENSOR_ORDER_BYTES;
    char *kept = prints->tensors[bytes ? 1 : 0];
    if (kept[0] == '\0') {
        uint64_t mark = arena_mark(&prints->arena);
        char text[SHA256_TEXT_BYTES];
        berth_status status = bytes ? hash_bytes_order(prints, threads, progress, progress_user, text, err)
                                    : hash_locale_order(prints, progress, progress_user, text, err);
        arena_rewind(&prints->arena, mark);
        TRY(status);
        memcpy(kept, text, sizeof text);
    }
    memcpy(sha256, kept, SHA256_TEXT_BYTES);
    return BERTH_OK;
}
