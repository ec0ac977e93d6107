/* SPDX-License-Identifier: MIT
 * berth usage show: what a ledger knows. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/usage.h"
#include "cli/verbs.h"
#include "common/engine.h"
#include "common/report.h"
#include "common/table.h"

struct show_options {
    struct usage_source source;
    uint32_t top;
    bool json;
};

#define AT(field) offsetof(struct show_options, field)

static const struct arg_option rows[] = {
    {.name = "top",
     .type = ARG_U32,
     .offset = AT(top),
     .value = "N",
     .low = 1,
     .high = 1 << 24,
     .help = "how many of the most used experts to list (default 10)"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};

static const struct arg_group groups[] = {
    {"Options", usage_source_rows, USAGE_SOURCE_OPTIONS, AT(source)},
    {NULL, rows, sizeof rows / sizeof rows[0], 0},
};
static const struct arg_positional positionals[] = {{"LEDGER", AT(source.path), false}};

static const struct arg_spec spec = {
    .verb = "usage show",
    .synopsis = "LEDGER [OPTIONS]",
    .summary = "Show how unevenly each layer uses its experts, and the most used ones.",
    .details = "LEDGER is a model, whose ledger is found, or a ledger's file. \"alike\" is how many experts used all\n"
               "alike would be as uneven (2 to the entropy); 10, 25 and 50 % are the shares of selections that the\n"
               "layer's hottest 10, 25 and 50 % of experts hold.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = 2,
};

enum { TOP_OF_LAYER = 2, COLUMNS = 8, CELL = 64 };

static void layer_row(struct table *table, const tool_usage *usage, uint32_t index, uint32_t experts, uint32_t *order)
{
    char texts[COLUMNS][CELL];
    const char *cells[COLUMNS];
    struct usage_skew skew;
    const uint32_t *counts = tool_usage_counts(usage, index);
    usage_order(counts, experts, order);
    usage_skew(counts, order, experts, &skew);
    snprintf(texts[0], CELL, "%" PRId64, tool_usage_layer(usage, index));
    snprintf(texts[1], CELL, "%" PRIu64, skew.selections);
    snprintf(texts[2], CELL, "%u", skew.used);
    snprintf(texts[3], CELL, "%.1f", skew.effective);
    for (int p = 0; p < 3; p++) {
        snprintf(texts[4 + p], CELL, "%.1f", 100 * skew.held[p]);
    }
    int used = 0;
    texts[7][0] = '\0';
    for (uint32_t i = 0; i < TOP_OF_LAYER && i < experts && counts[order[i]] > 0; i++) {
        used += snprintf(texts[7] + used, CELL - (size_t)used, "%s%u %.1f %%", i > 0 ? ", " : "", order[i],
                         100 * usage_share(counts[order[i]], skew.selections));
    }
    for (int i = 0; i < COLUMNS; i++) {
        cells[i] = texts[i];
    }
    table_row(table, cells);
}

static void layer_rows(struct table *table, const tool_usage *usage, const tool_usage_info *info, uint32_t *order)
{
    static const char *const head[COLUMNS] = {"layer", "selections", "used", "alike",
                                              "10 %",  "25 %",       "50 %", "most used, share"};
    table_row(table, head);
    for (uint32_t index = 0; index < info->layers; index++) {
        layer_row(table, usage, index, info->experts, order);
    }
}

/* Shares of all selections that every layer's hottest experts hold together. */
static void whole(const tool_usage *usage, const tool_usage_info *info, uint32_t *order, struct usage_skew *out)
{
    *out = (struct usage_skew){0};
    for (uint32_t index = 0; index < info->layers; index++) {
        struct usage_skew skew;
        const uint32_t *counts = tool_usage_counts(usage, index);
        usage_order(counts, info->experts, order);
        usage_skew(counts, order, info->experts, &skew);
        out->selections += skew.selections;
        out->used += skew.used;
        out->effective += skew.effective * (double)skew.selections;
        for (int p = 0; p < 3; p++) {
            out->held[p] += skew.held[p] * (double)skew.selections;
        }
    }
    for (int p = 0; p < 3 && out->selections > 0; p++) {
        out->held[p] /= (double)out->selections;
    }
    out->effective = out->selections > 0 ? out->effective / (double)out->selections : 0.0;
}

