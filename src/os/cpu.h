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
/* Threads to compute with: physical performance cores inside the affinity mask, at most what the cgroup quota allows
 * (rounded up). At least 1. */
uint32_t os_cpu_count(void);
/* Of the CPUs in `allowed`, the physical cores, without efficiency cores where there are others. `root` as below. */
enum { OS_CPU_SET_MAX = 1024 };
struct os_cpu_set {
    uint64_t bits[OS_CPU_SET_MAX / 64];
};
uint32_t os_cpu_cores(const char *root, const struct os_cpu_set *allowed);
/* CPUs that the cgroup quotas allow, rounded up; UINT32_MAX: no quota. `root` is "" for this machine, or a directory
 * holding fixture copies of proc/self/cgroup and sys/fs/cgroup. */
uint32_t os_cpu_quota(const char *root);
/* CPUs the kernel may batch charges on (online processors). */
uint32_t os_cpu_online(void);

#endif
