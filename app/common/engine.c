/* SPDX-License-Identifier: MIT */
#include "common/engine.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/host.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/speed.h"
#include "tool.h"

static const struct arg_choice kv_choices[] = {
    {"f16", BERTH_KV_F16}, {"f32", BERTH_KV_F32}, {"q8_0", BERTH_KV_Q8_0}, {NULL, 0}};
static const struct arg_choice isa_choices[] = {{"auto", BERTH_ISA_AUTO}, {"ref", BERTH_ISA_REF},
                                                {"avx2", BERTH_ISA_AVX2}, {"avx512", BERTH_ISA_AVX512},
                                                {"neon", BERTH_ISA_NEON}, {NULL, 0}};

#define AT(field) offsetof(struct model_options, field)

static const struct arg_choice ledger_choices[] = {
    {"on", LEDGER_ON}, {"read", LEDGER_READ}, {"off", LEDGER_OFF}, {NULL, 0}};

const struct arg_option plan_option_rows[PLAN_OPTIONS] = {
    {.name = "budget",
     .type = ARG_BUDGET,
     .offset = AT(budget_bytes),
     .value = "SIZE",
     .help = "memory ceiling of the whole process: 8GiB, 500MB,\nbytes, or auto (default: what the machine has free)"},
    {.name = "ctx",
     .type = ARG_U32,
     .offset = AT(ctx_tokens),
     .value = "N",
     .low = 1,
     .high = 1u << 30,
     .help = "context in tokens (default: the model's, at most 4096)"},
    {.name = "chunk",
     .type = ARG_U32,
     .offset = AT(chunk_tokens),
     .value = "N",
     .low = 1,
     .high = 1u << 20,
     .help = "tokens of a prompt that are computed together\n(default: the most that leaves room for experts)"},
    {.name = "kv", .type = ARG_CHOICE, .offset = AT(kv), .choices = kv_choices, .help = "KV cache type (default f16)"},
};

const struct arg_option machine_option_rows[MACHINE_OPTIONS] = {
    {.name = "threads",
     .type = ARG_U32,
     .offset = AT(threads),
     .value = "N",
     .low = 1,
     .high = 256,
     .help = "compute threads (default: the physical performance cores\nthat this process may use)"},
    {.name = "io-threads",
     .type = ARG_U32,
     .offset = AT(io_threads),
     .value = "N",
     .low = 1,
     .high = 64,
     .help = "reader threads (default 4)"},
    {.name = "isa",
     .type = ARG_CHOICE,
     .offset = AT(isa),
     .choices = isa_choices,
     .help = "kernel row (default auto; all give the same result)"},
    {.name = "io", .type = ARG_TEXT, .offset = AT(io), .value = "NAME", .help = "I/O engine: pread, uring, buffered"},
    {.name = "policy",
     .type = ARG_TEXT,
     .offset = AT(policy),
     .value = "NAME",
     .help = "what stays in memory: lru, next-use, lfru, layer-lru,\nseed, or NAME:key=value,... (default next-use)"},
    {.name = "pin",
     .type = ARG_TEXT,
     .offset = AT(pins),
     .value = "LIST|FILE",
     .help = "experts that always stay: LAYER:EXPERT,... or a file\nof such rows"},
    {.name = "ledger",
     .type = ARG_CHOICE,
     .offset = AT(ledger),
     .choices = ledger_choices,
     .help = "learn which experts are used, for the next start: on\n(default), read (learn, write nothing) or off"},
    {.name = "ledger-path",
     .type = ARG_TEXT,
     .offset = AT(ledger_path),
     .value = "FILE",
     .help = "where the ledger lies (default: beside the model)"},
    {.name = "ledger-half-life",
     .type = ARG_U64,
     .offset = AT(ledger_half_life),
     .value = "N",
     .help = "its counts halve every N tokens (default: never)"},
    {.name = "record-routes",
     .type = ARG_TEXT,
     .offset = AT(record_routes),
     .value = "FILE",
     .help = "write every routing decision, for berth replay"},
};

const struct arg_option talk_option_rows[TALK_OPTIONS] = {
    {.name = "quiet", .letter = 'q', .type = ARG_FLAG, .offset = AT(quiet), .help = "no progress, no summary"},
    {.name = "verbose",
     .letter = 'v',
     .type = ARG_FLAG,
     .offset = AT(verbose),
     .help = "show what the library reports"},
};

