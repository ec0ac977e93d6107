/* SPDX-License-Identifier: MIT
 * Sources: proc(5) meminfo and cpuinfo; the device tree's /model on machines whose cpuinfo names no product. */
#include "os/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { TEXT_MAX = 4096 };

/* The start of a file under root as text; its length, or -1. */
static ssize_t read_start(const char *root, const char *path, char *text)
{
    char whole[1024];
    if (snprintf(whole, sizeof whole, "%s/%s", root, path) >= (int)sizeof whole) {
        return -1;
    }
    int fd = open(whole, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t total = 0;
    while (total < TEXT_MAX - 1) {
        ssize_t got = read(fd, text + total, (size_t)(TEXT_MAX - 1 - total));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        total += got;
    }
    close(fd);
    text[total] = '\0';
    return total;
}

/* What follows "key" and blanks and a colon on a line of its own; NULL: no such line. */
static const char *value_of(const char *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n' ? 1 : 0;
        const char *at = line + length;
        if (strncmp(line, key, length) != 0) {
            continue;
        }
        at += strspn(at, " \t");
        if (*at == ':') {
            at++;
            return at + strspn(at, " \t");
        }
    }
    return NULL;
}

berth_status os_memory_total(const char *root, uint64_t *bytes, berth_error *err)
{
    char text[TEXT_MAX];
    const char *at = read_start(root, "proc/meminfo", text) > 0 ? value_of(text, "MemTotal") : NULL;
    uint64_t kib = 0;
    for (; at != NULL && *at >= '0' && *at <= '9' && kib < UINT64_MAX / 1024 / 16; at++) {
        kib = kib * 10 + (uint64_t)(*at - '0');
    }
    if (kib == 0 || strncmp(at, " kB", 3) != 0) {
        berth_status status =
            error_set(err, BERTH_ERR_UNSUPPORTED, "the system does not say how much memory it has (MemTotal)");
        error_at_path(err, "/proc/meminfo");
        return status;
    }
    *bytes = kib * 1024;
    return BERTH_OK;
}

bool os_processor_name(const char *root, char *name, size_t cap)
{
    char text[TEXT_MAX];
    const char *at = read_start(root, "proc/cpuinfo", text) > 0 ? value_of(text, "model name") : NULL;
    if (at == NULL) {
        at = read_start(root, "proc/device-tree/model", text) > 0 ? text : NULL;
    }
    size_t length = at != NULL ? strcspn(at, "\n") : 0;
    if (length == 0 || cap == 0) {
        return false;
    }
    length = length < cap ? length : cap - 1;
    memcpy(name, at, length);
    name[length] = '\0';
    return true;
}

void os_kernel_name(char *name, size_t cap)
{
    struct utsname system;
    if (uname(&system) != 0) {
        snprintf(name, cap, "unknown");
        return;
    }
    snprintf(name, cap, "%s %s", system.sysname, system.release);
}

/* ---- volumes ---- */

/* Copies field `index` (counted from 0, blanks between) of a line; false: there is none, or it is too long. */
static bool field_of(const char *line, int index, char *out, size_t cap)
{
    for (; index > 0; index--) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    size_t bytes = strcspn(line, " ");
    if (bytes == 0 || bytes >= cap) {
        return false;
    }
    memcpy(out, line, bytes);
    out[bytes] = '\0';
    return true;
}

/* One line of mountinfo: "36 35 98:0 /root /point options [tags] - type source options". */
static bool volume_line(const char *line, const char *wanted, struct os_volume *out)
{
    char device[32];
    const char *tail = strstr(line, " - ");
    return tail != NULL && field_of(line, 2, device, sizeof device) && strcmp(device, wanted) == 0 &&
           field_of(line, 4, out->mount, sizeof out->mount) && field_of(tail + 3, 0, out->type, sizeof out->type) &&
           field_of(tail + 3, 1, out->source, sizeof out->source);
}

berth_status os_volume_of(const char *root, const char *path, struct os_volume *out, berth_error *err)
{
    struct stat info;
    *out = (struct os_volume){0};
    if (stat(path, &info) != 0) {
        berth_status status = errno == ENOENT ? BERTH_ERR_NOT_FOUND : BERTH_ERR_IO;
        error_set(err, status, "cannot be looked at: %s", strerror(errno));
        error_at_path(err, path);
        return status;
    }
    out->device = (uint64_t)info.st_dev;
    char wanted[32];
    char whole[1024];
    snprintf(wanted, sizeof wanted, "%u:%u", major(info.st_dev), minor(info.st_dev));
    snprintf(whole, sizeof whole, "%s/proc/self/mountinfo", root);
    int fd = open(whole, O_RDONLY | O_CLOEXEC);
    char text[TEXT_MAX];
    size_t held = 0;
    bool found = false;
    for (ssize_t got; fd >= 0 && !found && (got = read(fd, text + held, sizeof text - 1 - held)) > 0;) {
        held += (size_t)got;
        text[held] = '\0';
        char *line = text;
        for (char *end; !found && (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            found = volume_line(line, wanted, out);
        }
        held = (size_t)(text + held - line);
        held = held < sizeof text / 2 ? held : 0; /* an absurdly long line is skipped */
        memmove(text, line, held);
    }
    if (fd >= 0) {
        close(fd);
    }
    return BERTH_OK;
}
