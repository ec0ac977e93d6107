/* SPDX-License-Identifier: MIT
 * Files read by position, past the page cache where the file system allows it. */
#ifndef OS_FILE_H
#define OS_FILE_H

#include "base/error.h"
#include "os/memory.h"

enum { OS_DIRECT_ALIGN = 4096 }; /* alignment assumed for offset, length and buffer of direct reads everywhere */

struct os_file {
    int fd;              /* -1: closed */
    bool direct;         /* opened with O_DIRECT */
    uint64_t size_bytes; /* at open */
    int64_t written_ns;  /* last modification, at open */
    const struct os_hooks *hooks;
    char path[512];
};

/* want_direct: try O_DIRECT, fall back to buffered reads (which drop their pages again). Directories, FIFOs and devices
 * are refused. */
berth_status os_file_open(struct os_file *file, const char *path, bool want_direct, const struct os_hooks *hooks,
                          berth_error *err);
void os_file_close(struct os_file *file);

/* Opens for direct reads where they work, and reads the first OS_DIRECT_ALIGN bytes of the file (all, if it is shorter)
 * into `page`, aligned: one read that brings the header's length and shows whether direct reads work. */
berth_status os_file_open_page(struct os_file *file, const char *path, const struct os_hooks *hooks, void *page,
                               uint64_t *page_bytes, berth_error *err);

/* Reads exactly `bytes` at `offset`. For direct files offset and buffer must be aligned to OS_DIRECT_ALIGN and the
 * buffer must hold `bytes` rounded up to it; what lies past `bytes` in that tail is unspecified. Retries EINTR and
 * short reads; a file that has become shorter is BERTH_ERR_IO with got and wanted. Thread-safe. */
berth_status os_file_read(const struct os_file *file, uint64_t offset, uint64_t bytes, void *buffer, berth_error *err);

/* BERTH_ERR_IO when somebody has written to the file since it was opened, as its size and time of modification tell.
 * One system call; checked after a read, so that what was read is known to be what was opened. */
berth_status os_file_unchanged(const struct os_file *file, berth_error *err);

/* Size without opening; BERTH_ERR_NOT_FOUND when absent. */
berth_status os_path_info(const char *path, bool *is_directory, uint64_t *size_bytes, berth_error *err);

/* Calls fn for each name in a directory (without "." and ".."), in byte order; stops when fn returns false. The names
 * are held in a temporary reservation: OS_DIRECTORY_NAMES_MAX names and OS_DIRECTORY_BYTES_MAX bytes at most. */
enum { OS_DIRECTORY_NAMES_MAX = 1 << 18, OS_DIRECTORY_BYTES_MAX = 16 << 20 };
berth_status os_directory_each(const char *path, bool (*fn)(void *user, const char *name), void *user,
                               berth_error *err);

/* Removes a regular file; a link goes, what it points to stays. Nothing else is touched. */
void os_path_remove(const char *path);
/* The path leads to this very file, by whatever name. */
bool os_path_is(const char *path, const struct os_file *file);

/* Sequential writer: buffered in the caller's memory, creates PATH.tmp.<pid>.<n>, renames on finish after fsync. What
 * a process that was killed has left for the same PATH is removed: the pid in its name is nobody's, and nobody holds
 * the lock that a writer has on its file. Pages
 * that it has written are pushed to the disk and dropped from the page cache every few MiB, so that a file bigger than
 * the budget can be written inside it. */
struct os_writer {
    int fd;
    uint64_t written_bytes; /* handed to the system */
    uint64_t dropped_bytes; /* of those, already on the disk and out of the page cache */
    unsigned char *buffer;
    size_t buffer_bytes, buffered_bytes;
    char path[512];
    char temp_path[544];
};
berth_status os_writer_open(struct os_writer *writer, const char *path, void *buffer, size_t buffer_bytes,
                            berth_error *err);
/* The same for a file that only its owner may read. */
berth_status os_writer_open_private(struct os_writer *writer, const char *path, void *buffer, size_t buffer_bytes,
                                    berth_error *err);
/* The removal alone, for a path that nothing will be written to. */
void os_writer_sweep(const char *path);
berth_status os_writer_put(struct os_writer *writer, const void *data, size_t bytes, berth_error *err);
/* Flushes and syncs the temporary file, without renaming it: several writers can be made durable before the first one
 * appears at its place. */
berth_status os_writer_sync(struct os_writer *writer, berth_error *err);
/* Flushes, syncs file and directory, renames into place. */
berth_status os_writer_finish(struct os_writer *writer, berth_error *err);
/* Removes the temporary file. Safe after finish (does nothing). */
void os_writer_abandon(struct os_writer *writer);
/* Removes a file that os_writer_finish() put in place: takes back a set that could not be completed. */
void os_writer_take_back(struct os_writer *writer);

#endif
