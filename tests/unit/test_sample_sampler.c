/* SPDX-License-Identifier: MIT
 * The whole chain through berth.h. Expected distributions are computed here from the definitions (libm, plain sort,
 * double), never from the room's own functions; frequencies come from a fixed seed. */
#include "sample/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 12, DRAWS = 50000 };

static const float LOGITS[VOCAB] = {0.3f, 2.0f, -1.0f, 1.5f, 2.0f, 0.0f, -3.0f, 1.0f, 0.9f, -0.5f, 2.5f, -20.0f};

struct made {
    void *memory; /* exactly berth_sampler_bytes(), so that a sanitizer sees every overrun */
    berth_sampler *sampler;
};

static struct made make(uint32_t vocab, berth_sampler_config config)
{
    struct made made = {0};
    size_t bytes = berth_sampler_bytes(vocab, &config);
    assert_true(bytes > 0);
    made.memory = malloc(bytes);
    assert_non_null(made.memory);
    memset(made.memory, 0xa5, bytes);
    berth_error err;
    assert_int_equal(berth_sampler_init(made.memory, bytes, vocab, &config, &made.sampler, &err), BERTH_OK);
    return made;
}

/* The definition: penalties on logits, then top-k, temperature, top-p, min-p; probabilities into want[]. */
static void reference(const float *logits, const unsigned *seen, const berth_sampler_config *config, double *want)
{
    double logit[VOCAB];
    int order[VOCAB];
    for (int i = 0; i < VOCAB; i++) {
        logit[i] = (double)logits[i];
        order[i] = i;
        if (seen != NULL && seen[i] > 0) {
            double r = config->repeat_penalty == 0.0f ? 1.0 : (double)config->repeat_penalty;
            logit[i] = logit[i] > 0 ? logit[i] / r : logit[i] * r;
            logit[i] -= seen[i] * (double)config->frequency_penalty + (double)config->presence_penalty;
        }
        want[i] = 0.0;
    }
    for (int i = 1; i < VOCAB; i++) { /* insertion sort: stable, so ties keep the lower id first */
        for (int j = i; j > 0 && logit[order[j]] > logit[order[j - 1]]; j--) {
            int swap = order[j];
            order[j] = order[j - 1];
            order[j - 1] = swap;
        }
    }
    int count = config->top_k != 0 && config->top_k < VOCAB ? (int)config->top_k : VOCAB;
    double total = 0.0;
    for (int i = 0; i < count; i++) {
        want[order[i]] = exp((logit[order[i]] - logit[order[0]]) / (double)config->temperature);
        total += want[order[i]];
    }
    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        bool past = config->top_p != 0.0f && config->top_p != 1.0f && sum >= (double)config->top_p * total;
        sum += want[order[i]];
        if (past || want[order[i]] < (double)config->min_p) {
            want[order[i]] = 0.0;
        }
    }
    total = 0.0;
    for (int i = 0; i < VOCAB; i++) {
        total += want[i];
    }
    for (int i = 0; i < VOCAB; i++) {
        want[i] /= total;
    }
}

static void check_distribution(berth_sampler_config config, const int32_t *history, size_t history_count)
{
    config.seed = 20240607;
    struct made made = make(VOCAB, config);
    unsigned seen[VOCAB] = {0};
    size_t window = config.penalty_last == 0 ? 64 : config.penalty_last;
    for (size_t i = 0; i < history_count; i++) {
        berth_sampler_accept(made.sampler, history[i]);
        if (i + window >= history_count) {
            seen[history[i]]++;
        }
    }
    double want[VOCAB];
    reference(LOGITS, seen, &config, want);
    unsigned got[VOCAB] = {0};
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = berth_sampler_pick(made.sampler, LOGITS);
        assert_true(id >= 0 && id < VOCAB);
        got[id]++;
    }
    double chi = 0.0;
    int bins = 0;
    for (int i = 0; i < VOCAB; i++) {
        double expected = want[i] * DRAWS;
        if (want[i] == 0.0) {
            assert_int_equal(got[i], 0);
        } else if (expected >= 5.0) {
            chi += (got[i] - expected) * (got[i] - expected) / expected;
            bins++;
        }
    }
    double freedom = bins - 1;
    assert_true(chi <= freedom + 5.0 * sqrt(2.0 * freedom) + 1e-9); /* five sigma */
    free(made.memory);
}

