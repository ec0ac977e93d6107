/* SPDX-License-Identifier: MIT
 * Threads, locks and the clock, over POSIX threads. */
#include "os/thread.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* The lock calls fail only when misused (a destroyed or foreign mutex): a defect of the caller. */
static void must(int result)
{
    assert(result == 0);
    (void)result;
}

void os_mutex_init(struct os_mutex *mutex)
{
    must(pthread_mutex_init(&mutex->native, NULL));
}

void os_mutex_destroy(struct os_mutex *mutex)
{
    must(pthread_mutex_destroy(&mutex->native));
}

void os_mutex_lock(struct os_mutex *mutex)
{
    must(pthread_mutex_lock(&mutex->native));
}

void os_mutex_unlock(struct os_mutex *mutex)
{
    must(pthread_mutex_unlock(&mutex->native));
}

void os_cond_init(struct os_cond *cond)
{
    must(pthread_cond_init(&cond->native, NULL));
}

void os_cond_destroy(struct os_cond *cond)
{
    must(pthread_cond_destroy(&cond->native));
}

void os_cond_wait(struct os_cond *cond, struct os_mutex *mutex)
{
    must(pthread_cond_wait(&cond->native, &mutex->native));
}

void os_cond_signal(struct os_cond *cond)
{
    must(pthread_cond_signal(&cond->native));
}

void os_cond_broadcast(struct os_cond *cond)
{
    must(pthread_cond_broadcast(&cond->native));
}

static void *thread_main(void *arg)
{
    struct os_thread *thread = arg;
    thread->fn(thread->arg);
    return NULL;
}

berth_status os_thread_start(struct os_thread *thread, void *stack, void (*fn)(void *), void *arg, berth_error *err)
{
    assert(stack != NULL && fn != NULL);
    thread->fn = fn;
    thread->arg = arg;
    thread->running = false;
    pthread_attr_t attributes;
    int result = pthread_attr_init(&attributes);
    if (result != 0) {
        return error_set(err, BERTH_ERR_MEMORY, "cannot prepare a thread: %s", strerror(result));
    }
    result = pthread_attr_setstack(&attributes, stack, OS_STACK_BYTES);
    if (result == 0) {
        /* A thread inherits the mask of its maker. */
        sigset_t all;
        sigset_t before;
        (void)sigfillset(&all);
        must(pthread_sigmask(SIG_SETMASK, &all, &before));
        result = pthread_create(&thread->native, &attributes, thread_main, thread);
        must(pthread_sigmask(SIG_SETMASK, &before, NULL));
    }
    must(pthread_attr_destroy(&attributes));
    if (result != 0) {
        return error_set(err, BERTH_ERR_MEMORY, "cannot start a thread: %s (ask for fewer threads)", strerror(result));
    }
    thread->running = true;
    return BERTH_OK;
}

void os_thread_join(struct os_thread *thread)
{
    if (thread->running) {
        must(pthread_join(thread->native, NULL));
        thread->running = false;
    }
}

void os_thread_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

uint64_t os_now_ns(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now));
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
