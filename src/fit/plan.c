/* SPDX-License-Identifier: MIT */
#include "fit/plan.h"

#include <stdio.h>

#include "base/checked.h"
#include "os/cpu.h"
#include "os/memory.h"
#include "os/thread.h"

static const char *const line_names[BERTH_LINE_COUNT] = {"trunk", "kv",     "state",   "scratch", "slots", "staging",
                                                         "text",  "tables", "threads", "process", "app",   "device"};

/* Prefill chunks that the automatic choice tries, largest first. */
static const uint32_t chunk_rows[] = {512, 256, 128, 64, 32, 16, 8};
enum {
    CHUNK_ROWS = sizeof chunk_rows / sizeof chunk_rows[0],
    CHUNK_FULL = 64,
    CTX_DEFAULT = 4096,
    IO_THREADS_DEFAULT = 4
};

const char *berth_line_name(berth_line line)
{
    return (unsigned)line < BERTH_LINE_COUNT ? line_names[line] : NULL;
}

bool plan_line_is_region(berth_line line)
{
    return line != BERTH_LINE_PROCESS && line != BERTH_LINE_APP && line != BERTH_LINE_DEVICE;
}

uint64_t plan_region(const uint64_t line_bytes[BERTH_LINE_COUNT], uint64_t offsets[BERTH_LINE_COUNT])
{
    uint64_t total = 0;
    for (int line = 0; line < BERTH_LINE_COUNT; line++) {
        if (plan_line_is_region((berth_line)line)) {
            offsets[line] = total;
            total += size_round_up((size_t)line_bytes[line], OS_PAGE_BYTES);
        }
    }
    return total;
}

/* ---- measuring ---- */

struct solver {
    struct spec *spec;
    const struct plan_request *request;
    struct engine_dims dims;
    uint64_t lines[BERTH_LINE_COUNT];
    berth_error *err;
};

/* Total bytes of the run phase with the solver's dims; fills lines. */
static berth_status measure(struct solver *s, uint64_t *total)
{
    struct arena arenas[BERTH_LINE_COUNT];
    struct engine engine;
    memset(&engine, 0, sizeof engine);
    for (int line = 0; line < BERTH_LINE_COUNT; line++) {
        arena_measure(&arenas[line]);
    }
    TRY(engine_layout(arenas, s->spec, &s->dims, &engine, s->err));
    for (int line = 0; line < BERTH_LINE_COUNT; line++) {
        s->lines[line] = size_round_up((size_t)arenas[line].used_bytes, OS_PAGE_BYTES);
    }
    uint64_t offsets[BERTH_LINE_COUNT];
    uint64_t region = plan_region(s->lines, offsets);
    s->lines[BERTH_LINE_PROCESS] = os_process_bytes(region, s->lines[BERTH_LINE_THREADS] / OS_STACK_BYTES);
    s->lines[BERTH_LINE_APP] = s->request->config->app_bytes;
    *total = region;
    if (u64_add_overflows(*total, s->lines[BERTH_LINE_PROCESS], total) ||
        u64_add_overflows(*total, s->lines[BERTH_LINE_APP], total)) {
        *total = UINT64_MAX;
    }
    return BERTH_OK;
}

/* Peak of the open phase: headers and tokenizer work (measuring a tokenizer does all that building it does), what is
 * already built (text, tables), and the process. */
static uint64_t open_bytes(const struct solver *s)
{
    return spec_peak_bytes(s->spec) + s->lines[BERTH_LINE_TEXT] + s->lines[BERTH_LINE_TABLES] +
           s->lines[BERTH_LINE_PROCESS] + s->lines[BERTH_LINE_APP];
}

static berth_status set_slots(struct solver *s, uint64_t bytes)
{
    if (s->spec->catalog.layers == 0) {
        s->dims.slots = (struct slot_counts){0};
        return BERTH_OK;
    }
    return catalog_slots(&s->spec->catalog, bytes, &s->dims.slots, s->err);
}

/* Total with slots of `bytes`. */
static berth_status total_with(struct solver *s, uint64_t bytes, uint64_t *total)
{
    TRY(set_slots(s, bytes));
    return measure(s, total);
}

