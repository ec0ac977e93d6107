/* SPDX-License-Identifier: MIT
 * berth usage merge: several ledgers as one new file. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/usage.h"
#include "cli/verbs.h"
#include "common/host.h"
#include "common/report.h"

struct merge_options {
    struct usage_source source;
    const char *other, *out;
    struct arg_texts with;
    bool overwrite;
};

#define AT(field) offsetof(struct merge_options, field)

static const struct arg_option rows[] = {
    {.name = "out", .letter = 'o', .type = ARG_TEXT, .offset = AT(out), .value = "FILE", .help = "the new ledger"},
    {.name = "with",
     .type = ARG_TEXTS,
     .offset = AT(with),
     .value = "FILE",
     .help = "one more file to add; may be given several times"},
    {.name = "overwrite", .type = ARG_FLAG, .offset = AT(overwrite), .help = "replace FILE where it exists"},
};

static const struct arg_group groups[] = {
    {"Options", rows, sizeof rows / sizeof rows[0], 0},
    {NULL, usage_source_rows, USAGE_SOURCE_OPTIONS, AT(source)},
};
static const struct arg_positional positionals[] = {{"LEDGER", AT(source.path), false}, {"OTHER", AT(other), false}};

static const struct arg_spec spec = {
    .verb = "usage merge",
    .synopsis = "LEDGER OTHER --out FILE [--with FILE]...",
    .summary = "Add ledgers up in a new file; those that are read stay as they are.",
    .details = "LEDGER is a model, whose ledger is found, or a ledger's file; it says which layers and experts there\n"
               "are. The others are files of any layout that 'berth usage import' reads.",
    .positionals = positionals,
    .positionals_count = 2,
    .groups = groups,
    .groups_count = 2,
};

static int merge(tool_usage *usage, const struct merge_options *options)
{
    berth_error err;
    bool good = usage_add(spec.verb, usage, options->other, false);
    for (uint32_t i = 0; i < options->with.count && good; i++) {
        good = usage_add(spec.verb, usage, options->with.items[i], false);
    }
    if (!good) {
        return EXIT_FAILED;
    }
    if (tool_usage_write(usage, options->out, &err) != BERTH_OK) {
        return report_error(spec.verb, &err);
    }
    tool_usage_info info;
    tool_usage_describe(usage, &info);
    printf("%s: %" PRIu64 " selections of %" PRIu64 " experts\n", options->out, info.selections, info.used);
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct merge_options options = {.out = NULL};
    int code = EXIT_OK;
    uint64_t bytes = 0;
    if (!report_args(&spec, argc, argv, &options, &code)) {
        return code;
    }
    if (options.out == NULL) {
        return report_usage(spec.verb, "--out is missing");
    }
    if (host_file_size(options.out, &bytes) && !options.overwrite) {
        return report_failure(spec.verb, "%s exists already; --overwrite replaces it", options.out);
    }
    tool_usage *usage = NULL;
    tool_usage_info info;
    code = usage_open(spec.verb, &options.source, false, &usage, &info);
    if (code == EXIT_OK) {
        code = merge(usage, &options);
        tool_usage_close(usage);
    }
    return report_flush(spec.verb, code);
}

const struct verb verb_usage_merge = {"merge", &spec, run, false};