static void print_text(tool_usage *usage, const tool_usage_info *info, uint32_t top, uint32_t *order)
{
    struct table table;
    struct usage_skew skew;
    usage_head(info);
    whole(usage, info, order, &skew);
    printf("the hottest 10, 25 and 50 %% of each layer's experts hold\n%.1f, %.1f and %.1f %% of the selections; "
           "as uneven as %.1f experts used alike\n",
           100 * skew.held[0], 100 * skew.held[1], 100 * skew.held[2], skew.effective);
    table_begin(&table, stdout, "rrrrrrrl", 2);
    layer_rows(&table, usage, info, order);
    table_print(&table);
    layer_rows(&table, usage, info, order);
    const berth_ledger_count *ranked;
    uint64_t count = tool_usage_ranked(usage, &ranked);
    int column = printf("most used experts (layer:expert, selections):");
    for (uint64_t i = 0; i < count && i < top; i++) {
        char one[64];
        int bytes = snprintf(one, sizeof one, "%" PRId64 ":%u %u", ranked[i].layer, ranked[i].expert, ranked[i].count);
        bool breaks = column + bytes + 3 > 80;
        column = breaks ? 1 : column + (i > 0 ? 1 : 0);
        column += 1 + bytes;
        printf("%s%s%s", i > 0 ? "," : "", breaks ? "\n  " : " ", one);
    }
    putchar('\n');
}

static void json_skew(struct json_out *json, const struct usage_skew *skew)
{
    json_out_u64(json, "selections", skew->selections);
    json_out_u64(json, "used", skew->used);
    json_out_real(json, "alike", skew->effective);
    json_out_real(json, "held_10", skew->held[0]);
    json_out_real(json, "held_25", skew->held[1]);
    json_out_real(json, "held_50", skew->held[2]);
}

static void print_json(tool_usage *usage, const tool_usage_info *info, uint32_t top, uint32_t *order)
{
    struct json_out json;
    struct usage_skew skew;
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    usage_head_json(&json, info);
    whole(usage, info, order, &skew);
    json_out_object(&json, "skew");
    json_skew(&json, &skew);
    json_out_close(&json);
    json_out_array(&json, "layers", false);
    for (uint32_t index = 0; index < info->layers; index++) {
        const uint32_t *counts = tool_usage_counts(usage, index);
        usage_order(counts, info->experts, order);
        usage_skew(counts, order, info->experts, &skew);
        json_out_object(&json, NULL);
        json_out_i64(&json, "layer", tool_usage_layer(usage, index));
        json_skew(&json, &skew);
        json_out_array(&json, "counts", true);
        for (uint32_t expert = 0; expert < info->experts; expert++) {
            json_out_u64(&json, NULL, counts[expert]);
        }
        json_out_close(&json);
        json_out_close(&json);
    }
    json_out_close(&json);
    const berth_ledger_count *ranked;
    uint64_t count = tool_usage_ranked(usage, &ranked);
    json_out_array(&json, "top", false);
    for (uint64_t i = 0; i < count && i < top; i++) {
        json_out_object(&json, NULL);
        json_out_i64(&json, "layer", ranked[i].layer);
        json_out_u64(&json, "expert", ranked[i].expert);
        json_out_u64(&json, "count", ranked[i].count);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_close(&json);
    json_out_end(&json);
}

static int run(int argc, char **argv)
{
    struct show_options options = {.top = 10};
    int code = EXIT_OK;
    if (!report_args(&spec, argc, argv, &options, &code)) {
        return code;
    }
    tool_usage *usage = NULL;
    tool_usage_info info;
    code = usage_open(spec.verb, &options.source, false, &usage, &info);
    if (code != EXIT_OK) {
        return code;
    }
    uint32_t *order = engine_take(spec.verb, info.experts * sizeof *order);
    if (order == NULL) {
        code = EXIT_FAILED;
    } else if (options.json) {
        print_json(usage, &info, options.top, order);
    } else {
        print_text(usage, &info, options.top, order);
    }
    free(order);
    tool_usage_close(usage);
    return report_flush(spec.verb, code);
}

const struct verb verb_usage_show = {"show", &spec, run, false};
