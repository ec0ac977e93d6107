/* SPDX-License-Identifier: MIT
 * The engine on the bundled model: the same bits for every policy, pin set and warm start; recordings whose replay
 * gives the engine's hits and misses exactly; what the ledger holds afterwards. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "experts/replay.h"
#include "experts/usage_parts.h"

#define MODEL BERTH_ROOT_DIR "/models/pocket-moe-q8_0.gguf"

enum { PROMPT = 40, DECODE = 20, TURNS = 3, CHUNK = 16, LAYERS = 8, EXPERTS = 64, TOP_K = 8 };

static char folder[] = "/tmp/berth_residency_XXXXXX";
static char ledger[80], routes_file[80];

struct outcome {
    uint64_t hash;
    berth_stats stats;
    berth_turn turns; /* sums */
    berth_warm warm;
    uint64_t slots;
};

static void on_logits(void *user, uint32_t position, const float *logits, uint32_t vocab)
{
    uint64_t *hash = user;
    (void)position;
    *hash = hash_bytes(*hash, logits, vocab * sizeof *logits);
}

static void on_log(void *user, berth_log_level level, const char *text)
{
    (void)user;
    if (level == BERTH_LOG_WARN) {
        print_message("log: %s\n", text);
    }
}

struct setup {
    const char *policy, *pins;
    double cycles; /* of slots */
    bool ledger, warm, record;
};

static berth_model_config config_of(const struct setup *setup)
{
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    berth_plan plan = BERTH_PLAN_INIT;
    berth_error err;
    config.ctx_tokens = 256;
    config.chunk_tokens = CHUNK;
    config.threads = 1;
    config.policy = setup->policy;
    config.pins = setup->pins;
    config.log = on_log;
    config.ledger = setup->ledger ? BERTH_LEDGER_ON : BERTH_LEDGER_OFF;
    config.ledger_path = ledger;
    config.record_routes = setup->record ? routes_file : NULL;
    config.budget_bytes = 1ull << 40;
    if (berth_plan_memory(MODEL, &config, &plan, &err) != BERTH_OK) {
        fail_msg("%s", err.message);
    }
    config.budget_bytes = plan.floor_bytes + (uint64_t)((setup->cycles - 1.0) * (double)plan.cycle_bytes);
    return config;
}

static struct outcome run(const struct setup *setup)
{
    struct outcome out = {.hash = HASH_SEED, .stats = BERTH_STATS_INIT, .warm = BERTH_WARM_INIT};
    berth_model_config config = config_of(setup);
    berth_model *model = NULL;
    berth_session *session = NULL;
    berth_error err;
    if (berth_model_open(MODEL, &config, &model, &err) != BERTH_OK) {
        fail_msg("%s: %s", setup->policy, err.message);
    }
    if (setup->warm) {
        assert_int_equal(berth_model_warm(model, UINT64_MAX, &out.warm, &err), BERTH_OK);
        assert_true(out.warm.complete);
    }
    assert_int_equal(berth_session_create(model, NULL, &session, &err), BERTH_OK);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        int32_t ids[PROMPT + DECODE];
        berth_turn done = BERTH_TURN_INIT;
        for (uint32_t i = 0; i < PROMPT + DECODE; i++) {
            ids[i] = (int32_t)(((i + turn * 100) * 2654435761u >> 9) % 8192);
        }
        assert_int_equal(berth_session_eval(session, ids, PROMPT, on_logits, &out.hash, &err), BERTH_OK);
        for (uint32_t i = 0; i < DECODE; i++) {
            assert_int_equal(berth_session_eval(session, &ids[PROMPT + i], 1, on_logits, &out.hash, &err), BERTH_OK);
        }
        if (berth_session_turn_end(session, &done, &err) != BERTH_OK) {
            fail_msg("%s", err.message);
        }
        out.turns.swaps += done.swaps;
        out.turns.candidates += done.candidates;
    }
    assert_int_equal(berth_model_get_stats(model, &out.stats), BERTH_OK);
    berth_model_close(model);
    return out;
}

