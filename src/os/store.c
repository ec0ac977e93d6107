/* SPDX-License-Identifier: MIT */
#include "os/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "os/file.h"

enum { LINKS_MAX = 16, LOCK_STEP_MS = 1 };

static berth_status fail(int code, const char *what, const char *path, berth_error *err)
{
    char text[128];
    berth_status status = code == ENOENT ? BERTH_ERR_NOT_FOUND : BERTH_ERR_IO;
    error_set(err, status, "cannot %s: %s", what, strerror_r(code, text, sizeof text));
    error_at_path(err, path);
    return status;
}

static berth_status too_long(const char *path, berth_error *err)
{
    error_set(err, BERTH_ERR_LIMIT, "the path is longer than %d bytes", OS_STORE_PATH_MAX - 1);
    error_at_path(err, path);
    return BERTH_ERR_LIMIT;
}

/* Bytes of the directory part, with the slash. */
static size_t directory_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

berth_status os_store_resolve(const char *path, char *out, size_t cap, berth_error *err)
{
    char here[OS_STORE_PATH_MAX];
    char target[OS_STORE_PATH_MAX];
    if (strlen(path) >= sizeof here) {
        return too_long(path, err);
    }
    memcpy(here, path, strlen(path) + 1);
    for (int links = 0; links < LINKS_MAX; links++) {
        ssize_t bytes = readlink(here, target, sizeof target - 1);
        if (bytes < 0) { /* a file, or nothing yet */
            if (strlen(here) >= cap) {
                return too_long(here, err);
            }
            memcpy(out, here, strlen(here) + 1);
            return BERTH_OK;
        }
        target[bytes] = '\0';
        size_t keep = target[0] == '/' ? 0 : directory_bytes(here);
        if (bytes == (ssize_t)sizeof target - 1 || keep + (size_t)bytes >= sizeof here) {
            return too_long(path, err);
        }
        memcpy(here + keep, target, (size_t)bytes + 1);
    }
    return fail(ELOOP, "follow the symbolic link", path, err);
}

berth_status os_lock_file_take(struct os_lock_file *lock, const char *path, unsigned wait_ms, berth_error *err)
{
    char name[OS_STORE_PATH_MAX + 8];
    lock->fd = -1;
    if (strlen(path) >= OS_STORE_PATH_MAX) {
        return too_long(path, err);
    }
    (void)snprintf(name, sizeof name, "%s.lock", path);
    int fd;
    do {
        fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return fail(errno, "make the lock file", name, err);
    }
    for (unsigned waited = 0;; waited += LOCK_STEP_MS) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            lock->fd = fd;
            return BERTH_OK;
        }
        if (errno != EWOULDBLOCK && errno != EINTR) {
            int code = errno;
            close(fd);
            return fail(code, "lock", name, err);
        }
        if (waited >= wait_ms) {
            close(fd);
            error_set(err, BERTH_ERR_STATE, "another process has held the lock for %u ms", wait_ms);
            error_at_path(err, name);
            return BERTH_ERR_STATE;
        }
        struct timespec step = {.tv_nsec = LOCK_STEP_MS * 1000000L};
        (void)nanosleep(&step, NULL); /* a signal only makes it look again sooner */
    }
}

void os_lock_file_give(struct os_lock_file *lock)
{
    if (lock->fd >= 0) {
        close(lock->fd);
    }
    lock->fd = -1;
}

/* For file systems without hard links. */
static int copy_file(const char *from, const char *to)
{
    char piece[2048];
    int code = 0;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t got = in < 0 || out < 0 ? -1 : 1;
    while (got > 0) {
        got = read(in, piece, sizeof piece);
        for (ssize_t done = 0; done < got;) {
            ssize_t put = write(out, piece + done, (size_t)(got - done));
            if (put < 0 && errno != EINTR) {
                got = -1;
            }
            done += put > 0 ? put : 0;
        }
        if (got < 0 && errno == EINTR) {
            got = 1;
        }
    }
    code = got < 0 || fsync(out) != 0 ? errno : 0;
    if (in >= 0) {
        close(in);
    }
    if (out >= 0) {
        close(out);
    }
    return code;
}

berth_status os_store_backup(const char *path, berth_error *err)
{
    char temp[OS_STORE_PATH_MAX + 32];
    char name[OS_STORE_PATH_MAX + 8];
    if (strlen(path) >= OS_STORE_PATH_MAX) {
        return too_long(path, err);
    }
    (void)snprintf(temp, sizeof temp, "%s.tmp.%ld.bak", path, (long)getpid());
    (void)snprintf(name, sizeof name, "%s.bak", path);
    (void)unlink(temp);
    int code = link(path, temp) == 0 ? 0 : errno; /* the new file comes by rename: the old bytes keep this name */
    if (code == EPERM || code == EOPNOTSUPP || code == EMLINK) {
        code = copy_file(path, temp);
    }
    if (code != 0) {
        (void)unlink(temp);
        return fail(code, "keep a backup", name, err);
    }
    if (rename(temp, name) != 0) {
        code = errno;
        (void)unlink(temp);
        return fail(code, "keep a backup", name, err);
    }
    (void)unlink(temp); /* rename() leaves both names when they are one file already */
    return BERTH_OK;
}

struct sweep {
    const char *prefix; /* base name and ".tmp." */
    size_t prefix_bytes;
    const char *path;
    size_t directory_bytes;
};

static bool sweep_one(void *user, const char *name)
{
    const struct sweep *sweep = user;
    char victim[OS_STORE_PATH_MAX + 300];
    if (strncmp(name, sweep->prefix, sweep->prefix_bytes) == 0) {
        int bytes = snprintf(victim, sizeof victim, "%.*s%s", (int)sweep->directory_bytes, sweep->path, name);
        if (bytes > 0 && (size_t)bytes < sizeof victim) {
            (void)unlink(victim);
        }
    }
    return true;
}

void os_store_sweep(const char *path)
{
    char prefix[OS_STORE_PATH_MAX + 8];
    char directory[OS_STORE_PATH_MAX];
    if (strlen(path) >= OS_STORE_PATH_MAX) {
        return;
    }
    size_t keep = directory_bytes(path);
    (void)snprintf(prefix, sizeof prefix, "%s.tmp.", path + keep);
    (void)snprintf(directory, sizeof directory, "%.*s", (int)keep, path);
    struct sweep sweep = {prefix, strlen(prefix), path, keep};
    (void)os_directory_each(keep == 0 ? "." : directory, sweep_one, &sweep, NULL);
}

bool os_store_can_write(const char *path)
{
    char directory[OS_STORE_PATH_MAX];
    size_t keep = directory_bytes(path);
    if (keep >= sizeof directory) {
        return false;
    }
    (void)snprintf(directory, sizeof directory, "%.*s", (int)keep, path);
    return faccessat(AT_FDCWD, keep == 0 ? "." : directory, W_OK | X_OK, AT_EACCESS) == 0;
}

berth_status os_store_make_parents(const char *path, berth_error *err)
{
    char part[OS_STORE_PATH_MAX];
    size_t bytes = directory_bytes(path);
    if (bytes >= sizeof part) {
        return too_long(path, err);
    }
    for (size_t end = 1; end < bytes; end++) {
        if (path[end] == '/') {
            memcpy(part, path, end);
            part[end] = '\0';
            if (mkdir(part, 0700) != 0 && errno != EEXIST && errno != EISDIR) {
                return fail(errno, "make the directory", part, err);
            }
        }
    }
    return BERTH_OK;
}
