/* SPDX-License-Identifier: MIT
 * The three rates of the speed law, measured the way a run uses the machine. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "compute/kernels.h"
#include "compute/pool.h"
#include "experts/io.h"
#include "memory/arena.h"
#include "model/checkpoint.h"
#include "os/cpu.h"
#include "os/memory.h"
#include "tool.h"

enum {
    QUEUE = 16,                /* reads in flight */
    READ_WINDOW_NS = 10000000, /* the shortest stretch that a rate is taken from */
    READ_SHARE = 3,            /* of the measurement's five parts */
    READS_MAX = 4096,          /* of one measurement */
    MEMORY_PIECE = 256 * 1024, /* streamed by one thread at a time */
    MEMORY_PASSES = 3,
    STREAM_NS = 20000000,
    KERNEL_K = 2048,
    KERNEL_ROWS = 32, /* 32 x 2048 stay in the second-level cache in every format */
    KERNEL_TOKENS = 16,
    SIDE_BYTES = KERNEL_K / PACKED_GROUP_STEP * 4, /* one row of scales of any packed format */
    SIDE_FILL = 0x3f,                              /* 0.75 as F32 and as BF16, a normal exponent as E8M0 */
    ITEM_NS = 500000, /* about how long one item of work takes: much longer than handing it out */
    RUNS_MAX = 4096,
    IO_THREADS_DEFAULT = 4,
    MILLISECONDS_DEFAULT = 100
};
#define HEADER_BYTES ((uint64_t)1 << 30)

struct bench {
    const tool_measure *config;
    tool_rates *rates;
    uint32_t threads, io_threads;
    uint64_t budget_ns; /* a fifth of the time: three for reads, the rest for memory and kernels */
    struct pool *pool;
    struct io *io;
    struct io_request *requests; /* [QUEUE] */
    unsigned char *buffers;      /* [QUEUE][request_bytes] */
    uint64_t request_bytes;
    unsigned char *memory; /* [memory_bytes] */
    uint64_t memory_bytes;
    const struct kernels *kernels;
    enum dtype dtype;
    unsigned char *weights; /* [threads][weight_bytes] */
    uint64_t weight_bytes, weight_row_bytes;
    unsigned char *activations; /* [threads][KERNEL_TOKENS][act_bytes] */
    uint64_t act_bytes;
    float *outputs;         /* [threads][KERNEL_TOKENS][KERNEL_ROWS] */
    unsigned char *scratch; /* [threads][MATMUL_SCRATCH_BYTES] */
    unsigned char *side;    /* [SIDE_BYTES]: the scales of every row of a packed format, and its biases */
    uint64_t *sums;  /* [threads], 8 apart: what the memory stream adds up to, so that it is not optimised away */
    uint32_t tokens; /* of the kernel run in progress */
    uint32_t runs;   /* of the kernel in one item of work */
};

/* ---- layout ----------------------------------------------------------------------------------------- */

static berth_status bench_layout(struct bench *b, const struct checkpoint *checkpoint, struct arena *tables,
                                 struct arena *stacks, berth_error *err)
{
    TRY(pool_layout(tables, stacks, b->threads, &b->pool, err));
    const struct io_config io = {
        .files = checkpoint->files,
        .files_count = checkpoint->files_count,
        .threads = b->io_threads,
        .queue_max = QUEUE,
        .engine = b->config->io_engine,
    };
    TRY(io_layout(tables, stacks, &io, &b->io, err));
    b->requests = ARENA_NEW(tables, struct io_request, QUEUE);
    b->buffers = arena_take(tables, QUEUE, b->request_bytes, OS_PAGE_BYTES);
    b->memory = arena_take(tables, 1, b->memory_bytes, OS_PAGE_BYTES);
    b->weights = arena_take(tables, b->threads, b->weight_bytes, OS_PAGE_BYTES);
    b->activations = arena_take(tables, (uint64_t)b->threads * KERNEL_TOKENS, b->act_bytes, 0);
    b->outputs = ARENA_NEW(tables, float, (uint64_t)b->threads *KERNEL_TOKENS *KERNEL_ROWS);
    b->scratch = arena_take(tables, b->threads, MATMUL_SCRATCH_BYTES, 0);
    b->side = arena_take(tables, 1, SIDE_BYTES, 0);
    b->sums = ARENA_NEW(tables, uint64_t, (uint64_t)b->threads * 8);
    TRY(arena_check(tables, "the measurement", err));
    return arena_check(stacks, "the measurement's stacks", err);
}

