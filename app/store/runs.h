/* SPDX-License-Identifier: MIT
 * Runs: what was predicted, what was measured, and what the earlier ones say about the next (docs/models.md). */
#ifndef APP_STORE_RUNS_H
#define APP_STORE_RUNS_H

#include "berth.h"
#include "store/machine.h"

struct run_row {
    int64_t at;
    char kind[16]; /* "run", "bench" */
    char machine[MACHINE_KEY_MAX];
    char fingerprint[20], model[128], path[512];
    /* Composition: what speed depends on besides the model. */
    char engine[16], kv[8], policy[64], isa[16], io[16];
    int64_t threads;
    int64_t budget, ctx, chunk, slots, experts, resident;
    int64_t predicted_peak, peak;
    double predicted_tps, predicted_low, predicted_high;
    char basis[96];
    double tps; /* 0: too short to tell */
    int64_t tokens;
    double predicted_prefill, prefill;
    int64_t prompt;
    double predicted_hit, hit;
    double ctx_mean;                                          /* position of the decoded tokens, on average */
    double memory_rate, read_rate, decode_macs, prefill_macs; /* as measured just before the run; 0: unknown */
    int64_t layers;
    double disk_s, stall_s;                    /* a token: reads at the disk's rate; waited for */
    double work_bytes, work_macs, law_prefill; /* a token's; the law's answer before calibration */
    int64_t steady;                            /* the cache was filled before: no miss is a first touch */
    double stream;                             /* memory as the model's kernel streams it, measured just before */
};
extern const struct store_table run_table;

bool runs_add(struct store *store, const struct run_row *row);

/* What is asked of a prediction. */
struct speed_request {
    const berth_speed_work *work;
    const char *fingerprint, *machine; /* machine: key */
    const char *path;                  /* whose disk; NULL: unknown */
    const char *dtype;                 /* main weight type */
    const char *kv, *policy, *isa;
    int64_t threads;
    double ctx_tokens;                  /* position to predict for */
    double prompt_tokens, chunk_tokens; /* of the prefill prediction */
    int64_t slots, experts;
    bool resident;
    double memory_rate, read_rate; /* given by the user; 0: not */
    double request_bytes;          /* of one read of an expert's weights; 0: unknown */
    bool has_hit;                  /* given by the user */
    double hit;
    const tool_rates *rates; /* measured just now; NULL: not */
    double known_hit;        /* of the ledger's history at these slots; 0: none */
    double run_tokens;       /* decoded from an empty cache after prompt_tokens; 0: for ever */
};

struct speed_answer {
    berth_speed decode, prefill;
    berth_speed_hit hit; /* 1 when everything is in memory */
    berth_speed_machine machine;
    const char *memory_basis, *read_basis;     /* "given", "measured", "unknown" */
    const char *hit_basis;                     /* "resident", "given", "runs", "ledger", "generic" */
    uint32_t model_runs, machine_runs;         /* that calibrated it */
    double work_bytes, work_macs, law_prefill; /* for the next calibration */
    char basis[96]; /* one phrase: "calibrated by 3 runs of this model here; memory and disk measured" */
};

/* store may be NULL. False: the store failed (the answer is that of the law alone). */
bool runs_predict(struct store *store, const struct speed_request *request, struct speed_answer *out);

#endif
