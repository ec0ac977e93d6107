/* SPDX-License-Identifier: MIT
 * berth usage diff: how two ledgers differ. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/usage.h"
#include "cli/verbs.h"
#include "common/engine.h"
#include "common/report.h"
#include "common/table.h"

struct diff_options {
    struct usage_source a, b;
    bool json;
};

#define AT(field) offsetof(struct diff_options, field)

static const struct arg_option rows[] = {
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
    {.name = "experts",
     .type = ARG_U32,
     .offset = AT(a.experts),
     .value = "N",
     .low = 1,
     .high = 4096,
     .help = "experts of each layer, where a file does not say"},
};

static const struct arg_group groups[] = {{"Options", rows, sizeof rows / sizeof rows[0], 0}};
static const struct arg_positional positionals[] = {{"LEDGER", AT(a.path), false}, {"OTHER", AT(b.path), false}};

static const struct arg_spec spec = {
    .verb = "usage diff",
    .synopsis = "LEDGER OTHER [--json]",
    .summary = "Compare two ledgers, layer by layer.",
    .details =
        "Each is a model, whose ledger is found, or a ledger's file. \"alike\" is the part of the selections that\n"
        "both spread over experts in the same way; \"hottest\" how many of the hottest quarter of experts they\n"
        "have in common. Exit status 0 whether they differ or not.",
    .positionals = positionals,
    .positionals_count = 2,
    .groups = groups,
    .groups_count = 1,
};

struct comparison {
    uint64_t selections[2];
    double alike;   /* sum of the smaller shares */
    double hottest; /* of the hottest quarters, in common */
    uint32_t mover; /* expert whose share differs most */
    double moved;   /* by this much, second less first */
};

struct pair {
    tool_usage *usage[2];
    tool_usage_info info[2];
    uint32_t experts; /* the larger number */
    uint32_t *order[2];
    uint8_t *hot;
};

static uint32_t count_in(const struct pair *pair, uint32_t side, uint32_t index, uint32_t expert)
{
    return expert < pair->info[side].experts ? tool_usage_counts(pair->usage[side], index)[expert] : 0;
}

static void compare(const struct pair *pair, uint32_t index_a, uint32_t index_b, struct comparison *out)
{
    const uint32_t index[2] = {index_a, index_b};
    *out = (struct comparison){.alike = 0.0};
    for (uint32_t side = 0; side < 2; side++) {
        out->selections[side] =
            usage_order(tool_usage_counts(pair->usage[side], index[side]), pair->info[side].experts, pair->order[side]);
    }
    uint32_t least = pair->info[0].experts < pair->info[1].experts ? pair->info[0].experts : pair->info[1].experts;
    uint32_t quarter = least / 4 > 0 ? least / 4 : 1;
    for (uint32_t expert = 0; expert < pair->experts; expert++) {
        double a = usage_share(count_in(pair, 0, index_a, expert), out->selections[0]);
        double b = usage_share(count_in(pair, 1, index_b, expert), out->selections[1]);
        out->alike += a < b ? a : b;
        if (fabs(b - a) > fabs(out->moved)) {
            out->moved = b - a;
            out->mover = expert;
        }
        pair->hot[expert] = 0;
    }
    uint32_t common = 0;
    for (uint32_t i = 0; i < quarter; i++) {
        pair->hot[pair->order[0][i]] = 1;
    }
    for (uint32_t i = 0; i < quarter; i++) {
        common += pair->hot[pair->order[1][i]];
    }
    out->hottest = (double)common / quarter;
}

static void table_rows(struct table *table, const struct pair *pair)
{
    enum { COLUMNS = 6, CELL = 40 };
    static const char *const head[COLUMNS] = {"layer", "selections", "other", "alike %", "hottest %", "moved most"};
    char texts[COLUMNS][CELL];
    const char *cells[COLUMNS];
    table_row(table, head);
    for (int i = 0; i < COLUMNS; i++) {
        cells[i] = texts[i];
    }
    for (uint32_t index = 0; index < pair->info[0].layers; index++) {
        struct comparison c;
        int64_t layer = tool_usage_layer(pair->usage[0], index);
        uint32_t other = tool_usage_find(pair->usage[1], layer);
        if (other == pair->info[1].layers) {
            continue;
        }
        compare(pair, index, other, &c);
        snprintf(texts[0], CELL, "%" PRId64, layer);
        snprintf(texts[1], CELL, "%" PRIu64, c.selections[0]);
        snprintf(texts[2], CELL, "%" PRIu64, c.selections[1]);
        snprintf(texts[3], CELL, "%.1f", 100 * c.alike);
        snprintf(texts[4], CELL, "%.0f", 100 * c.hottest);
        snprintf(texts[5], CELL, "%u (%+.1f points)", c.mover, 100 * c.moved);
        table_row(table, cells);
    }
}

