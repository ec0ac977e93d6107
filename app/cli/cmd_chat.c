/* SPDX-License-Identifier: MIT
 * berth chat: a conversation in the terminal. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/keep.h"
#include "cli/verbs.h"
#include "common/chat.h"
#include "common/host.h"
#include "common/live.h"
#include "common/plan_out.h"
#include "common/report.h"
#include "common/sizes.h"

struct chat_options {
    struct model_options model;
    struct sample_options sample;
    const char *system, *template;
    struct arg_texts stops;
    uint32_t length;
    bool drop_oldest;
};

#define AT(field) offsetof(struct chat_options, field)

static const struct arg_option chat_rows[] = {
    {.name = "system", .type = ARG_TEXT, .offset = AT(system), .value = "TEXT", .help = "system message"},
    {.name = "template",
     .type = ARG_TEXT,
     .offset = AT(template),
     .value = "NAME",
     .help = "chat template instead of the model's own: chatml"},
    {.name = "length",
     .letter = 'n',
     .type = ARG_U32,
     .offset = AT(length),
     .value = "N",
     .low = 1,
     .help = "longest answer in tokens (default: to its end)"},
    {.name = "stop", .type = ARG_TEXTS, .offset = AT(stops), .value = "TEXT", .help = "end an answer before this text"},
    {.name = "drop-oldest",
     .type = ARG_FLAG,
     .offset = AT(drop_oldest),
     .help = "when the context is full, forget the oldest turns\n(default: say so and wait for /reset)"},
};

static const struct arg_option keep_rows[] = {
    {.name = "no-store",
     .type = ARG_FLAG,
     .offset = AT(model.no_store),
     .help = "do not keep this session's figures (berth runs)"},
};

static const struct arg_group groups[] = {
    {"Conversation", chat_rows, sizeof chat_rows / sizeof chat_rows[0], 0},
    {"Sampling (default: --temp 0.7 --top-p 0.9)", sample_option_rows, SAMPLE_OPTIONS, AT(sample)},
    {"Memory", plan_option_rows, PLAN_OPTIONS, AT(model)},
    {"Machine", machine_option_rows, MACHINE_OPTIONS, AT(model)},
    {"Output", talk_option_rows, TALK_OPTIONS, AT(model)},
    {NULL, keep_rows, 1, 0},
};

static const struct arg_positional positionals[] = {{"MODEL", AT(model.path), false}};

static const struct arg_spec spec = {
    .verb = "chat",
    .synopsis = "MODEL [--system TEXT] [--budget SIZE] [OPTIONS]",
    .summary = "Talk with a model.",
    .details =
        "Commands: /help, /reset (start over), /exit. Ctrl-C ends an answer, Ctrl-D the program. Messages can also be\n"
        "piped in, one a line.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = sizeof groups / sizeof groups[0],
};

struct talk {
    struct chat_options options;
    struct engine engine;
    struct chat chat;
    void *sampler_memory;
    berth_sampler *sampler;
    char *line; /* [line_cap] */
    size_t line_cap;
    char *piece;
    size_t piece_cap;
    struct {
        uint64_t decode_ns, fed, decoded; /* decoded: evaluations between an answer's first and last token */
        double fed_s, positions;          /* positions: sum over the decoded tokens */
        uint32_t written, turns;
    } sum; /* over the session */
};

/* libedit, its terminal description and the history, when the lines come from a terminal. */
enum { EDITOR_BYTES = 2 << 20 };

static bool write_text(void *user, const char *text, size_t bytes)
{
    (void)user;
    return report_write(text, bytes);
}

static int set_template(struct talk *talk)
{
    struct chat *chat = &talk->chat;
    berth_error err;
    chat->template = template_find(talk->engine.model, talk->options.template, &err);
    if (chat->template == NULL) {
        return report_error("chat", &err);
    }
    chat->end_id = template_end_id(talk->engine.model, chat->template);
    struct str source = {0};
    source.ptr = berth_chat_template(talk->engine.model, &source.bytes);
    bool own = talk->options.template == NULL;
    chat->bos = own && template_wants_bos(source) && talk->engine.info.bos_id >= 0;
    if (talk->options.system != NULL) {
        chat->system_bytes = strlen(talk->options.system);
        if (chat->system_bytes > sizeof chat->system) {
            return report_usage("chat", "--system: at most %zu bytes", sizeof chat->system);
        }
        memcpy(chat->system, talk->options.system, chat->system_bytes);
    } else if (own) {
        chat->system_bytes = template_default_system(source, chat->system, sizeof chat->system);
    }
    return EXIT_OK;
}

