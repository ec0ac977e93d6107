/* SPDX-License-Identifier: MIT
 * berth run: text from a prompt, once. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/keep.h"
#include "cli/verbs.h"
#include "common/generate.h"
#include "common/host.h"
#include "common/input.h"
#include "common/live.h"
#include "common/plan_ctx.h"
#include "common/report.h"
#include "common/run_report.h"
#include "common/sizes.h"
#include "common/template.h"

struct run_options {
    struct model_options model;
    struct sample_options sample;
    const char *prompt, *ids, *ids_file, *system, *template;
    struct arg_texts stops;
    uint32_t length; /* 0: not given */
    bool chat, no_special, no_bos, json;
};

#define AT(field) offsetof(struct run_options, field)
enum { LENGTH_DEFAULT = 256, LENGTH_MAX = 1 << 24 };

static const struct arg_option prompt_rows[] = {
    {.name = "prompt",
     .letter = 'p',
     .type = ARG_TEXT,
     .offset = AT(prompt),
     .value = "TEXT",
     .help = "the prompt (default: standard input)"},
    {.name = "ids",
     .type = ARG_TEXT,
     .offset = AT(ids),
     .value = "LIST",
     .help = "the prompt as token ids, 1,2,3; the end token is then\nignored unless --stop is given"},
    {.name = "ids-file", .type = ARG_TEXT, .offset = AT(ids_file), .value = "FILE", .help = "the same from a file"},
    {.name = "length",
     .letter = 'n',
     .type = ARG_U32,
     .offset = AT(length),
     .value = "N",
     .low = 1,
     .high = LENGTH_MAX,
     .help = "tokens to generate at most (default 256; with --chat\nuntil the answer ends)"},
    {.name = "stop",
     .type = ARG_TEXTS,
     .offset = AT(stops),
     .value = "TEXT",
     .help = "stop before this text; may be given several times"},
    {.name = "chat", .type = ARG_FLAG, .offset = AT(chat), .help = "put the prompt into the model's chat template"},
    {.name = "system", .type = ARG_TEXT, .offset = AT(system), .value = "TEXT", .help = "system message (with --chat)"},
    {.name = "template",
     .type = ARG_TEXT,
     .offset = AT(template),
     .value = "NAME",
     .help = "chat template instead of the model's own: chatml"},
    {.name = "no-special",
     .type = ARG_FLAG,
     .offset = AT(no_special),
     .help = "special tokens written in the prompt are plain text"},
    {.name = "no-bos", .type = ARG_FLAG, .offset = AT(no_bos), .help = "do not add the model's BOS token"},
};

static const struct arg_option output_rows[] = {
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print one JSON object at the end, no text before"},
    {.name = "no-store",
     .type = ARG_FLAG,
     .offset = AT(model.no_store),
     .help = "do not keep this run's figures (berth runs)"},
};

static const struct arg_group groups[] = {
    {"Prompt and answer", prompt_rows, sizeof prompt_rows / sizeof prompt_rows[0], 0},
    {"Sampling (default: greedy)", sample_option_rows, SAMPLE_OPTIONS, AT(sample)},
    {"Memory", plan_option_rows, PLAN_OPTIONS, AT(model)},
    {"Machine", machine_option_rows, MACHINE_OPTIONS, AT(model)},
    {"Output", output_rows, 2, 0},
    {NULL, talk_option_rows, TALK_OPTIONS, AT(model)},
};

static const struct arg_positional positionals[] = {{"MODEL", AT(model.path), false}};

static const struct arg_spec spec = {
    .verb = "run",
    .synopsis = "MODEL [-p TEXT | --ids LIST] [-n N] [--budget SIZE] [OPTIONS]",
    .summary = "Generate text from a prompt.",
    .details = "Text goes to standard output, everything else to standard error. The first Ctrl-C ends the answer and\n"
               "prints the summary, the second ends the program.\n"
               "Exit status: 0 ok, 1 failure, 2 usage, 3 does not fit the budget, 130 interrupted.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = sizeof groups / sizeof groups[0],
};

struct run {
    struct run_options options;
    struct engine engine;
    struct id_list given; /* --ids */
    char *typed;          /* standard input */
    struct str text;      /* the prompt as text */
    int32_t *prompt_ids;
    uint32_t prompt_count;
    int32_t *answer_ids;
    char *piece; /* [piece_cap] */
    size_t piece_cap;
    void *sampler_memory;
    berth_sampler *sampler;
    const struct chat_template *template;
    struct run_report report;
};

