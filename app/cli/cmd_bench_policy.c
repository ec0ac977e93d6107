/* SPDX-License-Identifier: MIT
 * berth bench policy: the cache policies in turn on the user's own prompts, each run in a process of its own. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/keep.h"
#include "cli/verbs.h"
#include "common/engine.h"
#include "common/host.h"
#include "common/input.h"
#include "common/json_out.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/stats.h"
#include "common/table.h"
#include "tool.h"

enum { POLICIES_MAX = 8, ROUNDS_MAX = 32, PROMPTS_MAX = 64, NAME_MAX_BYTES = 128, LINE_BYTES = 8192 };

struct bench_options {
    struct model_options model;
    struct arg_texts prompts;
    const char *prompts_file, *ids, *policies;
    uint32_t length, rounds;
    bool cold, json;
};

#define AT(field) offsetof(struct bench_options, field)

static const struct arg_option rows[] = {
    {.name = "policies",
     .type = ARG_TEXT,
     .offset = AT(policies),
     .value = "LIST",
     .help = "NAME,NAME:key=value,... the first is what others are\ncompared with (default: next-use and all others)"},
    {.name = "prompt",
     .letter = 'p',
     .type = ARG_TEXTS,
     .offset = AT(prompts),
     .value = "TEXT",
     .help = "a prompt; may be given several times"},
    {.name = "prompts",
     .type = ARG_TEXT,
     .offset = AT(prompts_file),
     .value = "FILE",
     .help = "a file of prompts, one a line"},
    {.name = "ids", .type = ARG_TEXT, .offset = AT(ids), .value = "LIST", .help = "one prompt as token ids: 1,2,3"},
    {.name = "length",
     .letter = 'n',
     .type = ARG_U32,
     .offset = AT(length),
     .value = "N",
     .low = 2,
     .high = 1 << 20,
     .help = "tokens to generate after each prompt (default 64)"},
    {.name = "rounds",
     .type = ARG_U32,
     .offset = AT(rounds),
     .value = "N",
     .low = 1,
     .high = ROUNDS_MAX,
     .help = "runs of each policy, forwards and backwards in turn\n(default 4)"},
    {.name = "cold", .type = ARG_FLAG, .offset = AT(cold), .help = "without the model's ledger"},
    {.name = "ledger-path",
     .type = ARG_TEXT,
     .offset = AT(model.ledger_path),
     .value = "FILE",
     .help = "this ledger instead of the model's own"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};

enum { THREAD_OPTIONS = 4 }; /* --threads --io-threads --isa --io */
static const struct arg_group groups[] = {
    {"Options", rows, sizeof rows / sizeof rows[0], 0},
    {"Memory", plan_option_rows, PLAN_OPTIONS, AT(model)},
    {"Machine", machine_option_rows, THREAD_OPTIONS, AT(model)},
    {NULL, talk_option_rows, TALK_OPTIONS, AT(model)},
};
static const struct arg_positional positionals[] = {{"MODEL", AT(model.path), false}};

static const struct arg_spec spec = {
    .verb = "bench policy",
    .synopsis = "MODEL [--policies LIST] [-p TEXT]... [--prompts FILE] [--rounds N] [OPTIONS]",
    .summary = "Run the cache policies in turn on the same prompts and recommend one.",
    .details =
        "Each run is a process of its own; all prompts are answered in it, greedily. Policies take turns forwards\n"
        "and backwards, so that what changes slowly on the machine hits all alike. The ledger is read, never\n"
        "written. With direct reads (the default where the file system allows them) the page cache plays no part,\n"
        "so nothing needs to be dropped between runs. Bytes and hits repeat exactly; only times scatter.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = sizeof groups / sizeof groups[0],
};

enum { WARM_ALL_MS = 600000 }; /* the warm start is never cut short: every run begins alike */

/* What a child sends back. */
struct run_result {
    uint64_t prompt_tokens, tokens, decode_ns, prefill_ns;
    uint64_t hits, misses, read_bytes, stall_ns, prefill_read_bytes, warm_read_bytes;
    uint64_t policy_ns, answer_hash;
    bool direct_io;
};

