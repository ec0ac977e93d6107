/* SPDX-License-Identifier: MIT */
#include "text/vocab.h"

#include <assert.h>

#include "base/bytes.h"
#include "text/unicode.h"

berth_status vocab_layout(const struct text_build *build, uint32_t count, uint32_t indexed, uint64_t bytes,
                          struct vocab *out, berth_error *err)
{
    if (count > VOCAB_IDS_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "the vocabulary has %u token ids, at most %d are supported", count,
                         VOCAB_IDS_MAX);
    }
    if (bytes > UINT32_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "the token spellings take %llu bytes, at most 4 GiB are supported",
                         (unsigned long long)bytes);
    }
    void *starts;
    void *text;
    void *flags;
    void *slots;
    *out = (struct vocab){.count = count, .slots_count = indexed + indexed / 2 + 8};
    TRY(text_build_keep(build, (uint64_t)count + 1, sizeof *out->starts, &starts, err));
    TRY(text_build_keep(build, bytes, 1, &text, err));
    TRY(text_build_keep(build, count, 1, &flags, err));
    TRY(text_build_keep(build, out->slots_count, sizeof *out->slots, &slots, err));
    out->starts = starts;
    out->bytes = text;
    out->flags = flags;
    out->slots = slots;
    return BERTH_OK;
}

enum { ID_BITS = 22 };
static const uint32_t ID_MASK = (1u << ID_BITS) - 1;
_Static_assert(VOCAB_IDS_MAX < 1 << ID_BITS, "an id + 1 fits below the bits of the hash");

/* A walk over the slots where a hash may be. The bits of the hash beside each id tell most others apart without a look
 * at their spelling, which would be two more cache misses. */
struct probe {
    uint32_t slot;
    uint32_t mark;
};

/* FNV leaves short strings close together; the multiplication spreads them over the upper half, which then scales to
 * the table. */
static struct probe probe_begin(const struct vocab *vocab, uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= 0x9e3779b97f4a7c15u;
    return (struct probe){(uint32_t)((hash >> 32) * vocab->slots_count >> 32), (uint32_t)hash & ~ID_MASK};
}

static void probe_next(const struct vocab *vocab, struct probe *probe)
{
    probe->slot = probe->slot + 1 == vocab->slots_count ? 0 : probe->slot + 1;
}

/* The next id of this hash; VOCAB_NONE: a free slot ends the walk. */
static int32_t probe_id(const struct vocab *vocab, struct probe *probe)
{
    for (;; probe_next(vocab, probe)) {
        uint32_t entry = vocab->slots[probe->slot];
        if (entry == 0) {
            return VOCAB_NONE;
        }
        if ((entry & ~ID_MASK) == probe->mark) {
            return (int32_t)(entry & ID_MASK) - 1;
        }
    }
}

int32_t vocab_index(struct vocab *vocab, int32_t id)
{
    struct str spelling = vocab_spelling(vocab, id);
    struct probe probe = probe_begin(vocab, hash_bytes(HASH_SEED, spelling.ptr, spelling.bytes));
    for (int32_t there; (there = probe_id(vocab, &probe)) != VOCAB_NONE; probe_next(vocab, &probe)) {
        if (str_equal(vocab_spelling(vocab, there), spelling)) {
            return there;
        }
    }
    vocab->slots[probe.slot] = probe.mark | ((uint32_t)id + 1);
    vocab->flags[id] |= VOCAB_INDEXED;
    return id;
}

