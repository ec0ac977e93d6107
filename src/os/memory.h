/* SPDX-License-Identifier: MIT
 * Anonymous memory, and the test hooks of the os room. */
#ifndef OS_MEMORY_H
#define OS_MEMORY_H

#include "base/error.h"

/* Fault injection for tests: replaces the two primitives that can fail for reasons outside the program. NULL hooks, or
 * NULL members, mean the real thing. Not part of the public API. */
struct os_hooks {
    void *user;
    /* Like pread(2): bytes read, 0 at the end, or -errno. `fd` is the real descriptor. */
    int64_t (*read_at)(void *user, int fd, void *buffer, size_t bytes, uint64_t offset);
    /* False: pretend the system has no memory for this reservation. */
    bool (*may_reserve)(void *user, uint64_t bytes);
};

enum { OS_PAGE_BYTES = 4096 };

/* Address space for `bytes` (rounded up to pages), zero-filled, charged only when touched. NULL and BERTH_ERR_MEMORY
 * when refused. Free with os_release(). `huge` asks for transparent huge pages (use for regions that are touched
 * whole). */
berth_status os_reserve(const struct os_hooks *hooks, uint64_t bytes, bool huge, void **out, berth_error *err);
void os_release(void *base, uint64_t bytes);
/* Maps fresh pages of a reservation in, from one thread, keeping their content. Threads that fault the same (huge) page
 * at the same time are each charged for a page until all but one are freed; memory that several threads write is
 * therefore mapped in first. */
void os_populate(void *base, uint64_t bytes);
/* Locks what is resident and what will be touched (mlock2 ONFAULT); false when the limit refuses. */
bool os_lock(void *base, uint64_t bytes);
/* Maps program and library text in (so that no page of code is read from disk later). Best effort. */
void os_prefault_code(void);

/* Major page faults of this process so far. */
uint64_t os_major_faults(void);

/* Bytes a memory cgroup may be charged for this process beyond our own reservations: file bytes of the program and
 * every mapped library (rounded to pages), page tables for `reserved_bytes`, 256 KiB per CPU (the kernel charges in
 * batches), what the kernel keeps for each of `threads` besides the first, and a fixed allowance for the heap and the
 * main stack. */
uint64_t os_process_bytes(uint64_t reserved_bytes, uint64_t threads);

/* The automatic budget. `root` is "" for this machine, or a directory holding fixture copies of proc/ and sys/ trees
 * (tests): reads <root>/proc/meminfo, <root>/proc/self/cgroup, <root>/proc/self/mountinfo and the cgroup files they
 * name, v1 and v2, this group and all parents up to the mount. usable = limit - usage + reclaimable page cache, per
 * level. */
struct os_memory_limit {
    uint64_t available_bytes; /* min over all levels, before any reserve */
    char binding[256];        /* "MemAvailable" or the cgroup file that binds */
};
berth_status os_memory_limit(const char *root, struct os_memory_limit *out, berth_error *err);

/* Every limit that the walk above meets: MemAvailable first, then each cgroup level that has one, from the process's
 * group up. `name` is borrowed. */
typedef void os_memory_level_fn(void *user, const char *name, uint64_t limit_bytes, uint64_t available_bytes);
berth_status os_memory_levels(const char *root, os_memory_level_fn *fn, void *user, struct os_memory_limit *out,
                              berth_error *err);

#endif