static int take_memory(struct talk *talk)
{
    struct engine *engine = &talk->engine;
    struct chat *chat = &talk->chat;
    chat->engine = engine;
    chat->cap = engine->plan.ctx_tokens;
    chat->drop_oldest = talk->options.drop_oldest;
    chat->ids = engine_take("chat", (uint64_t)chat->cap * sizeof *chat->ids);
    chat->plain_cap = (size_t)engine->text_bytes;
    chat->plain = engine_take("chat", chat->plain_cap);
    talk->line_cap = chat->plain_cap - 64;
    talk->line = engine_take("chat", talk->line_cap);
    talk->piece_cap = berth_piece_max_bytes(engine->model) + STOP_BYTES_MAX;
    talk->piece = engine_take("chat", talk->piece_cap);
    if (chat->ids == NULL || chat->plain == NULL || talk->line == NULL || talk->piece == NULL) {
        return EXIT_FAILED;
    }
    talk->sampler = generate_sampler("chat", &talk->options.sample, engine->info.vocab, &talk->sampler_memory);
    return talk->sampler != NULL ? EXIT_OK : EXIT_FAILED;
}

/* One line under an answer. */
static void say_turn(const struct talk *talk, uint32_t fed, double prompt_s, const struct generated *result,
                     uint64_t start_ns)
{
    if (talk->options.model.quiet || !host_is_terminal(HOST_STDERR)) {
        return;
    }
    double seconds = (double)(result->last_ns > start_ns ? result->last_ns - start_ns : 0) * 1e-9;
    char time[FORMAT_MAX];
    fprintf(stderr, "\033[2m[%" PRIu32 " new tokens read in %s; %" PRIu32 " written", fed, time_format(prompt_s, time),
            result->count);
    if (result->count > 1 && seconds > 0) {
        fprintf(stderr, " at %.2f tok/s", (result->count - 1) / seconds);
    }
    fprintf(stderr, "; context %" PRIu32 " of %" PRIu32 "%s]\033[0m\n", talk->chat.length, talk->chat.cap,
            result->end == GENERATE_CONTEXT || result->end == GENERATE_LENGTH ? "; cut off" : "");
}

static int answer(struct talk *talk, uint32_t fed, double prompt_s)
{
    const struct chat_options *o = &talk->options;
    struct chat *chat = &talk->chat;
    uint32_t room = chat_room(chat);
    uint32_t limit = o->length > 0 && o->length < room ? o->length : room;
    struct live live;
    struct generated result;
    double at = chat->length;
    struct generator generator = {
        .engine = &talk->engine,
        .sampler = talk->sampler,
        .stops = &o->stops,
        .end_id = chat->end_id,
        .has_text = true,
        .live = &live,
        .write = write_text,
        .held = talk->piece,
        .held_cap = talk->piece_cap,
    };
    live_begin(&live, &talk->engine, &talk->engine.limit, o->model.quiet);
    uint64_t start = host_now_ns();
    generate(&generator, chat_answer(chat), limit, &result);
    live_end(&live);
    chat_answered(chat, &result);
    if (result.count > 1 && result.last_ns > start) { /* the first token comes out of the prompt */
        uint64_t decoded = result.count - 1;
        talk->sum.decode_ns += result.last_ns - start;
        talk->sum.decoded += decoded;
        talk->sum.positions += (double)decoded * (at + (double)decoded / 2);
    }
    talk->sum.written += result.count;
    talk->sum.fed += fed;
    talk->sum.fed_s += prompt_s;
    talk->sum.turns++;
    berth_error unsaved;
    if (berth_session_turn_end(talk->engine.session, NULL, &unsaved) != BERTH_OK && !o->model.quiet) {
        report_note("the usage ledger was not saved: %s", unsaved.message);
    }
    if (!report_write("\n", 1) || result.end == GENERATE_OUTPUT) {
        return EXIT_FAILED; /* said when stdout is flushed at the end */
    }
    if (result.end == GENERATE_FAILED) {
        return report_error("chat", &result.err);
    }
    say_turn(talk, fed, prompt_s, &result, start);
    return EXIT_OK;
}

