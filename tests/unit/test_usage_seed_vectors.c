/* SPDX-License-Identifier: MIT
 * Every vector of the first document (tests/golden/seed_vectors.json) that is about the ledger: exact. The section
 * residency_trace is in test_usage_public.c, because it runs the policy row. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "experts/seed.h"
#include "experts/usage_parts.h"
#include "support/json_tree.h"

static const struct tree *vectors;
static char folder[] = "/tmp/berth_usage_XXXXXX";
static char ledger_path[64];
static char warning[1300];

static void on_warning(void *user, const char *message)
{
    (void)user;
    snprintf(warning, sizeof warning, "%s", message);
}

static const struct tree *section(const char *name, size_t count)
{
    const struct tree *found = tree_need(vectors, name);
    assert_int_equal(found->count, count);
    return found->first;
}

#define FAIL_AT(vector, ...)                                       \
    do {                                                           \
        print_error("vector %s: ", tree_need(vector, "id")->text); \
        print_error(__VA_ARGS__);                                  \
        print_error("\n");                                         \
        fail();                                                    \
    } while (0)
#define CHECK_U64(vector, got, wanted)                                                                              \
    do {                                                                                                            \
        uint64_t got_ = (got);                                                                                      \
        double wanted_ = (wanted);                                                                                  \
        if ((double)got_ != wanted_) {                                                                              \
            FAIL_AT(vector, "line %d: %s is %llu, wanted %.0f", __LINE__, #got, (unsigned long long)got_, wanted_); \
        }                                                                                                           \
    } while (0)
#define CHECK_ERROR(vector, error)                                                                       \
    do {                                                                                                 \
        const char *wanted_ = tree_need(vector, "error")->text;                                          \
        if (strstr((error).message, wanted_) == NULL) {                                                  \
            FAIL_AT(vector, "line %d: error \"%s\", wanted \"%s\"", __LINE__, (error).message, wanted_); \
        }                                                                                                \
    } while (0)

static void write_text(const char *path, const char *text, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

/* A ledger in the documents' mode over the given profile (NULL: no file). */
static struct usage *open_ledger(const int64_t *layers, uint32_t count, uint64_t experts, const struct tree *profile)
{
    struct usage_config config = {.path = ledger_path,
                                  .layers = layers,
                                  .layers_count = count,
                                  .experts = experts,
                                  .mode = USAGE_SEED,
                                  .warn = on_warning};
    struct arena arena;
    struct usage *usage = NULL;
    enum usage_load_result result;
    berth_error err;
    arena_measure(&arena);
    assert_int_equal(usage_layout(&arena, &config, &usage, &err), BERTH_OK);
    uint64_t bytes = arena.used_bytes;
    arena_carve(&arena, aligned_alloc(4096, (bytes + 4095) & ~(uint64_t)4095), bytes);
    assert_int_equal(usage_layout(&arena, &config, &usage, &err), BERTH_OK);
    assert_int_equal(arena.used_bytes, bytes);
    unlink(ledger_path);
    warning[0] = '\0';
    if (profile != NULL) {
        write_text(ledger_path, profile->text, profile->text_bytes);
    }
    assert_int_equal(usage_load(usage, &result, &err), BERTH_OK);
    return usage;
}

static uint32_t read_layers(const struct tree *list, int64_t layers[16])
{
    uint32_t count = 0;
    for (const struct tree *at = list->first; at != NULL; at = at->next) {
        layers[count++] = (int64_t)at->number;
    }
    return count;
}

static struct usage *open_for(const struct tree *in, const char *profile)
{
    int64_t layers[16];
    uint32_t count = read_layers(tree_need(in, "layers"), layers);
    return open_ledger(layers, count, (uint64_t)tree_number(in, "expertsPerLayer"),
                       profile != NULL ? tree_get(in, profile) : NULL);
}

