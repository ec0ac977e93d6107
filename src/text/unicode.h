/* SPDX-License-Identifier: MIT
 * Code points in and out of UTF-8, and the byte-level alphabet: GPT-2 writes each byte of a text as one printable
 * character, so that vocabularies are readable files. Printable Latin-1 stands for itself, the other 68 bytes are
 * numbered up from U+0100. */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include "base/str.h"

enum { UNICODE_REPLACEMENT = 0xfffd };

/* Code point of the sequence at ptr[0..bytes), its length in *length. Malformed: U+FFFD, and *length is the longest
 * prefix that could still have become a character, 1 at least. bytes >= 1. */
static inline uint32_t unicode_next(const char *ptr, size_t bytes, size_t *length)
{
    const unsigned char *p = (const unsigned char *)ptr;
    if (p[0] < 0x80) {
        *length = 1;
        return p[0];
    }
    int sequence = utf8_sequence(p, bytes);
    switch (sequence) {
    case 2:
        *length = 2;
        return (uint32_t)(p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    case 3:
        *length = 3;
        return (uint32_t)(p[0] & 0x0fu) << 12 | (uint32_t)(p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    case 4:
        *length = 4;
        return (uint32_t)(p[0] & 0x07u) << 18 | (uint32_t)(p[1] & 0x3fu) << 12 | (uint32_t)(p[2] & 0x3fu) << 6 |
               (p[3] & 0x3fu);
    default:
        break;
    }
    size_t prefix = 1;
    while (prefix < 3 && prefix < bytes && utf8_sequence(p, prefix + 1) < 0) {
        prefix++;
    }
    *length = prefix;
    return UNICODE_REPLACEMENT;
}

/* Writes 1..4 bytes. */
static inline size_t unicode_put(uint32_t point, char *out)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xc0u | point >> 6);
        out[1] = (char)(0x80u | (point & 0x3fu));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xe0u | point >> 12);
        out[1] = (char)(0x80u | (point >> 6 & 0x3fu));
        out[2] = (char)(0x80u | (point & 0x3fu));
        return 3;
    }
    out[0] = (char)(0xf0u | point >> 18);
    out[1] = (char)(0x80u | (point >> 12 & 0x3fu));
    out[2] = (char)(0x80u | (point >> 6 & 0x3fu));
    out[3] = (char)(0x80u | (point & 0x3fu));
    return 4;
}

static inline bool unicode_is_white_space(uint32_t point)
{
    return (point >= 0x09 && point <= 0x0d) || point == 0x20 || point == 0x85 || point == 0xa0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 || point == 0x202f ||
           point == 0x205f || point == 0x3000;
}

static inline uint32_t byte_level_point(unsigned char byte)
{
    if ((byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad)) {
        return byte;
    }
    return 0x100u + (byte <= 0x20 ? byte : byte <= 0xa0 ? byte - 0x7fu + 33u : 67u);
}

/* The byte that a character of the byte-level alphabet stands for, -1: not in the alphabet. */
static inline int byte_level_byte(uint32_t point)
{
    if (point < 0x100) {
        return (point >= 0x21 && point <= 0x7e) || (point >= 0xa1 && point != 0xad) ? (int)point : -1;
    }
    uint32_t nth = point - 0x100u;
    return nth <= 32 ? (int)nth : nth <= 66 ? (int)(nth - 33u + 0x7fu) : nth == 67 ? 0xad : -1;
}

#endif
