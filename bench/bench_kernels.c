/* SPDX-License-Identifier: MIT
 * Kernel speed by instruction set and format: GEMV over more weights than any cache holds, beside a plain read of the
 * same memory; GEMM over one expert-sized matrix; attention; thread pool. One line a figure; the best of the rounds, so
 * that a busy machine spoils as little as possible.
 *
 * usage: bench_kernels [--mib N] [--rounds N] [--threads N] [--tokens N] [--isa NAME] [--type NAME] [--only
 * gemv|gemm|attend|pool] One-thread figures use the thread's CPU time, others the wall clock.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "compute/kernels.h"
#include "compute/pool.h"
#include "os/cpu.h"
#include "os/memory.h"
#include "os/thread.h"

enum { K = 2048, EXPERT_ROWS = 768, TOKENS_MAX = 512, STREAM_TOKENS_MAX = 32, GRAIN = 64 };

struct bench {
    uint64_t bytes; /* of weights for GEMV */
    unsigned char *weights;
    unsigned char *activations;
    float *out;
    unsigned char *scratch;
    int rounds;
    uint32_t threads;
    uint32_t tokens; /* a GEMV with several is a GEMM over streamed weights */
    const char *isa, *only, *type;
    struct pool *pool[2]; /* 1 thread, all threads */
};

static uint32_t seed = 1;

static float random_float(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) * 0x1p-24f - 0.5f;
}

static void *take(uint64_t bytes)
{
    void *p = NULL;
    if (os_reserve(NULL, bytes, true, &p, NULL) != BERTH_OK) {
        (void)fprintf(stderr, "bench_kernels: no memory for %llu bytes\n", (unsigned long long)bytes);
        exit(1);
    }
    return p;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The clock for a figure on all threads, or on one. */
static uint64_t now_ns(int threads_all)
{
    return threads_all ? os_now_ns() : cpu_ns();
}

static bool wanted(const char *asked, const char *name)
{
    return asked == NULL || strcmp(asked, name) == 0;
}

static struct pool *make_pool(uint32_t threads)
{
    struct arena tables;
    struct arena stacks;
    struct pool *pool = NULL;
    arena_measure(&tables);
    arena_measure(&stacks);
    (void)pool_layout(&tables, &stacks, threads, &pool, NULL);
    uint64_t tables_bytes = tables.used_bytes;
    uint64_t stacks_bytes = stacks.used_bytes + 4096;
    arena_carve(&tables, take(tables_bytes), tables_bytes);
    arena_carve(&stacks, take(stacks_bytes), stacks_bytes);
    if (pool_layout(&tables, &stacks, threads, &pool, NULL) != BERTH_OK || pool_start(pool, NULL) != BERTH_OK) {
        exit(1);
    }
    return pool;
}

/* ---- plain read ---- */

struct read_job {
    const unsigned char *base;
    uint64_t slice; /* bytes an item */
    uint64_t sums[POOL_THREADS_MAX];
};

static void read_items(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct read_job *job = ctx;
    uint64_t sum[8] = {0};
    const unsigned char *p = job->base + begin * job->slice;
    for (uint64_t at = 0; at < (end - begin) * job->slice; at += 64) {
        for (int i = 0; i < 8; i++) {
            sum[i] += load_u64(p + at + (size_t)i * 8);
        }
    }
    for (int i = 0; i < 8; i++) {
        job->sums[worker] += sum[i];
    }
}

static double read_rate(const struct bench *b, int threads_all)
{
    static struct read_job job;
    job.base = b->weights;
    job.slice = 128 * 1024;
    uint64_t items = b->bytes / job.slice;
    uint64_t began = now_ns(threads_all);
    pool_for(b->pool[threads_all], (uint32_t)items, 1, read_items, &job);
    return (double)(items * job.slice) / (double)(now_ns(threads_all) - began);
}

/* ---- matrix products ---- */

struct product_job {
    struct matmul m;
    matmul_fn *fn;
    unsigned char *scratch; /* of worker 0 */
};

static void product_items(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct product_job *job = ctx;
    struct matmul m = job->m;
    m.scratch = job->scratch + (size_t)worker * MATMUL_SCRATCH_BYTES;
    job->fn(&m, begin, end);
}

/* One finite pattern row, repeated: every row costs the same as any other. */
static void fill_weights(const struct bench *b, enum dtype type, uint64_t row_bytes, uint64_t rows)
{
    float line[K];
    for (uint64_t r = 0; r < rows; r++) {
        if (r < 64 && quant_row(type)->act == ACT_F32) {
            for (int i = 0; i < K; i++) {
                line[i] = random_float();
            }
            quant_row(type)->quantise(line, b->weights + r * row_bytes, K);
        } else if (r < 64) {
            for (uint64_t i = 0; i < row_bytes; i++) { /* without bit 6 no scale is a NaN, wherever it lies */
                b->weights[r * row_bytes + i] = (unsigned char)((uint32_t)(random_float() * 0x1p16f) & 0xbbu);
            }
        } else {
            memcpy(b->weights + r * row_bytes, b->weights + (r % 64) * row_bytes, row_bytes);
        }
    }
}

static struct product_job prepare_job(const struct bench *b, const struct kernels *row, enum dtype type,
                                      uint64_t row_bytes, uint64_t rows, uint32_t tokens)
{
    uint64_t x_row_bytes = (act_row_bytes(quant_row(type)->act, K) + 63) / 64 * 64;
    float line[K];
    for (uint32_t t = 0; t < tokens; t++) {
        for (int i = 0; i < K; i++) {
            line[i] = random_float();
        }
        row->prepare[quant_row(type)->act](line, b->activations + t * x_row_bytes, K);
    }
    return (struct product_job){.m = {.w = b->weights,
                                      .w_row_bytes = row_bytes,
                                      .x = b->activations,
                                      .x_row_bytes = x_row_bytes,
                                      .y = b->out,
                                      .y_row_floats = rows,
                                      .k = K,
                                      .tokens = tokens},
                                .fn = row->matmul[type],
                                .scratch = b->scratch};
}

static void gemv(const struct bench *b, const struct kernels *row, enum dtype type)
{
    uint64_t row_bytes = 0;
    (void)quant_row_bytes(type, K, &row_bytes);
    uint64_t rows = b->bytes / row_bytes;
    struct product_job job = prepare_job(b, row, type, row_bytes, rows, b->tokens);
    for (int all = 0; all < 2; all++) {
        double best_gemv = 0;
        double best_read = 0;
        for (int i = 0; i < b->rounds; i++) {
            double rate = read_rate(b, all);
            best_read = rate > best_read ? rate : best_read;
            uint64_t began = now_ns(all);
            pool_for(b->pool[all], (uint32_t)rows, GRAIN, product_items, &job);
            rate = (double)(rows * row_bytes) / (double)(now_ns(all) - began);
            best_gemv = rate > best_gemv ? rate : best_gemv;
        }
        (void)printf("gemv/%s/%s tokens %u threads %u: %.2f GB/s, plain read %.2f GB/s, ratio %.3f\n", row->name,
                     quant_row(type)->name, b->tokens, all ? b->threads : 1, best_gemv, best_read,
                     best_gemv / best_read);
    }
}

static void gemm(const struct bench *b, const struct kernels *row, enum dtype type)
{
    static const uint32_t tokens[] = {1, 2, 4, 8, 16, 64, 512};
    uint64_t row_bytes = 0;
    (void)quant_row_bytes(type, K, &row_bytes);
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
        struct product_job job = prepare_job(b, row, type, row_bytes, EXPERT_ROWS, tokens[t]);
        double best[2] = {0};
        for (int all = 0; all < 2; all++) {
            int repeats = tokens[t] >= 64 ? 1 : 8;
            for (int i = 0; i < b->rounds * 3; i++) {
                uint64_t began = now_ns(all);
                for (int n = 0; n < repeats; n++) {
                    pool_for(b->pool[all], EXPERT_ROWS, GRAIN, product_items, &job);
                }
                double rate = (double)K * EXPERT_ROWS * tokens[t] * repeats / (double)(now_ns(all) - began);
                best[all] = rate > best[all] ? rate : best[all];
            }
        }
        (void)printf("gemm/%s/%s tokens %u: %.1f GMAC/s on 1 thread, %.1f on %u\n", row->name, quant_row(type)->name,
                     tokens[t], best[0], best[1], b->threads);
    }
}