static berth_status record_tree(struct usage *usage, int64_t layer, const struct tree *routes, berth_error *err)
{
    double *ids[16];
    uint32_t counts[16];
    uint32_t rows = 0;
    for (const struct tree *row = routes->first; row != NULL; row = row->next, rows++) {
        ids[rows] = tree_alloc(row->count * sizeof **ids);
        counts[rows] = 0;
        for (const struct tree *id = row->first; id != NULL; id = id->next) {
            ids[rows][counts[rows]++] = id->number;
        }
    }
    const double *fixed[16];
    memcpy(fixed, ids, sizeof fixed);
    struct usage_rows all = {.ids = fixed, .counts = counts, .rows = rows};
    return usage_record(usage, layer, &all, err);
}

static void repeat(struct usage *usage, int64_t layer, double expert, uint32_t times)
{
    double *ids = tree_alloc(times * sizeof *ids);
    for (uint32_t i = 0; i < times; i++) {
        ids[i] = expert;
    }
    const double *rows[] = {ids};
    struct usage_rows all = {.ids = rows, .counts = &times, .rows = 1};
    assert_int_equal(usage_record(usage, layer, &all, NULL), BERTH_OK);
    free(ids);
}

static void check_snapshot(const struct tree *vector, const struct usage *usage, const struct tree *wanted)
{
    struct usage_snapshot got;
    usage_get_snapshot(usage, &got);
    CHECK_U64(vector, got.clock, tree_number(wanted, "clock"));
    CHECK_U64(vector, got.selections, tree_number(wanted, "routeSelections"));
    CHECK_U64(vector, got.total_count, tree_number(wanted, "totalCount"));
    CHECK_U64(vector, got.nonzero_counts, tree_number(wanted, "nonzeroCounts"));
    CHECK_U64(vector, got.dirty ? 1 : 0, tree_number(wanted, "dirty"));
}

static void check_file(const struct tree *vector, const struct tree *wanted)
{
    char text[512];
    size_t bytes = 0;
    FILE *file = fopen(ledger_path, "rb");
    if (file != NULL) {
        bytes = fread(text, 1, sizeof text, file);
        fclose(file);
    }
    if (bytes != wanted->text_bytes || memcmp(text, wanted->text, bytes) != 0) {
        FAIL_AT(vector, "file is \"%.*s\"", (int)bytes, text);
    }
}

/* ---- scores ---- */

static void lfru_score(void **state)
{
    (void)state;
    for (const struct tree *v = section("lfru_score", 17); v != NULL; v = v->next) {
        const struct tree *in = tree_need(v, "in");
        CHECK_U64(v,
                  usage_lfru_score((uint32_t)tree_number(in, "heat"), (uint32_t)tree_number(in, "lastAccess"),
                                   (uint32_t)tree_number(in, "clock")),
                  tree_number(v, "out"));
    }
}

static void lfru_threshold(void **state)
{
    (void)state;
    for (const struct tree *v = section("lfru_threshold", 14); v != NULL; v = v->next) {
        uint64_t cold = (uint64_t)tree_number(tree_need(v, "in"), "coldScore");
        const struct tree *out = tree_need(v, "out");
        uint64_t wins = (uint64_t)tree_number(out, "wins_at");
        CHECK_U64(v, usage_lfru_threshold(cold), tree_number(out, "loses_at"));
        assert_true(wins > usage_lfru_threshold(cold));
        CHECK_U64(v, wins - 1, tree_number(out, "loses_at"));
        CHECK_U64(v, (wins - cold) / 256, tree_number(out, "gain_at_win"));
    }
}

static void set_state(struct usage *usage, const struct tree *wanted)
{
    usage->clock = (uint32_t)tree_number(wanted, "clock");
    for (const struct tree *at = tree_need(wanted, "entries")->first; at != NULL; at = at->next) {
        uint32_t expert = (uint32_t)tree_at(at, 0)->number;
        usage->heat[expert] = (uint32_t)tree_at(at, 1)->number;
        usage->last[expert] = (uint32_t)tree_at(at, 2)->number;
    }
}

