/* SPDX-License-Identifier: MIT
 * A Linux io_uring for positioned reads. One thread at a time uses a ring; any thread may be that one. */
#ifndef OS_RING_H
#define OS_RING_H

#include "os/file.h"

struct os_ring {
    int fd; /* -1: closed */
    uint32_t entries, pushed;
    void *rings, *slots; /* shared with the kernel */
    uint64_t rings_bytes, slots_bytes;
    uint32_t *sq_head, *sq_tail, *sq_mask, *sq_flags, *sq_array;
    uint32_t *cq_head, *cq_tail, *cq_mask;
    void *cq_entries;
};

/* What the kernel may charge for a ring of so many entries (a power of two) and its worker threads. */
uint64_t os_ring_bytes(uint32_t entries);
/* BERTH_ERR_UNSUPPORTED where the kernel or its policy has no io_uring. */
berth_status os_ring_open(struct os_ring *ring, uint32_t entries, berth_error *err);
void os_ring_close(struct os_ring *ring);
/* Prepares a read; false when the ring is full. Sent by the next os_ring_enter(). */
bool os_ring_push_read(struct os_ring *ring, const struct os_file *file, uint64_t offset, uint32_t bytes, void *buffer,
                       uint64_t tag);
/* Sends what was pushed; waits for one completion if asked to. False: the kernel refused (never EINTR). What was not
 * sent is then still pushed. */
bool os_ring_enter(struct os_ring *ring, bool wait);
/* Takes back what was pushed and not sent. */
void os_ring_take_back(struct os_ring *ring);
/* The next completion: its tag and bytes read or -errno. False: none has arrived. */
bool os_ring_pop(struct os_ring *ring, uint64_t *tag, int32_t *result);

#endif