struct policy_runs {
    char name[NAME_MAX_BYTES];
    struct run_result runs[ROUNDS_MAX];
    double rate[ROUNDS_MAX]; /* tok/s, ascending once summarised */
    double median, stall_ms;
    bool near; /* not clearly slower than the fastest */
};

struct bench {
    struct bench_options options;
    char *texts[PROMPTS_MAX]; /* from the file; free() */
    const char *prompts[PROMPTS_MAX];
    uint32_t prompts_count;
    struct id_list ids;
    struct policy_runs policies[POLICIES_MAX];
    uint32_t policies_count, rounds_done;
    struct policy_runs *now; /* whose turn it is */
    bool same_answers;
};

/* ---- what to run ---------------------------------------------------------------------------------------- */

static int add_policy(struct bench *bench, const char *name, size_t bytes)
{
    if (bytes == 0 || bytes >= NAME_MAX_BYTES || bench->policies_count == POLICIES_MAX) {
        return report_usage(spec.verb, "--policies: at most %d names of at most %d bytes", POLICIES_MAX,
                            NAME_MAX_BYTES - 1);
    }
    memcpy(bench->policies[bench->policies_count++].name, name, bytes);
    return EXIT_OK;
}

/* "a,b:k=1,l=2,c": a piece with '=' but no ':' goes on with the one before. */
static int choose_policies(struct bench *bench)
{
    const char *list = bench->options.policies;
    bool replay_only = false;
    const char *name;
    for (uint32_t i = 0; list == NULL && (name = tool_policy_name(i, &replay_only)) != NULL; i++) {
        if (!replay_only && add_policy(bench, name, strlen(name)) != EXIT_OK) {
            return EXIT_USAGE;
        }
    }
    for (const char *at = list; at != NULL && *at != '\0';) {
        size_t bytes = strcspn(at, ",");
        while (at[bytes] == ',') {
            size_t more = strcspn(at + bytes + 1, ",");
            const char *piece = at + bytes + 1;
            if (memchr(piece, '=', more) == NULL || memchr(piece, ':', more) != NULL) {
                break;
            }
            bytes += 1 + more;
        }
        if (add_policy(bench, at, bytes) != EXIT_OK) {
            return EXIT_USAGE;
        }
        at += bytes + (at[bytes] == ',' ? 1 : 0);
    }
    return bench->policies_count > 0 ? EXIT_OK : report_usage(spec.verb, "--policies names nothing");
}

static int read_prompts(struct bench *bench)
{
    const char *path = bench->options.prompts_file;
    char line[LINE_BYTES];
    FILE *in = host_open_text(path);
    if (in == NULL && host_interrupted()) {
        return host_interrupt_code();
    }
    if (in == NULL) {
        return report_failure(spec.verb, "cannot read %s: %s", path, strerror(errno));
    }
    int code = EXIT_OK;
    while (code == EXIT_OK && fgets(line, sizeof line, in) != NULL) {
        size_t bytes = input_chomp(line, strlen(line));
        if (bytes + 1 == sizeof line) {
            code = report_failure(spec.verb, "%s: a line is longer than %d bytes", path, LINE_BYTES - 2);
        } else if (bytes > 0 && bench->prompts_count < PROMPTS_MAX) {
            char *text = engine_take(spec.verb, bytes + 1);
            if (text == NULL) {
                code = EXIT_FAILED;
                break;
            }
            memcpy(text, line, bytes);
            bench->texts[bench->prompts_count] = text;
            bench->prompts[bench->prompts_count++] = text;
        }
    }
    bool lost = ferror(in) != 0;
    (void)fclose(in);
    code = code == EXIT_OK && host_interrupted() ? host_interrupt_code() : code;
    if (code == EXIT_OK && (lost || bench->prompts_count == 0)) {
        code = report_failure(spec.verb, "%s has no prompts", path);
    }
    return code;
}

