/* SPDX-License-Identifier: MIT
 *
 * Calibration. A run's decode time less the time it waited for reads is what computing took. Of the runs on this
 * machine (same threads and kernels): the median of what the law leaves unexplained by other models, a layer, is the
 * cost of a layer; of the runs of this model (also same KV type and policy), those whose caches held the most similar
 * share of the experts, the medians of measured by predicted, of waiting by reading, and of the skew of hit rates. */
#include "store/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/stats.h"

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
    INT(layers),
    REAL(disk_s),
    REAL(stall_s),
    REAL(work_bytes),
    REAL(work_macs),
    REAL(law_prefill),
    REAL(stream),
    INT(steady),
};
const struct store_table run_table = {"run", columns, sizeof columns / sizeof columns[0], sizeof(struct run_row)};

bool runs_add(struct store *store, const struct run_row *row)
{
    return store_put(store, &run_table, row);
}

/* ---- what earlier runs say -------------------------------------------------------------------------- */

enum { SAMPLES_MAX = 64, NEAREST = 7, TOKENS_LEAST = 8 };
static const double alike = 0.25; /* logarithm of shares: within 28 % of each other */

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

static double median(struct samples *samples, double fallback)
{
    return samples->count == 0 ? fallback : stats_median(samples->values, samples->count);
}

/* What one run says about its model. */
struct lesson {
    double distance;            /* of its cache's share of the experts from ours, as a logarithm */
    double bytes, macs, layers; /* of a token */
    double compute_s;           /* measured, reads that were waited for left out */
    double stall;               /* waited for, by what the reads take at the disk's rate; 0: unknown */
    double skew;                /* 0: unknown */
    double prefill;             /* measured by the law; 0: unknown */
};

struct calibration {
    const struct speed_request *request;
    struct lesson lessons[SAMPLES_MAX], others[SAMPLES_MAX]; /* of this model, of others; newest first */
    uint32_t lessons_count, others_count;
    struct samples memory, reads, macs, prefill_macs; /* rates that runs measured */
    struct samples overlap;
    double scale, stall, skew, prefill; /* of the model; 0: unknown */
    double scatter;                     /* of its runs around their median, as a share of it */
};

static bool same_model(const struct calibration *c, const struct run_row *row)
{
    const struct speed_request *r = c->request;
    return strcmp(row->fingerprint, r->fingerprint) == 0 && strcmp(row->kv, r->kv) == 0 &&
           strcmp(row->policy, r->policy) == 0;
}

static double share_of(int64_t slots, int64_t experts)
{
    return experts > 0 && slots > 0 ? fmin((double)slots / (double)experts, 1) : experts > 0 ? 0.001 : 1;
}

/* Experts of a layer that `tokens` tokens touch. A third of a token's experts are those of the token before (35 % over
 * the recorded routes), the others are taken to be chosen freely. */
static double touched(const berth_speed_work *work, double tokens)
{
    double fresh = 0.65 * work->top_k / work->experts;
    return work->experts * (1 - pow(1 - fresh, tokens));
}

/* Of the selections of `tokens` tokens after a prompt, the share that a cache which started empty has never seen: what
 * it misses whatever it keeps. */
static double first_touches(const berth_speed_work *work, double prompt_tokens, double tokens)
{
    if (tokens < 1 || work->experts == 0 || work->top_k == 0) {
        return 0;
    }
    double fresh = touched(work, prompt_tokens + tokens) - touched(work, prompt_tokens);
    return fmin(fmax(fresh / (tokens * work->top_k), 0), 1);
}

static void take_lesson(struct calibration *c, const struct run_row *row, bool same)
{
    uint32_t *count = same ? &c->lessons_count : &c->others_count;
    if (*count == SAMPLES_MAX || row->tps <= 0 || row->tokens < TOKENS_LEAST || row->work_bytes <= 0) {
        return;
    }
    struct lesson *lesson = same ? &c->lessons[*count] : &c->others[*count];
    double share = share_of(row->slots, row->experts);
    /* Waiting is at most nearly all of it: what is left has measured something. */
    double compute_s = fmax(1 / row->tps - row->stall_s, 0.1 / row->tps);
    double prompt = (double)row->prompt;
    double repeats = row->steady ? 1 : 1 - first_touches(c->request->work, prompt, (double)row->tokens);
    *lesson = (struct lesson){
        .distance = fabs(log(share / share_of(c->request->slots, c->request->experts))),
        .bytes = row->work_bytes,
        .macs = row->work_macs,
        .layers = (double)row->layers,
        .compute_s = compute_s,
        .skew = berth_speed_skew(share, repeats > 0 ? row->hit / repeats : 0),
        .prefill = row->law_prefill > 0 ? row->prefill / row->law_prefill : 0,
    };
    if (row->disk_s > 0.02 / row->tps) {
        lesson->stall = fmin(fmax(row->stall_s / row->disk_s, 0.05), 4);
        double hidden = (row->disk_s - row->stall_s) / fmin(row->disk_s, compute_s);
        add_sample(&c->overlap, fmin(fmax(hidden, 0), 1));
    }
    ++*count;
}

