/* SPDX-License-Identifier: MIT
 * The replay engine on the five public traces (tests/golden/traces, sources in SOURCE.md): the published overlaps, the
 * LRU and Belady hit rates of an independent program to its printed digit, what next-use reaches, and null controls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "experts/replay.h"

enum { TRACES = 5, SIZES = 5 };
static const double sizes[SIZES] = {0.9, 1.25, 2, 3, 4};

static const struct {
    const char *file;
    double overlap;
    const char *lru[SIZES], *belady[SIZES];
    double share; /* next-use hits over Belady's at a quarter of all experts, at least */
} traces[TRACES] = {
    {"bigmoe_qwen.route.csv",
     38.0,
     {"0.0", "36.7", "46.8", "62.5", "70.6"},
     {"52.3", "60.8", "72.7", "81.7", "87.9"},
     0.90},
    {"bigmoe_gemma.route.csv",
     35.7,
     {"0.0", "35.6", "47.6", "64.0", "71.7"},
     {"53.2", "61.3", "72.7", "81.2", "86.8"},
     0.90},
    {"bigmoe_gptoss.route.csv",
     17.9,
     {"0.0", "16.8", "33.9", "49.8", "60.0"},
     {"40.3", "50.0", "63.2", "72.0", "75.8"},
     0.90},
    {"olmoe-1b-7b_decode299.jsonl",
     43.5,
     {"0.0", "45.9", "60.8", "73.3", "84.2"},
     {"59.5", "68.7", "80.3", "88.7", "93.9"},
     0.79},
    {"kimi-linear-48b_decode300.jsonl",
     33.6,
     {"0.0", "33.4", "41.0", "51.5", "55.5"},
     {"49.1", "55.4", "63.4", "70.2", "75.5"},
     0.85},
};

static struct routes *read_trace(int index)
{
    char path[512];
    const char *paths[] = {path};
    struct routes *routes = NULL;
    berth_error err;
    snprintf(path, sizeof path, "%s/golden/traces/%s", BERTH_TESTS_DIR, traces[index].file);
    if (routes_read(paths, 1, 0, &routes, &err) != BERTH_OK) {
        fail_msg("%s", err.message);
    }
    return routes;
}

/* Hit rate of the second half in percent: one pool, every slot alike, the first half's counts as the ledger. */
static double rate(const struct routes *routes, const char *policy, uint64_t slots)
{
    struct replay_config config = {
        .policy = policy, .slots = slots, .global = true, .prior = REPLAY_PRIOR_HALF, .scored_from = UINT64_MAX};
    struct replay_result result;
    berth_error err;
    if (replay_run(routes, &config, &result, &err) != BERTH_OK) {
        fail_msg("%s", err.message);
    }
    return 100.0 * (double)result.scored_hits / (double)result.scored;
}

static uint64_t cycle(const struct routes *routes)
{
    return (uint64_t)routes->layers * routes->top_k;
}

static void published_numbers(void **state)
{
    (void)state;
    for (int i = 0; i < TRACES; i++) {
        struct routes *routes = read_trace(i);
        char text[16];
        char wanted[16];
        snprintf(text, sizeof text, "%.1f", routes_overlap(routes));
        snprintf(wanted, sizeof wanted, "%.1f", traces[i].overlap);
        assert_string_equal(text, wanted);
        for (int s = 0; s < SIZES; s++) {
            uint64_t slots = (uint64_t)(sizes[s] * (double)cycle(routes));
            snprintf(text, sizeof text, "%.1f", rate(routes, "lru", slots));
            assert_string_equal(text, traces[i].lru[s]);
            snprintf(text, sizeof text, "%.1f", rate(routes, "belady", slots));
            assert_string_equal(text, traces[i].belady[s]);
        }
        routes_free(routes);
    }
}