static void lfru_candidate(void **state)
{
    (void)state;
    uint32_t swaps = 0;
    for (const struct tree *v = section("lfru_candidate", 17); v != NULL; v = v->next) {
        const struct tree *in = tree_need(v, "in");
        int64_t layer = (int64_t)tree_number(in, "layer");
        struct usage *usage = open_ledger(&layer, 1, (uint64_t)tree_number(in, "expertsPerLayer"), NULL);
        for (const struct tree *op = tree_need(in, "ops")->first; op != NULL; op = op->next) {
            if (strcmp(tree_at(op, 0)->text, "repeat") == 0) {
                repeat(usage, layer, tree_at(op, 1)->number, (uint32_t)tree_at(op, 2)->number);
            } else {
                assert_string_equal(tree_at(op, 0)->text, "decay");
                usage_decay_heat(usage);
            }
        }
        if (tree_get(in, "state") != NULL) {
            set_state(usage, tree_need(in, "state"));
        }
        int64_t pinned[16];
        uint32_t count = read_layers(tree_need(in, "pinned"), pinned);
        struct usage_candidate got;
        bool found = false;
        berth_error err;
        berth_status status = usage_lfru_candidate(usage, layer, pinned, count, &got, &found, &err);
        if (tree_get(v, "error") != NULL) {
            assert_int_equal(status, BERTH_ERR_ARGUMENT);
            assert_string_equal(err.message, "invalid expert 4");
            continue;
        }
        assert_int_equal(status, BERTH_OK);
        const struct tree *out = tree_need(v, "out");
        CHECK_U64(v, found ? 1 : 0, out->kind == JSON_NULL ? 0.0 : 1.0);
        if (found) {
            swaps++;
            CHECK_U64(v, (uint64_t)got.layer, tree_number(out, "layer"));
            CHECK_U64(v, got.cold_slot, tree_number(out, "coldSlot"));
            CHECK_U64(v, got.cold_expert, tree_number(out, "coldExpertId"));
            CHECK_U64(v, got.hot_expert, tree_number(out, "hotExpertId"));
            CHECK_U64(v, got.cold_score, tree_number(out, "coldScore"));
            CHECK_U64(v, got.hot_score, tree_number(out, "hotScore"));
            CHECK_U64(v, got.gain, tree_number(out, "gain"));
        }
    }
    assert_int_equal(swaps, 10);
}

static void select_candidates(void **state)
{
    (void)state;
    for (const struct tree *v = section("select_candidates", 6); v != NULL; v = v->next) {
        const struct tree *in = tree_need(v, "in");
        struct usage_candidate rows[16] = {{0}};
        uint32_t count = 0;
        for (const struct tree *at = tree_need(in, "rows_layer_hot_gain")->first; at != NULL; at = at->next) {
            rows[count].layer = (int64_t)tree_at(at, 0)->number;
            rows[count].hot_expert = (uint32_t)tree_at(at, 1)->number;
            rows[count++].gain = (uint64_t)tree_at(at, 2)->number;
        }
        berth_error err;
        berth_status status = usage_select_candidates(rows, &count, (int64_t)tree_number(in, "limit"), &err);
        if (tree_get(v, "error") != NULL) {
            assert_int_equal(status, BERTH_ERR_ARGUMENT);
            CHECK_ERROR(v, err);
            continue;
        }
        const struct tree *out = tree_need(v, "out");
        CHECK_U64(v, count, (double)out->count);
        for (uint32_t i = 0; i < count; i++) {
            CHECK_U64(v, (uint64_t)rows[i].layer, tree_at(tree_at(out, i), 0)->number);
            CHECK_U64(v, rows[i].hot_expert, tree_at(tree_at(out, i), 1)->number);
            CHECK_U64(v, rows[i].gain, tree_at(tree_at(out, i), 2)->number);
        }
    }
}

/* ---- counts ---- */