/* ---- reads ------------------------------------------------------------------------------------------ */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 17;
}

/* A place in the files where a whole request fits, chosen by bytes so that large files count more. */
static bool next_place(const struct bench *b, const struct checkpoint *checkpoint, uint64_t *state,
                       struct io_request *request)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < checkpoint->files_count; i++) {
        uint64_t size = checkpoint->files[i].size_bytes & ~(uint64_t)(OS_DIRECT_ALIGN - 1);
        total += size >= b->request_bytes ? (size - b->request_bytes) / OS_DIRECT_ALIGN + 1 : 0;
    }
    if (total == 0) {
        return false;
    }
    uint64_t pick = next_random(state) % total;
    for (uint32_t i = 0; i < checkpoint->files_count; i++) {
        uint64_t size = checkpoint->files[i].size_bytes & ~(uint64_t)(OS_DIRECT_ALIGN - 1);
        uint64_t places = size >= b->request_bytes ? (size - b->request_bytes) / OS_DIRECT_ALIGN + 1 : 0;
        if (pick < places) {
            request->file = i;
            request->offset = pick * OS_DIRECT_ALIGN;
            request->bytes = b->request_bytes;
            return true;
        }
        pick -= places;
    }
    return false;
}

/* The rate of the best of several short windows: what the disk can do, whoever else uses it now. */
static berth_status measure_reads(struct bench *b, const struct checkpoint *checkpoint, berth_error *err)
{
    uint64_t state = os_now_ns();
    uint32_t submitted = 0;
    uint32_t done = 0;
    berth_status status = BERTH_OK;
    double best = 0;
    uint64_t start = os_now_ns();
    for (; submitted < QUEUE; submitted++) {
        struct io_request *request = &b->requests[submitted];
        request->buffer = b->buffers + submitted * b->request_bytes;
        request->err = err;
        if (!next_place(b, checkpoint, &state, request)) {
            return BERTH_OK; /* nothing large enough to read: the rate stays unknown */
        }
        io_submit(b->io, request);
    }
    uint64_t window_start = start;
    uint32_t window_done = 0;
    while (done < submitted) {
        struct io_request *request = &b->requests[done % QUEUE];
        berth_status one = io_wait(b->io, request);
        status = status == BERTH_OK ? one : status;
        done++;
        uint64_t now = os_now_ns();
        if (now - window_start >= READ_WINDOW_NS && done - window_done >= QUEUE) {
            double rate = (double)((done - window_done) * b->request_bytes) * 1e9 / (double)(now - window_start);
            best = rate > best ? rate : best;
            window_start = now;
            window_done = done;
        }
        bool more = status == BERTH_OK && submitted < READS_MAX && now - start < READ_SHARE * b->budget_ns;
        if (more && next_place(b, checkpoint, &state, request)) {
            io_submit(b->io, request);
            submitted++;
        }
    }
    if (status == BERTH_OK) {
        b->rates->read_sample_bytes = done * b->request_bytes;
        uint64_t spent = os_now_ns() - start; /* a disk too slow for a whole window still has a rate */
        b->rates->read_bytes_per_s = best > 0 ? best : (double)b->rates->read_sample_bytes * 1e9 / (double)(spent + 1);
    }
    return status;
}

/* ---- memory ----------------------------------------------------------------------------------------- */

static void fill_piece(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct bench *b = ctx;
    (void)worker;
    memset(b->memory + (uint64_t)begin * MEMORY_PIECE, 1, (uint64_t)(end - begin) * MEMORY_PIECE);
}

