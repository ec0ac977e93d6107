/* SPDX-License-Identifier: MIT
 * Time of one pick over a large vocabulary, by chain. */
#include "os/thread.h"

#include <stdio.h>
#include <stdlib.h>

enum { VOCAB = 151936, PICKS = 50 };

static float logits[VOCAB];

static int measure(const char *name, berth_sampler_config config)
{
    size_t bytes = berth_sampler_bytes(VOCAB, &config);
    void *memory = malloc(bytes);
    berth_sampler *sampler;
    if (memory == NULL || berth_sampler_init(memory, bytes, VOCAB, &config, &sampler, NULL) != BERTH_OK) {
        free(memory);
        return 1;
    }
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < PICKS; i++) {
        uint64_t began = os_now_ns();
        berth_sampler_accept(sampler, berth_sampler_pick(sampler, logits));
        uint64_t took = os_now_ns() - began;
        best = took < best ? took : best;
    }
    (void)printf("sample/%s %.3f ms (least of %d, vocabulary %d, %zu bytes)\n", name, (double)best / 1e6, PICKS, VOCAB,
                 bytes);
    free(memory);
    return 0;
}

int main(void)
{
    uint64_t state = 1;
    for (int i = 0; i < VOCAB; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        logits[i] = (float)(state >> 40) / 16777216.0f * 20.0f;
    }
    berth_sampler_config config = BERTH_SAMPLER_CONFIG_INIT;
    int failed = measure("greedy", config);
    config.temperature = 0.8f;
    failed += measure("temperature", config);
    config.min_p = 0.05f;
    failed += measure("min_p", config);
    config.top_p = 0.95f;
    failed += measure("top_p", config);
    config.top_k = 40;
    failed += measure("top_k", config);
    config.repeat_penalty = 1.1f;
    failed += measure("penalties", config);
    return failed != 0;
}
