/* SPDX-License-Identifier: MIT
 * Encoding and decoding allocate nothing: malloc and its kin are counted in this program, for the libraries too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/text_help.h"

#ifndef BERTH_SANITIZED /* sanitizers bring their own allocator */

static unsigned long allocations;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *place, size_t bytes);

void *malloc(size_t bytes)
{
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    allocations++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *place, size_t bytes)
{
    allocations++;
    return __libc_realloc(place, bytes);
}

static void encoding_and_decoding_allocate_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "Hello, world's 123 <|im_end|>\r\n\t",
        "e\xcc\x81\xcc\xa3 \xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8 \xef\xac\x81 \xf0\x9f\xa9\xb7", /* NFC, a newer emoji */
        "\xff\xfe broken \xe4\xb8",
    };
    static char longer[60000];
    static int32_t ids[200000];
    static char out[400000];
    struct checkpoint checkpoint = {.tokenizer_json = text_help_read(BERTH_TESTS_DIR "/golden/pocket/tokenizer.json")};
    struct text_help help;
    assert_non_null(checkpoint.tokenizer_json.ptr);
    unsigned long before = allocations;
    assert_int_equal(text_help_build(&help, &checkpoint, 65536), BERTH_OK);
    assert_int_equal(allocations - before, 0); /* building neither */
    memset(longer, 'a', sizeof longer);
    for (size_t i = 0; i < 4; i++) {
        struct str input = i < 3 ? str_from(texts[i]) : (struct str){longer, sizeof longer};
        size_t count;
        before = allocations;
        berth_status status = text_encode(help.text, input, BERTH_TOKENIZE_SPECIAL, ids, 200000, &count, NULL);
        size_t bytes = text_help_decode(help.text, ids, count, true, out, sizeof out);
        assert_int_equal(allocations - before, 0);
        assert_int_equal(status, BERTH_OK);
        assert_true(bytes > 0 && bytes != SIZE_MAX);
    }
    text_help_free(&help);
    before = allocations;
    free((void *)(uintptr_t)checkpoint.tokenizer_json.ptr);
    char *volatile seen = malloc(1);
    free(seen);
    assert_true(allocations > before); /* the count counts */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(encoding_and_decoding_allocate_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    (void)puts("SKIP: a sanitizer's allocator cannot be counted");
    return 77;
}

#endif
