/* SPDX-License-Identifier: MIT
 * The ledger's file: every layout, refusals, damage, backups, links, full disks, signals, two processes, kill -9. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "experts/usage_parts.h"

static char folder[] = "/tmp/berth_file_XXXXXX";
static char path[80];
static char backup[96];
static char warning[1300];
static const int64_t layers[] = {3, 4};

static void on_warning(void *user, const char *message)
{
    (void)user;
    snprintf(warning, sizeof warning, "%s", message);
}

static struct usage_config base_config(void)
{
    return (struct usage_config){.path = path, .layers = layers, .layers_count = 2, .experts = 8, .warn = on_warning};
}

static struct usage *make(const struct usage_config *config, enum usage_load_result wanted)
{
    static unsigned char memory[1 << 16] __attribute__((aligned(4096)));
    static uint64_t used;
    struct arena arena;
    struct usage *usage = NULL;
    enum usage_load_result result;
    used = used > sizeof memory / 2 ? 0 : used; /* tests hold two ledgers at most */
    arena_carve(&arena, memory + used, sizeof memory - used);
    assert_int_equal(usage_layout(&arena, config, &usage, NULL), BERTH_OK);
    used = (used + arena.used_bytes + 4095) & ~(uint64_t)4095;
    warning[0] = '\0';
    assert_int_equal(usage_load(usage, &result, NULL), BERTH_OK);
    assert_int_equal(result, wanted);
    return usage;
}

