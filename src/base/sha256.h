/* SPDX-License-Identifier: MIT
 * SHA-256 (FIPS 180-4), incremental. Ours, so that the run path maps no cryptography library: docs/dependencies.md. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_TEXT_BYTES = 65, SHA256_BLOCK = 64 };

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[SHA256_BLOCK];
};

void sha256_begin(struct sha256 *sha);
void sha256_add(struct sha256 *sha, const void *data, size_t bytes);
void sha256_end(struct sha256 *sha, unsigned char digest[SHA256_BYTES]);
/* Ends and writes 64 lower-case hex digits and a NUL. */
void sha256_end_text(struct sha256 *sha, char text[SHA256_TEXT_BYTES]);

#endif
