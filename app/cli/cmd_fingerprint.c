/* SPDX-License-Identifier: MIT
 * berth fingerprint: the identity of a model's configuration and of its tensors. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/verbs.h"
#include "common/json_out.h"
#include "common/progress.h"
#include "common/report.h"
#include "tool.h"

struct fingerprint_options {
    const char *path;
    int order;
    uint32_t threads;
    bool config_only, quiet, json;
};

#define AT(field) offsetof(struct fingerprint_options, field)

static const struct arg_choice orders[] = {
    {"bytes", BERTH_TENSOR_ORDER_BYTES}, {"locale", BERTH_TENSOR_ORDER_LOCALE}, {NULL, 0}};

static const struct arg_option rows[] = {
    {.name = "order",
     .type = ARG_CHOICE,
     .offset = AT(order),
     .choices = orders,
     .help =
         "of the tensors' names: bytes (default; tensors side by\nside), or locale as mlx-bun has it (docs/seeds.md)"},
    {.name = "threads",
     .type = ARG_U32,
     .offset = AT(threads),
     .low = 1,
     .high = 64,
     .value = "N",
     .help = "default: the processors we may use"},
    {.name = "config",
     .type = ARG_FLAG,
     .offset = AT(config_only),
     .help = "the configuration alone; no weight is read"},
    {.name = "quiet", .letter = 'q', .type = ARG_FLAG, .offset = AT(quiet), .help = "no progress"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};

static const struct arg_group groups[] = {{"Options", rows, sizeof rows / sizeof rows[0], 0}};
static const struct arg_positional positionals[] = {{"MODEL", AT(path), false}};

static const struct arg_spec spec = {
    .verb = "fingerprint",
    .synopsis = "MODEL [--order bytes|locale] [--config] [--threads N] [--json]",
    .summary = "Name a model by what is in it.",
    .details = "Every weight is read once. docs/seeds.md says what the digests are of.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = 1,
};

static bool show(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    progress_update(user, "hashing", done, total, PROGRESS_BYTES);
    return true;
}

static void print(const struct fingerprint_options *options, const char *config, const char *tensors)
{
    struct json_out json;
    if (!options->json) {
        printf("config   %s\n", config[0] != '\0' ? config : "none");
        if (tensors[0] != '\0') {
            printf("tensors  %s\n", tensors);
        }
        return;
    }
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    if (config[0] != '\0') {
        json_out_string(&json, "config", config);
    } else {
        json_out_null(&json, "config");
    }
    if (tensors[0] != '\0') {
        json_out_string(&json, "tensors", tensors);
        json_out_string(&json, "order", options->order == BERTH_TENSOR_ORDER_BYTES ? "bytes" : "locale");
    }
    json_out_close(&json);
    json_out_end(&json);
}

static int run(int argc, char **argv)
{
    struct fingerprint_options options = {.order = BERTH_TENSOR_ORDER_BYTES};
    char config[17] = "";
    char tensors[65] = "";
    tool_prints *prints;
    berth_error err;
    int code;
    if (!report_args(&spec, argc, argv, &options, &code)) {
        return code;
    }
    if (tool_prints_open(options.path, &prints, &err) != BERTH_OK) {
        return report_error("fingerprint", &err);
    }
    berth_status status = tool_prints_config(prints, config, &err);
    status = status == BERTH_ERR_UNSUPPORTED && !options.config_only ? BERTH_OK : status;
    if (status == BERTH_OK && !options.config_only) {
        struct progress progress;
        progress_begin(&progress, options.quiet);
        status = tool_prints_tensors(prints, (berth_tensor_order)options.order, options.threads, show, &progress,
                                     tensors, &err);
        progress_end(&progress);
    }
    tool_prints_close(prints);
    if (status != BERTH_OK) {
        return report_error("fingerprint", &err);
    }
    print(&options, config, tensors);
    return EXIT_OK;
}

const struct verb verb_fingerprint = {"fingerprint", &spec, run, false};
