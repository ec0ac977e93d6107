/* SPDX-License-Identifier: MIT
 * File: u64 length N, N bytes of JSON (an object; spaces may follow it), data. Member: tensor name -> {dtype, shape,
 * data_offsets: [begin, end) in the data part}; "__metadata__" -> object of strings. That the data is covered without
 * holes or overlaps is checked by tensor_dir_build(), which sorts anyway. */
#include "model/safetensors.h"

#include "base/bytes.h"
#include "base/checked.h"

static berth_status place(berth_status status, berth_error *err, struct str object, uint64_t offset)
{
    error_at_object(err, object.ptr, object.bytes);
    error_at_offset(err, offset);
    return status;
}

static const struct str no_object = {NULL, 0};

berth_status safetensors_header_bytes(const void *ptr, uint64_t bytes, uint64_t file_bytes, uint64_t *header_bytes,
                                      berth_error *err)
{
    if (bytes < SAFETENSORS_PREFIX_BYTES) {
        return place(error_set(err, BERTH_ERR_FORMAT, "not a safetensors file: %llu bytes, wanted 8 at least",
                               (unsigned long long)bytes),
                     err, no_object, 0);
    }
    uint64_t length = load_u64(ptr);
    if (bytes > SAFETENSORS_PREFIX_BYTES && ((const char *)ptr)[SAFETENSORS_PREFIX_BYTES] != '{') {
        return place(error_set(err, BERTH_ERR_FORMAT, "not a safetensors file: the header does not begin with '{'"),
                     err, no_object, SAFETENSORS_PREFIX_BYTES);
    }
    if (length > SAFETENSORS_HEADER_MAX) {
        return place(error_set(err, BERTH_ERR_LIMIT, "a header of %llu bytes, at most %d are read",
                               (unsigned long long)length, SAFETENSORS_HEADER_MAX),
                     err, no_object, 0);
    }
    if (length < 2 || length > file_bytes - SAFETENSORS_PREFIX_BYTES) {
        return place(error_set(err, BERTH_ERR_FORMAT,
                               "a header of %llu bytes in a file of %llu bytes: it is cut off or damaged",
                               (unsigned long long)length, (unsigned long long)file_bytes),
                     err, no_object, 0);
    }
    *header_bytes = SAFETENSORS_PREFIX_BYTES + length;
    return BERTH_OK;
}

/* ---- one tensor ------------------------------------------------------------------------------------- */

struct parse {
    struct json json;
    char *text; /* the JSON, writable */
    uint64_t header_bytes, file_bytes;
    uint32_t file;
    struct str dtype_text; /* the last one looked up, and its row: it rarely changes */
    enum dtype dtype;
};

static berth_status json_stopped(const struct parse *p, struct str object, berth_error *err)
{
    json_fail(&p->json, NULL, err);
    return place(BERTH_ERR_FORMAT, err, object, SAFETENSORS_PREFIX_BYTES + p->json.at);
}

static uint64_t token_offset(const struct parse *p)
{
    return SAFETENSORS_PREFIX_BYTES + p->json.token.offset;
}

static berth_status bad_field(const struct parse *p, struct str object, const char *field, const char *wanted,
                              berth_error *err)
{
    if (p->json.error != NULL) {
        return json_stopped(p, object, err);
    }
    return place(
        error_set(err, BERTH_ERR_FORMAT, "%s is \"%.*s\", wanted %s", field, STR_ARG(p->json.token.raw), wanted), err,
        object, token_offset(p));
}

static berth_status parse_shape(struct parse *p, struct tensor *tensor, berth_error *err)
{
    if (json_next(&p->json) != JSON_ARRAY_BEGIN) {
        return bad_field(p, tensor->name, "shape", "an array of dims", err);
    }
    tensor->dims_count = 0;
    while (json_next(&p->json) != JSON_ARRAY_END) {
        uint64_t dim;
        if (p->json.token.kind != JSON_NUMBER || !json_token_u64(&p->json.token, &dim)) {
            return bad_field(p, tensor->name, "a dim", "a whole number from 0 to 2^64 - 1", err);
        }
        if (tensor->dims_count == TENSOR_DIMS_MAX) {
            return place(error_set(err, BERTH_ERR_UNSUPPORTED, "the tensor has more than %d dims", TENSOR_DIMS_MAX),
                         err, tensor->name, token_offset(p));
        }
        tensor->dims[tensor->dims_count++] = dim;
    }
    return BERTH_OK;
}

