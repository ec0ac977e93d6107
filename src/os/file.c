/* SPDX-License-Identifier: MIT
 * Positioned reads past the page cache, directory listing, and the writer that replaces files whole or not at all.
 *
 * A file that cannot be read directly is read through the page cache without read-ahead, and each read drops its pages
 * again: the cache would otherwise be charged to our memory cgroup. */
#include "os/file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/sort.h"
#include "os/store.h"

_Static_assert(sizeof(off_t) == 8, "files over 2 GiB");

enum {
    READ_PIECE_BYTES = 1 << 30, /* one pread(2) moves at most 0x7ffff000 bytes */
    READ_STALLS_MAX = 16,       /* reads in a row that bring nothing new */
    WRITE_WINDOW_BYTES = 8 << 20,
    TEMP_NAMES_MAX = 1000
};

static berth_status system_fail(int code, const char *what, const char *path, berth_error *err)
{
    char text[128];
    berth_status status = code == ENOENT || code == ENOTDIR ? BERTH_ERR_NOT_FOUND : BERTH_ERR_IO;
    error_set(err, status, "cannot %s: %s", what, strerror_r(code, text, sizeof text));
    error_at_path(err, path);
    return status;
}

static berth_status copy_path(char *out, size_t out_bytes, const char *path, berth_error *err)
{
    size_t bytes = strlen(path);
    if (bytes == 0 || bytes >= out_bytes) {
        error_set(err, BERTH_ERR_ARGUMENT, "the path has %zu bytes, 1 to %zu can be used", bytes, out_bytes - 1);
        error_at_path(err, path);
        return BERTH_ERR_ARGUMENT;
    }
    memcpy(out, path, bytes + 1);
    return BERTH_OK;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

/* Some file systems accept O_DIRECT at open and refuse it at the first read (or want a larger alignment). */
static bool direct_read_works(int fd)
{
    void *page = mmap(NULL, OS_DIRECT_ALIGN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    ssize_t got = pread(fd, page, OS_DIRECT_ALIGN, 0);
    bool refused = got < 0 && (errno == EINVAL || errno == EOPNOTSUPP);
    munmap(page, OS_DIRECT_ALIGN);
    return !refused;
}

static int64_t written_ns(const struct stat *info)
{
    return (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
}

static int open_retry(const char *path, int flags, mode_t mode)
{
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* Opens a regular file, not yet for direct reads. */
static berth_status open_plain(struct os_file *file, const char *path, const struct os_hooks *hooks, berth_error *err)
{
    *file = (struct os_file){.fd = -1, .hooks = hooks};
    TRY(copy_path(file->path, sizeof file->path, path, err));
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. It does nothing for regular files. */
    int fd = open_retry(path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0) {
        return system_fail(errno, "open", path, err);
    }
    struct stat info;
    if (fstat(fd, &info) != 0) {
        int code = errno;
        close(fd);
        return system_fail(code, "inspect", path, err);
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        error_set(err, BERTH_ERR_UNSUPPORTED, "this is %s, wanted a regular file",
                  S_ISDIR(info.st_mode) ? "a directory" : "a device, pipe or socket");
        error_at_path(err, path);
        return BERTH_ERR_UNSUPPORTED;
    }
    file->fd = fd;
    file->size_bytes = (uint64_t)info.st_size;
    file->written_ns = written_ns(&info);
    return BERTH_OK;
}

static void set_direct(struct os_file *file)
{
    int flags = fcntl(file->fd, F_GETFL);
    file->direct = flags >= 0 && fcntl(file->fd, F_SETFL, flags | O_DIRECT) == 0;
}

static void set_buffered(struct os_file *file)
{
    int flags = fcntl(file->fd, F_GETFL);
    if (file->direct) {
        file->direct = fcntl(file->fd, F_SETFL, flags & ~O_DIRECT) != 0;
    }
    if (!file->direct) {
        (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM); /* no read-ahead: we know what we need */
    }
}

berth_status os_file_open(struct os_file *file, const char *path, bool want_direct, const struct os_hooks *hooks,
                          berth_error *err)
{
    TRY(open_plain(file, path, hooks, err));
    if (want_direct) {
        set_direct(file);
    }
    if (!file->direct || !direct_read_works(file->fd)) {
        set_buffered(file);
    }
    return BERTH_OK;
}

berth_status os_file_unchanged(const struct os_file *file, berth_error *err)
{
    struct stat info;
    if (fstat(file->fd, &info) != 0) {
        return system_fail(errno, "inspect", file->path, err);
    }
    if ((uint64_t)info.st_size != file->size_bytes || written_ns(&info) != file->written_ns) {
        error_set(err, BERTH_ERR_IO,
                  "the file was changed while in use (%llu bytes when opened, %llu now); open the model again",
                  (unsigned long long)file->size_bytes, (unsigned long long)info.st_size);
        error_at_path(err, file->path);
        return BERTH_ERR_IO;
    }
    return BERTH_OK;
}

void os_file_close(struct os_file *file)
{
    if (file->fd >= 0) {
        close(file->fd);
    }
    file->fd = -1;
}

static int64_t read_once(const struct os_file *file, void *buffer, size_t bytes, uint64_t offset)
{
    const struct os_hooks *hooks = file->hooks;
    if (hooks != NULL && hooks->read_at != NULL) {
        return hooks->read_at(hooks->user, file->fd, buffer, bytes, offset);
    }
    ssize_t got = pread(file->fd, buffer, bytes, (off_t)offset);
    return got < 0 ? -(int64_t)errno : (int64_t)got;
}

static berth_status read_fail(const struct os_file *file, uint64_t offset, berth_error *err)
{
    error_at_path(err, file->path);
    error_at_offset(err, offset);
    return BERTH_ERR_IO;
}

static berth_status read_refused(const struct os_file *file, uint64_t offset, uint64_t bytes, int code,
                                 berth_error *err)
{
    char text[128];
    error_set(err, BERTH_ERR_IO, "reading %llu bytes failed: %s", (unsigned long long)bytes,
              strerror_r(code, text, sizeof text));
    return read_fail(file, offset, err);
}

static berth_status read_ended(const struct os_file *file, uint64_t offset, uint64_t bytes, uint64_t done,
                               berth_error *err)
{
    error_set(err, BERTH_ERR_IO,
              "the file ends too early: got %llu of the %llu bytes wanted; it had %llu bytes when opened",
              (unsigned long long)done, (unsigned long long)bytes, (unsigned long long)file->size_bytes);
    return read_fail(file, offset + done, err);
}

/* Reads [offset, offset + bytes); `room` >= bytes is what the buffer holds. *done: bytes there, also on failure. */
static berth_status read_whole(const struct os_file *file, uint64_t offset, uint64_t bytes, uint64_t room,
                               unsigned char *buffer, berth_error *err)
{
    uint64_t done = 0; /* bytes known to be in the buffer */
    unsigned stalls = 0;
    while (done < bytes) {
        /* A direct read can only start at an aligned place, so after an odd short read its tail is read again. */
        uint64_t at = file->direct ? done & ~(uint64_t)(OS_DIRECT_ALIGN - 1) : done;
        uint64_t piece = room - at < READ_PIECE_BYTES ? room - at : READ_PIECE_BYTES;
        int64_t got = read_once(file, buffer + at, (size_t)piece, offset + at);
        if (got == -EINTR) {
            continue;
        }
        if (got < 0) {
            return read_refused(file, offset + at, bytes, (int)-got, err);
        }
        uint64_t reached = at + (uint64_t)got;
        if (reached > done) {
            done = reached;
            stalls = 0;
        } else if (got == 0 || ++stalls >= READ_STALLS_MAX) {
            return read_ended(file, offset, bytes, done, err);
        }
    }
    return BERTH_OK;
}

berth_status os_file_read(const struct os_file *file, uint64_t offset, uint64_t bytes, void *buffer, berth_error *err)
{
    uint64_t end;
    uint64_t room = bytes;
    if (u64_add_overflows(offset, bytes, &end) || end > INT64_MAX - OS_DIRECT_ALIGN) {
        error_set(err, BERTH_ERR_FORMAT, "a read of %llu bytes at %llu is past the end of any file",
                  (unsigned long long)bytes, (unsigned long long)offset);
        (void)read_fail(file, offset, err);
        return BERTH_ERR_FORMAT;
    }
    if (file->direct) {
        if (offset % OS_DIRECT_ALIGN != 0 || (uintptr_t)buffer % OS_DIRECT_ALIGN != 0) {
            assert(false && "direct reads are aligned");
            return error_set(err, BERTH_ERR_INTERNAL, "direct read with a misaligned offset or buffer");
        }
        room = (bytes + (OS_DIRECT_ALIGN - 1)) & ~(uint64_t)(OS_DIRECT_ALIGN - 1);
    }
    TRY(read_whole(file, offset, bytes, room, buffer, err));
    if (!file->direct) {
        /* Whole pages only are dropped, so widen to page borders. */
        uint64_t first = offset & ~(uint64_t)(OS_PAGE_BYTES - 1);
        uint64_t last = (end + (OS_PAGE_BYTES - 1)) & ~(uint64_t)(OS_PAGE_BYTES - 1);
        (void)posix_fadvise(file->fd, (off_t)first, (off_t)(last - first), POSIX_FADV_DONTNEED);
    }
    return BERTH_OK;
}

berth_status os_file_open_page(struct os_file *file, const char *path, const struct os_hooks *hooks, void *page,
                               uint64_t *page_bytes, berth_error *err)
{
    TRY(open_plain(file, path, hooks, err));
    set_direct(file);
    *page_bytes = file->size_bytes < OS_DIRECT_ALIGN ? file->size_bytes : OS_DIRECT_ALIGN;
    int64_t got = file->direct ? read_once(file, page, OS_DIRECT_ALIGN, 0) : -EINVAL;
    berth_status status = BERTH_OK;
    if (got == -EINVAL || got == -EOPNOTSUPP) {
        set_buffered(file);
        status = os_file_read(file, 0, *page_bytes, page, err);
    } else if (got < 0 && got != -EINTR) {
        status = read_refused(file, 0, *page_bytes, (int)-got, err);
    } else if (got == 0 && *page_bytes > 0) {
        status = read_ended(file, 0, *page_bytes, 0, err);
    } else if (got < (int64_t)*page_bytes) {
        status = os_file_read(file, 0, *page_bytes, page, err);
    }
    if (status != BERTH_OK) {
        os_file_close(file);
    }
    return status;
}

berth_status os_path_info(const char *path, bool *is_directory, uint64_t *size_bytes, berth_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return system_fail(errno, "inspect", path, err);
    }
    *is_directory = S_ISDIR(info.st_mode);
    *size_bytes = info.st_size < 0 ? 0 : (uint64_t)info.st_size;
    return BERTH_OK;
}

/* ---- directories ------------------------------------------------------------------------------------ */

/* One reservation: names packed from the front, then the three index arrays. Only what is used gets charged. */
struct listing {
    char *names;
    uint32_t *starts, *order, *spare;
    uint64_t used_bytes;
    uint32_t count;
};

enum { LISTING_BYTES = OS_DIRECTORY_BYTES_MAX + 3 * OS_DIRECTORY_NAMES_MAX * (int)sizeof(uint32_t) };

/* Layout of getdents64(2). */
struct directory_entry {
    uint64_t inode;
    int64_t next;
    unsigned short bytes;
    unsigned char type;
    char name[];
};

static bool listing_add(struct listing *list, const char *name)
{
    size_t bytes = strlen(name) + 1;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return true;
    }
    if (list->count == OS_DIRECTORY_NAMES_MAX || bytes > OS_DIRECTORY_BYTES_MAX - list->used_bytes) {
        return false;
    }
    memcpy(list->names + list->used_bytes, name, bytes);
    list->starts[list->count++] = (uint32_t)list->used_bytes;
    list->used_bytes += bytes;
    return true;
}

static berth_status listing_read(struct listing *list, int fd, const char *path, berth_error *err)
{
    _Alignas(struct directory_entry) unsigned char buffer[4096];
    for (;;) {
        long got = syscall(SYS_getdents64, fd, buffer, sizeof buffer);
        if (got == 0) {
            return BERTH_OK;
        }
        if (got < 0) {
            return system_fail(errno, "list the directory", path, err);
        }
        for (long at = 0; at < got;) {
            const struct directory_entry *entry = (const void *)(buffer + at);
            if (!listing_add(list, entry->name)) {
                error_set(err, BERTH_ERR_LIMIT, "the directory holds more than %d names or %d bytes of names",
                          OS_DIRECTORY_NAMES_MAX, OS_DIRECTORY_BYTES_MAX);
                error_at_path(err, path);
                return BERTH_ERR_LIMIT;
            }
            at += entry->bytes;
        }
    }
}

static int listing_compare(const void *user, uint32_t a, uint32_t b)
{
    const struct listing *list = user;
    return strcmp(list->names + list->starts[a], list->names + list->starts[b]);
}

berth_status os_directory_each(const char *path, bool (*fn)(void *user, const char *name), void *user, berth_error *err)
{
    void *block;
    int fd = open_retry(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        return system_fail(errno, "open the directory", path, err);
    }
    berth_status status = os_reserve(NULL, LISTING_BYTES, false, &block, err);
    if (status == BERTH_OK) {
        struct listing list = {.names = block};
        list.starts = (uint32_t *)(void *)((char *)block + OS_DIRECTORY_BYTES_MAX);
        list.order = list.starts + OS_DIRECTORY_NAMES_MAX;
        list.spare = list.order + OS_DIRECTORY_NAMES_MAX;
        status = listing_read(&list, fd, path, err);
        if (status == BERTH_OK) {
            sort_order(list.order, list.spare, list.count, listing_compare, &list);
            for (uint32_t i = 0; i < list.count && fn(user, list.names + list.starts[list.order[i]]); i++) {
            }
        }
        os_release(block, LISTING_BYTES);
    }
    close(fd);
    return status;
}

void os_path_remove(const char *path)
{
    struct stat info;
    if (lstat(path, &info) == 0 && (S_ISREG(info.st_mode) || S_ISLNK(info.st_mode))) {
        (void)unlink(path);
    }
}

bool os_path_is(const char *path, const struct os_file *file)
{
    struct stat a;
    struct stat b;
    return stat(path, &a) == 0 && fstat(file->fd, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* ---- writing ---------------------------------------------------------------------------------------- */

/* The pid in "BASE.tmp.<pid>.<n>"; 0: another name. */
static pid_t temp_owner(const char *name, const char *base, size_t base_bytes)
{
    static const char mark[] = ".tmp.";
    if (strncmp(name, base, base_bytes) != 0 || strncmp(name + base_bytes, mark, sizeof mark - 1) != 0) {
        return 0;
    }
    const char *digits = name + base_bytes + sizeof mark - 1;
    size_t pid_bytes = strspn(digits, "0123456789");
    const char *rest = digits + pid_bytes;
    bool whole = pid_bytes > 0 && pid_bytes <= 9 && *rest == '.' && rest[1] != '\0' &&
                 rest[1 + strspn(rest + 1, "0123456789")] == '\0';
    pid_t pid = 0;
    for (size_t i = 0; whole && i < pid_bytes; i++) {
        pid = pid * 10 + (digits[i] - '0');
    }
    return pid;
}

static bool process_is_gone(pid_t pid)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/%ld", (long)pid);
    return access("/proc/self", F_OK) == 0 && access(path, F_OK) != 0 && errno == ENOENT;
}

/* Processes of other machines and containers have pids of their own, hence the lock. */
static void remove_if_dead(int directory, const char *name, pid_t owner)
{
    if (owner <= 0 || !process_is_gone(owner)) {
        return;
    }
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        (void)unlinkat(directory, name, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
}

void os_writer_sweep(const char *path)
{
    _Alignas(struct directory_entry) unsigned char buffer[3072];
    char parent[512];
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    size_t keep = (size_t)(base - path);
    if (keep >= sizeof parent || *base == '\0') {
        return;
    }
    memcpy(parent, keep > 0 ? path : "./", keep > 0 ? keep : 2);
    parent[keep > 0 ? keep : 2] = '\0';
    int fd = open_retry(parent, O_RDONLY | O_DIRECTORY, 0);
    for (long got = 1; fd >= 0 && got > 0;) {
        got = syscall(SYS_getdents64, fd, buffer, sizeof buffer);
        for (long at = 0; at < got;) {
            const struct directory_entry *entry = (const void *)(buffer + at);
            remove_if_dead(fd, entry->name, temp_owner(entry->name, base, strlen(base)));
            at += entry->bytes;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static berth_status writer_open(struct os_writer *writer, const char *path, void *buffer, size_t buffer_bytes,
                                mode_t mode, berth_error *err)
{
    *writer = (struct os_writer){.fd = -1, .buffer = buffer, .buffer_bytes = buffer_bytes};
    TRY(os_store_resolve(path, writer->path, sizeof writer->path, err)); /* a link stays, its file is replaced */
    struct stat old;
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode)) { /* renaming over it would take the device itself away */
        error_set(err, BERTH_ERR_IO, "got a %s, wanted a regular file",
                  S_ISDIR(old.st_mode) ? "directory" : "device, pipe or socket");
        error_at_path(err, path);
        return BERTH_ERR_IO;
    }
    os_writer_sweep(writer->path);
    for (unsigned n = 0; n < TEMP_NAMES_MAX; n++) {
        (void)snprintf(writer->temp_path, sizeof writer->temp_path, "%s.tmp.%ld.%u", writer->path, (long)getpid(), n);
        writer->fd = open_retry(writer->temp_path, O_WRONLY | O_CREAT | O_EXCL, mode);
        if (writer->fd >= 0) {
            (void)flock(writer->fd, LOCK_EX | LOCK_NB); /* says to sweepers that somebody is still at it */
            return BERTH_OK;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    berth_status status = system_fail(errno, "create", writer->temp_path, err);
    writer->temp_path[0] = '\0'; /* not ours to remove */
    return status;
}

berth_status os_writer_open(struct os_writer *writer, const char *path, void *buffer, size_t buffer_bytes,
                            berth_error *err)
{
    return writer_open(writer, path, buffer, buffer_bytes, 0666, err);
}

berth_status os_writer_open_private(struct os_writer *writer, const char *path, void *buffer, size_t buffer_bytes,
                                    berth_error *err)
{
    return writer_open(writer, path, buffer, buffer_bytes, 0600, err);
}

static berth_status writer_fail(struct os_writer *writer, int code, const char *what, berth_error *err)
{
    char text[128];
    uint64_t at = writer->written_bytes;
    error_set(err, BERTH_ERR_IO, "cannot %s: %s; the file at the destination is unchanged", what,
              strerror_r(code, text, sizeof text));
    error_at_path(err, writer->path);
    error_at_offset(err, at);
    os_writer_abandon(writer);
    return BERTH_ERR_IO;
}

static berth_status writer_write(struct os_writer *writer, const unsigned char *data, size_t bytes, berth_error *err)
{
    while (bytes > 0) {
        size_t piece = bytes < WRITE_WINDOW_BYTES ? bytes : WRITE_WINDOW_BYTES;
        ssize_t put = write(writer->fd, data, piece);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return writer_fail(writer, put == 0 ? EIO : errno, "write", err);
        }
        data += put;
        bytes -= (size_t)put;
        writer->written_bytes += (uint64_t)put;
        uint64_t held = writer->written_bytes - writer->dropped_bytes;
        if (held >= WRITE_WINDOW_BYTES) {
            off_t start = (off_t)writer->dropped_bytes;
            uint64_t whole = held & ~(uint64_t)(OS_PAGE_BYTES - 1);
            (void)sync_file_range(writer->fd, start, (off_t)whole,
                                  SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
            (void)posix_fadvise(writer->fd, start, (off_t)whole, POSIX_FADV_DONTNEED);
            writer->dropped_bytes += whole;
        }
    }
    return BERTH_OK;
}

static berth_status writer_flush(struct os_writer *writer, berth_error *err)
{
    size_t bytes = writer->buffered_bytes;
    writer->buffered_bytes = 0;
    return writer_write(writer, writer->buffer, bytes, err);
}

berth_status os_writer_put(struct os_writer *writer, const void *data, size_t bytes, berth_error *err)
{
    if (writer->fd < 0) {
        return error_set(err, BERTH_ERR_STATE, "the writer is closed");
    }
    if (bytes > writer->buffer_bytes - writer->buffered_bytes) {
        TRY(writer_flush(writer, err));
    }
    if (bytes >= writer->buffer_bytes) {
        return writer_write(writer, data, bytes, err);
    }
    memcpy(writer->buffer + writer->buffered_bytes, data, bytes);
    writer->buffered_bytes += bytes;
    return BERTH_OK;
}

/* The rename is durable only when the directory that holds the name has been synced. */
static int sync_parent(const char *path)
{
    char parent[512];
    const char *slash = strrchr(path, '/');
    size_t bytes = slash == NULL ? 0 : (size_t)(slash - path);
    if (slash == NULL) {
        memcpy(parent, ".", 2);
    } else {
        memcpy(parent, path, bytes);
        memcpy(parent + bytes, bytes == 0 ? "/" : "", bytes == 0 ? 2 : 1);
    }
    int fd = open_retry(parent, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        return errno;
    }
    int code = fsync(fd) == 0 || errno == EINVAL ? 0 : errno; /* EINVAL: a file system without directory sync */
    close(fd);
    return code;
}

berth_status os_writer_sync(struct os_writer *writer, berth_error *err)
{
    if (writer->fd < 0) {
        return error_set(err, BERTH_ERR_STATE, "the writer is closed");
    }
    TRY(writer_flush(writer, err));
    return fsync(writer->fd) == 0 ? BERTH_OK : writer_fail(writer, errno, "sync", err);
}

berth_status os_writer_finish(struct os_writer *writer, berth_error *err)
{
    TRY(os_writer_sync(writer, err));
    (void)posix_fadvise(writer->fd, 0, 0, POSIX_FADV_DONTNEED);
    int closed = close(writer->fd);
    int code = errno;
    writer->fd = -1;
    if (closed != 0 && code != EINTR) {
        return writer_fail(writer, code, "close", err);
    }
    if (rename(writer->temp_path, writer->path) != 0) {
        return writer_fail(writer, errno, "rename into place", err);
    }
    writer->temp_path[0] = '\0';
    code = sync_parent(writer->path);
    if (code != 0) {
        char text[128];
        error_set(err, BERTH_ERR_IO, "the file is in place, but its directory cannot be synced: %s",
                  strerror_r(code, text, sizeof text));
        error_at_path(err, writer->path);
        return BERTH_ERR_IO;
    }
    return BERTH_OK;
}

void os_writer_abandon(struct os_writer *writer)
{
    if (writer->fd >= 0) {
        close(writer->fd);
        writer->fd = -1;
    }
    if (writer->temp_path[0] != '\0') {
        unlink(writer->temp_path);
        writer->temp_path[0] = '\0';
    }
}

void os_writer_take_back(struct os_writer *writer)
{
    if (writer->fd < 0 && writer->temp_path[0] == '\0') {
        unlink(writer->path);
    }
}
