/* SPDX-License-Identifier: MIT
 * Opening a directory as Hugging Face tools write it: config.json, model.safetensors or shards named by
 * model.safetensors.index.json, and the tokenizer's files. */
#include "base/checked.h"
#include "model/checkpoint_parts.h"
#include "model/json.h"
#include "model/layouts.h"
#include "model/reader.h"
#include "model/safetensors.h"

static const char index_name[] = "model.safetensors.index.json";

static berth_status at_path(berth_status status, const char *path, berth_error *err)
{
    if (status != BERTH_OK && (err == NULL || err->path[0] == '\0')) {
        error_at_path(err, path);
    }
    return status;
}

/* Reads a whole file into the arena; an absent one leaves *out empty. */
static berth_status read_document(struct opening *o, const char *directory, const char *name, struct str *out,
                                  berth_error *err)
{
    char path[CHECKPOINT_PATH_BYTES];
    struct os_file file;
    bool is_directory;
    uint64_t bytes;
    *out = (struct str){NULL, 0};
    TRY(checkpoint_join(path, directory, str_from(name), err));
    if (os_path_info(path, &is_directory, &bytes, NULL) == BERTH_ERR_NOT_FOUND) {
        return BERTH_OK;
    }
    TRY(os_file_open(&file, path, true, o->hooks, err));
    berth_status status = BERTH_OK;
    struct reader reader;
    reader_begin(&reader, &file, o->scratch);
    if (file.size_bytes > CHECKPOINT_DOCUMENT_MAX) {
        status = error_set(err, BERTH_ERR_LIMIT, "the file has %llu bytes, at most %d are read",
                           (unsigned long long)file.size_bytes, CHECKPOINT_DOCUMENT_MAX);
    } else {
        status = reader_exact(&reader, file.size_bytes, err);
    }
    os_file_close(&file);
    TRY(at_path(status, path, err));
    *out = (struct str){(const char *)reader.ptr, (size_t)reader.bytes};
    reader_trim(&reader, reader.bytes);
    o->out->header_bytes += reader.bytes;
    return BERTH_OK;
}

/* A small document that other rooms query: damage is reported here, where file and byte are known. */
static berth_status read_config(struct opening *o, const char *directory, const char *name, struct str *out,
                                berth_error *err)
{
    enum { CONFIG_MAX = 4 << 20 }; /* the largest published has less than one */
    char path[CHECKPOINT_PATH_BYTES];
    bool is_directory = false;
    uint64_t bytes = 0;
    TRY(checkpoint_join(path, directory, str_from(name), err));
    if (strcmp(name, "tokenizer_config.json") != 0 && os_path_info(path, &is_directory, &bytes, NULL) == BERTH_OK &&
        !is_directory && bytes > CONFIG_MAX) {
        return at_path(error_set(err, BERTH_ERR_LIMIT, "the file has %llu bytes, a configuration has at most %d",
                                 (unsigned long long)bytes, CONFIG_MAX),
                       path, err);
    }
    TRY(read_document(o, directory, name, out, err));
    if (out->ptr == NULL) {
        return BERTH_OK;
    }
    struct json json;
    json_begin(&json, *out);
    json.allow_nonfinite = true;
    enum json_kind kind = json_next(&json);
    while (kind != JSON_END && kind != JSON_ERROR) {
        kind = json_next(&json);
    }
    if (kind == JSON_ERROR) {
        return json_fail(&json, path, err);
    }
    return BERTH_OK;
}

/* ---- shard names ------------------------------------------------------------------------------------ */

/* The distinct file names of an index: a list and a hash table of list places (plus one) over it. */
struct shard_set {
    struct str *names; /* [CHECKPOINT_FILES_MAX] */
    uint32_t *table;   /* [SHARD_TABLE] */
    uint32_t count;
    struct str last; /* token that was added last: most tensors are in the file of the one before */
};

enum { SHARD_TABLE = 4 * CHECKPOINT_FILES_MAX };

static berth_status shard_set_take(struct opening *o, struct shard_set *set, berth_error *err)
{
    *set = (struct shard_set){.names = ARENA_NEW(o->scratch, struct str, CHECKPOINT_FILES_MAX),
                              .table = ARENA_NEW(o->scratch, uint32_t, SHARD_TABLE)};
    TRY(arena_check(o->scratch, "the shard table", err));
    memset(set->table, 0, SHARD_TABLE * sizeof *set->table); /* scratch may have been used before */
    return BERTH_OK;
}

