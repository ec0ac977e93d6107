/* SPDX-License-Identifier: MIT
 * berth usage reset: forgets everything a ledger holds. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/usage.h"
#include "cli/verbs.h"
#include "common/host.h"
#include "common/report.h"

struct reset_options {
    struct usage_source source;
    bool yes;
};

#define AT(field) offsetof(struct reset_options, field)

static const struct arg_option rows[] = {
    {.name = "yes", .letter = 'y', .type = ARG_FLAG, .offset = AT(yes), .help = "do not ask"},
};

static const struct arg_group groups[] = {
    {"Options", rows, sizeof rows / sizeof rows[0], 0},
    {NULL, usage_source_rows, USAGE_SOURCE_OPTIONS, AT(source)},
};
static const struct arg_positional positionals[] = {{"LEDGER", AT(source.path), false}};

static const struct arg_spec spec = {
    .verb = "usage reset",
    .synopsis = "LEDGER [--yes]",
    .summary = "Forget all counts of a ledger; the file that was there is kept as .bak.",
    .details = "LEDGER is a model, whose ledger is found, or a ledger's file. Asks first; where standard input is no\n"
               "terminal, --yes is needed.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = 2,
};

static bool agreed(const tool_usage_info *info)
{
    char answer[16] = "";
    fprintf(stderr, "Forget %" PRIu64 " selections in %s? [y/N] ", info->selections, info->path);
    fflush(stderr);
    return fgets(answer, sizeof answer, stdin) != NULL && (strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0);
}

static int run(int argc, char **argv)
{
    struct reset_options options = {.yes = false};
    int code = EXIT_OK;
    if (!report_args(&spec, argc, argv, &options, &code)) {
        return code;
    }
    if (!options.yes && !host_is_terminal(HOST_STDIN)) {
        return report_usage(spec.verb, "nobody can be asked here; give --yes");
    }
    tool_usage *usage = NULL;
    tool_usage_info info;
    code = usage_open(spec.verb, &options.source, false, &usage, &info);
    if (code != EXIT_OK) {
        return code;
    }
    if (!options.yes && !agreed(&info)) {
        code = report_failure(spec.verb, "nothing was changed");
    } else {
        berth_error err;
        tool_usage_scale(usage, 0.0);
        if (tool_usage_save(usage, &err) != BERTH_OK) {
            code = report_error(spec.verb, &err);
        } else {
            printf("%s: %" PRIu64 " selections forgotten, kept in .bak\n", info.path, info.selections);
        }
    }
    tool_usage_close(usage);
    return report_flush(spec.verb, code);
}

const struct verb verb_usage_reset = {"reset", &spec, run, false};
