/* SPDX-License-Identifier: MIT */
#ifndef OS_CPU_TEXT_H
#define OS_CPU_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A small file as a NUL-terminated string, cut at cap - 1 bytes; false: it cannot be read or is empty. */
bool os_cpu_text(const char *path, char *text, size_t cap);

#endif
