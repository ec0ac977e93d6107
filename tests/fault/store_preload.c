/* SPDX-License-Identifier: MIT
 * Preloaded into berth: what a full, read-only or vanished disk does to the files below $FAULT_DIR.
 * $FAULT_KIND: "full" (writes fail), "readonly" (nothing can be opened for writing), "gone" (every access is an I/O
 * error once a file has been opened). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static bool kind_is(const char *kind)
{
    const char *set = getenv("FAULT_KIND");
    return set != NULL && strcmp(set, kind) == 0;
}

static bool is_below(const char *path)
{
    const char *folder = getenv("FAULT_DIR");
    return folder != NULL && path != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

static bool is_victim(int fd)
{
    char link[64];
    char path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, path, sizeof path - 1);
    path[bytes > 0 ? bytes : 0] = '\0';
    return is_below(path);
}

/* 0: goes on. */
static int fault_of_fd(int fd, bool writes)
{
    bool hit = (writes && kind_is("full")) || kind_is("gone");
    return hit && is_victim(fd) ? (kind_is("gone") ? EIO : ENOSPC) : 0;
}

static int fault_of_path(const char *path, int flags)
{
    bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT) != 0;
    return writes && kind_is("readonly") && is_below(path) ? EROFS : 0;
}

#define FAIL(fault)     \
    if ((fault) != 0) { \
        errno = fault;  \
        return -1;      \
    }

#define OPEN(name)                                                  \
    int name(const char *path, int flags, ...)                      \
    {                                                               \
        va_list more;                                               \
        va_start(more, flags);                                      \
        mode_t mode = (flags & O_CREAT) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                               \
        int fault = fault_of_path(path, flags);                     \
        FAIL(fault)                                                 \
        int (*next)(const char *, int, ...);                        \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                  \
        return next(path, flags, mode);                             \
    }
OPEN(open)
OPEN(open64)

#define PASS(result, name, writes, types, names)   \
    result name types                              \
    {                                              \
        int fault = fault_of_fd(fd, writes);       \
        FAIL(fault)                                \
        result(*next) types;                       \
        *(void **)&next = dlsym(RTLD_NEXT, #name); \
        return next names;                         \
    }
PASS(ssize_t, write, true, (int fd, const void *data, size_t bytes), (fd, data, bytes))
PASS(ssize_t, pwrite, true, (int fd, const void *data, size_t bytes, off_t at), (fd, data, bytes, at))
PASS(ssize_t, pwrite64, true, (int fd, const void *data, size_t bytes, off64_t at), (fd, data, bytes, at))
PASS(ssize_t, read, false, (int fd, void *data, size_t bytes), (fd, data, bytes))
PASS(ssize_t, pread, false, (int fd, void *data, size_t bytes, off_t at), (fd, data, bytes, at))
PASS(ssize_t, pread64, false, (int fd, void *data, size_t bytes, off64_t at), (fd, data, bytes, at))
PASS(int, fsync, false, (int fd), (fd))
PASS(int, fdatasync, false, (int fd), (fd))

int mkdir(const char *path, mode_t mode)
{
    struct stat info;
    int fault = kind_is("readonly") && is_below(path) && stat(path, &info) != 0 ? EROFS : 0;
    FAIL(fault)
    int (*next)(const char *, mode_t);
    *(void **)&next = dlsym(RTLD_NEXT, "mkdir");
    return next(path, mode);
}
