/* SPDX-License-Identifier: MIT
 * The ledger of berth.h, used as an embedding program would; and the residency of the first document, whose trace
 * vectors run through the engine's cache with the seed policy. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "experts/cache.h"
#include "support/json_tree.h"

static char path[] = "/tmp/berth_public_XXXXXX";
static char warning[600];

static void on_warning(void *user, const char *message)
{
    snprintf(user, 600, "%s", message);
}

static int64_t slot_bytes(void *user, int64_t layer)
{
    (void)user;
    return layer == 3 ? 300000000 : 900000000;
}

static berth_ledger *open_at(const char *where, berth_ledger_mode mode)
{
    static const int64_t layers[] = {3, 4};
    berth_ledger_config config = BERTH_LEDGER_CONFIG_INIT;
    berth_ledger *ledger = NULL;
    berth_error err;
    config.path = where;
    config.layers = layers;
    config.layers_count = 2;
    config.experts = 8;
    config.mode = mode;
    config.warn = on_warning;
    config.warn_user = warning;
    size_t bytes = berth_ledger_bytes(&config);
    assert_true(bytes > 0);
    void *memory = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    assert_int_equal(berth_ledger_open(memory, bytes - 1, &config, &ledger, &err), BERTH_ERR_LIMIT);
    if (berth_ledger_open(memory, bytes, &config, &ledger, &err) != BERTH_OK) {
        fail_msg("%s", err.message);
    }
    assert_ptr_equal(ledger, memory); /* so that the test can free it */
    return ledger;
}

static void an_embedding_program(void **state)
{
    (void)state;
    const int64_t row0[] = {2, 2, 1};
    const int64_t row1[] = {2};
    const int64_t *rows[] = {row0, row1};
    const uint32_t counts[] = {3, 1};
    berth_error err;
    berth_ledger *ledger = open_at(path, BERTH_LEDGER_TOLERANT);
    assert_int_equal(berth_ledger_record(ledger, 3, rows, counts, 2, &err), BERTH_OK);
    assert_int_equal(berth_ledger_record(ledger, 5, rows, counts, 2, &err), BERTH_ERR_ARGUMENT);
    assert_string_equal(err.message, "layer 5 is not tracked by expert usage");
    const int64_t bad[] = {-1};
    const int64_t *bad_rows[] = {row0, bad};
    const uint32_t bad_counts[] = {3, 1};
    assert_int_equal(berth_ledger_record(ledger, 3, bad_rows, bad_counts, 2, &err), BERTH_ERR_ARGUMENT);
    assert_string_equal(err.message, "route 1 rank 0 has invalid expert -1");
    berth_ledger_snapshot snapshot;
    berth_ledger_get_snapshot(ledger, &snapshot);
    assert_int_equal(snapshot.total_count, 4);
    assert_int_equal(snapshot.route_selections, 4);
    assert_true(snapshot.dirty);
    berth_ledger_entry entry;
    assert_int_equal(berth_ledger_get(ledger, 3, 2, &entry, &err), BERTH_OK);
    assert_int_equal(entry.count, 3);
    assert_int_equal(entry.heat, 3);
    assert_int_equal(entry.last_access, 4);
    berth_ledger_decay_heat(ledger);
    assert_int_equal(berth_ledger_get(ledger, 3, 2, &entry, &err), BERTH_OK);
    assert_int_equal(entry.heat, 1);
    assert_int_equal(berth_ledger_flush(ledger, &err), BERTH_OK);
    berth_ledger *other = open_at(path, BERTH_LEDGER_SEED);
    berth_ledger_count ranked[4];
    assert_int_equal(berth_ledger_ranked(other, ranked, 4), 2);
    assert_int_equal(ranked[0].expert, 2);
    assert_int_equal(ranked[0].count, 3);
    berth_ledger_import_counts import;
    assert_int_equal(berth_ledger_import(other, path, &import, &err), BERTH_OK);
    assert_int_equal(import.rows, 2);
    assert_int_equal(berth_ledger_scale(other, 0.0, &err), BERTH_OK);
    assert_int_equal(berth_ledger_ranked(other, ranked, 4), 0);
    assert_string_equal(berth_ledger_path(other), path);
    free(ledger);
    free(other);
}

