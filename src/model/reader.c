/* SPDX-License-Identifier: MIT */
#include "model/reader.h"

#include <assert.h>

enum { FIRST_BYTES = 256 << 10, STEP_BYTES_MAX = 8 << 20 };

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void reader_begin(struct reader *reader, const struct os_file *file, struct arena *arena)
{
    unsigned char *ptr = arena_take(arena, 0, 1, OS_DIRECT_ALIGN);
    *reader = (struct reader){file, arena, ptr, 0, arena_mark(arena)};
}

berth_status reader_exact(struct reader *reader, uint64_t wanted_bytes, berth_error *err)
{
    uint64_t target = smaller(wanted_bytes, reader->file->size_bytes);
    uint64_t from = reader->bytes & ~(uint64_t)(OS_DIRECT_ALIGN - 1); /* a part of a page is read again */
    if (target <= reader->bytes) {
        return arena_check(reader->arena, "reading the file's header", err);
    }
    arena_rewind(reader->arena, reader->start + from);
    uint64_t pages = (target - from + (OS_DIRECT_ALIGN - 1)) / OS_DIRECT_ALIGN;
    unsigned char *block = arena_take(reader->arena, pages, OS_DIRECT_ALIGN, OS_DIRECT_ALIGN);
    berth_status status = arena_check(reader->arena, "reading the file's header", err);
    if (status != BERTH_OK) {
        error_at_path(err, reader->file->path);
        return status;
    }
    assert(block == reader->ptr + from);
    TRY(os_file_read(reader->file, from, target - from, block, err));
    TRY(os_file_unchanged(reader->file, err));
    reader->bytes = target;
    return BERTH_OK;
}

berth_status reader_more(struct reader *reader, uint64_t wanted_bytes, berth_error *err)
{
    uint64_t ahead = reader->bytes == 0 ? FIRST_BYTES : reader->bytes + smaller(reader->bytes, STEP_BYTES_MAX);
    return reader_exact(reader, wanted_bytes > ahead ? wanted_bytes : ahead, err);
}

void reader_trim(struct reader *reader, uint64_t kept_bytes)
{
    assert(kept_bytes <= reader->bytes);
    reader->bytes = kept_bytes;
    arena_rewind(reader->arena, reader->start + kept_bytes);
}
