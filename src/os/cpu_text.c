/* SPDX-License-Identifier: MIT
 * Files of a line or two, as the kernel has them about processors. */
#include "os/cpu_text.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool os_cpu_text(const char *path, char *text, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t used = 0;
    ssize_t got = 1;
    while (used < cap - 1 && got != 0) {
        got = read(fd, text + used, cap - 1 - used);
        if (got < 0 && errno != EINTR) {
            break;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    text[used] = '\0';
    return got >= 0 && used > 0;
}
