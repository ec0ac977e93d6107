/* SPDX-License-Identifier: MIT
 * berth logits: raw logits of every position, for comparing engines; greedy continuation and routes with it. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/verbs.h"
#include "common/engine.h"
#include "common/generate.h"
#include "common/host.h"
#include "common/input.h"
#include "common/json_out.h"
#include "common/report.h"

struct logits_options {
    struct model_options model;
    const char *ids, *ids_file, *out_path, *routes_path;
    uint32_t greedy;
    bool hash, json;
};

#define AT(field) offsetof(struct logits_options, field)
/* Pages of a file that we write are charged to us until they are on disk. */
enum { SYNC_BYTES = 256 * 1024 };

static const struct arg_option rows[] = {
    {.name = "ids", .type = ARG_TEXT, .offset = AT(ids), .value = "LIST", .help = "token ids, 1,2,3"},
    {.name = "ids-file", .type = ARG_TEXT, .offset = AT(ids_file), .value = "FILE", .help = "the same from a file"},
    {.name = "out",
     .letter = 'o',
     .type = ARG_TEXT,
     .offset = AT(out_path),
     .value = "FILE",
     .help = "where logits go: little-endian float32 [ids][vocab]"},
    {.name = "hash", .type = ARG_FLAG, .offset = AT(hash), .help = "print FNV-1a 64 of all logits bytes"},
    {.name = "routes",
     .type = ARG_TEXT,
     .offset = AT(routes_path),
     .value = "FILE",
     .help = "write the routes: 'layer position id id ...' a line"},
    {.name = "greedy",
     .type = ARG_U32,
     .offset = AT(greedy),
     .value = "N",
     .high = 1u << 24,
     .help = "generate N more ids, always the likeliest, and print them"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};

static const struct arg_group groups[] = {
    {"Options", rows, sizeof rows / sizeof rows[0], 0},
    {"Memory", plan_option_rows, PLAN_OPTIONS, AT(model)},
    {"Machine", machine_option_rows, MACHINE_OPTIONS, AT(model)},
    {"Output", talk_option_rows, TALK_OPTIONS, AT(model)},
};
static const struct arg_positional positionals[] = {{"MODEL", AT(model.path), false}};

static const struct arg_spec spec = {
    .verb = "logits",
    .synopsis = "MODEL --ids LIST [-o FILE] [--hash] [--routes FILE] [--greedy N]",
    .summary = "Write the logits of every position, for comparing engines.",
    .details =
        "The hash covers the logits of the given ids in order of position. Routes of generated ids are written too.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = sizeof groups / sizeof groups[0],
};

struct logits {
    struct logits_options options;
    struct engine engine;
    struct id_list ids;
    FILE *out, *routes; /* NULL: not wanted */
    uint64_t hash;
    uint64_t positions;
    uint64_t unsynced, routes_unsynced;
    bool failed; /* a write did not succeed */
    int failed_errno;
    int32_t *greedy; /* [greedy_count] */
    float *margins;  /* [greedy_count] top-1 minus top-2 logit */
    uint32_t greedy_count;
};

static void on_logits(void *user, uint32_t position, const float *logits, uint32_t vocab)
{
    struct logits *l = user;
    (void)position;
    l->positions++;
    l->hash = hash_bytes(l->hash, logits, (size_t)vocab * sizeof *logits);
    if (l->out == NULL || l->failed) {
        return;
    }
    l->unsynced += (uint64_t)vocab * sizeof *logits;
    bool written = fwrite(logits, sizeof *logits, vocab, l->out) == vocab;
    if (written && l->unsynced >= SYNC_BYTES) {
        l->unsynced = 0;
        written = host_write_through(l->out);
    }
    if (!written) {
        l->failed = true;
        l->failed_errno = errno;
        berth_session_cancel(l->engine.session);
    }
}

static void on_route(void *user, const berth_route *route)
{
    struct logits *l = user;
    int bytes = fprintf(l->routes, "%" PRIu32 " %" PRIu32, route->layer, route->position);
    for (uint32_t i = 0; i < route->k; i++) {
        bytes += fprintf(l->routes, " %u", (unsigned)route->experts[i]);
    }
    fputc('\n', l->routes);
    l->routes_unsynced += bytes > 0 ? (uint64_t)bytes + 1 : 0;
    if (l->routes_unsynced >= SYNC_BYTES) {
        l->routes_unsynced = 0;
        (void)host_write_through(l->routes); /* what is lost shows when the file is closed */
    }
}

/* Ties go to the lower id, as in the sampler. */
static int32_t likeliest(const float *logits, uint32_t vocab, float *margin)
{
    uint32_t best = 0;
    float second = -INFINITY;
    for (uint32_t i = 1; i < vocab; i++) {
        if (logits[i] > logits[best]) {
            second = logits[best];
            best = i;
        } else if (logits[i] > second) {
            second = logits[i];
        }
    }
    *margin = logits[best] - second;
    return (int32_t)best;
}

static berth_status go_on(struct logits *l, berth_error *err)
{
    uint32_t wanted = l->options.greedy;
    while (l->greedy_count < wanted) {
        uint32_t at = l->greedy_count;
        l->greedy[at] = likeliest(berth_session_logits(l->engine.session), l->engine.info.vocab, &l->margins[at]);
        l->greedy_count++;
        if (l->greedy_count < wanted) {
            berth_status status = berth_session_eval(l->engine.session, &l->greedy[at], 1, NULL, NULL, err);
            if (status != BERTH_OK) {
                return status;
            }
        }
    }
    return BERTH_OK;
}

static void print_text(const struct logits *l)
{
    if (l->options.hash) {
        printf("%016" PRIx64 "\n", l->hash);
    }
    for (uint32_t i = 0; i < l->greedy_count; i++) {
        printf("%s%" PRId32, i > 0 ? "," : "", l->greedy[i]);
    }
    if (l->greedy_count > 0) {
        putchar('\n');
    }
}

static void print_json(const struct logits *l)
{
    struct json_out json;
    char hash[20];
    snprintf(hash, sizeof hash, "%016" PRIx64, l->hash);
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    json_out_array(&json, "shape", true);
    json_out_u64(&json, NULL, l->positions);
    json_out_u64(&json, NULL, l->engine.info.vocab);
    json_out_close(&json);
    json_out_string(&json, "hash", hash);
    json_out_string(&json, "kernels", l->engine.info.kernels);
    berth_stats stats = BERTH_STATS_INIT;
    berth_model_get_stats(l->engine.model, &stats);
    json_out_u64(&json, "kernel_calls", stats.kernel_calls);
    json_out_array(&json, "greedy", true);
    for (uint32_t i = 0; i < l->greedy_count; i++) {
        json_out_i64(&json, NULL, l->greedy[i]);
    }
    json_out_close(&json);
    json_out_array(&json, "greedy_margin", true);
    for (uint32_t i = 0; i < l->greedy_count; i++) {
        json_out_real(&json, NULL, (double)l->margins[i]);
    }
    json_out_close(&json);
    json_out_close(&json);
    json_out_end(&json);
}

static int evaluate(struct logits *l)
{
    if (l->options.greedy > 0) {
        l->greedy = engine_take("logits", (uint64_t)l->options.greedy * sizeof *l->greedy);
        l->margins = engine_take("logits", (uint64_t)l->options.greedy * sizeof *l->margins);
        if (l->greedy == NULL || l->margins == NULL) {
            return EXIT_FAILED;
        }
    }
    berth_error err;
    engine_watch_prefill(&l->engine, l->ids.count);
    berth_status status = berth_session_eval(l->engine.session, l->ids.ids, l->ids.count, on_logits, l, &err);
    engine_watch_prefill(&l->engine, 0);
    progress_end(&l->engine.progress);
    if (status == BERTH_OK) {
        status = go_on(l, &err);
    }
    if (l->failed) {
        return report_failure("logits", "%s could not be written: %s", l->options.out_path, strerror(l->failed_errno));
    }
    if (status == BERTH_ERR_CANCELLED && host_interrupted()) {
        return host_interrupt_code();
    }
    if (status != BERTH_OK) {
        return report_error("logits", &err);
    }
    return EXIT_OK;
}

static int open_output(const char *path, FILE **out)
{
    if (path == NULL) {
        return EXIT_OK;
    }
    if (host_file_in_use(path)) {
        return report_failure("logits", "%s: is read by this run or another output of it; name another file", path);
    }
    *out = host_open_output(path);
    if (*out == NULL && host_interrupted()) {
        return host_interrupt_code();
    }
    if (*out == NULL) {
        return report_failure("logits", "%s: %s", path, strerror(errno));
    }
    host_temporary(path);
    return EXIT_OK;
}

/* Closes what was written; an incomplete file is removed. */
static int close_output(const char *path, FILE *out, int code)
{
    if (out == NULL) {
        return code;
    }
    errno = 0;
    bool lost = ferror(out) != 0;
    lost = fclose(out) != 0 || lost;
    if (lost && code == EXIT_OK && host_interrupted()) {
        code = host_interrupt_code();
    } else if (lost && code == EXIT_OK) {
        code = report_failure("logits", "%s could not be written: %s", path,
                              errno != 0 ? strerror(errno) : "an earlier write failed");
    }
    if (code != EXIT_OK) {
        host_remove_file(path);
    }
    host_temporary_done(path);
    return code;
}

/* Outputs are opened only once the model is: a refused budget must not cost an existing file. */
static int with_engine(struct logits *l)
{
    const struct logits_options *o = &l->options;
    int code = open_output(o->out_path, &l->out);
    if (code == EXIT_OK) {
        code = open_output(o->routes_path, &l->routes);
    }
    if (code == EXIT_OK) {
        code = evaluate(l);
    }
    code = close_output(o->out_path, l->out, code);
    return close_output(o->routes_path, l->routes, code);
}

static int with_inputs(struct logits *l)
{
    const struct logits_options *o = &l->options;
    uint64_t need = (uint64_t)l->ids.count + (o->greedy > 0 ? o->greedy - 1 : 0);
    struct engine_needs needs = {
        .ctx_tokens = need < UINT32_MAX ? (uint32_t)need : UINT32_MAX,
        .observe = true,
        .route = o->routes_path != NULL ? on_route : NULL,
        .route_user = l,
    };
    int code = engine_open(&l->engine, "logits", &o->model, &needs);
    if (code == EXIT_OK) {
        code = with_engine(l);
    }
    if (code == EXIT_OK) {
        if (o->json) {
            print_json(l);
        } else {
            print_text(l);
        }
    }
    engine_close(&l->engine);
    return code;
}

static int run(int argc, char **argv)
{
    struct logits l = {.hash = HASH_SEED};
    int code;
    if (!report_args(&spec, argc, argv, &l.options, &code)) {
        return code;
    }
    if ((l.options.ids != NULL) == (l.options.ids_file != NULL)) {
        return report_usage("logits", "give either --ids or --ids-file");
    }
    if (l.options.out_path == NULL && !l.options.hash && l.options.greedy == 0 && l.options.routes_path == NULL &&
        !l.options.json) {
        return report_usage("logits", "nothing to do: give -o, --hash, --routes, --greedy or --json");
    }
    uint64_t most = input_most(l.options.model.budget_bytes);
    code = l.options.ids != NULL ? input_ids("logits", l.options.ids, most, &l.ids)
                                 : input_ids_file("logits", l.options.ids_file, most, &l.ids);
    if (code == EXIT_OK) {
        host_catch_interrupts();
        code = with_inputs(&l);
    }
    free(l.ids.ids);
    free(l.greedy);
    free(l.margins);
    return code;
}

const struct verb verb_logits = {"logits", &spec, run, false};
