/* SPDX-License-Identifier: MIT
 * Thread pool: one job at a time, cut into runs that threads take from an atomic counter.
 *
 * A job is open from pool_for() until its caller has run out of runs. A worker enters an open job under the lock
 * (busy + 1) and leaves it (busy - 1); the caller closes the job and waits for busy to reach 0. A worker that wakes too
 * late finds the job closed and sleeps again, so a small job never waits for a sleeper. Between jobs a worker spins
 * for a few microseconds before it sleeps, because the next layer's job usually follows at once.
 */
#include "compute/pool.h"

#include <assert.h>
#include <stdatomic.h>

enum { SPIN_PAUSES = 400 }; /* about 5 to 15 us; docs/measured.md */

struct worker {
    struct pool *pool;
    uint32_t index; /* 1..threads-1 */
    void *stack;
    struct os_thread thread;
};

struct pool {
    uint32_t threads;
    struct worker *workers; /* [threads - 1] */
    bool started;

    struct os_mutex mutex;
    struct os_cond wake; /* a job opened, or stopping */
    struct os_cond done; /* busy reached 0 */

    /* Under the mutex; generation and busy are also read without it, by spinners, who then look again under it. */
    _Atomic uint32_t generation; /* jobs opened so far */
    _Atomic uint32_t busy;       /* workers inside the open job */
    uint32_t asleep;
    bool open;
    bool stopping;

    /* The job: written under the mutex before it opens, constant while busy. */
    pool_fn *fn;
    void *ctx;
    uint32_t items;
    uint32_t grain;
    _Atomic uint64_t next;
};

berth_status pool_layout(struct arena *tables, struct arena *stacks, uint32_t threads, struct pool **out,
                         berth_error *err)
{
    if (threads < 1 || threads > POOL_THREADS_MAX) {
        return error_set(err, BERTH_ERR_ARGUMENT, "threads: got %u, want 1 to %d", threads, POOL_THREADS_MAX);
    }
    struct pool *pool = ARENA_NEW(tables, struct pool, 1);
    struct worker *workers = ARENA_NEW(tables, struct worker, threads - 1);
    unsigned char *stack = arena_take(stacks, threads - 1, OS_STACK_BYTES, 4096);
    TRY(arena_check(tables, "thread pool", err));
    TRY(arena_check(stacks, "thread stacks", err));
    if (arena_is_measuring(tables) || arena_is_measuring(stacks)) {
        *out = NULL;
        return BERTH_OK;
    }
    pool->threads = threads;
    pool->workers = workers;
    pool->started = false;
    for (uint32_t i = 0; i + 1 < threads; i++) {
        workers[i] = (struct worker){.pool = pool, .index = i + 1, .stack = stack + (size_t)i * OS_STACK_BYTES};
    }
    *out = pool;
    return BERTH_OK;
}

static void run_job(struct pool *pool, uint32_t worker)
{
    for (;;) {
        uint64_t begin = atomic_fetch_add_explicit(&pool->next, pool->grain, memory_order_relaxed);
        if (begin >= pool->items) {
            return;
        }
        uint64_t end = begin + pool->grain;
        pool->fn(pool->ctx, (uint32_t)begin, end < pool->items ? (uint32_t)end : pool->items, worker);
    }
}

/* Returns soon after *value differs from `old`, or after a few microseconds. */
static void spin_while(_Atomic uint32_t *value, uint32_t old)
{
    for (int i = 0; i < SPIN_PAUSES; i++) {
        if (atomic_load_explicit(value, memory_order_relaxed) != old) {
            return;
        }
        os_thread_pause();
    }
}

static void worker_main(void *arg)
{
    struct worker *self = arg;
    struct pool *pool = self->pool;
    uint32_t seen = 0;
    for (;;) {
        spin_while(&pool->generation, seen);
        os_mutex_lock(&pool->mutex);
        while (!pool->stopping && (!pool->open || pool->generation == seen)) {
            pool->asleep++;
            os_cond_wait(&pool->wake, &pool->mutex);
            pool->asleep--;
        }
        if (pool->stopping) {
            os_mutex_unlock(&pool->mutex);
            return;
        }
        seen = pool->generation;
        pool->busy++;
        os_mutex_unlock(&pool->mutex);

        run_job(pool, self->index);

        os_mutex_lock(&pool->mutex);
        pool->busy--;
        if (pool->busy == 0 && !pool->open) {
            os_cond_signal(&pool->done);
        }
        os_mutex_unlock(&pool->mutex);
    }
}

berth_status pool_start(struct pool *pool, berth_error *err)
{
    assert(!pool->started);
    os_mutex_init(&pool->mutex);
    os_cond_init(&pool->wake);
    os_cond_init(&pool->done);
    pool->generation = 0;
    pool->busy = 0;
    pool->asleep = 0;
    pool->open = false;
    pool->stopping = false;
    pool->started = true;
    for (uint32_t i = 0; i + 1 < pool->threads; i++) {
        struct worker *worker = &pool->workers[i];
        berth_status status = os_thread_start(&worker->thread, worker->stack, worker_main, worker, err);
        if (status != BERTH_OK) {
            pool_stop(pool);
            return status;
        }
    }
    return BERTH_OK;
}

void pool_stop(struct pool *pool)
{
    if (pool == NULL || !pool->started) {
        return;
    }
    os_mutex_lock(&pool->mutex);
    assert(!pool->open);
    pool->stopping = true;
    os_cond_broadcast(&pool->wake);
    os_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i + 1 < pool->threads; i++) {
        os_thread_join(&pool->workers[i].thread);
    }
    os_cond_destroy(&pool->done);
    os_cond_destroy(&pool->wake);
    os_mutex_destroy(&pool->mutex);
    pool->started = false;
}

uint32_t pool_threads(const struct pool *pool)
{
    return pool->threads;
}

static void wait_for_workers(struct pool *pool)
{
    os_mutex_lock(&pool->mutex);
    pool->open = false;
    if (pool->busy != 0) {
        os_mutex_unlock(&pool->mutex);
        for (int i = 0; i < SPIN_PAUSES && atomic_load_explicit(&pool->busy, memory_order_relaxed) != 0; i++) {
            os_thread_pause();
        }
        os_mutex_lock(&pool->mutex);
        while (pool->busy != 0) {
            os_cond_wait(&pool->done, &pool->mutex);
        }
    }
    os_mutex_unlock(&pool->mutex);
}

void pool_for(struct pool *pool, uint32_t items, uint32_t grain, pool_fn *fn, void *ctx)
{
    assert(grain >= 1 && pool->started && !pool->open);
    if (pool->threads == 1 || items <= grain) {
        for (uint32_t begin = 0; begin < items;) {
            uint32_t end = items - begin > grain ? begin + grain : items;
            fn(ctx, begin, end, 0);
            begin = end;
        }
        return;
    }
    os_mutex_lock(&pool->mutex);
    pool->fn = fn;
    pool->ctx = ctx;
    pool->items = items;
    pool->grain = grain;
    pool->next = 0;
    pool->open = true;
    pool->generation++;
    if (pool->asleep != 0) {
        os_cond_broadcast(&pool->wake);
    }
    os_mutex_unlock(&pool->mutex);

    run_job(pool, 0);
    wait_for_workers(pool);
}
