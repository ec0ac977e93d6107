/* SPDX-License-Identifier: MIT
 * berth replay: what recorded routing would have hit, by policy and cache size. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/verbs.h"
#include "common/host.h"
#include "common/json_out.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/table.h"
#include "tool.h"

enum { POLICIES_MAX = 16, POINTS_MAX = 17, FILES_MAX = ARG_TEXTS_MAX + 1 };

struct replay_options {
    const char *path, *svg, *cycles;
    struct arg_texts more, policies;
    uint32_t experts;
    uint64_t slots, bytes;
    int prior, score;
    bool global, per_layer, prefill, json, csv;
};

#define AT(field) offsetof(struct replay_options, field)

static const struct arg_choice priors[] = {
    {"none", TOOL_PRIOR_NONE}, {"recorded", TOOL_PRIOR_RECORDED}, {"half", TOOL_PRIOR_HALF}, {NULL, 0}};
static const struct arg_choice scores[] = {{"half", 0}, {"all", 1}, {NULL, 0}};

static const struct arg_option rows[] = {
    {.name = "policy",
     .type = ARG_TEXTS,
     .offset = AT(policies),
     .value = "NAME",
     .help = "may be given several times; also belady and\nbelady-bypass, the bounds (default: all)"},
    {.name = "with",
     .type = ARG_TEXTS,
     .offset = AT(more),
     .value = "FILE",
     .help = "another recording, replayed after FILE as one session\nafter the other; may be given several times"},
    {.name = "slots", .type = ARG_U64, .offset = AT(slots), .value = "N", .low = 1, .help = "cache size in experts"},
    {.name = "cycles",
     .type = ARG_TEXT,
     .offset = AT(cycles),
     .value = "LIST",
     .help = "cache sizes in cycles, 0.9,2,4 (one cycle: what one\ntoken selects)"},
    {.name = "bytes",
     .type = ARG_SIZE,
     .offset = AT(bytes),
     .value = "SIZE",
     .low = 1,
     .help = "cache size in bytes; experts are as big as they are"},
    {.name = "global",
     .type = ARG_FLAG,
     .offset = AT(global),
     .help = "layers keep no slots of their own (how published\nreplays count)"},
    {.name = "per-layer",
     .type = ARG_FLAG,
     .offset = AT(per_layer),
     .help = "every layer has an equal pool of its own"},
    {.name = "prefill", .type = ARG_FLAG, .offset = AT(prefill), .help = "replay prompts too"},
    {.name = "ledger",
     .type = ARG_CHOICE,
     .offset = AT(prior),
     .choices = priors,
     .value = "WHAT",
     .help =
         "what the policies know beforehand: none, recorded (what\nthe engine knew), half (counts of the first half)"},
    {.name = "score",
     .type = ARG_CHOICE,
     .offset = AT(score),
     .choices = scores,
     .value = "WHAT",
     .help = "half: the second half of the answers is scored, the\nfirst is cold; all: everything"},
    {.name = "experts",
     .type = ARG_U32,
     .offset = AT(experts),
     .value = "N",
     .low = 1,
     .high = 4096,
     .help = "experts of each layer, where the file does not say"},
    {.name = "svg", .type = ARG_TEXT, .offset = AT(svg), .value = "FILE", .help = "plot hit rate against size"},
    {.name = "csv", .type = ARG_FLAG, .offset = AT(csv), .help = "print CSV"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};

static const struct arg_group groups[] = {{"Options", rows, sizeof rows / sizeof rows[0], 0}};
static const struct arg_positional positionals[] = {{"FILE", AT(path), false}};

static const struct arg_spec spec = {
    .verb = "replay",
    .synopsis = "FILE [--with FILE]... [--policy NAME]... [--cycles LIST | --slots N | --bytes SIZE]",
    .summary = "Replay recorded routing through any policy at any cache size.",
    .details = "FILE is a recording of `berth run --record-routes`, a BigMoeOnEdge route trace (CSV) or a WARP decode\n"
               "trace (JSON lines). A recording of ours is also replayed with the slots that its engine had; its own\n"
               "policy then gives the engine's hits and misses exactly.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = 1,
};

struct point {
    double cycles; /* 0: as recorded */
    uint64_t slots, bytes;
    bool as_recorded;
};