static void pins(void **state)
{
    (void)state;
    berth_error err;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("4 0 150000\n3 1 40000\n3 2 10000\n", file);
    fclose(file);
    berth_ledger *ledger = open_at(path, BERTH_LEDGER_SEED);
    berth_autopin_config config = BERTH_AUTOPIN_CONFIG_INIT;
    berth_autopin_plan plan;
    berth_ledger_count chosen[3];
    config.resident_bytes = 1600000000;
    config.slot_bytes = slot_bytes;
    assert_int_equal(berth_ledger_auto_pins(ledger, &config, chosen, 2, &plan, &err), BERTH_ERR_LIMIT);
    assert_int_equal(berth_ledger_auto_pins(ledger, &config, chosen, 3, &plan, &err), BERTH_OK);
    assert_int_equal(plan.pins_count, 2);
    assert_int_equal(plan.planned_bytes, 600000000);
    assert_int_equal(chosen[0].layer, 3);
    assert_int_equal(chosen[0].expert, 1);
    int64_t pinned[] = {7};
    const int64_t hot[] = {2, 2, 2, 2, 2, 2};
    const int64_t *rows[] = {hot};
    const uint32_t counts[] = {6};
    berth_lfru_candidate candidate;
    bool found = false;
    assert_int_equal(berth_ledger_record(ledger, 3, rows, counts, 1, &err), BERTH_OK);
    assert_int_equal(berth_ledger_candidate(ledger, 3, pinned, 1, &candidate, &found, &err), BERTH_OK);
    assert_true(found);
    assert_int_equal(candidate.hot_expert, 2);
    assert_int_equal(candidate.hot_score, berth_lfru_score(6, 6, 6));
    uint32_t count = 1;
    assert_int_equal(berth_lfru_select(&candidate, &count, 4, &err), BERTH_OK);
    assert_int_equal(count, 1);
    free(ledger);
}

static void refusals(void **state)
{
    (void)state;
    berth_ledger_config config = BERTH_LEDGER_CONFIG_INIT;
    berth_ledger *ledger = NULL;
    berth_error err;
    _Alignas(4096) static unsigned char memory[8192];
    assert_int_equal(berth_ledger_bytes(NULL), 0);
    assert_int_equal(berth_ledger_bytes(&config), 0);
    assert_int_equal(berth_ledger_open(memory, sizeof memory, &config, &ledger, &err), BERTH_ERR_ARGUMENT);
    assert_string_equal(err.message, "expert usage path must not be empty");
    config.struct_size = 8;
    assert_int_equal(berth_ledger_open(memory, sizeof memory, &config, &ledger, &err), BERTH_ERR_ARGUMENT);
    assert_null(ledger);
}

static void default_path(void **state)
{
    (void)state;
    char text[64];
    berth_error err;
    assert_int_equal(berth_ledger_default_path("/tmp", NULL, text, sizeof text, &err), BERTH_OK);
    assert_string_equal(text, "/tmp/.coli_usage");
    assert_int_equal(berth_ledger_default_path("/tmp", NULL, text, 8, &err), BERTH_ERR_LIMIT);
    assert_int_equal(berth_ledger_default_path("/nowhere/at/all", NULL, text, sizeof text, &err), BERTH_ERR_NOT_FOUND);
}

/* ---- residency_trace ---- */

enum { EXPERTS = 10, CLASS_SLOTS_MAX = 64 };

static struct cache *make_cache(uint64_t layers, uint64_t slots, const char *policy, void *memory[2])
{
    static struct catalog catalog;
    static struct slot_counts counts;
    struct arena tables;
    struct arena area;
    struct cache *cache = NULL;
    berth_error err;
    memory[0] = aligned_alloc(4096, 1 << 20);
    memory[1] = aligned_alloc(4096, CLASS_SLOTS_MAX * 8192);
    memset(memory[0], 0, 1 << 20); /* as a fresh reservation is */
    memset(memory[1], 0, CLASS_SLOTS_MAX * 8192);
    arena_carve(&tables, memory[0], 1 << 20);
    arena_carve(&area, memory[1], CLASS_SLOTS_MAX * 8192);
    assert_int_equal(catalog_layout(&tables, (uint32_t)layers, EXPERTS, 1, &catalog, &err), BERTH_OK);
    for (uint32_t layer = 0; layer < layers; layer++) {
        for (uint32_t expert = 0; expert < EXPERTS; expert++) {
            *catalog_slice(&catalog, layer, expert, EXPERT_GATE) = (struct expert_slice){.offset = expert, .bytes = 1};
        }
    }
    assert_int_equal(catalog_seal(&catalog, &err), BERTH_OK);
    counts = (struct slot_counts){.total = slots};
    counts.count[0] = (uint32_t)slots;
    struct cache_options options = {.policy = policy, .no_floor = true};
    if (cache_layout_with(&tables, &area, &catalog, &counts, &options, NULL, &cache, &err) != BERTH_OK) {
        fail_msg("%s", err.message);
    }
    return cache;
}

