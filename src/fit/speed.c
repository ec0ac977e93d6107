/* SPDX-License-Identifier: MIT
 *
 * The speed law. Resident: t = max(bytes / (bandwidth x efficiency), multiply-adds / kernel rate) + layers x cost.
 * Streaming: with d = missed expert bytes / disk rate, t = max(t, d) + (1 - overlap) x min(t, d).
 *
 * The constants of the classes are least squares of our own over published runs (docs/models.md): one pair of numbers a
 * class, not a machine. */
#include <math.h>

#include "base/error.h"
#include "berth.h"

/* ---- classes ---- */

static const struct class_row {
    double efficiency, layer_s, moe_layer_s, overlap, margin;
} class_rows[] = {
    /* Of four threads: a layer with experts meets at some ten barriers, about 20 us a thread (docs/measured.md). */
    [BERTH_SPEED_MEASURED] = {.efficiency = 0.95, .layer_s = 60e-6, .moe_layer_s = 80e-6, .overlap = 0, .margin = 0.2},
    [BERTH_SPEED_CPU] = {.efficiency = 0.7, .layer_s = 60e-6, .moe_layer_s = 200e-6, .overlap = 0, .margin = 0.4},
    [BERTH_SPEED_UNIFIED] = {.efficiency = 0.9, .layer_s = 80e-6, .moe_layer_s = 175e-6, .overlap = 0.5, .margin = 0.1},
    [BERTH_SPEED_SHARED] =
        {.efficiency = 0.75, .layer_s = 80e-6, .moe_layer_s = 100e-6, .overlap = 0.5, .margin = 0.25},
    [BERTH_SPEED_GPU] = {.efficiency = 0.91, .layer_s = 80e-6, .moe_layer_s = 100e-6, .overlap = 0.5, .margin = 0.15},
};

void berth_speed_machine_class(berth_speed_class kind, berth_speed_machine *machine)
{
    size_t at = (size_t)kind < sizeof class_rows / sizeof class_rows[0] ? (size_t)kind : BERTH_SPEED_CPU;
    const struct class_row *row = &class_rows[at];
    machine->efficiency = row->efficiency;
    machine->layer_s = row->layer_s;
    machine->moe_layer_s = row->moe_layer_s;
    machine->overlap = row->overlap;
    machine->margin = row->margin;
}

/* ---- hits ---- */

/* Over five published recordings (models of 64 to 256 experts a layer, 1 to 12 cycles of slots, the default policy) and
 * the bundled model one number a model describes its hit rates: odds of a miss = skew x odds of an expert not being
 * held. It lay between these two; the mean is geometric. Untrained routers have 1. */
static const double skew_low = 0.045;
static const double skew_mean = 0.11;
static const double skew_high = 0.27;

static double hit_rate(double share, double skew)
{
    return share + (1 - share) * skew > 0 ? share / (share + (1 - share) * skew) : 0;
}

berth_speed_hit berth_speed_hit_of(double slots_share, double skew)
{
    double share = slots_share > 0 ? fmin(slots_share, 1) : 0; /* not a number: nothing is held */
    if (skew > 0) {
        /* What was seen once differs the next time: other prompts, other experts. */
        return (berth_speed_hit){hit_rate(share, fmin(skew, 1)), hit_rate(share, fmin(skew * 1.25, 1)),
                                 hit_rate(share, fmin(skew * 0.8, 1))};
    }
    return (berth_speed_hit){hit_rate(share, skew_mean), hit_rate(share, skew_high), hit_rate(share, skew_low)};
}

double berth_speed_skew(double slots_share, double rate)
{
    if (!(slots_share > 0 && slots_share < 1 && rate > 0 && rate < 1)) {
        return 0;
    }
    return fmin(slots_share * (1 - rate) / (rate * (1 - slots_share)), 1);
}

/* ---- the law ---- */

static bool is_amount(double value)
{
    return value >= 0 && value <= 1e30;
}

static berth_status check(const berth_speed_work *w, const berth_speed_machine *m, const berth_speed *out,
                          berth_error *err)
{
    if (w == NULL || m == NULL || out == NULL || w->struct_size < sizeof *w || m->struct_size < sizeof *m ||
        out->struct_size < sizeof *out) {
        return error_set(err, BERTH_ERR_ARGUMENT, "work, machine and result must be initialised with their _INIT");
    }
    const double amounts[] = {w->trunk_bytes,        w->expert_bytes, w->experts_bytes, w->state_bytes,
                              w->kv_token_bytes,     w->macs,         w->kv_token_macs, m->memory_bytes_per_s,
                              m->read_bytes_per_s,   m->macs_per_s,   m->layer_s,       m->moe_layer_s,
                              m->prefill_macs_per_s, m->margin};
    for (size_t i = 0; i < sizeof amounts / sizeof amounts[0]; i++) {
        if (!is_amount(amounts[i])) {
            return error_set(err, BERTH_ERR_ARGUMENT, "a size or rate is %g, want 0 to 1e30", amounts[i]);
        }
    }
    if (!(m->efficiency > 0 && m->efficiency <= 1 && m->overlap >= 0 && m->overlap <= 1)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "efficiency %g and overlap %g are shares of 1", m->efficiency,
                         m->overlap);
    }
    if (w->moe_layers > w->layers) {
        return error_set(err, BERTH_ERR_ARGUMENT, "%u layers with experts of %u", (unsigned)w->moe_layers,
                         (unsigned)w->layers);
    }
    return BERTH_OK;
}

static double over(double amount, double rate)
{
    return amount > 0 && rate > 0 ? amount / rate : 0;
}

static double streamed(double resident_s, double disk_s, double overlap)
{
    return fmax(resident_s, disk_s) + (1 - overlap) * fmin(resident_s, disk_s);
}

