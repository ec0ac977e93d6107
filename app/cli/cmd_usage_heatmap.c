/* SPDX-License-Identifier: MIT
 * berth usage heatmap: layers x experts as a picture, in the terminal or as SVG. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/usage.h"
#include "cli/verbs.h"
#include "common/engine.h"
#include "common/host.h"
#include "common/report.h"

struct heatmap_options {
    struct usage_source source;
    const char *svg;
    uint32_t width;
    bool sorted;
    int colour;
};

#define AT(field) offsetof(struct heatmap_options, field)

enum { COLOUR_AUTO = 0, COLOUR_ALWAYS, COLOUR_NEVER };
static const struct arg_choice colours[] = {
    {"auto", COLOUR_AUTO}, {"always", COLOUR_ALWAYS}, {"never", COLOUR_NEVER}, {NULL, 0}};

static const struct arg_option rows[] = {
    {.name = "svg", .type = ARG_TEXT, .offset = AT(svg), .value = "FILE", .help = "write an SVG picture instead"},
    {.name = "sort",
     .type = ARG_FLAG,
     .offset = AT(sorted),
     .help = "each layer's experts from hot to cold, not by id"},
    {.name = "width",
     .type = ARG_U32,
     .offset = AT(width),
     .value = "N",
     .low = 20,
     .high = 5000,
     .help = "columns to use (default: the terminal's, else one for\neach expert)"},
    {.name = "colour",
     .type = ARG_CHOICE,
     .offset = AT(colour),
     .choices = colours,
     .help = "colours instead of characters (default auto: on a\nterminal)"},
};

static const struct arg_group groups[] = {
    {"Options", usage_source_rows, USAGE_SOURCE_OPTIONS, AT(source)},
    {NULL, rows, sizeof rows / sizeof rows[0], 0},
};
static const struct arg_positional positionals[] = {{"LEDGER", AT(source.path), false}};

static const struct arg_spec spec = {
    .verb = "usage heatmap",
    .synopsis = "LEDGER [OPTIONS]",
    .summary = "Show layers x experts as a picture of how often each expert was selected.",
    .details = "LEDGER is a model, whose ledger is found, or a ledger's file. A cell shows the expert's share of its\n"
               "layer's selections; an even share is the middle of the scale, four times that its end. Where a line\n"
               "has no room for all experts, neighbours are put together.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = 2,
};

/* 0..1: nothing, an even share 1/2, four times that and more 1. */
static double heat(double share, uint32_t experts)
{
    double even = share * experts;
    return even <= 0.0 ? 0.0 : (even >= 4.0 ? 1.0 : sqrt(even) / 2.0);
}

struct map {
    const tool_usage *usage;
    tool_usage_info info;
    uint32_t *order;
    bool sorted;
};

static double cell(const struct map *map, const uint32_t *counts, uint64_t selections, uint32_t first, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = first; i < first + count; i++) {
        sum += counts[map->sorted ? map->order[i] : i];
    }
    return heat(usage_share(sum, selections) / count, map->info.experts);
}

/* ---- the terminal --------------------------------------------------------------------------------------- */

static void put_cell(double value, bool colour)
{
    /* 256-colour ramp: dark blue, violet, red, orange, yellow, white. */
    static const uint8_t ramp[] = {17, 18, 54, 90, 126, 161, 196, 202, 208, 214, 220, 226, 230};
    static const char marks[] = " .:-=+*#%@";
    if (colour) {
        size_t at = (size_t)(value * (double)(sizeof ramp - 1) + 0.5);
        printf("\033[48;5;%um ", value > 0.0 ? ramp[at] : 16u);
    } else {
        size_t at = (size_t)(value * (double)(sizeof marks - 2) + 0.5);
        putchar(value > 0.0 && at == 0 ? '.' : marks[at]);
    }
}

static void print_map(struct map *map, uint32_t width, bool colour)
{
    enum { LABEL = 6 };
    uint32_t experts = map->info.experts;
    uint32_t room = width > LABEL ? width - LABEL : 1;
    uint32_t each = experts / room + (experts % room > 0 ? 1 : 0);
    usage_head(&map->info);
    printf("%s from left to right%s\n", map->sorted ? "experts from hot to cold" : "experts by id",
           each > 1 ? ", neighbours put together" : "");
    for (uint32_t index = 0; index < map->info.layers; index++) {
        const uint32_t *counts = tool_usage_counts(map->usage, index);
        uint64_t selections = usage_order(counts, experts, map->order);
        printf("%*" PRId64 " ", LABEL - 1, tool_usage_layer(map->usage, index));
        for (uint32_t first = 0; first < experts; first += each) {
            put_cell(cell(map, counts, selections, first, experts - first < each ? experts - first : each), colour);
        }
        printf("%s\n", colour ? "\033[0m" : "|");
    }
    printf("%*s ", LABEL - 1, "");
    for (int i = 0; i <= 12; i++) {
        put_cell(i / 12.0, colour);
    }
    printf("%s never, even share in the middle, four times that\n", colour ? "\033[0m" : "|");
}

