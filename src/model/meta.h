/* SPDX-License-Identifier: MIT
 * GGUF metadata: typed key-value pairs, borrowed from the header bytes. */
#ifndef MODEL_META_H
#define MODEL_META_H

#include "base/error.h"
#include "base/str.h"

enum meta_type { /* numbers of the GGUF specification */
                 META_U8 = 0,
                 META_I8,
                 META_U16,
                 META_I16,
                 META_U32,
                 META_I32,
                 META_F32,
                 META_BOOL,
                 META_STRING,
                 META_ARRAY,
                 META_U64,
                 META_I64,
                 META_F64
};

struct meta_pair {
    struct str key;
    enum meta_type type;
    enum meta_type item_type;   /* META_ARRAY */
    uint64_t count;             /* META_ARRAY: items (nested arrays are refused at parse) */
    const unsigned char *value; /* little-endian bytes, unaligned; strings: u64 length then bytes; arrays: first item */
    uint64_t value_bytes;
};

struct meta {
    const struct meta_pair *pairs; /* sorted by key */
    uint32_t count;
};

/* NULL: absent. */
const struct meta_pair *meta_find(const struct meta *meta, struct str key);
/* Any integer or bool type that holds a value >= 0 (floats with an integral value too). */
bool meta_u64(const struct meta *meta, struct str key, uint64_t *out);
bool meta_f64(const struct meta *meta, struct str key, double *out);
bool meta_bool(const struct meta *meta, struct str key, bool *out);
bool meta_str(const struct meta *meta, struct str key, struct str *out);
/* Item `index` of a scalar array as integer or float. */
bool meta_item_u64(const struct meta_pair *pair, uint64_t index, uint64_t *out);
bool meta_item_f64(const struct meta_pair *pair, uint64_t index, double *out);

/* Bytes of a value of this type, 0 for strings and arrays. */
uint32_t meta_scalar_bytes(enum meta_type type);

/* Walks a string array in order. */
struct meta_strings {
    const unsigned char *at, *end;
    uint64_t left;
};
bool meta_strings_begin(const struct meta_pair *pair, struct meta_strings *walk); /* false: not a string array */
bool meta_strings_next(struct meta_strings *walk, struct str *out);

#endif
