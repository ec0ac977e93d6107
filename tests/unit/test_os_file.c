/* SPDX-License-Identifier: MIT
 * os/file.h and the reservations of os/memory.h, on real files in a temporary directory and with injected faults. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/file.h"
#include "support/folder.h"

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static unsigned char byte_at(uint64_t offset)
{
    return (unsigned char)((offset * 2654435761u) >> 13);
}

static const char *make_file(const char *name, uint64_t bytes)
{
    const char *path = in_folder(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (uint64_t i = 0; i < bytes; i++) {
        fputc(byte_at(i), file);
    }
    fflush(file);
    assert_int_equal(fsync(fileno(file)), 0);
    fclose(file);
    return path;
}

static void assert_bytes(const unsigned char *got, uint64_t offset, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++) {
        if (got[i] != byte_at(offset + i)) {
            fail_msg("byte %llu differs", (unsigned long long)(offset + i));
        }
    }
}

static void read_direct_and_buffered_same_bytes(void **state)
{
    (void)state;
    const char *path = make_file("data", 20000);
    void *buffer;
    assert_int_equal(os_reserve(NULL, 32768, false, &buffer, NULL), BERTH_OK);
    for (int direct = 0; direct < 2; direct++) {
        struct os_file file;
        assert_int_equal(os_file_open(&file, path, direct != 0, NULL, NULL), BERTH_OK);
        assert_int_equal(file.size_bytes, 20000);
        if (direct == 0) {
            assert_false(file.direct);
        }
        assert_int_equal(fcntl(file.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        const struct {
            uint64_t offset, bytes;
        } cases[] = {{0, 20000}, {4096, 8192}, {16384, 3616}, {8192, 1}, {0, 0}, {4096, 5000}};
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            memset(buffer, 0xee, 32768);
            assert_int_equal(os_file_read(&file, cases[i].offset, cases[i].bytes, buffer, NULL), BERTH_OK);
            assert_bytes(buffer, cases[i].offset, cases[i].bytes);
        }
        if (!file.direct) { /* no alignment wanted */
            assert_int_equal(os_file_read(&file, 4097, 77, (char *)buffer + 3, NULL), BERTH_OK);
            assert_bytes((unsigned char *)buffer + 3, 4097, 77);
        }
        os_file_close(&file);
        assert_int_equal(file.fd, -1);
        os_file_close(&file);
    }
    os_release(buffer, 32768);
}

static void read_past_end_names_got_and_wanted(void **state)
{
    (void)state;
    const char *path = make_file("short", 5000);
    void *buffer;
    assert_int_equal(os_reserve(NULL, 16384, false, &buffer, NULL), BERTH_OK);
    for (int direct = 0; direct < 2; direct++) {
        struct os_file file;
        berth_error err;
        assert_int_equal(os_file_open(&file, path, direct != 0, NULL, NULL), BERTH_OK);
        assert_int_equal(os_file_read(&file, 4096, 905, buffer, &err), BERTH_ERR_IO);
        assert_non_null(strstr(err.message, "got 904 of the 905 bytes"));
        assert_int_equal(err.offset, 5000);
        assert_string_equal(err.path, path);
        assert_int_equal(os_file_read(&file, 8192, 1, buffer, &err), BERTH_ERR_IO);
        assert_int_equal(os_file_read(&file, UINT64_MAX - 4095, 8192, buffer, &err), BERTH_ERR_FORMAT);
        assert_int_equal(os_file_read(&file, (uint64_t)INT64_MAX & ~4095ull, 4096, buffer, &err), BERTH_ERR_FORMAT);
        os_file_close(&file);
    }
    os_release(buffer, 16384);
}

