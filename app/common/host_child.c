/* SPDX-License-Identifier: MIT
 * host_in_child(): a piece of work in a process of its own, so that what it leaves behind does not matter. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/host.h"

static bool read_all(int fd, void *buffer, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = read(fd, (char *)buffer + done, bytes - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *buffer, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t put = write(fd, (const char *)buffer + done, bytes - done);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        done += (size_t)put;
    }
    return true;
}

bool host_in_child(int (*work)(void *user, void *result), void *user, void *result, size_t bytes, int *code)
{
    int ends[2];
    (void)fflush(NULL); /* the child must not print what waits in our buffers a second time */
    if (pipe(ends) != 0) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        int done = work(user, result);
        bool told = write_all(ends[1], result, bytes);
        (void)fflush(NULL);
        _exit(told || done != 0 ? done : 1);
    }
    int error = errno;
    (void)close(ends[1]);
    if (child < 0) {
        (void)close(ends[0]);
        errno = error;
        return false;
    }
    bool got = read_all(ends[0], result, bytes);
    (void)close(ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    *code = *code == 0 && !got ? 1 : *code;
    return true;
}
