/* SPDX-License-Identifier: MIT
 * Directories that are large enough for a table of names answer like a search through the list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "model/tensors.h"

enum { TENSORS = 3000, NAME_BYTES = 64 };

static char names[TENSORS + 1][NAME_BYTES];
static struct tensor tensors[TENSORS];
static unsigned char memory[1 << 20];

static void fill(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        snprintf(names[i], NAME_BYTES, "model.layers.%u.mlp.experts.%u.up_proj.weight", i % 50, i / 50);
        tensors[i] =
            (struct tensor){.name = str_from(names[i]), .dims_count = 1, .offset = 8 * (uint64_t)i, .bytes = 8};
    }
}

static void look_up_all(uint32_t count, bool has_table)
{
    struct arena arena;
    struct tensor_dir dir;
    const struct tensor_file file = {"file", 0, 8 * (uint64_t)count, true};
    arena_carve(&arena, memory, sizeof memory);
    fill(count);
    assert_int_equal(tensor_dir_build(&dir, tensors, count, &file, 1, &arena, NULL), BERTH_OK);
    assert_true((dir.table != NULL) == has_table);
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *found = tensor_find(&dir, str_from(names[i]));
        assert_non_null(found);
        assert_int_equal(found->offset, 8 * (uint64_t)i);
    }
    assert_null(tensor_find(&dir, STR("model.layers.50.mlp.experts.0.up_proj.weight")));
    assert_null(tensor_find(&dir, STR("")));
}

static void test_large_and_small(void **state)
{
    (void)state;
    look_up_all(1023, false);
    look_up_all(1024, true);
    look_up_all(TENSORS, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_large_and_small)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