static void next_use_reaches(void **state)
{
    (void)state;
    for (int i = 0; i < TRACES; i++) {
        struct routes *routes = read_trace(i);
        uint64_t quarter = (uint64_t)routes->layers * routes->experts / 4;
        double bound = rate(routes, "belady", quarter);
        double reached = rate(routes, "next-use", quarter);
        print_message("%s: next-use %.2f of belady's %.2f at %llu slots: %.4f\n", traces[i].file, reached, bound,
                      (unsigned long long)quarter, reached / bound);
        assert_true(reached / bound >= traces[i].share);
        for (int s = 0; s < SIZES; s++) {
            uint64_t slots = (uint64_t)(sizes[s] * (double)cycle(routes));
            double mine = rate(routes, "next-use", slots);
            double layer = rate(routes, "layer-lru", slots);
            assert_true(mine >= layer - 1.0);
            assert_true(mine <= rate(routes, "belady-bypass", slots) + 1e-9);
        }
        routes_free(routes);
    }
}

/* Layers with pools of their own, under a global order: nothing is left for the order to do but what layer-lru does. */
static void pools_by_layer(void **state)
{
    (void)state;
    struct routes *routes = read_trace(3);
    struct replay_config config = {.policy = "lru", .slots = 2 * cycle(routes), .per_layer = true};
    struct replay_result own;
    struct replay_result shared;
    berth_error err;
    assert_int_equal(replay_run(routes, &config, &own, &err), BERTH_OK);
    config.per_layer = false;
    config.global = true;
    config.policy = "layer-lru";
    assert_int_equal(replay_run(routes, &config, &shared, &err), BERTH_OK);
    assert_int_equal(own.scored_hits, shared.scored_hits);
    assert_int_equal(own.slots, 2 * cycle(routes));
    assert_true(own.scored_hits > 0 && own.scored_hits < own.scored);
    config.global = false;
    config.per_layer = true;
    config.slots = 1;
    assert_int_equal(replay_run(routes, &config, &own, &err), BERTH_ERR_ARGUMENT); /* fewer slots than layers */
    routes_free(routes);
}

