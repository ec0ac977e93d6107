/* SPDX-License-Identifier: MIT
 * Threads run on the given stack with all signals blocked; CPU counting, quotas on fixture trees. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/cpu.h"
#include "os/thread.h"

struct probe {
    const unsigned char *stack;
    bool on_stack, blocked;
};

static void look_around(void *arg)
{
    struct probe *probe = arg;
    pthread_attr_t attributes;
    void *base = NULL;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        (void)pthread_attr_getstack(&attributes, &base, &bytes);
        pthread_attr_destroy(&attributes);
    }
    probe->on_stack = base == probe->stack && bytes == OS_STACK_BYTES;
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    probe->blocked = true;
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGUSR1, SIGPROF, SIGCHLD};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        probe->blocked = probe->blocked && sigismember(&now, signals[i]) == 1;
    }
}

static void thread_runs_on_given_stack_without_signals(void **state)
{
    (void)state;
    unsigned char *stack = aligned_alloc(4096, OS_STACK_BYTES);
    struct probe probe = {.stack = stack};
    struct os_thread thread = {0};
    assert_int_equal(os_thread_start(&thread, stack, look_around, &probe, NULL), BERTH_OK);
    assert_true(thread.running);
    os_thread_join(&thread);
    os_thread_join(&thread); /* nothing to join any more */
    assert_true(probe.on_stack);
    assert_true(probe.blocked);
    sigset_t mine;
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    assert_int_equal(sigismember(&mine, SIGINT), 0); /* the maker's mask is as before */
    free(stack);
}

static void clock_goes_forward(void **state)
{
    (void)state;
    uint64_t a = os_now_ns();
    uint64_t b = os_now_ns();
    assert_true(a > 0 && b >= a);
}

static void cpu_counts_are_sane(void **state)
{
    (void)state;
    assert_true(os_cpu_count() >= 1);
    assert_true(os_cpu_count() <= os_cpu_online() || os_cpu_online() == 1);
    struct os_cpu cpu;
    os_cpu_detect(&cpu);
    assert_true(!cpu.avx512vnni || cpu.avx512);
    print_message("cpus %u of %u, avx2 %d avx512 %d vnni %d neon %d dotprod %d\n", os_cpu_count(), os_cpu_online(),
                  cpu.avx2, cpu.avx512, cpu.avx512vnni, cpu.neon, cpu.dotprod);
}

static void write_file(const char *root, const char *path, const char *text)
{
    char full[512];
    (void)snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *p = full + strlen(root) + 1; *p != '\0'; p++) {
        if (*p == '/') {
            *p = '\0';
            assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
            *p = '/';
        }
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void quota_is_the_least_of_all_levels(void **state)
{
    (void)state;
    char root[] = "/tmp/berth-cpu-XXXXXX";
    assert_non_null(mkdtemp(root));
    assert_int_equal(os_cpu_quota(root), UINT32_MAX);
    write_file(root, "proc/self/cgroup", "5:cpuset:/x\n0::/a/b\n");
    assert_int_equal(os_cpu_quota(root), UINT32_MAX);
    write_file(root, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(os_cpu_quota(root), UINT32_MAX);
    write_file(root, "sys/fs/cgroup/a/cpu.max", "350000 100000\n");
    assert_int_equal(os_cpu_quota(root), 4);
    write_file(root, "sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(os_cpu_quota(root), 1);
    write_file(root, "sys/fs/cgroup/a/b/cpu.max", "nonsense\n");
    assert_int_equal(os_cpu_quota(root), 4);
    write_file(root, "proc/self/cgroup", "4:cpu,cpuacct:/job\n3:cpuset:/\n0::/\n");
    write_file(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    write_file(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(os_cpu_quota(root), UINT32_MAX);
    write_file(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
    assert_int_equal(os_cpu_quota(root), 2);
    /* A container that sees its own group as the mount's root. */
    write_file(root, "proc/self/cgroup", "4:cpu:/docker/0123\n");
    write_file(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
    write_file(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
    assert_int_equal(os_cpu_quota(root), 3);
    char command[64];
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

static void cpu_file(const char *root, int cpu, const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/%s", cpu, name);
    write_file(root, path, text);
}

static void cores_are_physical_and_fast(void **state)
{
    (void)state;
    char root[] = "/tmp/berth-cpu-XXXXXX";
    assert_non_null(mkdtemp(root));
    struct os_cpu_set all = {{0xff}};
    assert_int_equal(os_cpu_cores(root, &all), 8); /* the kernel tells nothing */
    for (int cpu = 0; cpu < 8; cpu++) {            /* four cores of two threads: 0 and 4, 1 and 5, ... */
        char list[16];
        (void)snprintf(list, sizeof list, "%d,%d\n", cpu % 4, cpu % 4 + 4);
        cpu_file(root, cpu, "topology/thread_siblings_list", list);
    }
    assert_int_equal(os_cpu_cores(root, &all), 4);
    assert_int_equal(os_cpu_cores(root, &(struct os_cpu_set){{0xf0}}), 4); /* the second threads alone */
    assert_int_equal(os_cpu_cores(root, &(struct os_cpu_set){{0x11}}), 1);
    assert_int_equal(os_cpu_cores(root, &(struct os_cpu_set){{0}}), 0);
    cpu_file(root, 1, "topology/thread_siblings_list", "-5,x\n"); /* nonsense: a core of its own */
    assert_int_equal(os_cpu_cores(root, &all), 4);
    cpu_file(root, 5, "topology/thread_siblings_list", "4294967296-99999999999\n");
    assert_int_equal(os_cpu_cores(root, &all), 5);
    for (int cpu = 0; cpu < 8; cpu++) { /* arm: 0-3 slow, 4-6 middle, 7 prime */
        char list[16];
        (void)snprintf(list, sizeof list, "%d\n", cpu);
        cpu_file(root, cpu, "topology/thread_siblings_list", list);
        cpu_file(root, cpu, "cpu_capacity", cpu < 4 ? "414\n" : cpu < 7 ? "871\n" : "1024\n");
    }
    assert_int_equal(os_cpu_cores(root, &all), 4);
    assert_int_equal(os_cpu_cores(root, &(struct os_cpu_set){{0x0f}}), 4); /* slow ones are all there is */
    write_file(root, "sys/devices/cpu_core/cpus", "0-1,3\n");              /* a hybrid Intel processor says it */
    assert_int_equal(os_cpu_cores(root, &all), 3);
    assert_int_equal(os_cpu_cores(root, &(struct os_cpu_set){{0xf0}}), 4);
    char command[64];
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_physical_and_fast),
        cmocka_unit_test(thread_runs_on_given_stack_without_signals),
        cmocka_unit_test(clock_goes_forward),
        cmocka_unit_test(cpu_counts_are_sane),
        cmocka_unit_test(quota_is_the_least_of_all_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
