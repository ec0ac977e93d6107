/* SPDX-License-Identifier: MIT
 * os_memory_limit() on fixture trees (cgroup v1, v2, hybrid, nested, containers, damaged) and on this machine, and
 * os_process_bytes(). Trees are written into a temporary directory: a fixture is a list of files. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/memory.h"

#define MIB (1024ull * 1024ull)
#define V1_NONE "9223372036854771712\n"
#define MOUNT_V1 "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
#define MOUNT_V2 "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define MEMINFO "MemTotal:       16384000 kB\nMemFree:         1024000 kB\nMemAvailable:    8192000 kB\n"
#define AVAILABLE (8192000ull * 1024)

static char root[64];
static struct os_memory_limit limit;
static berth_error err;

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "./berth-limit-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void put(const char *path, const char *text)
{
    char full[1024];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    FILE *file = fopen(full, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void put_number(const char *folder, const char *name, uint64_t value)
{
    char path[512];
    char text[32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)value);
    put(path, text);
}

static void put_stat(const char *folder, const char *prefix, uint64_t inactive, uint64_t active)
{
    char path[512];
    char text[512];
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    /* Names that only begin or end like the ones wanted must not count. */
    snprintf(
        text, sizeof text,
        "anon 1234\nfile 99999999\nmy_inactive_file 7\n%sinactive_file %llu\n%sinactive_file_x 5\n%sactive_file %llu\n",
        prefix, (unsigned long long)inactive, prefix, prefix, (unsigned long long)active);
    put(path, text);
}

static void put_v1(const char *folder, uint64_t max, uint64_t usage, uint64_t inactive, uint64_t active)
{
    put_number(folder, "memory.limit_in_bytes", max);
    put_number(folder, "memory.usage_in_bytes", usage);
    put_stat(folder, "total_", inactive, active);
}

static void put_v2(const char *folder, uint64_t max, uint64_t usage, uint64_t inactive, uint64_t active)
{
    put_number(folder, "memory.max", max);
    put_number(folder, "memory.current", usage);
    put_stat(folder, "", inactive, active);
}

static void expect(uint64_t bytes, const char *binding)
{
    memset(&limit, 0x55, sizeof limit);
    if (os_memory_limit(root, &limit, &err) != BERTH_OK) {
        fail_msg("%s: %s", err.path, err.message);
    }
    assert_string_equal(limit.binding, binding);
    assert_int_equal(limit.available_bytes, bytes);
}

static void expect_failure(berth_status status, const char *path_end, const char *message_part)
{
    memset(&limit, 0x55, sizeof limit);
    assert_int_equal(os_memory_limit(root, &limit, &err), status);
    assert_int_equal(limit.available_bytes, 0x5555555555555555ull); /* untouched */
    size_t skip = strlen(err.path) - strlen(path_end);
    assert_true(strlen(err.path) >= strlen(path_end));
    assert_string_equal(err.path + skip, path_end);
    assert_non_null(strstr(err.message, message_part));
}

static void machine(const char *cgroup, const char *mountinfo)
{
    put("/proc/meminfo", MEMINFO);
    put("/proc/self/cgroup", cgroup);
    put("/proc/self/mountinfo", mountinfo);
}

static void no_cgroup_leaves_memavailable(void **state)
{
    (void)state;
    put("/proc/meminfo", MEMINFO);
    expect(AVAILABLE, "MemAvailable");
}