/* ---- prompt ----------------------------------------------------------------------------------------- */

static int check_options(const struct run_options *o)
{
    int sources = (o->prompt != NULL) + (o->ids != NULL) + (o->ids_file != NULL);
    if (sources > 1) {
        return report_usage("run", "-p, --ids and --ids-file exclude each other");
    }
    if (o->chat && (o->ids != NULL || o->ids_file != NULL)) {
        return report_usage("run", "--chat needs text; ids are used as they are");
    }
    if (!o->chat && (o->system != NULL || o->template != NULL)) {
        return report_usage("run", "%s needs --chat", o->system != NULL ? "--system" : "--template");
    }
    if (sources == 0 && host_is_terminal(HOST_STDIN)) {
        return report_usage("run", "no prompt: give -p TEXT or --ids LIST, or pipe text in");
    }
    return generate_stops_ok("run", &o->stops) ? EXIT_OK : EXIT_USAGE;
}

static int read_prompt(struct run *run)
{
    const struct run_options *o = &run->options;
    uint64_t most = input_most(o->model.budget_bytes);
    if (o->ids != NULL) {
        return input_ids("run", o->ids, most, &run->given);
    }
    if (o->ids_file != NULL) {
        return input_ids_file("run", o->ids_file, most, &run->given);
    }
    if (o->prompt != NULL) {
        run->text = str_from(o->prompt);
    } else {
        int code = input_stdin("run", most, &run->typed, &run->text.bytes);
        if (code != EXIT_OK) {
            return code;
        }
        run->text.ptr = run->typed;
        run->text.bytes = input_chomp(run->text.ptr, run->text.bytes); /* echo and editors add it; nobody means it */
    }
    if (!utf8_is_valid(run->text.ptr, run->text.bytes)) {
        return report_failure("run", "the prompt is not UTF-8");
    }
    return EXIT_OK;
}

static uint32_t needed_ctx(const struct run *run)
{
    uint64_t length = run->options.length > 0 ? run->options.length : LENGTH_DEFAULT;
    uint64_t need = run->given.count > 0 ? run->given.count + length - 1 : 0;
    return need < UINT32_MAX ? (uint32_t)need : UINT32_MAX;
}

static int render_chat(struct run *run, berth_error *err)
{
    const struct run_options *o = &run->options;
    run->template = template_find(run->engine.model, o->template, err);
    if (run->template == NULL) {
        return report_error("run", err);
    }
    struct str source = {0};
    source.ptr = berth_chat_template(run->engine.model, &source.bytes);
    char system[512];
    size_t plain_cap = (size_t)run->engine.text_bytes;
    char *plain = engine_take("run", plain_cap);
    if (plain == NULL) {
        return EXIT_FAILED;
    }
    struct markup markup;
    markup_begin(&markup, run->engine.model, run->prompt_ids, run->engine.plan.ctx_tokens, plain, plain_cap, err);
    if (o->template == NULL && template_wants_bos(source) && run->engine.info.bos_id >= 0 && !o->no_bos) {
        markup_id(&markup, run->engine.info.bos_id);
    }
    struct str first = {system, 0};
    if (o->system != NULL) {
        first = str_from(o->system);
    } else if (o->template == NULL) {
        first.bytes = template_default_system(source, system, sizeof system);
    }
    if (first.bytes > 0) {
        run->template->message(&markup, STR("system"), first);
    }
    run->template->message(&markup, STR("user"), run->text);
    run->template->open_answer(&markup);
    berth_status status = markup_end(&markup);
    run->prompt_count = (uint32_t)markup.count;
    free(plain);
    return status == BERTH_OK ? EXIT_OK : report_error("run", err);
}