/* The most slots that keep the total within the budget, at least `least_bytes` (known to fit). */
static berth_status fill_slots(struct solver *s, uint64_t least_bytes)
{
    uint64_t budget = s->request->budget_bytes;
    uint64_t all = catalog_all_bytes(&s->spec->catalog);
    uint64_t total = 0;
    TRY(total_with(s, all, &total));
    while (total > budget) {
        uint64_t over = total - budget;
        uint64_t bytes = s->dims.slots.bytes;
        bytes = bytes > over && bytes - over > least_bytes ? bytes - over : least_bytes;
        TRY(total_with(s, bytes, &total));
        if (bytes == least_bytes) {
            break;
        }
    }
    return BERTH_OK;
}

/* ---- choices ---- */

static berth_status check_config(const struct solver *s)
{
    const berth_model_config *c = s->request->config;
    const struct hparams *h = &s->spec->hparams;
    if (c->ctx_tokens > h->ctx_max) {
        return error_set(s->err, BERTH_ERR_ARGUMENT, "a context of %u tokens is more than the model's maximum of %u",
                         (unsigned)c->ctx_tokens, (unsigned)h->ctx_max);
    }
    if (c->threads > POOL_THREADS_MAX || c->io_threads > IO_THREADS_MAX) {
        return error_set(s->err, BERTH_ERR_ARGUMENT, "at most %d compute and %d I/O threads", (int)POOL_THREADS_MAX,
                         (int)IO_THREADS_MAX);
    }
    if ((unsigned)c->kv_type > BERTH_KV_Q8_0) {
        return error_set(s->err, BERTH_ERR_ARGUMENT, "unknown KV cache type %d", (int)c->kv_type);
    }
    return BERTH_OK;
}

static void base_dims(struct solver *s)
{
    const berth_model_config *c = s->request->config;
    const struct hparams *h = &s->spec->hparams;
    s->dims = (struct engine_dims){.threads = c->threads > 0 ? c->threads : os_cpu_count(),
                                   .io_threads = c->io_threads > 0 ? c->io_threads : IO_THREADS_DEFAULT,
                                   .kv_type = c->kv_type == BERTH_KV_DEFAULT ? BERTH_KV_F16 : c->kv_type,
                                   .policy = c->policy,
                                   .residency = {.ledger = c->ledger != BERTH_LEDGER_OFF, .record = c->record_routes},
                                   .io_engine = c->io_engine,
                                   .host_bytes = s->request->host_bytes,
                                   .text_only = c->mode == BERTH_OPEN_TEXT};
    s->dims.threads = s->dims.threads < POOL_THREADS_MAX ? s->dims.threads : POOL_THREADS_MAX;
    uint32_t fallback = h->ctx_max < CTX_DEFAULT ? h->ctx_max : CTX_DEFAULT;
    s->dims.ctx_tokens = c->ctx_tokens > 0 ? c->ctx_tokens : fallback;
}

static uint32_t chunk_limit(const struct solver *s, uint32_t chunk)
{
    return chunk < s->dims.ctx_tokens ? chunk : s->dims.ctx_tokens;
}

