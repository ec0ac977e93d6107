/* SPDX-License-Identifier: MIT
 * Compute threads of one model. Results never depend on how many there are. No spinning when idle. */
#ifndef COMPUTE_POOL_H
#define COMPUTE_POOL_H

#include "memory/arena.h"
#include "os/thread.h"

struct pool;

enum { POOL_THREADS_MAX = 256 };

/* `threads` counts the caller: threads - 1 workers are made. stacks takes (threads - 1) x OS_STACK_BYTES. *out NULL
 * when measuring. */
berth_status pool_layout(struct arena *tables, struct arena *stacks, uint32_t threads, struct pool **out,
                         berth_error *err);
berth_status pool_start(struct pool *pool, berth_error *err);
void pool_stop(struct pool *pool); /* joins; NULL allowed */
uint32_t pool_threads(const struct pool *pool);

/* Calls fn(ctx, begin, end, worker) over [0, items) cut into runs of at most `grain` (>= 1), on all threads, and
 * returns when all are done. worker is 0..threads-1 (0 is the caller): for per-thread scratch. One run at a time. */
typedef void pool_fn(void *ctx, uint32_t begin, uint32_t end, uint32_t worker);
void pool_for(struct pool *pool, uint32_t items, uint32_t grain, pool_fn *fn, void *ctx);

#endif
