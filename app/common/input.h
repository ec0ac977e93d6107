/* SPDX-License-Identifier: MIT
 * Prompts: text from standard input, token ids from the command line or a file. Everything read is bounded. */
#ifndef APP_INPUT_H
#define APP_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INPUT_BYTES_LEAST = 64 << 10, INPUT_BYTES_MAX = 64 << 20 };

/* The most bytes of input that a process of this budget may hold before its plan is made; 0: no budget given. */
uint64_t input_most(uint64_t budget_bytes);

/* Reads standard input to its end. *text is the caller's to free(). The exit code. */
int input_stdin(const char *verb, uint64_t most_bytes, char **text, size_t *bytes);

struct id_list {
    int32_t *ids; /* free() */
    uint32_t count;
};

/* Decimal ids separated by commas or white space: "1,2,3". At least one. The exit code. */
int input_ids(const char *verb, const char *text, uint64_t most_bytes, struct id_list *out);
int input_ids_file(const char *verb, const char *path, uint64_t most_bytes, struct id_list *out);

/* Length of a text that was piped in, without the line end that closes it. */
size_t input_chomp(const char *text, size_t bytes);

#endif
