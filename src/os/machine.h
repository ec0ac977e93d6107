/* SPDX-License-Identifier: MIT
 * What kind of machine this is. `root` is "" for this machine, or a directory holding fixture copies of proc/. */
#ifndef OS_MACHINE_H
#define OS_MACHINE_H

#include "base/error.h"

/* All memory of the machine (MemTotal). */
berth_status os_memory_total(const char *root, uint64_t *bytes, berth_error *err);
/* The processor's name as the system gives it, NUL-terminated; false: it does not say. */
bool os_processor_name(const char *root, char *name, size_t cap);

#endif