/* Fills prompt_ids. */
static int encode_prompt(struct run *run)
{
    const struct run_options *o = &run->options;
    uint32_t ctx = run->engine.plan.ctx_tokens;
    berth_error err;
    if (run->given.count > 0) {
        if (run->given.count > ctx) {
            return report_failure("run", "the prompt has %" PRIu32 " tokens, the context holds %" PRIu32 "; %s",
                                  run->given.count, ctx, engine_more_ctx(ctx, run->engine.info.ctx_max_tokens));
        }
        memcpy(run->prompt_ids, run->given.ids, run->given.count * sizeof *run->prompt_ids);
        run->prompt_count = run->given.count;
        return EXIT_OK;
    }
    if (!run->engine.info.has_tokenizer) {
        return report_failure("run", "this model has no tokenizer; give the prompt as --ids");
    }
    if (o->chat) {
        return render_chat(run, &err);
    }
    size_t count = 0;
    unsigned flags = (o->no_bos ? 0 : BERTH_TOKENIZE_BOS) | (o->no_special ? 0 : BERTH_TOKENIZE_SPECIAL);
    berth_status status =
        berth_tokenize(run->engine.model, run->text.ptr, run->text.bytes, flags, run->prompt_ids, ctx, &count, &err);
    if (status == BERTH_ERR_LIMIT && count > ctx) {
        return report_failure("run", "the prompt has %zu tokens, the context holds %" PRIu32 "; %s", count, ctx,
                              engine_more_ctx(ctx, run->engine.info.ctx_max_tokens));
    }
    if (status != BERTH_OK) {
        return report_error("run", &err);
    }
    if (count == 0) {
        return report_failure("run", "the prompt is empty, and this model has no token to begin with");
    }
    run->prompt_count = (uint32_t)count;
    return EXIT_OK;
}

/* ---- the run ---------------------------------------------------------------------------------------- */

static bool write_text(void *user, const char *text, size_t bytes)
{
    struct run *run = user;
    run->report.text_bytes += bytes;
    if (run->options.json) {
        return true; /* printed at the end, from the ids */
    }
    return report_write(text, bytes);
}

static int take_memory(struct run *run)
{
    uint32_t ctx = run->engine.plan.ctx_tokens;
    run->piece_cap = berth_piece_max_bytes(run->engine.model) + STOP_BYTES_MAX;
    run->prompt_ids = engine_take("run", (uint64_t)ctx * sizeof *run->prompt_ids);
    run->answer_ids = engine_take("run", (uint64_t)(ctx + 1) * sizeof *run->answer_ids);
    run->piece = engine_take("run", run->piece_cap);
    if (run->prompt_ids == NULL || run->answer_ids == NULL || run->piece == NULL) {
        return EXIT_FAILED;
    }
    run->sampler = generate_sampler("run", &run->options.sample, run->engine.info.vocab, &run->sampler_memory);
    return run->sampler != NULL ? EXIT_OK : EXIT_FAILED;
}

static void say_estimate(struct run *run)
{
    enum { WORTH_SAYING_S = 2 };
    double seconds = limit_prefill_s(&run->engine.limit, &run->engine.plan, &run->engine.info, run->prompt_count);
    run->report.first_token_estimate_s = seconds;
    if (seconds > WORTH_SAYING_S && !run->options.model.quiet) {
        char time[FORMAT_MAX];
        report_note("%" PRIu32 " tokens to read; the first token in about %s", run->prompt_count,
                    time_format(seconds, time));
    }
}

static int generate_answer(struct run *run)
{
    const struct run_options *o = &run->options;
    struct run_report *report = &run->report;
    struct generated *result = &report->result;
    say_estimate(run);
    uint64_t start = host_now_ns();
    berth_status status = generate_feed(&run->engine, run->prompt_ids, run->prompt_count, &result->err);
    report->prefill_ns = host_now_ns() - start;
    if (status != BERTH_OK) {
        result->end = status == BERTH_ERR_CANCELLED ? GENERATE_INTERRUPTED : GENERATE_FAILED;
        return EXIT_OK;
    }
    for (uint32_t i = 0; i < run->prompt_count; i++) {
        berth_sampler_accept(run->sampler, run->prompt_ids[i]);
    }
    bool from_ids = run->given.count > 0;
    uint32_t room = run->engine.plan.ctx_tokens - run->prompt_count + 1;
    uint32_t length = o->length > 0 ? o->length : o->chat ? LENGTH_MAX : LENGTH_DEFAULT;
    struct live live;
    struct generator generator = {
        .engine = &run->engine,
        .sampler = run->sampler,
        .stops = &o->stops,
        .end_id = -1,
        .ignore_end = from_ids && o->stops.count == 0,
        .has_text = run->engine.info.has_tokenizer,
        .live = &live,
        .write = write_text,
        .write_user = run,
        .held = run->piece,
        .held_cap = run->piece_cap,
    };
    if (run->template != NULL) {
        generator.end_id = template_end_id(run->engine.model, run->template);
    }
    report->base = BERTH_STATS_INIT;
    berth_model_get_stats(run->engine.model, &report->base);
    live_begin(&live, &run->engine, &run->engine.limit, o->model.quiet || o->json);
    report->start_ns = host_now_ns();
    generate(&generator, run->answer_ids, length < room ? length : room, result);
    live_end(&live);
    if (length > room && result->end == GENERATE_LENGTH) {
        result->end = GENERATE_CONTEXT;
    }
    return EXIT_OK;
}

