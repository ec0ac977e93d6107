/* SPDX-License-Identifier: MIT
 *
 * Reads of expert slices. Engines are rows: "pread" (threads with O_DIRECT), "uring" (io_uring with O_DIRECT; becomes
 * "pread" where the kernel refuses it) and "buffered" (the threads where direct I/O is refused). Requests are cut into
 * pieces that are started in the order of submission.
 *
 * Reader threads touch the request and its buffer only, never cache state. Submit and wait are called by one thread. */
#ifndef EXPERTS_IO_H
#define EXPERTS_IO_H

#include "memory/arena.h"
#include "os/file.h"

struct io; /* opaque */

enum { IO_PIECE_BYTES = 1 << 20, IO_THREADS_MAX = 64 };

struct io_config {
    const struct os_file *files; /* [files_count], borrowed for the life of the io */
    uint32_t files_count;
    uint32_t threads;   /* 1..IO_THREADS_MAX */
    uint32_t queue_max; /* requests that may be outstanding */
    const char *engine; /* row name; NULL: pick by whether the files are direct */
};

/* Whether the files for this engine are to be opened with want_direct; BERTH_ERR_ARGUMENT for an unknown name. NULL:
 * yes (files that refuse fall back to "buffered"). */
berth_status io_engine_direct(const char *engine, bool *direct, berth_error *err);

/* One request: aligned span [offset, offset + bytes) of a file into `buffer`, which is page-aligned. A span may end in
 * the page that holds the end of the file; what lies past it in the buffer is unspecified. The owner keeps the request
 * where it is until io_wait() says it is done; it may be submitted again after that. */
struct io_request {
    uint64_t offset, bytes;
    void *buffer;
    uint32_t file;
    berth_error *err; /* where a failure is described (the one with the lowest offset); NULL: nowhere. Requests may
                         share it if io_wait() is called on all of them before it is read; clear err->status before. */
    /* private: */
    uint64_t taken_bytes;
    uint32_t pieces_left;
    berth_status status;
    struct io_request *next;
};

/* `tables` takes bookkeeping, `stacks` io_config.threads x OS_STACK_BYTES. Starts no thread yet (io_start). *out NULL
 * when measuring; config->files may then be NULL. BERTH_ERR_UNSUPPORTED when the named engine needs direct I/O and a
 * file refuses it. */
berth_status io_layout(struct arena *tables, struct arena *stacks, const struct io_config *config, struct io **out,
                       berth_error *err);
berth_status io_start(struct io *io, berth_error *err);
/* Waits for what is in flight and joins the threads. NULL is allowed. */
void io_stop(struct io *io);
/* Queues a request. At most queue_max may be unfinished. */
void io_submit(struct io *io, struct io_request *request);
/* Blocks until the request is done; its status. */
berth_status io_wait(struct io *io, struct io_request *request);
/* Whether io_wait() would return at once. */
bool io_done(struct io *io, const struct io_request *request);
const char *io_engine_name(const struct io *io);

#endif
