/* SPDX-License-Identifier: MIT
 * Looking through folders, and files of our own in them. */
#ifndef APP_HOST_FILES_H
#define APP_HOST_FILES_H

#include "common/host.h"

struct host_entry {
    const char *path; /* borrowed */
    const char *name; /* its last part */
    bool is_directory;
    uint64_t bytes;
    int64_t mtime_ns; /* of what a symbolic link points to */
};

/* Calls fn for every entry of a folder and of the folders below it, at most `depth` levels deep; links are followed.
 * Entries come in byte order, a folder before what it holds; fn returning false keeps out of that folder. Folders that
 * cannot be read are passed over. */
typedef bool host_entry_fn(void *user, const struct host_entry *entry);
void host_walk(const char *folder, uint32_t depth, host_entry_fn *fn, void *user);

bool host_entry_of(const char *path, struct host_entry *out);
bool host_is_regular(const char *path);

/* An environment variable that holds an absolute path; NULL: not set, or no path. */
const char *host_path_variable(const char *name);
/* $HOME/rest; false: no home, or too long. */
bool host_home_path(const char *rest, char *path, size_t cap);

/* The whole of a small file, NUL-terminated; false: absent, or larger than cap - 1. */
bool host_read_small(const char *path, char *text, size_t cap);

/* The path without links, "." and ".."; false: it does not exist. */
bool host_real_path(const char *path, char *out, size_t cap);

/* The largest file in a folder and one level below, of at least `least` bytes; samples do not count. */
bool host_largest_file(const char *folder, uint64_t least, char *path, size_t cap);
/* Writes a file of `bytes` that does not compress into a folder, out of the page cache; removed when that fails, or a
 * signal comes. Until host_temporary_done(path) a signal that ends the process removes it too. */
bool host_write_sample(const char *folder, uint64_t bytes, char *path, size_t cap);
/* Removes the samples of processes that were killed while they measured. */
void host_sweep_samples(const char *folder);

#endif
