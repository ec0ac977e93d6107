/* SPDX-License-Identifier: MIT
 * What the processor can do and how much of it we may use. */
#ifndef OS_CPU_H
#define OS_CPU_H

#include <stdbool.h>
#include <stdint.h>

struct os_cpu {
    bool avx2;   /* AVX2 + FMA + F16C, enabled by the OS */
    bool avx512; /* F BW CD DQ VL, enabled by the OS */
    bool avx512vnni;
    bool neon, dotprod;
};
void os_cpu_detect(struct os_cpu *out);
/* CPUs this process may use: affinity mask, then cgroup quota (rounded up). At least 1. */
uint32_t os_cpu_count(void);
/* CPUs that the cgroup quotas allow, rounded up; UINT32_MAX: no quota. `root` is "" for this machine, or a directory
 * holding fixture copies of proc/self/cgroup and sys/fs/cgroup. */
uint32_t os_cpu_quota(const char *root);
/* CPUs the kernel may batch charges on (online processors). */
uint32_t os_cpu_online(void);

#endif