static berth_status parse_offsets(struct parse *p, struct str name, uint64_t offsets[2], berth_error *err)
{
    const char *wanted = "two whole numbers";
    if (json_next(&p->json) != JSON_ARRAY_BEGIN) {
        return bad_field(p, name, "data_offsets", wanted, err);
    }
    for (int i = 0; i < 2; i++) {
        if (json_next(&p->json) != JSON_NUMBER || !json_token_u64(&p->json.token, &offsets[i])) {
            return bad_field(p, name, "data_offsets", wanted, err);
        }
    }
    if (json_next(&p->json) != JSON_ARRAY_END) {
        return bad_field(p, name, "data_offsets", wanted, err);
    }
    return BERTH_OK;
}

enum field { FIELD_DTYPE = 1, FIELD_SHAPE = 2, FIELD_OFFSETS = 4, FIELD_ALL = 7 };

static berth_status parse_dtype(struct parse *p, struct tensor *tensor, berth_error *err)
{
    if (json_next(&p->json) != JSON_STRING) {
        return bad_field(p, tensor->name, "dtype", "a string", err);
    }
    if (!str_equal(p->dtype_text, p->json.token.raw)) {
        p->dtype_text = p->json.token.raw;
        p->dtype = quant_from_safetensors(p->dtype_text);
    }
    tensor->dtype = p->dtype;
    if (tensor->dtype == DTYPE_COUNT) {
        return place(error_set(err, BERTH_ERR_UNSUPPORTED, "the tensor has dtype %.*s, which is not known here",
                               STR_ARG(p->json.token.raw)),
                     err, tensor->name, token_offset(p));
    }
    return BERTH_OK;
}

/* ---- an entry as writers spell it ------------------------------------------------------------------- */

/* Nearly all entries are {"dtype":"BF16","shape":[1536,4096],"data_offsets":[0,12582912]}, to the byte: a checkpoint of
 * tens of thousands of tensors is read several times faster when that is tried first. */
struct entry {
    const char *at, *end;
};

static bool took_text(struct entry *e, const char *text, size_t bytes)
{
    if ((size_t)(e->end - e->at) < bytes || memcmp(e->at, text, bytes) != 0) {
        return false;
    }
    e->at += bytes;
    return true;
}
#define TOOK(e, literal) took_text((e), (literal), sizeof(literal) - 1)

/* Up to 18 digits, so that nothing overflows; no superfluous zero in front. */
static bool took_number(struct entry *e, uint64_t *out)
{
    const char *from = e->at;
    uint64_t value = 0;
    while (e->at < e->end && e->at - from < 18 && *e->at >= '0' && *e->at <= '9') {
        value = value * 10 + (uint64_t)(*e->at++ - '0');
    }
    *out = value;
    return e->at > from && (*from != '0' || e->at - from == 1);
}

static bool took_dims(struct entry *e, struct tensor *tensor)
{
    tensor->dims_count = 0;
    if (TOOK(e, "]")) {
        return true;
    }
    do {
        if (tensor->dims_count == TENSOR_DIMS_MAX || !took_number(e, &tensor->dims[tensor->dims_count++])) {
            return false;
        }
    } while (TOOK(e, ","));
    return TOOK(e, "]");
}

/* The current token is the key. False: spelled in another way, or wrong; nothing has been read then. */
static bool took_entry(struct parse *p, struct tensor *tensor, uint64_t offsets[2])
{
    struct entry e = {p->text + p->json.at, p->text + p->json.bytes};
    /* The type of the entry before; the first one is read the long way. */
    if (p->dtype_text.ptr == NULL || !TOOK(&e, "{\"dtype\":\"") ||
        !took_text(&e, p->dtype_text.ptr, p->dtype_text.bytes) || !TOOK(&e, "\",\"shape\":[") ||
        !took_dims(&e, tensor) || !TOOK(&e, ",\"data_offsets\":[") || !took_number(&e, &offsets[0]) || !TOOK(&e, ",") ||
        !took_number(&e, &offsets[1]) || !TOOK(&e, "]}")) {
        return false;
    }
    tensor->dtype = p->dtype;
    json_took_value(&p->json, (size_t)(e.at - p->text));
    return true;
}

/* ---- and as it may be spelled ----------------------------------------------------------------------- */