static void sum_piece(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct bench *b = ctx;
    const uint64_t *words = (const uint64_t *)(const void *)(b->memory + (uint64_t)begin * MEMORY_PIECE);
    uint64_t count = (uint64_t)(end - begin) * (MEMORY_PIECE / sizeof(uint64_t));
    uint64_t sums[8] = {0};
    for (uint64_t i = 0; i < count; i += 8) {
        for (uint32_t lane = 0; lane < 8; lane++) {
            sums[lane] += words[i + lane];
        }
    }
    for (uint32_t lane = 0; lane < 8; lane++) {
        b->sums[(size_t)worker * 8] += sums[lane];
    }
}

/* Formats with scales beside them, as releases have them. All rows share one row of scales, which stays in the cache:
 * the rates are those of the quants. */
static struct packed_side kernel_side(const struct bench *b)
{
    struct packed_side side = {.scales = b->side};
    if (b->dtype >= DTYPE_MLX2 && b->dtype <= DTYPE_MLX8) {
        side.format = (struct packed){PACKED_AFFINE, DTYPE_BF16, 64, 1};
        side.biases = b->side;
    } else if (b->dtype == DTYPE_F8_E4M3) {
        side.format = (struct packed){PACKED_TILES, DTYPE_F32, 128, 128};
    } else if (b->dtype == DTYPE_MXFP4_ROWS) {
        side.format = (struct packed){PACKED_MXFP4, DTYPE_U8, 32, 1};
    }
    return side;
}

static struct matmul kernel_product(const struct bench *b, const unsigned char *w, uint32_t worker)
{
    return (struct matmul){
        .w = w,
        .w_row_bytes = b->weight_row_bytes,
        .x = b->activations + (uint64_t)worker * KERNEL_TOKENS * b->act_bytes,
        .x_row_bytes = b->act_bytes,
        .y = b->outputs + (uint64_t)worker * KERNEL_TOKENS * KERNEL_ROWS,
        .y_row_floats = KERNEL_ROWS,
        .scratch = b->scratch + (uint64_t)worker * MATMUL_SCRATCH_BYTES,
        .k = KERNEL_K,
        .tokens = 1,
        .side = kernel_side(b),
    };
}

/* The model's kernel as a stream: it prefetches, which on some processors brings more than plain reads do. */
static void product_piece(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct bench *b = ctx;
    uint64_t piece_bytes = (uint64_t)(end - begin) * MEMORY_PIECE;
    const unsigned char *w = b->memory + (uint64_t)begin * MEMORY_PIECE;
    for (uint64_t at = 0; at + b->weight_row_bytes <= piece_bytes;) {
        uint64_t left = (piece_bytes - at) / b->weight_row_bytes;
        uint32_t rows = left < KERNEL_ROWS ? (uint32_t)left : (uint32_t)KERNEL_ROWS;
        const struct matmul m = kernel_product(b, w + at, worker);
        b->kernels->matmul[b->dtype](&m, 0, rows);
        at += rows * b->weight_row_bytes;
    }
}

/* The fastest of some passes over the memory, bytes per second. */
static double stream_rate(struct bench *b, pool_fn *fn, uint32_t pieces, uint32_t grain)
{
    uint64_t best = UINT64_MAX;
    for (int pass = 0; pass < MEMORY_PASSES; pass++) {
        uint64_t start = os_now_ns();
        pool_for(b->pool, pieces, grain, fn, b);
        uint64_t spent = os_now_ns() - start;
        best = spent < best ? spent : best;
    }
    return best > 0 ? (double)pieces * MEMORY_PIECE * 1e9 / (double)best : 0;
}

/* What a kernel gets through in about STREAM_NS: a slow one needs no more to show its rate, as it does not wait for
 * memory. */
