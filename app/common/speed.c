/* SPDX-License-Identifier: MIT */
#include "common/speed.h"

#include "common/host.h"
#include "tool.h"

double speed_ledger_hit(const struct model_options *options, uint64_t slots)
{
    enum { SELECTIONS_LEAST = 5000 };
    char state_dir[HOST_PATH_MAX];
    const char *state = host_state_dir(state_dir, sizeof state_dir) ? state_dir : NULL;
    const tool_usage_config config = {.path = options->path, .ledger_path = options->ledger_path, .state_dir = state};
    tool_usage *usage;
    if (!tool_usage_exists(&config) || tool_usage_open(&config, &usage, NULL) != BERTH_OK) {
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
