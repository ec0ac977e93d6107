/* SPDX-License-Identifier: MIT
 * src/tool.h: a directory as the documents' contract sees it: its configuration, and the sums over its weights. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "memory/arena.h"
#include "os/file.h"
#include "os/memory.h"
#include "tool.h"

enum {
    REGION_BYTES = 512 << 20, /* address space: documents and the parsed configuration */
    PATH_MAX_BYTES = 1024,
};

struct contract_read {
    tool_contract *out;
    struct arena arena;
    char folder[PATH_MAX_BYTES];
    berth_error *err; /* never NULL */
};

static berth_status join(const char *folder, const char *name, char path[PATH_MAX_BYTES], berth_error *err)
{
    if (snprintf(path, PATH_MAX_BYTES, "%s/%s", folder, name) < PATH_MAX_BYTES) {
        return BERTH_OK;
    }
    berth_status status = error_set(err, BERTH_ERR_LIMIT, "the path is longer than %d bytes", PATH_MAX_BYTES);
    error_at_path(err, folder);
    return status;
}

/* A whole file; absent and not `wanted`: stays empty. */
static berth_status read_document(struct contract_read *read, const char *path, bool wanted, berth_text *out)
{
    bool is_directory;
    uint64_t bytes;
    berth_error ignored;
    if (!wanted && os_path_info(path, &is_directory, &bytes, &ignored) == BERTH_ERR_NOT_FOUND) {
        return BERTH_OK;
    }
    struct os_file file;
    TRY(os_file_open(&file, path, false, NULL, read->err));
    berth_status status = BERTH_OK;
    char *text = NULL;
    if (file.size_bytes > BERTH_FIT_DOCUMENT_MAX) {
        status = error_set(read->err, BERTH_ERR_LIMIT, "the file has more than %zu bytes, the limit",
                           BERTH_FIT_DOCUMENT_MAX);
        error_at_path(read->err, path);
    } else {
        text = arena_take(&read->arena, file.size_bytes, 1, 0);
        status = arena_check(&read->arena, path, read->err);
    }
    if (status == BERTH_OK) {
        status = os_file_read(&file, 0, file.size_bytes, text, read->err);
    }
    if (status == BERTH_OK) {
        *out = (berth_text){text, (size_t)file.size_bytes};
    }
    os_file_close(&file);
    return status;
}

/* ---- the whole -------------------------------------------------------------------------------------- */

static berth_status read_config(struct contract_read *read, const char *config_path)
{
    char path[PATH_MAX_BYTES];
    berth_fit_source source = BERTH_FIT_SOURCE_INIT;
    TRY(read_document(read, config_path, true, &source.config_json));
    read->out->config_json = source.config_json;
    TRY(join(read->folder, "kv_config.json", path, read->err));
    TRY(read_document(read, path, false, &source.kv_config_json));
    TRY(join(read->folder, "generation_config.json", path, read->err));
    TRY(read_document(read, path, false, &source.generation_config_json));
    size_t bytes = berth_fit_config_bytes(&source);
    void *memory = arena_take(&read->arena, bytes, 1, 0);
    TRY(arena_check(&read->arena, "the configuration", read->err));
    berth_status status = berth_fit_config_parse(&source, memory, bytes, &read->out->config, read->err);
    if (status != BERTH_OK && read->err->path[0] == '\0') {
        error_at_path(read->err, config_path);
    } else if (status != BERTH_OK && strchr(read->err->path, '/') == NULL) {
        char name[sizeof read->err->path]; /* a document's bare name */
        snprintf(name, sizeof name, "%s", read->err->path);
        if (strcmp(name, "config.json") == 0 || join(read->folder, name, path, NULL) != BERTH_OK) {
            snprintf(path, sizeof path, "%s", config_path);
        }
        error_at_path(read->err, path);
    }
    return status;
}