static const char *binding_of(const berth_speed *s)
{
    const struct {
        const char *name;
        double seconds;
    } terms[] = {{"memory", s->memory_s > s->compute_s ? s->memory_s : 0},
                 {"compute", s->compute_s >= s->memory_s ? s->compute_s : 0},
                 {"layers", s->layers_s},
                 {"disk", s->disk_s}};
    const char *name = "unknown";
    double most = 0;
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++) {
        if (terms[i].seconds > most) {
            most = terms[i].seconds;
            name = terms[i].name;
        }
    }
    return name;
}

static double layers_s(const berth_speed_work *w, const berth_speed_machine *m)
{
    return (w->layers - w->moe_layers) * m->layer_s + w->moe_layers * m->moe_layer_s;
}

berth_status berth_speed_decode(const berth_speed_work *work, const berth_speed_machine *machine, double context_tokens,
                                const berth_speed_hit *hit, berth_speed *out, berth_error *err)
{
    TRY(check(work, machine, out, err));
    if (!is_amount(context_tokens) ||
        (hit != NULL && !(hit->low >= 0 && hit->low <= hit->rate && hit->rate <= hit->high && hit->high <= 1))) {
        return error_set(err, BERTH_ERR_ARGUMENT, "a context of %g tokens, or a hit rate that is no share",
                         context_tokens);
    }
    berth_speed result = BERTH_SPEED_INIT;
    double bytes = work->trunk_bytes + work->expert_bytes + work->state_bytes + work->kv_token_bytes * context_tokens;
    result.memory_s = over(bytes, machine->memory_bytes_per_s * machine->efficiency);
    result.compute_s = over(work->macs + work->kv_token_macs * context_tokens, machine->macs_per_s);
    result.layers_s = layers_s(work, machine);
    double resident_s = fmax(result.memory_s, result.compute_s) + result.layers_s;
    bool known = machine->memory_bytes_per_s > 0;
    double best_s = resident_s;
    double worst_s = resident_s;
    double mean_s = resident_s;
    if (hit != NULL && work->expert_bytes > 0 && hit->low < 1) {
        known = known && machine->read_bytes_per_s > 0;
        result.disk_s = over(work->expert_bytes * (1 - hit->rate), machine->read_bytes_per_s);
        mean_s = streamed(resident_s, result.disk_s, machine->overlap);
        best_s = streamed(resident_s, over(work->expert_bytes * (1 - hit->high), machine->read_bytes_per_s),
                          machine->overlap);
        worst_s = streamed(resident_s, over(work->expert_bytes * (1 - hit->low), machine->read_bytes_per_s),
                           machine->overlap);
    }
    result.binding = "unknown";
    if (known && mean_s > 0) {
        result.binding = binding_of(&result);
        result.tokens_per_s = 1 / mean_s;
        result.low = 1 / (worst_s * (1 + machine->margin));
        result.high = (1 + machine->margin) / best_s;
    }
    result.struct_size = out->struct_size;
    *out = result;
    return BERTH_OK;
}

/* base^count, count whole. */
static double power(double base, double count)
{
    double result = 1;
    for (uint64_t n = count < 1e9 ? (uint64_t)count : 1000000000u; n > 0; n /= 2) {
        result *= n % 2 == 1 ? base : 1;
        base *= base;
    }
    return result;
}

berth_status berth_speed_prefill(const berth_speed_work *work, const berth_speed_machine *machine, double prompt_tokens,
                                 double chunk_tokens, double slots_share, berth_speed *out, berth_error *err)
{
    TRY(check(work, machine, out, err));
    if (!(is_amount(prompt_tokens) && prompt_tokens >= 1 && is_amount(chunk_tokens) && chunk_tokens >= 1 &&
          slots_share >= 0 && slots_share <= 1)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "a prompt of %g tokens in chunks of %g with %g of the experts held",
                         prompt_tokens, chunk_tokens, slots_share);
    }
    berth_speed result = BERTH_SPEED_INIT;
    double chunk = fmin(prompt_tokens, chunk_tokens);
    double chunks = ceil(prompt_tokens / chunk);
    /* A chunk streams the trunk once, and each expert that one of its tokens selects, were they to choose freely. */
    double touched = work->experts > 0 && work->top_k <= work->experts
                         ? 1 - power(1 - (double)work->top_k / work->experts, chunk)
                         : 0;
    double experts = work->experts_bytes * touched;
    result.memory_s = over((work->trunk_bytes + experts) * chunks + work->kv_token_bytes * prompt_tokens,
                           machine->memory_bytes_per_s * machine->efficiency);
    result.compute_s =
        over((work->macs + work->kv_token_macs * prompt_tokens / 2) * prompt_tokens, machine->prefill_macs_per_s);
    result.layers_s = layers_s(work, machine) * chunks;
    double resident_s = fmax(result.memory_s, result.compute_s) + result.layers_s;
    bool known = machine->memory_bytes_per_s > 0 && machine->prefill_macs_per_s > 0;
    if (slots_share < 1 && experts > 0) {
        known = known && machine->read_bytes_per_s > 0;
        /* The first chunk finds the cache empty. */
        result.disk_s = over(experts + (chunks - 1) * experts * (1 - slots_share), machine->read_bytes_per_s);
    }
    double seconds = streamed(resident_s, result.disk_s, result.disk_s > 0 ? machine->overlap : 1);
    result.binding = "unknown";
    if (known && seconds > 0) {
        result.binding = binding_of(&result);
        result.tokens_per_s = prompt_tokens / seconds;
        result.low = result.tokens_per_s / (1 + machine->margin);
        result.high = result.tokens_per_s * (1 + machine->margin);
    }
    result.struct_size = out->struct_size;
    *out = result;
    return BERTH_OK;
}