static bool learn_row(void *user, const void *data)
{
    struct calibration *c = user;
    const struct run_row *row = data;
    bool same = same_model(c, row);
    if (row->stream > 0 && same) { /* the kernel of its type */
        add_sample(&c->memory, row->stream);
    }
    if (row->read_rate > 0 && same) { /* requests of this model's size */
        add_sample(&c->reads, row->read_rate);
    }
    if (row->decode_macs > 0 && same) { /* the kernel of its type */
        add_sample(&c->macs, row->decode_macs);
        add_sample(&c->prefill_macs, row->prefill_macs);
    }
    take_lesson(c, row, same);
    return true;
}

static bool learn(struct store *store, struct calibration *c)
{
    static struct run_row row;
    const struct speed_request *r = c->request;
    char rest[160];
    snprintf(rest, sizeof rest, "berth %lld %s", (long long)r->threads, r->isa);
    const char *const texts[2] = {r->machine, rest};
    static const char tail[] = "WHERE machine = ?1 AND engine || ' ' || threads || ' ' || isa = ?2 ORDER BY id DESC "
                               "LIMIT 128";
    return store_each(store, &run_table, tail, texts, &row, learn_row, c);
}

static int by_distance(const void *a, const void *b)
{
    double x = ((const struct lesson *)a)->distance;
    double y = ((const struct lesson *)b)->distance;
    return x < y ? -1 : x > y;
}

static double work_s(const berth_speed_machine *m, double bytes, double macs)
{
    double memory_rate = m->memory_bytes_per_s * m->efficiency;
    return fmax(memory_rate > 0 ? bytes / memory_rate : 0, m->macs_per_s > 0 ? macs / m->macs_per_s : 0);
}

/* With the rates known: the cost of a layer from other models, the rest from the runs of this one whose caches were
 * most like ours. */
static void apply(struct calibration *c, struct speed_answer *out)
{
    berth_speed_machine *m = &out->machine;
    struct samples layer = {.count = 0};
    for (uint32_t i = 0; i < c->others_count; i++) {
        const struct lesson *o = &c->others[i];
        add_sample(&layer, fmax((o->compute_s - work_s(m, o->bytes, o->macs)) / o->layers, 0));
    }
    m->layer_s = m->moe_layer_s = median(&layer, m->moe_layer_s);
    m->overlap = median(&c->overlap, m->overlap);
    out->machine_runs = c->others_count;
    out->model_runs = c->lessons_count;
    qsort(c->lessons, c->lessons_count, sizeof c->lessons[0], by_distance);
    struct samples scale = {.count = 0};
    struct samples stall = {.count = 0};
    struct samples skew = {.count = 0};
    struct samples prefill = {.count = 0};
    for (uint32_t i = 0; i < c->lessons_count && i < NEAREST; i++) {
        const struct lesson *l = &c->lessons[i];
        if (l->distance > c->lessons[0].distance + alike) {
            break;
        }
        add_sample(&scale, l->compute_s / (work_s(m, l->bytes, l->macs) + l->layers * m->moe_layer_s));
        if (l->stall > 0) {
            add_sample(&stall, l->stall);
        }
        if (l->skew > 0) {
            add_sample(&skew, l->skew);
        }
        if (l->prefill > 0) {
            add_sample(&prefill, l->prefill);
        }
    }
    c->scale = fmin(fmax(median(&scale, 1), 0.1), 10);
    for (uint32_t i = 0; i < scale.count; i++) {
        c->scatter = fmax(c->scatter, fabs(log(scale.values[i] / c->scale)));
    }
    c->stall = median(&stall, 0);
    c->skew = median(&skew, 0);
    c->prefill = fmin(fmax(median(&prefill, 1), 0.02), 20);
}

/* ---- rates ------------------------------------------------------------------------------------------ */

static double first_of(const double *rates, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rates[i] > 0) {
            return rates[i];
        }
    }
    return 0;
}
#define FIRST_OF(...) first_of((const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* Fewer threads than were measured: multiply-adds shrink with them, memory along the power of threads that goes through
 * the rates of one thread and of all. */
static void scale_to_threads(int64_t threads, const struct machine_row *machine, struct kernel_row *kernel)
{
    if (threads <= 0 || kernel->threads <= threads) {
        return;
    }
    double share = (double)threads / (double)kernel->threads;
    bool known = machine->memory_one > 0 && machine->memory_all > machine->memory_one && machine->cpus > 1;
    double power = known ? log(machine->memory_all / machine->memory_one) / log((double)machine->cpus) : 1;
    kernel->decode_macs *= share;
    kernel->prefill_macs *= share;
    kernel->stream *= pow(share, fmin(power, 1));
}

/* Given, kept by bench machine, the median of earlier runs, measured just now: the last is the shortest measurement. Of
 * the disk and the kernel, earlier runs of the model come first: they asked for what it asks for. */
