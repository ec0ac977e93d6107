/* SPDX-License-Identifier: MIT
 * The expert cache: every expert's bytes at every slot count, and residency, hits, misses and evictions against the
 * independent model of its rules. */
#define _GNU_SOURCE
#include "experts_rig.h"

static void every_slot_count_gives_right_bytes_and_counts(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < FAKES_COUNT; f++) {
        struct rig rig;
        rig_catalog(&rig, &fakes[f]);
        uint64_t all = catalog_all_bytes(&rig.catalog);
        uint64_t step = smallest_slot(&rig.catalog);
        uint64_t last_total = 0;
        for (uint64_t bytes = catalog_hard_floor_bytes(&rig.catalog);;
             bytes = bytes + step < all ? bytes + step : all) {
            struct slot_counts counts;
            assert_int_equal(catalog_slots(&rig.catalog, bytes, &counts, NULL), BERTH_OK);
            if (counts.total != last_total) {
                last_total = counts.total;
                rig_start(&rig, bytes, 1 + random_below(4), random_below(2) == 0);
                drive(&rig, 40);
                rig_stop(&rig);
            }
            if (bytes == all) {
                break;
            }
        }
        assert_int_equal(last_total, fakes[f].layers * fakes[f].experts);
        free(rig.catalog_memory);
    }
}

static void read_counts_are_spans_and_slice_bytes(void **state)
{
    (void)state;
    const uint16_t experts[] = {7, 1, 4};
    for (uint32_t f = 0; f < 3; f += 2) { /* separate tensors, touching parts */
        struct rig rig;
        rig_catalog(&rig, &fakes[f]);
        rig_start(&rig, catalog_all_bytes(&rig.catalog), 2, true);
        run_visit(&rig, 1, BERTH_PHASE_DECODE, experts, 3, NULL);
        run_visit(&rig, 1, BERTH_PHASE_DECODE, experts, 3, NULL);
        struct cache_stats stats;
        cache_get_stats(rig.cache, &stats);
        const uint32_t *bytes = fakes[f].part_bytes[1];
        assert_int_equal(stats.reads[BERTH_PHASE_DECODE], fakes[f].touching ? 3 : 9);
        assert_int_equal(stats.read_bytes[BERTH_PHASE_DECODE], 3 * (bytes[0] + bytes[1] + bytes[2]));
        assert_int_equal(stats.reads[BERTH_PHASE_PREFILL], 0);
        assert_int_equal(stats.hits[BERTH_PHASE_DECODE], 3);
        assert_int_equal(stats.misses[BERTH_PHASE_DECODE], 3);
        rig_stop(&rig);
        free(rig.catalog_memory);
    }
}

/* Parts of more than one I/O piece. */
static void prefill_enters_at_the_cold_end(void **state)
{
    (void)state;
    struct rig rig;
    rig_catalog(&rig, &fakes[5]); /* one layer of 16, top 4 */
    rig_start(&rig, 6 * catalog_all_bytes(&rig.catalog) / 16, 2, true);
    const uint16_t decode[] = {0, 1, 2, 3};
    const uint16_t prefill[] = {8, 9, 10, 11, 12};
    run_visit(&rig, 0, BERTH_PHASE_DECODE, decode, 4, NULL);
    run_visit(&rig, 0, BERTH_PHASE_PREFILL, prefill, 2, NULL);     /* fills the two free slots */
    run_visit(&rig, 0, BERTH_PHASE_PREFILL, prefill + 2, 2, NULL); /* takes those, not the older decode set */
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(cache_peek(rig.cache, 0, decode[i]));
    }
    assert_false(cache_peek(rig.cache, 0, 8));
    assert_true(cache_peek(rig.cache, 0, 10));
    rig_stop(&rig);
    free(rig.catalog_memory);
}

static void visit_ended_early_leaves_right_bytes(void **state)
{
    (void)state;
    const uint32_t which[] = {2, 2, 6, 6};
    for (uint32_t f = 0; f < 4; f++) {
        struct rig rig;
        rig_catalog(&rig, &fakes[which[f]]);
        rig.hooks.read_at = f % 2 == 0 ? slow_read : NULL;
        rig_start_engine(&rig, f < 2 ? catalog_cycle_bytes(&rig.catalog) : catalog_all_bytes(&rig.catalog), 2, true,
                         f % 2 == 0 ? "pread" : "uring");
        uint16_t experts[EXPERTS_HERE_MAX];
        for (uint16_t i = 0; i < EXPERTS_HERE_MAX; i++) {
            experts[i] = i;
        }
        uint32_t n = rig.catalog.experts;
        for (uint32_t round = 0; round < 30; round++) {
            uint32_t layer = round % rig.catalog.layers;
            uint32_t next_layer = (layer + 1) % rig.catalog.layers;
            assert_int_equal(cache_visit_begin(rig.cache, layer, BERTH_PHASE_PREFILL, experts, n, NULL), BERTH_OK);
            for (uint32_t i = random_below(round == 0 ? 2 : n); i > 0; i--) {
                struct expert_weights got;
                assert_int_equal(cache_visit_next(rig.cache, &got, NULL), BERTH_OK);
                assert_expert_bytes(&rig, layer, &got);
                cache_release(rig.cache, got.handle);
            }
            cache_visit_end(rig.cache);
            /* What no read was asked for is not there; the cycle's few slots are all asked for at once. */
            assert_true(round > 0 || f < 2 || residents(&rig, layer) <= CACHE_FETCHES_MAX + 1);
            run_visit(&rig, next_layer, BERTH_PHASE_DECODE, experts + random_below(n - 4), 3, NULL);
        }
        cache_visit_end(rig.cache); /* nothing is running: no harm */
        rig_stop(&rig);
        free(rig.catalog_memory);
    }
}

