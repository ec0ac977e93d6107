/* SPDX-License-Identifier: MIT
 * berth runs: what was predicted, what was measured. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/verbs.h"
#include "common/host_files.h"
#include "common/json_out.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/table.h"
#include "store/runs.h"

struct runs_options {
    const char *query;
    uint32_t last;
    bool json;
};

#define AT(field) offsetof(struct runs_options, field)
enum { LAST_DEFAULT = 20, LAST_MAX = 1000000 };

static const struct arg_option rows[] = {
    {.name = "last",
     .type = ARG_U32,
     .offset = AT(last),
     .value = "N",
     .low = 1,
     .high = LAST_MAX,
     .help = "the newest N (default 20)"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};
static const struct arg_group groups[] = {{"Options", rows, sizeof rows / sizeof rows[0], 0}};
static const struct arg_positional positionals[] = {{"QUERY", AT(query), true}};

static const struct arg_spec spec = {
    .verb = "runs",
    .synopsis = "[QUERY] [--last N] [--json]",
    .summary = "Show earlier runs: predicted against measured.",
    .details =
        "QUERY is a part of a model's name or path. 'off' (of tokens a second and of the prompt's) and 'peak' (of\n"
        "memory) are predicted by measured, in per cent too much (+) or too little (-). Runs made on another machine,\n"
        "or before its processor, memory or kernel changed, are shown with a * and predict nothing.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = sizeof groups / sizeof groups[0],
};

struct listing {
    struct runs_options options;
    struct table table;
    struct json_out json;
    struct machine_row machine;
    int64_t shown;
    bool elsewhere; /* one was made on another machine */
};

static void off_text(double predicted, double measured, char *text, size_t cap)
{
    if (predicted > 0 && measured > 0) {
        double off = 100 * (predicted / measured - 1);
        int places = off > -10 && off < 10 ? 1 : 0;
        snprintf(text, cap, "%+.*f%%", places, off < 99999 ? off : 99999);
    } else {
        snprintf(text, cap, "-");
    }
}

static void rate_text(double value, char *text, size_t cap)
{
    if (value > 0) {
        snprintf(text, cap, "%.*f", value < 10 ? 2 : value < 1000 ? 1 : 0, value);
    } else {
        snprintf(text, cap, "-");
    }
}

/* A store that was edited by hand has what no run leaves behind: shown as nothing. */
static bool is_share(double value)
{
    return value >= 0 && value <= 1;
}

static bool print_run(void *user, const void *data)
{
    enum { NAME_COLUMNS = 14 };
    struct listing *l = user;
    const struct run_row *r = data;
    char age[FORMAT_MAX + 1];
    char budget[FORMAT_MAX];
    char off[3][32];
    char tps[32];
    char prefill[32];
    char hit[32];
    bool here = strcmp(r->machine, l->machine.key) == 0;
    if (r->at >= 0) {
        age_format(store_now() - r->at, age);
    } else {
        snprintf(age, sizeof age, "-");
    }
    strcat(age, here ? "" : "*");
    l->elsewhere = l->elsewhere || !here;
    off_text((double)r->predicted_peak, (double)r->peak, off[0], sizeof off[0]);
    off_text(r->predicted_tps, r->tps, off[1], sizeof off[1]);
    off_text(r->predicted_prefill, r->prefill, off[2], sizeof off[2]);
    rate_text(r->tps, tps, sizeof tps);
    rate_text(r->prefill, prefill, sizeof prefill);
    snprintf(hit, sizeof hit, r->experts > 0 && is_share(r->hit) ? "%.0f%%" : "-", 100 * r->hit);
    const char *cells[] = {age,
                           r->kind,
                           table_name(&l->table, r->model, NAME_COLUMNS),
                           r->budget >= 0 ? size_format((uint64_t)r->budget, budget) : "-",
                           off[0],
                           tps,
                           off[1],
                           prefill,
                           off[2],
                           hit};
    table_row(&l->table, cells);
    l->shown++;
    return true;
}

static void json_pair(struct json_out *json, const char *key, double predicted, double measured)
{
    json_out_object(json, key);
    if (predicted > 0) {
        json_out_real(json, "predicted", predicted);
    } else {
        json_out_null(json, "predicted");
    }
    if (measured > 0) {
        json_out_real(json, "measured", measured);
    } else {
        json_out_null(json, "measured");
    }
    if (predicted > 0 && measured > 0) {
        json_out_real(json, "error", predicted / measured - 1);
    } else {
        json_out_null(json, "error");
    }
    json_out_close(json);
}

static void json_count(struct json_out *json, const char *key, int64_t value)
{
    if (value >= 0) {
        json_out_i64(json, key, value);
    } else {
        json_out_null(json, key);
    }
}

