/* SPDX-License-Identifier: MIT
 * GGUF version 3 writer. Numbers are stored as they lie in memory: base/bytes.h refuses big-endian hosts. */
#include "convert/gguf_write.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

void gguf_append(struct gguf_bytes *bytes, const void *data, uint64_t count)
{
    if (bytes->failed || count > bytes->cap_bytes - bytes->used_bytes) {
        bytes->failed = true;
        return;
    }
    if (count > 0) {
        memcpy(bytes->ptr + bytes->used_bytes, data, (size_t)count);
        bytes->used_bytes += count;
    }
}

void gguf_append_u32(struct gguf_bytes *bytes, uint32_t value)
{
    gguf_append(bytes, &value, sizeof value);
}

void gguf_append_u64(struct gguf_bytes *bytes, uint64_t value)
{
    gguf_append(bytes, &value, sizeof value);
}

void gguf_append_str(struct gguf_bytes *bytes, struct str text)
{
    gguf_append_u64(bytes, text.bytes);
    gguf_append(bytes, text.ptr, text.bytes);
}

static void begin_pair(struct gguf_meta *meta, struct str key, enum meta_type type)
{
    gguf_append_str(&meta->bytes, key);
    gguf_append_u32(&meta->bytes, (uint32_t)type);
    meta->count++;
}

void gguf_meta_u16(struct gguf_meta *meta, const char *key, uint16_t value)
{
    begin_pair(meta, str_from(key), META_U16);
    gguf_append(&meta->bytes, &value, sizeof value);
}

void gguf_meta_u32(struct gguf_meta *meta, const char *key, uint32_t value)
{
    begin_pair(meta, str_from(key), META_U32);
    gguf_append_u32(&meta->bytes, value);
}

void gguf_meta_i32(struct gguf_meta *meta, const char *key, int32_t value)
{
    begin_pair(meta, str_from(key), META_I32);
    gguf_append(&meta->bytes, &value, sizeof value);
}

void gguf_meta_f32(struct gguf_meta *meta, const char *key, float value)
{
    begin_pair(meta, str_from(key), META_F32);
    gguf_append(&meta->bytes, &value, sizeof value);
}

void gguf_meta_bool(struct gguf_meta *meta, const char *key, bool value)
{
    unsigned char byte = value ? 1 : 0;
    begin_pair(meta, str_from(key), META_BOOL);
    gguf_append(&meta->bytes, &byte, 1);
}

void gguf_meta_str(struct gguf_meta *meta, const char *key, struct str value)
{
    begin_pair(meta, str_from(key), META_STRING);
    gguf_append_str(&meta->bytes, value);
}

void gguf_meta_array(struct gguf_meta *meta, const char *key, enum meta_type item_type, uint64_t count)
{
    begin_pair(meta, str_from(key), META_ARRAY);
    gguf_append_u32(&meta->bytes, (uint32_t)item_type);
    gguf_append_u64(&meta->bytes, count);
}

void gguf_meta_copy(struct gguf_meta *meta, const struct meta_pair *pair)
{
    begin_pair(meta, pair->key, pair->type);
    if (pair->type == META_ARRAY) {
        gguf_append_u32(&meta->bytes, (uint32_t)pair->item_type);
        gguf_append_u64(&meta->bytes, pair->count);
    }
    gguf_append(&meta->bytes, pair->value, pair->value_bytes);
}

berth_status gguf_place(struct gguf_tensor *tensors, uint32_t count, uint32_t alignment, uint64_t split_bytes,
                        uint32_t *parts, berth_error *err)
{
    assert(alignment >= 8 && (alignment & (alignment - 1)) == 0);
    uint32_t part = 0;
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct gguf_tensor *tensor = &tensors[i];
        uint64_t end;
        if (u64_add_overflows(at, tensor->bytes, &end) || u64_round_up_overflows(end, alignment, &end)) {
            error_set(err, BERTH_ERR_LIMIT, "the tensors' sizes add up to more than 64 bits");
            error_at_object(err, tensor->name.ptr, tensor->name.bytes);
            return BERTH_ERR_LIMIT;
        }
        if (split_bytes != 0 && at != 0 && end > split_bytes) {
            part++;
            end -= at;
            at = 0;
        }
        tensor->part = part;
        tensor->offset = at;
        at = end;
    }
    if (part >= GGUF_PARTS_MAX) {
        return error_set(err, BERTH_ERR_LIMIT,
                         "parts of %llu bytes would make %u files, at most %d are allowed; ask for larger parts",
                         (unsigned long long)split_bytes, part + 1, GGUF_PARTS_MAX);
    }
    *parts = part + 1;
    return BERTH_OK;
}