static void misuse_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct rig rig;
    berth_error err;
    rig_catalog(&rig, &fakes[0]);
    rig_start(&rig, catalog_cycle_bytes(&rig.catalog), 1, true);
    const uint16_t good[] = {1, 2, 3, 4};
    const uint16_t twice[] = {1, 2, 1};
    const uint16_t outside[] = {1, 10};
    struct expert_weights got[4];
    assert_int_equal(cache_visit_next(rig.cache, got, &err), BERTH_ERR_STATE);
    assert_int_equal(cache_visit_begin(rig.cache, 4, BERTH_PHASE_DECODE, good, 3, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(cache_visit_begin(rig.cache, 0, BERTH_PHASE_DECODE, good, 11, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(cache_visit_begin(rig.cache, 0, BERTH_PHASE_DECODE, twice, 3, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(err.expert, 1);
    assert_int_equal(cache_visit_begin(rig.cache, 0, BERTH_PHASE_DECODE, outside, 2, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(err.expert, 10);
    assert_int_equal(cache_visit_begin(rig.cache, 0, BERTH_PHASE_DECODE, good, 4, &err), BERTH_OK);
    assert_int_equal(cache_visit_begin(rig.cache, 0, BERTH_PHASE_DECODE, good, 4, &err), BERTH_ERR_STATE);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cache_visit_next(rig.cache, &got[i], &err), BERTH_OK);
    }
    assert_int_equal(cache_visit_next(rig.cache, &got[3], &err), BERTH_ERR_STATE); /* three are held: top_k */
    assert_non_null(strstr(err.message, "release"));
    cache_release(rig.cache, got[1].handle);
    assert_int_equal(cache_visit_next(rig.cache, &got[1], &err), BERTH_OK);
    for (int i = 0; i < 3; i++) {
        cache_release(rig.cache, got[i].handle);
    }
    cache_visit_end(rig.cache);
    assert_false(cache_peek(rig.cache, 4, 0));
    assert_false(cache_peek(rig.cache, 0, 10));

    struct arena tables;
    struct arena slots;
    struct cache *none;
    arena_measure(&tables);
    arena_measure(&slots);
    assert_int_equal(cache_layout(&tables, &slots, &rig.catalog, &rig.counts, "belladonna", NULL, &none, &err),
                     BERTH_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "lru"));
    struct slot_counts few = rig.counts;
    few.count[0]--;
    assert_int_equal(cache_layout(&tables, &slots, &rig.catalog, &few, NULL, NULL, &none, &err), BERTH_ERR_ARGUMENT);
    few.total--;
    assert_int_equal(cache_layout(&tables, &slots, &rig.catalog, &few, NULL, NULL, &none, &err), BERTH_ERR_ARGUMENT);
    rig_stop(&rig);
    free(rig.catalog_memory);
}

/* However many are asked for, in one call or in several, every layer keeps what one token needs. */
static void pins_leave_every_layer_its_floor(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < FAKES_COUNT; f++) {
        struct rig rig;
        uint16_t all[EXPERTS_HERE_MAX];
        rig_catalog(&rig, &fakes[f]);
        rig_start(&rig, 2 * catalog_cycle_bytes(&rig.catalog), 1, true);
        for (uint32_t i = 0; i < EXPERTS_HERE_MAX; i++) {
            all[i] = (uint16_t)i;
        }
        uint32_t pinned = 0;
        for (uint32_t layer = 0; layer < rig.catalog.layers; layer++) {
            struct cache_preload done;
            assert_int_equal(cache_preload(rig.cache, layer, all, rig.catalog.experts, true, &done, NULL), BERTH_OK);
            assert_int_equal(done.loaded + done.left_out, rig.catalog.experts);
            pinned += done.loaded;
        }
        struct cache_stats stats;
        cache_get_stats(rig.cache, &stats);
        assert_int_equal(stats.pinned_slots, pinned);
        assert_true(pinned > 0);
        assert_true(pinned + rig.catalog.layers * rig.catalog.top_k <= rig.counts.total);
        for (uint32_t turn = 0; turn < 3; turn++) {
            for (uint32_t layer = 0; layer < rig.catalog.layers; layer++) {
                uint32_t count = turn == 0 ? rig.catalog.experts : rig.catalog.top_k;
                run_visit(&rig, layer, turn == 0 ? BERTH_PHASE_PREFILL : BERTH_PHASE_DECODE,
                          all + (turn == 2 ? rig.catalog.experts - count : 0), count, NULL);
            }
        }
        rig_stop(&rig);
        free(rig.catalog_memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_TEST(every_slot_count_gives_right_bytes_and_counts),
        CACHE_TEST(read_counts_are_spans_and_slice_bytes),
        CACHE_TEST(prefill_enters_at_the_cold_end),
        CACHE_TEST(visit_ended_early_leaves_right_bytes),
        CACHE_TEST(misuse_is_refused_and_changes_nothing),
        CACHE_TEST(pins_leave_every_layer_its_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