/* Without a tokenizer the ids are the result. */
static void print_ids(const struct run *run)
{
    for (uint32_t i = 0; i < run->report.result.count; i++) {
        printf("%s%" PRId32, i > 0 ? " " : "", run->answer_ids[i]);
    }
}

static int finish(struct run *run)
{
    const struct run_options *o = &run->options;
    struct run_report *report = &run->report;
    report->engine = &run->engine;
    report->prompt_tokens = run->prompt_count;
    report->ids = run->answer_ids;
    report->sampled = o->sample.temperature > 0;
    report->seed = o->sample.seed;
    report->piece = run->piece;
    report->piece_cap = run->piece_cap;
    run_report_finish(report);
    if (o->json) {
        run_report_json(report, stdout);
    } else {
        if (!run->engine.info.has_tokenizer) {
            print_ids(run);
        }
        if (report->result.count > 0 && report->result.end != GENERATE_OUTPUT) {
            report_write("\n", 1);
        }
        bool refused = report->result.end == GENERATE_FAILED && berth_session_length(run->engine.session) == 0;
        if (!o->model.quiet && !refused) {
            run_report_print(report, stderr);
        }
    }
    switch (report->result.end) {
    case GENERATE_FAILED:
        return report_error("run", &report->result.err);
    case GENERATE_INTERRUPTED:
        return host_interrupt_code();
    case GENERATE_OUTPUT:
    case GENERATE_RUNNING:
    case GENERATE_END_TOKEN:
    case GENERATE_STOP:
    case GENERATE_LENGTH:
    case GENERATE_CONTEXT:
        break;
    }
    return EXIT_OK; /* a lost output is reported when stdout is flushed at the end */
}

static int with_engine(struct run *run)
{
    int code = take_memory(run);
    if (code == EXIT_OK) {
        code = encode_prompt(run);
    }
    if (code == EXIT_OK) {
        code = generate_answer(run);
    }
    return code == EXIT_OK ? finish(run) : code;
}

static int run_verb(int argc, char **argv)
{
    struct run run = {.options = {.sample = {.seed = SEED_NONE}}};
    int code;
    if (!report_args(&spec, argc, argv, &run.options, &code)) {
        return code;
    }
    code = check_options(&run.options);
    if (code != EXIT_OK) {
        return code;
    }
    if (run.options.sample.seed == SEED_NONE) {
        run.options.sample.seed = run.options.sample.temperature > 0 ? host_seed() : 0;
    }
    code = read_prompt(&run); /* while it waits for input an interrupt just ends the program */
    if (code == EXIT_OK) {
        host_catch_interrupts();
        struct engine_needs needs = {
            .ctx_tokens = needed_ctx(&run),
            .text_bytes = run.text.bytes,
            .measure = !run.options.model.quiet || run.options.json,
        };
        if (run.options.json) { /* what is wrong with the options is said once */
            berth_model_config ignored;
            code = engine_config("run", &run.options.model, &needs, &ignored);
            needs.exact_ctx_known =
                code == EXIT_OK && plan_exact_ctx("run", &run.options.model, needs.ctx_tokens, &needs.exact_ctx);
        }
        code = code == EXIT_OK ? engine_open(&run.engine, "run", &run.options.model, &needs) : code;
        if (code == EXIT_OK) {
            code = with_engine(&run);
        } else if (code == EXIT_NO_FIT && run.options.json) {
            run_report_refused(&run.engine, stdout);
        }
        engine_close(&run.engine);
        if (run.report.engine != NULL) { /* it got as far as a report */
            keep_run(&run.report, &run.options.model, "run");
        }
    }
    free(run.given.ids);
    free(run.typed);
    free(run.prompt_ids);
    free(run.answer_ids);
    free(run.piece);
    free(run.sampler_memory);
    return code;
}

const struct verb verb_run = {"run", &spec, run_verb, false};