/* The table's cell of the name, or the free one where it belongs. The table is never full. */
static uint32_t *shard_cell(const struct shard_set *set, struct str name)
{
    uint64_t at = hash_name(name);
    for (;; at++) {
        uint32_t *cell = &set->table[at % SHARD_TABLE];
        if (*cell == 0 || str_equal(set->names[*cell - 1], name)) {
            return cell;
        }
    }
}

/* The value of a token: in place, or unescaped into the arena. */
static berth_status token_text(struct opening *o, const struct json_token *token, struct str *out, berth_error *err)
{
    *out = token->raw;
    if (token->escaped) {
        char *buffer = arena_take(o->scratch, token->raw.bytes, 1, 1);
        TRY(arena_check(o->scratch, "the shard table", err));
        *out = (struct str){buffer, json_unescape(token, buffer, token->raw.bytes)};
    }
    return BERTH_OK;
}

static berth_status bad_member(berth_status status, const struct json_token *token, berth_error *err)
{
    error_at_object(err, token->raw.ptr, token->raw.bytes);
    error_at_offset(err, token->offset);
    return status;
}

static berth_status add_shard(struct opening *o, struct shard_set *set, const struct json_token *token,
                              berth_error *err)
{
    struct str name;
    uint64_t mark = arena_mark(o->scratch);
    if (set->last.ptr != NULL && str_equal(set->last, token->raw)) {
        return BERTH_OK;
    }
    set->last = token->raw;
    TRY(token_text(o, token, &name, err));
    uint32_t *cell = shard_cell(set, name);
    if (*cell != 0) {
        arena_rewind(o->scratch, mark);
        return BERTH_OK;
    }
    if (tensor_name_fault(name, 255) != NULL || memchr(name.ptr, '/', name.bytes) != NULL || str_is(name, ".") ||
        str_is(name, "..")) {
        return bad_member(error_set(err, BERTH_ERR_FORMAT,
                                    "the index names \"%.*s\", wanted the plain name of a file in the same directory",
                                    STR_ARG(name)),
                          token, err);
    }
    if (set->count == CHECKPOINT_FILES_MAX) {
        return bad_member(error_set(err, BERTH_ERR_LIMIT, "the index names more than %d files", CHECKPOINT_FILES_MAX),
                          token, err);
    }
    set->names[set->count++] = name;
    *cell = set->count;
    return BERTH_OK;
}

static berth_status collect_shards(struct opening *o, struct str document, struct shard_set *set, berth_error *err)
{
    struct safetensors_index index;
    struct json_token tensor;
    struct json_token file;
    TRY(shard_set_take(o, set, err));
    if (safetensors_index_begin(&index, document)) {
        while (safetensors_index_next(&index, &tensor, &file)) {
            TRY(add_shard(o, set, &file, err));
        }
    }
    return safetensors_index_fail(&index, err);
}

berth_status checkpoint_index_names(struct opening *o, const char *directory, const char *name, bool *named,
                                    berth_error *err)
{
    char path[CHECKPOINT_PATH_BYTES];
    struct str document;
    struct shard_set set;
    uint64_t mark = arena_mark(o->scratch);
    *named = false;
    TRY(read_document(o, directory, index_name, &document, err));
    if (document.ptr != NULL) {
        TRY(checkpoint_join(path, directory, str_from(index_name), err));
        TRY(at_path(collect_shards(o, document, &set, err), path, err));
        *named = *shard_cell(&set, str_from(name)) != 0;
    }
    arena_rewind(o->scratch, mark);
    return BERTH_OK;
}

/* ---- the set of shards ------------------------------------------------------------------------------ */

/* Every tensor that the index promises is there, in the file it names. */
static berth_status check_index(struct opening *o, struct str document, const struct str *names, berth_error *err)
{
    const struct tensor_dir *dir = &o->out->tensors;
    struct safetensors_index index;
    struct json_token key;
    struct json_token value;
    uint64_t mark = arena_mark(o->scratch);
    uint32_t cursor = 0; /* an index is usually sorted like the directory */
    (void)safetensors_index_begin(&index, document);
    while (safetensors_index_next(&index, &key, &value)) {
        struct str name;
        struct str file;
        TRY(token_text(o, &key, &name, err));
        TRY(token_text(o, &value, &file, err));
        const struct tensor *tensor = cursor < dir->count && str_equal(dir->items[cursor].name, name)
                                          ? &dir->items[cursor]
                                          : tensor_find(dir, name);
        if (tensor == NULL) {
            return bad_member(error_set(err, BERTH_ERR_FORMAT, "the index promises this tensor in %.*s, which lacks it",
                                        STR_ARG(file)),
                              &key, err);
        }
        if (!str_equal(names[tensor->file], file)) {
            return bad_member(error_set(err, BERTH_ERR_FORMAT, "the index promises this tensor in %.*s, it is in %.*s",
                                        STR_ARG(file), STR_ARG(names[tensor->file])),
                              &key, err);
        }
        cursor = (uint32_t)(tensor - dir->items) + 1;
        arena_rewind(o->scratch, mark);
    }
    return safetensors_index_fail(&index, err);
}

