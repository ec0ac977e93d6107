/* SPDX-License-Identifier: MIT */
#include "text/vocab.h"

#include <assert.h>

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

/* FNV leaves short strings close together; the multiplication spreads them over the upper half, which then scales to
 * the table. */
static uint32_t first_slot(const struct vocab *vocab, uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= 0x9e3779b97f4a7c15u;
    return (uint32_t)((hash >> 32) * vocab->slots_count >> 32);
}

static uint32_t next_slot(const struct vocab *vocab, uint32_t slot)
{
    return slot + 1 == vocab->slots_count ? 0 : slot + 1;
}

int32_t vocab_index(struct vocab *vocab, int32_t id)
{
    struct str spelling = vocab_spelling(vocab, id);
    uint32_t slot = first_slot(vocab, hash_bytes(HASH_SEED, spelling.ptr, spelling.bytes));
    for (uint32_t tried = 0; tried < vocab->slots_count; tried++) {
        if (vocab->slots[slot] == 0) {
            vocab->slots[slot] = (uint32_t)id + 1;
            return id;
        }
        int32_t there = (int32_t)vocab->slots[slot] - 1;
        if (str_equal(vocab_spelling(vocab, there), spelling)) {
            return there;
        }
        slot = next_slot(vocab, slot);
    }
    assert(false && "the index was laid out for fewer tokens");
    return VOCAB_NONE;
}

int32_t vocab_find_joined(const struct vocab *vocab, struct str a, struct str b)
{
    size_t bytes = a.bytes + b.bytes;
    if (bytes > vocab->longest_bytes) {
        return VOCAB_NONE;
    }
    uint64_t hash = hash_bytes(hash_bytes(HASH_SEED, a.ptr, a.bytes), b.ptr, b.bytes);
    uint32_t slot = first_slot(vocab, hash);
    for (; vocab->slots[slot] != 0; slot = next_slot(vocab, slot)) {
        int32_t id = (int32_t)vocab->slots[slot] - 1;
        struct str there = vocab_spelling(vocab, id);
        if (there.bytes == bytes && (a.bytes == 0 || memcmp(there.ptr, a.ptr, a.bytes) == 0) &&
            (b.bytes == 0 || memcmp(there.ptr + a.bytes, b.ptr, b.bytes) == 0)) {
            return id;
        }
    }
    return VOCAB_NONE;
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
    uint32_t slot = first_slot(vocab, hash);
    for (; vocab->slots[slot] != 0; slot = next_slot(vocab, slot)) {
        int32_t id = (int32_t)vocab->slots[slot] - 1;
        if (is_spelt(vocab_spelling(vocab, id), text)) {
            return id;
        }
    }
    return VOCAB_NONE;
}