struct study {
    const struct replay_options *options;
    tool_routes *routes;
    tool_routes_info info;
    const char *policies[POLICIES_MAX];
    uint32_t policies_count;
    struct point points[POINTS_MAX];
    uint32_t points_count;
    tool_replay_result results[POINTS_MAX][POLICIES_MAX];
};

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

/* ---- what to replay ----------------------------------------------------------------------------------- */

static void choose_policies(struct study *study)
{
    for (uint32_t i = 0; i < study->options->policies.count; i++) {
        study->policies[study->policies_count++] = study->options->policies.items[i];
    }
    bool replay_only = false;
    const char *name;
    for (uint32_t i = 0; study->options->policies.count == 0 && (name = tool_policy_name(i, &replay_only)) != NULL;
         i++) {
        study->policies[study->policies_count++] = name;
    }
}

static void add_cycles(struct study *study, double cycles)
{
    uint64_t cycle = (uint64_t)study->info.layers * study->info.top_k;
    uint64_t all = (uint64_t)study->info.layers * study->info.experts;
    uint64_t slots = (uint64_t)((double)cycle * cycles);
    if (study->points_count < POINTS_MAX && slots >= study->info.top_k) {
        slots = slots < all ? slots : all;
        study->points[study->points_count++] = (struct point){.cycles = cycles, .slots = slots};
    }
}

/* By size, each once: the curves go from left to right. */
static void sort_points(struct study *study)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < study->points_count; i++) {
        struct point moved = study->points[i];
        uint32_t at = kept;
        bool again = false;
        for (uint32_t k = 0; k < kept; k++) {
            const struct point *other = &study->points[k];
            again = again || (other->as_recorded == moved.as_recorded && other->slots == moved.slots &&
                              other->bytes == moved.bytes);
        }
        if (again) {
            continue;
        }
        for (; at > 0 && !study->points[at - 1].as_recorded && !moved.as_recorded &&
               study->points[at - 1].slots > moved.slots;
             at--) {
            study->points[at] = study->points[at - 1];
        }
        study->points[at] = moved;
        kept++;
    }
    study->points_count = kept;
}

static int choose_points(struct study *study)
{
    static const double usual[] = {0.9, 1.25, 2, 3, 4};
    const struct replay_options *o = study->options;
    uint64_t cycle = (uint64_t)study->info.layers * study->info.top_k;
    if (study->info.has_cache && o->slots == 0 && o->bytes == 0 && o->cycles == NULL) {
        study->points[study->points_count++] = (struct point){.as_recorded = true, .slots = study->info.slots};
    }
    if (o->slots > 0) {
        study->points[study->points_count++] =
            (struct point){.cycles = (double)o->slots / (double)cycle, .slots = o->slots};
    }
    if (o->bytes > 0) {
        study->points[study->points_count++] = (struct point){.bytes = o->bytes};
    }
    for (const char *at = o->cycles; at != NULL && *at != '\0';) {
        char word[32];
        size_t bytes = strcspn(at, ",");
        double cycles = 0.0;
        snprintf(word, sizeof word, "%.*s", (int)(bytes < sizeof word ? bytes : sizeof word - 1), at);
        if (!real_parse(word, &cycles) || cycles <= 0.0 || cycles > 1e6) {
            return report_usage("replay", "--cycles: got \"%s\", wanted numbers like 0.9,2,4", o->cycles);
        }
        add_cycles(study, cycles);
        at += bytes + (at[bytes] == ',' ? 1 : 0);
    }
    if (o->slots == 0 && o->bytes == 0 && o->cycles == NULL) {
        for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
            add_cycles(study, usual[i]);
        }
        add_cycles(study, 0.25 * study->info.experts / study->info.top_k); /* a quarter of all experts */
    }
    sort_points(study);
    return EXIT_OK;
}

