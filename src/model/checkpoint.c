/* SPDX-License-Identifier: MIT
 * Finds out what a path is and opens it. */
#include "model/checkpoint.h"

#include "model/checkpoint_parts.h"
#include "model/gguf.h"

berth_status checkpoint_take_files(struct opening *o, uint32_t count, berth_error *err)
{
    struct os_file *files = ARENA_NEW(o->scratch, struct os_file, count);
    TRY(arena_check(o->scratch, "the file table", err));
    for (uint32_t i = 0; i < count; i++) {
        files[i].fd = -1;
    }
    o->out->files = files;
    o->out->files_count = count;
    return BERTH_OK;
}

berth_status checkpoint_join(char *path, const char *directory, struct str name, berth_error *err)
{
    size_t folder_bytes = strlen(directory);
    size_t slash = folder_bytes > 0 && directory[folder_bytes - 1] != '/' ? 1 : 0;
    if (folder_bytes + slash + name.bytes >= CHECKPOINT_PATH_BYTES) {
        error_set(err, BERTH_ERR_ARGUMENT, "the path of %.*s has more than %zu bytes", STR_ARG(name),
                  (size_t)CHECKPOINT_PATH_BYTES - 1);
        error_at_path(err, directory);
        return BERTH_ERR_ARGUMENT;
    }
    memcpy(path, directory, folder_bytes);
    memcpy(path + folder_bytes, "/", slash);
    memcpy(path + folder_bytes + slash, name.ptr, name.bytes);
    path[folder_bytes + slash + name.bytes] = '\0';
    return BERTH_OK;
}

const char *checkpoint_split_path(const char *path, char *folder)
{
    const char *slash = strrchr(path, '/');
    size_t bytes = slash == NULL ? 0 : (size_t)(slash - path) + (slash == path ? 1 : 0);
    if (slash == NULL || bytes >= CHECKPOINT_PATH_BYTES) {
        memcpy(folder, ".", 2);
    } else {
        memcpy(folder, path, bytes);
        folder[bytes] = '\0';
    }
    return slash == NULL ? path : slash + 1;
}

void checkpoint_set_name(struct checkpoint *out, struct str name)
{
    size_t used = 0;
    while (used < name.bytes) {
        int length = utf8_sequence((const unsigned char *)name.ptr + used, name.bytes - used);
        if (length <= 0 || used + (size_t)length >= sizeof out->name) {
            break;
        }
        memcpy(out->name + used, name.ptr + used, (size_t)length);
        for (int i = 0; i < length; i++) {
            unsigned char c = (unsigned char)out->name[used + (size_t)i];
            out->name[used + (size_t)i] = c < 0x20 || c == 0x7f ? '?' : out->name[used + (size_t)i];
        }
        used += (size_t)length;
    }
    out->name[used] = '\0';
}

/* ---- directories ------------------------------------------------------------------------------------ */

/* What a directory holds. A split model counts once, by its first part. */
struct found {
    char gguf[256], second[256]; /* models */
    char part[256];              /* a later part of a split model */
    uint32_t ggufs;
    bool config, weights;
};

static void keep(char *out, struct str name)
{
    memcpy(out, name.ptr, name.bytes);
    out[name.bytes] = '\0';
}

static bool note(void *user, const char *text)
{
    struct found *found = user;
    struct str name = str_from(text);
    struct shard_name shard;
    if (name.bytes >= sizeof found->gguf) {
        return true;
    }
    found->config = found->config || str_is(name, "config.json");
    found->weights = found->weights || str_ends(name, STR(".safetensors"));
    if (!str_ends(name, STR(".gguf")) || str_starts(name, STR("mmproj"))) {
        return true;
    }
    if (checkpoint_shard_name(name, &shard) && shard.part != 1) {
        keep(found->part, name);
        return true;
    }
    found->ggufs++;
    if (found->ggufs <= 2) {
        keep(found->ggufs == 1 ? found->gguf : found->second, name);
    }
    return true;
}

