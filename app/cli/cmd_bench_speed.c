/* SPDX-License-Identifier: MIT
 * berth bench speed: prompt and answer speed of a model inside a budget, several passes of the same tokens in one
 * process, so that the first pass fills the cache and the others show the steady state. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/keep.h"
#include "cli/verbs.h"
#include "common/engine.h"
#include "common/host.h"
#include "common/json_out.h"
#include "common/live.h"
#include "common/report.h"
#include "common/run_report.h"
#include "common/sizes.h"
#include "common/stats.h"

enum { PASSES_MAX = 64, PROMPT_DEFAULT = 512, ANSWER_DEFAULT = 64, ROUNDS_DEFAULT = 3 };

struct speed_options {
    struct model_options model;
    uint32_t prompt, answer, rounds;
    uint64_t seed;
    bool json;
};

#define AT(field) offsetof(struct speed_options, field)

static const struct arg_option rows[] = {
    {.name = "prompt-tokens",
     .type = ARG_U32,
     .offset = AT(prompt),
     .value = "N",
     .help = "tokens of the prompt (default 512)",
     .low = 1,
     .high = 1 << 24},
    {.name = "length",
     .letter = 'n',
     .type = ARG_U32,
     .offset = AT(answer),
     .value = "N",
     .help = "tokens after it, one at a time (default 64)",
     .low = 1,
     .high = 1 << 24},
    {.name = "rounds",
     .type = ARG_U32,
     .offset = AT(rounds),
     .value = "N",
     .help = "passes that count, after one that warms (default 3)",
     .low = 1,
     .high = PASSES_MAX - 1},
    {.name = "seed", .type = ARG_U64, .offset = AT(seed), .value = "N", .help = "of the token ids (default 0)"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};
static const struct arg_group groups[] = {
    {"Options", rows, sizeof rows / sizeof rows[0], 0},
    {"Memory", plan_option_rows, PLAN_OPTIONS, AT(model)},
    {"Machine", machine_option_rows, MACHINE_OPTIONS, AT(model)},
    {"Output", talk_option_rows, TALK_OPTIONS, AT(model)},
};
static const struct arg_positional positionals[] = {{"MODEL", AT(model.path), false}};
static const struct arg_spec spec = {
    .verb = "bench speed",
    .synopsis = "MODEL [--prompt-tokens N] [-n N] [--rounds N] [--budget SIZE] [OPTIONS]",
    .summary = "Measure prompt and answer speed of a model inside a budget.",
    .details =
        "The tokens are drawn at random and forced, the same in every pass: the worst case for a cache, and no end\n"
        "token ends a pass early. Nothing is recorded in the ledger.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = sizeof groups / sizeof groups[0],
};

struct pass {
    double prompt, answer; /* tokens per second */
    double hits[2], read_bytes[2], stall_s[2];
};

struct bench_speed {
    struct speed_options options;
    struct engine engine;
    int32_t *ids; /* [prompt + answer] */
    struct pass passes[PASSES_MAX];
    uint32_t count; /* finished passes; 0 is the one that warms */
    struct limit_share share;
    struct run_report report; /* for the store: the passes that count, the cache full */
};

static void draw_ids(struct bench_speed *b)
{
    uint64_t state = b->options.seed;
    for (uint32_t i = 0; i < b->options.prompt + b->options.answer; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
        b->ids[i] = (int32_t)((state >> 33) % b->engine.info.vocab);
    }
}

static void note_phase(struct pass *pass, const berth_stats *before, const berth_stats *after, berth_phase phase)
{
    uint64_t hits = after->hits[phase] - before->hits[phase];
    uint64_t visits = hits + after->misses[phase] - before->misses[phase];
    pass->hits[phase] = visits > 0 ? (double)hits / (double)visits : 1;
    pass->read_bytes[phase] = (double)(after->read_bytes[phase] - before->read_bytes[phase]);
    pass->stall_s[phase] = (double)(after->stall_ns[phase] - before->stall_ns[phase]) * 1e-9;
}