static void v1_group_counts_page_cache_as_free(void **state)
{
    (void)state;
    machine("9:name=systemd:/\n4:memory:/job\n0::/\n", MOUNT_V1);
    put_v1("/sys/fs/cgroup/memory/job", 1000 * MIB, 700 * MIB, 200 * MIB, 100 * MIB);
    expect(600 * MIB, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes");
}

static void v1_every_parent_counts(void **state)
{
    (void)state;
    machine("4:cpu,memory:/a/b/c\n", MOUNT_V1);
    put_v1("/sys/fs/cgroup/memory/a/b/c", 900 * MIB, 100 * MIB, 0, 0);
    put_v1("/sys/fs/cgroup/memory/a/b", 2000 * MIB, 1950 * MIB, 10 * MIB, 0);
    put_v1("/sys/fs/cgroup/memory/a", 1000 * MIB, 900 * MIB, 0, 50 * MIB);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE);
    expect(60 * MIB, "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes");
    put_v1("/sys/fs/cgroup/memory/a", 910 * MIB, 900 * MIB, 0, 30 * MIB);
    expect(40 * MIB, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
    put_v1("/sys/fs/cgroup/memory", 1200 * MIB, 1190 * MIB, 0, 0);
    expect(10 * MIB, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
}

static void v1_unlimited_is_no_limit(void **state)
{
    (void)state;
    machine("4:memory:/a\n", MOUNT_V1);
    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", V1_NONE);
    put_number("/sys/fs/cgroup/memory/a", "memory.usage_in_bytes", 10 * MIB);
    put("/sys/fs/cgroup/memory/a/memory.stat", "hierarchical_memory_limit " V1_NONE "total_inactive_file 1\n");
    expect(AVAILABLE, "MemAvailable");
}

static void v1_hierarchical_limit_knows_hidden_parents(void **state)
{
    (void)state;
    machine("4:memory:/docker/abc\n",
            "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE);
    put_number("/sys/fs/cgroup/memory", "memory.usage_in_bytes", 300 * MIB);
    put("/sys/fs/cgroup/memory/memory.stat",
        "hierarchical_memory_limit 1073741824\ntotal_inactive_file 104857600\ntotal_active_file 0\n");
    expect(1024 * MIB - 200 * MIB, "/sys/fs/cgroup/memory/memory.stat");
}

static void v1_parent_without_hierarchy_does_not_count(void **state)
{
    (void)state;
    machine("4:memory:/a/b\n", MOUNT_V1);
    put_v1("/sys/fs/cgroup/memory/a/b", 900 * MIB, 100 * MIB, 0, 0);
    put_v1("/sys/fs/cgroup/memory/a", 50 * MIB, 10 * MIB, 0, 0);
    put("/sys/fs/cgroup/memory/a/memory.use_hierarchy", "0\n");
    expect(800 * MIB, "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes");
    put("/sys/fs/cgroup/memory/a/memory.use_hierarchy", "1\n");
    expect(40 * MIB, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
}

static void v2_group_and_parents(void **state)
{
    (void)state;
    machine("0::/user.slice/run.scope\n", MOUNT_V2);
    put_v2("/sys/fs/cgroup/user.slice/run.scope", 3000 * MIB, 2000 * MIB, 500 * MIB, 250 * MIB);
    put("/sys/fs/cgroup/user.slice/run.scope/memory.high", "max\n");
    expect(1750 * MIB, "/sys/fs/cgroup/user.slice/run.scope/memory.max");
    put_number("/sys/fs/cgroup/user.slice/run.scope", "memory.high", 2500 * MIB);
    expect(1250 * MIB, "/sys/fs/cgroup/user.slice/run.scope/memory.high");
    put_v2("/sys/fs/cgroup/user.slice", 4000 * MIB, 3900 * MIB, 0, 0);
    expect(100 * MIB, "/sys/fs/cgroup/user.slice/memory.max");
    put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
    put("/sys/fs/cgroup/user.slice/run.scope/memory.max", "max\n");
    put("/sys/fs/cgroup/user.slice/run.scope/memory.high", "max\n");
    expect(AVAILABLE, "MemAvailable");
}

struct levels {
    uint32_t count;
    char names[8][256];
    uint64_t limits[8], available[8];
};

static void take_level(void *user, const char *name, uint64_t limit_bytes, uint64_t available_bytes)
{
    struct levels *levels = user;
    assert_true(levels->count < 8);
    snprintf(levels->names[levels->count], sizeof levels->names[0], "%s", name);
    levels->limits[levels->count] = limit_bytes;
    levels->available[levels->count++] = available_bytes;
}

static void every_level_is_told(void **state)
{
    (void)state;
    machine("0::/user.slice/run.scope\n", MOUNT_V2);
    put_v2("/sys/fs/cgroup/user.slice/run.scope", 3000 * MIB, 2000 * MIB, 500 * MIB, 250 * MIB);
    put_v2("/sys/fs/cgroup/user.slice", 4000 * MIB, 3900 * MIB, 0, 0);
    struct levels levels = {.count = 0};
    struct os_memory_limit least;
    assert_int_equal(os_memory_levels(root, take_level, &levels, &least, NULL), BERTH_OK);
    assert_int_equal(levels.count, 3);
    assert_string_equal(levels.names[0], "MemAvailable");
    assert_string_equal(levels.names[1], "/sys/fs/cgroup/user.slice/run.scope/memory.max");
    assert_true(levels.limits[1] == 3000 * MIB && levels.available[1] == 1750 * MIB);
    assert_string_equal(levels.names[2], "/sys/fs/cgroup/user.slice/memory.max");
    assert_true(levels.limits[2] == 4000 * MIB && levels.available[2] == 100 * MIB);
    assert_true(least.available_bytes == 100 * MIB);
}

static void hybrid_looks_at_both_trees(void **state)
{
    (void)state;
    machine("4:memory:/job\n3:cpuset:/\n0::/init.scope\n",
            MOUNT_V1 "38 31 0:35 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"
                     "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/blkio/memory.limit_in_bytes", "1\n"); /* not a memory tree: never read */
    put_v1("/sys/fs/cgroup/memory/job", 1000 * MIB, 100 * MIB, 0, 0);
    put("/sys/fs/cgroup/unified/init.scope/cgroup.procs", "1\n");
    expect(900 * MIB, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes");
    put_v2("/sys/fs/cgroup/unified/init.scope", 500 * MIB, 1 * MIB, 0, 0);
    expect(499 * MIB, "/sys/fs/cgroup/unified/init.scope/memory.max");
}

static void container_sees_its_own_part(void **state)
{
    (void)state;
    /* A bind of the group at the mount point; the path in proc/self/cgroup is the host's. */
    machine("0::/kubepods/pod7/c1/inner\n",
            "900 890 0:28 /kubepods/pod7/c1 /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n");
    put_v2("/sys/fs/cgroup/inner", 200 * MIB, 20 * MIB, 0, 0);
    put_v2("/sys/fs/cgroup", 150 * MIB, 30 * MIB, 10 * MIB, 0);
    expect(130 * MIB, "/sys/fs/cgroup/memory.max");
    /* A cgroup namespace left behind: the group is outside of what is mounted. */
    machine("0::/../../other\n", MOUNT_V2);
    expect(130 * MIB, "/sys/fs/cgroup/memory.max");
    /* Only a prefix by name, not by component. */
    put_v2("/sys/fs/cgroup7", 1 * MIB, 0, 0, 0);
    machine("0::/kubepods/pod77\n", "900 890 0:28 /kubepods/pod7 /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    expect(130 * MIB, "/sys/fs/cgroup/memory.max");
}

static void escaped_mount_points_are_read(void **state)
{
    (void)state;
    machine("0::/a:b c\n", "41 31 0:38 / /mnt/c\\040g rw - cgroup2 cgroup2 rw\n");
    put_v2("/mnt/c g/a:b c", 700 * MIB, 0, 0, 0);
    expect(700 * MIB, "/mnt/c g/a:b c/memory.max");
}

static void long_lines_are_skipped(void **state)
{
    (void)state;
    char mounts[20000] = "50 31 0:50 / / rw - overlay overlay rw,lowerdir=";
    size_t used = strlen(mounts);
    for (int i = 0; i < 1500; i++) {
        used += (size_t)snprintf(mounts + used, sizeof mounts - used, "/layer%d:", i);
    }
    snprintf(mounts + used, sizeof mounts - used, "\n%s", MOUNT_V2);
    machine("0::/x\n", mounts);
    put_v2("/sys/fs/cgroup/x", 700 * MIB, 0, 0, 0);
    expect(700 * MIB, "/sys/fs/cgroup/x/memory.max");
}

static void absent_files_set_no_limit(void **state)
{
    (void)state;
    machine("0::/x\n", MOUNT_V2 MOUNT_V1);
    expect(AVAILABLE, "MemAvailable");
    put("/sys/fs/cgroup/x/memory.max", "1048576\n"); /* no usage known: all of it is left */
    expect(1 * MIB, "/sys/fs/cgroup/x/memory.max");
    put("/sys/fs/cgroup/x/memory.max", ""); /* the group is gone */
    expect(AVAILABLE, "MemAvailable");
    put("/proc/self/cgroup", "");
    expect(AVAILABLE, "MemAvailable");
    put("/proc/self/cgroup", "garbage\n:\n::\n0:\n0:::\n4:memory\n0::relative\n");
    put("/proc/self/mountinfo", "x\n - \n1 2 3 - cgroup2\n1 2 3 4 - cgroup2 a b\n1 2 3 4 relative - cgroup2 a b\n");
    expect(AVAILABLE, "MemAvailable");
}

static void more_cache_than_usage_frees_the_limit_only(void **state)
{
    (void)state;
    machine("0::/x\n", MOUNT_V2);
    put_v2("/sys/fs/cgroup/x", 100 * MIB, 50 * MIB, UINT64_MAX, 7);
    expect(100 * MIB, "/sys/fs/cgroup/x/memory.max");
    put_v2("/sys/fs/cgroup/x", 100 * MIB, 150 * MIB, 20 * MIB, 0);
    expect(0, "/sys/fs/cgroup/x/memory.max"); /* over its limit already */
}

static void nonsense_numbers_are_errors(void **state)
{
    (void)state;
    static const char *const bad[] = {"-1\n", "12x\n", "18446744073709551616\n", "\n", " 5\n", "0x10\n", "maximum\n"};
    machine("0::/x\n", MOUNT_V2);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put("/sys/fs/cgroup/x/memory.max", bad[i]);
        expect_failure(BERTH_ERR_FORMAT, "/sys/fs/cgroup/x/memory.max", "wanted a number");
    }
    put_v2("/sys/fs/cgroup/x", 100 * MIB, 50 * MIB, 0, 0);
    put("/sys/fs/cgroup/x/memory.stat", "inactive_file lots\n");
    expect_failure(BERTH_ERR_FORMAT, "/sys/fs/cgroup/x/memory.stat", "inactive_file lots");
    put("/sys/fs/cgroup/x/memory.stat", "inactive_file 99999999999999999999999\n");
    expect_failure(BERTH_ERR_FORMAT, "/sys/fs/cgroup/x/memory.stat", "wanted a name and a number");
    put("/sys/fs/cgroup/x/memory.stat", "");
    put("/proc/meminfo", "MemAvailable: 99999999999999999 kB\n");
    expect_failure(BERTH_ERR_FORMAT, "/proc/meminfo", "wanted a name and a number");
}

static void old_kernels_estimate_from_memfree(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemTotal: 100 kB\nMemFree: 30 kB\nBuffers: 4 kB\nCached: 20 kB\n");
    expect(44 * 1024, "MemFree");
    put("/proc/meminfo", "MemTotal: 100 kB\n");
    expect_failure(BERTH_ERR_IO, "/proc/meminfo", "no MemAvailable");
}

static void absent_meminfo_is_an_error(void **state)
{
    (void)state;
    expect_failure(BERTH_ERR_IO, "/proc/meminfo", "budget");
    put("/proc/meminfo/x", "a directory");
    expect_failure(BERTH_ERR_IO, "/proc/meminfo", "cannot read");
}

static void deep_groups_are_walked_to_the_end(void **state)
{
    (void)state;
    char group[900] = "0::";
    for (int i = 0; i < 300; i++) {
        strcat(group, "/d");
    }
    machine(group, MOUNT_V2);
    put_v2("/sys/fs/cgroup/d/d", 70 * MIB, 0, 0, 0);
    expect(70 * MIB, "/sys/fs/cgroup/d/d/memory.max");
}

static void too_long_paths_are_an_error(void **state)
{
    (void)state;
    char longer[9000] = "0::/";
    memset(longer + 4, 'x', 8000);
    machine(longer, MOUNT_V2);
    expect_failure(BERTH_ERR_LIMIT, "/proc/self/cgroup", "give the budget as a number");
    longer[1500] = '\0';
    machine(longer, MOUNT_V2);
    expect_failure(BERTH_ERR_LIMIT, "/proc/self/cgroup", "give the budget as a number");
    longer[1015] = '\0'; /* fits alone, not below the mount point */
    machine(longer, MOUNT_V2);
    expect_failure(BERTH_ERR_LIMIT, "/proc/self/mountinfo", "give the budget as a number");
}

static void this_machine_has_a_limit(void **state)
{
    (void)state;
    assert_int_equal(os_memory_limit("", &limit, &err), BERTH_OK);
    assert_true(limit.available_bytes > 1 * MIB);
    assert_true(limit.available_bytes < (1ull << 50));
    assert_true(strlen(limit.binding) > 0);
}

static void process_bytes_grow_with_the_reservation(void **state)
{
    (void)state;
    uint64_t none = os_process_bytes(0, 0);
    assert_true(none > 2 * MIB);
    assert_true(none < 512 * MIB);
    /* A task and its kernel stack are more than 20 KiB. */
    assert_true(os_process_bytes(0, 100) - none > 100 * 20 * 1024);
    assert_true(os_process_bytes(0, UINT64_MAX) == UINT64_MAX);
    /* 8 bytes for each 4096, and a 512th of that. */
    assert_int_equal(os_process_bytes(1024 * MIB, 0) - none, 2 * MIB + 4096);
    assert_true(os_process_bytes(UINT64_MAX, 0) > (1ull << 55) - 1);
}

int main(void)
{
#define LIMIT_TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        LIMIT_TEST(no_cgroup_leaves_memavailable),
        LIMIT_TEST(v1_group_counts_page_cache_as_free),
        LIMIT_TEST(v1_every_parent_counts),
        LIMIT_TEST(v1_unlimited_is_no_limit),
        LIMIT_TEST(v1_hierarchical_limit_knows_hidden_parents),
        LIMIT_TEST(v1_parent_without_hierarchy_does_not_count),
        LIMIT_TEST(v2_group_and_parents),
        LIMIT_TEST(every_level_is_told),
        LIMIT_TEST(hybrid_looks_at_both_trees),
        LIMIT_TEST(container_sees_its_own_part),
        LIMIT_TEST(escaped_mount_points_are_read),
        LIMIT_TEST(long_lines_are_skipped),
        LIMIT_TEST(absent_files_set_no_limit),
        LIMIT_TEST(more_cache_than_usage_frees_the_limit_only),
        LIMIT_TEST(nonsense_numbers_are_errors),
        LIMIT_TEST(old_kernels_estimate_from_memfree),
        LIMIT_TEST(absent_meminfo_is_an_error),
        LIMIT_TEST(deep_groups_are_walked_to_the_end),
        LIMIT_TEST(too_long_paths_are_an_error),
        cmocka_unit_test(this_machine_has_a_limit),
        cmocka_unit_test(process_bytes_grow_with_the_reservation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