/* ---- SVG ------------------------------------------------------------------------------------------------ */

static void colour_of(double value, int rgb[3])
{
    static const int stops[5][3] = {{13, 8, 60}, {106, 0, 140}, {203, 70, 80}, {248, 160, 50}, {252, 250, 180}};
    int at = value >= 1.0 ? 3 : (int)(value * 4.0);
    double part = value * 4.0 - at;
    for (int i = 0; i < 3; i++) {
        rgb[i] = (int)(stops[at][i] + part * (stops[at + 1][i] - stops[at][i]) + 0.5);
    }
}

static void svg_cells(struct map *map, FILE *out, uint32_t size, uint32_t left, uint32_t top)
{
    for (uint32_t index = 0; index < map->info.layers; index++) {
        const uint32_t *counts = tool_usage_counts(map->usage, index);
        uint64_t selections = usage_order(counts, map->info.experts, map->order);
        uint32_t y = top + index * size;
        fprintf(out, "<text x=\"%u\" y=\"%u\" text-anchor=\"end\">%" PRId64 "</text>\n", left - 4, y + size - 1,
                tool_usage_layer(map->usage, index));
        for (uint32_t i = 0; i < map->info.experts; i++) {
            uint32_t expert = map->sorted ? map->order[i] : i;
            int rgb[3];
            colour_of(cell(map, counts, selections, i, 1), rgb);
            fprintf(out,
                    "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" fill=\"#%02x%02x%02x\"><title>layer %" PRId64
                    " expert %u: %u of %" PRIu64 "</title></rect>\n",
                    left + i * size, y, size, size, (unsigned)rgb[0], (unsigned)rgb[1], (unsigned)rgb[2],
                    tool_usage_layer(map->usage, index), expert, counts[expert], selections);
        }
    }
}

static int write_svg(struct map *map, const char *path)
{
    enum { LEFT = 40, TOP = 40, SIZE = 10, RIGHT = 20, BOTTOM = 20 };
    uint32_t width = LEFT + map->info.experts * SIZE + RIGHT;
    uint32_t height = TOP + map->info.layers * SIZE + BOTTOM;
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return report_failure(spec.verb, "cannot write %s: %s", path, strerror(errno));
    }
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" font-family=\"sans-serif\" "
            "font-size=\"9\">\n<rect width=\"%u\" height=\"%u\" fill=\"white\"/>\n",
            width, height, width, height);
    fprintf(out,
            "<text x=\"%d\" y=\"16\" font-size=\"12\">%" PRIu64 " selections, %u layers x %u experts%s; bright: four "
            "times an even share or more</text>\n",
            LEFT, map->info.selections, map->info.layers, map->info.experts, map->sorted ? ", hot to cold" : "");
    svg_cells(map, out, SIZE, LEFT, TOP);
    fprintf(out, "</svg>\n");
    bool lost = ferror(out) != 0;
    if (fclose(out) != 0 || lost) {
        host_remove_file(path);
        return report_failure(spec.verb, "cannot write %s", path);
    }
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct heatmap_options options = {.width = 0};
    struct map map = {.usage = NULL};
    int code = EXIT_OK;
    if (!report_args(&spec, argc, argv, &options, &code)) {
        return code;
    }
    tool_usage *usage = NULL;
    code = usage_open(spec.verb, &options.source, false, &usage, &map.info);
    if (code != EXIT_OK) {
        return code;
    }
    map.usage = usage;
    map.sorted = options.sorted;
    map.order = engine_take(spec.verb, map.info.experts * sizeof *map.order);
    if (map.order == NULL) {
        code = EXIT_FAILED;
    } else if (options.svg != NULL) {
        code = host_file_in_use(options.svg) ? report_failure(spec.verb, "%s is in use", options.svg)
                                             : write_svg(&map, options.svg);
    } else {
        bool terminal = host_is_terminal(HOST_STDOUT);
        uint32_t height = 0;
        uint32_t width = options.width;
        if (width == 0 && !(terminal && host_terminal_size(HOST_STDOUT, &height, &width))) {
            width = UINT32_MAX;
        }
        print_map(&map, width, options.colour == COLOUR_ALWAYS || (options.colour == COLOUR_AUTO && terminal));
    }
    free(map.order);
    tool_usage_close(usage);
    return report_flush(spec.verb, code);
}

const struct verb verb_usage_heatmap = {"heatmap", &spec, run, false};
