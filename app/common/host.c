/* SPDX-License-Identifier: MIT */
#include "common/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- start and terminals ---------------------------------------------------------------------------- */

void host_start(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
            /* The wrong direction on purpose: using it fails, as using the closed one would have. */
            int got = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
            (void)got;
        }
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* `ulimit -f` is an error of the write, after which we clean up */
}

bool host_is_terminal(enum host_stream stream)
{
    return isatty((int)stream) == 1;
}

bool host_terminal_size(enum host_stream stream, uint32_t *rows, uint32_t *columns)
{
    struct winsize size;
    if (ioctl((int)stream, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
        return false;
    }
    *rows = size.ws_row;
    *columns = size.ws_col;
    return true;
}

const char *host_setting(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

uint64_t host_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t host_seed(void)
{
    uint64_t seed = 0;
    if (getentropy(&seed, sizeof seed) != 0) {
        seed = host_now_ns() * 0x9e3779b97f4a7c15u + (uint64_t)getpid();
    }
    return seed >> 11; /* 53 bits: every JSON reader keeps it exact */
}

bool host_file_size(const char *path, uint64_t *bytes)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return false;
    }
    *bytes = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    return true;
}

/* Model files (parts, shards) are open from the start: their descriptors are low. */
enum { OPEN_FILES_MAX = 4096 };

void host_remove_file(const char *path)
{
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        unlink(path);
    }
}

/* False: a signal came before there was anything to read, or the other end was closed. */
static bool wait_readable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    while (poll(&wait, 1, 100) <= 0) {
        if (host_interrupted()) {
            errno = EINTR;
            return false;
        }
    }
    return true;
}

/* Reads restart after a signal, so one that may have to wait for a writer looks first. */
static ssize_t read_patiently(void *cookie, char *buffer, size_t bytes)
{
    int fd = (int)(intptr_t)cookie;
    return wait_readable(fd) ? read(fd, buffer, bytes) : -1;
}

static int close_cookie(void *cookie)
{
    return close((int)(intptr_t)cookie);
}

FILE *host_open_text(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (fd < 0) {
        return NULL;
    }
    bool waits = fstat(fd, &info) == 0 && !S_ISREG(info.st_mode);
    if (waits && !wait_readable(fd)) {
        close(fd);
        errno = EINTR;
        return NULL;
    }
    FILE *file = NULL;
    if (fcntl(fd, F_SETFL, 0) == 0) {
        const cookie_io_functions_t functions = {.read = read_patiently, .close = close_cookie};
        file = waits ? fopencookie((void *)(intptr_t)fd, "r", functions) : fdopen(fd, "r");
    }
    if (file == NULL) {
        close(fd);
    }
    return file;
}

/* The descriptor does not block. */
static ssize_t write_patiently(void *cookie, const char *buffer, size_t bytes)
{
    int fd = (int)(intptr_t)cookie;
    for (;;) {
        ssize_t put = write(fd, buffer, bytes);
        if (put >= 0) {
            return put;
        }
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        if (errno == EAGAIN) {
            poll(&wait, 1, 100);
        } else if (errno != EINTR) {
            return 0; /* what a cookie's writer returns for an error */
        }
        if (host_interrupted()) {
            errno = EINTR;
            return 0;
        }
    }
}

/* A pipe without a reader refuses to be opened so; a signal ends the wait for one. */
static FILE *open_pipe_output(const char *path)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    int fd;
    while ((fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0 && errno == ENXIO) {
        if (host_interrupted()) {
            errno = EINTR;
            return NULL;
        }
        nanosleep(&pause, NULL);
    }
    const cookie_io_functions_t functions = {.write = write_patiently, .close = close_cookie};
    FILE *file = fd >= 0 ? fopencookie((void *)(intptr_t)fd, "w", functions) : NULL;
    if (file == NULL && fd >= 0) {
        close(fd);
    }
    return file;
}

FILE *host_open_output(const char *path)
{
    struct stat info;
    bool pipe = stat(path, &info) == 0 && S_ISFIFO(info.st_mode);
    return pipe ? open_pipe_output(path) : fopen(path, "wbe");
}

bool host_file_in_use(const char *path)
{
    struct stat wanted;
    if (stat(path, &wanted) != 0 || !S_ISREG(wanted.st_mode)) {
        return false;
    }
    for (int fd = STDERR_FILENO + 1; fd < OPEN_FILES_MAX; fd++) {
        struct stat info;
        if (fstat(fd, &info) == 0 && info.st_dev == wanted.st_dev && info.st_ino == wanted.st_ino) {
            return true;
        }
    }
    return false;
}

