/* SPDX-License-Identifier: MIT
 * CPU quota of this process's cgroups, v2 (cpu.max) and v1 (cpu.cfs_quota_us), this group and all parents.
 *
 * Only a default thread count depends on it, so the trees are looked for where every distribution mounts them, and
 * whatever cannot be read or understood counts as no quota.
 */
#include <stdio.h>
#include <string.h>

#include "os/cpu.h"
#include "os/cpu_text.h"

enum { PATH_BYTES = 1024, TEXT_BYTES = 4000 };

/* Decimal digits; 0 when there are none (a quota of -1 or "max" is none too). At most 2^40. */
static uint64_t parse_number(const char **text)
{
    uint64_t value = 0;
    const char *p = *text;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value < ((uint64_t)1 << 36) ? value * 10 + (uint64_t)(*p - '0') : value;
    }
    *text = p;
    return value;
}

static uint32_t cpus(uint64_t quota, uint64_t period)
{
    if (quota == 0 || period == 0) {
        return UINT32_MAX;
    }
    uint64_t n = (quota + period - 1) / period;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static uint32_t level_quota(const char *root, const char *mount, const char *group, bool v2)
{
    char path[PATH_BYTES];
    char text[128];
    const char *p = text;
    int n = snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (n < 0 || n >= PATH_BYTES || !os_cpu_text(path, text, sizeof text)) {
        return UINT32_MAX;
    }
    uint64_t quota = parse_number(&p);
    if (v2) {
        p += *p == ' ' ? 1 : 0;
        return cpus(quota, parse_number(&p));
    }
    n = snprintf(path, sizeof path, "%s%s%s/cpu.cfs_period_us", root, mount, group);
    if (n < 0 || n >= PATH_BYTES || !os_cpu_text(path, text, sizeof text)) {
        return UINT32_MAX;
    }
    p = text;
    return cpus(quota, parse_number(&p));
}

/* From the group up to the mount itself. Inside a container the path may name groups that the mount does not show;
 * their files are absent, and the walk ends at the container's own root. */
static uint32_t tree_quota(const char *root, const char *mount, const char *group_path, bool v2)
{
    char group[PATH_BYTES];
    int n = snprintf(group, sizeof group, "%s", group_path);
    if (n < 0 || n >= PATH_BYTES || strstr(group, "/..") != NULL) {
        group[0] = '\0';
    }
    uint32_t least = UINT32_MAX;
    for (;;) {
        uint32_t quota = level_quota(root, mount, group, v2);
        least = quota < least ? quota : least;
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

static bool names_cpu(const char *controllers)
{
    for (const char *p = controllers; p != NULL;) {
        const char *comma = strchr(p, ',');
        size_t bytes = comma == NULL ? strlen(p) : (size_t)(comma - p);
        if (bytes == 3 && memcmp(p, "cpu", 3) == 0) {
            return true;
        }
        p = comma == NULL ? NULL : comma + 1;
    }
    return false;
}

/* One line of /proc/self/cgroup, "4:cpu,cpuacct:/group" or "0::/group". */
static uint32_t line_quota(const char *root, char *line)
{
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL || group[1] != '/') {
        return UINT32_MAX;
    }
    *group++ = '\0';
    controllers++;
    static const char *const v1[] = {"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"};
    static const char *const v2[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    bool is_v2 = controllers[0] == '\0';
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < 2 && (is_v2 || names_cpu(controllers)); i++) {
        uint32_t quota = tree_quota(root, is_v2 ? v2[i] : v1[i], group, is_v2);
        least = quota < least ? quota : least;
    }
    return least;
}

uint32_t os_cpu_quota(const char *root)
{
    char path[PATH_BYTES];
    char text[TEXT_BYTES];
    int n = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (n < 0 || n >= PATH_BYTES || !os_cpu_text(path, text, sizeof text)) {
        return UINT32_MAX;
    }
    uint32_t least = UINT32_MAX;
    for (char *line = text; line != NULL && *line != '\0';) {
        char *newline = strchr(line, '\n');
        if (newline != NULL) {
            *newline = '\0';
        }
        uint32_t quota = line_quota(root, line);
        least = quota < least ? quota : least;
        line = newline == NULL ? NULL : newline + 1;
    }
    return least;
}