/* The recording that run() left, through the same policy (NULL: the one it says) and slots. */
static struct replay_result replay(const char *policy, bool warm_prior)
{
    const char *paths[] = {routes_file};
    struct routes *routes = NULL;
    struct replay_result result;
    berth_error err;
    if (routes_read(paths, 1, 0, &routes, &err) != BERTH_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(routes->tokens[BERTH_PHASE_PREFILL], TURNS * PROMPT);
    assert_int_equal(routes->tokens[BERTH_PHASE_DECODE], TURNS * DECODE);
    assert_int_equal(routes->layers, LAYERS);
    struct replay_config config = {.policy = policy,
                                   .as_recorded = true,
                                   .prior = warm_prior ? REPLAY_PRIOR_RECORDED : REPLAY_PRIOR_NONE,
                                   .scored_from = UINT64_MAX};
    if (replay_run(routes, &config, &result, &err) != BERTH_OK) {
        fail_msg("%s", err.message);
    }
    routes_free(routes);
    return result;
}

static void same_counts(const char *what, const struct outcome *engine, const struct replay_result *replayed)
{
    for (int phase = 0; phase < 2; phase++) {
        if (engine->stats.hits[phase] != replayed->hits[phase] ||
            engine->stats.misses[phase] != replayed->misses[phase]) {
            fail_msg("%s, phase %d: engine %llu hits %llu misses, replay %llu and %llu", what, phase,
                     (unsigned long long)engine->stats.hits[phase], (unsigned long long)engine->stats.misses[phase],
                     (unsigned long long)replayed->hits[phase], (unsigned long long)replayed->misses[phase]);
        }
    }
    if (engine->stats.evictions != replayed->evictions) {
        print_message("%s: evictions %llu, replay %llu\n", what, (unsigned long long)engine->stats.evictions,
                      (unsigned long long)replayed->evictions);
    }
}

static const char *const policies[] = {"lru",       "next-use",       "lfru",
                                       "layer-lru", "seed:working=8", "next-use:half-life=2"};
enum { POLICIES = sizeof policies / sizeof policies[0] };
static const double sizes[] = {0.4, 1.0, 1.6, 3.0};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void policies_change_nothing_but_hits(void **state)
{
    (void)state;
    uint64_t hash = 0;
    uint32_t crossed = 0;
    for (int size = 0; size < SIZES; size++) {
        struct outcome outcomes[POLICIES];
        for (int i = 0; i < POLICIES; i++) {
            outcomes[i] = run(&(struct setup){.policy = policies[i], .cycles = sizes[size], .record = true});
            hash = hash == 0 ? outcomes[i].hash : hash;
            assert_true(outcomes[i].hash == hash);
            assert_true(outcomes[i].stats.misses[BERTH_PHASE_DECODE] > 0);
            struct replay_result same = replay(NULL, false);
            same_counts(policies[i], &outcomes[i], &same);
        }
        /* The last recording says what every other policy did in its own run. */
        for (int i = 0; i < POLICIES; i++) {
            struct replay_result other = replay(policies[i], false);
            if (outcomes[i].stats.slots_count == outcomes[POLICIES - 1].stats.slots_count) { /* tables differ in size */
                same_counts(policies[i], &outcomes[i], &other);
                crossed++;
            }
        }
        struct replay_result best = replay("belady", false);
        print_message("%.1f cycles: decode hits", sizes[size]);
        for (int i = 0; i < POLICIES; i++) {
            print_message(" %s %llu", policies[i], (unsigned long long)outcomes[i].stats.hits[BERTH_PHASE_DECODE]);
            /* Belady keeps what it reads, so policies that give experts back may beat it below one cycle. */
            assert_true(sizes[size] < 1.5 ||
                        outcomes[i].stats.hits[1] + outcomes[i].stats.hits[0] <= best.hits[1] + best.hits[0]);
        }
        print_message(" belady %llu\n", (unsigned long long)best.hits[BERTH_PHASE_DECODE]);
    }
    assert_true(crossed >= 2 * SIZES);
}

static void ledger_pins_and_warm_start(void **state)
{
    (void)state;
    unlink(ledger);
    struct outcome cold = run(&(struct setup){.policy = "lru", .cycles = 2.0, .ledger = true});
    const struct setup rows[] = {
        {.policy = "lru", .cycles = 2.0, .ledger = true, .warm = true, .record = true},
        {.policy = "next-use", .cycles = 2.0, .ledger = true, .warm = true, .record = true},
        {.policy = "lfru", .cycles = 2.0, .ledger = true, .warm = true, .record = true},
        {.policy = "layer-lru", .cycles = 2.0, .ledger = true, .warm = true, .record = true},
        {.policy = "lru", .cycles = 2.0, .pins = "\n0:1 7:63\r\n7:2,\t3:5 # 0:9\n# 1:1,2:2\n0:2#", .record = true},
        {.policy = "next-use",
         .cycles = 2.0,
         .pins = "0:1,7:63,7:2,3:5,0:2",
         .ledger = true,
         .warm = true,
         .record = true},
        {.policy = "seed:working=8,min-history=100,full-history=1000,min-bytes=0",
         .cycles = 2.0,
         .ledger = true,
         .record = true},
        {.policy = "seed:working=8,min-history=100,full-history=1000,min-bytes=0,share=20",
         .cycles = 1.5,
         .pins = "0:1,0:2",
         .ledger = true,
         .record = true},
        {.policy = "lru", .cycles = 0.5, .pins = "0:1,0:2", .ledger = true, .warm = true, .record = true},
    };
    uint32_t swaps = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct outcome out = run(&rows[i]);
        struct replay_result same = replay(NULL, true);
        assert_true(out.hash == cold.hash);
        same_counts(rows[i].policy, &out, &same);
        assert_true(!rows[i].warm || rows[i].cycles < 1.0 || out.warm.experts > 100);
        assert_true((rows[i].pins == NULL && strncmp(rows[i].policy, "seed", 4) != 0) || out.stats.pinned_slots > 0);
        assert_true(rows[i].pins == NULL || out.stats.pinned_slots >= 2);
        swaps += out.turns.swaps;
        print_message(
            "%s: warm %llu, pinned %llu, swaps %u, decode hits %llu of %llu, policy %.2f us a visit\n", rows[i].policy,
            (unsigned long long)out.warm.experts, (unsigned long long)out.stats.pinned_slots, out.turns.swaps,
            (unsigned long long)out.stats.hits[1], (unsigned long long)(out.stats.hits[1] + out.stats.misses[1]),
            (double)out.stats.policy_ns / 1000.0 / (TURNS * LAYERS * (DECODE + (PROMPT + CHUNK - 1) / CHUNK)));
    }
    assert_true(swaps > 0);
}