static void put_file(const char *where, const void *bytes, size_t count)
{
    FILE *file = fopen(where, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

static void put_text(const char *text)
{
    put_file(path, text, strlen(text));
}

static size_t get_file(const char *where, char *out, size_t cap)
{
    FILE *file = fopen(where, "rb");
    if (file == NULL) {
        return 0;
    }
    size_t bytes = fread(out, 1, cap - 1, file);
    out[bytes] = '\0';
    fclose(file);
    return bytes;
}

static void expect_text(const char *where, const char *wanted)
{
    char text[1024] = "";
    get_file(where, text, sizeof text);
    assert_string_equal(text, wanted);
}

static uint32_t count_of(const struct usage *usage, int64_t layer, int64_t expert)
{
    struct usage_entry entry;
    assert_int_equal(usage_entry(usage, layer, expert, &entry, NULL), BERTH_OK);
    return entry.count;
}

static void use(struct usage *usage, uint32_t index, uint16_t expert, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        usage_record_row(usage, index, &expert, 1);
    }
}

static int clean(void **state)
{
    (void)state;
    char command[160];
    snprintf(command, sizeof command, "find %s -mindepth 1 -delete", folder);
    return system(command);
}

/* ---- reading ---- */

static void headers(void **state)
{
    (void)state;
    const char text[] = "-1 78 8\r\n-2 1 3815245270\r\n-7 1 2\r\n3 2 4\r\n4 1 9\r\n77 1 5\r\n3 200 5\r\n";
    put_file(path, text, sizeof text - 1);
    struct usage_config config = base_config();
    config.model_layers = 78;
    config.engine = "glm_moe_dsa";
    struct usage *usage = make(&config, USAGE_LOADED);
    assert_string_equal(warning, "");
    assert_int_equal(count_of(usage, 3, 2), 4);
    assert_int_equal(count_of(usage, 4, 1), 9);
    assert_int_equal(usage->reader->skipped, 2);
    use(usage, 1, 1, 1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(path, "-1 78 8\n-2 1 3815245270\n3 2 4\n4 1 10\n"); /* rows we do not track are not ours to keep */
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void plain_stays_plain(void **state)
{
    (void)state;
    put_file(path, "3 2 4\n", 6);
    struct usage_config config = base_config();
    config.engine = "olmoe";
    config.fingerprint = 0x1122334455667788u;
    struct usage *usage = make(&config, USAGE_LOADED);
    use(usage, 0, 2, 1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(path, "3 2 5\n");
    unlink(path);
    use(usage, 0, 2, 1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK); /* a new file gets headers, and only what is new */
    expect_text(path, "-1 5 8\n-2 1 3841822045\n-3 287454020 1432778632\n3 2 1\n");
}

static void binary(void **state)
{
    (void)state;
    uint32_t words[3 + 5 * 8] = {0x31554b49, 5, 8};
    words[3 + 3 * 8 + 2] = 4;
    words[3 + 4 * 8 + 7] = 9;
    words[3 + 1] = 5; /* layer 0 is not tracked */
    put_file(path, words, sizeof words);
    struct usage_config config = base_config();
    struct usage *usage = make(&config, USAGE_LOADED);
    assert_int_equal(count_of(usage, 3, 2), 4);
    assert_int_equal(count_of(usage, 4, 7), 9);
    assert_int_equal(usage->reader->skipped, 1);
    use(usage, 0, 0, 1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    char text[512];
    assert_int_equal(get_file(backup, text, sizeof text), sizeof words);
    assert_memory_equal(text, words, sizeof words);
    put_file(path, words, sizeof words - 5); /* cut off */
    usage = make(&config, USAGE_DAMAGED);
    assert_non_null(strstr(warning, "wanted 5 layers of 8"));
    assert_int_equal(count_of(usage, 3, 2), 4);
}

static void damage(void **state)
{
    (void)state;
    const char text[] = "3 2 4\nnot-a-row\n3 3 1.5\n4 1 9\n";
    put_file(path, text, sizeof text - 1);
    struct usage_config config = base_config();
    struct usage *usage = make(&config, USAGE_DAMAGED);
    assert_non_null(strstr(warning, "line 2: expected layer expert count; 2 damaged rows were left out and 2 kept"));
    assert_int_equal(count_of(usage, 3, 2), 4);
    assert_int_equal(count_of(usage, 4, 1), 9);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK); /* clean: nothing happens */
    expect_text(path, text);
    use(usage, 0, 2, 1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(path, "3 2 5\n4 1 9\n");
    expect_text(backup, text);
}

static void white_space_of_any_kind_ends_a_field(void **state)
{
    (void)state;
    struct usage_config config = base_config();
    put_text("3\xc2\xa0"
             "2 4\xc2\xa0\n4\xe3\x80\x80"
             "1\t9\xe2\x80\x83\n");
    struct usage *usage = make(&config, USAGE_LOADED);
    assert_int_equal(count_of(usage, 3, 2), 4);
    assert_int_equal(count_of(usage, 4, 1), 9);
}

static berth_status status_of(const struct usage_config *config)
{
    struct arena arena;
    struct usage *usage = NULL;
    arena_measure(&arena);
    return usage_layout(&arena, config, &usage, NULL);
}

static void limits_of_the_configuration(void **state)
{
    (void)state;
    char long_path[USAGE_PATH_MAX + 1];
    memset(long_path, 'a', sizeof long_path);
    int64_t last[] = {3, INT64_C(9007199254740991)};
    struct usage_config config = base_config();
    config.layers = last;
    assert_int_equal(status_of(&config), BERTH_OK);
    last[1]++;
    assert_int_equal(status_of(&config), BERTH_ERR_ARGUMENT);
    config = base_config();
    config.experts = UINT64_C(1) << 32;
    assert_int_equal(status_of(&config), BERTH_ERR_ARGUMENT);
    for (int fallback = 0; fallback < 2; fallback++) {
        config = base_config();
        *(fallback ? &config.fallback_path : &config.path) = long_path;
        long_path[USAGE_PATH_MAX - 1] = '\0';
        assert_int_equal(status_of(&config), BERTH_OK);
        long_path[USAGE_PATH_MAX - 1] = 'a';
        long_path[USAGE_PATH_MAX] = '\0';
        assert_int_equal(status_of(&config), BERTH_ERR_LIMIT);
    }
}

static void refusal(void **state)
{
    (void)state;
    struct {
        const char *text, *why;
    } rows[] = {{"-1 5 16\n3 2 4\n", "experts of each layer: the file has 16, the model 8"},
                {"-1 6 8\n3 2 4\n", "layers: the file has 6, the model 5"},
                {"-1 5 8\n-2 2 3841822045\n3 2 4\n", "format version: the file has 2, the model 1"},
                {"-1 5 8\n-2 1 77\n3 2 4\n", "engine id: the file has 77, the model 3841822045"},
                {"-1 5 8\n-2 1 3841822045\n-3 0 9\n3 2 4\n", "model fingerprint: the file has 9, the model 5"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct usage_config config = base_config();
        config.engine = "olmoe";
        config.fingerprint = 5;
        put_file(path, rows[i].text, strlen(rows[i].text));
        struct usage *usage = make(&config, USAGE_REFUSED);
        assert_non_null(strstr(warning, rows[i].why));
        assert_int_equal(count_of(usage, 3, 2), 0);
        use(usage, 0, 2, 1);
        berth_error err;
        assert_int_equal(usage_flush(usage, &err), BERTH_ERR_STATE);
        assert_non_null(strstr(err.message, rows[i].why));
        assert_true(usage->dirty);
        expect_text(path, rows[i].text);
    }
    struct usage_config config = base_config(); /* the user named the file */
    config.engine = "olmoe";
    config.any_engine = true;
    put_file(path, rows[3].text, strlen(rows[3].text));
    struct usage *usage = make(&config, USAGE_LOADED);
    use(usage, 0, 2, 1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(path, "-1 5 8\n-2 1 77\n3 2 5\n"); /* still that engine's file */

    /* A file that became another model's while this ledger was open. */
    put_file(path, rows[0].text, strlen(rows[0].text));
    use(usage, 0, 2, 1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_ERR_STATE);
    expect_text(path, rows[0].text);
    mkdir(backup, 0700); /* a directory is no profile */
    config.path = backup;
    usage = make(&config, USAGE_REFUSED);
    rmdir(backup);
}

static void seed_mode(void **state)
{
    (void)state;
    const char text[] = "-1 78 256\n-2 1 123456\n3 2 4\n";
    put_file(path, text, sizeof text - 1);
    struct usage_config config = base_config();
    config.mode = USAGE_SEED;
    struct usage *usage = make(&config, USAGE_DAMAGED);
    assert_non_null(strstr(warning, "line 1: invalid layer -1"));
    use(usage, 1, 5, 2);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(path, "4 5 2\n"); /* as the documents do, except that the old file is kept */
    expect_text(backup, text);
    put_file(path, "3 0 7\n", 6); /* the last writer wins */
    use(usage, 1, 5, 1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(path, "4 5 3\n");
}

/* ---- saving ---- */

static void merging(void **state)
{
    (void)state;
    struct usage_config config = base_config();
    struct usage *a = make(&config, USAGE_ABSENT);
    use(a, 0, 1, 3);
    assert_int_equal(usage_flush(a, NULL), BERTH_OK);
    struct usage *b = make(&config, USAGE_LOADED);
    use(a, 0, 1, 10);
    use(b, 0, 1, 100);
    use(b, 1, 7, 1);
    assert_int_equal(usage_flush(b, NULL), BERTH_OK);
    assert_int_equal(usage_flush(a, NULL), BERTH_OK);
    expect_text(path, "3 1 113\n4 7 1\n");
    assert_int_equal(count_of(a, 4, 7), 1); /* a knows b's counts now */
    put_file(path, "3 1 4294967290\n", 15);
    use(a, 0, 1, 100);
    assert_int_equal(usage_flush(a, NULL), BERTH_OK);
    expect_text(path, "3 1 4294967295\n");
    assert_int_not_equal(access(backup, F_OK), 0); /* nothing was damaged */
}

static void import_and_decay(void **state)
{
    (void)state;
    char other[96];
    snprintf(other, sizeof other, "%s/other", folder);
    put_file(other, "-1 9 32\n3 1 40\n3 31 5\n8 1 5\nbad\n4 0 1\n", 38);
    struct usage_config config = base_config();
    config.half_life_tokens = 1000;
    struct usage *usage = make(&config, USAGE_ABSENT);
    struct usage_import import;
    assert_int_equal(usage_import(usage, other, &import, NULL), BERTH_OK);
    assert_int_equal(import.rows, 2);
    assert_int_equal(import.skipped, 2);
    assert_int_equal(import.damaged, 1);
    assert_int_equal(import.first_damaged_line, 5);
    assert_int_equal(import.file_experts, 32);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(path, "3 1 40\n4 0 1\n");
    use(usage, 1, 3, 2);
    usage_add_tokens(usage, 10); /* too few to age anything */
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(path, "3 1 40\n4 0 1\n4 3 2\n");
    use(usage, 1, 3, 1);
    usage_add_tokens(usage, 990); /* one half life in all: old counts halve, small ones die, new ones do not age */
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(path, "3 1 20\n4 3 2\n");
    usage_scale(usage, 0.1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(path, "3 1 2\n");
    expect_text(backup, "3 1 20\n4 3 2\n");
}

static void links(void **state)
{
    (void)state;
    char target[96];
    struct stat info;
    snprintf(target, sizeof target, "%s/real", folder);
    assert_int_equal(symlink("real", path), 0); /* dangling at first */
    struct usage_config config = base_config();
    struct usage *usage = make(&config, USAGE_ABSENT);
    use(usage, 0, 1, 3);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(target, "3 1 3\n");
    use(usage, 0, 1, 1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    expect_text(target, "3 1 4\n");
    assert_int_equal(lstat(path, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    unlink(path);
    assert_int_equal(symlink("x/../y", path), 0); /* leads nowhere */
    use(usage, 0, 1, 1);
    assert_int_not_equal(usage_flush(usage, NULL), BERTH_OK);
    assert_true(usage->dirty);
    unlink(path);
    assert_int_equal(symlink(path, path), 0); /* a circle */
    assert_int_equal(usage_flush(usage, NULL), BERTH_ERR_IO);
    usage = make(&config, USAGE_REFUSED); /* told, and no reason to stop */
    assert_non_null(strstr(warning, "symbolic link"));
    use(usage, 0, 1, 1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_ERR_STATE);
}

static void files_too_large_are_not_read(void **state)
{
    (void)state;
    struct usage_config config = base_config();
    put_text("3 1 4\n");
    assert_int_equal(truncate(path, (64 << 20) + 1), 0);
    struct usage *usage = make(&config, USAGE_REFUSED);
    assert_non_null(strstr(warning, "67108865 bytes, wanted 67108864"));
    use(usage, 0, 1, 1);
    assert_int_equal(usage_flush(usage, NULL), BERTH_ERR_STATE);
}

static void nothing_told_moves_the_cursor(void **state)
{
    (void)state;
    struct usage_config config = base_config();
    put_text("3 \033[31mred\007\xff 3\n3 1 2\n");
    (void)make(&config, USAGE_DAMAGED);
    assert_non_null(strstr(warning, "line 1: invalid expert ?[31mred??;"));
}

static void stale_temporaries(void **state)
{
    (void)state;
    char stale[128];
    snprintf(stale, sizeof stale, "%s.tmp.99999999.0", path);
    put_file(stale, "x", 1);
    struct usage_config config = base_config();
    struct usage *usage = make(&config, USAGE_ABSENT);
    use(usage, 0, 1, 3);
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    assert_int_not_equal(access(stale, F_OK), 0);
}

static uint32_t files_here(void)
{
    char command[160];
    uint32_t count = 0;
    snprintf(command, sizeof command, "find %s -type f | wc -l", folder);
    FILE *pipe_ = popen(command, "r");
    assert_non_null(pipe_);
    assert_int_equal(fscanf(pipe_, "%u", &count), 1);
    pclose(pipe_);
    return count;
}

static void file_size_limit(void **state)
{
    (void)state;
    struct usage_config config = base_config();
    struct usage *usage = make(&config, USAGE_ABSENT);
    for (uint16_t expert = 0; expert < 8; expert++) {
        use(usage, 0, expert, 3);
    }
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    char before[512];
    char after[512];
    size_t bytes = get_file(path, before, sizeof before);
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit small = {.rlim_cur = 20, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    use(usage, 1, 1, 1000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    berth_error err;
    assert_int_equal(usage_flush(usage, &err), BERTH_ERR_IO); /* a short write, then EFBIG */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(get_file(path, after, sizeof after), bytes);
    assert_memory_equal(before, after, bytes);
    assert_true(usage->dirty);
    assert_int_equal(files_here(), 2); /* the ledger and its lock: no temporary is left */
    assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
    assert_int_equal(count_of(usage, 4, 1), 1000);
}

/* A file system of 64 KiB that is full, in a mount namespace of the child's own. */
static void disk_full(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        char filler[96];
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", folder, "tmpfs", 0, "size=64k") != 0) {
            _exit(77);
        }
        struct usage_config config = base_config();
        struct usage *usage = make(&config, USAGE_ABSENT);
        use(usage, 0, 1, 3);
        int failed = usage_flush(usage, NULL) != BERTH_OK;
        snprintf(filler, sizeof filler, "%s/filler", folder);
        int fd = open(filler, O_WRONLY | O_CREAT, 0600);
        char block[4096] = {1};
        while (write(fd, block, sizeof block) > 0) {
        }
        use(usage, 0, 2, 3);
        berth_error err = {.message = ""};
        char text[64];
        failed |= usage_flush(usage, &err) != BERTH_ERR_IO || strstr(err.message, "No space left") == NULL;
        get_file(path, text, sizeof text);
        failed |= strcmp(text, "3 1 3\n") != 0 || !usage->dirty || files_here() != 3;
        close(fd);
        unlink(filler);
        failed |= usage_flush(usage, NULL) != BERTH_OK;
        get_file(path, text, sizeof text);
        failed |= strcmp(text, "3 1 3\n3 2 3\n") != 0;
        _exit(failed);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("no rights to mount a small file system: skipped\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A directory that an ordinary user cannot write. */
static void fallback(void **state)
{
    (void)state;
    char state_path[128];
    char real[96];
    if (geteuid() != 0) {
        print_message("needs root to become another user: skipped\n");
        skip();
    }
    assert_true(usage_default_path("/models/a.gguf", false, NULL, real, sizeof real));
    assert_string_equal(real, "/models/a.gguf.coli_usage");
    assert_true(usage_default_path("/models/b//", true, NULL, real, sizeof real));
    assert_string_equal(real, "/models/b/.coli_usage");
    char state_dir[96];
    snprintf(state_dir, sizeof state_dir, "%s/deep/state", folder);
    assert_true(usage_default_path("/models/b/", true, state_dir, state_path, sizeof state_path));
    assert_int_equal(strncmp(state_path + strlen(state_dir), "/b-", 3), 0);
    put_file(path, "3 1 3\n", 6);
    assert_int_equal(chmod(folder, 0755), 0);
    char deep[96];
    snprintf(deep, sizeof deep, "%s/deep", folder);
    assert_int_equal(mkdir(deep, 0777), 0);
    assert_int_equal(chmod(deep, 0777), 0);
    assert_int_equal(chmod(path, 0644), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0) {
            _exit(2);
        }
        struct usage_config config = base_config();
        config.fallback_path = state_path;
        struct usage *usage = make(&config, USAGE_LOADED); /* what the model's directory has is where we start */
        use(usage, 0, 1, 2);
        int failed = usage_flush(usage, NULL) != BERTH_OK;
        char text[64];
        get_file(state_path, text, sizeof text);
        failed |= strcmp(text, "3 1 5\n") != 0 || strcmp(usage_path(usage), state_path) != 0;
        usage = make(&config, USAGE_LOADED);
        use(usage, 0, 1, 2);
        failed |= usage_flush(usage, NULL) != BERTH_OK;
        get_file(state_path, text, sizeof text);
        failed |= strcmp(text, "3 1 7\n") != 0;
        _exit(failed);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    expect_text(path, "3 1 3\n");
}

static void on_alarm(int number)
{
    (void)number;
}

/* System calls that a signal interrupts are taken up again. */
static void signals(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct sigaction old;
    struct itimerval fast = {{0, 150}, {0, 150}};
    struct itimerval off = {{0, 0}, {0, 0}};
    struct usage_config config = base_config();
    struct usage *usage = make(&config, USAGE_ABSENT);
    sigaction(SIGALRM, &action, &old);
    setitimer(ITIMER_REAL, &fast, NULL);
    berth_status status = BERTH_OK;
    for (uint32_t i = 0; i < 60 && status == BERTH_OK; i++) {
        use(usage, 0, 1, 1);
        status = usage_flush(usage, NULL);
    }
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &old, NULL);
    assert_int_equal(status, BERTH_OK);
    expect_text(path, "3 1 60\n");
}

/* ---- two processes ---- */

/* Records `each` selections of its own expert and saves, over and over, telling of each completed save. */
static void writer_process(int tell, uint16_t expert, uint32_t each)
{
    struct usage_config config = base_config();
    struct usage *usage = make(&config, access(path, F_OK) == 0 ? USAGE_LOADED : USAGE_ABSENT);
    for (;;) {
        use(usage, 0, expert, each);
        if (usage_flush(usage, NULL) != BERTH_OK || write(tell, "s", 1) != 1) {
            _exit(1);
        }
    }
}

static void kill_at_any_moment(void **state)
{
    (void)state;
    enum { ROUNDS = 100, EACH = 7 };
    uint64_t saved[2] = {0, 0};
    uint32_t seed = 12345;
    put_file(path, "", 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        int ends[2][2];
        pid_t pids[2];
        for (uint16_t i = 0; i < 2; i++) {
            assert_int_equal(pipe(ends[i]), 0);
            pids[i] = fork();
            if (pids[i] == 0) {
                close(ends[i][0]);
                writer_process(ends[i][1], i, EACH);
            }
            close(ends[i][1]);
        }
        for (int i = 0; i < 2 && round % 4 == 0; i++) { /* let every fourth round get as far as a save */
            struct pollfd first = {.fd = ends[i][0], .events = POLLIN};
            assert_int_equal(poll(&first, 1, 10000), 1);
        }
        for (int i = 0; i < 2; i++) {
            seed = seed * 1664525u + 1013904223u;
            usleep(1500 + (seed >> 8) % 16000);
            int victim = (int)((round + (uint32_t)i) % 2);
            assert_int_equal(kill(pids[victim], SIGKILL), 0);
            int status = 0;
            assert_int_equal(waitpid(pids[victim], &status, 0), pids[victim]);
            assert_true(WIFSIGNALED(status)); /* it had not failed by itself */
        }
        for (int i = 0; i < 2; i++) {
            char told[4096];
            ssize_t got;
            while ((got = read(ends[i][0], told, sizeof told)) > 0) {
                saved[i] += (uint64_t)got;
            }
            close(ends[i][0]);
        }
        struct usage_config config = base_config();
        struct usage *usage = make(&config, USAGE_LOADED); /* parses, undamaged */
        for (int i = 0; i < 2; i++) {
            uint64_t count = count_of(usage, 3, i);
            assert_true(count >= saved[i] * EACH);               /* no completed save is lost */
            assert_true(count <= (saved[i] + round + 1) * EACH); /* nor anything counted twice */
            assert_int_equal(count % EACH, 0);
        }
    }
    print_message("%d rounds: %llu and %llu completed saves, none lost\n", ROUNDS, (unsigned long long)saved[0],
                  (unsigned long long)saved[1]);
    assert_true(saved[0] >= ROUNDS / 8 && saved[1] >= ROUNDS / 8); /* on a busy machine too: see the poll */
}

/* Scaling applies to what the file holds when it is saved: what another process saved meanwhile is neither lost nor
 * brought back, and the old file is kept. */
static void scaling_merges(void **state)
{
    (void)state;
    struct usage_config config = base_config();
    put_text("3 0 100\n");
    struct usage *a = make(&config, USAGE_LOADED);
    struct usage *b = make(&config, USAGE_LOADED);
    use(b, 0, 1, 50);
    assert_int_equal(usage_flush(b, NULL), BERTH_OK);
    usage_scale(a, 0.5);
    use(a, 0, 2, 7);
    assert_int_equal(usage_flush(a, NULL), BERTH_OK);
    assert_int_equal(count_of(a, 3, 0), 50);
    assert_int_equal(count_of(a, 3, 1), 25);
    assert_int_equal(count_of(a, 3, 2), 7);
    usage_scale(b, 0.0);
    use(b, 0, 3, 1);
    assert_int_equal(usage_flush(b, NULL), BERTH_OK);
    struct usage *c = make(&config, USAGE_LOADED);
    assert_int_equal(count_of(c, 3, 0), 0);
    assert_int_equal(count_of(c, 3, 2), 0);
    assert_int_equal(count_of(c, 3, 3), 1);
}

/* What a file says of itself, for when there is no model. */
static void shapes(void **state)
{
    (void)state;
    static unsigned char memory[64 << 10] __attribute__((aligned(4096)));
    struct arena arena;
    struct usage_shape shape;
    arena_carve(&arena, memory, sizeof memory);
    put_text("-1 9 16\r\n-2 1 77\r\n3 4 5\r\nnonsense\r\n12 0 1\r\n3 9999 1\r\n");
    assert_int_equal(usage_scan(&arena, path, &shape, NULL), BERTH_OK);
    assert_true(shape.has_header && !shape.binary);
    assert_int_equal(shape.file_layers, 9);
    assert_int_equal(shape.file_experts, 16);
    assert_int_equal(shape.engine_id, 77);
    assert_int_equal(shape.layers_count, 2);
    assert_int_equal(shape.experts, 5);
    assert_int_equal(shape.rows, 2);
    assert_int_equal(shape.damaged, 1);
    assert_int_equal(shape.skipped, 1);
    assert_int_equal(shape.layers[0], 1u << 3);
    assert_int_equal(shape.layers[1], 1u << 4);
    assert_int_equal(arena_mark(&arena), 0);
    assert_int_equal(usage_scan(&arena, "/nowhere/at/all", &shape, NULL), BERTH_ERR_NOT_FOUND);
}

int main(void)
{
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(path, sizeof path, "%s/.coli_usage", folder);
    snprintf(backup, sizeof backup, "%s.bak", path);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(headers, clean),
        cmocka_unit_test_teardown(plain_stays_plain, clean),
        cmocka_unit_test_teardown(binary, clean),
        cmocka_unit_test_teardown(damage, clean),
        cmocka_unit_test_teardown(white_space_of_any_kind_ends_a_field, clean),
        cmocka_unit_test(limits_of_the_configuration),
        cmocka_unit_test_teardown(refusal, clean),
        cmocka_unit_test_teardown(seed_mode, clean),
        cmocka_unit_test_teardown(merging, clean),
        cmocka_unit_test_teardown(import_and_decay, clean),
        cmocka_unit_test_teardown(scaling_merges, clean),
        cmocka_unit_test_teardown(shapes, clean),
        cmocka_unit_test_teardown(links, clean),
        cmocka_unit_test_teardown(stale_temporaries, clean),
        cmocka_unit_test_teardown(files_too_large_are_not_read, clean),
        cmocka_unit_test_teardown(nothing_told_moves_the_cursor, clean),
        cmocka_unit_test_teardown(file_size_limit, clean),
        cmocka_unit_test_teardown(disk_full, clean),
        cmocka_unit_test_teardown(fallback, clean),
        cmocka_unit_test_teardown(signals, clean),
        cmocka_unit_test_teardown(kill_at_any_moment, clean),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