static void check_counts(const struct tree *v, const struct usage *usage, const struct tree *wanted, uint64_t cap)
{
    struct usage_count got[16];
    uint64_t count = usage_ranked(usage, got, cap);
    CHECK_U64(v, count, (double)wanted->count);
    for (uint32_t i = 0; i < count && i < cap; i++) {
        const struct tree *row = tree_at(wanted, i);
        CHECK_U64(v, (uint64_t)got[i].layer, tree_at(row, 0)->number);
        CHECK_U64(v, got[i].expert, tree_at(row, 1)->number);
        CHECK_U64(v, got[i].count, tree_at(row, 2)->number);
    }
}

static void ranked_counts(void **state)
{
    (void)state;
    for (const struct tree *v = section("ranked_counts", 3); v != NULL; v = v->next) {
        struct usage *usage = open_for(tree_need(v, "in"), "profile");
        check_counts(v, usage, tree_need(v, "out"), 16);
        check_counts(v, usage, tree_need(v, "out"), 1); /* the best ones, however little room there is */
        check_counts(v, usage, tree_need(v, "out"), 2);
    }
}

static void profile_parse(void **state)
{
    (void)state;
    uint32_t warned = 0;
    for (const struct tree *v = section("profile_parse", 28); v != NULL; v = v->next) {
        const struct tree *out = tree_need(v, "out");
        struct usage *usage = open_for(tree_need(v, "in"), "text");
        struct usage_snapshot snapshot;
        usage_get_snapshot(usage, &snapshot);
        CHECK_U64(v, snapshot.nonzero_counts, (double)tree_need(out, "counts")->count);
        for (const struct tree *row = tree_need(out, "counts")->first; row != NULL; row = row->next) {
            struct usage_entry entry;
            assert_int_equal(
                usage_entry(usage, (int64_t)tree_at(row, 0)->number, (int64_t)tree_at(row, 1)->number, &entry, NULL),
                BERTH_OK);
            CHECK_U64(v, entry.count, tree_at(row, 2)->number);
            CHECK_U64(v, entry.heat, 0.0);
        }
        char wanted[256] = "";
        if (tree_get(out, "warning") != NULL) {
            snprintf(wanted, sizeof wanted, "ignoring invalid expert usage profile %s: %s", ledger_path,
                     tree_need(out, "warning")->text);
            warned++;
        } else {
            CHECK_U64(v, snapshot.total_count, tree_number(out, "totalCount"));
        }
        if (strcmp(warning, wanted) != 0) {
            FAIL_AT(v, "warning \"%s\", wanted \"%s\"", warning, wanted);
        }
        CHECK_U64(v, snapshot.dirty ? 1 : 0, 0.0);
    }
    assert_int_equal(warned, 12);
}

static void record_and_flush(void **state)
{
    (void)state;
    for (const struct tree *v = section("record_and_flush", 5); v != NULL; v = v->next) {
        const struct tree *in = tree_need(v, "in");
        struct usage *usage = open_for(in, "profile");
        for (const struct tree *op = tree_need(in, "ops")->first; op != NULL; op = op->next) {
            berth_error err;
            assert_int_equal(record_tree(usage, (int64_t)tree_at(op, 0)->number, tree_at(op, 1), &err), BERTH_OK);
        }
        check_snapshot(v, usage, tree_need(tree_need(v, "out"), "snapshot"));
        bool dirty = usage->dirty;
        assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
        assert_false(usage->dirty);
        check_file(v, tree_need(tree_need(v, "out"), "file"));
        if (!dirty) {
            unlink(ledger_path);
            assert_int_equal(usage_flush(usage, NULL), BERTH_OK);
            assert_int_not_equal(access(ledger_path, F_OK), 0); /* clean: nothing was written */
        }
    }
}