static berth_sampler_config config_at(float temperature)
{
    berth_sampler_config config = BERTH_SAMPLER_CONFIG_INIT;
    config.temperature = temperature;
    return config;
}

static void pick_temperatures_follow_softmax(void **unused)
{
    (void)unused;
    check_distribution(config_at(1.0f), NULL, 0);
    check_distribution(config_at(0.3f), NULL, 0);
    check_distribution(config_at(5.0f), NULL, 0);
}

static void pick_top_k_follows_reference(void **unused)
{
    (void)unused;
    const uint32_t ks[] = {1, 2, 3, 5, 11, 12, 100};
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        berth_sampler_config config = config_at(1.3f);
        config.top_k = ks[i];
        check_distribution(config, NULL, 0);
    }
}

static void pick_top_p_follows_reference(void **unused)
{
    (void)unused;
    const float ps[] = {0.01f, 0.3f, 0.6f, 0.9f, 0.999f, 1.0f};
    for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
        berth_sampler_config config = config_at(0.9f);
        config.top_p = ps[i];
        check_distribution(config, NULL, 0);
        config.top_k = 4;
        check_distribution(config, NULL, 0);
    }
}

static void pick_min_p_follows_reference(void **unused)
{
    (void)unused;
    const float ps[] = {0.05f, 0.25f, 0.5f, 1.0f};
    for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
        berth_sampler_config config = config_at(1.0f);
        config.min_p = ps[i];
        check_distribution(config, NULL, 0);
        config.top_p = 0.8f;
        check_distribution(config, NULL, 0);
    }
}

static void pick_penalties_follow_reference(void **unused)
{
    (void)unused;
    const int32_t history[] = {10, 1, 1, 2, 10, 2, 2, 4};
    berth_sampler_config config = config_at(1.0f);
    config.repeat_penalty = 1.5f;
    check_distribution(config, history, 8);
    config.presence_penalty = 0.7f;
    config.frequency_penalty = 0.4f;
    check_distribution(config, history, 8);
    config.penalty_last = 3; /* the window holds 2, 2, 4 */
    check_distribution(config, history, 8);
    config.repeat_penalty = 0.0f;
    config.presence_penalty = -0.5f;
    config.frequency_penalty = 0.0f;
    check_distribution(config, history, 8);
}

static void greedy_equal_logits_take_the_lower_id(void **unused)
{
    (void)unused;
    const float logits[5] = {1.0f, 4.0f, 4.0f, -1.0f, 4.0f};
    struct made made = make(5, config_at(0.0f));
    assert_int_equal(berth_sampler_pick(made.sampler, logits), 1);
    free(made.memory);
    berth_sampler_config config = config_at(2.0f);
    config.top_k = 1;
    made = make(5, config);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(berth_sampler_pick(made.sampler, logits), 1);
    }
    free(made.memory);
    config.top_k = 0;
    config.top_p = 0.1f;
    made = make(5, config);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(berth_sampler_pick(made.sampler, logits), 1);
    }
    free(made.memory);
}

static void greedy_with_penalties_leaves_the_repeated_token(void **unused)
{
    (void)unused;
    const float logits[3] = {2.0f, 3.0f, -1.0f};
    berth_sampler_config config = config_at(0.0f);
    config.repeat_penalty = 2.0f;
    config.penalty_last = 2;
    struct made made = make(3, config);
    assert_int_equal(berth_sampler_pick(made.sampler, logits), 1);
    berth_sampler_accept(made.sampler, 1); /* 3 / 2 < 2 */
    assert_int_equal(berth_sampler_pick(made.sampler, logits), 0);
    berth_sampler_accept(made.sampler, -1); /* not tokens: ignored, also by the window */
    berth_sampler_accept(made.sampler, 3);
    assert_int_equal(berth_sampler_pick(made.sampler, logits), 0);
    berth_sampler_accept(made.sampler, 2);
    berth_sampler_accept(made.sampler, 2); /* 1 has left the window */
    assert_int_equal(berth_sampler_pick(made.sampler, logits), 1);
    free(made.memory);
}