berth_status gguf_part_path(const char *path, uint32_t part, uint32_t parts, char *out, size_t cap, berth_error *err)
{
    size_t bytes = strlen(path);
    int written;
    if (parts == 1) {
        written = snprintf(out, cap, "%s", path);
    } else {
        size_t stem = str_ends(str_from(path), STR(".gguf")) ? bytes - 5 : bytes;
        if (stem >= cap) {
            stem = cap - 1; /* the check below reports it */
        }
        written = snprintf(out, cap, "%.*s-%05u-of-%05u.gguf", (int)stem, path, part + 1, parts);
    }
    if (written < 0 || (size_t)written >= cap) {
        error_set(err, BERTH_ERR_LIMIT, "the output path has %zu bytes, at most %zu fit", bytes, cap - 1);
        error_at_path(err, path);
        return BERTH_ERR_LIMIT;
    }
    return BERTH_OK;
}

static void append_tensor_info(struct gguf_bytes *head, const struct gguf_tensor *tensor)
{
    gguf_append_str(head, tensor->name);
    gguf_append_u32(head, tensor->dims_count);
    for (uint32_t d = tensor->dims_count; d-- > 0;) {
        gguf_append_u64(head, tensor->dims[d]);
    }
    gguf_append_u32(head, (uint32_t)quant_row(tensor->dtype)->ggml_id);
    gguf_append_u64(head, tensor->offset);
}

/* The header of one part, up to the start of its data section. */
static void compose_head(const struct gguf_writer_config *config, uint32_t part)
{
    struct gguf_meta own = {.bytes = *config->head};
    own.bytes.used_bytes = 0;
    gguf_append(&own.bytes, "GGUF", 4);
    gguf_append_u32(&own.bytes, 3);
    uint64_t tensors = 0;
    for (uint32_t i = 0; i < config->tensors_count; i++) {
        tensors += config->tensors[i].part == part ? 1 : 0;
    }
    gguf_append_u64(&own.bytes, tensors);
    uint64_t count_at = own.bytes.used_bytes;
    gguf_append_u64(&own.bytes, 0);
    if (part == 0) {
        gguf_append(&own.bytes, config->meta->bytes.ptr, config->meta->bytes.used_bytes);
        own.count = config->meta->count;
    }
    if (config->alignment != GGUF_ALIGNMENT_DEFAULT) {
        gguf_meta_u32(&own, "general.alignment", config->alignment);
    }
    if (config->parts > 1) {
        gguf_meta_u16(&own, "split.no", (uint16_t)part);
        gguf_meta_u16(&own, "split.count", (uint16_t)config->parts);
        gguf_meta_i32(&own, "split.tensors.count", (int32_t)config->tensors_count);
    }
    for (uint32_t i = 0; i < config->tensors_count; i++) {
        if (config->tensors[i].part == part) {
            append_tensor_info(&own.bytes, &config->tensors[i]);
        }
    }
    if (!own.bytes.failed) {
        memcpy(own.bytes.ptr + count_at, &own.count, sizeof own.count);
    }
    *config->head = own.bytes;
}

static berth_status put_zeros(struct os_writer *writer, uint64_t count, berth_error *err)
{
    static const unsigned char zeros[1024];
    while (count > 0) {
        size_t step = count < sizeof zeros ? (size_t)count : sizeof zeros;
        TRY(os_writer_put(writer, zeros, step, err));
        count -= step;
    }
    return BERTH_OK;
}

static uint64_t padding(uint64_t bytes, uint32_t alignment)
{
    return (alignment - bytes % alignment) % alignment;
}