static void record_atomicity(void **state)
{
    (void)state;
    for (const struct tree *v = section("record_atomicity", 4); v != NULL; v = v->next) {
        const struct tree *in = tree_need(v, "in");
        int64_t layer = 3;
        struct usage *usage = open_ledger(&layer, 1, 4, NULL);
        berth_error err;
        assert_int_equal(record_tree(usage, (int64_t)tree_number(in, "layer"), tree_need(in, "routes"), &err),
                         BERTH_ERR_ARGUMENT);
        const struct tree *out = tree_need(v, "out");
        assert_string_equal(err.message, tree_need(out, "error")->text);
        check_snapshot(v, usage, tree_need(out, "snapshot"));
        for (uint32_t expert = 0; expert < 4; expert++) {
            CHECK_U64(v, usage->counts[expert], tree_at(tree_need(out, "counts"), expert)->number);
        }
    }
}

static void decay_heat(void **state)
{
    (void)state;
    for (const struct tree *v = section("decay_heat", 1); v != NULL; v = v->next) {
        const struct tree *heat = tree_need(tree_need(v, "in"), "heat");
        int64_t layer = 0;
        struct usage *usage = open_ledger(&layer, 1, heat->count, NULL);
        for (uint32_t i = 0; i < heat->count; i++) {
            usage->heat[i] = (uint32_t)tree_at(heat, i)->number;
        }
        usage_decay_heat(usage);
        for (uint32_t i = 0; i < heat->count; i++) {
            CHECK_U64(v, usage->heat[i], tree_at(tree_need(v, "out"), i)->number);
        }
    }
}

/* ---- plans ---- */

static int64_t slot_bytes(void *user, int64_t layer)
{
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)layer);
    return (int64_t)tree_number(user, key);
}

static void autopin(void **state)
{
    (void)state;
    for (const struct tree *v = section("autopin", 24); v != NULL; v = v->next) {
        const struct tree *in = tree_need(v, "in");
        struct usage *usage = open_for(in, "profile");
        struct autopin_config config = AUTOPIN_CONFIG_INIT;
        union {
            const struct tree *in;
            void *out;
        } sizes = {tree_need(in, "slotBytes")};
        config.resident_bytes = (int64_t)tree_number(in, "residentTierBudgetBytes");
        config.mandatory_bytes = (int64_t)tree_number(in, "mandatoryResidentBytes");
        config.slot_bytes = slot_bytes;
        config.user = sizes.out;
        config.share = tree_get(in, "share") != NULL ? tree_number(in, "share") : config.share;
        config.min_pin_bytes =
            tree_get(in, "min_budget") != NULL ? (int64_t)tree_number(in, "min_budget") : config.min_pin_bytes;
        config.min_history =
            tree_get(in, "min_history") != NULL ? (int64_t)tree_number(in, "min_history") : config.min_history;
        config.full_history = tree_get(in, "full") != NULL ? (int64_t)tree_number(in, "full") : config.full_history;
        struct usage_count pins[16];
        struct autopin_plan plan;
        berth_error err;
        berth_status status = usage_autopin(usage, &config, pins, 16, &plan, &err);
        if (tree_get(v, "error") != NULL) {
            assert_int_equal(status, BERTH_ERR_ARGUMENT);
            assert_string_equal(err.message, tree_need(v, "error")->text);
            continue;
        }
        assert_int_equal(status, BERTH_OK);
        const struct tree *out = tree_need(v, "out");
        CHECK_U64(v, plan.history, tree_number(out, "historySelections"));
        if (plan.confidence != tree_number(out, "confidence")) {
            FAIL_AT(v, "confidence %.17g", plan.confidence);
        }
        CHECK_U64(v, plan.requested_bytes, tree_number(out, "requestedBudgetBytes"));
        CHECK_U64(v, plan.usable_bytes, tree_number(out, "usableBudgetBytes"));
        CHECK_U64(v, plan.planned_bytes, tree_number(out, "plannedBytes"));
        CHECK_U64(v, plan.pins, (double)tree_need(out, "pins")->count);
        for (uint32_t i = 0; i < plan.pins; i++) {
            const struct tree *row = tree_at(tree_need(out, "pins"), i);
            CHECK_U64(v, (uint64_t)pins[i].layer, tree_at(row, 0)->number);
            CHECK_U64(v, pins[i].expert, tree_at(row, 1)->number);
            CHECK_U64(v, pins[i].count, tree_at(row, 2)->number);
        }
    }
}

