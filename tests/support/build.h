/* SPDX-License-Identifier: MIT
 * Handmade file images for the parsers' tests. */
#ifndef TESTS_SUPPORT_BUILD_H
#define TESTS_SUPPORT_BUILD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/meta.h"

struct build {
    unsigned char *ptr;
    size_t bytes, cap;
};

static inline void build_free(struct build *b)
{
    free(b->ptr);
    *b = (struct build){NULL, 0, 0};
}

static inline void build_put(struct build *b, const void *data, size_t bytes)
{
    if (b->bytes + bytes > b->cap) {
        b->cap = 2 * (b->bytes + bytes);
        b->ptr = realloc(b->ptr, b->cap);
    }
    if (bytes > 0) {
        memcpy(b->ptr + b->bytes, data, bytes);
    }
    b->bytes += bytes;
}

static inline void build_zero(struct build *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        build_put(b, "", 1);
    }
}

static inline void build_u8(struct build *b, uint8_t v)
{
    build_put(b, &v, sizeof v);
}

static inline void build_u32(struct build *b, uint32_t v)
{
    build_put(b, &v, sizeof v);
}

static inline void build_u64(struct build *b, uint64_t v)
{
    build_put(b, &v, sizeof v);
}

static inline void build_text(struct build *b, const char *text)
{
    build_put(b, text, strlen(text));
}

/* ---- GGUF ------------------------------------------------------------------------------------------- */

static inline void build_str(struct build *b, const char *text)
{
    build_u64(b, strlen(text));
    build_text(b, text);
}

static inline void build_head(struct build *b, uint32_t version, uint64_t tensors, uint64_t pairs)
{
    build_text(b, "GGUF");
    build_u32(b, version);
    build_u64(b, tensors);
    build_u64(b, pairs);
}

static inline void build_key(struct build *b, const char *key, uint32_t type)
{
    build_str(b, key);
    build_u32(b, type);
}

static inline void build_key_u32(struct build *b, const char *key, uint32_t value)
{
    build_key(b, key, META_U32);
    build_u32(b, value);
}

static inline void build_key_str(struct build *b, const char *key, const char *value)
{
    build_key(b, key, META_STRING);
    build_str(b, value);
}

static inline void build_array(struct build *b, const char *key, uint32_t item_type, uint64_t count)
{
    build_key(b, key, META_ARRAY);
    build_u32(b, item_type);
    build_u64(b, count);
}

/* dims as in the file: innermost first */
static inline void build_tensor(struct build *b, const char *name, uint32_t dims_count, const uint64_t *dims,
                                uint32_t type, uint64_t offset)
{
    build_str(b, name);
    build_u32(b, dims_count);
    for (uint32_t i = 0; i < dims_count; i++) {
        build_u64(b, dims[i]);
    }
    build_u32(b, type);
    build_u64(b, offset);
}

static inline void build_pad(struct build *b, size_t align)
{
    build_zero(b, (align - b->bytes % align) % align);
}

/* ---- safetensors ------------------------------------------------------------------------------------ */

/* Length, header text, data_bytes zeros. */
static inline void build_safetensors(struct build *b, const char *header, size_t data_bytes)
{
    build_u64(b, strlen(header));
    build_text(b, header);
    build_zero(b, data_bytes);
}

/* ---- files ------------------------------------------------------------------------------------------ */

static inline int build_write(const struct build *b, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return -1;
    }
    size_t put = b->bytes == 0 ? 0 : fwrite(b->ptr, 1, b->bytes, file);
    return fclose(file) == 0 && put == b->bytes ? 0 : -1;
}

#endif
