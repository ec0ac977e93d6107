/* SPDX-License-Identifier: MIT
 *
 * The program's own dealings with the operating system: terminals, signals, this process's memory figures, line
 * editing. host*.c are the only POSIX of app/.
 */
#ifndef APP_HOST_H
#define APP_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "berth.h"

/* First thing in main(): makes sure that descriptors 0..2 are taken (so that no model file becomes "standard output")
 * and that writing to a closed pipe is an error instead of a signal. */
void host_start(void);

enum host_stream { HOST_STDIN = 0, HOST_STDOUT = 1, HOST_STDERR = 2 };
bool host_is_terminal(enum host_stream stream);
/* Rows and columns of the terminal on a stream; false when it is none. */
bool host_terminal_size(enum host_stream stream, uint32_t *rows, uint32_t *columns);

/* An environment variable that is set and not empty; NULL: it is not. */
const char *host_setting(const char *name);

uint64_t host_now_ns(void); /* monotonic */
uint64_t host_seed(void);   /* differs from run to run */
/* A directory, or a file that exists; 0 bytes for directories. */
bool host_file_size(const char *path, uint64_t *bytes);

/* Where this user's state lies: $BERTH_HOME (relative: to the current directory), else $XDG_STATE_HOME/berth, else
 * $HOME/.local/state/berth. False: none of them is set, or the path is too long. */
enum { HOST_PATH_MAX = 512 };
bool host_state_dir(char *path, size_t cap);

/* A directory and its parents, for this user alone. */
bool host_make_directory(const char *path);
/* A file that only this user may read, empty when it is new. */
bool host_make_private_file(const char *path);
/* Drops a file's pages from the page cache, where they would count as our memory. */
void host_drop_cache(const char *path);

/* Removes a plain file; devices, pipes and links are left alone. */
void host_remove_file(const char *path);
/* Opens a file of the user's for reading. At a pipe whose writer is absent or idle a signal ends the wait, here (NULL)
 * or while it is read (an error of the stream): EINTR. */
FILE *host_open_text(const char *path);

/* Creates or empties a file for writing. At a pipe whose reader is absent or idle a signal ends the wait, as above. */
FILE *host_open_output(const char *path);

/* A plain file that this process has open, by whatever name: the model, or an output that was opened before. */
bool host_file_in_use(const char *path);

/* Brings what was written to disk and drops it from the page cache, where it would count as our memory. Files that
 * cannot be synced (pipes) are left as they are. False: a write was lost, errno says why. */
bool host_write_through(FILE *file);

/* Interrupts: the first SIGINT, SIGTERM or SIGHUP (a closed terminal) asks (host_interrupted(), and the session's eval
 * is cancelled), the second ends the process with the same exit status, after the terminal was put right and the files
 * named by host_temporary() were removed. While host_hold(true) is in force, it is the tenth that ends it: what is
 * being cleaned up has names that only the library knows. host_watch(NULL) forgets the session. */
void host_catch_interrupts(void);
void host_watch(berth_session *session);
bool host_interrupted(void);
void host_interrupt_clear(void);
/* Exit code for the signal that came: 130, 143 or 129. */
int host_interrupt_code(void);
void host_hold(bool hold);
/* A plain file that must not outlive an interrupt, until done; at most four at a time. The path is borrowed. */
void host_temporary(const char *path);
void host_temporary_done(const char *path);
/* What to write to stderr when a second signal ends the process; static text, NULL: nothing. */
void host_set_farewell(const char *sequence);

/* What the kernel counted for this process. Zero fields are unknown. */
struct host_peak {
    uint64_t resident_bytes; /* VmHWM */
    uint64_t cgroup_bytes;   /* highest charge of the memory cgroup we run in (all its processes, since it was made) */
    uint64_t cgroup_limit_bytes; /* UINT64_MAX: none */
    char cgroup_file[320];
};
void host_read_peak(struct host_peak *out);

/* One line from standard input into buffer (NUL-terminated, without the line end). With a terminal and libedit on the
 * machine the line can be edited and earlier ones recalled. A signal gives the line up, not the program: CANCELLED,
 * host_line_signal() says which one. */
enum host_line { HOST_LINE_OK, HOST_LINE_END, HOST_LINE_TOO_LONG, HOST_LINE_FAILED, HOST_LINE_CANCELLED };
int host_line_signal(void);
enum host_line host_read_line(const char *prompt, char *buffer, size_t cap);

/* Runs work(user, result) in a process of its own and brings `result` back; *code is what it returned, or 128 and the
 * signal that ended it. False: no process could be made, errno says why. Only before threads are started. */
bool host_in_child(int (*work)(void *user, void *result), void *user, void *result, size_t bytes, int *code);

#endif
