/* SPDX-License-Identifier: MIT
 * Borrowed byte slices: what parsers hand out instead of NUL-terminated strings. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

struct str {
    const char *ptr; /* not NUL-terminated; lifetime as documented by who hands it out */
    size_t bytes;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
/* printf("%.*s", STR_ARG(s)): at most 200 bytes, enough for a message. */
#define STR_ARG(s) ((int)((s).bytes > 200 ? 200 : (s).bytes)), ((s).ptr)

static inline struct str str_from(const char *zero_terminated)
{
    return (struct str){zero_terminated, strlen(zero_terminated)};
}

static inline bool str_equal(struct str a, struct str b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.ptr, b.ptr, a.bytes) == 0);
}

static inline bool str_is(struct str a, const char *zero_terminated)
{
    return str_equal(a, str_from(zero_terminated));
}

static inline bool str_starts(struct str a, struct str prefix)
{
    return a.bytes >= prefix.bytes && memcmp(a.ptr, prefix.ptr, prefix.bytes) == 0;
}

static inline bool str_ends(struct str a, struct str suffix)
{
    return a.bytes >= suffix.bytes && memcmp(a.ptr + (a.bytes - suffix.bytes), suffix.ptr, suffix.bytes) == 0;
}

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Equal but for the case of ASCII letters. */
static inline bool str_same(struct str a, struct str b)
{
    bool same = a.bytes == b.bytes;
    for (size_t i = 0; same && i < a.bytes; i++) {
        same = ascii_lower(a.ptr[i]) == ascii_lower(b.ptr[i]);
    }
    return same;
}

/* FNV-1a, 64 bit (Fowler, Noll, Vo). */
static inline uint64_t hash_bytes(uint64_t seed, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = seed;
    for (size_t i = 0; i < bytes; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): it cannot follow an array's bytes */
        h = (h ^ p[i]) * 0x100000001b3ull;
    }
    return h;
}
#define HASH_SEED 0xcbf29ce484222325ull

/* For tables in memory, eight bytes at a time: nothing that is kept may depend on its values. */
static inline uint64_t hash_name(struct str name)
{
    uint64_t h = name.bytes;
    size_t at = 0;
    for (; at + 8 <= name.bytes; at += 8) {
        h = (h ^ load_u64(name.ptr + at)) * 0x9e3779b97f4a7c15ull; /* 2^64 by the golden ratio */
        h ^= h >> 32;
    }
    uint64_t rest = 0;
    if (at < name.bytes) {
        memcpy(&rest, name.ptr + at, name.bytes - at);
    }
    h = (h ^ rest) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 32;
}

/* True when all bytes are well-formed UTF-8 (RFC 3629: no surrogates, nothing above U+10FFFF, shortest form). */
bool utf8_is_valid(const char *ptr, size_t bytes);
/* Length (1..4) of the well-formed sequence at ptr, 0 if malformed, and -n if the n bytes so far are a proper prefix of
 * one. */
int utf8_sequence(const unsigned char *ptr, size_t bytes);

#endif
