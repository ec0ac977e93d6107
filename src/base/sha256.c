/* SPDX-License-Identifier: MIT
 * SHA-256 as FIPS 180-4 section 6.2 gives it. */
#include "base/sha256.h"

#include <string.h>

static const uint32_t first[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                  0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};

static const uint32_t constants[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u};

static uint32_t rotate(uint32_t x, unsigned bits)
{
    return (x >> bits) | (x << (32 - bits));
}

static void store_big(unsigned char *out, uint32_t value)
{
    out[0] = (unsigned char)(value >> 24);
    out[1] = (unsigned char)(value >> 16);
    out[2] = (unsigned char)(value >> 8);
    out[3] = (unsigned char)value;
}

static void compress(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    for (size_t t = 0; t < 16; t++) {
        const unsigned char *p = block + 4 * t;
        w[t] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ (w[t - 15] >> 3);
        uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ (w[t - 2] >> 10);
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; t++) {
        uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + constants[t] + w[t];
        uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

void sha256_begin(struct sha256 *sha)
{
    memcpy(sha->state, first, sizeof first);
    sha->bytes = 0;
}

void sha256_add(struct sha256 *sha, const void *data, size_t bytes)
{
    if (bytes == 0) {
        return; /* data may be NULL */
    }
    const unsigned char *p = data;
    size_t held = (size_t)(sha->bytes % SHA256_BLOCK);
    sha->bytes += bytes;
    if (held > 0) {
        size_t part = SHA256_BLOCK - held < bytes ? SHA256_BLOCK - held : bytes;
        memcpy(sha->block + held, p, part);
        if (held + part < SHA256_BLOCK) {
            return;
        }
        compress(sha->state, sha->block);
        p += part;
        bytes -= part;
    }
    for (; bytes >= SHA256_BLOCK; p += SHA256_BLOCK, bytes -= SHA256_BLOCK) {
        compress(sha->state, p);
    }
    memcpy(sha->block, p, bytes);
}

void sha256_end(struct sha256 *sha, unsigned char digest[SHA256_BYTES])
{
    static const unsigned char padding[SHA256_BLOCK] = {0x80};
    uint64_t bits = sha->bytes * 8;
    size_t held = (size_t)(sha->bytes % SHA256_BLOCK);
    unsigned char length[8];
    store_big(length, (uint32_t)(bits >> 32));
    store_big(length + 4, (uint32_t)bits);
    sha256_add(sha, padding, held < 56 ? 56 - held : 120 - held);
    sha256_add(sha, length, sizeof length);
    for (size_t i = 0; i < 8; i++) {
        store_big(digest + 4 * i, sha->state[i]);
    }
}

void sha256_end_text(struct sha256 *sha, char text[SHA256_TEXT_BYTES])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char digest[SHA256_BYTES];
    sha256_end(sha, digest);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        text[2 * i] = hex[digest[i] >> 4];
        text[2 * i + 1] = hex[digest[i] & 15];
    }
    text[SHA256_TEXT_BYTES - 1] = '\0';
}