static void sort_names(struct str *names, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) { /* a few hundred names, in order already */
        struct str name = names[i];
        uint32_t at = i;
        while (at > 0 && memcmp(names[at - 1].ptr, name.ptr,
                                names[at - 1].bytes < name.bytes ? names[at - 1].bytes : name.bytes) > 0) {
            names[at] = names[at - 1];
            at--;
        }
        names[at] = name;
    }
}

static berth_status open_indexed(struct opening *o, const char *directory, struct str document, berth_error *err)
{
    char path[CHECKPOINT_PATH_BYTES];
    struct shard_set set;
    TRY(checkpoint_join(path, directory, str_from(index_name), err));
    TRY(at_path(collect_shards(o, document, &set, err), path, err));
    if (set.count == 0) {
        error_set(err, BERTH_ERR_FORMAT, "the weight_map of the index is empty");
        return at_path(BERTH_ERR_FORMAT, path, err);
    }
    sort_names(set.names, set.count);
    TRY(checkpoint_read_shards(o, directory, set.names, set.count, err));
    return at_path(check_index(o, document, set.names, err), path, err);
}

/* ---- without an index ------------------------------------------------------------------------------- */

struct only_file {
    char name[256];
    uint32_t count;
};

static bool note_weights(void *user, const char *name)
{
    struct only_file *only = user;
    struct str text = str_from(name);
    if (str_ends(text, STR(".safetensors")) && text.bytes < sizeof only->name) {
        if (only->count++ == 0 || str_is(text, "model.safetensors")) {
            memcpy(only->name, name, text.bytes + 1);
        }
    }
    return true;
}

static berth_status open_only(struct opening *o, const char *directory, berth_error *err)
{
    struct only_file only = {.count = 0};
    TRY(os_directory_each(directory, note_weights, &only, err));
    if (only.count == 0) {
        error_set(err, BERTH_ERR_NOT_FOUND, "the directory holds no .safetensors file");
        return at_path(BERTH_ERR_NOT_FOUND, directory, err);
    }
    if (only.count > 1 && !str_is(str_from(only.name), "model.safetensors")) {
        error_set(err, BERTH_ERR_FORMAT,
                  "the directory holds %u .safetensors files and no %s that says which belong together", only.count,
                  index_name);
        return at_path(BERTH_ERR_FORMAT, directory, err);
    }
    struct str name = str_from(only.name);
    return checkpoint_read_shards(o, directory, &name, 1, err);
}

static berth_status open_files(struct opening *o, const char *directory, const char *alone, berth_error *err)
{
    if (alone != NULL) {
        struct str name = str_from(alone);
        return checkpoint_read_shards(o, directory, &name, 1, err);
    }
    struct str document;
    TRY(read_document(o, directory, index_name, &document, err));
    return document.ptr != NULL ? open_indexed(o, directory, document, err) : open_only(o, directory, err);
}

berth_status checkpoint_open_hf(struct opening *o, const char *directory, const char *alone, berth_error *err)
{
    struct checkpoint *out = o->out;
    out->format = CHECKPOINT_SAFETENSORS;
    TRY(read_config(o, directory, "config.json", &out->config_json, err));
    TRY(read_config(o, directory, "generation_config.json", &out->generation_config_json, err));
    if ((o->want & CHECKPOINT_WANT_TEXT) != 0) {
        TRY(read_document(o, directory, "tokenizer.json", &out->tokenizer_json, err));
        TRY(read_config(o, directory, "tokenizer_config.json", &out->tokenizer_config_json, err));
        TRY(read_document(o, directory, "chat_template.jinja", &out->chat_template, err));
    }
    if ((o->want & CHECKPOINT_WANT_TENSORS) == 0) {
        return BERTH_OK;
    }
    TRY(open_files(o, directory, alone, err));
    return layouts_apply(out, o->scratch, err);
}

berth_status checkpoint_open_config(struct opening *o, const char *directory, const char *name, berth_error *err)
{
    o->out->format = CHECKPOINT_SAFETENSORS;
    if ((o->want & CHECKPOINT_WANT_TENSORS) != 0) {
        return at_path(error_set(err, BERTH_ERR_NOT_FOUND,
                                 "a configuration by itself, with no weights: name the directory that has both, or "
                                 "call it config.json if they lie beside it"),
                       o->out->path, err);
    }
    return read_config(o, directory, name, &o->out->config_json, err);
}
