/* SPDX-License-Identifier: MIT
 * Reads of expert slices: engines as rows ("pread": thread pool with O_DIRECT; "buffered": the same where direct I/O is
 * refused). */
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

/* One request: aligned span [offset, offset + bytes) of a file into `buffer`. The owner keeps it until io_wait() says
 * it is done. */
struct io_request {
    uint64_t offset, bytes;
    void *buffer;
    uint32_t file;
    uint32_t pieces_left;    /* private */
    berth_status status;     /* private until done */
    berth_error *err;        /* where the first failure is described; NULL: nowhere */
    struct io_request *next; /* private */
};

/* `tables` takes bookkeeping, `stacks` io_config.threads x OS_STACK_BYTES. Starts no thread yet (io_start). *out NULL
 * when measuring. */
berth_status io_layout(struct arena *tables, struct arena *stacks, const struct io_config *config, struct io **out,
                       berth_error *err);
berth_status io_start(struct io *io, berth_error *err);
/* Waits for what is in flight and joins the threads. NULL is allowed. */
void io_stop(struct io *io);
/* Queues a request (cut into IO_PIECE_BYTES pieces that threads take in order). */
void io_submit(struct io *io, struct io_request *request);
/* Blocks until the request is done; its status. */
berth_status io_wait(struct io *io, struct io_request *request);
const char *io_engine_name(const struct io *io);

#endif