static uint32_t kernel_pieces(const struct bench *b, uint32_t pieces)
{
    double bytes_per_s = b->rates->gemv_macs_per_s * b->rates->weight_bits / 8;
    double most = bytes_per_s * STREAM_NS * 1e-9 / MEMORY_PIECE;
    double least = b->threads * 4.0;
    most = most > least ? most : least;
    return bytes_per_s > 0 && most < pieces ? (uint32_t)most : pieces;
}

/* About four items of work for each thread. */
static uint32_t grain_of(const struct bench *b, uint32_t pieces)
{
    return pieces / (b->threads * 4) + 1; /* NOLINT(clang-analyzer-core.DivideZero): choose() takes one at least */
}

static void measure_memory(struct bench *b)
{
    uint32_t pieces = (uint32_t)(b->memory_bytes / MEMORY_PIECE);
    if (pieces == 0) {
        return;
    }
    uint32_t grain = grain_of(b, pieces);
    pool_for(b->pool, pieces, grain, fill_piece, b);
    double rate = stream_rate(b, sum_piece, pieces, grain);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < b->threads; i++) {
        sum += b->sums[(size_t)i * 8];
    }
    b->rates->plain_bytes_per_s = sum != 0 ? rate : 0;
    if (b->kernels != NULL && b->kernels->matmul[b->dtype] != NULL) {
        uint32_t some = kernel_pieces(b, pieces);
        b->rates->kernel_bytes_per_s = stream_rate(b, product_piece, some, grain_of(b, some));
        rate = b->rates->kernel_bytes_per_s > rate ? b->rates->kernel_bytes_per_s : rate;
    }
    if (rate > 0 && sum != 0) {
        b->rates->memory_sample_bytes = (uint64_t)pieces * MEMORY_PIECE;
        b->rates->memory_bytes_per_s = rate;
    }
}

/* ---- kernels ---------------------------------------------------------------------------------------- */

static void kernel_piece(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct bench *b = ctx;
    struct matmul m = kernel_product(b, b->weights + worker * b->weight_bytes, worker);
    m.tokens = b->tokens;
    for (uint32_t i = begin; i < end; i++) {
        for (uint32_t run = 0; run < b->runs; run++) {
            b->kernels->matmul[b->dtype](&m, 0, KERNEL_ROWS);
        }
    }
}

static double kernel_rate(struct bench *b, uint32_t tokens)
{
    b->tokens = tokens;
    b->runs = 1;
    kernel_piece(b, 0, 1, 0); /* warms the cache */
    uint64_t start = os_now_ns();
    kernel_piece(b, 0, 1, 0);
    uint64_t one = os_now_ns() - start;
    b->runs = one > 0 && ITEM_NS / one < RUNS_MAX ? (uint32_t)(ITEM_NS / one) + 1 : RUNS_MAX;
    uint64_t items = 0;
    uint64_t spent = 0;
    start = os_now_ns();
    while (spent < b->budget_ns / 2) {
        pool_for(b->pool, b->threads * 4, 1, kernel_piece, b);
        items += (uint64_t)b->threads * 4;
        spent = os_now_ns() - start;
    }
    double macs = (double)items * b->runs * KERNEL_ROWS * KERNEL_K * tokens;
    return macs * 1e9 / (double)spent;
}

static void measure_kernels(struct bench *b)
{
    if (b->kernels == NULL || b->kernels->matmul[b->dtype] == NULL) {
        return;
    }
    memset(b->side, SIDE_FILL, SIDE_BYTES);
    enum act_kind act = quant_row(b->dtype)->act;
    if (b->kernels->prepare[act] == NULL) {
        return;
    }
    /* Zero weights and a plain ramp: the kernels' time does not depend on the values, save for denormals. */
    float *ramp = b->outputs;
    uint64_t room = (uint64_t)b->threads * KERNEL_TOKENS * KERNEL_ROWS;
    if (room < KERNEL_K && b->memory_bytes >= KERNEL_K * sizeof(float)) {
        ramp = (float *)(void *)b->memory;
    } else if (room < KERNEL_K) {
        return;
    }
    for (uint32_t i = 0; i < KERNEL_K; i++) {
        ramp[i] = (float)(i % 17) - 8.0f;
    }
    for (uint32_t row = 0; row < b->threads * KERNEL_TOKENS; row++) {
        b->kernels->prepare[act](ramp, b->activations + row * b->act_bytes, KERNEL_K);
    }
    b->rates->gemv_macs_per_s = kernel_rate(b, 1);
    b->rates->gemm_macs_per_s = kernel_rate(b, KERNEL_TOKENS);
}

