/* SPDX-License-Identifier: MIT */
#include "text/vocab.h"

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
    return id;
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
        struct str there = vocab_spelling(vocab, id);
        if (there.bytes == bytes && (a.bytes == 0 || memcmp(there.ptr, a.ptr, a.bytes) == 0) &&
            (b.bytes == 0 || memcmp(there.ptr + a.bytes, b.ptr, b.bytes) == 0)) {
            break;
        }
    }
    return id;
}

int32_t vocab_find(const struct vocab *vocab, struct str spelling)
{
    return vocab_find_joined(vocab, spelling, (struct str){"", 0});
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
