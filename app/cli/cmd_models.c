/* SPDX-License-Identifier: MIT
 * berth models: what models are on this machine, and what they would do here. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/verbs.h"
#include "common/engine.h"
#include "common/json_out.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/table.h"
#include "store/find.h"

struct models_options {
    const char *query;
    struct arg_texts add, remove;
    const char *preferred;
    uint64_t budget_bytes;
    float usable;
    bool scan, pick, paths, json;
};

#define AT(field) offsetof(struct models_options, field)

static const struct arg_option rows[] = {
    {.name = "add",
     .type = ARG_TEXTS,
     .offset = AT(add),
     .value = "DIR",
     .help = "look for models in this folder too, from now on"},
    {.name = "remove", .type = ARG_TEXTS, .offset = AT(remove), .value = "DIR", .help = "no longer"},
    {.name = "scan", .type = ARG_FLAG, .offset = AT(scan), .help = "read the headers of unchanged files again"},
    {.name = "pick",
     .type = ARG_FLAG,
     .offset = AT(pick),
     .help = "print the path of the model to use when none is named"},
    {.name = "default",
     .type = ARG_TEXT,
     .offset = AT(preferred),
     .value = "NAME",
     .help = "the model that --pick prefers when it fits; '' forgets"},
    {.name = "usable",
     .type = ARG_REAL,
     .offset = AT(usable),
     .value = "TPS",
     .real_low = 0,
     .real_high = 1e6,
     .help = "tokens a second that --pick wants of a model that\nstreams (default 5)"},
    {.name = "budget",
     .type = ARG_BUDGET,
     .offset = AT(budget_bytes),
     .value = "SIZE",
     .help = "for this much memory (default: what is free)"},
    {.name = "paths", .type = ARG_FLAG, .offset = AT(paths), .help = "show where they lie"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};
static const struct arg_group groups[] = {{"Options", rows, sizeof rows / sizeof rows[0], 0}};
static const struct arg_positional positionals[] = {{"QUERY", AT(query), true}};

static const struct arg_spec spec = {
    .verb = "models",
    .synopsis = "[QUERY] [--add DIR] [--pick] [--json]",
    .summary = "List the models on this machine and what they would do here.",
    .details = "Looks through the caches of Hugging Face, LM Studio, llama.cpp and Ollama and the folders added with\n"
               "--add, reading headers only. Every MODEL on a command line may be such a name, or a part of one, and\n"
               "'auto' is what --pick picks.\n"
               "Exit status: 0 ok, 1 failure or nothing to pick, 2 usage.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = sizeof groups / sizeof groups[0],
};

struct models {
    struct models_options options;
    struct store *store;
    struct machine_row machine;
    berth_budget budget;
    struct models_scan scan;
    struct table table;
    struct json_out json;
    bool as_json;
    int64_t shown;
};

static const char *name_of(const struct model_row *row)
{
    return row->alias[0] != '\0' ? row->alias : row->name;
}

static void speed_text(const struct model_outlook *outlook, char *text, size_t cap)
{
    const berth_speed *s = &outlook->speed.decode;
    if (outlook->verdict == MODEL_TOO_BIG || outlook->verdict == MODEL_UNKNOWN) {
        snprintf(text, cap, "-");
    } else if (s->tokens_per_s <= 0) {
        snprintf(text, cap, "unknown");
    } else {
        int places = s->high < 100 ? 1 : 0;
        snprintf(text, cap, "%.*f (%.*f-%.*f)", places, s->tokens_per_s, places, s->low, places, s->high);
    }
}

static void print_model(struct models *m, const struct model_row *row, const struct model_outlook *outlook)
{
    /* What a row of 80 columns has left. A longer name has a line of its own: it is what is typed, and stays whole. */
    enum { NAME_COLUMNS = 22 };
    char size[FORMAT_MAX];
    char count[FORMAT_MAX];
    char speed[64];
    speed_text(outlook, speed, sizeof speed);
    const char *cells[] = {table_name(&m->table, name_of(row), NAME_COLUMNS),
                           size_format((uint64_t)row->tensor_bytes, size),
                           count_format((uint64_t)row->parameters, count),
                           row->quant,
                           model_verdict_name(outlook->verdict),
                           speed};
    table_row(&m->table, cells);
    if (m->options.paths && !m->table.measuring) {
        char line[sizeof row->path + sizeof row->origin + 8];
        snprintf(line, sizeof line, "    %s, %s", row->origin, row->path);
        table_line(&m->table, line);
    }
}

