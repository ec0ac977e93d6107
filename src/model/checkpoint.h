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
    char path[512];
};

enum {
    CHECKPOINT_WANT_TENSORS = 1,
    CHECKPOINT_WANT_TEXT = 2, /* read tokenizer.json and friends too */
};

/* On failure everything is closed again. scratch must be carving (an os_reserve()d region). */
berth_status checkpoint_open(struct checkpoint *out, const char *path, unsigned want, struct arena *scratch,
                             const struct os_hooks *hooks, berth_error *err);
void checkpoint_close(struct checkpoint *checkpoint);

#endif
