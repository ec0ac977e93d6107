/* SPDX-License-Identifier: MIT
 * Progressive direct reads of the front of a file into an arena: the blocks it takes lie one behind the other, so what
 * has been read is one piece of memory. Nothing else may take from the arena between begin and the last use of more. */
#ifndef MODEL_READER_H
#define MODEL_READER_H

#include "memory/arena.h"
#include "os/file.h"

struct reader {
    const struct os_file *file;
    struct arena *arena;
    unsigned char *ptr;
    uint64_t bytes; /* read so far, from the start of the file */
    uint64_t start; /* of ptr in the arena */
};

void reader_begin(struct reader *reader, const struct os_file *file, struct arena *arena);
/* Afterwards `wanted` bytes (or the whole file, if that is shorter) are there, and usually some more. */
berth_status reader_more(struct reader *reader, uint64_t wanted_bytes, berth_error *err);
/* The same without reading ahead. */
berth_status reader_exact(struct reader *reader, uint64_t wanted_bytes, berth_error *err);
/* Gives back what lies behind the first `kept` bytes. */
void reader_trim(struct reader *reader, uint64_t kept_bytes);

#endif