static int choose_prompts(struct bench *bench)
{
    static const char *const usual[] = {"Once upon a time", "The most important thing about memory is",
                                        "In the morning the harbour"};
    const struct bench_options *o = &bench->options;
    if ((o->prompts.count > 0) + (o->prompts_file != NULL) + (o->ids != NULL) > 1) {
        return report_usage(spec.verb, "--prompt, --prompts and --ids exclude each other");
    }
    if (o->ids != NULL) {
        return input_ids(spec.verb, o->ids, INPUT_BYTES_MAX, &bench->ids);
    }
    if (o->prompts_file != NULL) {
        return read_prompts(bench);
    }
    for (uint32_t i = 0; i < o->prompts.count; i++) {
        bench->prompts[bench->prompts_count++] = o->prompts.items[i];
    }
    for (size_t i = 0; o->prompts.count == 0 && i < sizeof usual / sizeof usual[0]; i++) {
        bench->prompts[bench->prompts_count++] = usual[i];
    }
    return EXIT_OK;
}

/* ---- one run, in the child ------------------------------------------------------------------------------- */

static int32_t likeliest(const float *logits, uint32_t vocab)
{
    uint32_t best = 0;
    for (uint32_t id = 1; id < vocab; id++) {
        best = logits[id] > logits[best] ? id : best;
    }
    return (int32_t)best;
}

static berth_status answer(struct engine *engine, const int32_t *ids, size_t count, uint32_t length,
                           struct run_result *out, berth_error *err)
{
    berth_status status = berth_session_truncate(engine->session, 0);
    status = status == BERTH_OK ? berth_session_eval(engine->session, ids, count, NULL, NULL, err) : status;
    for (uint32_t i = 0; i < length && status == BERTH_OK; i++) {
        int32_t id = likeliest(berth_session_logits(engine->session), engine->info.vocab);
        out->answer_hash = (out->answer_hash ^ (uint32_t)id) * 1099511628211u;
        if (i + 1 < length) { /* nobody needs what comes after the last one */
            status = berth_session_eval(engine->session, &id, 1, NULL, NULL, err);
        }
    }
    return status == BERTH_OK ? berth_session_turn_end(engine->session, NULL, err) : status;
}

static int answer_all(const struct bench *bench, struct engine *engine, struct run_result *out)
{
    const struct bench_options *o = &bench->options;
    uint32_t ctx = engine->plan.ctx_tokens;
    uint32_t count = bench->ids.count > 0 ? 1 : bench->prompts_count;
    int32_t *ids = engine_take(spec.verb, (uint64_t)ctx * sizeof *ids);
    berth_error err;
    berth_status status = BERTH_OK;
    if (ids == NULL) {
        return EXIT_FAILED;
    }
    for (uint32_t i = 0; i < count && status == BERTH_OK; i++) {
        size_t length = bench->ids.count;
        const int32_t *prompt = bench->ids.ids;
        if (bench->ids.count == 0) {
            prompt = ids;
            status = berth_tokenize(engine->model, bench->prompts[i], strlen(bench->prompts[i]),
                                    BERTH_TOKENIZE_BOS | BERTH_TOKENIZE_SPECIAL, ids, ctx, &length, &err);
        }
        if (status == BERTH_OK && length + o->length > ctx) {
            free(ids);
            return report_failure(spec.verb, "prompt %u and its answer need %zu tokens, the context holds %u; %s",
                                  i + 1, length + o->length, ctx, engine_more_ctx(ctx, engine->info.ctx_max_tokens));
        }
        status = status == BERTH_OK ? answer(engine, prompt, length, o->length, out, &err) : status;
    }
    free(ids);
    return status == BERTH_OK ? EXIT_OK : report_error(spec.verb, &err);
}

/* What berth runs shows of it. Of several prompts, the average one. */
static void fill_report(const struct bench *bench, const berth_stats *stats, struct run_report *report)
{
    uint64_t prompts = bench->prompts_count > 0 ? bench->prompts_count : 1;
    report->stats = *stats;
    report->base = BERTH_STATS_INIT;
    report->prompt_tokens = (uint32_t)(stats->prefill_tokens / prompts);
    report->result.count = (uint32_t)stats->decode_tokens;
    report->prefill_tok_s = stats->prefill_ns > 0 ? (double)stats->prefill_tokens * 1e9 / (double)stats->prefill_ns : 0;
    report->decode_tok_s = stats->decode_ns > 0 ? (double)stats->decode_tokens * 1e9 / (double)stats->decode_ns : 0;
    host_read_peak(&report->peak);
}

