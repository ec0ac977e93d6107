/* SPDX-License-Identifier: MIT
 *
 * What a memory cgroup may be charged for this process besides our own reservations. Linux charges the page cache of a
 * program or library to the group that reads it first, so after a cold start all of it is ours. */
#include "os/memory.h"

#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "os/cpu.h"

/* Page cache read beyond a mapped segment: the kernel's default read-around window (read_ahead_kb 128). */
enum { READ_AROUND_BYTES = 128 * 1024 };

/* The kernel charges a group in batches per CPU: 64 pages (MEMCG_CHARGE_BATCH, mm/memcontrol.h). */
static const uint64_t cpu_batch_bytes = 64u * (uint64_t)OS_PAGE_BYTES;

/* Heap, main stack, arguments, loader cache, and the kernel's own objects (task, memory map, page tables of the
 * libraries). Measured with tests/memory/process_probe in a cgroup of its own, everything cold (Linux 6.18, 2 CPUs, 0
 * to 1 GiB touched, 0 or 4 threads): 0.05 MiB beyond the other terms, of which up to one charge batch per CPU may have
 * gone unused; the kernel's part was 0.1 MiB. */
static const uint64_t fixed_bytes = UINT64_C(512) << 10;

/* A thread's kernel stack (16 KiB) and task. Measured with 64 to 319 threads in berth (Linux 6.18): 23 KiB each. */
static const uint64_t thread_bytes = UINT64_C(32) << 10;

static uint64_t round_to_pages(uint64_t bytes)
{
    uint64_t rounded;
    return u64_round_up_overflows(bytes, OS_PAGE_BYTES, &rounded) ? UINT64_MAX : rounded;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return u64_add_overflows(a, b, &sum) ? UINT64_MAX : sum;
}

/* One loaded object: its page cache once, plus private copies of everything writable (data, relocations, bss). */
static int count_object(struct dl_phdr_info *info, size_t info_bytes, void *user)
{
    (void)info_bytes;
    uint64_t *total = user;
    const char *path = info->dlpi_name != NULL && info->dlpi_name[0] != '\0' ? info->dlpi_name : "/proc/self/exe";
    uint64_t file_end = 0;
    uint64_t writable = 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD) {
            continue;
        }
        uint64_t end = add(header->p_offset, header->p_filesz);
        file_end = end > file_end ? end : file_end;
        if ((header->p_flags & PF_W) != 0) {
            writable = add(writable, round_to_pages(add(header->p_memsz, header->p_vaddr % OS_PAGE_BYTES)));
        }
    }
    struct stat file;
    if (stat(path, &file) != 0 || !S_ISREG(file.st_mode)) {
        return 0; /* the vdso: kernel memory, shared by all */
    }
    uint64_t cached = add(round_to_pages(file_end), READ_AROUND_BYTES);
    uint64_t size = round_to_pages((uint64_t)file.st_size);
    *total = add(*total, add(cached < size ? cached : size, writable));
    return 0;
}

uint64_t os_process_bytes(uint64_t reserved_bytes, uint64_t threads)
{
    uint64_t total = 0;
    dl_iterate_phdr(count_object, &total);
    /* 8 bytes a page, and the upper levels: one page per 512 pages of entries. */
    uint64_t entries = round_to_pages(reserved_bytes / OS_PAGE_BYTES * 8);
    total = add(total, add(entries, round_to_pages(entries / 512)));
    total = add(total, (uint64_t)os_cpu_online() * cpu_batch_bytes);
    uint64_t tasks;
    total = add(total, u64_mul_overflows(threads, thread_bytes, &tasks) ? UINT64_MAX : tasks);
    return add(total, fixed_bytes);
}
