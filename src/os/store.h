/* SPDX-License-Identifier: MIT
 * What a small file that several processes rewrite needs besides os_writer: a lock, the file behind a symbolic link, a
 * backup, and the remains of processes that were killed. */
#ifndef OS_STORE_H
#define OS_STORE_H

#include "base/error.h"

enum { OS_STORE_PATH_MAX = 500 };

/* The path that must be replaced so that `path`, possibly a symbolic link, shows the new file. The file need not exist.
 */
berth_status os_store_resolve(const char *path, char *out, size_t cap, berth_error *err);

/* Advisory lock of PATH.lock, made when absent (mode 0600) and left there; freed when the process ends, however it
 * ends. Waits up to `wait_ms`; BERTH_ERR_STATE: another process still holds it. */
struct os_lock_file {
    int fd; /* -1: not held */
};
berth_status os_lock_file_take(struct os_lock_file *lock, const char *path, unsigned wait_ms, berth_error *err);
void os_lock_file_give(struct os_lock_file *lock);

/* Keeps the file's present contents as PATH.bak (replacing an older one). */
berth_status os_store_backup(const char *path, berth_error *err);

/* Removes PATH.tmp.*: only for the holder of the lock. */
void os_store_sweep(const char *path);

/* Whether a file could be made in the directory of `path`. */
bool os_store_can_write(const char *path);

/* Makes the directory that holds `path`, and its parents, mode 0700. */
berth_status os_store_make_parents(const char *path, berth_error *err);

#endif