static void turn_end(void **state)
{
    (void)state;
    const struct tree *v = section("turn_end", 1);
    const struct tree *in = tree_need(v, "in");
    const struct tree *out = tree_need(v, "out");
    struct usage *usage = open_for(in, NULL);
    int64_t lists[16][4];
    struct usage_pins pins[16];
    struct usage_candidate work[16];
    struct usage_turn turn = {.pins = pins, .limit = SEED_REPIN_LIMIT, .work = work};
    for (const struct tree *at = tree_need(in, "pins")->first; at != NULL; at = at->next) {
        pins[turn.pins_count] = (struct usage_pins){strtoll(at->key, NULL, 10), lists[turn.pins_count],
                                                    read_layers(at, lists[turn.pins_count])};
        turn.pins_count++;
    }
    for (const struct tree *at = tree_need(in, "routes_layer_expert_times")->first; at != NULL; at = at->next) {
        repeat(usage, (int64_t)tree_at(at, 0)->number, tree_at(at, 1)->number, (uint32_t)tree_at(at, 2)->number);
    }
    assert_int_equal(usage_turn_end(usage, &turn, NULL), BERTH_OK);
    CHECK_U64(v, turn.candidates, (double)tree_need(out, "candidates")->count);
    for (uint32_t i = 0; i < turn.candidates; i++) {
        const struct tree *row = tree_at(tree_need(out, "candidates"), i);
        CHECK_U64(v, (uint64_t)work[i].layer, tree_at(row, 0)->number);
        CHECK_U64(v, work[i].hot_expert, tree_at(row, 1)->number);
        CHECK_U64(v, work[i].gain, tree_at(row, 2)->number);
    }
    CHECK_U64(v, turn.applied, (double)tree_need(out, "applied")->count);
    for (uint32_t i = 0; i < turn.applied; i++) {
        const struct tree *row = tree_at(tree_need(out, "applied"), i);
        CHECK_U64(v, (uint64_t)work[i].layer, tree_at(row, 0)->number);
        CHECK_U64(v, work[i].cold_expert, tree_at(row, 1)->number);
        CHECK_U64(v, work[i].hot_expert, tree_at(row, 2)->number);
        CHECK_U64(v, work[i].gain, tree_at(row, 3)->number);
        uint32_t at = 0;
        while (pins[at].layer != work[i].layer) {
            at++;
        }
        assert_int_equal(pins[at].experts[work[i].cold_slot], work[i].hot_expert);
    }
    for (const struct tree *at = tree_need(in, "routes_layer_expert_times")->first; at != NULL; at = at->next) {
        struct usage_entry entry;
        char key[24];
        int64_t layer = (int64_t)tree_at(at, 0)->number;
        assert_int_equal(usage_entry(usage, layer, (int64_t)tree_at(at, 1)->number, &entry, NULL), BERTH_OK);
        snprintf(key, sizeof key, "%lld", (long long)layer);
        CHECK_U64(v, entry.heat, tree_number(tree_need(out, "heat_after"), key));
    }
    check_file(v, tree_need(out, "file"));
}

