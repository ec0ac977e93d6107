/* SPDX-License-Identifier: MIT
 * io_uring over its three system calls (io_uring(7), io_uring_setup(2), io_uring_enter(2)). */
#include "os/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/io_uring.h>
#endif

#if defined(__linux__) && defined(__NR_io_uring_setup) && defined(IORING_FEAT_SINGLE_MMAP)

/* Since Linux 5.19: completions do not interrupt a computing thread, a flag tells that some wait to be fetched. */
#if defined(IORING_SETUP_COOP_TASKRUN) && defined(IORING_SETUP_TASKRUN_FLAG)
#define RING_COOPERATIVE (IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG)
#define RING_PENDING IORING_SQ_TASKRUN
#else
#define RING_COOPERATIVE 0u
#define RING_PENDING 0u
#endif

enum { WORKERS_MAX = 4 };
static const uint64_t worker_bytes = UINT64_C(32) << 10; /* 16 KiB of stack, task and credentials */

uint64_t os_ring_bytes(uint32_t entries)
{
    /* Twice as many completions as submissions. */
    uint64_t entry_bytes = sizeof(struct io_uring_sqe) + sizeof(uint32_t) + 2 * sizeof(struct io_uring_cqe);
    uint64_t bytes = entries * entry_bytes + 2 * (uint64_t)OS_PAGE_BYTES + WORKERS_MAX * worker_bytes;
    return (bytes + 511) & ~(uint64_t)511;
}

static berth_status refused(int code, berth_error *err)
{
    char text[128];
    return error_set(err, BERTH_ERR_UNSUPPORTED, "this system has no io_uring for us: %s",
                     strerror_r(code, text, sizeof text));
}

static bool map_rings(struct os_ring *ring, const struct io_uring_params *params)
{
    uint64_t sq_bytes = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
    uint64_t cq_bytes = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    ring->rings_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
    ring->slots_bytes = params->sq_entries * sizeof(struct io_uring_sqe);
    int flags = MAP_SHARED | MAP_POPULATE;
    ring->rings = mmap(NULL, ring->rings_bytes, PROT_READ | PROT_WRITE, flags, ring->fd, IORING_OFF_SQ_RING);
    if (ring->rings == MAP_FAILED) {
        ring->rings = NULL;
        return false;
    }
    ring->slots = mmap(NULL, ring->slots_bytes, PROT_READ | PROT_WRITE, flags, ring->fd, IORING_OFF_SQES);
    if (ring->slots == MAP_FAILED) {
        ring->slots = NULL;
        return false;
    }
    unsigned char *base = ring->rings;
    ring->sq_head = (uint32_t *)(void *)(base + params->sq_off.head);
    ring->sq_tail = (uint32_t *)(void *)(base + params->sq_off.tail);
    ring->sq_mask = (uint32_t *)(void *)(base + params->sq_off.ring_mask);
    ring->sq_flags = (uint32_t *)(void *)(base + params->sq_off.flags);
    ring->sq_array = (uint32_t *)(void *)(base + params->sq_off.array);
    ring->cq_head = (uint32_t *)(void *)(base + params->cq_off.head);
    ring->cq_tail = (uint32_t *)(void *)(base + params->cq_off.tail);
    ring->cq_mask = (uint32_t *)(void *)(base + params->cq_off.ring_mask);
    ring->cq_entries = base + params->cq_off.cqes;
    return true;
}

berth_status os_ring_open(struct os_ring *ring, uint32_t entries, berth_error *err)
{
    *ring = (struct os_ring){.fd = -1, .entries = entries};
    struct io_uring_params params = {.flags = RING_COOPERATIVE};
    long fd = syscall(__NR_io_uring_setup, entries, &params);
    if (fd < 0 && errno == EINVAL && RING_COOPERATIVE != 0) {
        params = (struct io_uring_params){0};
        fd = syscall(__NR_io_uring_setup, entries, &params);
    }
    if (fd < 0) {
        return refused(errno, err);
    }
    ring->fd = (int)fd;
    if ((params.features & IORING_FEAT_SINGLE_MMAP) == 0) { /* before Linux 5.4; plain reads need 5.6 */
        os_ring_close(ring);
        return refused(ENOSYS, err);
    }
    if (!map_rings(ring, &params)) {
        int code = errno;
        os_ring_close(ring);
        return refused(code, err);
    }
#if defined(IORING_SETUP_COOP_TASKRUN)
    /* Reads that would block are done by kernel threads of ours, each with a stack that is charged to us. */
    uint32_t workers[2] = {WORKERS_MAX, 1};
    (void)syscall(__NR_io_uring_register, ring->fd, IORING_REGISTER_IOWQ_MAX_WORKERS, workers, 2u);
#endif
    return BERTH_OK;
}