static void buffered_read_leaves_no_pages(void **state)
{
    (void)state;
    const uint64_t bytes = 1 << 20;
    const char *path = make_file("pages", bytes);
    struct os_file file;
    assert_int_equal(os_file_open(&file, path, false, NULL, NULL), BERTH_OK);
    assert_int_equal(posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    unsigned char *buffer = malloc(bytes);
    assert_int_equal(os_file_read(&file, 100, bytes - 200, buffer, NULL), BERTH_OK);
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file.fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    unsigned char resident[(1 << 20) / 4096];
    assert_int_equal(mincore(map, bytes, resident), 0);
    unsigned held = 0;
    for (size_t i = 0; i < sizeof resident; i++) {
        held += resident[i] & 1u;
    }
    munmap(map, bytes);
    free(buffer);
    os_file_close(&file);
    if (held == 0) {
        return;
    }
    print_message("%u of %zu pages stay resident\n", held, sizeof resident);
    fail();
}

static void open_refuses_what_is_not_a_file(void **state)
{
    (void)state;
    struct os_file file;
    berth_error err;
    assert_int_equal(os_file_open(&file, in_folder("absent"), true, NULL, &err), BERTH_ERR_NOT_FOUND);
    assert_int_equal(file.fd, -1);
    assert_int_equal(os_file_open(&file, folder, true, NULL, &err), BERTH_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "directory"));
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    assert_int_equal(os_file_open(&file, in_folder("fifo"), true, NULL, &err), BERTH_ERR_UNSUPPORTED);
    assert_int_equal(os_file_open(&file, "/dev/null", true, NULL, &err), BERTH_ERR_UNSUPPORTED);
    assert_int_equal(os_file_open(&file, "", true, NULL, &err), BERTH_ERR_ARGUMENT);
    char longer[513];
    memset(longer, 'a', sizeof longer - 1);
    longer[512] = '\0';
    assert_int_equal(os_file_open(&file, longer, true, NULL, &err), BERTH_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "512 bytes"));
}

/* ---- injected faults -------------------------------------------------------------------------------- */

struct fault {
    unsigned calls, nth;
    int64_t result;    /* of call nth */
    size_t most_bytes; /* 0: no limit */
    bool always;
};

static int64_t faulty_read(void *user, int fd, void *buffer, size_t bytes, uint64_t offset)
{
    struct fault *fault = user;
    if (++fault->calls == fault->nth || (fault->always && fault->calls > fault->nth)) {
        return fault->result;
    }
    if (fault->most_bytes != 0 && bytes > fault->most_bytes) {
        bytes = fault->most_bytes;
    }
    ssize_t got = pread(fd, buffer, bytes, (off_t)offset);
    return got < 0 ? -errno : got;
}

static void read_retries_and_reports(void **state)
{
    (void)state;
    const char *path = make_file("faults", 50000);
    void *buffer;
    assert_int_equal(os_reserve(NULL, 65536, false, &buffer, NULL), BERTH_OK);
    for (int direct = 0; direct < 2; direct++) {
        struct fault fault = {0};
        struct os_hooks hooks = {.user = &fault, .read_at = faulty_read};
        struct os_file file;
        berth_error err;
        assert_int_equal(os_file_open(&file, path, direct != 0, &hooks, NULL), BERTH_OK);

        fault = (struct fault){.nth = 1, .result = -EINTR};
        memset(buffer, 0, 50000);
        assert_int_equal(os_file_read(&file, 0, 50000, buffer, NULL), BERTH_OK);
        assert_bytes(buffer, 0, 50000);
        assert_int_equal(fault.calls, 2);

        fault = (struct fault){.most_bytes = 8192}; /* short reads */
        memset(buffer, 0, 50000);
        assert_int_equal(os_file_read(&file, 0, 50000, buffer, NULL), BERTH_OK);
        assert_bytes(buffer, 0, 50000);
        assert_int_equal(fault.calls, 7);

        for (unsigned nth = 1; nth <= 7; nth++) {
            fault = (struct fault){.nth = nth, .result = -EIO, .most_bytes = 8192};
            assert_int_equal(os_file_read(&file, 0, 50000, buffer, &err), BERTH_ERR_IO);
            assert_int_equal(err.offset, (nth - 1) * 8192);
            assert_int_equal(fault.calls, nth);
        }
        fault = (struct fault){.nth = 3, .result = 0, .most_bytes = 8192}; /* the file was cut meanwhile */
        assert_int_equal(os_file_read(&file, 0, 50000, buffer, &err), BERTH_ERR_IO);
        assert_non_null(strstr(err.message, "got 16384 of the 50000"));

        fault = (struct fault){.nth = 1, .result = 100, .always = true}; /* never gets anywhere */
        berth_status status = os_file_read(&file, 0, 50000, buffer, &err);
        assert_int_equal(status, file.direct ? BERTH_ERR_IO : BERTH_OK);
        os_file_close(&file);
    }
    os_release(buffer, 65536);
}

static bool refuse(void *user, uint64_t bytes)
{
    *(uint64_t *)user = bytes;
    return false;
}

