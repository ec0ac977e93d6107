/* SPDX-License-Identifier: MIT
 * A program as Berth is one: maps its libraries in, reserves and touches ARG1 bytes, runs ARG2 threads on planned
 * stacks, and prints the bytes that os_process_bytes() and its reservations say it may be charged for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "berth.h"
#include "os/memory.h"
#include "os/thread.h"

enum { THREADS_MAX = 256 };

static struct os_mutex lock;
static struct os_cond all_here;
static uint64_t arrived, expected;

static void touch_stack(void *arg)
{
    volatile unsigned char stack[OS_STACK_BYTES / 2];
    for (size_t i = 0; i < sizeof stack; i += OS_PAGE_BYTES) {
        stack[i] = *(unsigned char *)arg;
    }
    os_mutex_lock(&lock); /* stays until all are there: the kernel's part of each counts at the same time */
    arrived++;
    while (arrived < expected) {
        os_cond_wait(&all_here, &lock);
    }
    os_cond_broadcast(&all_here);
    os_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
    uint64_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t threads = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    uint64_t stacks = threads * OS_STACK_BYTES;
    static struct os_thread thread[THREADS_MAX];
    void *memory = NULL;
    void *stack = NULL;
    if (threads > THREADS_MAX || os_reserve(NULL, bytes + 1, false, &memory, NULL) != BERTH_OK ||
        os_reserve(NULL, stacks + 1, false, &stack, NULL) != BERTH_OK) {
        return 1;
    }
    os_prefault_code();
    os_mutex_init(&lock);
    os_cond_init(&all_here);
    expected = threads;
    memset(stack, 1, stacks); /* as the arena does */
    memset(memory, 1, bytes + 1);
    for (uint64_t i = 0; i < threads; i++) {
        void *mine = (unsigned char *)stack + i * OS_STACK_BYTES;
        if (os_thread_start(&thread[i], mine, touch_stack, memory, NULL) != BERTH_OK) {
            return 1;
        }
    }
    for (uint64_t i = 0; i < threads; i++) {
        os_thread_join(&thread[i]);
    }
    berth_error err; /* formatting touches the heap and the locale */
    struct os_memory_limit limit;
    (void)os_memory_limit("", &limit, &err);
    printf("%" PRIu64 "\n", os_process_bytes(bytes + stacks, threads) + bytes + stacks + 2u * OS_PAGE_BYTES);
    return 0;
}
