/* SPDX-License-Identifier: MIT
 * experts/catalog.h: classes, places in a slot, floors, slot counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "experts/catalog.h"

enum { PAGE = 4096, MEMORY_BYTES = 1 << 20 };

static void *memory;

static int setup(void **state)
{
    (void)state;
    memory = aligned_alloc(PAGE, MEMORY_BYTES);
    return memory == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

/* part_bytes[layer][part]; experts lie one after the other, part by part, from an odd place on. */
static struct catalog make_catalog(uint32_t layers, uint32_t experts, uint32_t top_k,
                                   uint32_t part_bytes[][EXPERT_PARTS])
{
    struct arena arena;
    struct catalog catalog;
    memset(memory, 0, MEMORY_BYTES);
    arena_carve(&arena, memory, MEMORY_BYTES);
    assert_int_equal(catalog_layout(&arena, layers, experts, top_k, &catalog, NULL), BERTH_OK);
    uint64_t offset = 32;
    for (uint32_t layer = 0; layer < layers; layer++) {
        for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
            for (uint32_t expert = 0; expert < experts; expert++) {
                uint32_t bytes = part_bytes[layer][part];
                *catalog_slice(&catalog, layer, expert, part) = (struct expert_slice){.offset = offset, .bytes = bytes};
                offset += bytes;
            }
            offset += 100000; /* other tensors */
        }
    }
    return catalog;
}

static void layout_measured_equals_carved(void **state)
{
    (void)state;
    struct arena measure;
    struct arena carve;
    struct catalog catalog;
    arena_measure(&measure);
    arena_carve(&carve, memory, MEMORY_BYTES);
    assert_int_equal(catalog_layout(&measure, 7, 33, 4, &catalog, NULL), BERTH_OK);
    assert_null(catalog.slices);
    assert_int_equal(catalog_layout(&carve, 7, 33, 4, &catalog, NULL), BERTH_OK);
    assert_int_equal(measure.used_bytes, carve.used_bytes);
    assert_true(measure.used_bytes >= 7 * 33 * 3 * sizeof(struct expert_slice) + 7);
}

static void layout_out_of_limits_is_refused(void **state)
{
    (void)state;
    struct arena arena;
    struct catalog catalog;
    berth_error err;
    arena_measure(&arena);
    assert_int_equal(catalog_layout(&arena, CATALOG_LAYERS_MAX, EXPERTS_MAX, EXPERTS_MAX, &catalog, &err), BERTH_OK);
    assert_int_equal(catalog_layout(&arena, 0, 8, 2, &catalog, &err), BERTH_ERR_LIMIT);
    assert_int_equal(catalog_layout(&arena, CATALOG_LAYERS_MAX + 1, 8, 2, &catalog, &err), BERTH_ERR_LIMIT);
    assert_int_equal(catalog_layout(&arena, 1, 0, 1, &catalog, &err), BERTH_ERR_LIMIT);
    assert_int_equal(catalog_layout(&arena, 1, EXPERTS_MAX + 1, 1, &catalog, &err), BERTH_ERR_LIMIT);
    assert_int_equal(catalog_layout(&arena, 1, 8, 0, &catalog, &err), BERTH_ERR_FORMAT);
    assert_int_equal(catalog_layout(&arena, 1, 8, 9, &catalog, &err), BERTH_ERR_FORMAT);
    assert_non_null(strstr(err.message, "9 experts"));
    arena_carve(&arena, memory, PAGE);
    assert_int_equal(catalog_layout(&arena, 60, 256, 8, &catalog, &err), BERTH_ERR_LIMIT);
}

static void seal_makes_one_class_per_distinct_size(void **state)
{
    (void)state;
    uint32_t sizes[4][EXPERT_PARTS] = {{5000, 5000, 7000}, {5000, 5000, 9000}, {5000, 5000, 7000}, {5000, 7000, 5000}};
    struct catalog catalog = make_catalog(4, 6, 2, sizes);
    assert_int_equal(catalog_seal(&catalog, NULL), BERTH_OK);
    assert_int_equal(catalog.classes_count, 3);
    assert_int_equal(catalog.layer_class[0], 0);
    assert_int_equal(catalog.layer_class[1], 1);
    assert_int_equal(catalog.layer_class[2], 0);
    assert_int_equal(catalog.layer_class[3], 2);
    assert_int_equal(catalog.classes[0].layers, 2);
    assert_int_equal(catalog.classes[0].experts, 12);
    /* 5000 bytes that start at the last byte of a page end in the third page: 2 whole pages are not enough. */
    assert_int_equal(catalog.classes[0].slot_bytes, (3 + 3 + 3) * PAGE);
    assert_int_equal(catalog.classes[1].slot_bytes, (3 + 3 + 4) * PAGE);
    assert_int_equal(catalog_hard_floor_bytes(&catalog), 2 * 10 * PAGE);
    assert_int_equal(catalog_cycle_bytes(&catalog), 2 * (9 + 10 + 9 + 9) * PAGE);
    assert_int_equal(catalog_all_bytes(&catalog), 6 * (9 + 10 + 9 + 9) * PAGE);
    assert_int_equal(catalog_token_bytes(&catalog), 2 * (17000 + 19000 + 17000 + 17000));
    assert_int_equal(catalog_stored_bytes(&catalog), 6 * (17000 + 19000 + 17000 + 17000));
}