bool host_write_through(FILE *file)
{
    if (fflush(file) != 0) {
        return false;
    }
    int fd = fileno(file);
    if (fd < 0) {
        return true;
    }
    if (fdatasync(fd) != 0) {
        return errno == EINVAL || errno == EROFS || errno == ENOTSUP;
    }
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return true;
}

/* ---- interrupts ------------------------------------------------------------------------------------- */

static volatile sig_atomic_t signals_count;
static volatile sig_atomic_t signal_last;
static _Atomic(berth_session *) watched_session;
static _Atomic(const char *) farewell;
static _Atomic(bool) holds;

enum { TEMPORARIES_MAX = 4, HELD_SIGNALS_MAX = 10 };
static _Atomic(const char *) temporaries[TEMPORARIES_MAX];

/* What clean-up would have done, with calls that a handler may make. */
static void end_at_once(int number)
{
    const char *sequence = atomic_load(&farewell);
    if (sequence != NULL) {
        ssize_t written = write(STDERR_FILENO, sequence, strlen(sequence));
        (void)written;
    }
    for (int i = 0; i < TEMPORARIES_MAX; i++) {
        const char *path = atomic_load(&temporaries[i]);
        if (path != NULL) {
            host_remove_file(path);
        }
    }
    _exit(128 + number);
}

static void on_signal(int number)
{
    int saved = errno;
    signal_last = number;
    signals_count = signals_count + 1;
    if (signals_count >= (atomic_load(&holds) ? HELD_SIGNALS_MAX : 2)) {
        end_at_once(number);
    }
    berth_session *session = atomic_load(&watched_session);
    if (session != NULL) {
        berth_session_cancel(session);
    }
    errno = saved;
}

/* A signal that the caller had ignored (a shell's background job) stays ignored. */
static void set_handler(int number, void (*handler)(int))
{
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN) {
        return;
    }
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags =
        SA_RESTART; /* text that is being written is written; standard input is read before handlers are set */
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT); /* one at a time, or two handlers would count and end together */
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGHUP);
    sigaction(number, &action, NULL);
}

void host_catch_interrupts(void)
{
    set_handler(SIGINT, on_signal);
    set_handler(SIGTERM, on_signal);
    set_handler(SIGHUP, on_signal);
}

void host_watch(berth_session *session)
{
    atomic_store(&watched_session, session);
}

bool host_interrupted(void)
{
    return signals_count > 0;
}

void host_interrupt_clear(void)
{
    signals_count = 0;
}

int host_interrupt_code(void)
{
    return 128 + (int)signal_last;
}

void host_set_farewell(const char *sequence)
{
    atomic_store(&farewell, sequence);
}

void host_hold(bool hold)
{
    atomic_store(&holds, hold);
}

void host_temporary(const char *path)
{
    const char *none = NULL;
    for (int i = 0; path != NULL && i < TEMPORARIES_MAX; i++, none = NULL) {
        if (atomic_compare_exchange_strong(&temporaries[i], &none, path)) {
            return;
        }
    }
}

void host_temporary_done(const char *path)
{
    for (int i = 0; path != NULL && i < TEMPORARIES_MAX; i++) {
        const char *same = path;
        atomic_compare_exchange_strong(&temporaries[i], &same, NULL);
    }
}

/* ---- memory figures --------------------------------------------------------------------------------- */

static bool read_number(const char *path, uint64_t *out)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    char text[64];
    bool got = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    if (!got) {
        return false;
    }
    if (strncmp(text, "max", 3) == 0) {
        *out = UINT64_MAX;
        return true;
    }
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *out = value;
    return errno == 0 && end != text;
}

static uint64_t high_water_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    if (file == NULL) {
        return 0;
    }
    char line[256];
    uint64_t kib = 0;
    while (kib == 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            kib = strtoull(line + 6, NULL, 10);
        }
    }
    fclose(file);
    return kib * 1024;
}

struct cgroup_place {
    char path[256];  /* of our group inside the hierarchy */
    char mount[256]; /* where the hierarchy is mounted */
    char root[256];  /* the part of it that the mount shows */
    bool v2;
};

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
        bool begins = at == list || at[-1] == ',';
        bool ends = at[length] == '\0' || at[length] == ',' || at[length] == '\n';
        if (begins && ends) {
            return true;
        }
    }
    return false;
}