static void json_rate(struct json_out *json, const char *key, double value)
{
    if (value >= 0) {
        json_out_real(json, key, value);
    } else {
        json_out_null(json, key);
    }
}

static bool json_run(void *user, const void *data)
{
    struct listing *l = user;
    const struct run_row *r = data;
    struct json_out *json = &l->json;
    json_out_object(json, NULL);
    json_count(json, "at", r->at);
    json_out_string(json, "kind", r->kind);
    json_out_string(json, "model", r->model);
    json_out_string(json, "path", r->path);
    json_out_string(json, "fingerprint", r->fingerprint);
    json_out_bool(json, "this_machine", strcmp(r->machine, l->machine.key) == 0);
    json_out_string(json, "engine", r->engine);
    json_out_string(json, "kv", r->kv);
    json_out_string(json, "policy", r->policy);
    json_out_string(json, "kernels", r->isa);
    json_out_string(json, "io", r->io);
    json_count(json, "threads", r->threads);
    json_count(json, "budget_bytes", r->budget);
    json_count(json, "ctx", r->ctx);
    json_count(json, "chunk", r->chunk);
    json_count(json, "slots", r->slots);
    json_count(json, "experts", r->experts);
    json_out_bool(json, "resident", r->resident != 0);
    json_count(json, "tokens", r->tokens);
    json_count(json, "prompt_tokens", r->prompt);
    json_pair(json, "peak_bytes", (double)r->predicted_peak, (double)r->peak);
    json_pair(json, "tokens_per_s", r->predicted_tps, r->tps);
    json_rate(json, "tokens_per_s_low", r->predicted_low);
    json_rate(json, "tokens_per_s_high", r->predicted_high);
    json_pair(json, "prefill_tokens_per_s", r->predicted_prefill, r->prefill);
    json_pair(json, "hit_rate", r->predicted_hit, is_share(r->hit) ? r->hit : 0);
    json_out_string(json, "basis", r->basis);
    json_rate(json, "memory_bytes_per_s", r->memory_rate);
    json_rate(json, "read_bytes_per_s", r->read_rate);
    json_rate(json, "decode_macs_per_s", r->decode_macs);
    json_out_close(json);
    l->shown++;
    return true;
}

static bool walk(struct store *store, struct listing *l, store_row_fn *fn)
{
    static struct run_row row;
    char tail[320];
    char most[32];
    snprintf(most, sizeof most, "%" PRIu32, l->options.last);
    snprintf(tail, sizeof tail,
             "WHERE ?1 = '' OR instr(lower(model), lower(?1)) > 0 OR instr(lower(path), lower(?1)) > 0 "
             "ORDER BY id DESC LIMIT CAST(?2 AS INTEGER)");
    const char *const texts[2] = {l->options.query != NULL ? l->options.query : "", most};
    l->shown = 0;
    return store_each(store, &run_table, tail, texts, &row, fn, l);
}

static bool list(struct store *store, struct listing *l)
{
    static const char *const head[] = {"ago",   "kind", "model",  "budget", "peak",
                                       "tok/s", "off",  "prompt", "off",    "hits"};
    if (l->options.json) {
        json_out_begin(&l->json, stdout);
        json_out_object(&l->json, NULL);
        json_out_array(&l->json, "runs", false);
        bool done = walk(store, l, json_run);
        json_out_close(&l->json);
        json_out_close(&l->json);
        json_out_end(&l->json);
        return done;
    }
    table_begin(&l->table, stdout, "rllrrrrrrr", 0);
    for (int pass = 0; pass < 2; pass++) {
        table_row(&l->table, head);
        if (!walk(store, l, print_run)) {
            return false;
        }
        if (l->shown == 0) {
            report_note("no runs are kept%s", l->options.query != NULL ? " of such a model" : " yet");
            break;
        }
        table_print(&l->table);
    }
    if (l->elsewhere) {
        printf("\n* on another machine, or before this one changed\n");
    }
    return true;
}

static int run(int argc, char **argv)
{
    struct listing l = {.options = {.last = LAST_DEFAULT}};
    int code;
    berth_error err;
    char problem[STORE_PROBLEM_MAX];
    if (!report_args(&spec, argc, argv, &l.options, &code)) {
        return code;
    }
    if (!machine_identify(&l.machine, &err)) {
        return report_error("runs", &err);
    }
    struct store *store = store_open(true, problem);
    if (store == NULL) {
        return report_failure("runs", "%s", problem);
    }
    bool done = list(store, &l);
    code = done ? EXIT_OK : report_failure("runs", "%s", store_problem(store));
    store_close(store);
    return code;
}

const struct verb verb_runs = {"runs", &spec, run, false};
