/* SPDX-License-Identifier: MIT
 * Opening GGUF files. A split model is a set PREFIX-%05u-of-%05u.gguf; each shard is a GGUF file with keys split.no
 * (0-based), split.count and split.tensors.count (of the whole set); only the first one has the model's metadata. */
#include <stdio.h>

#include "base/checked.h"
#include "model/checkpoint_parts.h"
#include "model/gguf.h"
#include "model/reader.h"

enum { SUFFIX_BYTES = sizeof "-00001-of-00005.gguf" - 1 };

struct shard {
    struct gguf_scan scan;
    const unsigned char *ptr;
    struct meta meta;
    uint64_t no, count, tensors; /* the split keys; 0, 1 and the shard's own number when absent */
};

static bool five_digits(const char *ptr, uint32_t *out)
{
    uint32_t value = 0;
    for (size_t i = 0; i < 5; i++) {
        if (ptr[i] < '0' || ptr[i] > '9') {
            return false;
        }
        value = value * 10 + (uint32_t)(ptr[i] - '0');
    }
    *out = value;
    return true;
}

bool checkpoint_shard_name(struct str name, struct shard_name *out)
{
    if (name.bytes < SUFFIX_BYTES) {
        return false;
    }
    const char *suffix = name.ptr + (name.bytes - SUFFIX_BYTES);
    *out = (struct shard_name){.prefix_bytes = name.bytes - SUFFIX_BYTES};
    return suffix[0] == '-' && five_digits(suffix + 1, &out->part) && memcmp(suffix + 6, "-of-", 4) == 0 &&
           five_digits(suffix + 10, &out->parts) && memcmp(suffix + 15, ".gguf", 5) == 0 && out->part >= 1 &&
           out->part <= out->parts;
}

static berth_status at_file(berth_status status, const struct os_file *file, berth_error *err)
{
    if (status != BERTH_OK && (err == NULL || err->path[0] == '\0')) {
        error_at_path(err, file->path);
    }
    return status;
}

static berth_status read_header(struct opening *o, const struct os_file *file, struct shard *shard, berth_error *err)
{
    struct reader reader;
    bool complete = false;
    reader_begin(&reader, file, o->scratch);
    gguf_scan_begin(&shard->scan, file->size_bytes);
    while (!complete) {
        TRY(reader_more(&reader, shard->scan.need_bytes, err));
        TRY(gguf_scan_more(&shard->scan, reader.ptr, reader.bytes, &complete, err));
    }
    o->out->header_bytes += reader.bytes;
    reader_trim(&reader, shard->scan.header_bytes);
    shard->ptr = reader.ptr;
    return BERTH_OK;
}

static berth_status split_key(const struct meta *meta, struct str key, uint64_t *value, berth_error *err)
{
    if (meta_find(meta, key) != NULL && !meta_u64(meta, key, value)) {
        error_set(err, BERTH_ERR_FORMAT, "the value of %.*s is not a whole number", STR_ARG(key));
        error_at_object(err, key.ptr, key.bytes);
        return BERTH_ERR_FORMAT;
    }
    return BERTH_OK;
}

static berth_status read_shard_inner(struct opening *o, const struct os_file *file, struct shard *shard,
                                     berth_error *err)
{
    TRY(read_header(o, file, shard, err));
    struct meta_pair *pairs = ARENA_NEW(o->scratch, struct meta_pair, shard->scan.pairs_count);
    TRY(arena_check(o->scratch, "the metadata table", err));
    TRY(gguf_parse_meta(&shard->scan, shard->ptr, pairs, o->scratch, &shard->meta, err));
    shard->no = 0;
    shard->count = 1;
    shard->tensors = shard->scan.tensors_count;
    TRY(split_key(&shard->meta, STR("split.no"), &shard->no, err));
    TRY(split_key(&shard->meta, STR("split.count"), &shard->count, err));
    if (shard->count > 1) {
        TRY(split_key(&shard->meta, STR("split.tensors.count"), &shard->tensors, err));
    }
    shard->count = shard->count == 0 ? 1 : shard->count;
    if (shard->no >= shard->count || shard->count > CHECKPOINT_FILES_MAX) {
        return error_set(err, BERTH_ERR_FORMAT, "the metadata says part %llu of %llu; at most %d parts are read",
                         (unsigned long long)shard->no + 1, (unsigned long long)shard->count, CHECKPOINT_FILES_MAX);
    }
    return BERTH_OK;
}

static berth_status read_shard(struct opening *o, const struct os_file *file, struct shard *shard, berth_error *err)
{
    return at_file(read_shard_inner(o, file, shard, err), file, err);
}

/* The path of another part of the set that `path` belongs to. */
static berth_status sibling_path(const char *path, const struct shard *shard, uint32_t part, char *out,
                                 berth_error *err)
{
    struct str name = str_from(path);
    struct shard_name own;
    bool patterned = checkpoint_shard_name(name, &own);
    if (!patterned || own.part != shard->no + 1 || own.parts != shard->count) {
        error_set(
            err, BERTH_ERR_FORMAT,
            "the file says it is part %llu of %llu, so its name must end in -%05u-of-%05u.gguf for the other parts "
            "to be found",
            (unsigned long long)shard->no + 1, (unsigned long long)shard->count, (unsigned)shard->no + 1,
            (unsigned)shard->count);
        error_at_path(err, path);
        return BERTH_ERR_FORMAT;
    }
    /* Same length as `path`, which fitted. */
    (void)snprintf(out, CHECKPOINT_PATH_BYTES, "%.*s-%05u-of-%05u.gguf", (int)own.prefix_bytes, path, part,
                   (unsigned)shard->count);
    return BERTH_OK;
}