/* ---- attention ---- */

static void attention(const struct bench *b, const struct kernels *row, berth_kv_type type)
{
    enum { QUERIES = 8, DIM = 128 };
    uint64_t elem = type == BERTH_KV_F16 ? 2 : 4;
    const enum dtype format = type == BERTH_KV_F16 ? DTYPE_F16 : DTYPE_F32;
    float *q = b->out;
    for (int i = 0; i < QUERIES * DIM; i++) {
        q[i] = random_float();
    }
    float line[DIM];
    for (int p = 0; p < 2 * ATTEND_SEGMENT; p++) {
        for (int i = 0; i < DIM; i++) {
            line[i] = random_float();
        }
        quant_row(format)->quantise(line, b->activations + (uint64_t)p * DIM * elem, DIM);
    }
    struct attend a = {.q = q,
                       .q_row_floats = DIM,
                       .k = b->activations,
                       .v = b->activations + (uint64_t)ATTEND_SEGMENT * DIM * elem,
                       .kv_row_bytes = DIM * elem,
                       .kv_type = type,
                       .queries = QUERIES,
                       .head_dim = DIM,
                       .key_end = ATTEND_SEGMENT,
                       .scale = 0.088f,
                       .max = b->out + 4096,
                       .sum = b->out + 4160,
                       .out = b->out + 4224};
    double best = 0;
    for (int i = 0; i < b->rounds * 3; i++) {
        uint64_t began = now_ns(0);
        for (int n = 0; n < 20; n++) {
            row->attend(&a);
        }
        double rate = 2.0 * QUERIES * DIM * ATTEND_SEGMENT * 20 / (double)(now_ns(0) - began);
        best = rate > best ? rate : best;
    }
    (void)printf("attend/%s/%s: %.1f GMAC/s on 1 thread (8 queries x 128, 1,024 keys)\n", row->name,
                 type == BERTH_KV_F16 ? "f16" : "f32", best);
}

