/* SPDX-License-Identifier: MIT
 * The identity of a set of tensors. In the documents' order names sort as ICU's root collation sorts them: first by
 * the characters (blanks and signs, digits, letters whatever their case), then lower case before upper. For printable
 * ASCII one table gives that order; other names are refused, because their place depends on ICU's data. */
#include "fit/fingerprint.h"

#include <string.h>

#include "base/error.h"
#include "base/js_text.h"
#include "base/sort.h"
#include "base/str.h"

/* ---- order ------------------------------------------------------------------------------------------ */

/* Characters before the letters, in order of their primary weight. */
static const char before_letters[] = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789";

struct weights {
    unsigned char primary[128]; /* 0: not a printable ASCII character */
};

static void weights_fill(struct weights *weights)
{
    unsigned char next = 1;
    memset(weights, 0, sizeof *weights);
    for (const char *at = before_letters; *at != '\0'; at++) {
        weights->primary[(unsigned char)*at] = next++;
    }
    for (unsigned i = 0; i < 26; i++, next++) {
        weights->primary['a' + i] = weights->primary['A' + i] = next;
    }
}

struct sorting {
    const berth_tensor_set *set;
    struct weights weights;
};

static int compare_locale(const void *user, uint32_t a, uint32_t b)
{
    const struct sorting *sorting = user;
    const unsigned char *left = (const unsigned char *)sorting->set->items[a].name;
    const unsigned char *right = (const unsigned char *)sorting->set->items[b].name;
    int case_order = 0;
    for (; *left != '\0' && *right != '\0'; left++, right++) {
        int order = (int)sorting->weights.primary[*left] - (int)sorting->weights.primary[*right];
        if (order != 0) {
            return order;
        }
        if (case_order == 0 && *left != *right) {
            case_order = *left >= 'a' ? -1 : 1; /* same letter: the lower case one first */
        }
    }
    return *left != *right ? (int)*left - (int)*right : case_order;
}

static int compare_bytes(const void *user, uint32_t a, uint32_t b)
{
    const struct sorting *sorting = user;
    return strcmp(sorting->set->items[a].name, sorting->set->items[b].name);
}

static berth_status check_name(const struct sorting *sorting, const char *name, berth_error *err)
{
    size_t bytes = strlen(name);
    const char *fault = NULL;
    if (sorting->set->order == BERTH_TENSOR_ORDER_BYTES) {
        fault = utf8_is_valid(name, bytes) ? NULL : "is not UTF-8";
    } else {
        for (size_t i = 0; i < bytes; i++) {
            unsigned char c = (unsigned char)name[i];
            fault =
                c >= 128 || sorting->weights.primary[c] == 0 ? "has a character that is not printable ASCII" : fault;
        }
    }
    if (fault == NULL) {
        return BERTH_OK;
    }
    berth_status status =
        error_set(err, BERTH_ERR_UNSUPPORTED, "the tensor name %s, so this order does not place it", fault);
    error_at_object(err, name, bytes);
    return status;
}

/* ---- hashing ---------------------------------------------------------------------------------------- */

static void put_hash(void *user, const void *text, size_t bytes)
{
    sha256_add(user, text, bytes);
}

void fingerprint_head(struct sha256 *sha, const berth_tensor_item *item, const char *dtype_name)
{
    const struct js_out out = {put_hash, sha};
    js_put(&out, "[");
    js_put_string(&out, item->name, strlen(item->name));
    js_put(&out, ",");
    if (dtype_name != NULL) {
        js_put_string(&out, dtype_name, strlen(dtype_name));
    } else {
        js_put_number(&out, item->dtype);
    }
    js_put(&out, ",[");
    for (uint32_t i = 0; i < item->dims_count; i++) {
        js_put(&out, i > 0 ? "," : "");
        js_put_number(&out, (double)item->dims[i]);
    }
    js_put(&out, "]]");
}

struct progress {
    uint64_t done, total;
};

static berth_status report_progress(const berth_tensor_set *set, struct progress *progress, uint64_t bytes,
                                    const char *name, berth_error *err)
{
    progress->done += bytes;
    if (set->progress == NULL || set->progress(set->progress_user, name, progress->done, progress->total)) {
        return BERTH_OK;
    }
    return error_set(err, BERTH_ERR_CANCELLED, "the caller stopped the fingerprint");
}

