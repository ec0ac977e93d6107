/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    berth_status status;
    const char *text;
} status_rows[] = {
    {BERTH_OK, "ok"},
    {BERTH_ERR_ARGUMENT, "bad argument"},
    {BERTH_ERR_MEMORY, "out of memory"},
    {BERTH_ERR_IO, "input/output error"},
    {BERTH_ERR_FORMAT, "damaged or invalid file"},
    {BERTH_ERR_UNSUPPORTED, "not supported"},
    {BERTH_ERR_BUDGET, "does not fit the budget"},
    {BERTH_ERR_STATE, "not possible in this state"},
    {BERTH_ERR_CANCELLED, "cancelled"},
    {BERTH_ERR_LIMIT, "limit reached"},
    {BERTH_ERR_NOT_FOUND, "not found"},
    {BERTH_ERR_INTERNAL, "internal error"},
};

const char *berth_status_text(berth_status status)
{
    for (size_t i = 0; i < sizeof status_rows / sizeof status_rows[0]; i++) {
        if (status_rows[i].status == status) {
            return status_rows[i].text;
        }
    }
    return "unknown status";
}

#undef error_set /* base/error.h wraps it for the static analyser */
berth_status error_set(berth_error *err, berth_status status, const char *format, ...)
{
    if (err != NULL) {
        memset(err, 0, sizeof *err);
        err->status = status;
        err->layer = -1;
        err->expert = -1;
        err->offset = UINT64_MAX;
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

void error_at_path(berth_error *err, const char *path)
{
    if (err == NULL || path == NULL) {
        return;
    }
    size_t bytes = strlen(path);
    size_t skip = bytes < sizeof err->path ? 0 : bytes - (sizeof err->path - 1);
    memcpy(err->path, path + skip, bytes - skip + 1);
}

void error_at_object(berth_error *err, const char *object, size_t object_bytes)
{
    if (err == NULL || object == NULL) {
        return;
    }
    size_t bytes = object_bytes < sizeof err->object ? object_bytes : sizeof err->object - 1;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)object[i];
        err->object[i] = c < 0x20 || c == 0x7f ? '?' : object[i];
    }
    err->object[bytes] = '\0';
}

void error_at_offset(berth_error *err, uint64_t offset)
{
    if (err != NULL) {
        err->offset = offset;
    }
}

void error_at_expert(berth_error *err, int32_t layer, int32_t expert)
{
    if (err != NULL) {
        err->layer = layer;
        err->expert = expert;
    }
}
