/* SPDX-License-Identifier: MIT
 * Threads on stacks that the plan paid for, mutex, condition, clock. */
#ifndef OS_THREAD_H
#define OS_THREAD_H

#include <pthread.h>

#include "base/error.h"

/* Per thread; a multiple of the page size. The sanitizers keep state of their own on every stack. */
#ifdef BERTH_SANITIZED
enum { OS_STACK_BYTES = 2048 * 1024 };
#else
enum { OS_STACK_BYTES = 128 * 1024 };
#endif

struct os_mutex {
    pthread_mutex_t native;
};
struct os_cond {
    pthread_cond_t native;
};
struct os_thread {
    pthread_t native;
    void (*fn)(void *);
    void *arg;
    bool running;
};

void os_mutex_init(struct os_mutex *mutex);
void os_mutex_destroy(struct os_mutex *mutex);
void os_mutex_lock(struct os_mutex *mutex);
void os_mutex_unlock(struct os_mutex *mutex);
void os_cond_init(struct os_cond *cond);
void os_cond_destroy(struct os_cond *cond);
void os_cond_wait(struct os_cond *cond, struct os_mutex *mutex);
void os_cond_signal(struct os_cond *cond);
void os_cond_broadcast(struct os_cond *cond);

/* `thread` must stay at its address until joined. `stack` is OS_STACK_BYTES of page-aligned caller memory. All signals
 * are blocked in the new thread, so that handlers run on the embedding program's threads. */
berth_status os_thread_start(struct os_thread *thread, void *stack, void (*fn)(void *), void *arg, berth_error *err);
void os_thread_join(struct os_thread *thread);

/* A pause inside a bounded spin loop. */
void os_thread_pause(void);

uint64_t os_now_ns(void); /* monotonic */

#endif