/* Opens the first shard of the set that `path` is part of: *file, *shard and the path of it. */
static berth_status open_first(struct opening *o, const char *path, struct os_file *file, struct shard *shard,
                               berth_error *err)
{
    uint64_t mark = arena_mark(o->scratch);
    char first[CHECKPOINT_PATH_BYTES];
    TRY(os_file_open(file, path, true, o->hooks, err));
    TRY(read_shard(o, file, shard, err));
    if (shard->count == 1) {
        return BERTH_OK;
    }
    uint64_t count = shard->count;
    TRY(sibling_path(path, shard, 1, first, err));
    if (shard->no != 0) {
        os_file_close(file);
        arena_rewind(o->scratch, mark);
        TRY(os_file_open(file, first, true, o->hooks, err));
        TRY(read_shard(o, file, shard, err));
        if (shard->no != 0 || shard->count != count) {
            error_set(err, BERTH_ERR_FORMAT,
                      "its metadata says part %llu of %llu, wanted part 1 of %llu: the files do not belong together",
                      (unsigned long long)shard->no + 1, (unsigned long long)shard->count, (unsigned long long)count);
            return at_file(BERTH_ERR_FORMAT, file, err);
        }
    }
    return BERTH_OK;
}

static berth_status open_others(struct opening *o, struct shard *shards, berth_error *err)
{
    const char *first = o->out->files[0].path;
    uint64_t tensors = shards[0].scan.tensors_count;
    for (uint32_t i = 1; i < o->out->files_count; i++) {
        char path[CHECKPOINT_PATH_BYTES];
        struct os_file *file = &o->out->files[i];
        TRY(sibling_path(first, &shards[0], i + 1, path, err));
        TRY(os_file_open(file, path, true, o->hooks, err));
        TRY(read_shard(o, file, &shards[i], err));
        if (shards[i].no != i || shards[i].count != shards[0].count) {
            error_set(err, BERTH_ERR_FORMAT,
                      "its metadata says part %llu of %llu, wanted part %u of %llu: the files do not belong together",
                      (unsigned long long)shards[i].no + 1, (unsigned long long)shards[i].count, i + 1,
                      (unsigned long long)shards[0].count);
            return at_file(BERTH_ERR_FORMAT, file, err);
        }
        tensors += shards[i].scan.tensors_count;
    }
    if (tensors != shards[0].tensors || tensors > TENSORS_MAX) {
        error_set(err, BERTH_ERR_FORMAT,
                  "the parts hold %llu tensors, split.tensors.count says %llu (at most %d are read)",
                  (unsigned long long)tensors, (unsigned long long)shards[0].tensors, TENSORS_MAX);
        error_at_path(err, first);
        return BERTH_ERR_FORMAT;
    }
    return BERTH_OK;
}

static berth_status build_tensors(struct opening *o, const struct shard *shards, berth_error *err)
{
    struct checkpoint *out = o->out;
    uint64_t count = 0;
    for (uint32_t i = 0; i < out->files_count; i++) {
        count += shards[i].scan.tensors_count;
    }
    struct tensor *tensors = ARENA_NEW(o->scratch, struct tensor, count);
    struct tensor_file *places = ARENA_NEW(o->scratch, struct tensor_file, out->files_count);
    TRY(arena_check(o->scratch, "the tensor directory", err));
    struct tensor *next = tensors;
    for (uint32_t i = 0; i < out->files_count; i++) {
        const struct os_file *file = &out->files[i];
        places[i] = (struct tensor_file){.path = file->path, .bytes = file->size_bytes};
        TRY(at_file(
            gguf_parse_tensors(&shards[i].scan, shards[i].ptr, &shards[i].meta, i, next, &places[i].data_offset, err),
            file, err));
        next += shards[i].scan.tensors_count;
    }
    return tensor_dir_build(&out->tensors, tensors, (uint32_t)count, places, out->files_count, o->scratch, err);
}

berth_status checkpoint_open_gguf(struct opening *o, const char *path, berth_error *err)
{
    struct checkpoint *out = o->out;
    struct os_file file = {.fd = -1};
    struct shard first;
    bool tensors = (o->want & CHECKPOINT_WANT_TENSORS) != 0;
    berth_status status = open_first(o, path, &file, &first, err);
    if (status == BERTH_OK) {
        status = checkpoint_take_files(o, tensors ? (uint32_t)first.count : 1, err);
    }
    if (status != BERTH_OK) {
        os_file_close(&file);
        return status;
    }
    out->files[0] = file;
    out->format = CHECKPOINT_GGUF;
    out->version = first.scan.version;
    out->meta = first.meta;
    memcpy(out->path, file.path, sizeof out->path);
    if (tensors) {
        struct shard *shards = ARENA_NEW(o->scratch, struct shard, out->files_count);
        TRY(arena_check(o->scratch, "the shard table", err));
        shards[0] = first;
        if (out->files_count > 1) {
            TRY(open_others(o, shards, err));
        }
        TRY(build_tensors(o, shards, err));
    }
    struct str name;
    char folder[CHECKPOINT_PATH_BYTES];
    if (!meta_str(&out->meta, STR("general.name"), &name) || name.bytes == 0) {
        name = str_from(checkpoint_split_path(out->path, folder));
    }
    checkpoint_set_name(out, name);
    return BERTH_OK;
}