static int run_all(struct study *study)
{
    for (uint32_t p = 0; p < study->points_count; p++) {
        for (uint32_t i = 0; i < study->policies_count; i++) {
            const struct point *point = &study->points[p];
            tool_replay replay = {.policy = study->policies[i],
                                  .as_recorded = point->as_recorded,
                                  .slots = point->slots,
                                  .bytes = point->bytes,
                                  .global = study->options->global && !point->as_recorded,
                                  .per_layer = study->options->per_layer && !point->as_recorded,
                                  .prefill = study->options->prefill,
                                  .prior = (tool_prior)study->options->prior,
                                  .score_all = study->options->score == 1};
            berth_error err;
            if (tool_replay_run(study->routes, &replay, &study->results[p][i], &err) != BERTH_OK) {
                return report_error("replay", &err);
            }
        }
    }
    return EXIT_OK;
}

/* ---- output ------------------------------------------------------------------------------------------- */

static void size_name(const struct point *point, char *text, size_t cap)
{
    char bytes[FORMAT_MAX];
    if (point->as_recorded) {
        snprintf(text, cap, "as recorded");
    } else if (point->bytes > 0) {
        snprintf(text, cap, "%s", size_format(point->bytes, bytes));
    } else {
        snprintf(text, cap, "%.2f cycles", point->cycles);
    }
}

static void print_rows(const struct study *study, struct table *table, bool cold)
{
    char texts[TABLE_COLUMNS_MAX][48];
    const char *cells[TABLE_COLUMNS_MAX];
    for (size_t i = 0; i < TABLE_COLUMNS_MAX; i++) {
        cells[i] = texts[i];
    }
    snprintf(texts[0], sizeof texts[0], "size");
    snprintf(texts[1], sizeof texts[1], "slots");
    for (uint32_t i = 0; i < study->policies_count && i + 2 < TABLE_COLUMNS_MAX; i++) {
        snprintf(texts[i + 2], sizeof texts[i + 2], "%.40s", study->policies[i]);
    }
    table_row(table, cells);
    for (uint32_t p = 0; p < study->points_count; p++) {
        size_name(&study->points[p], texts[0], sizeof texts[0]);
        snprintf(texts[1], sizeof texts[1], "%" PRIu64, study->results[p][0].slots);
        for (uint32_t i = 0; i < study->policies_count && i + 2 < TABLE_COLUMNS_MAX; i++) {
            const tool_replay_result *r = &study->results[p][i];
            snprintf(texts[i + 2], sizeof texts[i + 2], "%.1f",
                     cold ? share(r->cold_hits, r->cold) : share(r->scored_hits, r->scored));
        }
        table_row(table, cells);
    }
}

static void print_text(const struct study *study)
{
    const tool_routes_info *info = &study->info;
    struct table table;
    size_t columns = study->policies_count + 2 < TABLE_COLUMNS_MAX ? study->policies_count + 2 : TABLE_COLUMNS_MAX;
    printf("%s%s%u layers x %u experts, top %u; %" PRIu64 " prompt and %" PRIu64 " answer tokens,\n"
           "overlap %.1f %%\n",
           info->model, info->model[0] != '\0' ? ": " : "", info->layers, info->experts, info->top_k, info->tokens[0],
           info->tokens[1], info->overlap);
    if (info->has_totals) {
        printf("recorded with %s: %" PRIu64 " hits, %" PRIu64 " misses in answers\n", info->policy, info->hits[1],
               info->misses[1]);
    }
    /* The recording engine had read the prompt before; the other sizes begin empty. */
    bool recorded = study->points_count > 0 && study->points[0].as_recorded;
    const char *from = recorded ? ", first half (from cold, except as recorded)" : ", first half (from cold)";
    for (int cold = 0; cold < (study->options->score == 1 ? 1 : 2); cold++) {
        printf("hit rate in per cent of answers%s\n",
               study->options->score == 1 ? "" : (cold == 0 ? ", second half (steady)" : from));
        table_begin(&table, stdout, "lrrrrrrrrrrr", 2);
        table.columns = columns;
        print_rows(study, &table, cold == 1);
        table_print(&table);
        print_rows(study, &table, cold == 1);
    }
}