static uint32_t layer_index(const struct tree *layers, double layer)
{
    uint32_t index = 0;
    while (tree_at(layers, index)->number != layer) {
        index++;
    }
    return index;
}

/* One block; checks which experts were hits. */
static void run_block(struct cache *cache, const struct tree *v, uint32_t layer, const struct tree *experts,
                      const struct tree *wanted)
{
    uint16_t ids[16];
    uint32_t count = 0;
    struct expert_weights weights;
    for (const struct tree *id = experts->first; id != NULL; id = id->next, count++) {
        ids[count] = (uint16_t)id->number;
        const struct tree *row = tree_at(wanted, count);
        assert_int_equal(ids[count], (uint16_t)tree_at(row, 0)->number);
        if (cache_peek(cache, layer, ids[count]) != (tree_at(row, 1)->number != 0.0)) {
            fail_msg("%s: expert %u", tree_need(v, "id")->text, ids[count]);
        }
    }
    assert_int_equal(cache_visit_begin(cache, layer, BERTH_PHASE_DECODE, ids, count, NULL), BERTH_OK);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(cache_visit_next(cache, &weights, NULL), BERTH_OK);
        cache_release(cache, weights.handle);
    }
    cache_visit_end(cache);
}

static void residency_trace(void **state)
{
    (void)state;
    const struct tree *all = tree_need(tree_read(BERTH_TESTS_DIR "/golden/seed_vectors.json"), "vectors");
    const struct tree *section = tree_need(all, "residency_trace");
    assert_int_equal(section->count, 7);
    for (const struct tree *v = section->first; v != NULL; v = v->next) {
        const struct tree *in = tree_need(v, "in");
        const struct tree *out = tree_need(v, "out");
        const struct tree *layers = tree_need(in, "layers");
        const struct tree *pinned = tree_need(in, "pinned");
        uint64_t working = (uint64_t)tree_number(in, "workingSlots");
        uint64_t slots = (uint64_t)tree_number(in, "slotsPerLayer") * layers->count + working + pinned->count;
        char policy[32];
        void *memory[2];
        snprintf(policy, sizeof policy, "seed:working=%u", (unsigned)working);
        struct cache *cache = make_cache(layers->count, slots, policy, memory);
        struct cache_stats stats;
        uint32_t block = 0;
        for (const struct tree *at = tree_need(in, "blocks_layer_experts")->first; at != NULL; at = at->next, block++) {
            uint32_t layer = layer_index(layers, tree_at(at, 0)->number);
            run_block(cache, v, layer, tree_at(at, 1), tree_at(tree_need(out, "results"), block));
            for (const struct tree *pin = pinned->first; pin != NULL; pin = pin->next) {
                /* A configured pin takes its own slot when it arrives. */
                uint16_t expert = (uint16_t)tree_at(pin, 1)->number;
                uint32_t home = layer_index(layers, tree_at(pin, 0)->number);
                struct cache_preload counts;
                if (cache_peek(cache, home, expert)) {
                    assert_int_equal(cache_preload(cache, home, &expert, 1, true, &counts, NULL), BERTH_OK);
                }
            }
        }
        cache_get_stats(cache, &stats);
        assert_int_equal(stats.hits[BERTH_PHASE_DECODE], (uint64_t)tree_number(out, "hits"));
        assert_int_equal(stats.misses[BERTH_PHASE_DECODE], (uint64_t)tree_number(out, "misses"));
        assert_int_equal(stats.evictions, (uint64_t)tree_number(out, "evictions"));
        const struct tree *resident = tree_need(out, "resident");
        assert_int_equal(stats.slots_used, resident->count);
        for (const struct tree *at = resident->first; at != NULL; at = at->next) {
            assert_true(
                cache_peek(cache, layer_index(layers, tree_at(at, 0)->number), (uint32_t)tree_at(at, 1)->number));
        }
        free(memory[0]);
        free(memory[1]);
    }
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0) {
        return 1;
    }
    close(fd);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_embedding_program),
        cmocka_unit_test(pins),
        cmocka_unit_test(refusals),
        cmocka_unit_test(default_path),
        cmocka_unit_test(residency_trace),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char side[64];
    snprintf(side, sizeof side, "%s.lock", path);
    unlink(side);
    unlink(path);
    return failed;
}