static int run_once(void *user, void *result)
{
    struct bench *bench = user;
    struct run_result *out = result;
    struct engine engine;
    struct run_report report = {.engine = &engine};
    struct engine_needs needs = {.ctx_tokens = bench->ids.count + bench->options.length, .warm_ms = WARM_ALL_MS};
    bench->options.model.policy = bench->now->name;
    bench->options.model.quiet = true;
    *out = (struct run_result){.answer_hash = 14695981039346656037u};
    int code = engine_open(&engine, spec.verb, &bench->options.model, &needs);
    if (code == EXIT_OK && bench->ids.count == 0 && !engine.info.has_tokenizer) {
        code = report_usage(spec.verb, "this model has no tokenizer; give a prompt as --ids");
    }
    if (code == EXIT_OK) {
        berth_stats stats = BERTH_STATS_INIT;
        code = answer_all(bench, &engine, out);
        berth_model_get_stats(engine.model, &stats);
        out->prompt_tokens = stats.prefill_tokens;
        out->tokens = stats.decode_tokens;
        out->prefill_ns = stats.prefill_ns;
        out->decode_ns = stats.decode_ns;
        out->hits = stats.hits[BERTH_PHASE_DECODE];
        out->misses = stats.misses[BERTH_PHASE_DECODE];
        out->read_bytes = stats.read_bytes[BERTH_PHASE_DECODE];
        out->prefill_read_bytes = stats.read_bytes[BERTH_PHASE_PREFILL];
        out->stall_ns = stats.stall_ns[BERTH_PHASE_DECODE];
        out->warm_read_bytes = stats.warm_read_bytes;
        out->policy_ns = stats.policy_ns;
        out->direct_io = stats.direct_io;
        fill_report(bench, &stats, &report);
    }
    engine_close(&engine);
    if (code == EXIT_OK) {
        keep_run(&report, &bench->options.model, "bench");
    }
    return code;
}

static int run_all(struct bench *bench)
{
    uint32_t count = bench->policies_count;
    for (uint32_t round = 0; round < bench->options.rounds; round++) {
        for (uint32_t turn = 0; turn < count; turn++) {
            struct policy_runs *now = &bench->policies[round % 2 == 0 ? turn : count - 1 - turn];
            int code = EXIT_OK;
            bench->now = now;
            if (!bench->options.model.quiet) {
                report_note("round %u of %u: %s", round + 1, bench->options.rounds, now->name);
            }
            if (!host_in_child(run_once, bench, &now->runs[round], sizeof now->runs[round], &code)) {
                return report_failure(spec.verb, "no process could be started: %s", strerror(errno));
            }
            if (code != EXIT_OK || host_interrupted()) {
                return host_interrupted() ? host_interrupt_code() : code;
            }
        }
        bench->rounds_done++;
    }
    return EXIT_OK;
}

/* ---- what came out --------------------------------------------------------------------------------------- */

static double per_token(uint64_t amount, const struct run_result *run)
{
    return run->tokens > 0 ? (double)amount / (double)run->tokens : 0.0;
}

static double hit_rate(const struct run_result *run)
{
    uint64_t all = run->hits + run->misses;
    return all > 0 ? (double)run->hits / (double)all : 0.0;
}

/* The policy to take: of those that are not clearly slower than the fastest (its best run under the fastest one's
 * median, its median under the fastest one's worst run; one round says nothing) the one that reads the least. */
