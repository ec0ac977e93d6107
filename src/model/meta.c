/* SPDX-License-Identifier: MIT
 * Typed access to GGUF metadata. The pairs have been validated by gguf.c: every value lies inside the header. */
#include "model/meta.h"

#include "base/bytes.h"

const struct meta_pair *meta_find(const struct meta *meta, struct str key)
{
    uint32_t low = 0;
    uint32_t high = meta->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        struct str other = meta->pairs[mid].key;
        size_t common = other.bytes < key.bytes ? other.bytes : key.bytes;
        int order = common == 0 ? 0 : memcmp(other.ptr, key.ptr, common);
        if (order == 0 && other.bytes == key.bytes) {
            return &meta->pairs[mid];
        }
        if (order < 0 || (order == 0 && other.bytes < key.bytes)) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return NULL;
}

uint32_t meta_scalar_bytes(enum meta_type type)
{
    switch (type) {
    case META_U8:
    case META_I8:
    case META_BOOL:
        return 1;
    case META_U16:
    case META_I16:
        return 2;
    case META_U32:
    case META_I32:
    case META_F32:
        return 4;
    case META_U64:
    case META_I64:
    case META_F64:
        return 8;
    case META_STRING:
    case META_ARRAY:
        break;
    }
    return 0;
}

static bool signed_value(enum meta_type type, const unsigned char *value, int64_t *out)
{
    switch (type) {
    case META_I8:
        *out = (int64_t)(value[0] ^ 0x80u) - 0x80;
        return true;
    case META_I16:
        *out = (int16_t)load_u16(value);
        return true;
    case META_I32:
        *out = (int32_t)load_u32(value);
        return true;
    case META_I64:
        *out = (int64_t)load_u64(value);
        return true;
    case META_U8:
    case META_U16:
    case META_U32:
    case META_F32:
    case META_BOOL:
    case META_STRING:
    case META_ARRAY:
    case META_U64:
    case META_F64:
        break;
    }
    return false;
}

static bool unsigned_value(enum meta_type type, const unsigned char *value, uint64_t *out)
{
    switch (type) {
    case META_U8:
    case META_BOOL:
        *out = value[0];
        return true;
    case META_U16:
        *out = load_u16(value);
        return true;
    case META_U32:
        *out = load_u32(value);
        return true;
    case META_U64:
        *out = load_u64(value);
        return true;
    case META_I8:
    case META_I16:
    case META_I32:
    case META_I64:
    case META_F32:
    case META_STRING:
    case META_ARRAY:
    case META_F64:
        break;
    }
    return false;
}

static bool float_value(enum meta_type type, const unsigned char *value, double *out)
{
    if (type == META_F32) {
        *out = (double)load_f32(value);
    } else if (type == META_F64) {
        uint64_t bits = load_u64(value);
        memcpy(out, &bits, sizeof bits);
    } else {
        return false;
    }
    return true;
}

static bool as_u64(enum meta_type type, const unsigned char *value, uint64_t *out)
{
    int64_t number;
    double real;
    if (unsigned_value(type, value, out)) {
        return true;
    }
    if (signed_value(type, value, &number)) {
        *out = (uint64_t)number;
        return number >= 0;
    }
    if (!float_value(type, value, &real) || !(real >= 0 && real < 0x1p64) || (double)(uint64_t)real != real) {
        return false;
    }
    *out = (uint64_t)real;
    return true;
}

static bool as_f64(enum meta_type type, const unsigned char *value, double *out)
{
    uint64_t natural;
    int64_t number;
    if (float_value(type, value, out)) {
        return true;
    }
    if (unsigned_value(type, value, &natural)) {
        *out = (double)natural;
        return true;
    }
    if (signed_value(type, value, &number)) {
        *out = (double)number;
        return true;
    }
    return false;
}

bool meta_u64(const struct meta *meta, struct str key, uint64_t *out)
{
    const struct meta_pair *pair = meta_find(meta, key);
    uint64_t value;
    if (pair == NULL || !as_u64(pair->type, pair->value, &value)) {
        return false;
    }
    *out = value;
    return true;
}

bool meta_f64(const struct meta *meta, struct str key, double *out)
{
    const struct meta_pair *pair = meta_find(meta, key);
    return pair != NULL && as_f64(pair->type, pair->value, out);
}

bool meta_bool(const struct meta *meta, struct str key, bool *out)
{
    const struct meta_pair *pair = meta_find(meta, key);
    if (pair == NULL || pair->type != META_BOOL) {
        return false;
    }
    *out = pair->value[0] != 0;
    return true;
}

bool meta_str(const struct meta *meta, struct str key, struct str *out)
{
    const struct meta_pair *pair = meta_find(meta, key);
    if (pair == NULL || pair->type != META_STRING) {
        return false;
    }
    *out = (struct str){(const char *)pair->value + 8, (size_t)pair->value_bytes - 8};
    return true;
}

static const unsigned char *item_at(const struct meta_pair *pair, uint64_t index)
{
    uint32_t bytes = meta_scalar_bytes(pair->item_type);
    return pair->type != META_ARRAY || bytes == 0 || index >= pair->count ? NULL : pair->value + index * bytes;
}

bool meta_item_u64(const struct meta_pair *pair, uint64_t index, uint64_t *out)
{
    const unsigned char *value = item_at(pair, index);
    uint64_t number;
    if (value == NULL || !as_u64(pair->item_type, value, &number)) {
        return false;
    }
    *out = number;
    return true;
}

bool meta_item_f64(const struct meta_pair *pair, uint64_t index, double *out)
{
    const unsigned char *value = item_at(pair, index);
    return value != NULL && as_f64(pair->item_type, value, out);
}

bool meta_strings_begin(const struct meta_pair *pair, struct meta_strings *walk)
{
    if (pair->type != META_ARRAY || pair->item_type != META_STRING) {
        return false;
    }
    *walk = (struct meta_strings){pair->value, pair->value + pair->value_bytes, pair->count};
    return true;
}

bool meta_strings_next(struct meta_strings *walk, struct str *out)
{
    if (walk->left == 0 || walk->end - walk->at < 8) {
        return false;
    }
    uint64_t bytes = load_u64(walk->at);
    if (bytes > (uint64_t)(walk->end - walk->at) - 8) {
        return false;
    }
    *out = (struct str){(const char *)walk->at + 8, (size_t)bytes};
    walk->at += 8 + bytes;
    walk->left--;
    return true;
}
