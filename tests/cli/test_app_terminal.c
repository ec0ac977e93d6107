/* SPDX-License-Identifier: MIT
 * The program on a terminal: the live line, interrupts, line editing. Runs the built program on a pseudo-terminal with
 * the bundled model; BERTH_PROGRAM and BERTH_MODEL are paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

enum { SCREEN_BYTES = 1 << 20, PATIENCE_MS = 60000 };

static struct {
    pid_t pid;
    int master, slave;
    char screen[SCREEN_BYTES]; /* everything the program wrote */
    size_t bytes, seen;
} terminal;

/* A line waits for its reader; a ^D typed while the terminal changes its mode would be lost. */
#define LEAVE "/exit\n"

static void start(const char *const *arguments)
{
    const struct winsize size = {.ws_row = 24, .ws_col = 100};
    terminal.bytes = terminal.seen = 0;
    assert_int_equal(openpty(&terminal.master, &terminal.slave, NULL, NULL, &size), 0);
    terminal.pid = fork();
    if (terminal.pid == 0) {
        char *words[16] = {NULL};
        for (size_t i = 0; arguments[i] != NULL && i < 15; i++) {
            words[i] = strdup(arguments[i]);
        }
        setenv("TERM", "xterm", 1);
        setenv("LC_ALL", "C", 1);
        if (login_tty(terminal.slave) == 0) {
            execv(BERTH_PROGRAM, words);
        }
        _exit(127);
    }
    assert_true(terminal.pid > 0);
}

/* Reads until `text` appears behind what was waited for before. */
static void wait_for(const char *text)
{
    for (;;) {
        terminal.screen[terminal.bytes] = '\0';
        const char *found = strstr(terminal.screen + terminal.seen, text);
        if (found != NULL) {
            terminal.seen = (size_t)(found - terminal.screen) + strlen(text);
            return;
        }
        struct pollfd ready = {.fd = terminal.master, .events = POLLIN};
        ssize_t got = poll(&ready, 1, PATIENCE_MS) == 1 ? read(terminal.master, terminal.screen + terminal.bytes,
                                                               sizeof terminal.screen - 1 - terminal.bytes)
                                                        : 0;
        if (got <= 0) {
            kill(terminal.pid, SIGKILL);
            fail_msg("'%s' did not appear; the screen: %s", text, terminal.screen);
        }
        terminal.bytes += (size_t)got;
    }
}

static void type(const char *text)
{
    assert_int_equal(write(terminal.master, text, strlen(text)), strlen(text));
}

/* Exit status, or minus the signal. Whatever is still written is drained meanwhile. */
static int finish(void)
{
    int status;
    int polls = 0;
    while (waitpid(terminal.pid, &status, WNOHANG) == 0) {
        if (++polls > 3000) { /* 20 ms each when nothing is written */
            kill(terminal.pid, SIGKILL);
        }
        struct pollfd ready = {.fd = terminal.master, .events = POLLIN};
        if (poll(&ready, 1, 20) == 1 && terminal.bytes < sizeof terminal.screen - 1) {
            ssize_t got =
                read(terminal.master, terminal.screen + terminal.bytes, sizeof terminal.screen - 1 - terminal.bytes);
            terminal.bytes += got > 0 ? (size_t)got : 0;
        }
    }
    terminal.screen[terminal.bytes] = '\0';
    struct termios modes;
    assert_int_equal(tcgetattr(terminal.slave, &modes), 0);
    assert_true((modes.c_lflag & ICANON) != 0 && (modes.c_lflag & ECHO) != 0);
    close(terminal.master);
    close(terminal.slave);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void an_interrupt_ends_the_answer_with_a_summary(void **state)
{
    (void)state;
    start((const char *const[]){"berth", "run", BERTH_MODEL, "-p", "The kernel", "-n", "1000", "--stop", "\x01", NULL});
    wait_for("\033[1;23r"); /* the region above the live line */
    wait_for("tok/s");
    wait_for("limit");
    kill(terminal.pid, SIGINT);
    wait_for("\033[r");
    wait_for(", interrupted");
    wait_for("memory   peak");
    assert_int_equal(finish(), 130);
}

static void termination_has_its_own_status(void **state)
{
    (void)state;
    start((const char *const[]){"berth", "run", BERTH_MODEL, "-p", "The kernel", "-n", "1000", "--stop", "\x01", NULL});
    wait_for("  hits ");
    kill(terminal.pid, SIGTERM);
    wait_for(", interrupted");
    assert_int_equal(finish(), 143);
}

static void quiet_is_quiet(void **state)
{
    (void)state;
    start((const char *const[]){"berth", "run", BERTH_MODEL, "-p", "The kernel", "-n", "40", "--quiet", NULL});
    assert_int_equal(finish(), 0);
    assert_null(strchr(terminal.screen, '\033'));
    assert_null(strstr(terminal.screen, "tok/s"));
    assert_true(terminal.bytes > 20);
}

static void a_conversation_can_be_interrupted_and_goes_on(void **state)
{
    (void)state;
    /* Slow on purpose, with the reference kernels. The answer has about 80 tokens. */
    start((const char *const[]){"berth", "chat", BERTH_MODEL, "--temp", "0", "--isa", "ref", NULL});
    wait_for("> ");
    type("What is a compiler?\n");
    wait_for("Compiler");
    type("\x03");
    wait_for("written");
    wait_for("> ");
    type("And a linker?\n");
    wait_for("new tokens read");
    wait_for("> ");
    type(LEAVE);
    assert_int_equal(finish(), 0);
}

static void lines_are_edited_and_recalled(void **state)
{
    (void)state;
    if (access("/usr/lib/x86_64-linux-gnu/libedit.so.2", R_OK) != 0) {
        print_message("SKIP: libedit.so.2 is not here\n");
        skip();
    }
    start((const char *const[]){"berth", "chat", BERTH_MODEL, "--temp", "0", "-n", "3", NULL});
    wait_for("> ");
    type("/hexx\x7f\x7flp\n"); /* two characters rubbed out */
    wait_for("/reset  forget");
    wait_for("> ");
    type("\033[A\n"); /* up: the line before */
    wait_for("/reset  forget");
    wait_for("> ");
    type("half a line\x03"); /* an interrupt at the prompt gives the line up */
    wait_for("that line is given up");
    wait_for("> ");
    type("/help\n"); /* and what follows is a line of its own */
    wait_for("/reset  forget");
    wait_for("> ");
    type("\x03");
    wait_for("that line is given up");
    wait_for("> ");
    type("\x03");
    assert_int_equal(finish(), 130);
}

static void what_is_typed_is_utf8_in_every_locale(void **state)
{
    (void)state;
    start((const char *const[]){"berth", "chat", BERTH_MODEL, "-n", "3", NULL});
    wait_for("> ");
    type("/h\u00e9\u65e5\n");
    wait_for("unknown command /h\u00e9\u65e5;");
    wait_for("> ");
    type(LEAVE);
    assert_int_equal(finish(), 0);
}

int main(void)
{
    if (access(BERTH_MODEL, R_OK) != 0) {
        puts("SKIP: the bundled model is not here");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interrupt_ends_the_answer_with_a_summary),
        cmocka_unit_test(termination_has_its_own_status),
        cmocka_unit_test(quiet_is_quiet),
        cmocka_unit_test(a_conversation_can_be_interrupted_and_goes_on),
        cmocka_unit_test(lines_are_edited_and_recalled),
        cmocka_unit_test(what_is_typed_is_utf8_in_every_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
