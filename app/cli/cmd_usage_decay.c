/* SPDX-License-Identifier: MIT
 * berth usage decay: lets old counts fade. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/usage.h"
#include "cli/verbs.h"
#include "common/report.h"

struct decay_options {
    struct usage_source source;
    float factor;
};

#define AT(field) offsetof(struct decay_options, field)

static const struct arg_option rows[] = {
    {.name = "factor",
     .type = ARG_REAL,
     .offset = AT(factor),
     .value = "F",
     .real_low = 0.0,
     .real_high = 1.0,
     .help = "what counts are multiplied with, 0 to 1 (default 0.5)"},
};

static const struct arg_group groups[] = {
    {"Options", rows, sizeof rows / sizeof rows[0], 0},
    {NULL, usage_source_rows, USAGE_SOURCE_OPTIONS, AT(source)},
};
static const struct arg_positional positionals[] = {{"LEDGER", AT(source.path), false}};

static const struct arg_spec spec = {
    .verb = "usage decay",
    .synopsis = "LEDGER [--factor F]",
    .summary = "Multiply all counts of a ledger, so that new use weighs more than old.",
    .details =
        "LEDGER is a model, whose ledger is found, or a ledger's file. Counts are rounded, those under one half\n"
        "vanish. The file that was there is kept as .bak.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = 2,
};

static int run(int argc, char **argv)
{
    struct decay_options options = {.factor = 0.5f};
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
    berth_error err;
    tool_usage_scale(usage, (double)options.factor);
    if (tool_usage_save(usage, &err) != BERTH_OK) {
        code = report_error(spec.verb, &err);
    } else {
        uint64_t before = info.selections;
        tool_usage_describe(usage, &info);
        printf("%s: %" PRIu64 " selections are left of %" PRIu64 "\n", info.path, info.selections, before);
    }
    tool_usage_close(usage);
    return report_flush(spec.verb, code);
}

const struct verb verb_usage_decay = {"decay", &spec, run, false};
