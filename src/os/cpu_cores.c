/* SPDX-License-Identifier: MIT
 *
 * Physical performance cores among the CPUs we may use. Decoding waits for memory and a second hardware thread of a
 * core brings none; a slow core holds up the step that all wait for.
 *
 * Sources: the kernel's admin-guide/cputopology (thread_siblings_list), cpu_capacity (of the arm64 and the hybrid x86
 * schedulers), and the PMU list of performance cores on hybrid Intel processors. */
#include <stdio.h>

#include "os/cpu.h"
#include "os/cpu_text.h"

enum { TEXT_BYTES = 1024 };

/* A core of less than two thirds of the fastest one's capacity is an efficiency core: those measure 0.3 to 0.6, middle
 * cores beside a prime core 0.8 and more. */
enum { CAPACITY_NUMERATOR = 2, CAPACITY_DENOMINATOR = 3 };

static bool has(const struct os_cpu_set *set, uint32_t cpu)
{
    return (set->bits[cpu / 64] >> cpu % 64 & 1) != 0;
}

static void add(struct os_cpu_set *set, uint32_t cpu)
{
    set->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

/* A decimal number at *text, at most OS_CPU_SET_MAX; false: none there. */
static bool number(const char **text, uint32_t *out)
{
    const char *p = *text;
    uint32_t value = 0;
    for (; *p >= '0' && *p <= '9' && value <= OS_CPU_SET_MAX; p++) {
        value = value * 10 + (uint32_t)(*p - '0');
    }
    bool any = p != *text;
    *text = p;
    *out = value < OS_CPU_SET_MAX ? value : OS_CPU_SET_MAX;
    return any;
}

/* "0-3,8,10-11" */
static bool read_list(const char *path, struct os_cpu_set *out)
{
    char text[TEXT_BYTES];
    *out = (struct os_cpu_set){0};
    if (!os_cpu_text(path, text, sizeof text)) {
        return false;
    }
    uint32_t first;
    for (const char *p = text; number(&p, &first);) {
        uint32_t last = first;
        if (*p == '-') {
            p++;
            if (!number(&p, &last)) {
                return false;
            }
        }
        for (uint32_t cpu = first; cpu <= last && cpu < OS_CPU_SET_MAX; cpu++) {
            add(out, cpu);
        }
        p += *p == ',' ? 1 : 0;
    }
    return true;
}

static uint32_t capacity_of(const char *root, uint32_t cpu)
{
    char path[TEXT_BYTES];
    char text[TEXT_BYTES];
    uint32_t value = 0;
    (void)snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%u/cpu_capacity", root, (unsigned)cpu);
    const char *p = text;
    return os_cpu_text(path, text, sizeof text) && number(&p, &value) ? value : 0;
}

/* Takes the efficiency cores out of *set. */
static void keep_fast(const char *root, struct os_cpu_set *set)
{
    char path[TEXT_BYTES];
    struct os_cpu_set fast;
    struct os_cpu_set kept = {0};
    uint32_t count = 0;
    (void)snprintf(path, sizeof path, "%s/sys/devices/cpu_core/cpus", root);
    bool listed = read_list(path, &fast);
    uint32_t most = 0;
    for (uint32_t cpu = 0; !listed && cpu < OS_CPU_SET_MAX; cpu++) {
        uint32_t capacity = has(set, cpu) ? capacity_of(root, cpu) : 0;
        most = capacity > most ? capacity : most;
    }
    for (uint32_t cpu = 0; cpu < OS_CPU_SET_MAX; cpu++) {
        if (has(set, cpu) &&
            (listed ? has(&fast, cpu) : capacity_of(root, cpu) * CAPACITY_DENOMINATOR >= most * CAPACITY_NUMERATOR)) {
            add(&kept, cpu);
            count++;
        }
    }
    *set = count > 0 ? kept : *set; /* confined to efficiency cores: those, then */
}

uint32_t os_cpu_cores(const char *root, const struct os_cpu_set *allowed)
{
    struct os_cpu_set set = *allowed;
    uint32_t cores = 0;
    keep_fast(root, &set);
    for (uint32_t cpu = 0; cpu < OS_CPU_SET_MAX; cpu++) {
        char path[TEXT_BYTES];
        struct os_cpu_set siblings;
        if (!has(&set, cpu)) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", root,
                       (unsigned)cpu);
        bool first = true; /* of its core's threads that we may use; unknown topology: a core of its own */
        if (read_list(path, &siblings)) {
            for (uint32_t other = 0; other < cpu; other++) {
                first = first && !(has(&siblings, other) && has(&set, other));
            }
        }
        cores += first ? 1u : 0u;
    }
    return cores;
}
