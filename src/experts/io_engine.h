/* SPDX-License-Identifier: MIT
 * What an I/O engine row provides. Private to src/experts/io*.c. */
#ifndef EXPERTS_IO_ENGINE_H
#define EXPERTS_IO_ENGINE_H

#include "experts/io.h"

struct io_engine {
    const char *name;
    bool direct;                      /* needs files opened with O_DIRECT */
    const struct io_engine *fallback; /* takes over when start() says BERTH_ERR_UNSUPPORTED; NULL: nobody */
    /* Takes the engine's own memory behind struct io; *state stays NULL when measuring. */
    berth_status (*layout)(struct arena *tables, struct arena *stacks, const struct io_config *config, void **state,
                           berth_error *err);
    berth_status (*start)(void *state, berth_error *err);
    void (*stop)(void *state);
    void (*submit)(void *state, struct io_request *request); /* bytes > 0 */
    berth_status (*wait)(void *state, struct io_request *request);
    bool (*done)(void *state, const struct io_request *request); /* would wait() return at once? */
};

extern const struct io_engine io_engine_pread, io_engine_buffered, io_engine_uring;

/* Bytes of a piece that the file really has: an aligned span may end in the page that holds the end of the file. */
uint64_t io_piece_wanted(const struct io_config *config, const struct io_request *request, uint64_t done,
                         uint64_t bytes);
/* Reads one piece, at most IO_PIECE_BYTES, at `done` bytes into the request, and makes sure that the file is still the
 * one that was opened: other weights are never computed with. A failure goes to *err. */
berth_status io_read_piece(const struct io_config *config, const struct io_request *request, uint64_t done,
                           uint64_t bytes, berth_error *err);
/* Keeps the failure with the lowest offset. The caller makes sure that one thread at a time does this. */
void io_request_fail(struct io_request *request, berth_status status, const berth_error *err);

static inline uint64_t io_piece_bytes(const struct io_request *request, uint64_t done)
{
    uint64_t left = request->bytes - done;
    return left < IO_PIECE_BYTES ? left : (uint64_t)IO_PIECE_BYTES;
}

#endif