/* Most spellings have less than 16 bytes, too few for a call. */
static bool same_bytes(const char *a, const char *b, size_t bytes)
{
    if (bytes >= 8) {
        return load_u64(a) == load_u64(b) && (bytes <= 16 ? load_u64(a + bytes - 8) == load_u64(b + bytes - 8)
                                                          : memcmp(a + 8, b + 8, bytes - 8) == 0);
    }
    if (bytes >= 4) {
        return load_u32(a) == load_u32(b) && load_u32(a + bytes - 4) == load_u32(b + bytes - 4);
    }
    for (size_t i = 0; i < bytes; i++) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

static bool is_joined(struct str spelling, struct str a, struct str b)
{
    return spelling.bytes == a.bytes + b.bytes && same_bytes(spelling.ptr, a.ptr, a.bytes) &&
           same_bytes(spelling.ptr + a.bytes, b.ptr, b.bytes);
}

int32_t vocab_find_joined(const struct vocab *vocab, struct str a, struct str b)
{
    size_t bytes = a.bytes + b.bytes;
    if (bytes > vocab->longest_bytes) {
        return VOCAB_NONE;
    }
    struct probe probe = probe_begin(vocab, hash_bytes(hash_bytes(HASH_SEED, a.ptr, a.bytes), b.ptr, b.bytes));
    int32_t id;
    for (; (id = probe_id(vocab, &probe)) != VOCAB_NONE; probe_next(vocab, &probe)) {
        if (is_joined(vocab_spelling(vocab, id), a, b)) {
            break;
        }
    }
    return id;
}

int32_t vocab_find_joined_near(const struct vocab *vocab, struct str a, struct str b, int32_t guess)
{
    bool likely = guess >= 0 && guess < (int32_t)vocab->count && (vocab->flags[guess] & VOCAB_INDEXED) != 0;
    return likely && is_joined(vocab_spelling(vocab, guess), a, b) ? guess : vocab_find_joined(vocab, a, b);
}

int32_t vocab_find(const struct vocab *vocab, struct str spelling)
{
    return vocab_find_joined(vocab, spelling, (struct str){"", 0});
}

void vocab_find_many(const struct vocab *vocab, const struct str *spellings, uint32_t count, int32_t *ids)
{
    struct probe probes[VOCAB_FIND_MANY];
    assert(count <= VOCAB_FIND_MANY);
    for (uint32_t i = 0; i < count; i++) {
        probes[i] = probe_begin(vocab, hash_bytes(HASH_SEED, spellings[i].ptr, spellings[i].bytes));
        __builtin_prefetch(&vocab->slots[probes[i].slot]);
    }
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = probe_id(vocab, &probes[i]);
        __builtin_prefetch(&vocab->starts[ids[i] == VOCAB_NONE ? 0 : ids[i]]);
    }
    for (uint32_t i = 0; i < count; i++) {
        __builtin_prefetch(vocab->bytes + vocab->starts[ids[i] == VOCAB_NONE ? 0 : ids[i]]);
    }
    for (uint32_t i = 0; i < count; i++) {
        while (ids[i] != VOCAB_NONE && !is_joined(vocab_spelling(vocab, ids[i]), spellings[i], (struct str){"", 0})) {
            probe_next(vocab, &probes[i]);
            ids[i] = probe_id(vocab, &probes[i]);
        }
    }
}

static bool is_spelt(struct str spelling, struct str text)
{
    size_t at = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        char mapped[4];
        size_t bytes = unicode_put(byte_level_point((unsigned char)text.ptr[i]), mapped);
        if (spelling.bytes - at < bytes || memcmp(spelling.ptr + at, mapped, bytes) != 0) {
            return false;
        }
        at += bytes;
    }
    return at == spelling.bytes;
}

int32_t vocab_find_byte_level(const struct vocab *vocab, struct str text)
{
    if (text.bytes > vocab->longest_bytes) {
        return VOCAB_NONE;
    }
    uint64_t hash = HASH_SEED;
    for (size_t i = 0; i < text.bytes; i++) {
        char mapped[4];
        size_t bytes = unicode_put(byte_level_point((unsigned char)text.ptr[i]), mapped);
        hash = hash_bytes(hash, mapped, bytes);
    }
    struct probe probe = probe_begin(vocab, hash);
    int32_t id;
    for (; (id = probe_id(vocab, &probe)) != VOCAB_NONE; probe_next(vocab, &probe)) {
        if (is_spelt(vocab_spelling(vocab, id), text)) {
            break;
        }
    }
    return id;
}
