/* SPDX-License-Identifier: MIT
 * Instruction sets (CPUID and XGETBV, or the ELF hardware bits) and how many CPUs we may use. */
#include "os/cpu.h"

#include <sched.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
/* Which register states the operating system saves: a CPU may have AVX-512 that nobody preserves. */
static uint64_t saved_states(void)
{
    uint32_t low;
    uint32_t high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has_all(uint32_t value, uint32_t bits)
{
    return (value & bits) == bits;
}

static void detect(struct os_cpu *out)
{
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t d;
    const uint32_t fma_osxsave_avx_f16c = 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_all(c, fma_osxsave_avx_f16c)) {
        return;
    }
    uint64_t states = saved_states();
    bool ymm = (states & 0x06) == 0x06; /* SSE, AVX */
    bool zmm = (states & 0xe6) == 0xe6; /* and the mask and upper registers */
    if (!ymm || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        return;
    }
    const uint32_t f_dq_cd_bw_vl = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    out->avx2 = has_all(b, 1u << 5);
    out->avx512 = zmm && has_all(b, f_dq_cd_bw_vl);
    out->avx512vnni = out->avx512 && has_all(c, 1u << 11);
}
#elif defined(__aarch64__)
static void detect(struct os_cpu *out)
{
    unsigned long bits = getauxval(AT_HWCAP);
    out->neon = (bits & (1ul << 1)) != 0;     /* HWCAP_ASIMD */
    out->dotprod = (bits & (1ul << 20)) != 0; /* HWCAP_ASIMDDP */
}
#else
static void detect(struct os_cpu *out)
{
    (void)out;
}
#endif

void os_cpu_detect(struct os_cpu *out)
{
    *out = (struct os_cpu){0};
    detect(out);
}

uint32_t os_cpu_online(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > UINT16_MAX ? UINT16_MAX : (uint32_t)n;
}

uint32_t os_cpu_count(void)
{
    uint32_t count = os_cpu_online();
    cpu_set_t set; /* 1,024 CPUs; a bigger machine refuses the call and keeps the online count */
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        struct os_cpu_set allowed = {0};
        for (uint32_t cpu = 0; cpu < OS_CPU_SET_MAX && cpu < CPU_SETSIZE; cpu++) {
            allowed.bits[cpu / 64] |= (uint64_t)(CPU_ISSET(cpu, &set) ? 1 : 0) << cpu % 64;
        }
        count = os_cpu_cores("", &allowed);
    }
    uint32_t quota = os_cpu_quota("");
    count = quota < count ? quota : count;
    return count > 0 ? count : 1;
}