static berth_status parse_fields(struct parse *p, struct tensor *tensor, uint64_t offsets[2], berth_error *err)
{
    unsigned seen = 0;
    if (json_next(&p->json) != JSON_OBJECT_BEGIN) {
        return bad_field(p, tensor->name, "a tensor's entry", "an object", err);
    }
    while (json_next(&p->json) == JSON_KEY) {
        const struct json_token *key = &p->json.token;
        unsigned field = json_token_is(key, "dtype")          ? FIELD_DTYPE
                         : json_token_is(key, "shape")        ? FIELD_SHAPE
                         : json_token_is(key, "data_offsets") ? FIELD_OFFSETS
                                                              : 0;
        if ((seen & field) != 0) {
            return place(error_set(err, BERTH_ERR_FORMAT, "%.*s is given twice", STR_ARG(key->raw)), err, tensor->name,
                         token_offset(p));
        }
        seen |= field;
        if (field == FIELD_DTYPE) {
            TRY(parse_dtype(p, tensor, err));
        } else if (field == FIELD_SHAPE) {
            TRY(parse_shape(p, tensor, err));
        } else if (field == FIELD_OFFSETS) {
            TRY(parse_offsets(p, tensor->name, offsets, err));
        } else if (!json_skip(&p->json)) {
            break;
        }
    }
    if (p->json.error != NULL) {
        return json_stopped(p, tensor->name, err);
    }
    if (seen != FIELD_ALL) {
        return place(error_set(err, BERTH_ERR_FORMAT, "the tensor has no %s",
                               (seen & FIELD_DTYPE) == 0   ? "dtype"
                               : (seen & FIELD_SHAPE) == 0 ? "shape"
                                                           : "data_offsets"),
                     err, tensor->name, token_offset(p));
    }
    return BERTH_OK;
}

static berth_status check_range(const struct parse *p, struct tensor *tensor, const uint64_t offsets[2], uint64_t at,
                                berth_error *err)
{
    uint64_t data_bytes = p->file_bytes - p->header_bytes;
    if (!tensor_size(tensor)) {
        return place(error_set(err, BERTH_ERR_FORMAT, "the dims of the tensor multiply to more than 64 bits"), err,
                     tensor->name, at);
    }
    if (offsets[0] > offsets[1] || offsets[1] - offsets[0] != tensor->bytes) {
        return place(error_set(err, BERTH_ERR_FORMAT,
                               "data_offsets [%llu, %llu] do not match dtype and shape: wanted %llu bytes",
                               (unsigned long long)offsets[0], (unsigned long long)offsets[1],
                               (unsigned long long)tensor->bytes),
                     err, tensor->name, at);
    }
    if (offsets[1] > data_bytes) {
        return place(
            error_set(err, BERTH_ERR_FORMAT,
                      "the tensor ends at byte %llu of the data part, which has %llu bytes: the file is cut off "
                      "or damaged",
                      (unsigned long long)offsets[1], (unsigned long long)data_bytes),
            err, tensor->name, at);
    }
    tensor->offset = p->header_bytes + offsets[0];
    return BERTH_OK;
}

/* The current token is the key. */
static berth_status parse_tensor(struct parse *p, struct tensor *tensor, berth_error *err)
{
    const struct json_token *key = &p->json.token;
    uint64_t at = token_offset(p);
    uint64_t offsets[2] = {0, 0};
    *tensor = (struct tensor){.file = p->file, .name = key->raw};
    if (key->escaped) {
        /* Unescaping never grows, so the text can be overwritten by its own value. */
        char *in_place = p->text + (key->raw.ptr - p->text);
        tensor->name.bytes = json_unescape(key, in_place, key->raw.bytes);
    }
    /* The parser has seen to it that what it left in place is UTF-8 without control characters. */
    bool is_sound = !key->escaped && tensor->name.bytes > 0 && tensor->name.bytes <= TENSOR_NAME_MAX;
    const char *fault = is_sound ? NULL : tensor_name_fault(tensor->name, TENSOR_NAME_MAX);
    if (fault != NULL) {
        return place(error_set(err, BERTH_ERR_FORMAT, "the name of a tensor %s (%zu bytes, 1 to %d wanted)", fault,
                               tensor->name.bytes, TENSOR_NAME_MAX),
                     err, tensor->name, at);
    }
    if (!took_entry(p, tensor, offsets)) {
        TRY(parse_fields(p, tensor, offsets, err));
    }
    return check_range(p, tensor, offsets, at, err);
}

/* ---- header ----------------------------------------------------------------------------------------- */

static berth_status parse_metadata(struct parse *p, berth_error *err)
{
    struct str object = STR("__metadata__");
    if (json_next(&p->json) != JSON_OBJECT_BEGIN) {
        return bad_field(p, object, "__metadata__", "an object of strings", err);
    }
    while (json_next(&p->json) == JSON_KEY) {
        if (json_next(&p->json) != JSON_STRING) {
            return bad_field(p, object, "a value of __metadata__", "a string", err);
        }
    }
    return p->json.error != NULL ? json_stopped(p, object, err) : BERTH_OK;
}

/* Bytes of eight that are braces: the usual trick for zero bytes, in its exact form. */
static uint64_t count_braces(uint64_t eight)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t rest = eight ^ (ones * '{');
    uint64_t other = (((rest & (ones * 0x7f)) + ones * 0x7f) | rest) & (ones * 0x80); /* top bit: not a brace */
    return 8 - ((other >> 7) * ones >> 56);
}

