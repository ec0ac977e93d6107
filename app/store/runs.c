/* SPDX-License-Identifier: MIT
 *
 * Calibration. A run's decode time less the time it waited for reads is what computing took. Over the runs on this
 * machine (same engine, threads and kernels) the median of what the law leaves unexplained, a layer, becomes the cost
 * of a layer; over the runs of one model (also same KV type and policy) the median of measured by predicted scales it,
 * and the median skew of its hit rates replaces the generic one. */
#include "store/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(field)                                                                             \
    {                                                                                           \
#field, STORE_TEXT, offsetof(struct run_row, field), sizeof((struct run_row *)0)->field \
    }
#define INT(field)                                            \
    {                                                         \
#field, STORE_INT, offsetof(struct run_row, field), 0 \
    }
#define REAL(field)                                            \
    {                                                          \
#field, STORE_REAL, offsetof(struct run_row, field), 0 \
    }

static const struct store_column columns[] = {
    INT(at),
    TEXT(kind),
    TEXT(machine),
    TEXT(fingerprint),
    TEXT(model),
    TEXT(path),
    TEXT(engine),
    TEXT(kv),
    TEXT(policy),
    TEXT(isa),
    TEXT(io),
    INT(threads),
    INT(budget),
    INT(ctx),
    INT(chunk),
    INT(slots),
    INT(experts),
    INT(resident),
    INT(predicted_peak),
    INT(peak),
    REAL(predicted_tps),
    REAL(predicted_low),
    REAL(predicted_high),
    TEXT(basis),
    REAL(tps),
    INT(tokens),
    REAL(predicted_prefill),
    REAL(prefill),
    INT(prompt),
    REAL(predicted_hit),
    REAL(hit),
    REAL(ctx_mean),
    REAL(memory_rate),
    REAL(read_rate),
    REAL(decode_macs),
    REAL(prefill_macs),
    REAL(work_s),
    INT(layers),
    REAL(disk_s),
    REAL(stall_s),
};
const struct store_table run_table = {"run", columns, sizeof columns / sizeof columns[0], sizeof(struct run_row)};

bool runs_add(struct store *store, const struct run_row *row)
{
    return store_put(store, &run_table, row);
}

/* ---- what earlier runs say -------------------------------------------------------------------------- */

enum { SAMPLES_MAX = 64, TOKENS_LEAST = 8 };

struct samples {
    double values[SAMPLES_MAX];
    uint32_t count;
};