static void seal_of_unequal_experts_is_refused(void **state)
{
    (void)state;
    berth_error err;
    uint32_t sizes[2][EXPERT_PARTS] = {{100, 100, 100}, {100, 100, 100}};
    struct catalog catalog = make_catalog(2, 5, 2, sizes);
    catalog_slice(&catalog, 1, 3, EXPERT_DOWN)->bytes = 101;
    assert_int_equal(catalog_seal(&catalog, &err), BERTH_ERR_UNSUPPORTED);
    assert_int_equal(err.layer, 1);
    assert_int_equal(err.expert, 3);
    assert_non_null(strstr(err.message, "101"));

    catalog = make_catalog(2, 5, 2, sizes);
    catalog_slice(&catalog, 1, 4, EXPERT_UP)->offset = (uint64_t)INT64_MAX - 100;
    assert_int_equal(catalog_seal(&catalog, &err), BERTH_ERR_FORMAT);
    catalog_slice(&catalog, 1, 4, EXPERT_UP)->offset = UINT64_MAX - 1;
    assert_int_equal(catalog_seal(&catalog, &err), BERTH_ERR_FORMAT);
    assert_int_equal(err.expert, 4);

    uint32_t empty[1][EXPERT_PARTS] = {{0, 0, 0}};
    catalog = make_catalog(1, 5, 2, empty);
    assert_int_equal(catalog_seal(&catalog, &err), BERTH_ERR_FORMAT);
}

static void seal_counts_classes_up_to_the_limit(void **state)
{
    (void)state;
    berth_error err;
    uint32_t sizes[SLOT_CLASSES_MAX + 1][EXPERT_PARTS];
    for (uint32_t layer = 0; layer <= SLOT_CLASSES_MAX; layer++) {
        sizes[layer][0] = sizes[layer][1] = 64;
        sizes[layer][2] = 64 + layer;
    }
    struct catalog catalog = make_catalog(SLOT_CLASSES_MAX, 2, 1, sizes);
    assert_int_equal(catalog_seal(&catalog, &err), BERTH_OK);
    assert_int_equal(catalog.classes_count, SLOT_CLASSES_MAX);
    catalog = make_catalog(SLOT_CLASSES_MAX + 1, 2, 1, sizes);
    assert_int_equal(catalog_seal(&catalog, &err), BERTH_ERR_LIMIT);
    assert_int_equal(err.layer, SLOT_CLASSES_MAX);
}

/* Spans are aligned, ordered, packed, inside the slot, and cover every part where catalog_place() says. */
static void check_place(const struct catalog *catalog, uint32_t layer, uint32_t expert, uint32_t spans_wanted)
{
    struct expert_place place;
    catalog_place(catalog, layer, expert, &place);
    assert_int_equal(place.spans_count, spans_wanted);
    uint64_t used = 0;
    for (uint32_t i = 0; i < place.spans_count; i++) {
        assert_int_equal(place.spans[i].offset % PAGE, 0);
        assert_int_equal(place.spans[i].bytes % PAGE, 0);
        assert_int_equal(place.spans[i].slot_offset, used);
        used += place.spans[i].bytes;
    }
    assert_true(used <= catalog->classes[catalog->layer_class[layer]].slot_bytes);
    for (uint32_t part = 0; part < catalog->parts; part++) {
        const struct expert_slice *slice = catalog_slice(catalog, layer, expert, part);
        bool covered = slice->bytes == 0;
        for (uint32_t i = 0; i < place.spans_count; i++) {
            const struct expert_span *span = &place.spans[i];
            bool inside = span->file == slice->file && slice->offset >= span->offset &&
                          slice->offset + slice->bytes <= span->offset + span->bytes;
            covered =
                covered || (inside && place.part_offset[part] == span->slot_offset + (slice->offset - span->offset));
        }
        assert_true(covered);
    }
}