static void json_speed(struct json_out *json, const struct model_outlook *outlook)
{
    const struct speed_answer *speed = &outlook->speed;
    if (speed->decode.tokens_per_s > 0) {
        json_out_real(json, "tokens_per_s", speed->decode.tokens_per_s);
        json_out_real(json, "tokens_per_s_low", speed->decode.low);
        json_out_real(json, "tokens_per_s_high", speed->decode.high);
    } else {
        json_out_null(json, "tokens_per_s");
        json_out_null(json, "tokens_per_s_low");
        json_out_null(json, "tokens_per_s_high");
    }
    json_out_string(json, "speed_basis", speed->basis);
}

static void json_model(struct json_out *json, const struct model_row *row, const struct model_outlook *outlook)
{
    json_out_string(json, "name", name_of(row));
    json_out_string(json, "path", row->path);
    json_out_string(json, "origin", row->origin);
    json_out_string(json, "model", row->name);
    json_out_string(json, "family", row->family);
    if (row->problem[0] != '\0') {
        json_out_string(json, "problem", row->problem);
    } else {
        json_out_null(json, "problem");
    }
    json_out_string(json, "format", row->format);
    json_out_string(json, "type", row->quant);
    json_out_string(json, "fingerprint", row->fingerprint);
    json_out_u64(json, "parameters", (uint64_t)row->parameters);
    json_out_u64(json, "tensor_bytes", (uint64_t)row->tensor_bytes);
    json_out_u64(json, "hard_floor_bytes", (uint64_t)row->hard_floor);
    json_out_u64(json, "floor_bytes", (uint64_t)row->floor);
    json_out_u64(json, "full_bytes", (uint64_t)row->full);
    json_out_string(json, "verdict", model_verdict_name(outlook->verdict));
    json_out_u64(json, "slots", (uint64_t)outlook->slots);
    json_out_u64(json, "experts", (uint64_t)outlook->experts);
    json_speed(json, outlook);
}

static bool show(void *user, const void *data)
{
    struct models *m = user;
    const struct model_row *row = data;
    struct model_outlook outlook;
    models_outlook(m->store, m->machine.key, row, m->budget.bytes, &outlook);
    if (m->as_json) {
        json_out_object(&m->json, NULL);
        json_model(&m->json, row, &outlook);
        json_out_close(&m->json);
    } else {
        print_model(m, row, &outlook);
    }
    m->shown++;
    return true;
}

/* All of them, or those that the query may mean. */
static bool walk(struct models *m)
{
    struct model_row *row = calloc(1, sizeof *row);
    m->shown = 0;
    bool done = false;
    if (row != NULL && m->options.query != NULL) {
        done = models_find(m->store, m->options.query, show, m) >= 0;
    } else if (row != NULL) {
        done = store_each(m->store, &model_table, "ORDER BY tensor_bytes DESC, path", NULL, row, show, m);
    }
    free(row);
    return done;
}

static int list(struct models *m)
{
    m->as_json = m->options.json;
    if (m->as_json) {
        json_out_begin(&m->json, stdout);
        json_out_object(&m->json, NULL);
        json_out_u64(&m->json, "budget_bytes", m->budget.bytes);
        json_out_string(&m->json, "binding", m->budget.binding);
        json_out_u64(&m->json, "found", m->scan.found);
        json_out_u64(&m->json, "read", m->scan.read);
        json_out_u64(&m->json, "gone", m->scan.gone);
        json_out_array(&m->json, "models", false);
        bool done = walk(m);
        json_out_close(&m->json);
        json_out_close(&m->json);
        json_out_end(&m->json);
        return done ? EXIT_OK : report_failure("models", "%s", store_problem(m->store));
    }
    table_begin(&m->table, stdout, "lrrlll", 0);
    static const char *const head[] = {"model", "size", "params", "type", "here", "tok/s"};
    bool done = true;
    for (int pass = 0; pass < 2 && done; pass++) {
        table_row(&m->table, head);
        done = walk(m);
        if (m->shown == 0) {
            break;
        }
        table_print(&m->table);
    }
    if (!done) {
        return report_failure("models", "%s", store_problem(m->store));
    }
    if (m->shown == 0) {
        report_note(m->options.query != NULL ? "no known model is called so"
                                             : "no models found; --add DIR looks there too");
        return EXIT_OK;
    }
    char budget[FORMAT_MAX];
    printf("\nhere: with %s (%s), called by name (by its path a model\ntakes about 2 MiB less: nothing is looked up)\n",
           size_format(m->budget.bytes, budget), m->budget.binding);
    return EXIT_OK;
}