void os_ring_close(struct os_ring *ring)
{
    if (ring->slots != NULL) {
        munmap(ring->slots, ring->slots_bytes);
    }
    if (ring->rings != NULL) {
        munmap(ring->rings, ring->rings_bytes);
    }
    if (ring->fd >= 0) {
        close(ring->fd);
    }
    *ring = (struct os_ring){.fd = -1};
}

bool os_ring_push_read(struct os_ring *ring, const struct os_file *file, uint64_t offset, uint32_t bytes, void *buffer,
                       uint64_t tag)
{
    uint32_t tail = *ring->sq_tail; /* only we write it */
    if (tail - __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE) >= ring->entries) {
        return false;
    }
    uint32_t index = tail & *ring->sq_mask;
    struct io_uring_sqe *entry = (struct io_uring_sqe *)ring->slots + index;
    memset(entry, 0, sizeof *entry);
    entry->opcode = IORING_OP_READ;
    entry->fd = file->fd;
    entry->off = offset;
    entry->addr = (uint64_t)(uintptr_t)buffer;
    entry->len = bytes;
    entry->user_data = tag;
    ring->sq_array[index] = index;
    __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
    ring->pushed++;
    return true;
}

bool os_ring_enter(struct os_ring *ring, bool wait)
{
    uint32_t flags = __atomic_load_n(ring->sq_flags, __ATOMIC_RELAXED);
    bool fetch = wait || (RING_PENDING != 0 && (flags & RING_PENDING) != 0);
    while (ring->pushed > 0 || fetch) {
        long sent = syscall(__NR_io_uring_enter, ring->fd, ring->pushed, wait ? 1u : 0u,
                            fetch ? IORING_ENTER_GETEVENTS : 0u, NULL, 0u);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return false;
        }
        ring->pushed -= (uint32_t)sent;
        fetch = false;
        wait = false;
    }
    return true;
}

void os_ring_take_back(struct os_ring *ring)
{
    __atomic_store_n(ring->sq_tail, *ring->sq_tail - ring->pushed, __ATOMIC_RELEASE);
    ring->pushed = 0;
}

bool os_ring_pop(struct os_ring *ring, uint64_t *tag, int32_t *result)
{
    uint32_t head = *ring->cq_head; /* only we write it */
    if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE)) {
        return false;
    }
    const struct io_uring_cqe *entry = (const struct io_uring_cqe *)ring->cq_entries + (head & *ring->cq_mask);
    *tag = entry->user_data;
    *result = entry->res;
    __atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
    return true;
}

#else

uint64_t os_ring_bytes(uint32_t entries)
{
    (void)entries;
    return 0;
}

berth_status os_ring_open(struct os_ring *ring, uint32_t entries, berth_error *err)
{
    *ring = (struct os_ring){.fd = -1, .entries = entries};
    return error_set(err, BERTH_ERR_UNSUPPORTED, "built without io_uring");
}

void os_ring_close(struct os_ring *ring)
{
    (void)ring;
}

bool os_ring_push_read(struct os_ring *ring, const struct os_file *file, uint64_t offset, uint32_t bytes, void *buffer,
                       uint64_t tag)
{
    (void)ring, (void)file, (void)offset, (void)bytes, (void)buffer, (void)tag;
    return false;
}

bool os_ring_enter(struct os_ring *ring, bool wait)
{
    (void)ring, (void)wait;
    return false;
}

void os_ring_take_back(struct os_ring *ring)
{
    (void)ring;
}

bool os_ring_pop(struct os_ring *ring, uint64_t *tag, int32_t *result)
{
    (void)ring, (void)tag, (void)result;
    return false;
}

#endif