static void residency_plan(void **state)
{
    (void)state;
    for (const struct tree *v = section("residency_plan", 6); v != NULL; v = v->next) {
        const struct tree *in = tree_need(v, "in");
        struct seed_banks banks = {.budget_bytes = (uint64_t)tree_number(in, "budget"),
                                   .fixed_bytes = (uint64_t)tree_number(in, "fixed"),
                                   .slot_bytes = (uint64_t)tree_number(in, "slot"),
                                   .layers = (uint64_t)tree_number(in, "layers"),
                                   .working = tree_get(in, "working") != NULL ? (uint64_t)tree_number(in, "working")
                                                                              : SEED_WORKING_SLOTS,
                                   .pinned = tree_get(in, "pinned") != NULL ? (uint64_t)tree_number(in, "pinned") : 0,
                                   .cap = tree_get(in, "cap") != NULL ? (uint64_t)tree_number(in, "cap") : 0};
        struct seed_bank_plan plan;
        berth_error err;
        berth_status status = seed_plan_banks(&banks, &plan, &err);
        if (tree_get(v, "error") != NULL) {
            assert_int_equal(status, BERTH_ERR_BUDGET);
            CHECK_ERROR(v, err);
            continue;
        }
        assert_int_equal(status, BERTH_OK);
        const struct tree *out = tree_need(v, "out");
        CHECK_U64(v, plan.slots_per_layer, tree_number(out, "slotsPerLayer"));
        CHECK_U64(v, plan.resident_slots, tree_number(out, "residentSlots"));
        CHECK_U64(v, plan.total_slots, tree_number(out, "totalSlots"));
        CHECK_U64(v, plan.slab_bytes, tree_number(out, "slabBytes"));
        CHECK_U64(v, plan.planned_bytes, tree_number(out, "plannedBytes"));
    }
}

static void batch_union(void **state)
{
    (void)state;
    for (const struct tree *v = section("batch_union", 3); v != NULL; v = v->next) {
        const struct tree *in = tree_need(v, "in");
        const struct tree *routes = tree_need(in, "routes");
        uint32_t ids[4][8];
        uint32_t counts[4] = {0};
        const uint32_t *rows[4];
        for (uint32_t row = 0; row < routes->count; row++) {
            rows[row] = ids[row];
            for (const struct tree *id = tree_at(routes, row)->first; id != NULL; id = id->next) {
                ids[row][counts[row]++] = (uint32_t)id->number;
            }
        }
        struct seed_union_expert experts[32];
        struct seed_consumer consumers[32];
        struct seed_union batch = {.ids = rows,
                                   .counts = counts,
                                   .rows = (uint32_t)routes->count,
                                   .per_wave = (uint32_t)tree_number(in, "maxUniquePerWave"),
                                   .experts = experts,
                                   .consumers = consumers};
        seed_unite(&batch);
        uint32_t at = 0;
        uint32_t wave_index = 0;
        for (const struct tree *wave = tree_need(v, "out")->first; wave != NULL; wave = wave->next, wave_index++) {
            for (const struct tree *wanted = wave->first; wanted != NULL; wanted = wanted->next, at++) {
                const struct tree *users = tree_need(wanted, "consumers");
                assert_true(at < batch.experts_count);
                CHECK_U64(v, experts[at].expert, tree_number(wanted, "expertId"));
                CHECK_U64(v, experts[at].wave, wave_index);
                CHECK_U64(v, experts[at].count, (double)users->count);
                for (uint32_t i = 0; i < experts[at].count; i++) {
                    CHECK_U64(v, consumers[experts[at].first + i].row, tree_at(tree_at(users, i), 0)->number);
                    CHECK_U64(v, consumers[experts[at].first + i].rank, tree_at(tree_at(users, i), 1)->number);
                }
            }
        }
        CHECK_U64(v, batch.experts_count, at);
    }
}

static void colibri(void **state)
{
    (void)state;
    for (const struct tree *v = section("colibri_v1_header", 4); v != NULL; v = v->next) {
        CHECK_U64(v, usage_engine_id(tree_need(tree_need(v, "in"), "engine")->text),
                  tree_number(tree_need(v, "out"), "engine_id"));
    }
    for (const struct tree *v = section("colibri_usage_decay", 3); v != NULL; v = v->next) {
        const struct tree *in = tree_need(tree_need(v, "in"), "counts");
        uint32_t counts[16];
        for (uint32_t i = 0; i < in->count; i++) {
            counts[i] = (uint32_t)tree_at(in, i)->number;
        }
        usage_colibri_decay(counts, in->count, tree_number(tree_need(v, "in"), "decay"));
        for (uint32_t i = 0; i < in->count; i++) {
            CHECK_U64(v, counts[i], tree_at(tree_need(v, "out"), i)->number);
        }
    }
}