/* The smallest chunk that may be used: the one asked for, or the last row. */
static uint32_t least_chunk(const struct solver *s)
{
    uint32_t asked = s->request->config->chunk_tokens;
    return chunk_limit(s, asked > 0 ? asked : chunk_rows[CHUNK_ROWS - 1]);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Scratch may take an eighth of what is left for slots, so that more budget does not buy a larger chunk with cached
 * experts. */
static bool chunk_is_modest(const struct solver *s, uint64_t bytes, uint64_t total)
{
    uint64_t room = bytes + (s->request->budget_bytes - total);
    return s->lines[BERTH_LINE_SCRATCH] <= room / 8;
}

/* The largest chunk, not under `least`, with which `bytes` of slots still fit; 0: none. With `modest` all but the
 * smallest must be modest as well. */
static berth_status chunk_with(struct solver *s, uint64_t bytes, uint32_t least, bool modest, uint32_t *chunk)
{
    uint32_t asked = s->request->config->chunk_tokens;
    *chunk = 0;
    for (int i = 0; i < CHUNK_ROWS && *chunk == 0 && (asked > 0 || chunk_rows[i] >= least); i++) {
        s->dims.chunk_tokens = chunk_limit(s, asked > 0 ? asked : chunk_rows[i]);
        uint64_t total = 0;
        TRY(total_with(s, bytes, &total));
        bool fits = total <= s->request->budget_bytes;
        bool last = asked > 0 || i + 1 == CHUNK_ROWS;
        *chunk = fits && (!modest || last || chunk_is_modest(s, bytes, total)) ? s->dims.chunk_tokens : 0;
        if (asked > 0) {
            break;
        }
    }
    return BERTH_OK;
}

/* The chunk is the largest with which every expert stays resident (if one of at least CHUNK_FULL does), otherwise a
 * modest one beside two cycles of slots, then one, then the largest beside what the neediest layer must have. */
static berth_status choose(struct solver *s)
{
    const struct catalog *catalog = &s->spec->catalog;
    uint64_t all = catalog_all_bytes(catalog);
    uint64_t hard = catalog_hard_floor_bytes(catalog);
    uint64_t cycle = catalog_cycle_bytes(catalog);
    uint64_t wants[4] = {all, min_u64(all, 2 * cycle), min_u64(all, cycle), hard};
    for (int i = 0; i < 4; i++) {
        uint32_t chunk = 0;
        TRY(chunk_with(s, wants[i], i == 0 ? CHUNK_FULL : 0, i == 1 || i == 2, &chunk));
        if (chunk > 0) {
            s->dims.chunk_tokens = chunk;
            return fill_slots(s, wants[i]);
        }
    }
    return error_set(s->err, BERTH_ERR_INTERNAL, "a plan at the hard floor does not fit a budget above it");
}

/* Floors at the smallest chunk, full at the smallest that full residency accepts. */
static berth_status floors(struct solver *s, berth_plan *plan)
{
    const struct catalog *catalog = &s->spec->catalog;
    uint32_t asked = s->request->config->chunk_tokens;
    s->dims.chunk_tokens = chunk_limit(s, asked > 0 ? asked : CHUNK_FULL);
    TRY(total_with(s, catalog_all_bytes(catalog), &plan->full_bytes));
    s->dims.chunk_tokens = least_chunk(s);
    TRY(total_with(s, catalog_cycle_bytes(catalog), &plan->floor_bytes));
    TRY(total_with(s, catalog_hard_floor_bytes(catalog), &plan->hard_floor_bytes));
    uint64_t open = open_bytes(s);
    plan->full_bytes = plan->full_bytes > open ? plan->full_bytes : open;
    plan->floor_bytes = plan->floor_bytes > open ? plan->floor_bytes : open;
    plan->hard_floor_bytes = plan->hard_floor_bytes > open ? plan->hard_floor_bytes : open;
    return BERTH_OK;
}

/* Largest context whose hard floor is within the budget: bisection over the same layouts. */
static berth_status max_ctx(struct solver *s, berth_plan *plan)
{
    struct engine_dims keep = s->dims;
    uint32_t low = 0;
    uint32_t high = s->spec->hparams.ctx_max;
    while (low < high) {
        uint32_t mid = low + (high - low + 1) / 2;
        uint64_t total = 0;
        s->dims.ctx_tokens = mid;
        s->dims.chunk_tokens = least_chunk(s);
        TRY(total_with(s, catalog_hard_floor_bytes(&s->spec->catalog), &total));
        if (total <= s->request->budget_bytes) {
            low = mid;
        } else {
            high = mid - 1;
        }
    }
    plan->ctx_max_tokens = low;
    s->dims = keep;
    return BERTH_OK;
}

static void report(const struct solver *s, berth_plan *plan)
{
    const struct catalog *catalog = &s->spec->catalog;
    plan->run_bytes = 0;
    for (int line = 0; line < BERTH_LINE_COUNT; line++) {
        plan->line_bytes[line] = s->lines[line];
        plan->run_bytes += line == BERTH_LINE_DEVICE ? 0 : s->lines[line];
    }
    plan->open_bytes = open_bytes(s);
    plan->plan_bytes = plan->run_bytes > plan->open_bytes ? plan->run_bytes : plan->open_bytes;
    plan->cycle_bytes = catalog_cycle_bytes(catalog);
    plan->slots_count = s->dims.slots.total;
    plan->experts_count = (uint64_t)catalog->layers * catalog->experts;
    plan->token_expert_bytes = catalog_token_bytes(catalog);
    plan->experts_bytes = catalog_stored_bytes(catalog);
    plan->ctx_tokens = s->dims.ctx_tokens;
    plan->chunk_tokens = s->dims.chunk_tokens;
    plan->threads = s->dims.threads;
    plan->io_threads = s->dims.io_threads;
    plan->kv_type = s->dims.kv_type;
    plan->cached = catalog->layers == 0 || !s->dims.slots.shared;
    plan->resident = plan->slots_count == plan->experts_count;
}

berth_status plan_solve(struct spec *spec, const struct plan_request *request, struct engine_dims *dims,
                        berth_plan *plan, berth_error *err)
{
    struct solver s = {.spec = spec, .request = request, .err = err};
    size_t struct_size = plan->struct_size;
    memset(plan, 0, sizeof *plan);
    plan->struct_size = struct_size;
    plan->budget_bytes = request->budget_bytes;
    snprintf(plan->binding, sizeof plan->binding, "%s", request->binding);
    base_dims(&s);
    if (s.dims.text_only) {
        uint64_t total = 0;
        TRY(measure(&s, &total));
        report(&s, plan);
        plan->floor_bytes = plan->hard_floor_bytes = plan->full_bytes = plan->plan_bytes;
        plan->fits = plan->plan_bytes <= request->budget_bytes;
        *dims = s.dims;
        return BERTH_OK;
    }
    TRY(check_config(&s));
    TRY(floors(&s, plan));
    plan->fits = request->budget_bytes >= plan->hard_floor_bytes;
    if (plan->fits) {
        TRY(choose(&s));
    }
    report(&s, plan);
    TRY(max_ctx(&s, plan));
    *dims = s.dims;
    return BERTH_OK;
}

/* What would lower the floor, of the things that are not at their smallest yet. */
static void lower_text(const berth_plan *plan, char *text, size_t cap)
{
    const char *kv = plan->kv_type == BERTH_KV_F32 ? " f16 KV." : plan->kv_type == BERTH_KV_F16 ? " q8_0 KV." : "";
    char ctx[48] = "";
    char chunk[48] = "";
    if (plan->ctx_tokens > 1) {
        snprintf(ctx, sizeof ctx, " a smaller context (now %u).", (unsigned)plan->ctx_tokens);
    }
    if (plan->chunk_tokens > chunk_rows[CHUNK_ROWS - 1]) {
        snprintf(chunk, sizeof chunk, " a smaller chunk (now %u).", (unsigned)plan->chunk_tokens);
    }
    bool any = ctx[0] != '\0' || chunk[0] != '\0' || kv[0] != '\0';
    snprintf(text, cap, "%s%s%s%s", any ? "; what lowers it:" : "", ctx, chunk, kv);
    size_t bytes = strlen(text);
    for (size_t i = 0; i + 1 < bytes; i++) {
        text[i] = text[i] == '.' ? ',' : text[i];
    }
    if (any) {
        text[bytes - 1] = '\0'; /* the last full stop */
    }
}

berth_status plan_refuse(const berth_plan *plan, const char *path, berth_error *err)
{
    double mib = 1048576.0;
    char lower[200] = "";
    lower_text(plan, lower, sizeof lower);
    const char *less = strcmp(plan->binding, budget_given) == 0
                           ? ""
                           : ", less a reserve for other programs: a budget that is given has none";
    error_set(err, BERTH_ERR_BUDGET,
              "needs at least %llu bytes (%.1f MiB: trunk %.1f, kv %.1f, scratch %.1f, slots %.1f, process %.1f), the "
              "budget is %llu (%s%s)%s",
              (unsigned long long)plan->hard_floor_bytes, (double)plan->hard_floor_bytes / mib,
              (double)plan->line_bytes[BERTH_LINE_TRUNK] / mib, (double)plan->line_bytes[BERTH_LINE_KV] / mib,
              (double)plan->line_bytes[BERTH_LINE_SCRATCH] / mib, (double)plan->line_bytes[BERTH_LINE_SLOTS] / mib,
              (double)plan->line_bytes[BERTH_LINE_PROCESS] / mib, (unsigned long long)plan->budget_bytes, plan->binding,
              less, lower);
    error_at_path(err, path);
    return BERTH_ERR_BUDGET;
}