static berth_status use_folder(struct opening *o, const char *directory, berth_error *err)
{
    /* "models/x/" is "x", "." stays. */
    char trimmed[CHECKPOINT_PATH_BYTES];
    char folder[CHECKPOINT_PATH_BYTES];
    size_t bytes = strlen(directory);
    while (bytes > 1 && directory[bytes - 1] == '/') {
        bytes--;
    }
    TRY(checkpoint_join(trimmed, "", (struct str){directory, bytes}, err));
    memcpy(o->out->path, trimmed, bytes + 1);
    checkpoint_set_name(o->out, str_from(checkpoint_split_path(trimmed, folder)));
    return BERTH_OK;
}

static berth_status open_directory(struct opening *o, const char *directory, berth_error *err)
{
    char path[CHECKPOINT_PATH_BYTES];
    struct found found = {.ggufs = 0};
    TRY(os_directory_each(directory, note, &found, err));
    if (found.config ? found.weights || found.ggufs == 0 : found.weights && found.ggufs == 0) {
        TRY(use_folder(o, directory, err));
        return checkpoint_open_hf(o, directory, NULL, err);
    }
    if (found.ggufs > 1) {
        error_set(err, BERTH_ERR_ARGUMENT, "the directory holds %u GGUF models (%.200s, %.200s%s): name one of them",
                  found.ggufs, found.gguf, found.second, found.ggufs > 2 ? ", ..." : "");
        error_at_path(err, directory);
        return BERTH_ERR_ARGUMENT;
    }
    /* With only later parts there, opening one of them says which file is missing. */
    const char *name = found.ggufs == 1 ? found.gguf : found.part;
    if (name[0] == '\0') {
        error_set(err, BERTH_ERR_NOT_FOUND,
                  "no model in the directory: wanted config.json with .safetensors files, or a .gguf file");
        error_at_path(err, directory);
        return BERTH_ERR_NOT_FOUND;
    }
    TRY(checkpoint_join(path, directory, str_from(name), err));
    return checkpoint_open_gguf(o, path, err);
}

/* ---- files ------------------------------------------------------------------------------------------ */

static berth_status open_file(struct opening *o, const char *path, berth_error *err)
{
    char folder[CHECKPOINT_PATH_BYTES];
    const char *name = checkpoint_split_path(path, folder);
    bool whole = str_is(str_from(name), "config.json") || str_ends(str_from(name), STR(".safetensors.index.json"));
    if (!whole && str_ends(str_from(name), STR(".json"))) {
        TRY(checkpoint_join(o->out->path, "", str_from(path), err));
        checkpoint_set_name(o->out, str_from(name));
        return checkpoint_open_config(o, folder, name, err);
    }
    if (!whole && !str_ends(str_from(name), STR(".safetensors"))) {
        return checkpoint_open_gguf(o, path, err);
    }
    if (!whole) {
        TRY(checkpoint_index_names(o, folder, name, &whole, err));
    }
    if (whole) {
        TRY(use_folder(o, folder, err));
        return checkpoint_open_hf(o, folder, NULL, err);
    }
    TRY(checkpoint_join(o->out->path, "", str_from(path), err));
    checkpoint_set_name(o->out, str_from(name));
    return checkpoint_open_hf(o, folder, name, err);
}

berth_status checkpoint_open(struct checkpoint *out, const char *path, unsigned want, struct arena *scratch,
                             const struct os_hooks *hooks, berth_error *err)
{
    uint64_t mark = arena_mark(scratch);
    struct checkpoint opened = {.files = NULL};
    struct opening o = {&opened, scratch, hooks, want};
    bool is_directory;
    uint64_t bytes;
    if (arena_is_measuring(scratch)) {
        return error_set(err, BERTH_ERR_INTERNAL, "checkpoint_open() needs a carving arena");
    }
    TRY(os_path_info(path, &is_directory, &bytes, err));
    berth_status status = is_directory ? open_directory(&o, path, err) : open_file(&o, path, err);
    if (status != BERTH_OK) {
        checkpoint_close(&opened);
        arena_rewind(scratch, mark);
        return status;
    }
    *out = opened;
    return BERTH_OK;
}

void checkpoint_close(struct checkpoint *checkpoint)
{
    for (uint32_t i = 0; i < checkpoint->files_count; i++) {
        os_file_close(&checkpoint->files[i]);
    }
    checkpoint->files_count = 0;
}
