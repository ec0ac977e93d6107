/* SPDX-License-Identifier: MIT
 * Compiling and matching. The translation of dialects is in pattern_translate.c. */
#include "text/pattern.h"

#include <assert.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Back-tracking frames: PCRE2 starts with 20 KiB and doubles; old and new are held while it copies. */
enum { POOL_BLOCKS = 16, POOL_BYTES = 256 << 10, HEAP_LIMIT_KIB = 128 };

struct pool_block {
    uint32_t start;
    uint32_t bytes; /* 0: free entry */
};

/* First fit in a fixed region: PCRE2 asks for a handful of blocks. */
struct pool {
    unsigned char *base;
    struct pool_block blocks[POOL_BLOCKS]; /* in order of address, free entries last */
};

struct pattern_matcher {
    struct pool pool;
    pcre2_match_context *context;
    pcre2_match_data *data;
    struct str text, like;
};

static void *pool_take(size_t bytes, void *user)
{
    struct pool *pool = user;
    bytes = (bytes + 15) & ~(size_t)15;
    uint32_t gap = 0;
    for (uint32_t i = 0; i < POOL_BLOCKS; i++) {
        struct pool_block *block = &pool->blocks[i];
        uint32_t end = block->bytes == 0 ? POOL_BYTES : block->start;
        if (bytes <= end - gap && pool->blocks[POOL_BLOCKS - 1].bytes == 0) {
            memmove(block + 1, block, (POOL_BLOCKS - 1 - i) * sizeof *block);
            *block = (struct pool_block){gap, (uint32_t)bytes};
            return pool->base + gap;
        }
        if (block->bytes == 0) {
            break;
        }
        gap = block->start + block->bytes;
    }
    return NULL;
}

static void pool_give(void *place, void *user)
{
    struct pool *pool = user;
    if (place == NULL) {
        return;
    }
    uint32_t start = (uint32_t)((unsigned char *)place - pool->base);
    for (uint32_t i = 0; i < POOL_BLOCKS; i++) {
        if (pool->blocks[i].bytes != 0 && pool->blocks[i].start == start) {
            memmove(&pool->blocks[i], &pool->blocks[i + 1], (POOL_BLOCKS - 1 - i) * sizeof pool->blocks[i]);
            pool->blocks[POOL_BLOCKS - 1] = (struct pool_block){0, 0};
            return;
        }
    }
    assert(false && "PCRE2 gave back what it did not take");
}

berth_status pattern_matcher_layout(const struct text_build *build, struct pattern_matcher **out, berth_error *err)
{
    void *place;
    void *base;
    TRY(text_build_keep(build, 1, sizeof **out, &place, err));
    TRY(text_build_keep(build, POOL_BYTES, 1, &base, err));
    struct pattern_matcher *matcher = place;
    matcher->pool.base = base;
    pcre2_general_context *general = pcre2_general_context_create(pool_take, pool_give, &matcher->pool);
    if (general != NULL) {
        matcher->context = pcre2_match_context_create(general);
        matcher->data = pcre2_match_data_create(1, general);
        pcre2_general_context_free(general);
    }
    if (matcher->context == NULL || matcher->data == NULL) {
        return error_set(err, BERTH_ERR_INTERNAL, "the pool of the pattern matcher is too small");
    }
    pcre2_set_heap_limit(matcher->context, HEAP_LIMIT_KIB);
    *out = matcher;
    return BERTH_OK;
}

/* Compile-time allocations: taken from the temp arena, never given back one by one. `kept` (if any) is what the next
 * allocation gets: the place of the copy that stays. */
struct compile_memory {
    const struct text_build *build;
    void *kept;
};

static void *compile_take(size_t bytes, void *user)
{
    struct compile_memory *memory = user;
    if (memory->kept != NULL) {
        void *kept = memory->kept;
        memory->kept = NULL;
        return kept;
    }
    void *place;
    return text_build_temp(memory->build, bytes, 1, &place, NULL) == BERTH_OK ? place : NULL;
}

static void compile_give(void *place, void *user)
{
    (void)place;
    (void)user;
}

static berth_status compile_failed(int code, size_t offset, struct str source, berth_error *err)
{
    unsigned char text[128] = "";
    (void)pcre2_get_error_message(code, text, sizeof text);
    return error_set(err, BERTH_ERR_UNSUPPORTED,
                     "the pre-tokenizer pattern \"%.*s\" cannot be used: %s (near byte %llu of its PCRE2 form)",
                     STR_ARG(source), (const char *)text, (unsigned long long)offset);
}

static berth_status keep_code(struct compile_memory *memory, const pcre2_code *compiled, struct pattern *out,
                              berth_error *err)
{
    size_t bytes;
    if (pcre2_pattern_info(compiled, PCRE2_INFO_SIZE, &bytes) != 0) {
        return error_set(err, BERTH_ERR_INTERNAL, "PCRE2 does not tell the size of a pattern");
    }
    TRY(text_build_keep(memory->build, bytes, 1, &memory->kept, err));
    out->code = pcre2_code_copy(compiled);
    if (out->code == NULL || memory->kept != NULL) {
        return error_set(err, BERTH_ERR_INTERNAL, "PCRE2 did not copy a pattern into the memory set aside for it");
    }
    return BERTH_OK;
}