/* Heap bookkeeping, stdio buffers, the program's own small objects. */
enum { BASE_BYTES = 512 * 1024, LOOKUP_BYTES = 512 * 1024, TEXT_MIN_BYTES = 64 * 1024, CTX_DEFAULT = 4096 };
enum { MEASURE_MAX_BYTES = 128 << 20 };
/* No prompt has longer tokens on average; refuses what cannot fit before anything is reserved for it. */
enum { TOKEN_BYTES_MOST = 256 };

uint64_t engine_text_bytes(uint32_t ctx_tokens)
{
    uint64_t bytes = (uint64_t)ctx_tokens * 8;
    return bytes > TEXT_MIN_BYTES ? bytes : TEXT_MIN_BYTES;
}

/* Prompt text, the same text with its markup, ids of the sequence and of the answer, the sampler. */
static uint64_t own_bytes(uint32_t ctx_tokens, uint32_t vocab, uint64_t text_bytes)
{
    berth_sampler_config sampler = BERTH_SAMPLER_CONFIG_INIT;
    sampler.temperature = 1;
    sampler.top_k = 40;
    sampler.top_p = 0.9f;
    sampler.min_p = 0.1f;
    sampler.repeat_penalty = 1.1f;
    sampler.penalty_last = ctx_tokens;
    return BASE_BYTES + (report_looked_up ? (uint64_t)LOOKUP_BYTES : 0) + 2 * text_bytes +
           (uint64_t)ctx_tokens * 2 * sizeof(int32_t) + berth_sampler_bytes(vocab, &sampler);
}

static const char *isa_name(int isa)
{
    size_t i = 0;
    while (isa_choices[i].name != NULL && isa_choices[i].value != isa) {
        i++;
    }
    return isa_choices[i].name != NULL ? isa_choices[i].name : "auto";
}

static bool isa_is_here(int isa)
{
    char rows[96];
    if (isa == BERTH_ISA_AUTO) {
        return true;
    }
    tool_kernels(rows, sizeof rows);
    const char *wanted = isa_name(isa);
    size_t bytes = strlen(wanted);
    for (const char *at = rows; (at = strstr(at, wanted)) != NULL; at += bytes) {
        if ((at == rows || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '\0')) {
            return true;
        }
    }
    return false;
}

/* In the option's words: one that is none would mean "on" to us, and hardly that to whoever wrote it. */
int engine_ledger_setting(const char *verb, int *out)
{
    const char *setting = host_setting("BERTH_LEDGER");
    *out = LEDGER_DEFAULT;
    for (const struct arg_choice *choice = ledger_choices; setting != NULL && choice->name != NULL; choice++) {
        *out = strcmp(setting, choice->name) == 0 ? choice->value : *out;
    }
    return setting == NULL || *out != LEDGER_DEFAULT
               ? EXIT_OK
               : report_usage(verb, "BERTH_LEDGER in the environment: '%.60s' is not one of on, read, off", setting);
}

/* The option, else the environment, else what the verb does. */
static int ledger_use(const char *verb, const struct model_options *options, const struct engine_needs *needs,
                      berth_ledger_use *out)
{
    int chosen = options->ledger;
    int code = chosen == LEDGER_DEFAULT ? engine_ledger_setting(verb, &chosen) : EXIT_OK;
    bool reads = chosen == LEDGER_READ || (chosen == LEDGER_DEFAULT && needs->observe);
    *out = reads ? BERTH_LEDGER_READ : chosen == LEDGER_OFF ? BERTH_LEDGER_OFF : BERTH_LEDGER_ON;
    return code;
}

const char *engine_more_ctx(uint32_t ctx_tokens, uint32_t ctx_max_tokens)
{
    return ctx_tokens < ctx_max_tokens ? "raise --ctx" : "it is the model's largest, so shorten the prompt";
}

