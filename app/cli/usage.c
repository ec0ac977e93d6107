/* SPDX-License-Identifier: MIT */
#include "cli/usage.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/host.h"
#include "common/report.h"

#define AT(field) offsetof(struct usage_source, field)

const struct arg_option usage_source_rows[USAGE_SOURCE_OPTIONS] = {
    {.name = "ledger-path",
     .type = ARG_TEXT,
     .offset = AT(ledger_path),
     .value = "FILE",
     .help = "with a model: this ledger instead of the model's own"},
    {.name = "experts",
     .type = ARG_U32,
     .offset = AT(experts),
     .value = "N",
     .low = 1,
     .high = 4096,
     .help = "experts of each layer, of a ledger that does not say\n(default: the largest it names plus one)"},
};

static void on_warning(void *user, const char *message)
{
    (void)user;
    report_note("%s", message);
}

int usage_open(const char *verb, const struct usage_source *source, bool may_lack, tool_usage **out,
               tool_usage_info *info)
{
    char state_dir[HOST_PATH_MAX];
    tool_usage_config config = {.path = source->path,
                                .ledger_path = source->ledger_path,
                                .state_dir = host_state_dir(state_dir, sizeof state_dir) ? state_dir : NULL,
                                .experts = source->experts,
                                .warn = on_warning};
    berth_error err;
    if (tool_usage_open(&config, out, &err) != BERTH_OK) {
        return report_error(verb, &err);
    }
    tool_usage_describe(*out, info);
    int code = EXIT_OK;
    if (info->refused && !may_lack) {
        code = report_failure(verb, "%s was refused, so there is nothing to work with", info->path);
    } else if (!info->exists && !may_lack) {
        code = report_failure(
            verb, "%s has no ledger yet (%s); berth run and berth chat write it (unless --ledger says off or read)",
            source->path, info->path);
    }
    if (code != EXIT_OK) {
        tool_usage_close(*out);
        *out = NULL;
    }
    return code;
}

struct ranked {
    uint32_t count, expert;
};

static int most_first(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;
    if (x->count != y->count) {
        return x->count > y->count ? -1 : 1;
    }
    return x->expert < y->expert ? -1 : (x->expert > y->expert ? 1 : 0);
}

enum { EXPERTS_MOST = 4096 };

uint64_t usage_order(const uint32_t *counts, uint32_t experts, uint32_t *order)
{
    static struct ranked ranked[EXPERTS_MOST];
    uint64_t selections = 0;
    uint32_t count = experts < EXPERTS_MOST ? experts : EXPERTS_MOST;
    for (uint32_t expert = 0; expert < count; expert++) {
        ranked[expert] = (struct ranked){counts[expert], expert};
        selections += counts[expert];
    }
    qsort(ranked, count, sizeof ranked[0], most_first);
    for (uint32_t i = 0; i < count; i++) {
        order[i] = ranked[i].expert;
    }
    return selections;
}

void usage_skew(const uint32_t *counts, const uint32_t *order, uint32_t experts, struct usage_skew *out)
{
    static const uint32_t percent[3] = {10, 25, 50};
    *out = (struct usage_skew){0};
    for (uint32_t i = 0; i < experts; i++) {
        out->selections += counts[i];
        out->used += counts[i] > 0 ? 1 : 0;
    }
    double entropy = 0.0;
    uint64_t held = 0;
    for (uint32_t i = 0; i < experts; i++) {
        double share = usage_share(counts[order[i]], out->selections);
        entropy -= share > 0.0 ? share * log2(share) : 0.0;
        held += counts[order[i]];
        for (uint32_t p = 0; p < 3; p++) {
            /* the nearest whole number of experts, at least one */
            uint32_t most = (experts * percent[p] + 50) / 100;
            if (i + 1 == (most > 0 ? most : 1)) {
                out->held[p] = usage_share(held, out->selections);
            }
        }
    }
    out->effective = out->selections > 0 ? exp2(entropy) : 0.0;
}

void usage_head(const tool_usage_info *info)
{
    printf("%s%s%s\n", info->model, info->model[0] != '\0' ? ": " : "", info->path);
    printf("%" PRIu64 " selections, %u layers x %u experts", info->selections, info->layers, info->experts);
    if (info->top_k > 0) {
        printf(", top %u: about %" PRIu64 " tokens", info->top_k,
               info->selections / ((uint64_t)info->layers * info->top_k));
    }
    printf("\n%" PRIu64 " experts of %" PRIu64 " were ever selected\n", info->used,
           (uint64_t)info->layers * info->experts);
}

void usage_head_json(struct json_out *json, const tool_usage_info *info)
{
    json_out_string(json, "ledger", info->path);
    if (info->model[0] != '\0') {
        json_out_string(json, "model", info->model);
    } else {
        json_out_null(json, "model");
    }
    json_out_u64(json, "layers_count", info->layers);
    json_out_u64(json, "experts", info->experts);
    if (info->top_k > 0) {
        json_out_u64(json, "top_k", info->top_k);
    } else {
        json_out_null(json, "top_k");
    }
    json_out_u64(json, "selections", info->selections);
    json_out_u64(json, "used", info->used);
}

bool usage_add(const char *verb, tool_usage *usage, const char *path, bool quiet)
{
    tool_usage_added added;
    berth_error err;
    if (tool_usage_add(usage, path, &added, &err) != BERTH_OK) {
        (void)report_error(verb, &err);
        return false;
    }
    if (added.damaged > 0) {
        report_note("%s: %" PRIu64 " malformed rows were left out, the first in line %" PRIu64, path, added.damaged,
                    added.first_damaged_line);
    }
    if (added.skipped > 0) {
        report_note("%s: %" PRIu64 " %s of other layers or experts were left out", path, added.skipped,
                    added.routes ? "selections" : "rows");
    }
    if (added.rows == 0) {
        (void)report_failure(verb, "%s holds nothing for this ledger", path);
        return false;
    }
    if (!quiet) {
        report_note("%s: %" PRIu64 " %s", path, added.rows, added.routes ? "selections of recorded routes" : "rows");
    }
    return true;
}