/* Where config.json lies, and the directory around it. */
static berth_status find_config(struct contract_read *read, const char *path, char config_path[PATH_MAX_BYTES],
                                bool *is_directory)
{
    uint64_t bytes;
    TRY(os_path_info(path, is_directory, &bytes, read->err));
    if (*is_directory) {
        snprintf(read->folder, sizeof read->folder, "%s", path);
        return join(path, "config.json", config_path, read->err);
    }
    if (!str_ends(str_from(path), STR(".json"))) {
        berth_status status =
            error_set(read->err, BERTH_ERR_UNSUPPORTED,
                      "these rules need a Hugging Face directory or a config.json, and this is neither");
        error_at_path(read->err, path);
        return status;
    }
    const char *slash = strrchr(path, '/');
    snprintf(read->folder, sizeof read->folder, "%.*s", slash != NULL ? (int)(slash - path) : 1,
             slash != NULL ? path : ".");
    snprintf(config_path, PATH_MAX_BYTES, "%s", path);
    return BERTH_OK;
}

static void name_of(const char *folder, char name[256])
{
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start > 0 && folder[start - 1] != '/') {
        start--;
    }
    snprintf(name, 256, "%.*s", (int)(end - start), folder + start);
}

/* The sums take every file as it is; whether they are the model's is asked of the reader that runs models. What that
 * one does not support, these rules may still count. */
static void inspect(const char *path, tool_contract *out)
{
    tool_checkpoint *checkpoint;
    tool_model *model;
    tool_summary summary;
    tool_model_info info;
    berth_error err = {0};
    berth_status status = tool_open(path, &checkpoint, &err);
    if (status != BERTH_OK) {
        const char *slash = strrchr(err.path, '/');
        const char *file = slash != NULL ? slash + 1 : err.path;
        if (status != BERTH_ERR_UNSUPPORTED) {
            snprintf(out->problem, sizeof out->problem, "%.200s%s%.400s", file, file[0] != '\0' ? ": " : "",
                     err.message);
        }
        return;
    }
    tool_summarise(checkpoint, &summary);
    out->stray_files = out->files > summary.files ? out->files - summary.files : 0;
    out->stray_bytes = out->stray_files > 0 ? out->weights_bytes - (double)summary.file_bytes : 0;
    if (tool_model_of(checkpoint, &model, &err) == BERTH_OK) {
        tool_model_describe(model, &info);
        if (info.lacks_tensors) {
            snprintf(out->problem, sizeof out->problem, "%s", info.problem);
        }
        tool_model_close(model);
    }
    tool_close(checkpoint);
}

/* It may name shards of which none is here. */
static bool has_index(const char *folder)
{
    char path[PATH_MAX_BYTES + 40];
    bool is_directory = false;
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    return os_path_info(path, &is_directory, &bytes, NULL) == BERTH_OK;
}

static berth_status read_all(struct contract_read *read, const char *path)
{
    char config_path[PATH_MAX_BYTES];
    bool is_directory;
    if (strlen(path) >= sizeof read->out->path) {
        return error_set(read->err, BERTH_ERR_LIMIT, "the path is longer than %zu bytes", sizeof read->out->path - 1);
    }
    TRY(find_config(read, path, config_path, &is_directory));
    TRY(read_config(read, config_path));
    snprintf(read->out->path, sizeof read->out->path, "%s", path);
    name_of(read->folder, read->out->name);
    if (is_directory) {
        berth_fit_weights weights = BERTH_FIT_WEIGHTS_INIT;
        TRY(berth_fit_weights_of(path, &weights, read->err));
        read->out->files = weights.files;
        read->out->weights_bytes = weights.weights_bytes;
        read->out->experts_bytes = weights.experts_bytes;
        read->out->switch_bytes = weights.switch_bytes;
        read->out->sidecar_bytes = weights.sidecar_bytes;
        read->out->config.has_vision_sidecar = weights.has_vision_sidecar;
        if (weights.files > 0 || has_index(path)) {
            inspect(path, read->out);
        }
    }
    return BERTH_OK;
}

berth_status tool_contract_open(const char *path, tool_contract *out, berth_error *err)
{
    berth_error own;
    struct contract_read read = {.out = out, .err = err != NULL ? err : &own};
    *out = (tool_contract){.region_bytes = REGION_BYTES};
    TRY(os_reserve(NULL, REGION_BYTES, false, &out->region, read.err));
    arena_carve(&read.arena, out->region, REGION_BYTES);
    berth_status status = read_all(&read, path);
    if (status != BERTH_OK) {
        tool_contract_close(out);
    }
    return status;
}

void tool_contract_close(tool_contract *contract)
{
    if (contract->region != NULL) {
        os_release(contract->region, contract->region_bytes);
        contract->region = NULL;
    }
}