int engine_config(const char *verb, const struct model_options *options, const struct engine_needs *needs,
                  berth_model_config *config)
{
    *config = BERTH_MODEL_CONFIG_INIT;
    tool_shape shape;
    berth_error err;
    berth_status status = BERTH_OK;
    if (needs->shape != NULL) {
        shape = *needs->shape;
    } else {
        status = tool_read_shape(options->path, &shape, &err);
    }
    if (needs->text_only && (status == BERTH_ERR_FORMAT || status == BERTH_ERR_UNSUPPORTED)) {
        shape = (tool_shape){.ctx_max_tokens = CTX_DEFAULT}; /* a vocabulary without weights, or of another family */
        status = BERTH_OK;
    }
    if (status != BERTH_OK) {
        return report_error(verb, &err);
    }
    if (!isa_is_here(options->isa)) {
        char rows[96];
        tool_kernels(rows, sizeof rows);
        return report_usage(verb, "--isa %s: this processor (or this build) runs %s", isa_name(options->isa), rows);
    }
    uint32_t ctx = options->ctx_tokens;
    if (ctx == 0) {
        ctx = shape.ctx_max_tokens < CTX_DEFAULT ? shape.ctx_max_tokens : CTX_DEFAULT;
        ctx = needs->ctx_tokens > ctx ? needs->ctx_tokens : ctx;
    }
    if (!needs->text_only && needs->text_bytes > (uint64_t)ctx * TOKEN_BYTES_MOST) {
        return report_failure(verb, "a prompt of %llu bytes does not fit a context of %u tokens; %s",
                              (unsigned long long)needs->text_bytes, ctx, engine_more_ctx(ctx, shape.ctx_max_tokens));
    }
    uint64_t text = engine_text_bytes(ctx);
    text = needs->text_bytes > text ? needs->text_bytes : text;
    if (text > UINT32_MAX) {
        return report_failure(verb, "a text of %llu bytes is more than can be tokenised",
                              (unsigned long long)needs->text_bytes);
    }
    config->budget_bytes = options->budget_bytes;
    config->app_bytes = own_bytes(ctx, shape.vocab, text) + needs->extra_bytes;
    config->ctx_tokens = ctx;
    config->chunk_tokens = options->chunk_tokens;
    config->threads = options->threads;
    config->io_threads = options->io_threads;
    config->text_bytes = (uint32_t)text;
    config->kv_type = (berth_kv_type)options->kv;
    config->isa = (berth_isa)options->isa;
    config->policy = options->policy;
    config->io_engine = options->io;
    config->pins = options->pins;
    config->ledger_path = options->ledger_path;
    config->ledger_half_life_tokens = (double)options->ledger_half_life;
    config->record_routes = options->record_routes;
    config->mode = needs->text_only ? BERTH_OPEN_TEXT : BERTH_OPEN_FULL;
    return ledger_use(verb, options, needs, &config->ledger);
}

void engine_name_budget(const struct model_options *options, berth_plan *plan)
{
    if (options->budget_bytes > 0) {
        snprintf(plan->binding, sizeof plan->binding, "--budget");
    }
}

static bool on_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct engine *engine = user;
    progress_update(&engine->progress, what, done, total, PROGRESS_BYTES);
    return !host_interrupted();
}

static void on_log(void *user, berth_log_level level, const char *text)
{
    struct engine *engine = user;
    if (engine->verbose || (level == BERTH_LOG_WARN && !engine->quiet)) {
        progress_end(&engine->progress);
        fprintf(stderr, "berth: %s%s\n", level == BERTH_LOG_WARN ? "warning: " : "", text);
    }
}

/* Layers finish one after the other within a chunk, so a route says how far the chunk has come. */
static void on_route(void *user, const berth_route *route)
{
    struct engine *engine = user;
    if (host_interrupted()) { /* also a signal that came just before the eval began */
        berth_session_cancel(engine->session);
    }
    if (engine->route != NULL) {
        engine->route(engine->route_user, route);
    }
    if (engine->prefill_tokens > 0 && engine->info.layers > 0 && engine->plan.chunk_tokens > 0) {
        uint64_t at = route->position - engine->prefill_base;
        uint64_t chunk = engine->plan.chunk_tokens;
        uint64_t begin = at / chunk * chunk;
        uint64_t length = engine->prefill_tokens - begin < chunk ? engine->prefill_tokens - begin : chunk;
        uint64_t done = begin + length * route->layer / engine->info.layers;
        progress_update(&engine->progress, "reading the prompt", done, engine->prefill_tokens, PROGRESS_TOKENS);
    }
}

