/* SPDX-License-Identifier: MIT
 * berth usage plan: what the seed policy would pin at the start, and why. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/usage.h"
#include "cli/verbs.h"
#include "common/engine.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/table.h"

struct pin_options {
    struct model_options model;
    const char *ledger_path;
    uint32_t top;
    bool json, pins;
};

#define AT(field) offsetof(struct pin_options, field)

static const struct arg_option rows[] = {
    {.name = "policy",
     .type = ARG_TEXT,
     .offset = AT(model.policy),
     .value = "seed:...",
     .help = "the seed policy with its options (default seed)"},
    {.name = "ledger-path",
     .type = ARG_TEXT,
     .offset = AT(ledger_path),
     .value = "FILE",
     .help = "this ledger instead of the model's own"},
    {.name = "top",
     .type = ARG_U32,
     .offset = AT(top),
     .value = "N",
     .low = 0,
     .high = 1 << 24,
     .help = "how many pins to list (default 20)"},
    {.name = "pins", .type = ARG_FLAG, .offset = AT(pins), .help = "print LAYER:EXPERT rows only, for --pin FILE"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};

static const struct arg_group groups[] = {
    {"Options", rows, sizeof rows / sizeof rows[0], 0},
    {"Memory", plan_option_rows, PLAN_OPTIONS, AT(model)},
};
static const struct arg_positional positionals[] = {{"MODEL", AT(model.path), false}};

static const struct arg_spec spec = {
    .verb = "usage plan",
    .synopsis = "MODEL [OPTIONS]",
    .summary = "Show which experts the seed policy would pin at the start, with their bytes, and why.",
    .details = "Plans as 'berth run MODEL --policy seed' with the same options would. Nothing is read but headers and\n"
               "the ledger.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = 2,
};

/* Why this many and not more. */
static void reason(const tool_pin_plan *p, char *text, size_t cap)
{
    char a[FORMAT_MAX];
    char b[FORMAT_MAX];
    const berth_autopin_plan *plan = &p->plan;
    if (!p->autopin) {
        snprintf(text, cap, "nothing: the policy's options turn it off");
    } else if (plan->history_selections < p->min_history) {
        snprintf(text, cap, "nothing: %" PRIu64 " selections are known, wanted %" PRIu64 " or more",
                 plan->history_selections, p->min_history);
    } else if (plan->requested_bytes < p->min_bytes) {
        snprintf(text, cap, "nothing: %s would be pinned, less than %s is not worth it",
                 size_format(plan->requested_bytes, a), size_format(p->min_bytes, b));
    } else if (plan->pins_count == 0) {
        snprintf(text, cap, "nothing: no expert fits into %s", size_format(plan->usable_bytes, a));
    } else {
        snprintf(text, cap,
                 "%" PRIu64 " %% of the resident slots, as sure as %.0f %% (%" PRIu64 " of %" PRIu64
                 " selections); every layer keeps a slot",
                 p->share_percent, 100 * plan->confidence, plan->history_selections, p->full_history);
    }
}

static void table_rows(struct table *table, tool_usage *usage, const tool_usage_info *info, const tool_pin_plan *p,
                       uint32_t top)
{
    enum { COLUMNS = 5, CELL = 40 };
    static const char *const head[COLUMNS] = {"layer", "expert", "selections", "share of layer %", "bytes"};
    char texts[COLUMNS][CELL];
    const char *cells[COLUMNS];
    char size[FORMAT_MAX];
    table_row(table, head);
    for (int i = 0; i < COLUMNS; i++) {
        cells[i] = texts[i];
    }
    for (uint64_t i = 0; i < p->plan.pins_count && i < top; i++) {
        const berth_ledger_count *pin = &p->pins[i];
        const uint32_t *counts = tool_usage_counts(usage, tool_usage_find(usage, pin->layer));
        uint64_t all = 0;
        for (uint32_t expert = 0; expert < info->experts; expert++) {
            all += counts[expert];
        }
        snprintf(texts[0], CELL, "%" PRId64, pin->layer);
        snprintf(texts[1], CELL, "%u", pin->expert);
        snprintf(texts[2], CELL, "%u", pin->count);
        snprintf(texts[3], CELL, "%.1f", 100 * usage_share(pin->count, all));
        snprintf(texts[4], CELL, "%s", size_format(tool_usage_slot_bytes(usage, pin->layer), size));
        table_row(table, cells);
    }
}

