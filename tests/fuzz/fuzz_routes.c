/* SPDX-License-Identifier: MIT
 * Fuzz target: route files. What is read is consistent and replays under every policy, as recorded too, to hits and
 * misses that add up; or it is refused with a reason.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "experts/policy.h"
#include "experts/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

enum { INPUT_MAX = 64 << 10, CELLS_MOST = 1 << 12 };

static char path[64];

static void remove_file(void)
{
    (void)remove(path);
}

static void write_file(const uint8_t *data, size_t size)
{
    if (path[0] == '\0') {
        snprintf(path, sizeof path, "/tmp/berth_fuzz_routes_%ld", (long)getpid());
        MUST(atexit(remove_file) == 0);
    }
    (void)remove(path); /* a truncated file would be written to the disk at once */
    FILE *file = fopen(path, "wb");
    MUST(file != NULL);
    MUST(fwrite(data, 1, size, file) == size);
    MUST(fclose(file) == 0);
}

static void check_shape(const struct routes *routes)
{
    MUST(routes->layers > 0 && routes->experts > 0 && routes->top_k > 0 && routes->steps_count > 0);
    for (uint64_t i = 0; i < routes->steps_count; i++) {
        const struct route_step *step = &routes->steps[i];
        MUST(step->layer < routes->layers && step->rows > 0);
        MUST(step->first + (uint64_t)step->rows * routes->top_k <= routes->ids_count);
    }
    for (uint64_t i = 0; i < routes->ids_count; i++) {
        MUST(routes->ids[i] < routes->experts);
    }
    for (uint64_t i = 0; i < routes->events_count; i++) {
        MUST(routes->events[i].layer < routes->layers);
        MUST(routes->events[i].first + routes->events[i].count <= routes->ids_count);
    }
    double overlap = routes_overlap(routes);
    MUST(overlap >= 0.0 && overlap <= 100.0);
}

static void replay(const struct routes *routes, const struct replay_config *config)
{
    struct replay_result result;
    berth_error err = {.status = BERTH_OK};
    if (replay_run(routes, config, &result, &err) != BERTH_OK) {
        MUST(err.message[0] != '\0');
        return;
    }
    MUST(result.scored_hits <= result.scored && result.cold_hits <= result.cold);
    MUST(result.scored + result.cold == result.hits[BERTH_PHASE_DECODE] + result.misses[BERTH_PHASE_DECODE]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const policies[] = {
        "lru", "next-use", "lfru", "layer-lru", "seed:min-history=1,min-bytes=0", "belady", "belady-bypass"};
    static unsigned turn; /* one policy an input: all of them take too long */
    if (size == 0 || size > INPUT_MAX) {
        return 0;
    }
    write_file(data, size);
    const char *const paths[] = {path, path};
    struct routes *routes = NULL;
    berth_error err = {.status = BERTH_OK};
    if (routes_read(paths, 1 + turn % 2, 0, &routes, &err) != BERTH_OK) {
        MUST(err.message[0] != '\0' && routes == NULL);
        return 0;
    }
    check_shape(routes);
    if ((uint64_t)routes->layers * routes->experts <= CELLS_MOST) {
        struct replay_config config = {.policy = policies[turn++ % (sizeof policies / sizeof policies[0])],
                                       .slots = (uint64_t)routes->layers * routes->top_k + 1,
                                       .prefill = true,
                                       .prior = REPLAY_PRIOR_RECORDED,
                                       .scored_from = UINT64_MAX};
        replay(routes, &config);
        config.per_layer = true;
        replay(routes, &config);
        config.as_recorded = true;
        replay(routes, &config);
        config.as_recorded = config.per_layer = false;
        config.slots = 0;
        config.bytes = 1 << 20;
        replay(routes, &config);
    }
    routes_free(routes);
    return 0;
}
