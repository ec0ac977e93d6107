/* SPDX-License-Identifier: MIT
 * berth convert: any supported checkpoint to GGUF. berth random: a random-weight checkpoint in a published shape. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/verbs.h"
#include "common/host.h"
#include "common/host_files.h"
#include "common/progress.h"
#include "common/report.h"
#include "common/sizes.h"
#include "tool.h"

struct convert_options {
    const char *in_path, *out_path, *type, *overrides;
    uint64_t split_bytes, buffer_bytes;
    uint32_t alignment, threads;
    bool overwrite, quiet;
    /* random */
    const char *shape;
    uint32_t layers, experts;
    uint64_t seed;
    bool spread;
};

#define AT(field) offsetof(struct convert_options, field)

static const struct arg_option output_rows[] = {
    {.name = "type",
     .type = ARG_TEXT,
     .offset = AT(type),
     .value = "TYPE",
     .help = "format of the matrices: f16, q8_0, q4_k_m, ...;\n'list' names them all"},
    {.name = "tensor-type",
     .type = ARG_TEXT,
     .offset = AT(overrides),
     .value = "PART=TYPE,...",
     .help = "formats of the matrices with PART in their names,\nbefore the rules of --type"},
    {.name = "split",
     .type = ARG_SIZE,
     .offset = AT(split_bytes),
     .value = "SIZE",
     .low = 4096,
     .help = "parts of about this size, OUT-00001-of-0000N.gguf"},
    {.name = "align",
     .type = ARG_U32,
     .offset = AT(alignment),
     .value = "N",
     .low = 8,
     .high = 1 << 20,
     .help = "alignment of tensors in bytes (default 32;\n4096 puts experts on page boundaries)"},
    {.name = "threads", .type = ARG_U32, .offset = AT(threads), .value = "N", .low = 1, .high = 256, .help = "threads"},
    {.name = "buffer",
     .type = ARG_SIZE,
     .offset = AT(buffer_bytes),
     .value = "SIZE",
     .low = 1 << 20,
     .help = "working memory (default 64MiB)"},
    {.name = "overwrite", .type = ARG_FLAG, .offset = AT(overwrite), .help = "replace an existing OUT"},
    {.name = "quiet", .letter = 'q', .type = ARG_FLAG, .offset = AT(quiet), .help = "no progress, no summary"},
};
enum { OUTPUT_ROWS = sizeof output_rows / sizeof output_rows[0] };

static const struct arg_option random_rows[] = {
    {.name = "shape",
     .type = ARG_TEXT,
     .offset = AT(shape),
     .value = "NAME",
     .help = "published shape; 'list' names them all"},
    {.name = "layers",
     .type = ARG_U32,
     .offset = AT(layers),
     .value = "N",
     .low = 1,
     .high = 1024,
     .help = "layers (default: the shape's)"},
    {.name = "experts",
     .type = ARG_U32,
     .offset = AT(experts),
     .value = "N",
     .low = 1,
     .high = 65535,
     .help = "experts a layer (default: the shape's)"},
    {.name = "seed", .type = ARG_U64, .offset = AT(seed), .value = "S", .help = "seed of the weights (default 0)"},
    {.name = "spread", .type = ARG_FLAG, .offset = AT(spread), .help = "routing spreads over all experts"},
};

static const struct arg_group convert_groups[] = {{"Options", output_rows, OUTPUT_ROWS, 0}};
static const struct arg_group random_groups[] = {
    {"Model", random_rows, sizeof random_rows / sizeof random_rows[0], 0},
    {"Output", output_rows, OUTPUT_ROWS, 0},
};
static const struct arg_positional convert_positionals[] = {{"IN", AT(in_path), true}, {"OUT", AT(out_path), true}};
static const struct arg_positional random_positionals[] = {{"OUT", AT(out_path), true}};

static const struct arg_spec convert_spec = {
    .verb = "convert",
    .synopsis = "IN OUT --type TYPE [--tensor-type PART=TYPE,...] [--split SIZE] [--overwrite]",
    .summary = "Convert a checkpoint to GGUF.",
    .details =
        "IN is a GGUF file or a Hugging Face directory. Norms, biases and routers stay f32. The mixes (q4_k_m, ...)\n"
        "give some tensors more bits, as llama.cpp's do. OUT appears only when it is complete.",
    .positionals = convert_positionals,
    .positionals_count = 2,
    .groups = convert_groups,
    .groups_count = 1,
};

static const struct arg_spec random_spec = {
    .verb = "random",
    .synopsis = "OUT --shape NAME --type TYPE [--layers N] [--experts N] [--seed S]",
    .summary = "Write a random-weight GGUF in a published shape, for tests and benchmarks.",
    .positionals = random_positionals,
    .positionals_count = 1,
    .groups = random_groups,
    .groups_count = 2,
};

static bool on_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    progress_update(user, what, done, total, PROGRESS_BYTES);
    return !host_interrupted();
}

static void on_log(void *user, berth_log_level level, const char *text)
{
    progress_end(user);
    if (level == BERTH_LOG_WARN) {
        fprintf(stderr, "berth: warning: %s\n", text);
    }
}