/* SIGTERM and SIGHUP mean the program, Ctrl-C what it is doing. */
static bool asked_to_end(void)
{
    return host_interrupted() && host_interrupt_code() != EXIT_INTERRUPTED;
}

/* A message that is not a command. Only failures that leave no conversation end the program. */
static int say(struct talk *talk, struct str message)
{
    struct chat *chat = &talk->chat;
    if (!utf8_is_valid(message.ptr, message.bytes)) {
        report_note("that line is not UTF-8; ignored");
        return EXIT_OK;
    }
    berth_error err;
    uint32_t fed;
    uint32_t dropped;
    uint32_t first = chat->length;
    host_catch_interrupts();
    host_interrupt_clear();
    uint64_t start = host_now_ns();
    berth_status status = chat_say(chat, message, &fed, &dropped, &err);
    double prompt_s = (double)(host_now_ns() - start) * 1e-9;
    if (dropped > 0) {
        if (dropped == 1) {
            report_note("the context was full; the oldest turn was forgotten");
        } else {
            report_note("the context was full; the oldest %" PRIu32 " turns were forgotten", dropped);
        }
    }
    if (status == BERTH_ERR_LIMIT) {
        bool largest = talk->engine.plan.ctx_tokens >= talk->engine.info.ctx_max_tokens;
        report_note("%s. /reset starts over%s%s", err.message, largest ? "" : "; a larger --ctx holds more",
                    chat->drop_oldest ? "" : "; --drop-oldest forgets old turns by itself");
        return EXIT_OK;
    }
    if (status == BERTH_ERR_CANCELLED && asked_to_end()) {
        return host_interrupt_code();
    }
    if (status == BERTH_ERR_CANCELLED) {
        report_note("interrupted; the message was not taken");
        return EXIT_OK;
    }
    if (status == BERTH_ERR_ARGUMENT) {
        report_note("%s", err.message);
        return EXIT_OK;
    }
    if (status != BERTH_OK) {
        return report_error("chat", &err);
    }
    for (uint32_t i = dropped > 0 ? 0 : first; i < chat->length; i++) {
        berth_sampler_accept(talk->sampler, chat->ids[i]);
    }
    int code = answer(talk, fed, prompt_s);
    return code == EXIT_OK && asked_to_end() ? host_interrupt_code() : code;
}

static const char help_text[] =
    "/help   this list\n"
    "/reset  forget the conversation (the system message stays)\n"
    "/exit   leave (so does Ctrl-D)\n"
    "A line that begins with // is sent with one slash. Ctrl-C ends an answer, or gives up\n"
    "the line being typed; twice, it leaves.\n";

/* True: go on reading. */
static bool command(struct talk *talk, const char *line, int *code)
{
    if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0) {
        return false;
    }
    if (strcmp(line, "/help") == 0) {
        fputs(help_text, stderr);
    } else if (strcmp(line, "/reset") == 0) {
        berth_error err;
        if (chat_reset(&talk->chat, &err) != BERTH_OK) {
            *code = report_error("chat", &err);
            return false;
        }
        report_note("the conversation starts over");
    } else {
        report_note("unknown command %.40s; /help lists them", line);
    }
    return true;
}