void engine_watch_prefill(struct engine *engine, uint64_t tokens)
{
    engine->prefill_tokens = tokens;
    engine->prefill_base = berth_session_length(engine->session);
    if (tokens > 0) {
        progress_update(&engine->progress, "reading the prompt", 0, tokens, PROGRESS_TOKENS);
    }
}

/* The library's largest context assumes this plan's app line, but the program's own share grows with the context. So
 * what it says is too much for larger contexts, and too little for smaller ones: the answer lies between. */
int engine_settle_ctx(const struct model_options *given, berth_plan *plan, engine_plan_fn *fn, void *user)
{
    struct model_options options = *given;
    uint32_t low = plan->fits ? plan->ctx_tokens : 0;                         /* fits; 0: nothing known to */
    uint32_t high = plan->fits ? plan->ctx_max_tokens : plan->ctx_tokens - 1; /* what is larger does not */
    uint32_t next = plan->ctx_max_tokens > low && plan->ctx_max_tokens < high ? plan->ctx_max_tokens : high;
    while (low < high) {
        berth_plan other;
        options.ctx_tokens = next;
        int code = fn(user, &options, &other);
        if (code != EXIT_OK) {
            return code;
        }
        uint32_t says = other.ctx_max_tokens;
        if (other.fits) {
            low = next;
            high = says < high ? says : high;
            next = high;
        } else {
            high = next - 1;
            next = says > low && says < high ? says : high - (high - low) / 2;
        }
    }
    plan->ctx_max_tokens = low;
    return EXIT_OK;
}

/* A run without its rates is still a run: failures leave them unknown. */
static void measure(struct engine *engine, const struct model_options *options, const berth_model_config *config)
{
    berth_plan plan = BERTH_PLAN_INIT;
    if (berth_plan_memory(options->path, config, &plan, NULL) != BERTH_OK || !plan.fits) {
        return;
    }
    const tool_measure want = {
        .threads = plan.threads,
        .io_threads = plan.io_threads,
        .isa = config->isa,
        .io_engine = config->io_engine,
        .request_bytes = (uint64_t)speed_request_bytes((double)plan.experts_bytes, (double)plan.experts_count),
        .memory_bytes = (uint64_t)limit_memory_bytes(&plan, plan.ctx_tokens),
        .memory_max_bytes = plan.plan_bytes / 4 < MEASURE_MAX_BYTES ? plan.plan_bytes / 4 : MEASURE_MAX_BYTES,
    };
    engine->limit.measured = tool_measure_rates(options->path, &want, &engine->limit.rates, NULL) == BERTH_OK;
}

/* A short start in what the ledger says; the first prompt does not wait for more. What is read here need not be read
 * for the prompt. */
static void warm(struct engine *engine, uint64_t most_ms)
{
    berth_warm done = BERTH_WARM_INIT;
    berth_error err;
    if (berth_model_warm(engine->model, most_ms * 1000000, &done, &err) != BERTH_OK) {
        if (!engine->quiet) {
            report_note("warm start: %s", err.message);
        }
    } else if (engine->verbose && done.experts > 0) {
        char bytes[FORMAT_MAX];
        report_note("warm start: %llu experts, %s in %.2f s", (unsigned long long)done.experts,
                    size_format(done.read_bytes, bytes), (double)done.ns / 1e9);
    }
}

int engine_read_pins(const char *verb, const char *option, char **text)
{
    enum { PINS_BYTES = 64 << 10 };
    if (option == NULL || strspn(option, "0123456789:,") == strlen(option)) {
        return EXIT_OK;
    }
    FILE *in = host_open_text(option);
    if (in == NULL && host_interrupted()) {
        return host_interrupt_code();
    }
    if (in == NULL) {
        return report_failure(verb, "--pin %s: neither LAYER:EXPERT,... nor a file: %s", option, strerror(errno));
    }
    char *held = engine_take(verb, PINS_BYTES + 1);
    size_t bytes = held != NULL ? fread(held, 1, PINS_BYTES + 1, in) : 0;
    bool lost = ferror(in) != 0;
    (void)fclose(in);
    int code = held == NULL ? EXIT_FAILED : host_interrupted() ? host_interrupt_code() : EXIT_OK;
    if (code == EXIT_OK && (lost || bytes > PINS_BYTES || memchr(held, '\0', bytes) != NULL)) {
        code =
            report_failure(verb, "--pin %s: wanted a text of LAYER:EXPERT rows, at most %d bytes", option, PINS_BYTES);
    }
    if (code != EXIT_OK) {
        free(held);
        return code;
    }
    held[bytes] = '\0';
    *text = held;
    return EXIT_OK;
}

