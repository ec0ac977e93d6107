/* SPDX-License-Identifier: MIT */
#include "common/speed.h"

#include "common/host.h"
#include "tool.h"

double speed_request_bytes(const berth_plan *plan)
{
    enum { MATRICES = 3 }; /* gate, up, down: a read each */
    return plan->experts_count > 0 ? (double)plan->experts_bytes / (double)plan->experts_count / MATRICES : 0;
}

/* Beside the model, or in the state directory: without one the model's experts need not be listed. */
static bool has_ledger(const char *model_path, const char *state_dir)
{
    char path[HOST_PATH_MAX + 32];
    uint64_t bytes;
    const char *const places[] = {NULL, state_dir};
    bool found = false;
    for (int i = 0; i < (state_dir != NULL ? 2 : 1); i++) {
        found = found || (berth_ledger_default_path(model_path, places[i], path, sizeof path, NULL) == BERTH_OK &&
                          host_file_size(path, &bytes));
    }
    return found;
}

double speed_ledger_hit(const struct model_options *options, uint64_t slots)
{
    enum { SELECTIONS_LEAST = 5000 };
    char state_dir[HOST_PATH_MAX];
    const char *state = host_state_dir(state_dir, sizeof state_dir) ? state_dir : NULL;
    if (options->ledger_path == NULL && !has_ledger(options->path, state)) {
        return 0;
    }
    const tool_usage_config config = {.path = options->path, .ledger_path = options->ledger_path, .state_dir = state};
    tool_usage *usage;
    if (tool_usage_open(&config, &usage, NULL) != BERTH_OK) {
        return 0;
    }
    tool_usage_info info;
    tool_usage_describe(usage, &info);
    double hit = 0;
    if (info.exists && !info.refused && info.selections >= SELECTIONS_LEAST) {
        const berth_ledger_count *counts;
        uint64_t used = tool_usage_ranked(usage, &counts);
        double held = 0;
        double all = 0;
        for (uint64_t i = 0; i < used; i++) {
            held += i < slots ? counts[i].count : 0;
            all += counts[i].count;
        }
        hit = all > 0 ? held / all : 0;
    }
    tool_usage_close(usage);
    return hit;
}