static int converse(struct talk *talk)
{
    int code = EXIT_OK;
    bool interactive = host_is_terminal(HOST_STDIN);
    if (interactive && !talk->options.model.quiet) {
        fprintf(stderr, "%s: ", talk->engine.info.name);
        plan_print_short(&talk->engine.plan, stderr);
        fputs("/help lists commands, /exit leaves\n", stderr);
    }
    bool cancelled = false; /* the line before this one */
    while (code == EXIT_OK) {
        enum host_line got = host_read_line("> ", talk->line, talk->line_cap);
        if (got == HOST_LINE_CANCELLED) {
            fputc('\n', stderr);
            if (cancelled || !interactive || 128 + host_line_signal() != EXIT_INTERRUPTED) {
                return 128 + host_line_signal();
            }
            cancelled = true;
            report_note("that line is given up; Ctrl-C again, or /exit, leaves");
            continue;
        }
        cancelled = false;
        if (got == HOST_LINE_END) {
            if (interactive) {
                putchar('\n');
            }
            return EXIT_OK;
        }
        if (got == HOST_LINE_FAILED) {
            return report_failure("chat", "standard input could not be read");
        }
        if (got == HOST_LINE_TOO_LONG) {
            report_note("that line is longer than %zu bytes; ignored", talk->line_cap - 1);
            continue;
        }
        struct str message = str_from(talk->line);
        if (message.bytes == 0) {
            continue;
        }
        if (message.ptr[0] == '/' && message.ptr[1] != '/') {
            if (!command(talk, talk->line, &code)) {
                return code;
            }
            continue;
        }
        if (message.ptr[0] == '/') {
            message.ptr++;
            message.bytes--;
        }
        code = say(talk, message);
    }
    return code;
}

static int with_engine(struct talk *talk)
{
    if (!talk->engine.info.has_tokenizer) {
        return report_failure("chat", "this model has no tokenizer");
    }
    int code = set_template(talk);
    if (code == EXIT_OK) {
        code = take_memory(talk);
    }
    if (code != EXIT_OK) {
        return code;
    }
    berth_error err;
    if (chat_begin(&talk->chat, &err) != BERTH_OK) {
        return report_error("chat", &err);
    }
    return converse(talk);
}

/* A session is one run: what calibrates is its totals, and a row for every answer would bury the others. */
static void fill_report(struct talk *talk, struct run_report *report)
{
    *report = (struct run_report){.engine = &talk->engine, .turns = talk->sum.turns};
    report->base = report->stats = BERTH_STATS_INIT;
    berth_model_get_stats(talk->engine.model, &report->stats);
    host_read_peak(&report->peak);
    double seconds = (double)talk->sum.decode_ns * 1e-9;
    double decoded = (double)talk->sum.decoded;
    report->result.count = talk->sum.written;
    report->prompt_tokens = (uint32_t)(talk->sum.fed < UINT32_MAX ? talk->sum.fed : UINT32_MAX);
    report->prefill_tok_s = talk->sum.fed_s > 0 ? (double)talk->sum.fed / talk->sum.fed_s : 0;
    report->decode_tok_s = seconds > 0 ? decoded / seconds : 0;
    report->ctx_mean = decoded > 0 ? talk->sum.positions / decoded : 0;
}

static int run(int argc, char **argv)
{
    static struct run_report report;
    struct talk *talk = engine_take("chat", sizeof *talk); /* 20 KiB: not for the stack */
    if (talk == NULL) {
        return EXIT_FAILED;
    }
    talk->options.sample = (struct sample_options){.temperature = 0.7f, .top_p = 0.9f, .seed = SEED_NONE};
    int code;
    bool ready = report_args(&spec, argc, argv, &talk->options, &code);
    if (ready && !generate_stops_ok("chat", &talk->options.stops)) {
        code = EXIT_USAGE;
        ready = false;
    }
    if (ready) {
        if (talk->options.sample.seed == SEED_NONE) {
            talk->options.sample.seed = host_seed();
        }
        struct engine_needs needs = {
            .warm_ms = WARM_IDLE_MS,
            .extra_bytes =
                engine_text_bytes(talk->options.model.ctx_tokens) + (host_is_terminal(HOST_STDIN) ? EDITOR_BYTES : 0),
            .measure = !talk->options.model.quiet && host_is_terminal(HOST_STDERR),
        };
        host_catch_interrupts();
        code = engine_open(&talk->engine, "chat", &talk->options.model, &needs);
        if (code == EXIT_OK) {
            code = with_engine(talk);
            fill_report(talk, &report);
        }
        engine_close(&talk->engine);
        if (talk->sum.turns > 0) {
            keep_run(&report, &talk->options.model, "chat");
        }
    }
    free(talk->chat.ids);
    free(talk->chat.plain);
    free(talk->line);
    free(talk->piece);
    free(talk->sampler_memory);
    free(talk);
    return code;
}

const struct verb verb_chat = {"chat", &spec, run, false};
