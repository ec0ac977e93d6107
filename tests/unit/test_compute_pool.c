/* SPDX-License-Identifier: MIT
 * Every item is done exactly once, whatever the thread count and grain; the pool stops, starts and sleeps. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "compute/pool.h"

enum { ITEMS_MAX = 5000 };

struct fixture {
    struct pool *pool;
    void *tables, *stacks;
};

static struct fixture make_pool(uint32_t threads)
{
    struct fixture f = {0};
    struct arena tables;
    struct arena stacks;
    berth_error err;
    arena_measure(&tables);
    arena_measure(&stacks);
    assert_int_equal(pool_layout(&tables, &stacks, threads, &f.pool, &err), BERTH_OK);
    assert_null(f.pool);
    assert_int_equal(stacks.used_bytes, (uint64_t)(threads - 1) * OS_STACK_BYTES);
    uint64_t tables_bytes = tables.used_bytes;
    uint64_t stacks_bytes = stacks.used_bytes;
    f.tables = aligned_alloc(4096, (tables_bytes + 4095) / 4096 * 4096);
    f.stacks = aligned_alloc(4096, stacks_bytes + 4096);
    arena_carve(&tables, f.tables, tables_bytes);
    arena_carve(&stacks, f.stacks, stacks_bytes);
    assert_int_equal(pool_layout(&tables, &stacks, threads, &f.pool, &err), BERTH_OK);
    assert_int_equal(tables.used_bytes, tables_bytes);
    assert_int_equal(stacks.used_bytes, stacks_bytes);
    assert_int_equal(pool_threads(f.pool), threads);
    return f;
}

static void free_pool(struct fixture *f)
{
    free(f->tables);
    free(f->stacks);
}

struct job {
    uint32_t times[ITEMS_MAX]; /* each item belongs to one run, so plain writes do not race */
    uint32_t grain, threads;
    _Atomic uint32_t runs, bad;
    _Atomic uint32_t inside[POOL_THREADS_MAX]; /* two runs with the same worker number at once would share scratch */
};

static void count_items(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct job *job = ctx;
    if (begin >= end || end - begin > job->grain || worker >= job->threads || job->inside[worker]++ != 0) {
        job->bad++;
    }
    for (uint32_t i = begin; i < end; i++) {
        job->times[i]++;
    }
    job->inside[worker]--;
    job->runs++;
}

static void for_every_item_is_done_once(void **state)
{
    (void)state;
    const uint32_t threads[] = {1, 2, 3, 8};
    const uint32_t items[] = {0, 1, 2, 7, 64, 1000, ITEMS_MAX};
    const uint32_t grains[] = {1, 3, 64, 100000};
    static struct job job;
    for (size_t t = 0; t < 4; t++) {
        struct fixture f = make_pool(threads[t]);
        assert_int_equal(pool_start(f.pool, NULL), BERTH_OK);
        for (size_t n = 0; n < 7; n++) {
            for (size_t g = 0; g < 4; g++) {
                memset(&job, 0, sizeof job);
                job.grain = grains[g];
                job.threads = threads[t];
                pool_for(f.pool, items[n], grains[g], count_items, &job);
                for (uint32_t i = 0; i < items[n]; i++) {
                    assert_int_equal(job.times[i], 1);
                }
                assert_int_equal(job.bad, 0);
                assert_int_equal(job.runs, (items[n] + grains[g] - 1) / grains[g]);
            }
        }
        pool_stop(f.pool);
        pool_stop(f.pool); /* twice is once */
        free_pool(&f);
    }
    pool_stop(NULL);
}

static void for_thousands_of_small_jobs(void **state)
{
    (void)state;
    static struct job job;
    struct fixture f = make_pool(4);
    assert_int_equal(pool_start(f.pool, NULL), BERTH_OK);
    memset(&job, 0, sizeof job);
    job.grain = 1;
    job.threads = 4;
    enum { ROUNDS = 3000 };
    for (int round = 0; round < ROUNDS; round++) {
        pool_for(f.pool, 5, 1, count_items, &job);
        if (round % 500 == 0) { /* long enough for the workers to fall asleep */
            struct timespec pause = {.tv_nsec = 2000000};
            nanosleep(&pause, NULL);
        }
    }
    for (int i = 0; i < 5; i++) {
        assert_int_equal(job.times[i], ROUNDS);
    }
    assert_int_equal(job.bad, 0);
    pool_stop(f.pool);
    free_pool(&f);
}

static void meet(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    _Atomic uint32_t *arrived = ctx;
    (void)begin;
    (void)end;
    (void)worker;
    (*arrived)++;
    while (*arrived < 3) {
        os_thread_pause();
    }
}

static void for_uses_all_threads(void **state)
{
    (void)state;
    struct fixture f = make_pool(3);
    assert_int_equal(pool_start(f.pool, NULL), BERTH_OK);
    for (int round = 0; round < 20; round++) {
        _Atomic uint32_t arrived = 0; /* returns only when three threads are inside at once */
        pool_for(f.pool, 3, 1, meet, &arrived);
    }
    pool_stop(f.pool);
    assert_int_equal(pool_start(f.pool, NULL), BERTH_OK); /* and starts again */
    _Atomic uint32_t arrived = 0;
    pool_for(f.pool, 3, 1, meet, &arrived);
    pool_stop(f.pool);
    free_pool(&f);
}

static void idle_pool_uses_no_cpu(void **state)
{
    (void)state;
    struct fixture f = make_pool(4);
    assert_int_equal(pool_start(f.pool, NULL), BERTH_OK);
    _Atomic uint32_t arrived = 0;
    pool_for(f.pool, 4, 1, meet, &arrived);
    struct timespec pause = {.tv_nsec = 20000000};
    nanosleep(&pause, NULL);
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    pause.tv_nsec = 200000000;
    nanosleep(&pause, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double used = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    assert_true(used < 0.02); /* three spinning workers would use 0.4 s on two CPUs */
    pool_stop(f.pool);
    free_pool(&f);
}

static void layout_refuses_bad_counts(void **state)
{
    (void)state;
    struct arena tables;
    struct arena stacks;
    struct pool *pool = NULL;
    berth_error err;
    arena_measure(&tables);
    arena_measure(&stacks);
    assert_int_equal(pool_layout(&tables, &stacks, 0, &pool, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(pool_layout(&tables, &stacks, POOL_THREADS_MAX + 1, &pool, &err), BERTH_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "257"));
    assert_int_equal(pool_layout(&tables, &stacks, POOL_THREADS_MAX, &pool, &err), BERTH_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(for_every_item_is_done_once), cmocka_unit_test(for_thousands_of_small_jobs),
        cmocka_unit_test(for_uses_all_threads),        cmocka_unit_test(idle_pool_uses_no_cpu),
        cmocka_unit_test(layout_refuses_bad_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
