/* SPDX-License-Identifier: MIT
 *
 * Runs a command in a memory cgroup of its own, with cold files, and reports what the kernel charged to it.
 *
 *     run_capped [--limit BYTES] [--evict FILE]... [--copies DIR] [--user NAME] [--report FILE] [--stdout FILE]
 *                [--drop-caches] [--timeout SECONDS] -- COMMAND [ARG]...
 *
 * Before the run, the given files, the program and the libraries it is linked with leave the page cache, so that
 * reading them again is charged to the group; what could not be evicted (another process maps it) is reported. With
 * --copies the program and its libraries run from copies in DIR, which nobody else maps.
 *
 * Works with cgroup v1 and v2, as root (optionally as another user: root makes the group, then drops) or as a user to
 * whom a group was delegated. Exit 0: measured (the command's own status is in the report), 77: cannot be done here,
 * with the reason on stderr, 1: failed, 2: usage. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILES_MAX = 128, TEXT_MAX = 4096, SKIP = 77 };

struct options {
    uint64_t limit; /* 0: none */
    const char *user, *report, *stdout_path, *copies;
    bool drop_caches;
    unsigned timeout;
    char **command;
};

static struct options options;
static char *files[FILES_MAX]; /* to evict */
static int files_count;
static char group[TEXT_MAX];
static bool v2;

static void leave(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, code == SKIP ? "SKIP: " : "run_capped: ");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    if (group[0] != '\0') {
        rmdir(group);
    }
    exit(code);
}

/* ---- small files ---------------------------------------------------------------------------------------- */