static void find_rates(struct store *store, struct calibration *c, struct speed_answer *out)
{
    const struct speed_request *r = c->request;
    struct machine_row machine = {.memory_all = 0};
    struct kernel_row kernel = {.decode_macs = 0};
    struct volume_row volume = {.read_rate = 0};
    if (store != NULL) {
        machine_get(store, r->machine, &machine);
        machine_get_kernel(store, r->machine, r->dtype, &kernel);
        scale_to_threads(r->threads, &machine, &kernel);
        if (r->path != NULL) {
            machine_get_volume(store, r->machine, r->path, &volume);
        }
    }
    const tool_rates none = {0};
    const tool_rates *now = r->rates != NULL ? r->rates : &none;
    berth_speed_machine *m = &out->machine;
    m->memory_bytes_per_s =
        FIRST_OF(r->memory_rate, kernel.stream, median(&c->memory, 0), now->kernel_bytes_per_s, machine.memory_all);
    m->read_bytes_per_s = FIRST_OF(r->read_rate, median(&c->reads, 0), now->read_bytes_per_s,
                                   machine_read_rate(&volume, r->request_bytes));
    m->macs_per_s = FIRST_OF(median(&c->macs, 0), kernel.decode_macs, now->gemv_macs_per_s);
    m->prefill_macs_per_s = FIRST_OF(median(&c->prefill_macs, 0), kernel.prefill_macs, now->gemm_macs_per_s);
    out->memory_basis = r->memory_rate > 0 ? "given" : m->memory_bytes_per_s > 0 ? "measured" : "unknown";
    out->read_basis = r->read_rate > 0 ? "given" : m->read_bytes_per_s > 0 ? "measured" : "unknown";
}

/* ---- the answer ------------------------------------------------------------------------------------- */

static void add_cold_misses(const struct speed_request *r, struct speed_answer *out)
{
    if (r->run_tokens < 1) {
        return; /* the cache is full already */
    }
    double repeats = 1 - first_touches(r->work, r->prompt_tokens, r->run_tokens);
    out->hit.rate *= repeats;
    out->hit.low *= repeats * 0.9;
    out->hit.high *= repeats + (1 - repeats) / 2;
    out->hit.low = fmin(out->hit.low, out->hit.rate);
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
    if (r->has_hit) {
        out->hit = (berth_speed_hit){r->hit, r->hit, r->hit};
        out->hit_basis = "given";
    } else if (c->skew > 0) {
        out->hit = berth_speed_hit_of(share, c->skew);
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

/* The class's cost is that of four threads, and grows with them. */
static void set_layer_cost(int64_t threads, berth_speed_machine *machine)
{
    enum { CLASS_THREADS = 4 };
    if (threads > 0) {
        double cost = machine->moe_layer_s * (double)threads / CLASS_THREADS;
        machine->moe_layer_s = fmin(fmax(cost, machine->layer_s), 5 * machine->moe_layer_s);
    }
}

bool runs_predict(struct store *store, const struct speed_request *request, struct speed_answer *out)
{
    static struct calibration c; /* too large for the stack */
    memset(&c, 0, sizeof c);
    c.request = request;
    *out = (struct speed_answer){.decode = BERTH_SPEED_INIT, .prefill = BERTH_SPEED_INIT};
    out->machine = BERTH_SPEED_MACHINE_INIT;
    berth_speed_machine_class(BERTH_SPEED_MEASURED, &out->machine);
    set_layer_cost(request->threads, &out->machine);
    bool done = store == NULL || learn(store, &c);
    find_rates(store, &c, out);
    apply(&c, out);
    find_hit(&c, out);
    add_cold_misses(request, out);
    const berth_speed_work *work = request->work;
    out->work_bytes =
        work->trunk_bytes + work->expert_bytes + work->state_bytes + work->kv_token_bytes * request->ctx_tokens;
    out->work_macs = work->macs + work->kv_token_macs * request->ctx_tokens;
    bool resident = request->resident || request->experts == 0;
    double share = resident ? 1 : (double)request->slots / (double)request->experts;
    share = request->run_tokens > 0 && request->experts > 0 ? fmin(share, 0.9999) : share; /* empty at first */
    out->machine.margin = c.lessons_count > 0  ? fmin(fmax(exp(c.scatter) - 1, 0.15), 2)
                          : c.others_count > 0 ? 0.25
                                               : 0.4;
    if (request->prompt_tokens >= 1 && request->chunk_tokens >= 1) {
        berth_speed_prefill(work, &out->machine, request->prompt_tokens, request->chunk_tokens, share, &out->prefill,
                            NULL);
        out->law_prefill = out->prefill.tokens_per_s;
        out->prefill.tokens_per_s *= c.prefill;
        out->prefill.low *= c.prefill;
        out->prefill.high *= c.prefill;
    }
    berth_speed_machine scaled = out->machine;
    scaled.memory_bytes_per_s /= c.scale;
    scaled.macs_per_s /= c.scale;
    scaled.layer_s *= c.scale;
    scaled.moe_layer_s *= c.scale;
    if (c.stall > 0) { /* what reads cost beyond computing is known: nothing else of them is hidden */
        scaled.overlap = 0;
        scaled.read_bytes_per_s /= c.stall;
    }
    berth_speed_decode(work, &scaled, request->ctx_tokens, &out->hit, &out->decode, NULL);
    say_basis(out);
    return done;
}