static uint32_t summarise(struct bench *bench)
{
    uint32_t fastest = 0;
    uint32_t best = POLICIES_MAX;
    uint32_t rounds = bench->rounds_done;
    bench->same_answers = true;
    for (uint32_t i = 0; i < bench->policies_count; i++) {
        struct policy_runs *p = &bench->policies[i];
        double stalls[ROUNDS_MAX];
        for (uint32_t r = 0; r < rounds; r++) {
            p->rate[r] = p->runs[r].decode_ns > 0 ? (double)p->runs[r].tokens * 1e9 / (double)p->runs[r].decode_ns : 0;
            stalls[r] = per_token(p->runs[r].stall_ns, &p->runs[r]) * 1e-6;
            bench->same_answers =
                bench->same_answers && p->runs[r].answer_hash == bench->policies[0].runs[0].answer_hash;
        }
        p->median = stats_median(p->rate, rounds);
        p->stall_ms = stats_median(stalls, rounds);
        fastest = p->median > bench->policies[fastest].median ? i : fastest;
    }
    const struct policy_runs *top = &bench->policies[fastest];
    for (uint32_t i = 0; i < bench->policies_count; i++) {
        struct policy_runs *p = &bench->policies[i];
        p->near = i == fastest || rounds < 2 || !(p->rate[rounds - 1] < top->median && p->median < top->rate[0]);
        if (p->near && (best == POLICIES_MAX || p->runs[0].read_bytes < bench->policies[best].runs[0].read_bytes)) {
            best = i;
        }
    }
    return best;
}

static uint32_t near_count(const struct bench *bench)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < bench->policies_count; i++) {
        count += bench->policies[i].near ? 1 : 0;
    }
    return count;
}

static void table_rows(struct table *table, const struct bench *bench)
{
    enum { COLUMNS = 9, CELL = 64 };
    static const char *const head[COLUMNS] = {"policy",     "tok/s",    "slowest",  "fastest",  "ratio",
                                              "read/token", "hit rate", "stall ms", "policy us"};
    char texts[COLUMNS][CELL];
    const char *cells[COLUMNS];
    table_row(table, head);
    for (int i = 0; i < COLUMNS; i++) {
        cells[i] = texts[i];
    }
    for (uint32_t i = 0; i < bench->policies_count; i++) {
        const struct policy_runs *p = &bench->policies[i];
        const struct run_result *run = &p->runs[0];
        char size[FORMAT_MAX];
        snprintf(texts[0], CELL, "%.60s", p->name);
        snprintf(texts[1], CELL, "%.2f", p->median);
        snprintf(texts[2], CELL, "%.2f", p->rate[0]);
        snprintf(texts[3], CELL, "%.2f", p->rate[bench->rounds_done - 1]);
        snprintf(texts[4], CELL, "%.3f", bench->policies[0].median > 0 ? p->median / bench->policies[0].median : 0.0);
        snprintf(texts[5], CELL, "%s", size_format((uint64_t)per_token(run->read_bytes, run), size));
        snprintf(texts[6], CELL, "%.1f %%", 100 * hit_rate(run));
        snprintf(texts[7], CELL, "%.2f", p->stall_ms);
        snprintf(texts[8], CELL, "%.1f",
                 (double)run->policy_ns * 1e-3 /
                     (double)(run->tokens + run->prompt_tokens > 0 ? run->tokens + run->prompt_tokens : 1));
        table_row(table, cells);
    }
}

static void print_text(const struct bench *bench, uint32_t best)
{
    const struct run_result *run = &bench->policies[0].runs[0];
    struct table table;
    printf("%u runs of each policy: %" PRIu64 " prompt and %" PRIu64 " answer tokens; medians, ratio to %s\n",
           bench->rounds_done, run->prompt_tokens, run->tokens, bench->policies[0].name);
    table_begin(&table, stdout, "lrrrrrrrr", 2);
    table_rows(&table, bench);
    table_print(&table);
    table_rows(&table, bench);
    printf("answers %s; %s\n", bench->same_answers ? "identical" : "DIFFER: please report this",
           run->direct_io ? "direct reads, the page cache plays no part"
                          : "reads go through the page cache, so later runs may find files there");
    const char *name = bench->policies[best].name;
    if (bench->policies_count == 1) {
        printf("nothing to compare with\n");
    } else if (bench->rounds_done < 2) {
        printf("recommended: --policy %s, which reads the least; one round does not tell speeds from noise\n", name);
    } else if (near_count(bench) == 1) {
        printf("recommended: --policy %s, faster than the others beyond noise\n", name);
    } else {
        printf("recommended: --policy %s, which reads the least of the %u whose speeds differ within noise\n", name,
               near_count(bench));
    }
}