static berth_status add_data(struct sha256 *sha, const berth_tensor_set *set, uint32_t index, struct progress *progress,
                             berth_error *err)
{
    const berth_tensor_item *item = &set->items[index];
    uint64_t step = item->data != NULL ? (uint64_t)1 << 24 : set->buffer_bytes;
    for (uint64_t at = 0; at < item->data_bytes;) {
        uint64_t left = item->data_bytes - at;
        size_t part = (size_t)(left < step ? left : step);
        if (item->data != NULL) {
            sha256_add(sha, (const unsigned char *)item->data + at, part);
        } else {
            TRY(set->read(set->read_user, index, at, part, set->buffer, err));
            sha256_add(sha, set->buffer, part);
        }
        at += part;
        TRY(report_progress(set, progress, part, item->name, err));
    }
    return BERTH_OK;
}

static berth_status check_set(const berth_tensor_set *set, struct sorting *sorting, struct progress *progress,
                              berth_error *err)
{
    if (set == NULL || (set->count > 0 && (set->items == NULL || set->work == NULL)) || set->count > UINT32_MAX / 2) {
        return error_set(err, BERTH_ERR_ARGUMENT, "items, their work space and a place for the digest are needed");
    }
    if (set->order != BERTH_TENSOR_ORDER_LOCALE && set->order != BERTH_TENSOR_ORDER_BYTES) {
        return error_set(err, BERTH_ERR_ARGUMENT, "there is no tensor order %d", (int)set->order);
    }
    weights_fill(&sorting->weights);
    sorting->set = set;
    for (size_t i = 0; i < set->count; i++) {
        const berth_tensor_item *item = &set->items[i];
        if (item->name == NULL || (item->dims == NULL && item->dims_count > 0) ||
            (item->data == NULL && item->data_bytes > 0 && (set->read == NULL || set->buffer_bytes == 0))) {
            return error_set(err, BERTH_ERR_ARGUMENT, "item %zu lacks its name, its dims or its data", i);
        }
        TRY(check_name(sorting, item->name, err));
        progress->total += item->data_bytes;
    }
    return BERTH_OK;
}

berth_status berth_tensor_fingerprint(const berth_tensor_set *set, char sha256[65], berth_error *err)
{
    struct sorting sorting;
    struct progress progress = {0, 0};
    struct sha256 all;
    if (sha256 == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT, "a place for the digest is needed");
    }
    TRY(check_set(set, &sorting, &progress, err));
    uint32_t count = (uint32_t)set->count;
    bool locale = set->order == BERTH_TENSOR_ORDER_LOCALE;
    if (count > 0) {
        sort_order(set->work, set->work + count, count, locale ? compare_locale : compare_bytes, &sorting);
    }
    sha256_begin(&all);
    if (!locale) {
        sha256_add(&all, FINGERPRINT_BYTES_LINE, sizeof FINGERPRINT_BYTES_LINE - 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct sha256 one;
        struct sha256 *sha = locale ? &all : &one;
        if (!locale) {
            sha256_begin(&one);
        }
        fingerprint_head(sha, &set->items[set->work[i]], NULL);
        TRY(add_data(sha, set, set->work[i], &progress, err));
        if (!locale) {
            unsigned char digest[SHA256_BYTES];
            sha256_end(&one, digest);
            sha256_add(&all, digest, sizeof digest);
        }
    }
    sha256_end_text(&all, sha256);
    return BERTH_OK;
}

int berth_tensor_dtype(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } rows[] = {
        {"BOOL", 0},     {"U8", 1},       {"U16", 2},       {"U32", 3},        {"U64", 4},    {"I8", 5},
        {"I16", 6},      {"I32", 7},      {"I64", 8},       {"F16", 9},        {"F32", 10},   {"F64", 11},
        {"BF16", 12},    {"C64", 13},     {"bool", 0},      {"uint8", 1},      {"uint16", 2}, {"uint32", 3},
        {"uint64", 4},   {"int8", 5},     {"int16", 6},     {"int32", 7},      {"int64", 8},  {"float16", 9},
        {"float32", 10}, {"float64", 11}, {"bfloat16", 12}, {"complex64", 13},
    };
    for (size_t i = 0; name != NULL && i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i].number;
        }
    }
    return -1;
}