uint32_t safetensors_most(const char *ptr, uint64_t header_bytes)
{
    uint64_t braces = 0;
    uint64_t at = SAFETENSORS_PREFIX_BYTES;
    for (; header_bytes - at >= 8; at += 8) {
        braces += count_braces(load_u64(ptr + at));
    }
    for (; at < header_bytes; at++) {
        braces += ptr[at] == '{' ? 1u : 0u;
    }
    /* The outer one, and that of the metadata where they come first, as they do. */
    static const char metadata[] = "{\"__metadata__\":{";
    uint64_t more = header_bytes - SAFETENSORS_PREFIX_BYTES;
    uint64_t others =
        more >= sizeof metadata - 1 && memcmp(ptr + SAFETENSORS_PREFIX_BYTES, metadata, sizeof metadata - 1) == 0 ? 2
                                                                                                                  : 1;
    braces -= braces < others ? braces : others;
    return braces > TENSORS_MAX ? (uint32_t)TENSORS_MAX + 1 : (uint32_t)braces;
}

berth_status safetensors_parse(char *ptr, uint64_t header_bytes, uint64_t file_bytes, uint32_t file,
                               struct tensor *tensors, uint32_t most, uint32_t *count, berth_error *err)
{
    struct parse p = {
        .text = ptr + SAFETENSORS_PREFIX_BYTES, .header_bytes = header_bytes, .file_bytes = file_bytes, .file = file};
    bool metadata = false;
    *count = 0;
    json_begin(&p.json, (struct str){p.text, (size_t)header_bytes - SAFETENSORS_PREFIX_BYTES});
    if (json_next(&p.json) != JSON_OBJECT_BEGIN) {
        return bad_field(&p, no_object, "the header", "an object", err);
    }
    while (json_next(&p.json) == JSON_KEY) {
        if (json_token_is(&p.json.token, "__metadata__")) {
            if (metadata) {
                return place(error_set(err, BERTH_ERR_FORMAT, "__metadata__ is given twice"), err, no_object,
                             token_offset(&p));
            }
            metadata = true;
            TRY(parse_metadata(&p, err));
            continue;
        }
        if (*count == TENSORS_MAX) {
            return place(error_set(err, BERTH_ERR_LIMIT, "more than %d tensors", TENSORS_MAX), err, no_object,
                         token_offset(&p));
        }
        struct tensor none; /* an entry without a brace: reading it says what is wrong */
        TRY(parse_tensor(&p, *count < most ? &tensors[*count] : &none, err));
        if (*count == most) {
            return error_set(err, BERTH_ERR_INTERNAL, "the header has more tensors than braces");
        }
        ++*count;
    }
    if (p.json.error != NULL || json_next(&p.json) != JSON_END) {
        return json_stopped(&p, no_object, err);
    }
    return BERTH_OK;
}

/* ---- index ------------------------------------------------------------------------------------------ */

bool safetensors_index_begin(struct safetensors_index *index, struct str document)
{
    *index = (struct safetensors_index){.any = false};
    struct json *json = &index->json;
    json_begin(json, document);
    if (json_next(json) != JSON_OBJECT_BEGIN) {
        return false;
    }
    while (json_next(json) == JSON_KEY) {
        bool found = json_token_is(&json->token, "weight_map");
        if (found) {
            index->any = json_next(json) == JSON_OBJECT_BEGIN;
            return index->any;
        }
        json_skip(json);
    }
    return false;
}

bool safetensors_index_next(struct safetensors_index *index, struct json_token *tensor, struct json_token *file)
{
    if (json_next(&index->json) != JSON_KEY) {
        return false;
    }
    *tensor = index->json.token;
    if (json_next(&index->json) != JSON_STRING) {
        return false;
    }
    *file = index->json.token;
    return true;
}

berth_status safetensors_index_fail(const struct safetensors_index *index, berth_error *err)
{
    struct json rest = index->json;
    if (rest.error == NULL && !index->any) {
        return place(error_set(err, BERTH_ERR_FORMAT, "the index has no weight_map object"), err, STR("weight_map"),
                     rest.token.offset);
    }
    if (rest.error == NULL && rest.token.kind != JSON_OBJECT_END) {
        return place(error_set(err, BERTH_ERR_FORMAT, "a member of weight_map is not a file name"), err,
                     STR("weight_map"), rest.token.offset);
    }
    while (rest.error == NULL && json_next(&rest) != JSON_END) {
    }
    return rest.error != NULL ? json_fail(&rest, NULL, err) : BERTH_OK;
}
