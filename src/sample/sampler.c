/* SPDX-License-Identifier: MIT
 *
 * berth_sampler_*: one block of caller memory holds the struct, the candidates, and for the penalties a ring of the
 * last tokens with a counter for each token of the vocabulary. The block points into itself: it must not be moved.
 */
#include "sample/sampler.h"

#include "base/checked.h"
#include "base/error.h"
#include "sample/candidates.h"
#include "sample/random.h"

#include <math.h>
#include <string.h>

struct berth_sampler {
    berth_sampler_config config; /* off is written as 0 (top_p, repeat_penalty: 1) */
    uint32_t vocab;
    uint32_t limit; /* candidates that fit: top_k, or the vocabulary */
    bool penalties;
    struct random_state random;
    struct candidate *candidates; /* [limit]; greedy needs none */
    uint32_t *seen;               /* [vocab] occurrences in the ring; NULL without penalties */
    int32_t *ring;                /* [penalty_last] */
    uint32_t ring_count, ring_next;
};

static bool in_range(float value, float low, float high)
{
    return value >= low && value <= high; /* false for NaN */
}

/* Copies the caller's config (which may be older and shorter), checks it and writes "off" one way. */
static berth_status config_read(const berth_sampler_config *config, berth_sampler_config *out, berth_error *err)
{
    berth_sampler_config read = BERTH_SAMPLER_CONFIG_INIT;
    if (config != NULL) {
        if (config->struct_size < sizeof config->struct_size + sizeof config->temperature) {
            return error_set(err, BERTH_ERR_ARGUMENT,
                             "sampler config has struct_size %zu; initialise it with BERTH_SAMPLER_CONFIG_INIT",
                             config->struct_size);
        }
        memcpy(&read, config, config->struct_size < sizeof read ? config->struct_size : sizeof read);
        read.struct_size = sizeof read;
    }
    const struct {
        const char *name;
        float value, low, high;
    } rows[] = {
        {"temperature", read.temperature, 0.0f, 1e6f},
        {"top_p", read.top_p, 0.0f, 1.0f},
        {"min_p", read.min_p, 0.0f, 1.0f},
        {"repeat_penalty", read.repeat_penalty, 0.0f, 1e6f},
        {"presence_penalty", read.presence_penalty, -1e6f, 1e6f},
        {"frequency_penalty", read.frequency_penalty, -1e6f, 1e6f},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!in_range(rows[i].value, rows[i].low, rows[i].high)) {
            return error_set(err, BERTH_ERR_ARGUMENT, "%s is %g, want %g to %g", rows[i].name, (double)rows[i].value,
                             (double)rows[i].low, (double)rows[i].high);
        }
    }
    if (read.penalty_last > SAMPLER_LAST_MAX) {
        return error_set(err, BERTH_ERR_ARGUMENT, "penalty_last is %u, want at most %d", read.penalty_last,
                         (int)SAMPLER_LAST_MAX);
    }
    read.penalty_last = read.penalty_last == 0 ? SAMPLER_LAST_DEFAULT : read.penalty_last;
    read.top_p = read.top_p == 0.0f ? 1.0f : read.top_p;
    read.repeat_penalty = read.repeat_penalty == 0.0f ? 1.0f : read.repeat_penalty;
    *out = read;
    return BERTH_OK;
}

/* Fills the struct's sizes and pointers for a block at `memory` (NULL: only counts). Returns the bytes of the block. */
static size_t place(berth_sampler *sampler, const berth_sampler_config *config, uint32_t vocab, unsigned char *memory)
{
    *sampler = (berth_sampler){.config = *config, .vocab = vocab};
    sampler->penalties =
        config->repeat_penalty != 1.0f || config->presence_penalty != 0.0f || config->frequency_penalty != 0.0f;
    sampler->limit = config->top_k != 0 && config->top_k < vocab ? config->top_k : vocab;
    sampler->limit = config->temperature == 0.0f ? 0 : sampler->limit;
    size_t candidates_at = size_round_up(sizeof *sampler, 8);
    size_t seen_at = candidates_at + (size_t)sampler->limit * sizeof *sampler->candidates;
    size_t ring_at = seen_at + (sampler->penalties ? (size_t)vocab * sizeof *sampler->seen : 0);
    size_t end = ring_at + (sampler->penalties ? (size_t)config->penalty_last * sizeof *sampler->ring : 0);
    if (memory != NULL) {
        sampler->candidates = (struct candidate *)(void *)(memory + candidates_at);
        sampler->seen = sampler->penalties ? (uint32_t *)(void *)(memory + seen_at) : NULL;
        sampler->ring = sampler->penalties ? (int32_t *)(void *)(memory + ring_at) : NULL;
    }
    return size_round_up(end, 8);
}

size_t berth_sampler_bytes(uint32_t vocab, const berth_sampler_config *config)
{
    berth_sampler_config read;
    if (vocab == 0 || vocab > SAMPLER_VOCAB_MAX || config_read(config, &read, NULL) != BERTH_OK) {
        return 0;
    }
    berth_sampler measured;
    return place(&measured, &read, vocab, NULL);
}

