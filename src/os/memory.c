/* SPDX-License-Identifier: MIT
 * Reservations of anonymous memory. Huge pages are asked for or forbidden explicitly, never left to the system default:
 * with "always" a touched byte would be charged as 2 MiB and the plan would be wrong. */
#include "os/memory.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/checked.h"

enum { HUGE_BYTES = 2 * 1024 * 1024 };

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

static berth_status refused(uint64_t bytes, const char *why, berth_error *err)
{
    return error_set(
        err, BERTH_ERR_MEMORY,
        "the system refuses to reserve %llu bytes of memory (%s); a limit on address space (ulimit -v) must leave "
        "room for the budget and for headers",
        (unsigned long long)bytes, why);
}

static bool reservation_bytes(uint64_t bytes, uint64_t *rounded)
{
    return !u64_round_up_overflows(bytes == 0 ? 1 : bytes, OS_PAGE_BYTES, rounded) && *rounded <= SIZE_MAX / 2;
}

/* A mapping whose start is a multiple of HUGE_BYTES: map more, give the ends back. */
static void *map_huge_aligned(uint64_t bytes)
{
    uint64_t padded = bytes + HUGE_BYTES;
    unsigned char *raw =
        mmap(NULL, (size_t)padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) {
        return MAP_FAILED;
    }
    size_t head = (size_t)(HUGE_BYTES - ((uintptr_t)raw & (HUGE_BYTES - 1))) & (HUGE_BYTES - 1);
    size_t tail = HUGE_BYTES - head;
    if (head != 0) {
        munmap(raw, head);
    }
    if (tail != 0) {
        munmap(raw + head + bytes, tail);
    }
    return raw + head;
}

berth_status os_reserve(const struct os_hooks *hooks, uint64_t bytes, bool huge, void **out, berth_error *err)
{
    uint64_t rounded;
    *out = NULL;
    if (!reservation_bytes(bytes, &rounded)) {
        return refused(bytes, "more than the address space holds", err);
    }
    if (hooks != NULL && hooks->may_reserve != NULL && !hooks->may_reserve(hooks->user, rounded)) {
        return refused(bytes, "refused by a test", err);
    }
    huge = huge && rounded >= HUGE_BYTES;
    void *base =
        huge ? map_huge_aligned(rounded)
             : mmap(NULL, (size_t)rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        char text[128];
        return refused(bytes, strerror_r(errno, text, sizeof text), err);
    }
    (void)madvise(base, (size_t)rounded, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); /* kernels without THP refuse */
    *out = base;
    return BERTH_OK;
}

void os_release(void *base, uint64_t bytes)
{
    uint64_t rounded;
    if (base != NULL && reservation_bytes(bytes, &rounded)) {
        munmap(base, (size_t)rounded);
    }
}

void os_populate(void *base, uint64_t bytes)
{
    uintptr_t start = (uintptr_t)base & ~(uintptr_t)(OS_PAGE_BYTES - 1);
    uintptr_t end = ((uintptr_t)base + (uintptr_t)bytes + OS_PAGE_BYTES - 1) & ~(uintptr_t)(OS_PAGE_BYTES - 1);
    if (end == start || madvise((void *)start, end - start, MADV_POPULATE_WRITE) == 0) {
        return;
    }
    for (uintptr_t at = start; at < end; at += OS_PAGE_BYTES) { /* older kernels: write back what is there */
        volatile unsigned char *page = (volatile unsigned char *)at;
        *page = *page;
    }
}

bool os_lock(void *base, uint64_t bytes)
{
    return base != NULL && bytes <= SIZE_MAX && mlock2(base, (size_t)bytes, MLOCK_ONFAULT) == 0;
}

#if defined(__GNUC__)
__attribute__((no_sanitize("address")))
#endif
static void
touch_pages(uintptr_t start, uintptr_t end)
{
    for (uintptr_t at = start; at < end; at += OS_PAGE_BYTES) {
        (void)*(volatile const unsigned char *)at;
    }
}

static int prefault_object(struct dl_phdr_info *info, size_t info_bytes, void *user)
{
    (void)info_bytes;
    (void)user;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_R) == 0 || segment->p_filesz == 0) {
            continue;
        }
        uintptr_t first = (uintptr_t)(info->dlpi_addr + segment->p_vaddr);
        uintptr_t start = first & ~(uintptr_t)(OS_PAGE_BYTES - 1);
        uintptr_t end = first + segment->p_filesz;
        if (madvise((void *)start, end - start, MADV_POPULATE_READ) != 0) {
            touch_pages(start, end);
        }
    }
    return 0;
}

void os_prefault_code(void)
{
    dl_iterate_phdr(prefault_object, NULL);
}

uint64_t os_major_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_majflt > 0 ? (uint64_t)usage.ru_majflt : 0;
}