/* ---- pool ---- */

static void meet(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    _Atomic uint32_t *arrived = ctx;
    (void)begin;
    (void)end;
    (void)worker;
    (*arrived)--;
    while (*arrived != 0) {
        os_thread_pause();
    }
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Time from pool_for() until all threads have met in the job and left, back to back and after `idle_ns` of quiet. */
static void pool_cost(const struct bench *b, uint64_t idle_ns)
{
    enum { JOBS = 1001 };
    static uint64_t took[JOBS];
    for (int n = 0; n < JOBS; n++) {
        for (uint64_t until = os_now_ns() + idle_ns; os_now_ns() < until;) {
        }
        _Atomic uint32_t arrived = b->threads;
        uint64_t began = os_now_ns();
        pool_for(b->pool[1], b->threads, 1, meet, &arrived);
        took[n] = os_now_ns() - began;
    }
    qsort(took, JOBS, sizeof *took, by_value);
    (void)printf("pool/all %u threads meet, %llu us after the last job: median %.2f us, best %.2f us\n", b->threads,
                 (unsigned long long)idle_ns / 1000, (double)took[JOBS / 2] / 1000, (double)took[0] / 1000);
}

static void row_figures(const struct bench *b, const struct kernels *row)
{
    static const enum dtype types[] = {DTYPE_F32,  DTYPE_F16,    DTYPE_BF16,   DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1,
                                       DTYPE_Q5_0, DTYPE_Q5_1,   DTYPE_Q2_K,   DTYPE_Q3_K, DTYPE_Q4_K, DTYPE_Q5_K,
                                       DTYPE_Q6_K, DTYPE_IQ4_NL, DTYPE_IQ4_XS, DTYPE_MXFP4};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        if (!wanted(b->type, quant_row(types[t])->name)) {
            continue;
        }
        uint64_t row_bytes = 0;
        (void)quant_row_bytes(types[t], K, &row_bytes);
        bool stream = wanted(b->only, "gemv");
        fill_weights(b, types[t], row_bytes, stream ? b->bytes / row_bytes : EXPERT_ROWS);
        if (stream) {
            gemv(b, row, types[t]);
        }
        if (wanted(b->only, "gemm")) {
            gemm(b, row, types[t]);
        }
    }
    if (wanted(b->only, "attend")) {
        attention(b, row, BERTH_KV_F16);
        attention(b, row, BERTH_KV_F32);
    }
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    struct bench b = {.bytes = 1280ull << 20, .rounds = 5, .threads = os_cpu_count(), .tokens = 1};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--mib") == 0) {
            b.bytes = (uint64_t)strtoull(argv[i + 1], NULL, 10) << 20;
        } else if (strcmp(argv[i], "--rounds") == 0) {
            b.rounds = (int)strtol(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--threads") == 0) {
            b.threads = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--tokens") == 0) {
            b.tokens = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--isa") == 0) {
            b.isa = argv[i + 1];
        } else if (strcmp(argv[i], "--only") == 0) {
            b.only = argv[i + 1];
        } else if (strcmp(argv[i], "--type") == 0) {
            b.type = argv[i + 1];
        } else {
            (void)fprintf(stderr, "bench_kernels: unknown option %s\n", argv[i]);
            return 2;
        }
    }
    if (b.bytes < 64ull << 20 || b.rounds < 1 || b.threads < 1 || b.threads > POOL_THREADS_MAX || b.tokens < 1 ||
        b.tokens > STREAM_TOKENS_MAX) {
        (void)fprintf(
            stderr, "bench_kernels: want --mib 64 or more, --rounds 1 or more, --threads 1 to 256, --tokens 1 to 32\n");
        return 2;
    }
    b.weights = take(b.bytes);
    b.activations = take((uint64_t)TOKENS_MAX * K * 4);
    /* A weight takes more than two bits in every format here: rows are at least K / 4 bytes. */
    b.out = take((uint64_t)TOKENS_MAX * EXPERT_ROWS * 4 + b.bytes / (K / 4) * 4 * b.tokens);
    b.scratch = take((uint64_t)b.threads * MATMUL_SCRATCH_BYTES);
    b.pool[0] = make_pool(1);
    b.pool[1] = make_pool(b.threads);
    const berth_isa order[] = {BERTH_ISA_NEON, BERTH_ISA_AVX2, BERTH_ISA_AVX512};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const struct kernels *row = kernels_select(order[i]);
        if (row != NULL && wanted(b.isa, row->name)) {
            row_figures(&b, row);
        }
    }
    if (wanted(b.only, "pool")) {
        pool_cost(&b, 0);
        pool_cost(&b, 3000);
        pool_cost(&b, 200000);
    }
    pool_stop(b.pool[0]);
    pool_stop(b.pool[1]);
    return 0;
}
