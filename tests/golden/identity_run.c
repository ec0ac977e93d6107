/* SPDX-License-Identifier: MIT
 *
 * identity_run MODEL TOKENS DECODE: one hash of all logits over budgets {hard floor, floor, 1.5, 2, 4 cycles, all} x
 * chunk {1, 7, 64, 512} x threads {1, 2} x every instruction set of this machine. Proves that the kernel rows are
 * different code, that they were called, and that budgets were different (misses).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "compute/kernels.h"
#include "support/golden.h"

enum { TOKENS_MAX = 512, BUDGETS = 6 };

struct hasher {
    uint64_t hash;
    uint32_t count;
};

static void on_logits(void *user, uint32_t position, const float *logits, uint32_t vocab)
{
    struct hasher *h = user;
    (void)position;
    h->hash = hash_bytes(h->hash, logits, vocab * sizeof *logits);
    h->count++;
}

struct outcome {
    uint64_t hash, misses, hits, calls;
    char kernels[32];
};

static struct outcome run(const char *path, const berth_model_config *config, uint32_t tokens, uint32_t decode)
{
    berth_error err;
    berth_model *model = NULL;
    berth_session *session = NULL;
    struct hasher h = {HASH_SEED, 0};
    int32_t ids[TOKENS_MAX];
    CHECK(berth_model_open(path, config, &model, &err) == BERTH_OK, "budget %llu chunk %u: %s",
          (unsigned long long)config->budget_bytes, config->chunk_tokens, err.message);
    berth_model_info info = BERTH_MODEL_INFO_INIT;
    berth_stats stats = BERTH_STATS_INIT;
    CHECK(berth_model_get_info(model, &info) == BERTH_OK, "info");
    for (uint32_t i = 0; i < tokens + decode; i++) {
        ids[i] = (int32_t)((i * 2654435761u >> 7) % info.vocab);
    }
    CHECK(berth_session_create(model, NULL, &session, &err) == BERTH_OK, "%s", err.message);
    CHECK(berth_session_eval(session, ids, tokens, on_logits, &h, &err) == BERTH_OK, "%s", err.message);
    for (uint32_t i = 0; i < decode; i++) {
        CHECK(berth_session_eval(session, &ids[tokens + i], 1, on_logits, &h, &err) == BERTH_OK, "%s", err.message);
    }
    CHECK(h.count == tokens + decode, "%u logits rows", h.count);
    CHECK(berth_model_get_stats(model, &stats) == BERTH_OK, "stats");
    struct outcome out = {h.hash, stats.misses[0] + stats.misses[1], stats.hits[0] + stats.hits[1], stats.kernel_calls,
                          ""};
    memcpy(out.kernels, info.kernels, sizeof out.kernels);
    berth_model_close(model);
    return out;
}

/* The six budgets for this chunk. */
static void budgets_for(const char *path, const berth_model_config *config, uint64_t out[BUDGETS])
{
    berth_error err;
    berth_plan plan = BERTH_PLAN_INIT;
    CHECK(berth_plan_memory(path, config, &plan, &err) == BERTH_OK, "plan: %s", err.message);
    out[0] = plan.hard_floor_bytes;
    out[1] = plan.floor_bytes;
    out[2] = plan.floor_bytes + plan.cycle_bytes / 2;
    out[3] = plan.floor_bytes + plan.cycle_bytes;
    out[4] = plan.floor_bytes + plan.cycle_bytes * 3;
    out[5] = plan.full_bytes;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4 || (argc == 5 && strcmp(argv[4], "q8_0") == 0), "usage: identity_run MODEL TOKENS DECODE [q8_0]");
    uint32_t tokens = (uint32_t)strtoul(argv[2], NULL, 10);
    uint32_t decode = (uint32_t)strtoul(argv[3], NULL, 10);
    CHECK(tokens > 0 && tokens + decode <= TOKENS_MAX, "tokens");
    static const uint32_t chunks[] = {1, 7, 64, 512};
    static const berth_isa isas[] = {BERTH_ISA_REF, BERTH_ISA_AVX2, BERTH_ISA_AVX512, BERTH_ISA_NEON};
    const struct kernels *seen[4] = {NULL};
    uint32_t rows = 0;
    uint32_t runs = 0;
    uint64_t hash = 0;
    uint64_t most_misses = 0;
    uint64_t least_misses = UINT64_MAX;
    for (uint32_t isa = 0; isa < 4; isa++) {
        const struct kernels *row = kernels_select(isas[isa]);
        if (row == NULL) {
            continue;
        }
        uint64_t calls = 0;
        for (uint32_t i = 0; i < rows; i++) {
            CHECK(seen[i] != row && seen[i]->matmul[DTYPE_Q8_0] != row->matmul[DTYPE_Q8_0] &&
                      seen[i]->matmul[DTYPE_BF16] != row->matmul[DTYPE_BF16],
                  "rows %s and %s are the same code", seen[i]->name, row->name);
        }
        seen[rows++] = row;
        for (uint32_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
            berth_model_config config = BERTH_MODEL_CONFIG_INIT;
            config.isa = isas[isa];
            config.kv_type = argc == 5 ? BERTH_KV_Q8_0 : BERTH_KV_F16;
            config.ctx_tokens = tokens + decode;
            config.chunk_tokens = chunks[c];
            config.threads = 2;
            config.budget_bytes = 4ull << 30;
            uint64_t budgets[BUDGETS];
            budgets_for(argv[1], &config, budgets);
            for (uint32_t b = 0; b < BUDGETS; b++) {
                for (config.threads = 1; config.threads <= 2; config.threads++) {
                    config.budget_bytes = budgets[b];
                    struct outcome out = run(argv[1], &config, tokens, decode);
                    CHECK(strcmp(out.kernels, row->name) == 0, "asked for %s, ran %s", row->name, out.kernels);
                    CHECK(runs == 0 || out.hash == hash,
                          "%s budget %u (%llu) chunk %u threads %u: hash %016llx, want %016llx", row->name, b,
                          (unsigned long long)config.budget_bytes, config.chunk_tokens, config.threads,
                          (unsigned long long)out.hash, (unsigned long long)hash);
                    hash = out.hash;
                    calls += out.calls;
                    most_misses = out.misses > most_misses ? out.misses : most_misses;
                    least_misses = out.misses < least_misses ? out.misses : least_misses;
                    runs++;
                }
            }
        }
        CHECK(calls > 0, "row %s was never called", row->name);
        printf("%s: %llu kernel calls\n", row->name, (unsigned long long)calls);
    }
    printf("%u runs, %u kernel rows, one hash %016llx; misses from %llu to %llu\n", runs, rows,
           (unsigned long long)hash, (unsigned long long)least_misses, (unsigned long long)most_misses);
    CHECK(most_misses > least_misses, "budgets made no difference to the cache");
    if (rows < 3) {
        printf("SKIPPED in part: this machine runs %u kernel rows, three are needed for the whole proof\n", rows);
    }
    return 0;
}