/* Of the split that was written last, when several lie there. */
static uint32_t count_parts(const char *path, int stem, uint64_t *bytes)
{
    char part[HOST_PATH_MAX];
    int64_t newest = 0;
    uint32_t parts = 0;
    for (uint32_t n = 1; n <= 999; n++) {
        struct host_entry entry;
        snprintf(part, sizeof part, "%.*s-00001-of-%05" PRIu32 ".gguf", stem, path, n);
        if (host_entry_of(part, &entry) && (parts == 0 || entry.mtime_ns > newest)) {
            newest = entry.mtime_ns;
            parts = n;
        }
    }
    *bytes = 0;
    for (uint32_t n = 1; n <= parts; n++) {
        uint64_t one = 0;
        snprintf(part, sizeof part, "%.*s-%05" PRIu32 "-of-%05" PRIu32 ".gguf", stem, path, n, parts);
        *bytes += host_file_size(part, &one) ? one : 0;
    }
    return parts;
}

static int finish(const char *verb, const struct convert_options *options, berth_status status, const berth_error *err,
                  uint64_t start_ns)
{
    if (status == BERTH_ERR_CANCELLED && host_interrupted()) {
        report_failure(verb, "interrupted; nothing was left behind");
        return host_interrupt_code();
    }
    if (status != BERTH_OK) {
        return report_error(verb, err);
    }
    uint64_t bytes;
    if (!options->quiet) {
        char size[FORMAT_MAX];
        char time[FORMAT_MAX];
        time_format((double)(host_now_ns() - start_ns) * 1e-9, time);
        if (host_file_size(options->out_path, &bytes)) {
            fprintf(stderr, "berth: wrote %s, %s in %s\n", options->out_path, size_format(bytes, size), time);
        } else { /* in parts: nothing has the name that was given */
            size_t stem = strlen(options->out_path);
            stem -= stem > 5 && strcmp(options->out_path + stem - 5, ".gguf") == 0 ? 5 : 0;
            uint32_t parts = count_parts(options->out_path, (int)stem, &bytes);
            fprintf(stderr, "berth: wrote %.*s-00001-of-%05" PRIu32 ".gguf%s, %s in %s\n", (int)stem, options->out_path,
                    parts, parts > 1 ? " and the parts after it" : "", size_format(bytes, size), time);
        }
    }
    return EXIT_OK;
}

/* Before any work; the library looks again when it writes. */
static bool in_the_way(const char *verb, const struct convert_options *options)
{
    uint64_t bytes;
    if (options->overwrite || !host_file_size(options->out_path, &bytes)) {
        return false;
    }
    report_failure(verb, "%s exists already; --overwrite replaces it", options->out_path);
    return true;
}

static tool_convert settings_of(const struct convert_options *options, struct progress *progress)
{
    progress_begin(progress, options->quiet);
    host_hold(true); /* the parts that are being written have names of their own */
    host_catch_interrupts();
    return (tool_convert){
        .type = options->type,
        .overrides = options->overrides,
        .split_bytes = options->split_bytes,
        .alignment = options->alignment,
        .threads = options->threads,
        .buffer_bytes = options->buffer_bytes,
        .overwrite = options->overwrite,
        .progress = on_progress,
        .progress_user = progress,
        .log = on_log,
        .log_user = progress,
    };
}

static bool list_types(const struct convert_options *options)
{
    bool list = options->type != NULL && strcmp(options->type, "list") == 0;
    for (uint32_t i = 0; list && tool_convert_type(i) != NULL; i++) {
        puts(tool_convert_type(i));
    }
    return list;
}

static int run_convert(int argc, char **argv)
{
    struct convert_options options = {0};
    int code;
    if (!report_args(&convert_spec, argc, argv, &options, &code)) {
        return code;
    }
    if (list_types(&options)) {
        return EXIT_OK;
    }
    if (options.type == NULL || options.in_path == NULL || options.out_path == NULL) {
        return report_usage("convert", "%s is missing",
                            options.in_path == NULL    ? "IN"
                            : options.out_path == NULL ? "OUT"
                                                       : "--type");
    }
    if (in_the_way("convert", &options)) {
        return EXIT_FAILED;
    }
    struct progress progress;
    tool_convert settings = settings_of(&options, &progress);
    uint64_t start = host_now_ns();
    berth_error err;
    berth_status status = tool_convert_run(options.in_path, options.out_path, &settings, &err);
    progress_end(&progress);
    return finish("convert", &options, status, &err, start);
}

static int run_random(int argc, char **argv)
{
    struct convert_options options = {0};
    int code;
    if (!report_args(&random_spec, argc, argv, &options, &code)) {
        return code;
    }
    if (options.shape != NULL && strcmp(options.shape, "list") == 0) {
        for (uint32_t i = 0; tool_random_shape(i) != NULL; i++) {
            puts(tool_random_shape(i));
        }
        return EXIT_OK;
    }
    if (list_types(&options)) {
        return EXIT_OK;
    }
    if (options.type == NULL || options.shape == NULL || options.out_path == NULL) {
        return report_usage("random", "%s is missing",
                            options.shape == NULL  ? "--shape"
                            : options.type == NULL ? "--type"
                                                   : "OUT");
    }
    if (in_the_way("random", &options)) {
        return EXIT_FAILED;
    }
    struct progress progress;
    tool_convert settings = settings_of(&options, &progress);
    tool_random model = {
        .shape = options.shape,
        .layers = options.layers,
        .experts = options.experts,
        .seed = options.seed,
        .spread = options.spread,
    };
    uint64_t start = host_now_ns();
    berth_error err;
    berth_status status = tool_random_run(options.out_path, &model, &settings, &err);
    progress_end(&progress);
    return finish("random", &options, status, &err, start);
}

const struct verb verb_convert = {"convert", &convert_spec, run_convert, false};
const struct verb verb_random = {"random", &random_spec, run_random, true};