/* A bound that may give experts back is never under one that may not. */
static void bounds_are_bounds(void **state)
{
    (void)state;
    static const char *const others[] = {"lru", "lfru", "layer-lru", "next-use", "belady"};
    for (int i = 3; i < TRACES; i++) {
        struct routes *routes = read_trace(i);
        for (int s = 0; s < SIZES; s++) {
            uint64_t slots = (uint64_t)(sizes[s] * (double)cycle(routes));
            double most = rate(routes, "belady-bypass", slots);
            for (size_t p = 0; p < sizeof others / sizeof others[0]; p++) {
                assert_true(rate(routes, others[p], slots) <= most + 0.2);
            }
        }
        routes_free(routes);
    }
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* Independent uniform routes: every selection is in memory with probability (slots of its layer) / experts, whatever
 * the policy, so hits are binomial (a little narrower: the experts of a visit differ). */
static struct routes *make_uniform(uint32_t layers, uint32_t experts, uint32_t top_k, uint32_t tokens)
{
    struct routes *routes = NULL;
    uint64_t seed = 7;
    uint64_t steps = (uint64_t)tokens * layers;
    assert_int_equal(routes_make(layers, experts, top_k, steps, steps * top_k, &routes, NULL), BERTH_OK);
    for (uint64_t step = 0; step < steps; step++) {
        uint16_t *ids = routes->ids + routes->ids_count;
        routes->steps[routes->steps_count++] = (struct route_step){.first = routes->ids_count,
                                                                   .layer = (uint32_t)(step % layers),
                                                                   .position = (uint32_t)(step / layers),
                                                                   .rows = 1,
                                                                   .phase = BERTH_PHASE_DECODE};
        for (uint32_t rank = 0; rank < top_k; rank++) {
            bool again = true;
            while (again) {
                ids[rank] = (uint16_t)(next_random(&seed) % experts);
                again = false;
                for (uint32_t before = 0; before < rank; before++) {
                    again = again || ids[before] == ids[rank];
                }
            }
        }
        routes->ids_count += top_k;
    }
    return routes;
}

/* One layer, so that every policy holds exactly its slots; and four, for the policies with a bank for every layer. */
static void uniform_routes(void **state)
{
    (void)state;
    enum { EXPERTS = 64, TOP_K = 4, TOKENS = 12000, WORKING = 4, SIGMAS = 4 };
    static const char *const policies[] = {"lru", "next-use", "lfru", "layer-lru", "seed:working=4"};
    for (uint32_t layers = 1; layers <= 4; layers += 3) {
        struct routes *routes = make_uniform(layers, EXPERTS, TOP_K, TOKENS / layers);
        double selections = (double)(TOKENS / layers / 2) * layers * TOP_K;
        for (size_t p = layers == 1 ? 0 : 3; p < sizeof policies / sizeof policies[0]; p++) {
            for (uint32_t share = 2; share <= 4; share += 2) { /* half and a quarter of all experts */
                uint64_t slots = (uint64_t)layers * EXPERTS / share;
                uint64_t resident = slots - (strncmp(policies[p], "seed", 4) == 0 ? WORKING : 0);
                double got = rate(routes, policies[p], slots) / 100.0;
                double wanted = (double)(resident / layers) / EXPERTS;
                double off = (got - wanted) * (got - wanted) * selections / (wanted * (1.0 - wanted));
                if (off > SIGMAS * SIGMAS) { /* squared distance in variances of the mean */
                    fail_msg("%s at %llu slots in %u layers: %.4f, wanted %.4f", policies[p], (unsigned long long)slots,
                             layers, got, wanted);
                }
            }
        }
        routes_free(routes);
    }
}

/* Two layers of two experts each, all equally likely, and a slot for two experts: whoever gives way to an expert of his
 * own layer loses nothing, as he is the one that is wanted last. So each layer keeps one, and every other visit hits.
 */
static void next_use_gives_way_within_the_layer(void **state)
{
    (void)state;
    struct routes *routes = make_uniform(2, 2, 1, 4000);
    double got = rate(routes, "next-use", 2);
    print_message("next-use, one slot a layer: %.1f %%\n", got);
    assert_true(got > 45.0 && got < 55.0);
    routes_free(routes);
}

/* Fewer slots than layers: a bank of one slot each, which the layers take from each other. */
static void banks_have_a_slot_at_least(void **state)
{
    (void)state;
    struct routes *routes = make_uniform(4, 8, 1, 400);
    struct replay_config config = {.policy = "layer-lru", .slots = 2, .global = true, .scored_from = 0};
    struct replay_result result;
    assert_int_equal(replay_run(routes, &config, &result, NULL), BERTH_OK);
    assert_true(result.scored_hits > 0);
    assert_int_equal(result.bypassed, 0);
    routes_free(routes);
}

/* Share of the second half's selections that the first half's hottest quarter of each layer's experts holds. */
static double popularity(const struct routes *routes)
{
    static float first[64 * 256];
    static float second[64 * 256];
    uint64_t tokens = routes->tokens[BERTH_PHASE_DECODE];
    double held = 0.0;
    double all = 0.0;
    assert_true((uint64_t)routes->layers * routes->experts <= sizeof first / sizeof first[0]);
    replay_shares(routes, 0, tokens / 2, first);
    replay_shares(routes, tokens / 2, tokens, second);
    for (uint32_t layer = 0; layer < routes->layers; layer++) {
        float *row = first + (uint64_t)layer * routes->experts;
        for (uint32_t n = 0; n < routes->experts; n++) {
            uint32_t best = 0;
            for (uint32_t expert = 1; expert < routes->experts; expert++) {
                best = row[expert] > row[best] ? expert : best;
            }
            double share = (double)second[(uint64_t)layer * routes->experts + best];
            all += share;
            held += n < routes->experts / 4 ? share : 0.0;
            row[best] = -1.0f;
        }
    }
    return 100.0 * held / all;
}

/* Tokens in random order: popularity stays, recency goes. */
static void shuffled_tokens(void **state)
{
    (void)state;
    struct routes *routes = read_trace(0);
    uint64_t slots = 2 * cycle(routes);
    uint64_t tokens = routes->tokens[BERTH_PHASE_DECODE];
    uint64_t first = routes->steps_count - tokens * routes->layers; /* decode steps come last, token by token */
    uint64_t seed = 3;
    double before[2] = {rate(routes, "lru", slots), popularity(routes)};
    double overlap = routes_overlap(routes);
    for (uint64_t i = tokens - 1; i > 0; i--) {
        uint64_t other = next_random(&seed) % (i + 1);
        for (uint32_t layer = 0; layer < routes->layers; layer++) {
            struct route_step *a = &routes->steps[first + i * routes->layers + layer];
            struct route_step *b = &routes->steps[first + other * routes->layers + layer];
            struct route_step swap = *a;
            assert_true(a->layer == layer && b->layer == layer);
            *a = *b;
            *b = swap;
        }
    }
    double after[2] = {rate(routes, "lru", slots), popularity(routes)};
    print_message("shuffled: overlap %.1f to %.1f, lru %.1f to %.1f, held by the hottest quarter %.1f to %.1f\n",
                  overlap, routes_overlap(routes), before[0], after[0], before[1], after[1]);
    assert_true(routes_overlap(routes) < overlap - 8.0);
    assert_true(after[0] < before[0] - 8.0);
    assert_true(after[1] > before[1] - 1.0); /* popularity is what it was, or more even over the two halves */
    routes_free(routes);
}

static void hostile_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } files[] = {
        {"", "a shape that no model has"},
        {"turn,phase\n1,1\n", "wanted the columns turn"},
        {"turn,phase,step,layer,expert\n0,1,0,0,99999\n", "an expert out of range"},
        {"turn,phase,step,layer,expert\n0,1,0,0,1\n0,1,0,0,2\n0,1,1,0,3\n", "another number of experts"},
        {"turn,phase,step,layer,expert\n0,7,0,0,1\n", "a layer or phase"},
        {"{\"layers\": [[1,2],[3]]}\n", "as many as in every other layer"},
        {"{\"layers\": [[1,2],[3,4]]}\n{\"layers\": [[1,2]]}\n", "one list of experts for every layer"},
        {"{\"layers\": [[1,99999]]}\n", "an expert out of range"},
        {"{\"layers\": [[]]}\n", "as many as in every other layer"},
        {"# berth routes v1\nv 1 0 0 1\n", "the shape must come first"},
        {"# berth routes v1\nshape 2 8 9\n", "a shape that no model has"},
        {"# berth routes v1\nshape 2 8 1\nv 1 2 0 1\nr 1+00000000\n", "not a line of"},
        {"# berth routes v1\nshape 2 8 1\nv 1 0 0 2\nr 1+00000000\n", "ends within a visit"},
        {"# berth routes v1\nshape 2 8 1\nv 1 0 0 1\nr 8+00000000\n", "line 4: an expert out of range"},
        {"# berth routes v1\nshape 2 8 1\nwarm 0 8\n", "line 3: an expert out of range"},
        {"# berth routes v1\nshape 2 8 1\nwarm 2 1\n", "line 3: not a line of"},
        {"# berth routes v1\nshape 2 8 1\nslots 0 1 2 x\n", "line 3: not a line of"},
        {"# berth routes v1\nshape 4294967297 8 1\n", "a shape that no model has"},
        {"# berth routes v1\nshape 2 8 1\norder 0 1 2 3\n", "line 3: not a line of"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[] = "/tmp/berth_routes_test";
        const char *paths[] = {path};
        struct routes *routes = NULL;
        berth_error err;
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fputs(files[i].text, file);
        fclose(file);
        berth_status status = routes_read(paths, 1, 0, &routes, &err);
        remove(path);
        if (status != BERTH_ERR_FORMAT || strstr(err.message, files[i].why) == NULL) {
            fail_msg("file %zu: status %d, \"%s\"", i, (int)status, status == BERTH_OK ? "" : err.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_numbers),
        cmocka_unit_test(next_use_reaches),
        cmocka_unit_test(bounds_are_bounds),
        cmocka_unit_test(uniform_routes),
        cmocka_unit_test(shuffled_tokens),
        cmocka_unit_test(hostile_files),
        cmocka_unit_test(pools_by_layer),
        cmocka_unit_test(next_use_gives_way_within_the_layer),
        cmocka_unit_test(banks_have_a_slot_at_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
