/* SPDX-License-Identifier: MIT
 * Chooses the I/O engine row and forwards to it. */
#include "experts/io.h"

#include <assert.h>
#include <string.h>

#include "experts/io_engine.h"

static const struct io_engine *const engines[] = {&io_engine_pread, &io_engine_uring, &io_engine_buffered};
enum { ENGINES_COUNT = sizeof engines / sizeof engines[0] };

struct io {
    const struct io_engine *engine;
    void *state, *fallback_state;
    uint32_t queue_max;
};

static berth_status engine_by_name(const char *name, const struct io_engine **out, berth_error *err)
{
    for (uint32_t i = 0; i < ENGINES_COUNT; i++) {
        if (strcmp(engines[i]->name, name) == 0) {
            *out = engines[i];
            return BERTH_OK;
        }
    }
    berth_status status =
        error_set(err, BERTH_ERR_ARGUMENT, "unknown I/O engine, got \"%.60s\", wanted pread, uring or buffered", name);
    error_at_object(err, "io engine", strlen("io engine"));
    return status;
}

berth_status io_engine_direct(const char *engine, bool *direct, berth_error *err)
{
    const struct io_engine *row = &io_engine_pread;
    if (engine != NULL) {
        TRY(engine_by_name(engine, &row, err));
    }
    *direct = row->direct;
    return BERTH_OK;
}

/* The first file that is not read past the page cache; NULL: all are. */
static const struct os_file *first_cached(const struct io_config *config)
{
    for (uint32_t i = 0; config->files != NULL && i < config->files_count; i++) {
        if (!config->files[i].direct) {
            return &config->files[i];
        }
    }
    return NULL;
}

static berth_status pick_engine(const struct io_config *config, const struct io_engine **out, berth_error *err)
{
    const struct os_file *cached = first_cached(config);
    if (config->engine == NULL) {
        *out = cached == NULL ? &io_engine_pread : &io_engine_buffered;
        return BERTH_OK;
    }
    TRY(engine_by_name(config->engine, out, err));
    if ((*out)->direct && cached != NULL) {
        berth_status status = error_set(
            err, BERTH_ERR_UNSUPPORTED,
            "the file system refuses direct I/O, which engine \"%s\" needs; use \"buffered\"", config->engine);
        error_at_path(err, cached->path);
        return status;
    }
    return BERTH_OK;
}

berth_status io_layout(struct arena *tables, struct arena *stacks, const struct io_config *config, struct io **out,
                       berth_error *err)
{
    if (config->threads == 0 || config->threads > IO_THREADS_MAX) {
        return error_set(err, BERTH_ERR_ARGUMENT, "I/O threads: got %u, wanted 1..%u", config->threads,
                         (unsigned)IO_THREADS_MAX);
    }
    const struct io_engine *engine;
    TRY(pick_engine(config, &engine, err));
    struct io *io = ARENA_NEW(tables, struct io, 1);
    void *state = NULL;
    void *fallback_state = NULL;
    TRY(engine->layout(tables, stacks, config, &state, err));
    if (engine->fallback != NULL) {
        TRY(engine->fallback->layout(tables, stacks, config, &fallback_state, err));
    }
    TRY(arena_check(tables, "I/O tables", err));
    TRY(arena_check(stacks, "I/O thread stacks", err));
    if (io != NULL) {
        *io = (struct io){
            .engine = engine, .state = state, .fallback_state = fallback_state, .queue_max = config->queue_max};
    }
    *out = io;
    return BERTH_OK;
}

berth_status io_start(struct io *io, berth_error *err)
{
    berth_status status = io->engine->start(io->state, err);
    if (status == BERTH_ERR_UNSUPPORTED && io->engine->fallback != NULL) {
        io->engine = io->engine->fallback;
        io->state = io->fallback_state;
        status = io->engine->start(io->state, err);
    }
    return status;
}

void io_stop(struct io *io)
{
    if (io != NULL) {
        io->engine->stop(io->state);
    }
}

void io_submit(struct io *io, struct io_request *request)
{
    assert(request->bytes > 0);
    request->status = BERTH_OK;
    request->taken_bytes = 0;
    request->next = NULL;
    request->pieces_left = (uint32_t)((request->bytes + (IO_PIECE_BYTES - 1)) / IO_PIECE_BYTES);
    io->engine->submit(io->state, request);
}

berth_status io_wait(struct io *io, struct io_request *request)
{
    return io->engine->wait(io->state, request);
}

bool io_done(struct io *io, const struct io_request *request)
{
    return io->engine->done(io->state, request);
}

const char *io_engine_name(const struct io *io)
{
    return io->engine->name;
}

uint64_t io_piece_wanted(const struct io_config *config, const struct io_request *request, uint64_t done,
                         uint64_t bytes)
{
    uint64_t size = config->files[request->file].size_bytes;
    uint64_t start = request->offset + done;
    uint64_t end = start + bytes;
    return end > size && end - size < OS_DIRECT_ALIGN && start < size ? size - start : bytes;
}

berth_status io_read_piece(const struct io_config *config, const struct io_request *request, uint64_t done,
                           uint64_t bytes, berth_error *err)
{
    uint64_t wanted = io_piece_wanted(config, request, done, bytes);
    TRY(os_file_read(&config->files[request->file], request->offset + done, wanted,
                     (unsigned char *)request->buffer + done, err));
    return os_file_unchanged(&config->files[request->file], err);
}

void io_request_fail(struct io_request *request, berth_status status, const berth_error *err)
{
    if (request->status == BERTH_OK) {
        request->status = status;
    }
    if (request->err != NULL && (request->err->status == BERTH_OK || err->offset < request->err->offset)) {
        *request->err = *err;
    }
}
