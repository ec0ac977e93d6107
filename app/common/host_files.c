/* SPDX-License-Identifier: MIT */
#include "common/host_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES_MAX = 1 << 16 };

static void fill_entry(const char *path, const struct stat *info, struct host_entry *out)
{
    const char *slash = strrchr(path, '/');
    *out = (struct host_entry){
        .path = path,
        .name = slash != NULL ? slash + 1 : path,
        .is_directory = S_ISDIR(info->st_mode),
        .bytes = S_ISREG(info->st_mode) ? (uint64_t)info->st_size : 0,
        .mtime_ns = (int64_t)info->st_mtim.tv_sec * 1000000000 + (int64_t)info->st_mtim.tv_nsec,
    };
}

bool host_entry_of(const char *path, struct host_entry *out)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return false;
    }
    fill_entry(path, &info, out);
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder, sorted; *count of them. NULL: unreadable or empty. Free with free_names(). */
static char **read_names(const char *folder, size_t *count)
{
    DIR *directory = opendir(folder);
    char **names = NULL;
    size_t cap = 0;
    *count = 0;
    for (struct dirent *item; directory != NULL && (item = readdir(directory)) != NULL && *count < NAMES_MAX;) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) {
            continue;
        }
        if (*count == cap) {
            cap = cap == 0 ? 64 : cap * 2;
            char **moved = realloc(names, cap * sizeof *names);
            if (moved == NULL) {
                break;
            }
            names = moved;
        }
        names[*count] = strdup(item->d_name);
        *count += names[*count] != NULL ? 1 : 0;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    if (names != NULL) {
        qsort(names, *count, sizeof *names, by_name);
    }
    return names;
}

/* The folders that a walk is in. */
struct inside {
    const struct inside *up;
    dev_t device;
    ino_t inode;
};

static void walk(const char *folder, const struct inside *up, uint32_t depth, host_entry_fn *fn, void *user)
{
    struct stat info;
    if (stat(folder, &info) != 0) {
        return;
    }
    const struct inside here = {up, info.st_dev, info.st_ino};
    for (const struct inside *at = up; at != NULL; at = at->up) {
        if (at->device == here.device && at->inode == here.inode) {
            return; /* a link back */
        }
    }
    size_t count;
    char **names = read_names(folder, &count);
    for (size_t i = 0; i < count; i++) {
        char path[HOST_PATH_MAX];
        struct host_entry entry;
        bool fits = snprintf(path, sizeof path, "%s/%s", folder, names[i]) < (int)sizeof path;
        if (fits && host_entry_of(path, &entry) && fn(user, &entry) && entry.is_directory && depth > 1) {
            walk(path, &here, depth - 1, fn, user);
        }
        free(names[i]);
    }
    free(names);
}

void host_walk(const char *folder, uint32_t depth, host_entry_fn *fn, void *user)
{
    walk(folder, NULL, depth, fn, user);
}

const char *host_path_variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] == '/' ? value : NULL;
}

bool host_home_path(const char *rest, char *path, size_t cap)
{
    const char *home = host_path_variable("HOME");
    return home != NULL && snprintf(path, cap, "%s/%s", home, rest) < (int)cap;
}

bool host_read_small(const char *path, char *text, size_t cap)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe without a writer would wait */
    FILE *file = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? fdopen(fd, "r") : NULL;
    if (file == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    size_t bytes = fread(text, 1, cap, file);
    bool whole = bytes < cap && !ferror(file);
    fclose(file);
    text[whole ? bytes : 0] = '\0';
    return whole;
}

bool host_is_regular(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool host_real_path(const char *path, char *out, size_t cap)
{
    char *real = realpath(path, NULL);
    bool fits = real != NULL && strlen(real) < cap;
    if (fits) {
        memcpy(out, real, strlen(real) + 1);
    }
    free(real);
    return fits;
}

/* ---- samples ---------------------------------------------------------------------------------------- */

static const char sample_prefix[] = ".berth-bench.";

static bool is_sample(const struct host_entry *entry)
{
    return strncmp(entry->name, sample_prefix, sizeof sample_prefix - 1) == 0;
}

struct largest {
    uint64_t bytes;
    char *path;
    size_t cap;
};

static bool keep_larger(void *user, const struct host_entry *entry)
{
    struct largest *largest = user;
    if (!entry->is_directory && !is_sample(entry) && entry->bytes > largest->bytes && access(entry->path, R_OK) == 0) {
        largest->bytes = entry->bytes;
        snprintf(largest->path, largest->cap, "%s", entry->path);
    }
    return true;
}

bool host_largest_file(const char *folder, uint64_t least, char *path, size_t cap)
{
    struct largest largest = {.path = path, .cap = cap};
    host_walk(folder, 2, keep_larger, &largest);
    return largest.bytes >= least;
}

static bool sweep_sample(void *user, const struct host_entry *entry)
{
    (void)user;
    if (!entry->is_directory && is_sample(entry)) {
        long pid = strtol(entry->name + sizeof sample_prefix - 1, NULL, 10);
        if (pid > 0 && pid < INT_MAX && kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
            unlink(entry->path);
        }
    }
    return false;
}

void host_sweep_samples(const char *folder)
{
    host_walk(folder, 1, sweep_sample, NULL);
}

bool host_write_sample(const char *folder, uint64_t bytes, char *path, size_t cap)
{
    enum { PIECE = 1 << 20 };
    if (snprintf(path, cap, "%s/.berth-bench.%ld", folder, (long)getpid()) >= (int)cap) {
        return false;
    }
    host_temporary(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    uint64_t *piece = fd >= 0 ? malloc(PIECE) : NULL;
    uint64_t state = host_seed() | 1;
    uint64_t written = 0;
    while (piece != NULL && written < bytes && !host_interrupted()) {
        for (size_t i = 0; i < PIECE / sizeof *piece; i++) { /* xorshift: nothing a file system could shrink */
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            piece[i] = state;
        }
        ssize_t put = write(fd, piece, PIECE);
        if (put <= 0) {
            break;
        }
        written += (uint64_t)put;
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    bool done = fd >= 0 && written >= bytes && fsync(fd) == 0;
    if (fd >= 0) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
        if (!done) {
            unlink(path);
        }
    }
    free(piece);
    if (!done) {
        host_temporary_done(path);
    }
    return done;
}