static void latency_percentiles(void **state)
{
    (void)state;
    for (const struct tree *v = section("latency_percentiles", 5); v != NULL; v = v->next) {
        const struct tree *in = tree_need(v, "in");
        const struct tree *out = tree_need(v, "out");
        double values[128];
        for (uint32_t i = 0; i < in->count; i++) {
            values[i] = tree_at(in, i)->number;
        }
        struct seed_latency got;
        seed_latencies(values, in->count, &got);
        CHECK_U64(v, got.count, tree_number(out, "count"));
        assert_true(got.total == tree_number(out, "totalMs") && got.p50 == tree_number(out, "p50Ms") &&
                    got.p95 == tree_number(out, "p95Ms") && got.p99 == tree_number(out, "p99Ms") &&
                    got.max == tree_number(out, "maxMs"));
    }
}

/* ---- refusals of the constructor, which have no vectors ---- */

static void refusals(void **state)
{
    (void)state;
    const int64_t twice[] = {3, 4, 3};
    const int64_t negative[] = {3, -4};
    const int64_t good[] = {3};
    struct {
        struct usage_config config;
        const char *message;
    } rows[] = {
        {{.path = "", .layers = good, .layers_count = 1, .experts = 4}, "expert usage path must not be empty"},
        {{.path = NULL, .layers = good, .layers_count = 1, .experts = 4}, "expert usage path must not be empty"},
        {{.path = "x", .layers = good, .layers_count = 1}, "expertsPerLayer must be a positive safe integer"},
        {{.path = "x", .layers = good, .layers_count = 1, .experts = 4294967296u},
         "expertsPerLayer exceeds uint32 range"},
        {{.path = "x", .layers = good, .experts = 4}, "expert usage layers must be non-empty and unique"},
        {{.path = "x", .layers = twice, .layers_count = 3, .experts = 4},
         "expert usage layers must be non-empty and unique"},
        {{.path = "x", .layers = negative, .layers_count = 2, .experts = 4}, "invalid expert usage layer -4"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct arena arena;
        struct usage *usage = NULL;
        berth_error err;
        arena_measure(&arena);
        assert_int_equal(usage_layout(&arena, &rows[i].config, &usage, &err), BERTH_ERR_ARGUMENT);
        assert_string_equal(err.message, rows[i].message);
        assert_int_equal(arena.used_bytes, 0);
    }
    /* The largest number of experts the documents allow is refused only for want of memory. */
    struct usage_config vast = {.path = "x", .layers = good, .layers_count = 1, .experts = UINT32_MAX};
    struct arena arena;
    struct usage *usage = NULL;
    arena_measure(&arena);
    assert_int_equal(usage_layout(&arena, &vast, &usage, NULL), BERTH_OK);
}

int main(void)
{
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(ledger_path, sizeof ledger_path, "%s/.coli_usage", folder);
    vectors = tree_need(tree_read(BERTH_TESTS_DIR "/golden/seed_vectors.json"), "vectors");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lfru_score),        cmocka_unit_test(lfru_threshold),   cmocka_unit_test(lfru_candidate),
        cmocka_unit_test(select_candidates), cmocka_unit_test(ranked_counts),    cmocka_unit_test(profile_parse),
        cmocka_unit_test(record_and_flush),  cmocka_unit_test(record_atomicity), cmocka_unit_test(decay_heat),
        cmocka_unit_test(autopin),           cmocka_unit_test(turn_end),         cmocka_unit_test(residency_plan),
        cmocka_unit_test(batch_union),       cmocka_unit_test(colibri),          cmocka_unit_test(latency_percentiles),
        cmocka_unit_test(refusals),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(ledger_path);
    char backup[80];
    snprintf(backup, sizeof backup, "%s.bak", ledger_path);
    unlink(backup);
    if (rmdir(folder) != 0) {
        fprintf(stderr, "files were left in %s\n", folder);
        failed++;
    }
    return failed;
}