/* Our memory group: the v1 hierarchy where there is one, else v2. */
static bool find_group(struct cgroup_place *place)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) {
        return false;
    }
    char line[512];
    bool found = false;
    while (fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        controllers++;
        path[strcspn(path, "\n")] = '\0';
        bool v1 = has_word(controllers, "memory");
        if (v1 || (!found && *controllers == '\0')) {
            snprintf(place->path, sizeof place->path, "%.255s", path);
            place->v2 = !v1;
            found = true;
        }
        if (v1) {
            break;
        }
    }
    fclose(file);
    return found;
}

static bool find_mount(struct cgroup_place *place)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    if (file == NULL) {
        return false;
    }
    char line[1024];
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        const char *tail = strstr(line, " - ");
        char type[32];
        char options[256];
        if (tail == NULL || sscanf(tail, " - %31s %*s %255s", type, options) != 2) {
            continue;
        }
        bool wanted =
            place->v2 ? strcmp(type, "cgroup2") == 0 : strcmp(type, "cgroup") == 0 && has_word(options, "memory");
        found = wanted && sscanf(line, "%*s %*s %*s %255s %255s", place->root, place->mount) == 2;
    }
    fclose(file);
    return found;
}

static void read_group_peak(struct host_peak *out)
{
    struct cgroup_place place = {0};
    if (!find_group(&place) || !find_mount(&place)) {
        return;
    }
    size_t root = strlen(place.root);
    const char *inside = place.path;
    if (strcmp(place.root, "/") != 0 && strncmp(inside, place.root, root) == 0) {
        inside += root;
    }
    const char *peak = place.v2 ? "memory.peak" : "memory.max_usage_in_bytes";
    const char *limit = place.v2 ? "memory.max" : "memory.limit_in_bytes";
    snprintf(out->cgroup_file, sizeof out->cgroup_file, "%.140s%.140s/%s", place.mount,
             strcmp(inside, "/") == 0 ? "" : inside, peak);
    if (!read_number(out->cgroup_file, &out->cgroup_bytes)) {
        out->cgroup_bytes = 0;
        out->cgroup_file[0] = '\0';
        return;
    }
    char limit_file[sizeof out->cgroup_file];
    snprintf(limit_file, sizeof limit_file, "%.140s%.140s/%s", place.mount, strcmp(inside, "/") == 0 ? "" : inside,
             limit);
    if (!read_number(limit_file, &out->cgroup_limit_bytes) || out->cgroup_limit_bytes >= UINT64_MAX / 4) {
        out->cgroup_limit_bytes = UINT64_MAX; /* v1 writes "no limit" as the largest page-aligned number */
    }
}

void host_read_peak(struct host_peak *out)
{
    *out = (struct host_peak){.resident_bytes = high_water_bytes(), .cgroup_limit_bytes = UINT64_MAX};
    read_group_peak(out);
}

/* ---- state --------------------------------------------------------------------------------------------- */

bool host_state_dir(char *path, size_t cap)
{
    const char *own = getenv("BERTH_HOME");
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int bytes = -1;
    char here[HOST_PATH_MAX];
    if (own != NULL && own[0] == '/') {
        bytes = snprintf(path, cap, "%s", own);
    } else if (own != NULL && own[0] != '\0') { /* ours, so what the user means counts; XDG's rule is to pass it over */
        bytes = getcwd(here, sizeof here) != NULL ? snprintf(path, cap, "%s/%s", here, own) : -1;
    } else if (state != NULL && state[0] == '/') {
        bytes = snprintf(path, cap, "%s/berth", state);
    } else if (home != NULL && home[0] == '/') {
        bytes = snprintf(path, cap, "%s/.local/state/berth", home);
    }
    return bytes > 0 && (size_t)bytes < cap;
}

bool host_make_directory(const char *path)
{
    char part[HOST_PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) {
        return false;
    }
    for (size_t i = 1; i <= length; i++) {
        if (path[i] == '/' || path[i] == '\0') {
            memcpy(part, path, i);
            part[i] = '\0';
            if (mkdir(part, 0700) != 0 && errno != EEXIST) {
                return false;
            }
        }
    }
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool host_make_private_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0600); /* a pipe must not make it wait */
    if (fd < 0) {
        return false;
    }
    close(fd);
    return true;
}

void host_drop_cache(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}
