/* SPDX-License-Identifier: MIT
 * berth usage import: adds another file's counts to a ledger. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/usage.h"
#include "cli/verbs.h"
#include "common/report.h"

struct import_options {
    struct usage_source source;
    const char *file;
    struct arg_texts with;
    bool replace;
};

#define AT(field) offsetof(struct import_options, field)

static const struct arg_option rows[] = {
    {.name = "with",
     .type = ARG_TEXTS,
     .offset = AT(with),
     .value = "FILE",
     .help = "one more file to add; may be given several times"},
    {.name = "replace", .type = ARG_FLAG, .offset = AT(replace), .help = "forget what the ledger holds first"},
};

static const struct arg_group groups[] = {
    {"Options", rows, sizeof rows / sizeof rows[0], 0},
    {NULL, usage_source_rows, USAGE_SOURCE_OPTIONS, AT(source)},
};
static const struct arg_positional positionals[] = {{"LEDGER", AT(source.path), false}, {"FILE", AT(file), false}};

static const struct arg_spec spec = {
    .verb = "usage import",
    .synopsis = "LEDGER FILE [--with FILE]... [--replace]",
    .summary = "Add another file's counts to a ledger.",
    .details = "LEDGER is a model, whose ledger is found or made, or a ledger's file. FILE is a ledger of any layout\n"
               "(rows with or without headers, IKU1 tables) or recorded routes (of --record-routes, BigMoeOnEdge CSV,\n"
               "WARP JSON lines). The file that was there is kept as .bak.",
    .positionals = positionals,
    .positionals_count = 2,
    .groups = groups,
    .groups_count = 2,
};

static int import(tool_usage *usage, const struct import_options *options)
{
    berth_error err;
    if (options->replace) {
        tool_usage_scale(usage, 0.0);
    }
    bool good = usage_add(spec.verb, usage, options->file, false);
    for (uint32_t i = 0; i < options->with.count && good; i++) {
        good = usage_add(spec.verb, usage, options->with.items[i], false);
    }
    if (!good) {
        return EXIT_FAILED;
    }
    if (tool_usage_save(usage, &err) != BERTH_OK) {
        return report_error(spec.verb, &err);
    }
    tool_usage_info info;
    tool_usage_describe(usage, &info);
    printf("%s: %" PRIu64 " selections of %" PRIu64 " experts\n", info.path, info.selections, info.used);
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct import_options options = {.file = NULL};
    int code = EXIT_OK;
    if (!report_args(&spec, argc, argv, &options, &code)) {
        return code;
    }
    tool_usage *usage = NULL;
    tool_usage_info info;
    code = usage_open(spec.verb, &options.source, true, &usage, &info);
    if (code == EXIT_OK) {
        code = import(usage, &options);
        tool_usage_close(usage);
    }
    return report_flush(spec.verb, code);
}

const struct verb verb_usage_import = {"import", &spec, run, false};
