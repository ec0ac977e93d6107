/* SPDX-License-Identifier: MIT
 * Private to the model room: what checkpoint.c and its two formats share. */
#ifndef MODEL_CHECKPOINT_PARTS_H
#define MODEL_CHECKPOINT_PARTS_H

#include "model/checkpoint.h"

/* One opening in progress. out->files_count files are open or have fd -1. */
struct opening {
    struct checkpoint *out;
    struct arena *scratch;
    const struct os_hooks *hooks;
    unsigned want;
};

enum { CHECKPOINT_PATH_BYTES = sizeof(((struct checkpoint *)0)->path) };

/* `file` is the GGUF file at out->path or one of its shards; it has been opened and its magic seen. */
berth_status checkpoint_open_gguf(struct opening *o, const char *path, berth_error *err);
/* out->path is the directory; `alone`: NULL, or the name of the one file in it to open. */
berth_status checkpoint_open_hf(struct opening *o, const char *directory, const char *alone, berth_error *err);
/* out->path is the file, which is a config.json by whatever name; there are no tensors to want. */
berth_status checkpoint_open_config(struct opening *o, const char *directory, const char *name, berth_error *err);
/* True when an index in the directory names this file. */
berth_status checkpoint_index_names(struct opening *o, const char *directory, const char *name, bool *named,
                                    berth_error *err);

/* Opens the safetensors files of these names, sorted, in the directory, reads their headers and makes the tensor
 * directory: checkpoint_shards.c. */
berth_status checkpoint_read_shards(struct opening *o, const char *directory, const struct str *names, uint32_t count,
                                    berth_error *err);

/* Takes `count` closed files from the arena into out->files. */
berth_status checkpoint_take_files(struct opening *o, uint32_t count, berth_error *err);
/* directory "/" name into path[CHECKPOINT_PATH_BYTES]. */
berth_status checkpoint_join(char *path, const char *directory, struct str name, berth_error *err);
/* Last part of a path, its folder ("." when it has none) into folder[CHECKPOINT_PATH_BYTES]. */
const char *checkpoint_split_path(const char *path, char *folder);
/* Copies at most the whole characters that fit. */
void checkpoint_set_name(struct checkpoint *out, struct str name);

/* A GGUF file name of the form PREFIX-00002-of-00005.gguf. */
struct shard_name {
    size_t prefix_bytes;
    uint32_t part; /* 1-based, as in the name */
    uint32_t parts;
};
bool checkpoint_shard_name(struct str name, struct shard_name *out);

#endif
