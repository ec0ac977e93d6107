/* SPDX-License-Identifier: MIT
 * host_read_line(): lines from a terminal, edited with libedit where it is installed, or from a pipe. */
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "common/host.h"

/* ---- interrupts while waiting ----------------------------------------------------------------------- */

static volatile sig_atomic_t wait_signal;

static void on_wait_signal(int number)
{
    wait_signal = number;
}

/* Signals end the wait instead of the program: no SA_RESTART. They are held back except while we wait for input, so
 * that none comes between looking and waiting. */
struct wait_handlers {
    struct sigaction before[3];
    sigset_t mask;
};
static sigset_t wait_mask; /* while waiting for input */
static sigset_t held_mask; /* else */
static const int wait_signals[3] = {SIGINT, SIGTERM, SIGHUP};

static void begin_wait(struct wait_handlers *handlers)
{
    sigemptyset(&held_mask);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_wait_signal;
    sigemptyset(&action.sa_mask);
    wait_signal = 0;
    for (int i = 0; i < 3; i++) {
        sigaction(wait_signals[i], NULL, &handlers->before[i]);
        if (handlers->before[i].sa_handler != SIG_IGN) {
            sigaction(wait_signals[i], &action, NULL);
            sigaddset(&held_mask, wait_signals[i]);
        }
    }
    if (host_interrupted() && host_interrupt_code() != 128 + SIGINT) { /* came just before */
        wait_signal = host_interrupt_code() - 128;
    }
    sigprocmask(SIG_BLOCK, &held_mask, &handlers->mask);
    wait_mask = handlers->mask;
}

/* Until there is something to read; false: a signal came first. */
static bool wait_for_input(void)
{
    sigprocmask(SIG_SETMASK, &wait_mask, NULL); /* input that is always there leaves ppoll() no time for signals */
    sigprocmask(SIG_BLOCK, &held_mask, NULL);
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (wait_signal == 0) {
        if (ppoll(&input, 1, NULL, &wait_mask) > 0) {
            return true;
        }
        if (errno != EINTR) {
            return true; /* the read says what is wrong */
        }
    }
    return false;
}

static void end_wait(const struct wait_handlers *handlers)
{
    sigprocmask(SIG_SETMASK, &handlers->mask, NULL);
    for (int i = 0; i < 3; i++) {
        sigaction(wait_signals[i], &handlers->before[i], NULL);
    }
}

int host_line_signal(void)
{
    return (int)wait_signal;
}

/* ---- libedit ---------------------------------------------------------------------------------------- */

/* Of histedit.h: operations of el_set() and history(), stable since its first release. */
enum { EDIT_PROMPT = 0, EDIT_EDITOR = 2, EDIT_BIND = 4, EDIT_HIST = 10, EDIT_GETCFN = 13 };
enum { HISTORY_SETSIZE = 1, HISTORY_ENTER = 10, HISTORY_LINES = 100 };

struct hist_event {
    int number;
    const char *text;
};

static struct editor {
    bool tried;
    void *line, *history;
    const char *(*gets)(void *line, int *count);
    int (*past)(void *history, struct hist_event *event, int operation, ...);
    const char *prompt;
} editor;

static char *prompt_text(void *line)
{
    static char text[64];
    (void)line;
    snprintf(text, sizeof text, "%s", editor.prompt);
    return text;
}

/* One byte; 0 at the end, -1 when a signal wants the line given up. */
static int read_byte(unsigned char *byte)
{
    while (wait_for_input()) {
        ssize_t got = read(STDIN_FILENO, byte, 1);
        if (got >= 0 || errno != EINTR) {
            return (int)got;
        }
    }
    return -1;
}

/* libedit's own reader goes on after a signal; ours gives the line up. */
static int read_character(void *line, wchar_t *out)
{
    (void)line;
    unsigned char byte;
    int got = read_byte(&byte);
    if (got != 1) {
        return got;
    }
    int more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
    uint32_t code = more == 3 ? byte & 0x07u : more == 2 ? byte & 0x0fu : more == 1 ? byte & 0x1fu : byte;
    for (; more > 0; more--) {
        got = read_byte(&byte);
        if (got != 1) {
            return got;
        }
        code = code << 6 | (byte & 0x3fu);
    }
    *out = (wchar_t)code;
    return 1;
}