static void place_separate_parts_are_separate_reads(void **state)
{
    (void)state;
    uint32_t sizes[1][EXPERT_PARTS] = {{5000, 5000, 7000}};
    struct catalog catalog = make_catalog(1, 64, 2, sizes);
    assert_int_equal(catalog_seal(&catalog, NULL), BERTH_OK);
    for (uint32_t expert = 0; expert < 64; expert++) {
        check_place(&catalog, 0, expert, 3);
    }
}

static void place_touching_parts_are_one_read(void **state)
{
    (void)state;
    uint32_t sizes[1][EXPERT_PARTS] = {{5000, 5000, 7001}};
    struct catalog catalog = make_catalog(1, 300, 2, sizes);
    uint64_t offset = 77;
    for (uint32_t expert = 0; expert < 300; expert++) { /* down, gate, up: the order of names in safetensors */
        catalog_slice(&catalog, 0, expert, EXPERT_DOWN)->offset = offset;
        catalog_slice(&catalog, 0, expert, EXPERT_GATE)->offset = offset + 7001;
        catalog_slice(&catalog, 0, expert, EXPERT_UP)->offset = offset + 12001;
        offset += 17001;
    }
    assert_int_equal(catalog_seal(&catalog, NULL), BERTH_OK);
    for (uint32_t expert = 0; expert < 300; expert++) {
        check_place(&catalog, 0, expert, 1);
    }
    catalog_slice(&catalog, 0, 5, EXPERT_GATE)->file = 1; /* same place of another file */
    check_place(&catalog, 0, 5, 2);                       /* the pages of down and up touch */
    catalog_slice(&catalog, 0, 6, EXPERT_UP)->offset += 3 * PAGE;
    check_place(&catalog, 0, 6, 2);
    catalog_slice(&catalog, 0, 7, EXPERT_UP)->offset =
        catalog_slice(&catalog, 0, 7, EXPERT_DOWN)->offset + 1; /* overlap */
    check_place(&catalog, 0, 7, 1);
}

static void place_absent_part_takes_no_room(void **state)
{
    (void)state;
    uint32_t sizes[1][EXPERT_PARTS] = {{0, 5000, 7000}};
    struct catalog catalog = make_catalog(1, 9, 2, sizes);
    assert_int_equal(catalog_seal(&catalog, NULL), BERTH_OK);
    assert_int_equal(catalog.classes[0].slot_bytes, 6 * PAGE);
    check_place(&catalog, 0, 8, 2);
}

static void check_counts(const struct catalog *catalog, uint64_t bytes, const struct slot_counts *counts)
{
    uint64_t total = 0;
    uint64_t taken = 0;
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        total += counts->count[c];
        taken += counts->count[c] * catalog->classes[c].slot_bytes;
        if (!counts->shared) {
            assert_true(counts->count[c] >= catalog->classes[c].layers * catalog->top_k);
            assert_true(counts->count[c] <= catalog->classes[c].experts);
        }
    }
    assert_int_equal(total, counts->total);
    assert_int_equal(taken, counts->bytes);
    assert_true(taken <= bytes);
    assert_true(total >= catalog->top_k);
    assert_int_equal(counts->shared, bytes < catalog_cycle_bytes(catalog));
}

/* Scales and biases in tensors of their own: nine slices, laid out as MLX stacks them; scales alone make another class.
 */
static void place_nine_parts_of_an_expert(void **state)
{
    (void)state;
    static const uint32_t sizes[2][EXPERT_PARTS_MAX] = {{9000, 9000, 9000, 300, 300, 300, 300, 300, 300},
                                                        {9000, 9000, 9000, 600, 300, 300, 0, 300, 300}};
    struct arena arena;
    struct catalog catalog;
    memset(memory, 0, MEMORY_BYTES);
    arena_carve(&arena, memory, MEMORY_BYTES);
    assert_int_equal(catalog_layout_parts(&arena, 2, 64, 2, EXPERT_PARTS_MAX, &catalog, NULL), BERTH_OK);
    uint64_t offset = 77;
    for (uint32_t layer = 0; layer < 2; layer++) {
        for (uint32_t part = 0; part < EXPERT_PARTS_MAX; part++, offset += 200000) {
            for (uint32_t expert = 0; expert < 64; expert++, offset += sizes[layer][part]) {
                *catalog_slice(&catalog, layer, expert, part) = (struct expert_slice){offset, 0, sizes[layer][part]};
            }
        }
    }
    assert_int_equal(catalog_seal(&catalog, NULL), BERTH_OK);
    assert_int_equal(catalog.classes_count, 2);
    assert_int_equal(slot_class_stored_bytes(&catalog.classes[0]), 28800);
    assert_int_equal(slot_class_stored_bytes(&catalog.classes[1]), 28800);
    assert_int_equal(catalog_token_bytes(&catalog), 2 * 2 * 28800);
    assert_int_equal(catalog.classes[0].slot_bytes, 3 * 4 * PAGE + 6 * 2 * PAGE);
    for (uint32_t expert = 0; expert < 64; expert++) {
        check_place(&catalog, 0, expert, 9);
        check_place(&catalog, 1, expert, 8);
    }
    catalog_slice(&catalog, 1, 9, EXPERT_SCALES)->bytes++;
    berth_error err;
    assert_int_equal(catalog_seal(&catalog, &err), BERTH_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "part 3"));
}