static void somebody_elses_write_is_noticed(void **state)
{
    (void)state;
    const char *path = make_file("changing", 8192);
    struct os_file file;
    berth_error err;
    assert_int_equal(os_file_open(&file, path, true, NULL, &err), BERTH_OK);
    assert_int_equal(os_file_unchanged(&file, &err), BERTH_OK);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(os_file_unchanged(&file, &err), BERTH_ERR_IO);
    assert_non_null(strstr(err.message, "changed while in use"));
    assert_string_equal(err.path, path);
    os_file_close(&file);
    assert_int_equal(os_file_open(&file, path, true, NULL, &err), BERTH_OK);
    assert_int_equal(truncate(path, 8191), 0);
    assert_int_equal(os_file_unchanged(&file, &err), BERTH_ERR_IO);
    os_file_close(&file);
    unlink(path);
}

static void reserve_gives_zero_pages_or_says_no(void **state)
{
    (void)state;
    void *base;
    assert_int_equal(os_reserve(NULL, 1, false, &base, NULL), BERTH_OK);
    assert_int_equal((uintptr_t)base % 4096, 0);
    os_lock(base, 1); /* may be refused; must not harm */
    os_release(base, 1);
    const uint64_t bytes = (5u << 20) + 1;
    assert_int_equal(os_reserve(NULL, bytes, true, &base, NULL), BERTH_OK);
    assert_int_equal((uintptr_t)base % (2u << 20), 0);
    const unsigned char *p = base;
    for (uint64_t i = 0; i < bytes; i += 4096) {
        assert_int_equal(p[i], 0);
    }
    os_release(base, bytes);
    unsigned char resident[1];
    assert_int_equal(mincore(base, 4096, resident), -1); /* unmapped again */
    assert_int_equal(errno, ENOMEM);

    berth_error err;
    assert_int_equal(os_reserve(NULL, UINT64_MAX, false, &base, &err), BERTH_ERR_MEMORY);
    assert_null(base);
    assert_int_equal(os_reserve(NULL, 1ull << 60, true, &base, &err), BERTH_ERR_MEMORY);
    uint64_t asked = 0;
    struct os_hooks hooks = {.user = &asked, .may_reserve = refuse};
    assert_int_equal(os_reserve(&hooks, 5000, false, &base, &err), BERTH_ERR_MEMORY);
    assert_null(base);
    assert_int_equal(asked, 8192);
    os_prefault_code();
}

/* ---- directory, writer ------------------------------------------------------------------------------ */

struct names {
    char text[4096];
    unsigned count, most;
};

static bool collect(void *user, const char *name)
{
    struct names *names = user;
    strcat(strcat(names->text, name), "|");
    return ++names->count < names->most;
}

static void directory_is_sorted_and_stops(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("dir"), 0700), 0);
    const char *const files[] = {"dir/b", "dir/a", "dir/c10", "dir/c9", "dir/.hidden", "dir/\xc3\xa4", "dir/Z"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        make_file(files[i], 1);
    }
    struct names names = {.most = 100};
    assert_int_equal(os_directory_each(in_folder("dir"), collect, &names, NULL), BERTH_OK);
    assert_string_equal(names.text, ".hidden|Z|a|b|c10|c9|\xc3\xa4|");
    names = (struct names){.most = 2};
    assert_int_equal(os_directory_each(in_folder("dir"), collect, &names, NULL), BERTH_OK);
    assert_string_equal(names.text, ".hidden|Z|");
    assert_int_equal(mkdir(in_folder("empty"), 0700), 0);
    names = (struct names){.most = 2};
    assert_int_equal(os_directory_each(in_folder("empty"), collect, &names, NULL), BERTH_OK);
    assert_int_equal(names.count, 0);
    assert_int_equal(os_directory_each(in_folder("nowhere"), collect, &names, NULL), BERTH_ERR_NOT_FOUND);
    assert_int_equal(os_directory_each(in_folder("dir/a"), collect, &names, NULL), BERTH_ERR_NOT_FOUND);

    bool is_directory;
    uint64_t bytes;
    assert_int_equal(os_path_info(in_folder("dir"), &is_directory, &bytes, NULL), BERTH_OK);
    assert_true(is_directory);
    make_file("dir/five", 5);
    assert_int_equal(os_path_info(in_folder("dir/five"), &is_directory, &bytes, NULL), BERTH_OK);
    assert_false(is_directory);
    assert_int_equal(bytes, 5);
    assert_int_equal(os_path_info(in_folder("dir/six"), &is_directory, &bytes, NULL), BERTH_ERR_NOT_FOUND);
}

static bool count_name(void *user, const char *name)
{
    (void)name;
    ++*(unsigned *)user;
    return true;
}