static int pick(struct models *m)
{
    struct model_pick *picked = calloc(1, sizeof *picked);
    int code = EXIT_FAILED;
    if (picked == NULL || !models_pick(m->store, m->machine.key, m->budget.bytes, (double)m->options.usable, picked)) {
        code = report_failure("models", "%s", picked != NULL ? store_problem(m->store) : "the system has no memory");
    } else if (m->options.json) {
        json_out_begin(&m->json, stdout);
        json_out_object(&m->json, NULL);
        json_out_u64(&m->json, "budget_bytes", m->budget.bytes);
        json_out_string(&m->json, "reason", pick_reason_text(picked->reason));
        if (picked->reason != PICK_NONE) {
            json_model(&m->json, &picked->row, &picked->outlook);
        }
        json_out_close(&m->json);
        json_out_end(&m->json);
        code = picked->reason != PICK_NONE ? EXIT_OK : EXIT_FAILED;
    } else if (picked->reason == PICK_NONE) {
        code = report_failure("models", "no known model fits or streams fast enough here");
    } else {
        puts(picked->row.path);
        report_note("%s: %s", name_of(&picked->row), pick_reason_text(picked->reason));
        code = EXIT_OK;
    }
    if (picked != NULL && m->options.preferred != NULL && picked->reason != PICK_DEFAULT) {
        report_note("--default: '%s' is not the name of a known model that fits here", m->options.preferred);
    }
    free(picked);
    return code;
}

static int change_folders(struct models *m)
{
    for (uint32_t i = 0; i < m->options.add.count; i++) {
        char real[HOST_PATH_MAX];
        if (!host_real_path(m->options.add.items[i], real, sizeof real)) {
            return report_failure("models", "%s: no such folder", m->options.add.items[i]);
        }
        if (!models_add_folder(m->store, real)) {
            return report_failure("models", "%s", store_problem(m->store));
        }
    }
    for (uint32_t i = 0; i < m->options.remove.count; i++) {
        char real[HOST_PATH_MAX];
        const char *path =
            host_real_path(m->options.remove.items[i], real, sizeof real) ? real : m->options.remove.items[i];
        bool known;
        if (!models_remove_folder(m->store, path, &known)) {
            return report_failure("models", "%s", store_problem(m->store));
        }
        if (!known) {
            return report_failure("models", "--remove %s: no such folder was added", m->options.remove.items[i]);
        }
    }
    if (m->options.preferred != NULL && !models_set_default(m->store, m->options.preferred)) {
        return report_failure("models", "%s", store_problem(m->store));
    }
    return EXIT_OK;
}

static int with_store(struct models *m)
{
    berth_error err;
    if (!machine_identify(&m->machine, &err) || berth_budget_auto(&m->budget, &err) != BERTH_OK) {
        return report_error("models", &err);
    }
    if (m->options.budget_bytes > 0) {
        m->budget.bytes = m->options.budget_bytes;
        snprintf(m->budget.binding, sizeof m->budget.binding, "--budget");
    }
    int code = change_folders(m);
    if (code != EXIT_OK) {
        return code;
    }
    if (!models_scan(m->store, m->options.scan, &m->scan)) {
        return report_failure("models", "%s", store_problem(m->store));
    }
    return m->options.pick ? pick(m) : list(m);
}

static int run(int argc, char **argv)
{
    struct models m = {.options = {.usable = USABLE_TOKENS_PER_S}, .budget = BERTH_BUDGET_INIT};
    int code;
    if (!report_args(&spec, argc, argv, &m.options, &code)) {
        return code;
    }
    int ledger;
    code = engine_ledger_setting("models", &ledger); /* once, not for each model that is planned */
    if (code != EXIT_OK) {
        return code;
    }
    char problem[STORE_PROBLEM_MAX];
    m.store = store_open(true, problem);
    if (m.store == NULL) {
        return report_failure("models", "%s", problem);
    }
    code = with_store(&m);
    store_close(m.store);
    return code;
}

const struct verb verb_models = {"models", &spec, run, false};