static void pick_nan_logits_are_never_taken(void **unused)
{
    (void)unused;
    const float some[4] = {NAN, 0.0f, NAN, 0.1f};
    const float none[4] = {NAN, NAN, NAN, NAN};
    const float lone[4] = {NAN, NAN, -INFINITY, NAN};
    for (int chain = 0; chain < 5; chain++) {
        berth_sampler_config config = config_at(chain == 0 ? 0.0f : 1.0f);
        config.top_k = chain == 2 ? 3 : 0;
        config.top_p = chain == 3 ? 0.5f : 0.0f;
        config.min_p = chain == 4 ? 0.5f : 0.0f;
        struct made made = make(4, config);
        for (int i = 0; i < 200; i++) {
            int32_t id = berth_sampler_pick(made.sampler, some);
            assert_true(id == 1 || id == 3);
            assert_int_equal(berth_sampler_pick(made.sampler, none), 0);
            assert_int_equal(berth_sampler_pick(made.sampler, lone), 2);
        }
        free(made.memory);
    }
}

static void pick_infinite_logits_behave(void **unused)
{
    (void)unused;
    const float up[4] = {0.0f, INFINITY, -INFINITY, INFINITY};
    const float down[4] = {-INFINITY, -INFINITY, 0.0f, -INFINITY};
    struct made made = make(4, config_at(1.0f));
    int counts[4] = {0};
    for (int i = 0; i < 1000; i++) {
        counts[berth_sampler_pick(made.sampler, up)]++;
        assert_int_equal(berth_sampler_pick(made.sampler, down), 2);
    }
    assert_int_equal(counts[0] + counts[2], 0);
    assert_true(counts[1] > 400 && counts[3] > 400);
    free(made.memory);
}

static uint64_t run_hash(uint64_t seed, const berth_sampler_config *base)
{
    enum { MANY = 5000 };
    static float logits[MANY];
    uint64_t mix = 99;
    for (int i = 0; i < MANY; i++) {
        mix = mix * 6364136223846793005u + 1442695040888963407u;
        logits[i] = (float)(mix >> 40) / 16777216.0f * 12.0f - 6.0f;
    }
    berth_sampler_config config = *base;
    config.seed = seed;
    struct made made = make(MANY, config);
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < 300; i++) {
        int32_t id = berth_sampler_pick(made.sampler, logits);
        berth_sampler_accept(made.sampler, id);
        hash = (hash ^ (uint64_t)id) * 0x100000001b3u;
    }
    free(made.memory);
    return hash;
}

/* The constants come from a separate Python implementation of the chain (libm's exp, full sorts); they hold on every
 * compiler, build type and instruction set. */
static void pick_same_seed_gives_the_recorded_choices(void **unused)
{
    (void)unused;
    berth_sampler_config plain = config_at(0.8f);
    berth_sampler_config chain = config_at(1.1f);
    chain.top_k = 200;
    chain.top_p = 0.95f;
    chain.min_p = 0.02f;
    chain.repeat_penalty = 1.1f;
    chain.frequency_penalty = 0.1f;
    assert_int_equal(run_hash(1, &plain), run_hash(1, &plain));
    assert_int_not_equal(run_hash(1, &plain), run_hash(2, &plain));
    assert_int_equal(run_hash(1, &plain), 0x4e7047bf5bd1dfeau);
    assert_int_equal(run_hash(7, &chain), 0x93506c3b63b1eeb5u);
}

static void expect_refused(berth_sampler_config config, const char *word)
{
    uint64_t memory[64];
    berth_sampler *sampler = NULL;
    berth_error err;
    assert_int_equal(berth_sampler_bytes(4, &config), 0);
    assert_int_equal(berth_sampler_init(memory, sizeof memory, 4, &config, &sampler, &err), BERTH_ERR_ARGUMENT);
    assert_null(sampler);
    assert_non_null(strstr(err.message, word));
}