static void json_rows(struct json_out *json, const struct pair *pair)
{
    json_out_array(json, "layers", false);
    for (uint32_t index = 0; index < pair->info[0].layers; index++) {
        struct comparison c;
        int64_t layer = tool_usage_layer(pair->usage[0], index);
        uint32_t other = tool_usage_find(pair->usage[1], layer);
        if (other == pair->info[1].layers) {
            continue;
        }
        compare(pair, index, other, &c);
        json_out_object(json, NULL);
        json_out_i64(json, "layer", layer);
        json_out_u64(json, "selections", c.selections[0]);
        json_out_u64(json, "other_selections", c.selections[1]);
        json_out_real(json, "alike", c.alike);
        json_out_real(json, "hottest", c.hottest);
        json_out_u64(json, "mover", c.mover);
        json_out_real(json, "moved", c.moved);
        json_out_close(json);
    }
    json_out_close(json);
}

static int print(const struct pair *pair, bool as_json)
{
    uint32_t common = 0;
    for (uint32_t index = 0; index < pair->info[0].layers; index++) {
        int64_t layer = tool_usage_layer(pair->usage[0], index);
        common += tool_usage_find(pair->usage[1], layer) < pair->info[1].layers ? 1 : 0;
    }
    if (common == 0) {
        return report_failure(spec.verb, "the two have no layer in common");
    }
    if (as_json) {
        struct json_out json;
        json_out_begin(&json, stdout);
        json_out_object(&json, NULL);
        for (int side = 0; side < 2; side++) {
            json_out_object(&json, side == 0 ? "a" : "b");
            usage_head_json(&json, &pair->info[side]);
            json_out_close(&json);
        }
        json_rows(&json, pair);
        json_out_close(&json);
        json_out_end(&json);
        return EXIT_OK;
    }
    struct table table;
    usage_head(&pair->info[0]);
    usage_head(&pair->info[1]);
    if (common < pair->info[0].layers || common < pair->info[1].layers) {
        printf("%u layers are in both\n", common);
    }
    table_begin(&table, stdout, "rrrrrl", 2);
    table_rows(&table, pair);
    table_print(&table);
    table_rows(&table, pair);
    return EXIT_OK;
}

static int diff(struct pair *pair, const struct diff_options *options)
{
    struct usage_source b = {.path = options->b.path, .experts = options->a.experts};
    int code = usage_open(spec.verb, &options->a, false, &pair->usage[0], &pair->info[0]);
    code = code == EXIT_OK ? usage_open(spec.verb, &b, false, &pair->usage[1], &pair->info[1]) : code;
    if (code != EXIT_OK) {
        return code;
    }
    pair->experts = pair->info[0].experts > pair->info[1].experts ? pair->info[0].experts : pair->info[1].experts;
    for (int side = 0; side < 2; side++) {
        pair->order[side] = engine_take(spec.verb, pair->experts * sizeof *pair->order[side]);
    }
    pair->hot = engine_take(spec.verb, pair->experts);
    if (pair->order[0] == NULL || pair->order[1] == NULL || pair->hot == NULL) {
        return EXIT_FAILED;
    }
    return print(pair, options->json);
}

static int run(int argc, char **argv)
{
    struct diff_options options = {.json = false};
    struct pair pair = {.experts = 0};
    int code = EXIT_OK;
    if (!report_args(&spec, argc, argv, &options, &code)) {
        return code;
    }
    code = diff(&pair, &options);
    for (int side = 0; side < 2; side++) {
        free(pair.order[side]);
        tool_usage_close(pair.usage[side]);
    }
    free(pair.hot);
    return report_flush(spec.verb, code);
}

const struct verb verb_usage_diff = {"diff", &spec, run, false};
