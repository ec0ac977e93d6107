/* SPDX-License-Identifier: MIT
 *
 * GGUF version 3 writer: metadata pairs, tensor infos, padded tensor data, one file or parts. Two passes: sizes and
 * places of all tensors are known (gguf_place()) before the first byte is written, so that data streams through.
 *
 * Layout of a file (GGUF specification, version 3; everything little-endian):
 *     "GGUF" u32 version, u64 tensors, u64 pairs
 *     pair:   string key, u32 type, value            string: u64 bytes, then the bytes
 *     tensor: string name, u32 dims, u64 dims[] innermost first, u32 type, u64 offset from the data section
 *     zeros up to the alignment, then every tensor's data, each padded with zeros to the alignment
 * Parts (as llama.cpp names and reads them): NAME-00001-of-00003.gguf, each a complete file with its own tensors; the
 * first one carries all metadata, every one split.no (u16), split.count (u16) and split.tensors.count (i32).
 */
#ifndef CONVERT_GGUF_WRITE_H
#define CONVERT_GGUF_WRITE_H

#include "model/meta.h"
#include "model/tensors.h"
#include "os/file.h"

enum {
    GGUF_ALIGNMENT_DEFAULT = 32,
    GGUF_ALIGNMENT_MAX = 1 << 20,
    GGUF_PARTS_MAX = 512, /* each holds a descriptor until all are complete; the usual limit is 1,024 */
    GGUF_WRITER_BUFFER_BYTES = 16 * 1024
};

/* Bytes in a region of the caller. `failed` is sticky: an append that does not fit sets it and appends nothing. */
struct gguf_bytes {
    unsigned char *ptr;
    uint64_t used_bytes, cap_bytes;
    bool failed;
};
void gguf_append(struct gguf_bytes *bytes, const void *data, uint64_t count);
void gguf_append_u32(struct gguf_bytes *bytes, uint32_t value);
void gguf_append_u64(struct gguf_bytes *bytes, uint64_t value);
void gguf_append_str(struct gguf_bytes *bytes, struct str text); /* with its length */

/* Metadata under construction. */
struct gguf_meta {
    struct gguf_bytes bytes;
    uint64_t count;
};
void gguf_meta_u16(struct gguf_meta *meta, const char *key, uint16_t value);
void gguf_meta_u32(struct gguf_meta *meta, const char *key, uint32_t value);
void gguf_meta_i32(struct gguf_meta *meta, const char *key, int32_t value);
void gguf_meta_f32(struct gguf_meta *meta, const char *key, float value);
void gguf_meta_bool(struct gguf_meta *meta, const char *key, bool value);
void gguf_meta_str(struct gguf_meta *meta, const char *key, struct str value);
/* Starts an array; append exactly `count` items to meta->bytes afterwards. */
void gguf_meta_array(struct gguf_meta *meta, const char *key, enum meta_type item_type, uint64_t count);
/* Copies a parsed pair as it is: any type, byte for byte. */
void gguf_meta_copy(struct gguf_meta *meta, const struct meta_pair *pair);

struct gguf_tensor {
    struct str name;
    enum dtype dtype;
    uint32_t dims_count;
    uint64_t dims[TENSOR_DIMS_MAX]; /* row-major, outermost first */
    uint64_t bytes;
    /* Filled by gguf_place(): */
    uint32_t part;
    uint64_t offset; /* from the part's data section */
};

/* Gives every tensor its part and place, in the given order. split_bytes 0: one part; otherwise a part is closed before
 * the tensor that would take its data past split_bytes. */
berth_status gguf_place(struct gguf_tensor *tensors, uint32_t count, uint32_t alignment, uint64_t split_bytes,
                        uint32_t *parts, berth_error *err);

/* Path of a part (0-based) of `path`: itself when there is one part, else NAME-%05u-of-%05u.gguf. */
berth_status gguf_part_path(const char *path, uint32_t part, uint32_t parts, char *out, size_t cap, berth_error *err);

struct gguf_writer {
    const struct gguf_tensor *tensors;
    uint32_t tensors_count, alignment, parts;
    struct os_writer *writers; /* [parts] */
    uint32_t opened;           /* writers opened so far */
    uint32_t next;             /* tensor whose data comes next */
    uint64_t left_bytes;       /* data bytes of tensor `next` not yet put */
};
struct gguf_writer_config {
    const char *path;
    const struct gguf_tensor *tensors; /* placed; borrowed until finish or abandon */
    uint32_t tensors_count, parts, alignment;
    const struct gguf_meta *meta; /* without general.alignment and split.* */
    struct gguf_bytes *head;      /* scratch for one part's header */
    struct os_writer *writers;    /* [parts], caller memory */
    unsigned char *buffers;       /* [parts][GGUF_WRITER_BUFFER_BYTES], caller memory */
};
/* Creates every part's temporary file and writes its header. On failure nothing is left behind. */
berth_status gguf_writer_open(struct gguf_writer *writer, const struct gguf_writer_config *config, berth_error *err);
/* The next bytes of data: tensors in order, each exactly its `bytes` in total; padding is added here. */
berth_status gguf_writer_put(struct gguf_writer *writer, const void *data, uint64_t bytes, berth_error *err);
/* Renames all parts into place. On failure the caller still abandons. */
berth_status gguf_writer_finish(struct gguf_writer *writer, berth_error *err);
/* Removes what was not finished. Safe after finish and after a failed open. */
void gguf_writer_abandon(struct gguf_writer *writer);

#endif
