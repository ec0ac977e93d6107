/* SPDX-License-Identifier: MIT
 * What the parts of "berth usage" share: opening a ledger, and shares. */
#ifndef CLI_USAGE_H
#define CLI_USAGE_H

#include "common/args.h"
#include "common/json_out.h"
#include "tool.h"

struct usage_source {
    const char *path, *ledger_path;
    uint32_t experts;
};

/* --ledger-path --experts */
extern const struct arg_option usage_source_rows[];
enum { USAGE_SOURCE_OPTIONS = 2 };

/* Opens and describes it; EXIT_OK, or an exit code after the reason was printed. Without `may_lack`, a model that has
 * no ledger yet and a ledger that was refused are failures. */
int usage_open(const char *verb, const struct usage_source *source, bool may_lack, tool_usage **out,
               tool_usage_info *info);

/* The experts of a layer with counts, most first: order[experts]; returns the selections of the layer. */
uint64_t usage_order(const uint32_t *counts, uint32_t experts, uint32_t *order);

/* How unevenly a layer's selections fall. */
struct usage_skew {
    uint64_t selections;
    uint32_t used;
    double effective; /* experts that would be as uneven if all alike: 2 to the entropy */
    double held[3];   /* share of selections of the hottest 10, 25 and 50 % of experts */
};
void usage_skew(const uint32_t *counts, const uint32_t *order, uint32_t experts, struct usage_skew *out);

static inline double usage_share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

/* "model" or "ledger" and the path, selections, shape. */
void usage_head(const tool_usage_info *info);
void usage_head_json(struct json_out *json, const tool_usage_info *info);

/* Says on stderr what was read from a file; false after a message: nothing was. */
bool usage_add(const char *verb, tool_usage *usage, const char *path, bool quiet);

#endif
