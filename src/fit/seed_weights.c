/* SPDX-License-Identifier: MIT
 * What the weights of a directory add up to for the documents' contract. Their registry adds up file sizes and looks at
 * the names in safetensors headers; nothing is checked beyond what that needs. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "model/json.h"
#include "os/file.h"
#include "os/memory.h"

enum {
    HEADER_PREFIX = 8,
    HEADER_MAX = 256 << 20,
    PATH_MAX_BYTES = 1024,
};

static const char sidecar_name[] = "optiq_vision.safetensors";

struct weights_read {
    const char *folder;
    berth_fit_weights sums;
    berth_status status;
    berth_error *err; /* never NULL */
};

static bool contains(struct str text, const char *part)
{
    size_t bytes = strlen(part);
    for (size_t i = 0; i + bytes <= text.bytes; i++) {
        if (memcmp(text.ptr + i, part, bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* end - begin of the tensor's "data_offsets", 0 when they make no sense. Leaves the parser behind the value. */
static double tensor_bytes(struct json *json)
{
    double bytes = 0;
    if (json->token.kind != JSON_OBJECT_BEGIN) {
        json_skip(json);
        return 0;
    }
    while (json_next(json) == JSON_KEY) {
        bool offsets = json_token_is(&json->token, "data_offsets");
        json_next(json);
        struct json list = *json;
        uint64_t begin;
        uint64_t end;
        if (offsets && list.token.kind == JSON_ARRAY_BEGIN && json_next(&list) == JSON_NUMBER &&
            json_token_u64(&list.token, &begin) && json_next(&list) == JSON_NUMBER &&
            json_token_u64(&list.token, &end) && end >= begin) {
            bytes = (double)(end - begin);
        }
        if (!json_skip(json)) {
            return 0;
        }
    }
    return bytes;
}

static berth_status sum_experts(struct weights_read *read, struct str header, double file_bytes)
{
    struct json json;
    double experts = 0;
    double switched = 0;
    json_begin(&json, header);
    if (json_next(&json) != JSON_OBJECT_BEGIN) {
        return error_set(read->err, BERTH_ERR_FORMAT, "the safetensors header is not a JSON object");
    }
    while (json_next(&json) == JSON_KEY) {
        struct str name = json.token.raw;
        json_next(&json);
        double bytes = tensor_bytes(&json);
        experts += contains(name, ".experts.") ? bytes : 0;
        switched += contains(name, ".switch_mlp.") && !contains(name, ".experts.") ? bytes : 0;
    }
    if (json.token.kind != JSON_OBJECT_END) {
        return json_fail(&json, NULL, read->err);
    }
    if (experts + switched > file_bytes) {
        return error_set(read->err, BERTH_ERR_FORMAT, "the expert tensors of the header are bigger than the file");
    }
    read->sums.experts_bytes += experts;
    read->sums.switch_bytes += switched;
    return BERTH_OK;
}

static berth_status read_header(struct weights_read *read, const struct os_file *file)
{
    unsigned char prefix[HEADER_PREFIX];
    if (file->size_bytes < HEADER_PREFIX) {
        return BERTH_OK;
    }
    TRY(os_file_read(file, 0, HEADER_PREFIX, prefix, read->err));
    uint64_t bytes = 0;
    for (int i = HEADER_PREFIX - 1; i >= 0; i--) {
        bytes = bytes << 8 | prefix[i];
    }
    if (bytes < 1 || bytes > HEADER_MAX || bytes > file->size_bytes - HEADER_PREFIX) {
        return BERTH_OK; /* the documents count such a file's experts as none */
    }
    void *text = NULL;
    TRY(os_reserve(NULL, bytes, false, &text, read->err));
    berth_status status = os_file_read(file, HEADER_PREFIX, bytes, text, read->err);
    if (status == BERTH_OK) {
        status = sum_experts(read, (struct str){text, (size_t)bytes}, (double)file->size_bytes);
    }
    os_release(text, bytes);
    return status;
}

static berth_status count_file(struct weights_read *read, const char *name)
{
    char path[PATH_MAX_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", read->folder, name) >= (int)sizeof path) {
        berth_status status =
            error_set(read->err, BERTH_ERR_LIMIT, "the path is longer than %d bytes", (int)PATH_MAX_BYTES);
        error_at_path(read->err, read->folder);
        return status;
    }
    if (strcmp(name, sidecar_name) == 0) {
        bool is_directory;
        uint64_t bytes;
        TRY(os_path_info(path, &is_directory, &bytes, read->err));
        read->sums.sidecar_bytes = (double)bytes;
        read->sums.has_vision_sidecar = true;
        return BERTH_OK;
    }
    struct os_file file;
    berth_error own;
    berth_status status = os_file_open(&file, path, false, NULL, &own);
    if (status == BERTH_ERR_NOT_FOUND) {
        return BERTH_OK; /* a link to nothing has no size; whether the model needs it is the index's to say */
    }
    if (status != BERTH_OK) {
        *read->err = own;
        return status;
    }
    status = read_header(read, &file);
    if (status != BERTH_OK && read->err->path[0] == '\0') {
        error_at_path(read->err, path);
    }
    read->sums.weights_bytes += (double)file.size_bytes;
    read->sums.files++;
    os_file_close(&file);
    return status;
}

static bool each_name(void *user, const char *name)
{
    struct weights_read *read = user;
    if (str_ends(str_from(name), STR(".safetensors"))) {
        read->status = count_file(read, name);
    }
    return read->status == BERTH_OK;
}

berth_status berth_fit_weights_of(const char *path, berth_fit_weights *out, berth_error *err)
{
    if (path == NULL || out == NULL || out->struct_size < sizeof *out) {
        return error_set(err, BERTH_ERR_ARGUMENT,
                         "a directory, and a berth_fit_weights initialised with BERTH_FIT_WEIGHTS_INIT, are needed");
    }
    berth_error own;
    struct weights_read read = {.folder = path, .sums = BERTH_FIT_WEIGHTS_INIT, .err = err != NULL ? err : &own};
    read.sums.struct_size = out->struct_size;
    TRY(os_directory_each(path, each_name, &read, read.err));
    TRY(read.status);
    *out = read.sums;
    return BERTH_OK;
}