static void slots_grow_with_bytes_and_never_shrink(void **state)
{
    (void)state;
    uint32_t sizes[5][EXPERT_PARTS] = {
        {5000, 5000, 7000}, {5000, 5000, 9000}, {90, 90, 90}, {5000, 5000, 9000}, {5000, 5000, 9000}};
    struct catalog catalog = make_catalog(5, 11, 3, sizes);
    assert_int_equal(catalog_seal(&catalog, NULL), BERTH_OK);
    uint64_t hard_floor = catalog_hard_floor_bytes(&catalog);
    uint64_t cycle = catalog_cycle_bytes(&catalog);
    uint64_t all = catalog_all_bytes(&catalog);
    assert_true(hard_floor < cycle && cycle < all);
    struct slot_counts before = {0};
    for (uint64_t bytes = hard_floor; bytes <= all + 3 * PAGE; bytes += PAGE) {
        struct slot_counts counts;
        assert_int_equal(catalog_slots(&catalog, bytes, &counts, NULL), BERTH_OK);
        check_counts(&catalog, bytes, &counts);
        assert_true(counts.total >= before.total);
        for (uint32_t c = 0; !before.shared && c < catalog.classes_count; c++) {
            assert_true(counts.count[c] >= before.count[c]);
        }
        /* What is left over would not have bought the next slot of the sequence: less than the largest slot. */
        assert_true(bytes >= all || bytes - counts.bytes < 10 * PAGE);
        before = counts;
    }
    assert_int_equal(before.total, 55);
    assert_int_equal(before.bytes, all);
}

static void slots_at_one_cycle_are_top_k_for_every_layer(void **state)
{
    (void)state;
    uint32_t sizes[3][EXPERT_PARTS] = {{500, 500, 700}, {5000, 5000, 9000}, {5000, 5000, 9000}};
    struct catalog catalog = make_catalog(3, 8, 2, sizes);
    assert_int_equal(catalog_seal(&catalog, NULL), BERTH_OK);
    struct slot_counts counts;
    assert_int_equal(catalog_slots(&catalog, catalog_cycle_bytes(&catalog), &counts, NULL), BERTH_OK);
    assert_false(counts.shared);
    assert_int_equal(counts.count[0], 2);
    assert_int_equal(counts.count[1], 4);
    assert_int_equal(catalog_slots(&catalog, catalog_cycle_bytes(&catalog) - 1, &counts, NULL), BERTH_OK);
    assert_true(counts.shared);
    assert_int_equal(counts.count[0], 0);
}

static void slots_below_the_hard_floor_are_refused(void **state)
{
    (void)state;
    berth_error err;
    uint32_t sizes[2][EXPERT_PARTS] = {{500, 500, 700}, {5000, 5000, 9000}};
    struct catalog catalog = make_catalog(2, 8, 2, sizes);
    assert_int_equal(catalog_seal(&catalog, NULL), BERTH_OK);
    struct slot_counts counts = {.total = 99};
    assert_int_equal(catalog_slots(&catalog, 2 * 10 * PAGE, &counts, &err), BERTH_OK);
    assert_true(counts.shared);
    assert_int_equal(counts.total, 2);
    counts.total = 99;
    assert_int_equal(catalog_slots(&catalog, 2 * 10 * PAGE - 1, &counts, &err), BERTH_ERR_BUDGET);
    assert_int_equal(counts.total, 99);
    assert_non_null(strstr(err.message, "81920"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_measured_equals_carved),
        cmocka_unit_test(layout_out_of_limits_is_refused),
        cmocka_unit_test(seal_makes_one_class_per_distinct_size),
        cmocka_unit_test(seal_of_unequal_experts_is_refused),
        cmocka_unit_test(seal_counts_classes_up_to_the_limit),
        cmocka_unit_test(place_separate_parts_are_separate_reads),
        cmocka_unit_test(place_touching_parts_are_one_read),
        cmocka_unit_test(place_absent_part_takes_no_room),
        cmocka_unit_test(place_nine_parts_of_an_expert),
        cmocka_unit_test(slots_grow_with_bytes_and_never_shrink),
        cmocka_unit_test(slots_at_one_cycle_are_top_k_for_every_layer),
        cmocka_unit_test(slots_below_the_hard_floor_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