static void print_text(tool_usage *usage, const tool_usage_info *info, const tool_pin_plan *p, uint32_t top)
{
    char a[FORMAT_MAX];
    char b[FORMAT_MAX];
    char c[FORMAT_MAX];
    char why[200];
    struct table table;
    reason(p, why, sizeof why);
    usage_head(info);
    printf("slots %s of a budget of %s; %s of them resident,\nthe rest working slots\n", size_format(p->slots_bytes, a),
           size_format(p->budget_bytes, b), size_format(p->resident_bytes, c));
    char pins[320];
    snprintf(pins, sizeof pins, "pins %" PRIu64 " experts, %s: %s", p->plan.pins_count,
             size_format(p->plan.planned_bytes, a), why);
    report_wrap(stdout, 0, 2, pins);
    if (p->plan.pins_count == 0 || top == 0) {
        return;
    }
    uint64_t held = 0;
    for (uint64_t i = 0; i < p->plan.pins_count; i++) {
        held += p->pins[i].count;
    }
    printf("they held %.1f %% of the selections\n", 100 * usage_share(held, info->selections));
    table_begin(&table, stdout, "rrrrr", 2);
    table_rows(&table, usage, info, p, top);
    table_print(&table);
    table_rows(&table, usage, info, p, top);
}

static void print_json(tool_usage *usage, const tool_usage_info *info, const tool_pin_plan *p)
{
    struct json_out json;
    char why[200];
    reason(p, why, sizeof why);
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    usage_head_json(&json, info);
    json_out_u64(&json, "budget_bytes", p->budget_bytes);
    json_out_u64(&json, "slots_bytes", p->slots_bytes);
    json_out_u64(&json, "working_bytes", p->working_bytes);
    json_out_u64(&json, "resident_bytes", p->resident_bytes);
    json_out_u64(&json, "mandatory_bytes", p->mandatory_bytes);
    json_out_real(&json, "confidence", p->plan.confidence);
    json_out_u64(&json, "requested_bytes", p->plan.requested_bytes);
    json_out_u64(&json, "usable_bytes", p->plan.usable_bytes);
    json_out_u64(&json, "planned_bytes", p->plan.planned_bytes);
    json_out_string(&json, "why", why);
    json_out_array(&json, "pins", false);
    for (uint64_t i = 0; i < p->plan.pins_count; i++) {
        json_out_object(&json, NULL);
        json_out_i64(&json, "layer", p->pins[i].layer);
        json_out_u64(&json, "expert", p->pins[i].expert);
        json_out_u64(&json, "count", p->pins[i].count);
        json_out_u64(&json, "bytes", tool_usage_slot_bytes(usage, p->pins[i].layer));
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_close(&json);
    json_out_end(&json);
}

static int plan(tool_usage *usage, const tool_usage_info *info, const struct pin_options *options)
{
    struct engine_needs needs = {.no_session = true};
    berth_model_config config;
    tool_pin_plan plan;
    berth_error err;
    int code = engine_config(spec.verb, &options->model, &needs, &config);
    if (code != EXIT_OK) {
        return code;
    }
    config.ledger = BERTH_LEDGER_ON; /* its tables are in the plan of the run */
    if (tool_usage_plan(usage, options->model.path, &config, &plan, &err) != BERTH_OK) {
        return report_error(spec.verb, &err);
    }
    if (!plan.autopin) {
        plan.plan.pins_count = plan.plan.planned_bytes = 0;
    }
    if (options->pins) {
        for (uint64_t i = 0; i < plan.plan.pins_count; i++) {
            printf("%" PRId64 ":%u\n", plan.pins[i].layer, plan.pins[i].expert);
        }
    } else if (options->json) {
        print_json(usage, info, &plan);
    } else {
        print_text(usage, info, &plan, options->top);
    }
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct pin_options options = {.model.policy = "seed", .top = 20};
    int code = EXIT_OK;
    if (!report_args(&spec, argc, argv, &options, &code)) {
        return code;
    }
    struct usage_source source = {.path = options.model.path, .ledger_path = options.ledger_path};
    tool_usage *usage = NULL;
    tool_usage_info info;
    code = usage_open(spec.verb, &source, false, &usage, &info);
    if (code == EXIT_OK && info.model[0] == '\0') {
        code = report_usage(spec.verb, "%s is a ledger, not a model; give the model and --ledger-path", source.path);
    }
    code = code == EXIT_OK ? plan(usage, &info, &options) : code;
    tool_usage_close(usage);
    return report_flush(spec.verb, code);
}

const struct verb verb_usage_plan = {"plan", &spec, run, false};