static berth_status run_pass(struct bench_speed *b, berth_error *err)
{
    berth_session *session = b->engine.session;
    struct pass *pass = &b->passes[b->count];
    berth_stats before = BERTH_STATS_INIT;
    berth_stats between = BERTH_STATS_INIT;
    berth_stats after = BERTH_STATS_INIT;
    berth_status status = berth_session_truncate(session, 0);
    berth_model_get_stats(b->engine.model, &before);
    uint64_t start = host_now_ns();
    if (status == BERTH_OK) {
        status = berth_session_eval(session, b->ids, b->options.prompt, NULL, NULL, err);
    }
    uint64_t middle = host_now_ns();
    berth_model_get_stats(b->engine.model, &between);
    for (uint32_t i = 0; i < b->options.answer && status == BERTH_OK; i++) {
        status = berth_session_eval(session, b->ids + b->options.prompt + i, 1, NULL, NULL, err);
    }
    uint64_t end = host_now_ns();
    if (status != BERTH_OK) {
        return status;
    }
    berth_model_get_stats(b->engine.model, &after);
    pass->prompt = b->options.prompt * 1e9 / (double)(middle - start + 1);
    pass->answer = b->options.answer * 1e9 / (double)(end - middle + 1);
    /* A prompt of one token is counted as decoding. */
    note_phase(pass, &before, &between, b->options.prompt > 1 ? BERTH_PHASE_PREFILL : BERTH_PHASE_DECODE);
    note_phase(pass, &between, &after, BERTH_PHASE_DECODE);
    if (pass->stall_s[BERTH_PHASE_DECODE] > 0) {
        limit_observe_reads(&b->engine.limit, pass->read_bytes[BERTH_PHASE_DECODE] * 1e9 / (double)(end - middle + 1));
    }
    struct limit_work work;
    live_work(&b->engine, &between, pass->answer, &work);
    limit_of(&b->engine.limit, &work, false, &b->share);
    b->count++;
    if (b->count == 1) {
        b->report.base = (berth_stats)BERTH_STATS_INIT;
        berth_model_get_stats(b->engine.model, &b->report.base);
    }
    return BERTH_OK;
}

static int measure(struct bench_speed *b)
{
    draw_ids(b);
    while (b->count <= b->options.rounds) {
        berth_error err;
        berth_status status = run_pass(b, &err);
        if (host_interrupted()) {
            return host_interrupt_code();
        }
        if (status != BERTH_OK) {
            return report_error("bench speed", &err);
        }
    }
    return EXIT_OK;
}

struct spread {
    double least, median, most;
};

/* Of the passes that count. */
static struct spread spread_of(const struct bench_speed *b, size_t field)
{
    double values[PASSES_MAX];
    uint32_t n = b->count - 1;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(&values[i], (const char *)&b->passes[i + 1] + field, sizeof values[i]);
    }
    double middle = stats_median(values, n);
    return (struct spread){values[0], middle, values[n - 1]};
}

static void print_phase(const struct bench_speed *b, const char *name, uint32_t tokens, size_t field, berth_phase phase)
{
    char reads[FORMAT_MAX];
    char stall[FORMAT_MAX];
    struct spread s = spread_of(b, field);
    const struct pass *last = &b->passes[b->count - 1];
    printf("%-7s %" PRIu32 " tokens: %.2f tok/s (%.2f to %.2f)", name, tokens, s.median, s.least, s.most);
    if (b->engine.plan.experts_count > 0) {
        printf("; hits %.1f %%, %s a token, waited %s", 100 * last->hits[phase],
               size_format((uint64_t)(last->read_bytes[phase] / tokens), reads),
               time_format(last->stall_s[phase], stall));
    }
    putchar('\n');
}

static berth_phase prompt_phase(const struct bench_speed *b)
{
    return b->options.prompt > 1 ? BERTH_PHASE_PREFILL : BERTH_PHASE_DECODE;
}

static void print_text(const struct bench_speed *b)
{
    const struct pass *first = &b->passes[0];
    printf("%s, %s, %" PRIu32 " threads, budget %" PRIu64 " MiB\n", b->engine.info.name, b->engine.info.kernels,
           b->engine.plan.threads, b->engine.plan.budget_bytes >> 20);
    print_phase(b, "prompt", b->options.prompt, offsetof(struct pass, prompt), prompt_phase(b));
    print_phase(b, "answer", b->options.answer, offsetof(struct pass, answer), BERTH_PHASE_DECODE);
    printf("median of %" PRIu32 " passes after one that filled the cache (prompt %.2f, answer %.2f tok/s)\n",
           b->count - 1, first->prompt, first->answer);
    if (b->share.binding != NULL) {
        printf("answer: %.0f %% of %.2f tok/s, bound by %s%s\n", 100 * b->share.share, b->share.tokens_per_s,
               b->share.binding, b->share.observed ? " (as observed: faster than the rates measured before it)" : "");
    }
}