static void ledger_counts(void **state)
{
    (void)state;
    int64_t layers[LAYERS] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct usage_config config = {
        .path = ledger, .layers = layers, .layers_count = LAYERS, .experts = EXPERTS, .engine = "qwen3_moe"};
    unsigned char *memory = aligned_alloc(4096, 1 << 18);
    struct arena arena;
    struct usage *usage = NULL;
    enum usage_load_result result;
    struct usage_snapshot snapshot;
    unlink(ledger);
    (void)run(&(struct setup){.policy = "lru", .cycles = 2.0, .ledger = true});
    (void)run(&(struct setup){.policy = "next-use", .cycles = 1.0, .ledger = true});
    arena_carve(&arena, memory, 1 << 18);
    assert_int_equal(usage_layout(&arena, &config, &usage, NULL), BERTH_OK);
    assert_int_equal(usage_load(usage, &result, NULL), BERTH_OK);
    assert_int_equal(result, USAGE_LOADED);
    usage_get_snapshot(usage, &snapshot);
    assert_int_equal(snapshot.total_count, 2ull * TURNS * (PROMPT + DECODE) * LAYERS * TOP_K);
    free(memory);
}

static void bad_configurations(void **state)
{
    (void)state;
    const struct setup rows[] = {
        {.policy = "lru", .cycles = 2.0, .pins = "0:64"},  {.policy = "lru", .cycles = 2.0, .pins = "8:1"},
        {.policy = "lru", .cycles = 2.0, .pins = "0-1"},   {.policy = "lru:x=1", .cycles = 2.0},
        {.policy = "next-use:half-life=0", .cycles = 2.0}, {.policy = "belady", .cycles = 2.0},
        {.policy = "seed:working=many", .cycles = 2.0},    {.policy = "least", .cycles = 2.0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct setup plain = {.policy = "lru", .cycles = 2.0};
        berth_model_config config = config_of(&plain);
        berth_model *model = NULL;
        berth_error err;
        config.policy = rows[i].policy;
        config.pins = rows[i].pins;
        if (berth_model_open(MODEL, &config, &model, &err) != BERTH_ERR_ARGUMENT) {
            fail_msg("row %zu was taken", i);
        }
        assert_null(model);
        assert_true(err.message[0] != '\0');
    }
}

int main(void)
{
    if (access(MODEL, R_OK) != 0) {
        return 77;
    }
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(ledger, sizeof ledger, "%s/ledger", folder);
    snprintf(routes_file, sizeof routes_file, "%s/routes", folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_change_nothing_but_hits),
        cmocka_unit_test(ledger_pins_and_warm_start),
        cmocka_unit_test(ledger_counts),
        cmocka_unit_test(bad_configurations),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[120];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) != 0 ? 1 : failed;
}