/* Whole file, NUL-terminated; false when it cannot be read. */
static bool slurp(const char *folder, const char *name, char *text, size_t cap)
{
    char path[2 * TEXT_MAX];
    snprintf(path, sizeof path, "%s%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t used = 0;
    ssize_t got;
    while (used < cap - 1 && (got = read(fd, text + used, cap - 1 - used)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    close(fd);
    return true;
}

static bool spit(const char *folder, const char *name, const char *text)
{
    char path[2 * TEXT_MAX];
    snprintf(path, sizeof path, "%s%s", folder, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int code = errno;
    close(fd);
    errno = code;
    return good;
}

static uint64_t number_in(const char *name)
{
    char text[TEXT_MAX];
    return slurp(group, name, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

/* Value of "key value" in a file; 0 when absent. */
static uint64_t keyed_in(const char *folder, const char *name, const char *key)
{
    char text[4 * TEXT_MAX];
    if (!slurp(folder, name, text, sizeof text)) {
        return 0;
    }
    size_t bytes = strlen(key);
    for (char *line = text; line != NULL; line = strchr(line, '\n') == NULL ? NULL : strchr(line, '\n') + 1) {
        if (strncmp(line, key, bytes) == 0 && line[bytes] == ' ') {
            return strtoull(line + bytes, NULL, 10);
        }
    }
    return 0;
}

static uint64_t keyed(const char *name, const char *key)
{
    return keyed_in(group, name, key);
}

/* Pages that the kernel looked at (scan) or took (steal) for reclaim, of all groups: v1 has no count per group. */
static uint64_t machine_reclaim(bool steal)
{
    return keyed_in("/proc/vmstat", "", steal ? "pgsteal_anon" : "pgscan_anon") +
           keyed_in("/proc/vmstat", "", steal ? "pgsteal_file" : "pgscan_file");
}

/* ---- the group ------------------------------------------------------------------------------------------ */

static bool has_word(const char *list, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *p = strstr(list, word); p != NULL; p = strstr(p + 1, word)) {
        if ((p == list || strchr(" ,\n", p[-1]) != NULL) && (p[bytes] == '\0' || strchr(" ,\n", p[bytes]) != NULL)) {
            return true;
        }
    }
    return false;
}

/* Where this process lives in the memory hierarchy (v1), or in the unified one (v2). */
static bool own_group(bool unified, char *out, size_t cap)
{
    char text[2 * TEXT_MAX];
    char line[TEXT_MAX];
    char point[TEXT_MAX] = "";
    char root[TEXT_MAX] = "";
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    while (mounts != NULL && point[0] == '\0' && fgets(line, sizeof line, mounts) != NULL) {
        char *tail = strstr(line, " - ");
        if (tail == NULL || strncmp(tail + 3, unified ? "cgroup2 " : "cgroup ", unified ? 8 : 7) != 0) {
            continue;
        }
        const char *super = strrchr(tail, ' ');
        if (unified || has_word(super + 1, "memory")) {
            if (sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2) {
                point[0] = '\0';
            }
        }
    }
    if (mounts != NULL) {
        fclose(mounts);
    }
    if (point[0] == '\0' || !slurp("/proc/self/cgroup", "", text, sizeof text)) {
        return false;
    }
    for (char *at = strtok(text, "\n"); at != NULL; at = strtok(NULL, "\n")) {
        char *controllers = strchr(at, ':');
        char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        controllers++;
        if (unified ? controllers[0] == '\0' : has_word(controllers, "memory")) {
            size_t skip = strcmp(root, "/") == 0 || strncmp(path, root, strlen(root)) != 0 ? 0 : strlen(root);
            snprintf(out, cap, "%s%s", point, strcmp(path + skip, "/") == 0 ? "" : path + skip);
            return true;
        }
    }
    return false;
}

/* v2 lets a group with processes have no children with controllers, so the new group may have to be a sibling. */
static bool make_v2(const char *parent)
{
    char controllers[TEXT_MAX];
    char enabled[TEXT_MAX];
    if (!slurp(parent, "/cgroup.controllers", controllers, sizeof controllers) || !has_word(controllers, "memory")) {
        return false;
    }
    if (!slurp(parent, "/cgroup.subtree_control", enabled, sizeof enabled) ||
        (!has_word(enabled, "memory") && !spit(parent, "/cgroup.subtree_control", "+memory"))) {
        return false;
    }
    snprintf(group, sizeof group, "%s/berth-run-%d", parent, (int)getpid());
    if (mkdir(group, 0755) != 0) {
        group[0] = '\0';
        return false;
    }
    return true;
}

static void make_group(void)
{
    char own[TEXT_MAX - 64];
    int code = ENOENT;
    if (own_group(false, own, sizeof own)) {
        snprintf(group, sizeof group, "%s/berth-run-%d", own, (int)getpid());
        if (mkdir(group, 0755) == 0) {
            return;
        }
        code = errno;
        group[0] = '\0';
    }
    if (own_group(true, own, sizeof own)) {
        v2 = true;
        if (make_v2(own)) {
            return;
        }
        code = errno != 0 ? errno : code;
        char *slash = strrchr(own, '/');
        if (slash != NULL && slash != own) {
            *slash = '\0';
            if (make_v2(own)) {
                return;
            }
        }
    }
    leave(SKIP, "no memory cgroup can be created here (%s); run as root, or in a delegated group", strerror(code));
}

static void set_limit(void)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)options.limit);
    if (!spit(group, v2 ? "/memory.max" : "/memory.limit_in_bytes", text)) {
        leave(SKIP, "cannot set the limit of %s: %s", group, strerror(errno));
    }
    /* No way out to swap either. Not by memsw: it would be charged first, and failcnt would stay 0. */
    spit(group, v2 ? "/memory.swap.max" : "/memory.swappiness", "0");
}

/* ---- cold files ----------------------------------------------------------------------------------------- */

static void add_file(const char *path)
{
    for (int i = 0; i < files_count; i++) {
        if (strcmp(files[i], path) == 0) {
            return;
        }
    }
    if (files_count == FILES_MAX) {
        leave(2, "more than %d files to evict", FILES_MAX);
    }
    files[files_count++] = strdup(path);
}

/* The loader prints what it would map: "name => /path (0x...)" and "/lib64/ld-linux... (0x...)". */
static void add_libraries(const char *program)
{
    int ends[2];
    if (pipe(ends) != 0) {
        leave(1, "pipe: %s", strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
        execl(program, program, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *list = fdopen(ends[0], "r");
    char line[TEXT_MAX];
    while (list != NULL && fgets(line, sizeof line, list) != NULL) {
        char *path = strchr(line, '/');
        char *end = path == NULL ? NULL : strstr(path, " (0x");
        if (end != NULL) {
            *end = '\0';
            add_file(path);
        }
    }
    if (list != NULL) {
        fclose(list);
    }
    waitpid(child, NULL, 0);
}

static uint64_t cached_bytes(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    uint64_t cached = 0;
    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 0) {
        size_t pages = ((size_t)info.st_size + 4095) / 4096;
        unsigned char *in = malloc(pages);
        void *map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (in != NULL && map != MAP_FAILED && mincore(map, (size_t)info.st_size, in) == 0) {
            for (size_t i = 0; i < pages; i++) {
                cached += (in[i] & 1u) != 0 ? 4096 : 0;
            }
        }
        if (map != MAP_FAILED) {
            munmap(map, (size_t)info.st_size);
        }
        free(in);
    }
    if (fd >= 0) {
        close(fd);
    }
    return cached;
}

static void evict(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        leave(1, "cannot open %s: %s", path, strerror(errno));
    }
    fdatasync(fd); /* dirty pages stay */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static char *copy_file(const char *from)
{
    char to[TEXT_MAX];
    const char *name = strrchr(from, '/');
    snprintf(to, sizeof to, "%s/%s", options.copies, name == NULL ? from : name + 1);
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    static char buffer[1 << 16];
    ssize_t got = -1;
    while (in >= 0 && out >= 0 && (got = read(in, buffer, sizeof buffer)) > 0) {
        if (write(out, buffer, (size_t)got) != got) {
            got = -1;
            break;
        }
    }
    if (got != 0 || fsync(out) != 0) {
        leave(1, "cannot copy %s to %s: %s", from, to, strerror(errno));
    }
    close(in);
    close(out);
    return strdup(to);
}

static bool is_loader(const char *path)
{
    const char *name = strrchr(path, '/');
    return strncmp(name == NULL ? path : name + 1, "ld-linux", 8) == 0;
}

static char *find_program(const char *name)
{
    if (strchr(name, '/') != NULL) {
        return realpath(name, NULL);
    }
    const char *path = getenv("PATH");
    char *list = strdup(path == NULL ? "/usr/bin:/bin" : path);
    char *found = NULL;
    for (char *folder = strtok(list, ":"); folder != NULL && found == NULL; folder = strtok(NULL, ":")) {
        char full[TEXT_MAX];
        snprintf(full, sizeof full, "%s/%s", folder, name);
        found = access(full, X_OK) == 0 ? realpath(full, NULL) : NULL;
    }
    free(list);
    return found;
}

/* ---- the run -------------------------------------------------------------------------------------------- */

static void child_main(const char *program)
{
    if (!spit(group, "/cgroup.procs", "0")) {
        fprintf(stderr, "run_capped: cannot enter %s: %s\n", group, strerror(errno));
        _exit(126);
    }
    if (options.stdout_path != NULL && freopen(options.stdout_path, "wb", stdout) == NULL) {
        fprintf(stderr, "run_capped: cannot write %s: %s\n", options.stdout_path, strerror(errno));
        _exit(126);
    }
    if (options.user != NULL) {
        const struct passwd *user = getpwnam(options.user);
        if (user == NULL || setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0) {
            fprintf(stderr, "run_capped: cannot become %s: %s\n", options.user, strerror(errno));
            _exit(126);
        }
    }
    if (options.copies != NULL) {
        setenv("LD_LIBRARY_PATH", options.copies, 1);
    }
    execv(program, options.command);
    fprintf(stderr, "run_capped: cannot run %s: %s\n", program, strerror(errno));
    _exit(127);
}

static volatile sig_atomic_t timed_out;
static volatile pid_t running;

static void on_alarm(int number)
{
    (void)number;
    timed_out = 1;
    kill(running, SIGKILL);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct outcome {
    int status;
    struct rusage usage;
    double seconds;
    uint64_t scanned, reclaimed; /* pages, of the whole machine while it ran */
    uint64_t sampled_peak;       /* where the kernel keeps none (v2 before Linux 5.19) */
};

static struct outcome run(const char *program)
{
    struct outcome outcome = {0};
    double start = seconds();
    uint64_t scanned = machine_reclaim(false);
    uint64_t reclaimed = machine_reclaim(true);
    running = fork();
    if (running < 0) {
        leave(1, "fork: %s", strerror(errno));
    }
    if (running == 0) {
        child_main(program);
    }
    if (options.timeout > 0) {
        signal(SIGALRM, on_alarm);
        alarm(options.timeout);
    }
    bool sample = v2 && number_in("/memory.peak") == 0 && access(group, F_OK) == 0;
    pid_t got;
    while ((got = wait4(running, &outcome.status, sample ? WNOHANG : 0, &outcome.usage)) != running) {
        if (got < 0 && errno != EINTR) {
            leave(1, "wait: %s", strerror(errno));
        }
        uint64_t now = sample ? number_in("/memory.current") : 0;
        outcome.sampled_peak = now > outcome.sampled_peak ? now : outcome.sampled_peak;
        if (sample) {
            usleep(2000);
        }
    }
    alarm(0);
    outcome.seconds = seconds() - start;
    outcome.scanned = machine_reclaim(false) - scanned;
    outcome.reclaimed = machine_reclaim(true) - reclaimed;
    return outcome;
}

static void put(FILE *out, const char *name, uint64_t value)
{
    fprintf(out, "  \"%s\": %llu,\n", name, (unsigned long long)value);
}

static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            fprintf(out, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(out, "\\u%04x", c);
        } else {
            fputc(c, out);
        }
    }
    fputc('"', out);
}

static void report(const struct outcome *outcome, const uint64_t *still_cached)
{
    bool to_file = options.report != NULL && strcmp(options.report, "-") != 0;
    FILE *out = to_file ? fopen(options.report, "wb") : stdout;
    if (out == NULL) {
        leave(1, "cannot write %s: %s", options.report, strerror(errno));
    }
    int status = outcome->status;
    fprintf(out, "{\n  \"cgroup\": \"%s\",\n", v2 ? "v2" : "v1");
    put(out, "limit_bytes", options.limit);
    if (v2) {
        uint64_t peak = number_in("/memory.peak");
        put(out, "peak_bytes", peak > 0 ? peak : outcome->sampled_peak);
        fprintf(out, "  \"peak_sampled\": %s,\n", peak > 0 ? "false" : "true");
        put(out, "limit_hits", keyed("/memory.events", "max"));
        put(out, "oom", keyed("/memory.events", "oom"));
        put(out, "oom_kills", keyed("/memory.events", "oom_kill"));
        put(out, "pages_scanned", keyed("/memory.stat", "pgscan"));
        put(out, "pages_reclaimed", keyed("/memory.stat", "pgsteal"));
    } else {
        put(out, "peak_bytes", number_in("/memory.max_usage_in_bytes"));
        put(out, "peak_kernel_bytes", number_in("/memory.kmem.max_usage_in_bytes"));
        put(out, "limit_hits", number_in("/memory.failcnt")); /* charges refused: what follows is reclaim or a kill */
        put(out, "oom_kills", keyed("/memory.oom_control", "oom_kill"));
    }
    put(out, "machine_pages_scanned", outcome->scanned);
    put(out, "machine_pages_reclaimed", outcome->reclaimed);
    put(out, "end_bytes", number_in(v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    put(out, "refaults", keyed("/memory.stat", "workingset_refault_file"));
    put(out, "end_page_cache_bytes", keyed("/memory.stat", v2 ? "file" : "cache"));
    put(out, "group_major_faults", keyed("/memory.stat", "pgmajfault"));
    put(out, "major_faults", (uint64_t)outcome->usage.ru_majflt);
    put(out, "minor_faults", (uint64_t)outcome->usage.ru_minflt);
    put(out, "max_rss_bytes", (uint64_t)outcome->usage.ru_maxrss * 1024);
    fprintf(out, "  \"seconds\": %.3f,\n  \"still_cached_before\": {", outcome->seconds);
    bool first = true;
    for (int i = 0; i < files_count; i++) {
        if (still_cached[i] > 0) {
            fputs(first ? "" : ", ", out);
            put_text(out, files[i]);
            fprintf(out, ": %llu", (unsigned long long)still_cached[i]);
            first = false;
        }
    }
    fprintf(out, "},\n  \"timed_out\": %s,\n  \"signal\": %d,\n  \"rc\": %d\n}\n", timed_out ? "true" : "false",
            WIFSIGNALED(status) ? WTERMSIG(status) : 0, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    if (to_file) {
        fclose(out);
    } else {
        fflush(out);
    }
}

static uint64_t number_arg(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-') {
        leave(2, "wanted a number, got \"%s\"", text);
    }
    return value;
}

static void parse(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--drop-caches") == 0) {
            options.drop_caches = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : NULL;
        if (value == NULL) {
            leave(2, "%s needs a value", name);
        } else if (strcmp(name, "--limit") == 0) {
            options.limit = number_arg(value);
        } else if (strcmp(name, "--timeout") == 0) {
            options.timeout = (unsigned)number_arg(value);
        } else if (strcmp(name, "--evict") == 0) {
            add_file(value);
        } else if (strcmp(name, "--user") == 0) {
            options.user = value;
        } else if (strcmp(name, "--report") == 0) {
            options.report = value;
        } else if (strcmp(name, "--stdout") == 0) {
            options.stdout_path = value;
        } else if (strcmp(name, "--copies") == 0) {
            options.copies = value;
        } else {
            leave(2, "unknown option %s", name);
        }
    }
    if (i + 1 >= argc) {
        leave(2, "usage: run_capped [options] -- COMMAND [ARG]...");
    }
    options.command = argv + i + 1;
}

/* The program to run; afterwards files[] holds all that has to be cold. */
static char *prepare_program(void)
{
    char *program = find_program(options.command[0]);
    if (program == NULL) {
        leave(2, "no such program: %s", options.command[0]);
    }
    int first = files_count;
    add_libraries(program);
    if (options.copies != NULL) {
        for (int i = first; i < files_count; i++) {
            files[i] = is_loader(files[i]) ? files[i] : copy_file(files[i]);
        }
        program = copy_file(program);
    }
    add_file(program);
    return program;
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    if (options.user != NULL && geteuid() != 0) {
        leave(SKIP, "--user needs root");
    }
    make_group();
    if (options.limit > 0) {
        set_limit();
    }
    char *program = prepare_program();
    for (int i = 0; i < files_count; i++) {
        evict(files[i]);
    }
    if (options.drop_caches && !spit("/proc/sys/vm/drop_caches", "", "3")) {
        leave(SKIP, "cannot drop the page cache: %s", strerror(errno));
    }
    uint64_t still_cached[FILES_MAX];
    for (int i = 0; i < files_count; i++) {
        still_cached[i] = cached_bytes(files[i]);
    }
    struct outcome outcome = run(program);
    report(&outcome, still_cached);
    int entered = WIFEXITED(outcome.status) ? WEXITSTATUS(outcome.status) : 0;
    for (int i = 0; i < 50 && rmdir(group) != 0 && errno == EBUSY; i++) {
        usleep(10000); /* the dead child is on its way out */
    }
    group[0] = '\0';
    if (entered == 126) {
        leave(SKIP, "the command could not be placed in the group");
    }
    return 0;
}