static void json_phase(struct json_out *json, const struct bench_speed *b, const char *key, uint32_t tokens,
                       size_t field, berth_phase phase)
{
    struct spread s = spread_of(b, field);
    const struct pass *last = &b->passes[b->count - 1];
    json_out_object(json, key);
    json_out_u64(json, "tokens", tokens);
    json_out_real(json, "tokens_per_s", s.median);
    json_out_real(json, "least", s.least);
    json_out_real(json, "most", s.most);
    json_out_real(json, "hit_rate", last->hits[phase]);
    json_out_real(json, "read_bytes_per_token", last->read_bytes[phase] / tokens);
    json_out_real(json, "stall_s", last->stall_s[phase]);
    json_out_close(json);
}

static void print_json(const struct bench_speed *b)
{
    struct json_out json;
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    json_out_string(&json, "model", b->engine.info.name);
    json_out_string(&json, "kernels", b->engine.info.kernels);
    json_out_u64(&json, "threads", b->engine.plan.threads);
    json_out_u64(&json, "budget_bytes", b->engine.plan.budget_bytes);
    json_out_u64(&json, "passes", b->count - 1);
    json_phase(&json, b, "prompt", b->options.prompt, offsetof(struct pass, prompt), prompt_phase(b));
    json_phase(&json, b, "answer", b->options.answer, offsetof(struct pass, answer), BERTH_PHASE_DECODE);
    limit_json(&json, "limit", &b->engine.limit, &b->share, &(struct limit_share){0});
    json_out_close(&json);
    json_out_end(&json);
}

/* Before the engine closes. Prompts are predicted for a cache that starts empty: the first pass. */
static void fill_report(struct bench_speed *b)
{
    struct run_report *report = &b->report;
    report->engine = &b->engine;
    report->steady = true;
    report->prompt_tokens = b->options.prompt;
    report->result.count = b->options.answer * (b->count - 1);
    report->decode_tok_s = spread_of(b, offsetof(struct pass, answer)).median;
    report->prefill_tok_s = b->passes[0].prompt;
    report->ctx_mean = b->options.prompt + b->options.answer / 2.0;
    report->stats = (berth_stats)BERTH_STATS_INIT;
    berth_model_get_stats(b->engine.model, &report->stats);
    host_read_peak(&report->peak);
}

static int run(int argc, char **argv)
{
    static struct bench_speed b;
    int code;
    b.options = (struct speed_options){.prompt = PROMPT_DEFAULT, .answer = ANSWER_DEFAULT, .rounds = ROUNDS_DEFAULT};
    if (!report_args(&spec, argc, argv, &b.options, &code)) {
        return code;
    }
    if (b.options.model.ledger == LEDGER_DEFAULT) {
        b.options.model.ledger = LEDGER_OFF; /* random tokens are nobody's use */
    }
    uint64_t bytes = (uint64_t)(b.options.prompt + b.options.answer) * sizeof *b.ids;
    /* The ids fit into what every verb may take for a prompt and an answer; no sampler is made. */
    struct engine_needs needs = {.ctx_tokens = b.options.prompt + b.options.answer, .observe = true, .measure = true};
    host_catch_interrupts();
    code = engine_open(&b.engine, "bench speed", &b.options.model, &needs);
    if (code == EXIT_OK) {
        b.ids = engine_take("bench speed", bytes);
        code = b.ids != NULL ? measure(&b) : EXIT_FAILED;
    }
    if (code == EXIT_OK) {
        fill_report(&b);
        b.options.json ? print_json(&b) : print_text(&b);
    }
    free(b.ids);
    engine_close(&b.engine);
    if (code == EXIT_OK) {
        keep_run(&b.report, &b.options.model, "bench");
    }
    return code;
}

const struct verb verb_bench_speed = {"bench speed", &spec, run, false};