static void init_values_out_of_range_are_refused_by_name(void **unused)
{
    (void)unused;
    berth_sampler_config config = config_at(-0.1f);
    expect_refused(config, "temperature");
    expect_refused(config_at(NAN), "temperature");
    expect_refused(config_at(INFINITY), "temperature");
    config = config_at(1.0f);
    config.top_p = 1.01f;
    expect_refused(config, "top_p");
    config = config_at(1.0f);
    config.min_p = -1.0f;
    expect_refused(config, "min_p");
    config = config_at(1.0f);
    config.repeat_penalty = -2.0f;
    expect_refused(config, "repeat_penalty");
    config = config_at(1.0f);
    config.presence_penalty = NAN;
    expect_refused(config, "presence_penalty");
    config = config_at(1.0f);
    config.frequency_penalty = INFINITY;
    expect_refused(config, "frequency_penalty");
    config = config_at(1.0f);
    config.penalty_last = SAMPLER_LAST_MAX + 1;
    expect_refused(config, "penalty_last");
    config.penalty_last = SAMPLER_LAST_MAX;
    assert_true(berth_sampler_bytes(4, &config) > 0);
    config.struct_size = 0;
    expect_refused(config, "struct_size");
}

static void init_memory_and_vocabulary_limits_are_checked(void **unused)
{
    (void)unused;
    berth_sampler_config config = config_at(1.0f);
    config.repeat_penalty = 1.2f;
    berth_error err;
    berth_sampler *sampler = NULL;
    size_t bytes = berth_sampler_bytes(100, &config);
    uint64_t *memory = malloc(bytes + 8);
    assert_non_null(memory);
    assert_int_equal(berth_sampler_init(memory, bytes - 1, 100, &config, &sampler, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_sampler_init((char *)memory + 4, bytes, 100, &config, &sampler, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_sampler_init(NULL, bytes, 100, &config, &sampler, NULL), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_sampler_init(memory, bytes, 0, &config, &sampler, NULL), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_sampler_init(memory, bytes, SAMPLER_VOCAB_MAX + 1u, &config, &sampler, NULL),
                     BERTH_ERR_ARGUMENT);
    assert_null(sampler);
    assert_int_equal(berth_sampler_bytes(0, &config), 0);
    assert_int_equal(berth_sampler_bytes(SAMPLER_VOCAB_MAX + 1u, &config), 0);
    assert_true(berth_sampler_bytes(SAMPLER_VOCAB_MAX, &config) > SAMPLER_VOCAB_MAX);
    assert_int_equal(berth_sampler_init(memory, bytes, 100, &config, &sampler, &err), BERTH_OK);
    free(memory);
}

static void init_older_shorter_config_means_defaults_for_the_rest(void **unused)
{
    (void)unused;
    berth_sampler_config config = config_at(1.0f);
    memset((char *)&config + offsetof(berth_sampler_config, top_p), 0xff,
           sizeof config - offsetof(berth_sampler_config, top_p)); /* what lies behind an older struct: never read */
    config.top_k = 2;
    config.struct_size = offsetof(berth_sampler_config, top_p);
    struct made made = make(VOCAB, config);
    for (int i = 0; i < 100; i++) {
        int32_t id = berth_sampler_pick(made.sampler, LOGITS);
        assert_true(id == 10 || id == 1);
    }
    free(made.memory);
    assert_true(berth_sampler_bytes(VOCAB, NULL) > 0); /* NULL: greedy */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pick_temperatures_follow_softmax),
        cmocka_unit_test(pick_top_k_follows_reference),
        cmocka_unit_test(pick_top_p_follows_reference),
        cmocka_unit_test(pick_min_p_follows_reference),
        cmocka_unit_test(pick_penalties_follow_reference),
        cmocka_unit_test(greedy_equal_logits_take_the_lower_id),
        cmocka_unit_test(greedy_with_penalties_leaves_the_repeated_token),
        cmocka_unit_test(pick_nan_logits_are_never_taken),
        cmocka_unit_test(pick_infinite_logits_behave),
        cmocka_unit_test(pick_same_seed_gives_the_recorded_choices),
        cmocka_unit_test(init_values_out_of_range_are_refused_by_name),
        cmocka_unit_test(init_memory_and_vocabulary_limits_are_checked),
        cmocka_unit_test(init_older_shorter_config_means_defaults_for_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
