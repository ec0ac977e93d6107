/* SPDX-License-Identifier: MIT
 * os/ring.h: reads arrive with their tags, a full ring says so, what was not sent can be taken back. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/ring.h"

enum { PAGE = 4096, PAGES = 8, ENTRIES = 4 };

static char path[64] = "./berth-ring-XXXXXX";
static unsigned char *buffer;
static struct os_file file;
static struct os_ring ring;

static int setup(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    unsigned char page[PAGE];
    for (int i = 0; i < PAGES; i++) {
        memset(page, 'a' + i, sizeof page);
        if (write(fd, page, i == PAGES - 1 ? 100 : PAGE) <= 0) { /* the last page is short */
            return -1;
        }
    }
    fsync(fd);
    close(fd);
    buffer = aligned_alloc(PAGE, PAGES * PAGE);
    return os_file_open(&file, path, true, NULL, NULL) == BERTH_OK && buffer != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    os_ring_close(&ring);
    os_file_close(&file);
    free(buffer);
    return unlink(path);
}

static bool push(uint32_t page, uint64_t tag)
{
    return os_ring_push_read(&ring, &file, page * PAGE, PAGE, buffer + page * PAGE, tag);
}

static void reads_arrive_with_their_tags(void **state)
{
    (void)state;
    memset(buffer, 0, PAGES * PAGE);
    assert_true(push(2, 20));
    assert_true(push(7, 70));
    assert_true(push(5, 50));
    unsigned seen = 0;
    while (seen < 3) {
        uint64_t tag;
        int32_t result;
        assert_true(os_ring_enter(&ring, true));
        while (os_ring_pop(&ring, &tag, &result)) {
            assert_int_equal(result, tag == 70 ? 100 : PAGE);
            assert_int_equal(buffer[tag / 10 * PAGE], 'a' + tag / 10);
            seen++;
        }
    }
    assert_int_equal(seen, 3);
    assert_int_equal(buffer[3 * PAGE], 0);
    assert_true(os_ring_enter(&ring, false)); /* nothing to send, nothing to wait for */
}

static void errors_are_results(void **state)
{
    (void)state;
    struct os_file closed = file;
    closed.fd = 1 << 20;
    uint64_t tag;
    int32_t result;
    assert_true(os_ring_push_read(&ring, &closed, 0, PAGE, buffer, 9));
    assert_true(os_ring_enter(&ring, true));
    assert_true(os_ring_pop(&ring, &tag, &result));
    assert_int_equal(tag, 9);
    assert_int_equal(result, -EBADF);
    assert_false(os_ring_pop(&ring, &tag, &result));
}

static void full_ring_refuses_and_gives_back(void **state)
{
    (void)state;
    memset(buffer, 0, PAGES * PAGE);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        assert_true(push(i, i));
    }
    assert_false(push(4, 4));
    os_ring_take_back(&ring);
    assert_true(os_ring_enter(&ring, false));
    uint64_t tag;
    int32_t result;
    assert_false(os_ring_pop(&ring, &tag, &result));
    assert_int_equal(buffer[0], 0);
    assert_true(push(6, 6)); /* works after that */
    assert_true(os_ring_enter(&ring, true));
    assert_true(os_ring_pop(&ring, &tag, &result));
    assert_int_equal(tag, 6);
    assert_int_equal(buffer[6 * PAGE], 'a' + 6);
}

int main(void)
{
    berth_error err;
    if (os_ring_open(&ring, ENTRIES, &err) != BERTH_OK) {
        printf("SKIP: %s\n", err.message);
        return err.status == BERTH_ERR_UNSUPPORTED ? 77 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_arrive_with_their_tags),
        cmocka_unit_test(errors_are_results),
        cmocka_unit_test(full_ring_refuses_and_gives_back),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