static void writer_replaces_whole_or_not_at_all(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("out"), 0700), 0);
    char path[256];
    snprintf(path, sizeof path, "%s", in_folder("out/file"));
    make_file("out/file", 3);
    unsigned char buffer[1000];
    struct os_writer writer;
    struct os_writer second;
    assert_int_equal(os_writer_open(&writer, path, buffer, sizeof buffer, NULL), BERTH_OK);
    assert_int_equal(os_writer_open(&second, path, NULL, 0, NULL), BERTH_OK); /* two writers do not meet */
    assert_string_not_equal(writer.temp_path, second.temp_path);
    os_writer_abandon(&second);
    unsigned char data[4096];
    uint64_t total = 0;
    for (size_t bytes = 0; bytes < sizeof data; bytes += 37) {
        for (size_t i = 0; i < bytes; i++) {
            data[i] = byte_at(total + i);
        }
        assert_int_equal(os_writer_put(&writer, data, bytes, NULL), BERTH_OK);
        total += bytes;
    }
    bool is_directory;
    uint64_t bytes;
    assert_int_equal(os_path_info(path, &is_directory, &bytes, NULL), BERTH_OK);
    assert_int_equal(bytes, 3); /* still the old one */
    assert_int_equal(os_writer_finish(&writer, NULL), BERTH_OK);
    os_writer_abandon(&writer);
    assert_int_equal(os_writer_put(&writer, data, 1, NULL), BERTH_ERR_STATE);
    assert_int_equal(os_writer_finish(&writer, NULL), BERTH_ERR_STATE);
    struct os_file file;
    assert_int_equal(os_file_open(&file, path, false, NULL, NULL), BERTH_OK);
    assert_int_equal(file.size_bytes, total);
    unsigned char *back = malloc(total);
    assert_int_equal(os_file_read(&file, 0, total, back, NULL), BERTH_OK);
    assert_bytes(back, 0, total);
    free(back);
    os_file_close(&file);

    assert_int_equal(os_writer_open(&writer, path, buffer, sizeof buffer, NULL), BERTH_OK);
    assert_int_equal(os_writer_put(&writer, data, 10, NULL), BERTH_OK);
    os_writer_abandon(&writer);
    unsigned names = 0;
    assert_int_equal(os_directory_each(in_folder("out"), count_name, &names, NULL), BERTH_OK);
    assert_int_equal(names, 1); /* no temporary file left */
    assert_int_equal(os_writer_open(&writer, in_folder("nowhere/file"), buffer, sizeof buffer, NULL),
                     BERTH_ERR_NOT_FOUND);
}

static void writer_replaces_the_file_behind_a_link(void **state)
{
    (void)state;
    char link[256];
    make_file("behind", 3);
    snprintf(link, sizeof link, "%s", in_folder("link"));
    assert_int_equal(symlink("behind", link), 0);
    unsigned char buffer[64];
    struct os_writer writer;
    assert_int_equal(os_writer_open(&writer, link, buffer, sizeof buffer, NULL), BERTH_OK);
    assert_int_equal(os_writer_put(&writer, "longer", 6, NULL), BERTH_OK);
    assert_int_equal(os_writer_finish(&writer, NULL), BERTH_OK);
    struct stat info;
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    const char *target = in_folder("behind");
    assert_int_equal(lstat(target, &info), 0);
    assert_true(S_ISREG(info.st_mode));
    assert_int_equal(info.st_size, 6);
    assert_int_equal(unlink(target), 0);
    assert_int_equal(unlink(link), 0);
}

static void writer_leaves_the_files_of_others(void **state)
{
    (void)state;
    char path[256];
    assert_int_equal(mkdir(in_folder("taken"), 0700), 0);
    for (int i = 0; i < 1000; i++) { /* every temporary name */
        snprintf(path, sizeof path, "taken/file.tmp.%ld.%d", (long)getpid(), i);
        make_file(path, 0);
    }
    struct os_writer writer;
    berth_error err;
    assert_int_equal(os_writer_open(&writer, in_folder("taken/file"), NULL, 0, &err), BERTH_ERR_IO);
    assert_non_null(strstr(err.message, "exists"));
    os_writer_abandon(&writer);
    unsigned names = 0;
    assert_int_equal(os_directory_each(in_folder("taken"), count_name, &names, NULL), BERTH_OK);
    assert_int_equal(names, 1000);
}

/* Renaming a file over /dev/null would take it from the whole machine. */
/* The pid of a child that has ended and was waited for. */
static pid_t dead_pid(void)
{
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    assert_true(child > 0 && waitpid(child, NULL, 0) == child);
    return child;
}

static bool in_swept(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "swept/%.80s", name);
    return access(in_folder(path), F_OK) == 0;
}