static void bind_keys(int (*set)(void *line, int operation, ...))
{
    static const char *const keys[][2] = {
        {"\\e[1~", "ed-move-to-beg"},      {"\\e[4~", "ed-move-to-end"}, {"\\e[7~", "ed-move-to-beg"},
        {"\\e[8~", "ed-move-to-end"},      {"\\e[H", "ed-move-to-beg"},  {"\\e[F", "ed-move-to-end"},
        {"\\e[3~", "ed-delete-next-char"}, {"\\e[1;5C", "em-next-word"}, {"\\e[1;5D", "ed-prev-word"},
        {"^R", "em-inc-search-prev"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        set(editor.line, EDIT_BIND, keys[i][0], keys[i][1], NULL);
    }
}

static void start_editor(void *library)
{
    void *(*init)(const char *program, FILE *in, FILE *out, FILE *err);
    int (*set)(void *line, int operation, ...);
    void *(*history_init)(void);
    *(void **)(void *)&init = dlsym(library, "el_init");
    *(void **)(void *)&set = dlsym(library, "el_set");
    *(void **)(void *)&history_init = dlsym(library, "history_init");
    *(void **)(void *)&editor.gets = dlsym(library, "el_gets");
    *(void **)(void *)&editor.past = dlsym(library, "history");
    if (init == NULL || set == NULL || history_init == NULL || editor.gets == NULL || editor.past == NULL) {
        return;
    }
    /* Text is UTF-8 whatever the locale says; in the "C" locale libedit drops what is not ASCII as it is typed.
     * LC_CTYPE alone: numbers are read and written as before. */
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        setlocale(LC_CTYPE, "");
    }
    editor.line = init("berth", stdin, stdout, stderr);
    editor.history = history_init();
    if (editor.line == NULL || editor.history == NULL) {
        editor.line = NULL;
        return;
    }
    struct hist_event event;
    editor.past(editor.history, &event, HISTORY_SETSIZE, HISTORY_LINES);
    set(editor.line, EDIT_PROMPT, prompt_text);
    set(editor.line, EDIT_EDITOR, "emacs");
    set(editor.line, EDIT_HIST, editor.past, editor.history);
    set(editor.line, EDIT_GETCFN, read_character);
    bind_keys(set);
}

/* Loaded on first use: `run` never maps it. */
static bool has_editor(void)
{
    if (!editor.tried) {
        editor.tried = true;
        void *library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) {
            start_editor(library);
        }
    }
    return editor.line != NULL;
}

static enum host_line edit_line(char *buffer, size_t cap)
{
    int count = 0;
    const char *line = editor.gets(editor.line, &count);
    if (line == NULL || count <= 0) {
        return wait_signal != 0 ? HOST_LINE_CANCELLED : HOST_LINE_END;
    }
    size_t length = strlen(line);
    length -= length > 0 && line[length - 1] == '\n' ? 1 : 0;
    if (length >= cap) {
        return HOST_LINE_TOO_LONG;
    }
    memcpy(buffer, line, length);
    buffer[length] = '\0';
    if (length > 0) {
        struct hist_event event;
        editor.past(editor.history, &event, HISTORY_ENTER, buffer);
    }
    return HOST_LINE_OK;
}

/* ---- plain lines ------------------------------------------------------------------------------------ */

static struct plain_input {
    char bytes[4096];
    size_t at, end;
} plain;

/* False: the result says why there is no more. */
static bool fill_plain(enum host_line *why)
{
    while (wait_for_input()) {
        ssize_t got = read(STDIN_FILENO, plain.bytes, sizeof plain.bytes);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        plain.at = 0;
        plain.end = got > 0 ? (size_t)got : 0;
        *why = got < 0 ? HOST_LINE_FAILED : HOST_LINE_END;
        return got > 0;
    }
    *why = HOST_LINE_CANCELLED;
    return false;
}

/* The last line may have no line end; what does not fit is read away. */
static enum host_line plain_line(char *buffer, size_t cap)
{
    size_t length = 0;
    bool any = false;
    enum host_line why = HOST_LINE_OK;
    while (plain.at < plain.end || fill_plain(&why)) {
        const char *from = plain.bytes + plain.at;
        const char *line_end = memchr(from, '\n', plain.end - plain.at);
        size_t bytes = line_end != NULL ? (size_t)(line_end - from) : plain.end - plain.at;
        plain.at += bytes + (line_end != NULL ? 1 : 0);
        any = true;
        if (length < cap) {
            size_t room = cap - length; /* a line that fills the buffer is too long */
            memcpy(buffer + length, from, bytes < room ? bytes : room);
            length += bytes < room ? bytes : room;
        }
        if (line_end != NULL) {
            break;
        }
    }
    if (why == HOST_LINE_CANCELLED || why == HOST_LINE_FAILED || (why == HOST_LINE_END && !any)) {
        return why;
    }
    if (length >= cap) {
        return HOST_LINE_TOO_LONG;
    }
    buffer[length] = '\0';
    return HOST_LINE_OK;
}

enum host_line host_read_line(const char *prompt, char *buffer, size_t cap)
{
    bool terminal = host_is_terminal(HOST_STDIN);
    bool edited = terminal && host_is_terminal(HOST_STDOUT) && has_editor();
    editor.prompt = prompt;
    struct wait_handlers handlers;
    begin_wait(&handlers);
    if (terminal && !edited) {
        fputs(prompt, stderr);
    }
    enum host_line result = edited ? edit_line(buffer, cap) : plain_line(buffer, cap);
    end_wait(&handlers);
    return result;
}