berth_status berth_sampler_init(void *memory, size_t bytes, uint32_t vocab, const berth_sampler_config *config,
                                berth_sampler **out, berth_error *err)
{
    if (memory == NULL || out == NULL || ((uintptr_t)memory & 7u) != 0) {
        return error_set(err, BERTH_ERR_ARGUMENT,
                         "the sampler needs memory aligned to 8 bytes and a place for its handle");
    }
    if (vocab == 0 || vocab > SAMPLER_VOCAB_MAX) {
        return error_set(err, BERTH_ERR_ARGUMENT, "vocabulary of %u tokens, want 1 to %d", vocab,
                         (int)SAMPLER_VOCAB_MAX);
    }
    berth_sampler_config read;
    TRY(config_read(config, &read, err));
    berth_sampler placed;
    size_t needed = place(&placed, &read, vocab, memory);
    if (bytes < needed) {
        return error_set(err, BERTH_ERR_ARGUMENT, "the sampler got %zu bytes, needs %zu (berth_sampler_bytes)", bytes,
                         needed);
    }
    random_seed(&placed.random, read.seed);
    if (placed.penalties) {
        memset(placed.seen, 0, (size_t)vocab * sizeof *placed.seen);
    }
    berth_sampler *sampler = memory;
    *sampler = placed;
    *out = sampler;
    return BERTH_OK;
}

void berth_sampler_accept(berth_sampler *sampler, int32_t id)
{
    if (!sampler->penalties || id < 0 || (uint32_t)id >= sampler->vocab) {
        return;
    }
    uint32_t last = sampler->config.penalty_last;
    if (sampler->ring_count == last) {
        sampler->seen[sampler->ring[sampler->ring_next]]--;
    } else {
        sampler->ring_count++;
    }
    sampler->ring[sampler->ring_next] = id;
    sampler->ring_next = sampler->ring_next + 1 == last ? 0 : sampler->ring_next + 1;
    sampler->seen[id]++;
}

static float penalised(const berth_sampler *sampler, uint32_t id, float logit)
{
    if (!sampler->penalties || sampler->seen[id] == 0) {
        return logit;
    }
    const berth_sampler_config *config = &sampler->config;
    logit = logit > 0.0f ? logit / config->repeat_penalty : logit * config->repeat_penalty;
    return logit - ((float)sampler->seen[id] * config->frequency_penalty + config->presence_penalty);
}

static int32_t pick_greedy(const berth_sampler *sampler, const float *logits)
{
    int32_t best = -1;
    float best_logit = 0.0f;
    for (uint32_t id = 0; id < sampler->vocab; id++) {
        float logit = penalised(sampler, id, logits[id]);
        if (!isnan(logit) && (best < 0 || logit > best_logit)) {
            best = (int32_t)id;
            best_logit = logit;
        }
    }
    return best < 0 ? 0 : best;
}

/* Walks list[first], list[first + step], ... `count` of them, in proportion to their weights. */
static int32_t draw(struct random_state *random, const struct candidate *list, uint32_t first, int step, uint32_t count,
                    float least)
{
    double total = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        const struct candidate *at = list + ((int64_t)first + (int64_t)step * i);
        total += at->value >= least ? (double)at->value : 0.0;
    }
    double target = random_unit(random) * total;
    double sum = 0.0;
    int32_t picked = -1;
    for (uint32_t i = 0; i < count; i++) {
        const struct candidate *at = list + ((int64_t)first + (int64_t)step * i);
        if (at->value < least || at->value <= 0.0f) {
            continue;
        }
        picked = at->id; /* stays when rounding keeps the last sum at the target */
        sum += (double)at->value;
        if (sum > target) {
            break;
        }
    }
    return picked;
}

int32_t berth_sampler_pick(berth_sampler *sampler, const float *logits)
{
    const berth_sampler_config *config = &sampler->config;
    if (config->temperature == 0.0f) {
        return pick_greedy(sampler, logits);
    }
    struct candidate *list = sampler->candidates;
    bool selects = sampler->limit < sampler->vocab;
    uint32_t count = 0;
    for (uint32_t id = 0; id < sampler->vocab; id++) {
        struct candidate candidate = {penalised(sampler, id, logits[id]), (int32_t)id};
        if (isnan(candidate.value)) {
            continue;
        }
        if (selects) {
            candidates_offer(list, &count, sampler->limit, candidate);
        } else {
            list[count++] = candidate;
        }
    }
    if (count == 0) {
        return 0;
    }
    double total = candidates_weigh(list, count, config->temperature);
    if (!selects && config->top_p == 1.0f) {
        return draw(&sampler->random, list, 0, 1, count, config->min_p);
    }
    double mass = config->top_p == 1.0f ? (double)INFINITY : (double)config->top_p * total;
    uint32_t kept = candidates_keep(list, count, mass);
    return draw(&sampler->random, list, count - 1, -1, kept, config->min_p);
}