static berth_status open_part(struct gguf_writer *writer, const struct gguf_writer_config *config, berth_error *err)
{
    uint32_t part = writer->opened;
    struct os_writer *file = &config->writers[part];
    char path[sizeof file->path];
    TRY(gguf_part_path(config->path, part, config->parts, path, sizeof path, err));
    compose_head(config, part);
    if (config->head->failed) {
        return error_set(err, BERTH_ERR_LIMIT, "the header of part %u needs more than the %llu bytes set aside for it",
                         part + 1, (unsigned long long)config->head->cap_bytes);
    }
    TRY(os_writer_open(file, path, config->buffers + (size_t)part * GGUF_WRITER_BUFFER_BYTES, GGUF_WRITER_BUFFER_BYTES,
                       err));
    writer->opened++;
    TRY(os_writer_put(file, config->head->ptr, (size_t)config->head->used_bytes, err));
    return put_zeros(file, padding(config->head->used_bytes, config->alignment), err);
}

/* Tensors without data need no put: steps over them. */
static void skip_empty(struct gguf_writer *writer)
{
    while (writer->next < writer->tensors_count && writer->tensors[writer->next].bytes == 0) {
        writer->next++;
    }
    writer->left_bytes = writer->next < writer->tensors_count ? writer->tensors[writer->next].bytes : 0;
}

berth_status gguf_writer_open(struct gguf_writer *writer, const struct gguf_writer_config *config, berth_error *err)
{
    *writer = (struct gguf_writer){.tensors = config->tensors,
                                   .tensors_count = config->tensors_count,
                                   .alignment = config->alignment,
                                   .parts = config->parts,
                                   .writers = config->writers};
    for (uint32_t part = 0; part < config->parts; part++) {
        berth_status status = open_part(writer, config, err);
        if (status != BERTH_OK) {
            gguf_writer_abandon(writer);
            return status;
        }
    }
    skip_empty(writer);
    return BERTH_OK;
}

berth_status gguf_writer_put(struct gguf_writer *writer, const void *data, uint64_t bytes, berth_error *err)
{
    const unsigned char *at = data;
    while (bytes > 0) {
        if (writer->next >= writer->tensors_count) {
            return error_set(err, BERTH_ERR_INTERNAL, "%llu bytes of data after the last tensor",
                             (unsigned long long)bytes);
        }
        const struct gguf_tensor *tensor = &writer->tensors[writer->next];
        struct os_writer *file = &writer->writers[tensor->part];
        uint64_t step = bytes < writer->left_bytes ? bytes : writer->left_bytes;
        TRY(os_writer_put(file, at, (size_t)step, err));
        at += step;
        bytes -= step;
        writer->left_bytes -= step;
        if (writer->left_bytes == 0) {
            TRY(put_zeros(file, padding(tensor->bytes, writer->alignment), err));
            writer->next++;
            skip_empty(writer);
        }
    }
    return BERTH_OK;
}

berth_status gguf_writer_finish(struct gguf_writer *writer, berth_error *err)
{
    if (writer->next != writer->tensors_count) {
        return error_set(err, BERTH_ERR_INTERNAL, "tensor %u of %u has %llu bytes of data missing", writer->next,
                         writer->tensors_count, (unsigned long long)writer->left_bytes);
    }
    for (uint32_t part = 0; part < writer->parts; part++) {
        TRY(os_writer_sync(&writer->writers[part], err));
    }
    /* The first part last: without it no reader takes the others for a model. */
    for (uint32_t part = writer->parts; part-- > 0;) {
        berth_status status = os_writer_finish(&writer->writers[part], err);
        if (status != BERTH_OK) {
            for (uint32_t done = part + 1; done < writer->parts; done++) {
                os_writer_take_back(&writer->writers[done]);
            }
            return status;
        }
    }
    return BERTH_OK;
}

void gguf_writer_abandon(struct gguf_writer *writer)
{
    for (uint32_t part = 0; part < writer->opened; part++) {
        os_writer_abandon(&writer->writers[part]);
    }
    writer->opened = 0;
}
