/* SPDX-License-Identifier: MIT
 * Matrix products over the pool, activation preparation, and the dense feed-forward block. */
#include "forward/forward.h"

/* Rows of one unit of work: small enough to share out, a multiple of every kernel's row block. */
enum { ROW_GRAIN = 32 };

struct matmul_run {
    const struct matmul_job *jobs;
    unsigned char *scratch; /* of worker 0 */
    uint32_t count;
    uint32_t first_unit[MATMULS_MAX + 1];
};

/* Rows [begin, end) of a job whose product is scaled before the bias. */
static void run_scaled(const struct matmul_job *job, struct matmul m, uint32_t begin, uint32_t end)
{
    m.bias = NULL;
    job->fn(&m, begin, end);
    for (uint32_t t = 0; t < m.tokens; t++) {
        float *y = m.y + t * m.y_row_floats;
        for (uint32_t r = begin; r < end; r++) {
            y[r] = y[r] * *job->scale;
            y[r] = job->m.bias != NULL ? y[r] + job->m.bias[r] : y[r];
        }
    }
}

static void run_units(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct matmul_run *run = ctx;
    uint32_t job = 0;
    while (begin < end) {
        while (begin >= run->first_unit[job + 1]) {
            job++;
        }
        uint32_t stop = end < run->first_unit[job + 1] ? end : run->first_unit[job + 1];
        uint32_t row = (begin - run->first_unit[job]) * ROW_GRAIN;
        uint32_t row_end = (stop - run->first_unit[job]) * ROW_GRAIN;
        const struct matmul_job *j = &run->jobs[job];
        row_end = row_end < j->rows ? row_end : j->rows;
        struct matmul m = j->m;
        m.scratch = run->scratch + (size_t)worker * MATMUL_SCRATCH_BYTES;
        if (j->scale != NULL) {
            run_scaled(j, m, row, row_end);
        } else {
            j->fn(&m, row, row_end);
        }
        begin = stop;
    }
}

void forward_matmuls(struct forward *fw, const struct matmul_job *jobs, uint32_t count)
{
    struct matmul_run run;
    run.jobs = jobs;
    run.scratch = fw->scratch.matmul_scratch;
    run.count = count;
    run.first_unit[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        run.first_unit[i + 1] = run.first_unit[i] + (jobs[i].rows + ROW_GRAIN - 1) / ROW_GRAIN;
        fw->macs += (uint64_t)jobs[i].rows * jobs[i].m.k * jobs[i].m.tokens;
    }
    fw->kernel_calls += count;
    uint32_t units = run.first_unit[count];
    uint32_t grain = units / (pool_threads(fw->pool) * 4);
    pool_for(fw->pool, units, grain > 0 ? grain : 1, run_units, &run);
}

struct matmul_job forward_job(const struct forward *fw, const struct matrix *matrix, const float *bias, const void *x,
                              uint64_t x_row_bytes, float *y, uint64_t y_row_floats, uint32_t tokens)
{
    return (struct matmul_job){.m = {.w = matrix->data,
                                     .w_row_bytes = matrix->row_bytes,
                                     .x = x,
                                     .x_row_bytes = x_row_bytes,
                                     .bias = bias,
                                     .y = y,
                                     .y_row_floats = y_row_floats,
                                     .k = matrix->k,
                                     .tokens = tokens,
                                     .side = matrix->side},
                               .fn = fw->kernels->matmul[matrix->dtype],
                               .rows = matrix->rows,
                               .scale = matrix->scale};
}

struct prepare_run {
    const struct forward *fw;
    const struct act_rows *rows;
    enum act_kind kind;
};

static void prepare_range(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    (void)worker;
    const struct prepare_run *run = ctx;
    for (uint32_t t = begin; t < end; t++) {
        run->fw->kernels->prepare[run->kind](run->rows->x + t * run->rows->x_row_floats,
                                             run->rows->prepared + t * run->rows->prepared_bytes, run->rows->k);
    }
}

const void *forward_rows(struct forward *fw, struct act_rows *rows, enum dtype dtype, uint64_t *row_bytes)
{
    enum act_kind kind = quant_row(dtype)->act;
    if (kind == ACT_F32) {
        *row_bytes = rows->x_row_floats * sizeof(float);
        return rows->x;
    }
    if (rows->ready != kind) {
        struct prepare_run run = {fw, rows, kind};
        pool_for(fw->pool, rows->tokens, 4, prepare_range, &run);
        rows->ready = kind;
    }
    *row_bytes = rows->prepared_bytes;
    return rows->prepared;
}

struct norm_run {
    const struct forward *fw;
    const float *x, *weight;
    float *out;
};

static void norm_range(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    (void)worker;
    const struct norm_run *run = ctx;
    uint64_t n = run->fw->hparams->hidden;
    for (uint32_t t = begin; t < end; t++) {
        run->fw->kernels->rmsnorm(run->x + t * n, run->weight, run->fw->hparams->norm_eps, run->out + t * n,
                                  (uint32_t)n);
    }
}

void forward_norm(struct forward *fw, const float *x, const float *weight, float *out, uint32_t tokens)
{
    struct norm_run run = {fw, x, weight, out};
    pool_for(fw->pool, tokens, 8, norm_range, &run);
}

void forward_dense(struct forward *fw, const struct matrix *gate, const struct matrix *up, const struct matrix *down,
                   struct act_rows *in, float *out, uint32_t tokens)
{
    struct scratch *s = &fw->scratch;
    uint64_t gate_bytes = 0;
    uint64_t up_bytes = 0;
    uint64_t down_bytes = 0;
    struct matmul_job jobs[2];
    const void *gate_in = forward_rows(fw, in, gate->dtype, &gate_bytes);
    jobs[0] = forward_job(fw, gate, NULL, gate_in, gate_bytes, s->gate, gate->rows, tokens);
    if (quant_row(up->dtype)->act != quant_row(gate->dtype)->act) { /* `prepared` may be rewritten for the second */
        forward_matmuls(fw, jobs, 1);
        jobs[0].rows = 0;
    }
    const void *up_in = forward_rows(fw, in, up->dtype, &up_bytes);
    jobs[1] = forward_job(fw, up, NULL, up_in, up_bytes, s->up, up->rows, tokens);
    forward_matmuls(fw, jobs, 2);
    fw->kernels->silu_mul(s->gate, s->up, s->gate, (uint64_t)tokens * gate->rows);
    struct act_rows hidden = {s->gate, gate->rows, s->prepared_hidden, fw->hidden_bytes, tokens, gate->rows, ACT_NONE};
    const void *down_in = forward_rows(fw, &hidden, down->dtype, &down_bytes);
    struct matmul_job job = forward_job(fw, down, NULL, down_in, down_bytes, out, fw->hparams->hidden, tokens);
    forward_matmuls(fw, &job, 1);
}