static void json_runs(struct json_out *json, const struct policy_runs *p, uint32_t rounds)
{
    json_out_array(json, "runs", false);
    for (uint32_t r = 0; r < rounds; r++) {
        const struct run_result *run = &p->runs[r];
        json_out_object(json, NULL);
        json_out_u64(json, "tokens", run->tokens);
        json_out_real(json, "decode_s", (double)run->decode_ns * 1e-9);
        json_out_real(json, "prefill_s", (double)run->prefill_ns * 1e-9);
        json_out_u64(json, "hits", run->hits);
        json_out_u64(json, "misses", run->misses);
        json_out_u64(json, "read_bytes", run->read_bytes);
        json_out_u64(json, "prefill_read_bytes", run->prefill_read_bytes);
        json_out_u64(json, "warm_read_bytes", run->warm_read_bytes);
        json_out_real(json, "stall_s", (double)run->stall_ns * 1e-9);
        json_out_real(json, "policy_s", (double)run->policy_ns * 1e-9);
        json_out_close(json);
    }
    json_out_close(json);
}

static void print_json(const struct bench *bench, uint32_t best)
{
    struct json_out json;
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    json_out_u64(&json, "rounds", bench->rounds_done);
    json_out_bool(&json, "direct_io", bench->policies[0].runs[0].direct_io);
    json_out_bool(&json, "same_answers", bench->same_answers);
    json_out_string(&json, "recommended", bench->policies[best].name);
    json_out_bool(&json, "beyond_noise", near_count(bench) == 1);
    json_out_array(&json, "policies", false);
    for (uint32_t i = 0; i < bench->policies_count; i++) {
        const struct policy_runs *p = &bench->policies[i];
        json_out_object(&json, NULL);
        json_out_string(&json, "policy", p->name);
        json_out_real(&json, "tokens_per_s", p->median);
        json_out_real(&json, "slowest", p->rate[0]);
        json_out_real(&json, "fastest", p->rate[bench->rounds_done - 1]);
        json_out_real(&json, "ratio", bench->policies[0].median > 0 ? p->median / bench->policies[0].median : 0.0);
        json_out_real(&json, "read_bytes_per_token", per_token(p->runs[0].read_bytes, &p->runs[0]));
        json_out_real(&json, "hit_rate", hit_rate(&p->runs[0]));
        json_out_real(&json, "stall_ms_per_token", p->stall_ms);
        json_out_bool(&json, "within_noise", p->near);
        json_runs(&json, p, bench->rounds_done);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_close(&json);
    json_out_end(&json);
}

static int bench_run(struct bench *bench)
{
    int code = choose_policies(bench);
    code = code == EXIT_OK ? choose_prompts(bench) : code;
    if (code != EXIT_OK) {
        return code;
    }
    bench->options.model.ledger = bench->options.cold ? LEDGER_OFF : LEDGER_READ;
    host_catch_interrupts();
    code = run_all(bench);
    if (code != EXIT_OK) {
        return code;
    }
    uint32_t best = summarise(bench);
    if (bench->options.json) {
        print_json(bench, best);
    } else {
        print_text(bench, best);
    }
    return bench->same_answers ? EXIT_OK : EXIT_FAILED;
}

static int run(int argc, char **argv)
{
    int code = EXIT_OK;
    struct bench *bench = engine_take(spec.verb, sizeof *bench);
    if (bench == NULL) {
        return EXIT_FAILED;
    }
    bench->options.length = 64;
    bench->options.rounds = 4;
    if (report_args(&spec, argc, argv, &bench->options, &code)) {
        code = bench_run(bench);
    }
    for (uint32_t i = 0; i < PROMPTS_MAX; i++) {
        free(bench->texts[i]);
    }
    free(bench->ids.ids);
    free(bench);
    return report_flush(spec.verb, code);
}

const struct verb verb_bench_policy = {"policy", &spec, run, false};