berth_status pattern_compile(const struct text_build *build, struct str source, struct pattern *out, berth_error *err)
{
    struct str translated;
    bool has_references;
    TRY(pattern_translate(build, source, &translated, &has_references, err));
    struct compile_memory memory = {.build = build};
    pcre2_general_context *general = pcre2_general_context_create(compile_take, compile_give, &memory);
    pcre2_compile_context *context = general == NULL ? NULL : pcre2_compile_context_create(general);
    if (context == NULL) {
        return arena_check(build->temp, "tokenizer", err);
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | (has_references ? 0 : PCRE2_NO_AUTO_CAPTURE);
    int code;
    size_t offset;
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)translated.ptr, translated.bytes, options, &code, &offset, context);
    TRY(arena_check(build->temp, "tokenizer", err));
    if (compiled == NULL) {
        return compile_failed(code, offset, source, err);
    }
    *out = (struct pattern){NULL, {NULL, 0}};
    return keep_code(&memory, compiled, out, err);
}

berth_status pattern_literal(const struct text_build *build, struct str literal, struct pattern *out, berth_error *err)
{
    *out = (struct pattern){NULL, {NULL, 0}};
    return text_build_copy(build, literal, &out->literal, err);
}

void pattern_matcher_read_like(struct pattern_matcher *matcher, struct str text, struct str like)
{
    assert(text.bytes == like.bytes);
    matcher->text = text;
    matcher->like = like;
}

void pattern_walk_begin(struct pattern_walk *walk, const struct pattern *pattern, struct pattern_matcher *matcher,
                        struct str subject)
{
    uintptr_t base = (uintptr_t)matcher->text.ptr;
    uintptr_t at = (uintptr_t)subject.ptr;
    bool inside = at >= base && at - base <= matcher->like.bytes && subject.bytes <= matcher->like.bytes - (at - base);
    *walk = (struct pattern_walk){.pattern = pattern,
                                  .matcher = matcher,
                                  .subject = subject,
                                  .like = inside ? matcher->like.ptr + (at - base) : subject.ptr,
                                  .last_end = SIZE_MAX};
}

static bool next_literal(struct pattern_walk *walk, size_t *start, size_t *end)
{
    struct str literal = walk->pattern->literal;
    while (literal.bytes != 0 && walk->from < walk->subject.bytes) {
        const char *at = walk->subject.ptr + walk->from;
        size_t left = walk->subject.bytes - walk->from;
        const char *hit = memchr(at, literal.ptr[0], left);
        if (hit == NULL || left - (size_t)(hit - at) < literal.bytes) {
            return false;
        }
        walk->from += (size_t)(hit - at);
        if (memcmp(hit, literal.ptr, literal.bytes) == 0) {
            *start = walk->from;
            walk->from += literal.bytes;
            *end = walk->from;
            return true;
        }
        walk->from++;
    }
    return false;
}

static size_t character_bytes(unsigned char lead)
{
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

static berth_status match_failed(int code, size_t bytes, berth_error *err)
{
    if (code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_DEPTHLIMIT || code == PCRE2_ERROR_HEAPLIMIT ||
        code == PCRE2_ERROR_NOMEMORY) {
        return error_set(
            err, BERTH_ERR_LIMIT,
            "the pre-tokenizer pattern needs more back-tracking than the %d KiB and the steps set aside for "
            "it, at a run of %llu bytes without a split; break the text up",
            HEAP_LIMIT_KIB, (unsigned long long)bytes);
    }
    return error_set(err, BERTH_ERR_INTERNAL, "PCRE2 error %d while splitting text", code);
}

berth_status pattern_walk_next(struct pattern_walk *walk, bool *found, size_t *start, size_t *end, berth_error *err)
{
    if (walk->pattern->code == NULL) {
        *found = next_literal(walk, start, end);
        return BERTH_OK;
    }
    struct pattern_matcher *matcher = walk->matcher;
    while (walk->from <= walk->subject.bytes) {
        int code = pcre2_match(walk->pattern->code, (PCRE2_SPTR)walk->like, walk->subject.bytes, walk->from,
                               PCRE2_NO_UTF_CHECK, matcher->data, matcher->context);
        if (code == PCRE2_ERROR_NOMATCH) {
            break;
        }
        if (code < 0) {
            return match_failed(code, walk->subject.bytes - walk->from, err);
        }
        const size_t *at = pcre2_get_ovector_pointer(matcher->data);
        if (at[0] > at[1]) { /* \K inside a lookahead */
            return error_set(err, BERTH_ERR_UNSUPPORTED, "a pre-tokenizer pattern matches backwards");
        }
        if (at[0] == at[1] && at[1] == walk->last_end) {
            walk->from +=
                walk->from < walk->subject.bytes ? character_bytes((unsigned char)walk->subject.ptr[walk->from]) : 1;
            continue;
        }
        *start = at[0];
        *end = at[1];
        walk->from = at[1];
        walk->last_end = at[1];
        *found = true;
        return BERTH_OK;
    }
    *found = false;
    return BERTH_OK;
}
