/* SPDX-License-Identifier: MIT
 *
 * Engine rows "pread" and "buffered": threads that take pieces from a FIFO of requests. With O_DIRECT a blocking read
 * per thread keeps as many reads in flight as there are threads, which saturates the devices we know from 2 to 4 up. */
#include "experts/io_engine.h"
#include "os/thread.h"

struct pool {
    struct io_config config;
    struct os_mutex mutex; /* guards everything below and the private fields of queued requests */
    struct os_cond work, done;
    struct io_request *first, *last; /* requests with pieces not yet taken */
    struct io_request *awaited;      /* the one that io_wait() sleeps on */
    bool stopping, started;
    unsigned char *stacks;
    struct os_thread *threads; /* [config.threads] */
};

static berth_status pool_layout(struct arena *tables, struct arena *stacks, const struct io_config *config,
                                void **state, berth_error *err)
{
    (void)err;
    struct pool *pool = ARENA_NEW(tables, struct pool, 1);
    struct os_thread *threads = ARENA_NEW(tables, struct os_thread, config->threads);
    unsigned char *memory = arena_take(stacks, config->threads, OS_STACK_BYTES, OS_PAGE_BYTES);
    if (pool != NULL && threads != NULL) {
        *pool = (struct pool){.config = *config, .stacks = memory, .threads = threads};
    }
    *state = pool;
    return BERTH_OK;
}

/* Called with the mutex held. */
static struct io_request *take_piece(struct pool *pool, uint64_t *done, uint64_t *bytes)
{
    struct io_request *request = pool->first;
    if (request == NULL) {
        return NULL;
    }
    *done = request->taken_bytes;
    *bytes = io_piece_bytes(request, *done);
    request->taken_bytes += *bytes;
    if (request->taken_bytes == request->bytes) {
        pool->first = request->next;
        pool->last = pool->first == NULL ? NULL : pool->last;
    }
    return request;
}

static void reader(void *arg)
{
    struct pool *pool = arg;
    os_mutex_lock(&pool->mutex);
    for (;;) {
        uint64_t done;
        uint64_t bytes;
        struct io_request *request = take_piece(pool, &done, &bytes);
        if (request == NULL) {
            if (pool->stopping) {
                break;
            }
            os_cond_wait(&pool->work, &pool->mutex);
            continue;
        }
        os_mutex_unlock(&pool->mutex);
        berth_error err = {0};
        berth_status status = io_read_piece(&pool->config, request, done, bytes, &err);
        os_mutex_lock(&pool->mutex);
        if (status != BERTH_OK) {
            io_request_fail(request, status, &err);
        }
        if (--request->pieces_left == 0 && request == pool->awaited) {
            os_cond_signal(&pool->done);
        }
    }
    os_mutex_unlock(&pool->mutex);
}

static void pool_stop(void *state)
{
    struct pool *pool = state;
    if (!pool->started) {
        return;
    }
    os_mutex_lock(&pool->mutex);
    pool->stopping = true;
    os_cond_broadcast(&pool->work);
    os_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i < pool->config.threads; i++) {
        if (pool->threads[i].running) {
            os_thread_join(&pool->threads[i]);
        }
    }
    os_cond_destroy(&pool->done);
    os_cond_destroy(&pool->work);
    os_mutex_destroy(&pool->mutex);
    pool->started = false;
}

static berth_status pool_start(void *state, berth_error *err)
{
    struct pool *pool = state;
    os_mutex_init(&pool->mutex);
    os_cond_init(&pool->work);
    os_cond_init(&pool->done);
    pool->first = pool->last = pool->awaited = NULL;
    pool->stopping = false;
    pool->started = true;
    for (uint32_t i = 0; i < pool->config.threads; i++) {
        void *stack = pool->stacks + (uint64_t)i * OS_STACK_BYTES;
        berth_status status = os_thread_start(&pool->threads[i], stack, reader, pool, err);
        if (status != BERTH_OK) {
            pool_stop(pool);
            return status;
        }
    }
    return BERTH_OK;
}

static void pool_submit(void *state, struct io_request *request)
{
    struct pool *pool = state;
    os_mutex_lock(&pool->mutex);
    if (pool->last == NULL) {
        pool->first = request;
    } else {
        pool->last->next = request;
    }
    pool->last = request;
    if (request->pieces_left > 1) {
        os_cond_broadcast(&pool->work);
    } else {
        os_cond_signal(&pool->work);
    }
    os_mutex_unlock(&pool->mutex);
}

static berth_status pool_wait(void *state, struct io_request *request)
{
    struct pool *pool = state;
    os_mutex_lock(&pool->mutex);
    pool->awaited = request;
    while (request->pieces_left > 0) {
        os_cond_wait(&pool->done, &pool->mutex);
    }
    pool->awaited = NULL;
    berth_status status = request->status;
    os_mutex_unlock(&pool->mutex);
    return status;
}

static bool pool_done(void *state, const struct io_request *request)
{
    struct pool *pool = state;
    os_mutex_lock(&pool->mutex);
    bool done = request->pieces_left == 0;
    os_mutex_unlock(&pool->mutex);
    return done;
}

const struct io_engine io_engine_pread = {.name = "pread",
                                          .direct = true,
                                          .layout = pool_layout,
                                          .start = pool_start,
                                          .stop = pool_stop,
                                          .submit = pool_submit,
                                          .wait = pool_wait,
                                          .done = pool_done};

/* os_file drops the pages of each read again, so the page cache stays out of the bill here too. */
const struct io_engine io_engine_buffered = {.name = "buffered",
                                             .direct = false,
                                             .layout = pool_layout,
                                             .start = pool_start,
                                             .stop = pool_stop,
                                             .submit = pool_submit,
                                             .wait = pool_wait,
                                             .done = pool_done};