static void add_sample(struct samples *samples, double value)
{
    if (samples->count < SAMPLES_MAX && isfinite(value)) {
        samples->values[samples->count++] = value;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(struct samples *samples, double fallback)
{
    if (samples->count == 0) {
        return fallback;
    }
    qsort(samples->values, samples->count, sizeof samples->values[0], by_value);
    uint32_t half = samples->count / 2;
    return samples->count % 2 == 1 ? samples->values[half] : (samples->values[half - 1] + samples->values[half]) / 2;
}

struct calibration {
    const struct speed_request *request;
    double layer_s; /* second pass: the machine's */
    struct samples layer, overlap, scale, skew;
    struct samples memory, reads, macs, prefill_macs; /* rates that runs measured, newest first */
};

static bool usable(const struct run_row *row)
{
    return row->tps > 0 && row->tokens >= TOKENS_LEAST && row->work_s > 0 && row->layers > 0;
}

static bool same_model(const struct calibration *c, const struct run_row *row)
{
    const struct speed_request *r = c->request;
    return strcmp(row->fingerprint, r->fingerprint) == 0 && strcmp(row->kv, r->kv) == 0 &&
           strcmp(row->policy, r->policy) == 0;
}

/* Computing alone: reads that were waited for are not part of it. */
static double compute_s(const struct run_row *row)
{
    return fmax(1 / row->tps - row->stall_s, 0.1 / row->tps);
}

static bool learn_machine(void *user, const void *data)
{
    struct calibration *c = user;
    const struct run_row *row = data;
    if (row->memory_rate > 0) {
        add_sample(&c->memory, row->memory_rate);
    }
    if (row->read_rate > 0) {
        add_sample(&c->reads, row->read_rate);
    }
    if (same_model(c, row) && row->decode_macs > 0) { /* the kernel of this model's type */
        add_sample(&c->macs, row->decode_macs);
        add_sample(&c->prefill_macs, row->prefill_macs);
    }
    if (usable(row)) {
        double resident_s = compute_s(row);
        add_sample(&c->layer, fmax((resident_s - row->work_s) / (double)row->layers, 0));
        if (row->disk_s > 0.05 * resident_s) {
            add_sample(&c->overlap, fmin(fmax((row->disk_s - row->stall_s) / fmin(row->disk_s, resident_s), 0), 1));
        }
    }
    return true;
}

static bool learn_model(void *user, const void *data)
{
    struct calibration *c = user;
    const struct run_row *row = data;
    if (same_model(c, row) && usable(row)) {
        add_sample(&c->scale, compute_s(row) / (row->work_s + (double)row->layers * c->layer_s));
    }
    if (same_model(c, row) && row->experts > 0 && row->tokens >= TOKENS_LEAST) {
        double skew = berth_speed_skew((double)row->slots / (double)row->experts, row->hit);
        if (skew > 0) {
            add_sample(&c->skew, skew);
        }
    }
    return true;
}

static bool learn(struct store *store, struct calibration *c, struct speed_answer *out)
{
    static struct run_row row;
    const struct speed_request *r = c->request;
    char rest[160];
    snprintf(rest, sizeof rest, "berth %lld %s", (long long)r->threads, r->isa);
    const char *const texts[2] = {r->machine, rest};
    static const char tail[] = "WHERE machine = ?1 AND engine || ' ' || threads || ' ' || isa = ?2 ORDER BY id DESC "
                               "LIMIT 64";
    if (!store_each(store, &run_table, tail, texts, &row, learn_machine, c)) {
        return false;
    }
    out->machine_runs = c->layer.count;
    c->layer_s = median(&c->layer, out->machine.moe_layer_s);
    out->machine.layer_s = out->machine.moe_layer_s = c->layer_s;
    out->machine.overlap = median(&c->overlap, out->machine.overlap);
    if (!store_each(store, &run_table, tail, texts, &row, learn_model, c)) {
        return false;
    }
    out->model_runs = c->scale.count;
    return true;
}

/* ---- rates ------------------------------------------------------------------------------------------ */

/* Given, measured just now, kept by bench machine, seen by earlier runs. */
static void find_rates(struct store *store, struct calibration *c, struct speed_answer *out)
{
    const struct speed_request *r = c->request;
    struct machine_row machine = {.memory_all = 0};
    struct kernel_row kernel = {.decode_macs = 0};
    struct volume_row volume = {.read_rate = 0};
    if (store != NULL) {
        machine_get(store, r->machine, &machine);
        machine_get_kernel(store, r->machine, r->dtype, &kernel);
        if (r->path != NULL) {
            machine_get_volume(store, r->machine, r->path, &volume);
        }
    }
    const tool_rates none = {0};
    const tool_rates *now = r->rates != NULL ? r->rates : &none;
    const double memory[] = {r->memory_rate, now->memory_bytes_per_s, machine.memory_all, median(&c->memory, 0)};
    const double reads[] = {r->read_rate, now->read_bytes_per_s, volume.read_rate, median(&c->reads, 0)};
    const double macs[] = {0, now->gemv_macs_per_s, kernel.decode_macs, median(&c->macs, 0)};
    const double prefill[] = {0, now->gemm_macs_per_s, kernel.prefill_macs, median(&c->prefill_macs, 0)};
    out->memory_basis = out->read_basis = "unknown";
    for (int i = 3; i >= 0; i--) {
        if (memory[i] > 0) {
            out->machine.memory_bytes_per_s = memory[i];
            out->memory_basis = i == 0 ? "given" : "measured";
        }
        if (reads[i] > 0) {
            out->machine.read_bytes_per_s = reads[i];
            out->read_basis = i == 0 ? "given" : "measured";
        }
        out->machine.macs_per_s = macs[i] > 0 ? macs[i] : out->machine.macs_per_s;
        out->machine.prefill_macs_per_s = prefill[i] > 0 ? prefill[i] : out->machine.prefill_macs_per_s;
    }
}

/* ---- the answer ------------------------------------------------------------------------------------- */

/* Experts of a layer that `tokens` tokens touch. A third of a token's experts are those of the token before (35 % over
 * the recorded routes), the others are taken to be chosen freely. */
static double touched(const berth_speed_work *work, double tokens)
{
    double fresh = 0.65 * work->top_k / work->experts;
    return work->experts * (1 - pow(1 - fresh, tokens));
}

/* What a cache that starts empty must read, whatever it keeps. */
static void add_cold_misses(const struct speed_request *r, struct speed_answer *out)
{
    if (r->run_tokens < 1 || r->work->experts == 0 || r->work->top_k == 0) {
        return;
    }
    double fresh = touched(r->work, r->prompt_tokens + r->run_tokens) - touched(r->work, r->prompt_tokens);
    double most = 1 - fresh / (r->run_tokens * r->work->top_k);
    most = fmin(fmax(most, 0), 1);
    out->hit.rate = fmin(out->hit.rate, most);
    out->hit.low = fmin(out->hit.low, most * 0.9);
    out->hit.high = fmin(out->hit.high, most + (1 - most) / 2);
    out->hit.high = fmax(out->hit.high, out->hit.rate);
}

static void find_hit(struct calibration *c, struct speed_answer *out)
{
    const struct speed_request *r = c->request;
    double share = r->experts > 0 ? (double)r->slots / (double)r->experts : 1;
    out->hit = (berth_speed_hit){1, 1, 1};
    out->hit_basis = "resident";
    if (r->resident || share >= 1) {
        return;
    }
    if (c->skew.count > 0) {
        out->hit = berth_speed_hit_of(share, median(&c->skew, 0));
        out->hit_basis = "runs";
    } else if (r->known_hit > 0) {
        double skew = berth_speed_skew(share, r->known_hit);
        out->hit = skew > 0 ? berth_speed_hit_of(share, skew)
                            : (berth_speed_hit){r->known_hit, r->known_hit * 0.9, r->known_hit};
        out->hit_basis = "ledger";
    } else {
        out->hit = berth_speed_hit_of(share, 0);
        out->hit_basis = "generic";
    }
}

static void say_basis(struct speed_answer *out)
{
    if (out->decode.tokens_per_s <= 0) {
        snprintf(out->basis, sizeof out->basis, "unknown: %s%s%s not measured (berth bench machine)",
                 out->machine.memory_bytes_per_s > 0 ? "" : "memory",
                 out->machine.memory_bytes_per_s > 0 || out->machine.read_bytes_per_s > 0 ? "" : " and ",
                 out->machine.read_bytes_per_s > 0 ? "" : "disk");
        return;
    }
    if (out->model_runs > 0) {
        snprintf(out->basis, sizeof out->basis, "calibrated by %u run%s of this model", (unsigned)out->model_runs,
                 out->model_runs > 1 ? "s" : "");
    } else if (out->machine_runs > 0) {
        snprintf(out->basis, sizeof out->basis, "calibrated by %u run%s of other models", (unsigned)out->machine_runs,
                 out->machine_runs > 1 ? "s" : "");
    } else {
        snprintf(out->basis, sizeof out->basis, "the law alone");
    }
    size_t used = strlen(out->basis);
    snprintf(out->basis + used, sizeof out->basis - used, ", memory %s, hits %s", out->memory_basis, out->hit_basis);
}

bool runs_predict(struct store *store, const struct speed_request *request, struct speed_answer *out)
{
    static struct calibration c; /* 4 KiB of samples */
    memset(&c, 0, sizeof c);
    c.request = request;
    *out = (struct speed_answer){.decode = BERTH_SPEED_INIT, .prefill = BERTH_SPEED_INIT};
    out->machine = BERTH_SPEED_MACHINE_INIT;
    berth_speed_machine_class(BERTH_SPEED_MEASURED, &out->machine);
    bool done = store == NULL || learn(store, &c, out);
    find_rates(store, &c, out);
    find_hit(&c, out);
    add_cold_misses(request, out);
    double scale = fmin(fmax(median(&c.scale, 1), 0.2), 5);
    /* The law's own figure, before this model's scale: what the next calibration compares with. */
    double bytes = request->work->trunk_bytes + request->work->expert_bytes + request->work->state_bytes +
                   request->work->kv_token_bytes * request->ctx_tokens;
    double memory_rate = out->machine.memory_bytes_per_s * out->machine.efficiency;
    double macs = request->work->macs + request->work->kv_token_macs * request->ctx_tokens;
    out->work_s = fmax(memory_rate > 0 ? bytes / memory_rate : 0,
                       out->machine.macs_per_s > 0 ? macs / out->machine.macs_per_s : 0);
    out->machine.memory_bytes_per_s /= scale;
    out->machine.macs_per_s /= scale;
    out->machine.layer_s *= scale;
    out->machine.moe_layer_s *= scale;
    out->machine.margin = out->model_runs > 0 ? 0.15 : out->machine_runs > 0 ? 0.2 : 0.3;
    berth_speed_decode(request->work, &out->machine, request->ctx_tokens, &out->hit, &out->decode, NULL);
    double share = request->resident || request->experts == 0 ? 1 : (double)request->slots / (double)request->experts;
    if (request->prompt_tokens >= 1 && request->chunk_tokens >= 1) {
        berth_speed_prefill(request->work, &out->machine, request->prompt_tokens, request->chunk_tokens, share,
                            &out->prefill, NULL);
    }
    say_basis(out);
    return done;
}