/* ---- all together ----------------------------------------------------------------------------------- */

/* The type that most bytes of the checkpoint have. */
static enum dtype main_dtype(const struct checkpoint *checkpoint)
{
    uint64_t bytes[DTYPE_COUNT] = {0};
    enum dtype best = DTYPE_F32;
    for (uint32_t i = 0; i < checkpoint->tensors.count; i++) {
        const struct tensor *tensor = &checkpoint->tensors.items[i];
        bytes[tensor->dtype] += tensor->bytes;
        best = bytes[tensor->dtype] > bytes[best] ? tensor->dtype : best;
    }
    return best;
}

static void choose(struct bench *b, const struct checkpoint *checkpoint)
{
    const tool_measure *c = b->config;
    b->threads = c->threads > 0 ? c->threads : os_cpu_count();
    b->threads = b->threads > POOL_THREADS_MAX ? POOL_THREADS_MAX : b->threads;
    b->io_threads = c->io_threads > 0 ? c->io_threads : IO_THREADS_DEFAULT;
    b->budget_ns = (uint64_t)(c->milliseconds > 0 ? c->milliseconds : MILLISECONDS_DEFAULT) * 1000000u / 5;
    uint64_t request = c->request_bytes > 0 && c->request_bytes < IO_PIECE_BYTES ? c->request_bytes : IO_PIECE_BYTES;
    while (request > OS_DIRECT_ALIGN && request * QUEUE > c->memory_max_bytes / 4) {
        request /= 2;
    }
    b->request_bytes = size_round_up((size_t)request, OS_DIRECT_ALIGN);
    uint64_t most = c->memory_max_bytes / 2;
    uint64_t memory = c->memory_bytes < most ? c->memory_bytes : most;
    b->memory_bytes = memory / MEMORY_PIECE * MEMORY_PIECE;
    b->kernels = kernels_select(c->isa);
    b->dtype = c->dtype != NULL                ? quant_from_name(str_from(c->dtype))
               : checkpoint->tensors.count > 0 ? main_dtype(checkpoint)
                                               : DTYPE_Q8_0;
    b->dtype = b->dtype < DTYPE_COUNT ? b->dtype : DTYPE_Q8_0;
    if (!quant_row_bytes(b->dtype, KERNEL_K, &b->weight_row_bytes)) {
        b->weight_row_bytes = 0;
        b->kernels = NULL;
    }
    b->weight_bytes = b->weight_row_bytes * KERNEL_ROWS;
    b->act_bytes = size_round_up((size_t)act_row_bytes(ACT_F32, KERNEL_K), ARENA_ALIGN); /* the largest kind */
    b->rates->threads = b->threads;
    snprintf(b->rates->dtype, sizeof b->rates->dtype, "%s", quant_row(b->dtype)->name);
    b->rates->weight_bits = 8.0 * (double)b->weight_row_bytes / KERNEL_K;
}

static berth_status bench_run(struct bench *b, const struct checkpoint *checkpoint, berth_error *err)
{
    berth_status status = pool_start(b->pool, err);
    if (status == BERTH_OK) {
        status = io_start(b->io, err);
    }
    if (status == BERTH_OK) {
        status = checkpoint->files_count > 0 ? measure_reads(b, checkpoint, err) : BERTH_OK;
        measure_kernels(b); /* first: the memory stream takes its activations */
        measure_memory(b);
        b->rates->direct_io = checkpoint->files_count > 0 && checkpoint->files[0].direct;
    }
    io_stop(b->io);
    pool_stop(b->pool);
    return status;
}

