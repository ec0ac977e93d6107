/* SPDX-License-Identifier: MIT
 *
 * Streams a plan's tensors from their sources into a GGUF writer, in chunks of rows: one thread reads, the pool
 * converts, one thread writes, all on different chunks. Holds nothing but its slots, whatever the tensors' sizes.
 */
#ifndef CONVERT_STREAM_H
#define CONVERT_STREAM_H

#include "compute/pool.h"
#include "convert/convert.h"
#include "convert/plan.h"

enum {
    STREAM_SLOTS = 3,                     /* one each for reading, converting, writing */
    STREAM_BUFFER_MIN_BYTES = 256 * 1024, /* smallest buffer_bytes */
    STREAM_BUFFER_DEFAULT_BYTES = 64 * 1024 * 1024,
    STREAM_SLOT_MAX_BYTES = 256 * 1024 * 1024
};

/* Draws rows [row, row + rows) of plan item `item` in its target format. Thread-safe; a row never depends on which
 * rows are drawn together. */
typedef void convert_draw_fn(void *user, uint32_t item, uint64_t row, uint64_t rows, unsigned char *out);

struct stream_memory {
    unsigned char *slots[STREAM_SLOTS];
    uint64_t slot_bytes;
    unsigned char *stacks[2]; /* reader, writer */
    struct pool *pool;
};
/* Takes slots and stacks worth `buffer_bytes` in all, and the pool of `threads`. */
berth_status stream_layout(struct arena *arena, uint64_t buffer_bytes, uint32_t threads, struct stream_memory *out,
                           berth_error *err);

struct stream_job {
    const struct convert_plan *plan;
    const struct convert_model *model;   /* NULL for a plan of convert_plan_copy() */
    const struct checkpoint *checkpoint; /* NULL: everything is drawn */
    convert_draw_fn *draw;
    void *draw_user;
    struct gguf_writer *writer;          /* open */
    const struct convert_config *config; /* progress */
};
/* Runs until every tensor is in the writer, or something fails or is cancelled. */
berth_status stream_run(const struct stream_job *job, const struct stream_memory *memory, berth_error *err);

#endif