static void writer_sweeps_what_the_killed_have_left(void **state)
{
    (void)state;
    static unsigned char buffer[64];
    char names[6][96];
    long dead = (long)dead_pid();
    assert_int_equal(mkdir(in_folder("swept"), 0700), 0);
    snprintf(names[0], sizeof names[0], "file.tmp.%ld.0", dead);            /* theirs */
    snprintf(names[1], sizeof names[1], "file.tmp.%ld.1", (long)getppid()); /* of a process that lives */
    snprintf(names[2], sizeof names[2], "file.tmp.%ld.bak", dead);
    snprintf(names[3], sizeof names[3], "other.tmp.%ld.0", dead);
    snprintf(names[4], sizeof names[4], "file.tmp.%ld", dead);
    snprintf(names[5], sizeof names[5], "file.tmp.%ld.7", dead); /* somebody elsewhere is still at it */
    int held = -1;
    for (int i = 0; i < 6; i++) {
        char path[128];
        snprintf(path, sizeof path, "swept/%.80s", names[i]);
        make_file(path, 10);
        held = open(in_folder(path), O_RDONLY);
        if (i < 5) {
            close(held);
        }
    }
    assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);
    struct os_writer writer;
    assert_int_equal(os_writer_open(&writer, in_folder("swept/file"), buffer, sizeof buffer, NULL), BERTH_OK);
    assert_false(in_swept(names[0]));
    for (int i = 1; i < 6; i++) {
        assert_true(in_swept(names[i]));
    }
    assert_int_equal(os_writer_put(&writer, "abc", 3, NULL), BERTH_OK);
    assert_int_equal(os_writer_finish(&writer, NULL), BERTH_OK);
    close(held);
    os_writer_sweep(in_folder("swept/file"));
    assert_false(in_swept(names[5]));
    assert_true(in_swept("file"));
}

static void writer_refuses_devices(void **state)
{
    (void)state;
    struct os_writer writer;
    berth_error err;
    assert_int_equal(os_writer_open(&writer, "/dev/null", NULL, 0, &err), BERTH_ERR_IO);
    assert_non_null(strstr(err.message, "regular file"));
    assert_string_equal(err.path, "/dev/null");
    os_writer_abandon(&writer);
    assert_int_equal(os_writer_open(&writer, in_folder("."), NULL, 0, &err), BERTH_ERR_IO);
    os_writer_abandon(&writer);
}

static void writer_full_disk_keeps_the_old_file(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("full"), 0700), 0);
    char path[256];
    snprintf(path, sizeof path, "%s", in_folder("full/file"));
    make_file("full/file", 3);
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit small = {.rlim_cur = 6000, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    unsigned char buffer[1024];
    unsigned char data[1000] = {0};
    struct os_writer writer;
    berth_error err;
    assert_int_equal(os_writer_open(&writer, path, buffer, sizeof buffer, NULL), BERTH_OK);
    berth_status status = BERTH_OK;
    for (int i = 0; i < 10 && status == BERTH_OK; i++) {
        status = os_writer_put(&writer, data, sizeof data, &err);
    }
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, BERTH_ERR_IO);
    assert_string_equal(err.path, path);
    assert_int_equal(err.offset, 6000);
    assert_int_equal(os_writer_finish(&writer, NULL), BERTH_ERR_STATE);
    bool is_directory;
    uint64_t bytes;
    assert_int_equal(os_path_info(path, &is_directory, &bytes, NULL), BERTH_OK);
    assert_int_equal(bytes, 3);
    unsigned names = 0;
    assert_int_equal(os_directory_each(in_folder("full"), count_name, &names, NULL), BERTH_OK);
    assert_int_equal(names, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_direct_and_buffered_same_bytes),
        cmocka_unit_test(read_past_end_names_got_and_wanted),
        cmocka_unit_test(buffered_read_leaves_no_pages),
        cmocka_unit_test(open_refuses_what_is_not_a_file),
        cmocka_unit_test(read_retries_and_reports),
        cmocka_unit_test(somebody_elses_write_is_noticed),
        cmocka_unit_test(reserve_gives_zero_pages_or_says_no),
        cmocka_unit_test(directory_is_sorted_and_stops),
        cmocka_unit_test(writer_replaces_whole_or_not_at_all),
        cmocka_unit_test(writer_replaces_the_file_behind_a_link),
        cmocka_unit_test(writer_leaves_the_files_of_others),
        cmocka_unit_test(writer_sweeps_what_the_killed_have_left),
        cmocka_unit_test(writer_refuses_devices),
        cmocka_unit_test(writer_full_disk_keeps_the_old_file),
    };
    return cmocka_run_group_tests_name("os_file", tests, make_folder, remove_folder);
}