int engine_open(struct engine *engine, const char *verb, const struct model_options *options,
                const struct engine_needs *needs)
{
    *engine = (struct engine){.verb = verb, .verbose = options->verbose, .quiet = options->quiet};
    engine->info = BERTH_MODEL_INFO_INIT;
    engine->plan = BERTH_PLAN_INIT;
    berth_model_config config;
    int code = engine_config(verb, options, needs, &config);
    if (code != EXIT_OK) {
        return code;
    }
    engine->text_bytes = config.text_bytes;
    config.progress = on_progress;
    config.progress_user = engine;
    config.log = on_log;
    config.log_user = engine;
    char state_dir[HOST_PATH_MAX];
    config.state_dir = host_state_dir(state_dir, sizeof state_dir) ? state_dir : NULL;
    progress_begin(&engine->progress, options->quiet);
    if (needs->measure) {
        measure(engine, options, &config);
    }
    char *pins = NULL;
    code = engine_read_pins(verb, options->pins, &pins);
    if (code != EXIT_OK) {
        return code;
    }
    config.pins = pins != NULL ? pins : config.pins;
    uint64_t start = host_now_ns();
    berth_error err;
    berth_status status = berth_model_open(options->path, &config, &engine->model, &err);
    free(pins); /* they have been read in */
    config.pins = NULL;
    progress_end(&engine->progress);
    if (status == BERTH_ERR_CANCELLED && host_interrupted()) {
        report_note("interrupted while opening the model");
        return host_interrupt_code();
    }
    if (status != BERTH_OK) {
        code = report_error(verb, &err);
        engine->refused = err;
        if (status == BERTH_ERR_BUDGET) {
            config.progress = NULL;
            if (berth_plan_memory(options->path, &config, &engine->plan, NULL) == BERTH_OK) {
                engine_name_budget(options, &engine->plan);
                engine->plan.ctx_max_tokens = needs->exact_ctx_known ? needs->exact_ctx : engine->plan.ctx_max_tokens;
            }
            fprintf(stderr, "'berth fit' with the same options shows the plan and what would lower it.\n");
        }
        return code;
    }
    berth_model_get_info(engine->model, &engine->info);
    berth_model_get_plan(engine->model, &engine->plan);
    engine->plan.ctx_max_tokens = needs->exact_ctx_known ? needs->exact_ctx : engine->plan.ctx_max_tokens;
    engine_name_budget(options, &engine->plan);
    if (!needs->text_only && !needs->no_session) {
        berth_session_config session = BERTH_SESSION_CONFIG_INIT;
        engine->route = needs->route;
        engine->route_user = needs->route_user;
        session.route = on_route;
        session.route_user = engine;
        status = berth_session_create(engine->model, &session, &engine->session, &err);
        if (status != BERTH_OK) {
            engine_close(engine);
            return report_error(verb, &err);
        }
        host_watch(engine->session);
        if (config.ledger != BERTH_LEDGER_OFF) {
            warm(engine, needs->warm_ms > 0 ? needs->warm_ms : WARM_REQUEST_MS);
        }
    }
    engine->open_ns = host_now_ns() - start;
    return EXIT_OK;
}

void engine_close(struct engine *engine)
{
    host_watch(NULL);
    host_hold(true); /* the ledger may be in the middle of a save */
    berth_model_close(engine->model);
    host_hold(false);
    engine->model = NULL;
    engine->session = NULL;
}

void *engine_take(const char *verb, uint64_t bytes)
{
    void *memory = bytes <= SIZE_MAX ? calloc(1, bytes > 0 ? (size_t)bytes : 1) : NULL;
    if (memory == NULL) {
        report_failure(verb, "the system has no memory for %llu bytes", (unsigned long long)bytes);
    }
    return memory;
}