static void print_csv(const struct study *study)
{
    printf("size,slots,policy,scored_hits,scored,cold_hits,cold,prefill_hits,prefill_misses,decode_hits,decode_misses,"
           "evictions,bypassed,read_bytes,policy_ns\n");
    for (uint32_t p = 0; p < study->points_count; p++) {
        char size[48];
        size_name(&study->points[p], size, sizeof size);
        for (uint32_t i = 0; i < study->policies_count; i++) {
            const tool_replay_result *r = &study->results[p][i];
            printf("%s,%" PRIu64 ",\"%s\",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                   ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.0f\n",
                   size, r->slots, study->policies[i], r->scored_hits, r->scored, r->cold_hits, r->cold, r->hits[0],
                   r->misses[0], r->hits[1], r->misses[1], r->evictions, r->bypassed, r->read_bytes, r->policy_ns);
        }
    }
}

static void json_result(struct json_out *json, const char *policy, const tool_replay_result *r)
{
    json_out_object(json, NULL);
    json_out_string(json, "policy", policy);
    json_out_real(json, "hit_rate", r->scored > 0 ? (double)r->scored_hits / (double)r->scored : 0.0);
    json_out_u64(json, "scored_hits", r->scored_hits);
    json_out_u64(json, "scored", r->scored);
    json_out_u64(json, "cold_hits", r->cold_hits);
    json_out_u64(json, "cold", r->cold);
    json_out_u64(json, "prefill_hits", r->hits[0]);
    json_out_u64(json, "prefill_misses", r->misses[0]);
    json_out_u64(json, "decode_hits", r->hits[1]);
    json_out_u64(json, "decode_misses", r->misses[1]);
    json_out_u64(json, "evictions", r->evictions);
    json_out_u64(json, "bypassed", r->bypassed);
    json_out_u64(json, "read_bytes", r->read_bytes);
    json_out_real(json, "policy_ns", r->policy_ns);
    json_out_close(json);
}