/* "buffered" wants its files without direct I/O. */
static berth_status reopen_files(struct checkpoint *checkpoint, const char *engine, berth_error *err)
{
    bool direct = true;
    TRY(io_engine_direct(engine, &direct, err));
    for (uint32_t i = 0; !direct && i < checkpoint->files_count; i++) {
        struct os_file *file = &checkpoint->files[i];
        struct os_file again;
        if (file->direct) {
            TRY(os_file_open(&again, file->path, false, NULL, err));
            os_file_close(file);
            *file = again;
        }
    }
    return BERTH_OK;
}

static berth_status with_checkpoint(const struct checkpoint *checkpoint, const tool_measure *config, tool_rates *out,
                                    berth_error *err)
{
    struct bench b = {.config = config, .rates = out};
    choose(&b, checkpoint);
    struct arena tables;
    struct arena stacks;
    arena_measure(&tables);
    arena_measure(&stacks);
    TRY(bench_layout(&b, checkpoint, &tables, &stacks, err));
    uint64_t tables_bytes = size_round_up((size_t)tables.used_bytes, OS_PAGE_BYTES);
    uint64_t stacks_bytes = size_round_up((size_t)stacks.used_bytes, OS_PAGE_BYTES);
    void *region;
    TRY(os_reserve(NULL, tables_bytes + stacks_bytes, false, &region, err));
    arena_carve(&tables, region, tables_bytes);
    arena_carve(&stacks, (unsigned char *)region + tables_bytes, stacks_bytes);
    berth_status status = bench_layout(&b, checkpoint, &tables, &stacks, err);
    if (status == BERTH_OK) {
        status = bench_run(&b, checkpoint, err);
    }
    os_release(region, tables_bytes + stacks_bytes);
    return status;
}

/* Without a model: one file of any kind, or none. */
static berth_status with_file(const char *path, const tool_measure *config, tool_rates *out, berth_error *err)
{
    struct os_file file = {.fd = -1};
    struct checkpoint checkpoint;
    memset(&checkpoint, 0, sizeof checkpoint);
    if (path != NULL) {
        bool direct = true;
        TRY(io_engine_direct(config->io_engine, &direct, err));
        TRY(os_file_open(&file, path, direct, NULL, err));
        checkpoint.files = &file;
        checkpoint.files_count = 1;
    }
    berth_status status = with_checkpoint(&checkpoint, config, out, err);
    if (path != NULL) {
        os_file_close(&file);
    }
    return status;
}

const char *tool_kernel_type(berth_isa isa, uint32_t i)
{
    const struct kernels *row = kernels_select(isa);
    for (uint32_t type = 0; row != NULL && type < DTYPE_COUNT; type++) {
        if (row->matmul[type] != NULL && quant_row((enum dtype)type)->block_elems <= KERNEL_K && i-- == 0) {
            return quant_row((enum dtype)type)->name;
        }
    }
    return NULL;
}

berth_status tool_measure_rates(const char *path, const tool_measure *config, tool_rates *out, berth_error *err)
{
    void *region;
    *out = (tool_rates){0};
    if (path == NULL || config->plain_file) {
        return with_file(path, config, out, err);
    }
    TRY(os_reserve(NULL, HEADER_BYTES, false, &region, err));
    struct arena arena;
    arena_carve(&arena, region, HEADER_BYTES);
    struct checkpoint checkpoint;
    berth_status status = checkpoint_open(&checkpoint, path, CHECKPOINT_WANT_TENSORS, &arena, NULL, err);
    if (status == BERTH_OK) {
        status = reopen_files(&checkpoint, config->io_engine, err);
        if (status == BERTH_OK) {
            status = with_checkpoint(&checkpoint, config, out, err);
        }
        checkpoint_close(&checkpoint);
    }
    os_release(region, HEADER_BYTES);
    return status;
}
