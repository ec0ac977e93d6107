/* SPDX-License-Identifier: MIT
 * How soon a session reaches its steady hit rate, cold and with a warm start. Recorded routes (docs/routes.md) are cut
 * in two: the answers' first half, or a ledger's file, is what is known; in the second half a session begins every
 * STRIDE tokens. Each is compared token by token with an engine that had run through the tokens before.
 *
 * usage: bench_warm ROUTES [SLOTS [POLICY [LEDGER]]]    (SLOTS 0: a quarter of all experts)
 * Without arguments: a trace of the tests, with sessions short enough for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experts/replay.h"
#include "os/memory.h"

enum { TOKENS_MOST = 256, BEFORE_MOST = 512, STRIDE = 256, PRIOR_VISITS = 32, WINDOW = 8 };
enum mode { COLD = 0, WARM, LONG_RUNNING, MODES };

struct bench {
    struct routes *all; /* as read */
    const struct route_step **steps;
    uint64_t tokens; /* decode tokens */
    uint32_t length, before, stride;
    uint64_t slots;
    const char *policy;
    uint32_t *counts; /* [layers][experts] */
    float *prior[2];  /* nothing known; the ledger's shares */
    double hits[MODES][TOKENS_MOST];
    enum mode mode;
};

static void *take(uint64_t bytes)
{
    void *memory = calloc(1, bytes > 0 ? (size_t)bytes : 1);
    if (memory == NULL) {
        (void)fprintf(stderr, "bench_warm: no memory\n");
        exit(1);
    }
    return memory;
}

static void check(berth_status status, const berth_error *err)
{
    if (status != BERTH_OK) {
        (void)fprintf(stderr, "bench_warm: %s\n", err->message);
        exit(1);
    }
}

/* Decode steps only, token by token; the public layouts have all layers of a token one after the other. */
static void index_steps(struct bench *bench)
{
    const struct routes *all = bench->all;
    uint64_t count = 0;
    bench->steps = take(all->steps_count * sizeof(const struct route_step *));
    for (uint64_t i = 0; i < all->steps_count; i++) {
        if (all->steps[i].phase == BERTH_PHASE_DECODE) {
            bench->steps[count++] = &all->steps[i];
        }
    }
    bench->tokens = count / all->layers;
}

static void learn(struct bench *bench, const char *ledger)
{
    const struct routes *all = bench->all;
    long layer = 0;
    long expert = 0;
    unsigned long count = 0;
    FILE *in = ledger != NULL ? fopen(ledger, "r") : NULL;
    while (in != NULL && fscanf(in, "%ld %ld %lu", &layer, &expert, &count) == 3) {
        for (uint32_t index = 0; index < all->layers; index++) {
            if (layer >= 0 && all->model_layer[index] == (uint32_t)layer && expert >= 0 &&
                expert < (long)all->experts) {
                bench->counts[(uint64_t)index * all->experts + (uint64_t)expert] += (uint32_t)count;
            }
        }
    }
    if (in != NULL) {
        (void)fclose(in);
    }
    for (uint64_t i = 0; ledger == NULL && i < bench->tokens / 2 * all->layers; i++) {
        for (uint32_t rank = 0; rank < all->top_k; rank++) {
            bench->counts[(uint64_t)bench->steps[i]->layer * all->experts + all->ids[bench->steps[i]->first + rank]]++;
        }
    }
    for (uint32_t l = 0; l < all->layers; l++) { /* as the engine does */
        const uint32_t *row = bench->counts + (uint64_t)l * all->experts;
        double visits = 0;
        for (uint32_t e = 0; e < all->experts; e++) {
            visits += row[e];
        }
        visits = visits / all->top_k + PRIOR_VISITS;
        for (uint32_t e = 0; e < all->experts; e++) {
            bench->prior[1][(uint64_t)l * all->experts + e] = (float)((double)row[e] / visits);
        }
    }
}

static void add_warm(const struct bench *bench, struct routes *run)
{
    uint64_t cells = (uint64_t)run->layers * run->experts;
    uint8_t *wanted = take(cells);
    for (uint64_t room = bench->slots; room > 0; room--) {
        uint64_t best = cells;
        for (uint64_t cell = 0; cell < cells; cell++) {
            best = wanted[cell] == 0 && bench->counts[cell] > (best == cells ? 0 : bench->counts[best]) ? cell : best;
        }
        if (best == cells) {
            break;
        }
        wanted[best] = 1;
    }
    for (uint32_t layer = 0; layer < run->layers; layer++) {
        struct route_event *event = &run->events[run->events_count++];
        *event = (struct route_event){.first = run->ids_count, .layer = layer, .kind = ROUTE_WARM};
        for (uint32_t expert = 0; expert < run->experts; expert++) {
            if (wanted[(uint64_t)layer * run->experts + expert] != 0) {
                run->ids[run->ids_count++] = (uint16_t)expert;
                event->count++;
            }
        }
    }
    free(wanted);
}

