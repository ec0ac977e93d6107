/* SPDX-License-Identifier: MIT
 * Reads of the expert cache: neither the engine nor the number of reader threads nor how long reads take changes what
 * the cache does; large parts are read in pieces. */
#define _GNU_SOURCE
#include "experts_rig.h"

static void threads_and_delays_change_nothing(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < FAKES_COUNT; f++) {
        struct cache_stats first = {0};
        for (uint32_t threads = 1; threads <= 8; threads *= 2) {
            struct rig rig;
            rig_catalog(&rig, &fakes[f]);
            if (threads > 1) {
                rig.hooks.read_at = slow_read;
            }
            random_state = 12345 + f;
            rig_start(&rig, catalog_cycle_bytes(&rig.catalog), threads, true);
            drive(&rig, 60); /* compares residency after each visit */
            struct cache_stats stats;
            cache_get_stats(rig.cache, &stats);
            stats.stall_ns[0] = stats.stall_ns[1] = stats.policy_ns = 0;
            first = threads == 1 ? stats : first;
            assert_memory_equal(&first, &stats, sizeof stats);
            rig_stop(&rig);
            free(rig.catalog_memory);
        }
    }
}

static void engines_change_nothing(void **state)
{
    (void)state;
    static const char *const engines[] = {"pread", "buffered", "uring"};
    for (uint32_t f = 0; f < FAKES_COUNT; f++) {
        struct cache_stats first = {0};
        for (uint32_t e = 0; e < 3; e++) {
            struct rig rig;
            rig_catalog(&rig, &fakes[f]);
            random_state = 777 + f;
            rig_start_engine(&rig, catalog_cycle_bytes(&rig.catalog), 3, strcmp(engines[e], "buffered") != 0,
                             engines[e]);
            if (strcmp(io_engine_name(rig.io), engines[e]) != 0 && f == 0) {
                print_message("SKIP: no \"%s\" here, it became \"%s\"\n", engines[e], io_engine_name(rig.io));
            }
            drive(&rig, 60);
            struct cache_stats stats;
            cache_get_stats(rig.cache, &stats);
            stats.stall_ns[0] = stats.stall_ns[1] = stats.policy_ns = 0;
            first = e == 0 ? stats : first;
            assert_memory_equal(&first, &stats, sizeof stats);
            rig_stop(&rig);
            free(rig.catalog_memory);
        }
    }
}

static void engine_choice_is_checked(void **state)
{
    (void)state;
    struct rig rig;
    rig_catalog(&rig, &fakes[0]);
    rig.hooks.read_at = slow_read; /* hooked reads cannot go through the ring */
    rig_start_engine(&rig, catalog_cycle_bytes(&rig.catalog), 1, true, "uring");
    assert_string_equal(io_engine_name(rig.io), "pread");
    drive(&rig, 10);
    struct arena tables;
    struct arena stacks;
    arena_measure(&tables);
    arena_measure(&stacks);
    struct io_config config = {.files = rig.files, .files_count = 1, .threads = 1, .queue_max = 8, .engine = "carrier"};
    struct io *io;
    berth_error err;
    bool direct;
    assert_int_equal(io_layout(&tables, &stacks, &config, &io, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(io_engine_direct("carrier", &direct, &err), BERTH_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "pread, uring or buffered"));
    assert_int_equal(io_engine_direct("buffered", &direct, &err), BERTH_OK);
    assert_false(direct);
    assert_int_equal(io_engine_direct(NULL, &direct, &err), BERTH_OK);
    assert_true(direct);
    config.engine = "pread";
    config.threads = 0;
    assert_int_equal(io_layout(&tables, &stacks, &config, &io, &err), BERTH_ERR_ARGUMENT);
    config.threads = IO_THREADS_MAX + 1;
    assert_int_equal(io_layout(&tables, &stacks, &config, &io, &err), BERTH_ERR_ARGUMENT);
    config.threads = IO_THREADS_MAX;
    assert_int_equal(io_layout(&tables, &stacks, &config, &io, &err), BERTH_OK);
    rig.files[0].direct = false; /* as on a file system that refuses */
    assert_int_equal(io_layout(&tables, &stacks, &config, &io, &err), BERTH_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.path, "weights-0"));
    rig.files[0].direct = true;
    rig_stop(&rig);
    free(rig.catalog_memory);
}

static void large_parts_are_read_in_pieces(void **state)
{
    (void)state;
    const struct fake big = {"large parts", 1, 3, 2, {{IO_PIECE_BYTES + 5, 2 * IO_PIECE_BYTES, 3}, {0, 0, 0}},
                             false,         1};
    const uint16_t experts[] = {2, 0, 1};
    for (int e = 0; e < 2; e++) {
        struct rig rig;
        rig_catalog(&rig, &big);
        rig.hooks.read_at = e == 0 ? slow_read : NULL;
        rig_start_engine(&rig, catalog_hard_floor_bytes(&rig.catalog), 3, true, e == 0 ? "pread" : "uring");
        run_visit(&rig, 0, BERTH_PHASE_PREFILL, experts, 3, NULL);
        run_visit(&rig, 0, BERTH_PHASE_DECODE, experts + 1, 2, NULL);
        rig_stop(&rig);
        free(rig.catalog_memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_TEST(threads_and_delays_change_nothing),
        CACHE_TEST(engines_change_nothing),
        CACHE_TEST(engine_choice_is_checked),
        CACHE_TEST(large_parts_are_read_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