static void print_json(const struct study *study)
{
    const tool_routes_info *info = &study->info;
    struct json_out json;
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    json_out_string(&json, "model", info->model);
    json_out_u64(&json, "layers", info->layers);
    json_out_u64(&json, "experts", info->experts);
    json_out_u64(&json, "top_k", info->top_k);
    json_out_u64(&json, "prefill_tokens", info->tokens[0]);
    json_out_u64(&json, "decode_tokens", info->tokens[1]);
    json_out_real(&json, "overlap_percent", info->overlap);
    if (info->has_totals) {
        json_out_object(&json, "recorded");
        json_out_string(&json, "policy", info->policy);
        json_out_u64(&json, "slots", info->slots);
        json_out_u64(&json, "prefill_hits", info->hits[0]);
        json_out_u64(&json, "prefill_misses", info->misses[0]);
        json_out_u64(&json, "decode_hits", info->hits[1]);
        json_out_u64(&json, "decode_misses", info->misses[1]);
        json_out_close(&json);
    }
    json_out_array(&json, "sizes", false);
    for (uint32_t p = 0; p < study->points_count; p++) {
        char size[48];
        size_name(&study->points[p], size, sizeof size);
        json_out_object(&json, NULL);
        json_out_string(&json, "size", size);
        json_out_u64(&json, "slots", study->results[p][0].slots);
        json_out_array(&json, "policies", false);
        for (uint32_t i = 0; i < study->policies_count; i++) {
            json_result(&json, study->policies[i], &study->results[p][i]);
        }
        json_out_close(&json);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_close(&json);
    json_out_end(&json);
}

/* Points along x by slots; as-recorded points are left out (they are among the others' range anyway). */
static int write_svg(const struct study *study)
{
    static const char *const colours[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888"};
    enum { WIDTH = 720, HEIGHT = 440, LEFT = 60, TOP = 20, RIGHT = 180, BOTTOM = 50 };
    uint64_t most = 1;
    for (uint32_t p = 0; p < study->points_count; p++) {
        uint64_t slots = study->points[p].as_recorded ? 1 : study->results[p][0].slots;
        most = slots > most ? slots : most;
    }
    FILE *out = fopen(study->options->svg, "w");
    if (out == NULL) {
        return report_failure("replay", "cannot write %s: %s", study->options->svg, strerror(errno));
    }
    double plot_w = WIDTH - LEFT - RIGHT;
    double plot_h = HEIGHT - TOP - BOTTOM;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n",
            WIDTH, HEIGHT);
    fprintf(out, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", WIDTH, HEIGHT);
    for (int y = 0; y <= 100; y += 20) {
        double at = TOP + plot_h * (100 - y) / 100.0;
        fprintf(out, "<line x1=\"%d\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#dddddd\"/>", LEFT, LEFT + plot_w,
                at, at);
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n", LEFT - 6, at + 4, y);
    }
    for (uint32_t i = 0; i < study->policies_count; i++) {
        const char *colour = colours[i % (sizeof colours / sizeof colours[0])];
        fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
        for (uint32_t p = 0; p < study->points_count; p++) {
            const tool_replay_result *r = &study->results[p][i];
            if (!study->points[p].as_recorded) {
                fprintf(out, "%.1f,%.1f ", LEFT + plot_w * (double)study->results[p][0].slots / (double)most,
                        TOP + plot_h * (100.0 - share(r->scored_hits, r->scored)) / 100.0);
            }
        }
        fprintf(out, "\"/><text x=\"%.0f\" y=\"%u\" fill=\"%s\">%s</text>\n", LEFT + plot_w + 12, TOP + 12 + 18 * i,
                colour, study->policies[i]);
    }
    fprintf(out,
            "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">slots (0 to %" PRIu64 " of %" PRIu64 " experts)</text>\n",
            LEFT + plot_w / 2, HEIGHT - 14, most, (uint64_t)study->info.layers * study->info.experts);
    fprintf(out, "</svg>\n");
    bool lost = ferror(out) != 0;
    if (fclose(out) != 0 || lost) {
        host_remove_file(study->options->svg);
        return report_failure("replay", "cannot write %s", study->options->svg);
    }
    return EXIT_OK;
}

static bool is_ledger(const char *path)
{
    const tool_usage_config config = {.path = path};
    tool_usage *usage;
    if (tool_usage_open(&config, &usage, NULL) != BERTH_OK) {
        return false;
    }
    tool_usage_info info;
    tool_usage_describe(usage, &info);
    tool_usage_close(usage);
    return info.model[0] == '\0' && info.selections > 0;
}

static int replay_and_print(struct study *study, struct replay_options *options)
{
    const char *paths[FILES_MAX];
    uint32_t count = 0;
    berth_error err;
    paths[count++] = options->path;
    for (uint32_t i = 0; i < options->more.count; i++) {
        paths[count++] = options->more.items[i];
    }
    study->options = options;
    if (options->global && options->per_layer) {
        return report_usage("replay", "--global and --per-layer exclude each other");
    }
    if (tool_routes_open(paths, count, options->experts, &study->routes, &err) != BERTH_OK) {
        int failed = report_error("replay", &err);
        if (err.status == BERTH_ERR_FORMAT && is_ledger(err.path)) {
            fputs(
                "It is a usage ledger, which keeps counts and no order; 'berth usage show' reads it. Recordings come\n"
                "from 'berth run --record-routes FILE'.\n",
                stderr);
        }
        return failed;
    }
    tool_routes_describe(study->routes, &study->info);
    if (options->prior < 0) {
        options->prior = study->info.has_cache ? TOOL_PRIOR_RECORDED : TOOL_PRIOR_NONE;
    }
    choose_policies(study);
    int code = choose_points(study);
    code = code == EXIT_OK ? run_all(study) : code;
    tool_routes_close(study->routes);
    code = code == EXIT_OK && options->svg != NULL ? write_svg(study) : code;
    if (code != EXIT_OK) {
        return code;
    }
    if (options->json) {
        print_json(study);
    } else if (options->csv) {
        print_csv(study);
    } else {
        print_text(study);
    }
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct replay_options options = {.prior = -1};
    int code = EXIT_OK;
    if (!report_args(&spec, argc, argv, &options, &code)) {
        return code;
    }
    struct study *study = calloc(1, sizeof *study);
    if (study == NULL) {
        return report_failure("replay", "the system has no memory");
    }
    code = replay_and_print(study, &options);
    free(study);
    return report_flush("replay", code);
}

const struct verb verb_replay = {"replay", &spec, run, false};
