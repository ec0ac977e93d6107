/* SPDX-License-Identifier: MIT
 *
 * A checkpoint on disk: a GGUF file (split or not) or a Hugging Face directory (config.json, *.safetensors with or
 * without index, tokenizer.json, ...). Opening reads headers only, past the page cache, into the scratch arena that the
 * caller provides (the open phase of the plan); everything here is borrowed from that arena. Parsers are pure functions
 * over (pointer, length): gguf.h, safetensors.h.
 */
#ifndef MODEL_CHECKPOINT_H
#define MODEL_CHECKPOINT_H

#include "memory/arena.h"
#include "model/meta.h"
#include "model/tensors.h"
#include "os/file.h"

enum checkpoint_format { CHECKPOINT_GGUF, CHECKPOINT_SAFETENSORS };

struct checkpoint {
    enum checkpoint_format format;
    uint32_t version;      /* GGUF version */
    struct os_file *files; /* [files_count]; direct I/O where it works. Owned: checkpoint_close() */
    uint32_t files_count;
    struct tensor_dir tensors;
    struct meta meta;       /* GGUF: first shard's metadata; empty for safetensors */
    struct str config_json; /* safetensors: whole files, empty when absent */
    struct str generation_config_json;
    struct str tokenizer_json;
    struct str tokenizer_config_json;
    struct str
        chat_template;     /* chat_template.jinja; the one inside tokenizer_config.json is for the text room to find */
    uint64_t header_bytes; /* bytes read from the files */
    char name[128];        /* general.name, or the directory's or file's base name */
    char path[512];        /* GGUF: the first shard; safetensors: the directory, or the file when opened alone */
};

enum { CHECKPOINT_FILES_MAX = 512, CHECKPOINT_DOCUMENT_MAX = 1 << 30 };

enum {
    CHECKPOINT_WANT_TENSORS = 1,
    CHECKPOINT_WANT_TEXT = 2, /* read tokenizer.json and friends too */
};

/* `path` is one of
 * - a GGUF file (whatever its name); of a split one any shard, the others are found by name;
 * - a directory with config.json and safetensors, or with exactly one GGUF model (mmproj files aside);
 * - config.json, *.safetensors.index.json or a shard inside such a directory: the same as the directory;
 * - another .json file: a configuration alone, without CHECKPOINT_WANT_TENSORS;
 * - a .safetensors file that no index names: that file alone, with config.json beside it.
 * Without CHECKPOINT_WANT_TENSORS no safetensors file is opened, `tensors` stays empty and a directory may hold nothing
 * but config.json. Data sections that are cut off are found from the sizes of the files.
 * On failure everything is closed again and scratch is rewound. scratch must be carving (an os_reserve()d region). */
berth_status checkpoint_open(struct checkpoint *out, const char *path, unsigned want, struct arena *scratch,
                             const struct os_hooks *hooks, berth_error *err);
void checkpoint_close(struct checkpoint *checkpoint);

#endif