static void on_step(void *user, const struct replay_step_info *info)
{
    struct bench *bench = user;
    uint64_t skip = bench->mode == LONG_RUNNING ? bench->before : 0;
    if (info->token > skip && info->token - skip <= bench->length) {
        bench->hits[bench->mode][info->token - skip - 1] += info->hits;
    }
}

/* One session from token `start` on. */
static void run_session(struct bench *bench, uint64_t start)
{
    const struct routes *all = bench->all;
    struct routes *run = NULL;
    berth_error err;
    uint64_t before = bench->mode == LONG_RUNNING ? bench->before : 0;
    uint64_t steps = (bench->length + before) * all->layers;
    uint64_t cells = (uint64_t)all->layers * all->experts;
    check(routes_make(all->layers, all->experts, all->top_k, steps, steps * all->top_k + cells, &run, &err), &err);
    run->events = take(all->layers * sizeof *run->events);
    run->layer_class = take(all->layers);
    run->classes = 1;
    run->has_cache = true;
    run->prior = bench->prior[bench->mode == COLD ? 0 : 1];
    run->slots.count[0] = (uint32_t)bench->slots;
    run->slots.total = bench->slots;
    run->slots.shared = bench->slots < (uint64_t)all->layers * all->top_k;
    if (bench->mode == WARM) {
        add_warm(bench, run);
    }
    for (uint64_t i = 0; i < steps; i++) {
        const struct route_step *from = bench->steps[(start - before) * all->layers + i];
        run->steps[run->steps_count++] = (struct route_step){.first = run->ids_count,
                                                             .layer = from->layer,
                                                             .position = (uint32_t)(i / all->layers),
                                                             .rows = 1,
                                                             .phase = BERTH_PHASE_DECODE};
        memcpy(run->ids + run->ids_count, all->ids + from->first, all->top_k * sizeof *run->ids);
        run->ids_count += all->top_k;
    }
    struct replay_config config = {
        .policy = bench->policy, .as_recorded = true, .prior = REPLAY_PRIOR_RECORDED, .step = on_step, .user = bench};
    struct replay_result result;
    check(replay_run(run, &config, &result, &err), &err);
    free(run->events);
    free(run->layer_class);
    routes_free(run);
}

static double sum(const double *values, uint32_t count)
{
    double all = 0;
    for (uint32_t i = 0; i < count; i++) {
        all += values[i];
    }
    return all;
}

/* The first token from which WINDOW tokens together reach this part of the long-running engine's hits; 0: none. */
static uint32_t reaches(const struct bench *bench, enum mode mode, double part)
{
    for (uint32_t token = 0; token + WINDOW <= bench->length; token++) {
        if (sum(bench->hits[mode] + token, WINDOW) >= part * sum(bench->hits[LONG_RUNNING] + token, WINDOW)) {
            return token + 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *paths[] = {argc > 1 ? argv[1] : "tests/golden/traces/olmoe-1b-7b_decode299.jsonl"};
    struct bench bench = {.length = argc > 1 ? TOKENS_MOST : 48,
                          .before = argc > 1 ? BEFORE_MOST : 48,
                          .stride = argc > 1 ? STRIDE : 12,
                          .policy = argc > 3 ? argv[3] : "next-use"};
    berth_error err;
    check(routes_read(paths, 1, 0, &bench.all, &err), &err);
    uint64_t cells = (uint64_t)bench.all->layers * bench.all->experts;
    bench.slots = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    bench.slots = bench.slots > 0 ? bench.slots : cells / 4;
    bench.counts = take(cells * sizeof *bench.counts);
    bench.prior[0] = take(cells * sizeof(float));
    bench.prior[1] = take(cells * sizeof(float));
    index_steps(&bench);
    learn(&bench, argc > 4 ? argv[4] : NULL);
    uint32_t sessions = 0;
    for (uint64_t start = bench.tokens / 2; start + bench.length <= bench.tokens; start += bench.stride) {
        for (bench.mode = COLD; bench.mode < MODES; bench.mode++) {
            run_session(&bench, start);
        }
        sessions++;
    }
    double selections = (double)sessions * bench.all->layers * bench.all->top_k;
    uint32_t half = bench.length / 2;
    printf("%s, %llu slots, %u sessions: steady %.1f %%\n", bench.policy, (unsigned long long)bench.slots, sessions,
           sessions > 0 ? 100 * sum(bench.hits[WARM] + half, half) / (selections * half) : 0.0);
    for (int mode = COLD; mode <= WARM && sessions > 0; mode++) {
        printf("  %s: 95 %% of the long-running engine's hits at token %u, 98 %% at token %u; by 4 tokens:",
               mode == COLD ? "cold" : "warm", reaches(&bench, (enum mode)mode, 0.95),
               reaches(&bench, (enum mode)mode, 0.98));
        for (uint32_t token = 0; token < 40 && token + 4 <= bench.length; token += 4) {
            printf(" %.0f", 100 * sum(bench.hits[mode] + token, 4) / sum(bench.hits[LONG_RUNNING] + token, 4));
        }
        printf("\n");
    }
    free(bench.counts);
    free(bench.prior[0]);
    free(bench.prior[1]);
    free((void *)(uintptr_t)bench.steps);
    routes_free(bench.all);
    return 0;
}
