/* SPDX-License-Identifier: MIT
 * What kind of machine this is. `root` is "" for this machine, or a directory holding fixture copies of proc/. */
#ifndef OS_MACHINE_H
#define OS_MACHINE_H

#include "base/error.h"

/* All memory of the machine (MemTotal). */
berth_status os_memory_total(const char *root, uint64_t *bytes, berth_error *err);
/* The processor's name as the system gives it, NUL-terminated; false: it does not say. */
bool os_processor_name(const char *root, char *name, size_t cap);

/* The running kernel: "Linux 6.1.0-18-amd64". */
void os_kernel_name(char *name, size_t cap);

/* The file system a path lies on. */
struct os_volume {
    uint64_t device;  /* st_dev: differs between file systems, not stable over reboots */
    char source[128]; /* "/dev/nvme0n1p2"; "" when the mount table does not say */
    char type[32];    /* "ext4" */
    char mount[256];  /* where it is mounted */
};
berth_status os_volume_of(const char *root, const char *path, struct os_volume *out, berth_error *err);

#endif
