/* SPDX-License-Identifier: MIT */
#include "store/models.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/engine.h"
#include "common/speed.h"
#include "tool.h"

#define TEXT(field)                                                                                 \
    {                                                                                               \
#field, STORE_TEXT, offsetof(struct model_row, field), sizeof((struct model_row *)0)->field \
    }
#define INT(field)                                              \
    {                                                           \
#field, STORE_INT, offsetof(struct model_row, field), 0 \
    }
#define REAL(field)                                              \
    {                                                            \
#field, STORE_REAL, offsetof(struct model_row, field), 0 \
    }

static const struct store_column columns[] = {
    TEXT(path),          INT(bytes),           INT(mtime_ns),     INT(seen),
    TEXT(origin),        TEXT(alias),          TEXT(name),        TEXT(family),
    TEXT(problem),       TEXT(format),         TEXT(quant),       TEXT(fingerprint),
    INT(parameters),     INT(tensor_bytes),    INT(hard_floor),   INT(floor),
    INT(full),           INT(fixed_bytes),     REAL(trunk_bytes), REAL(expert_bytes),
    REAL(experts_bytes), REAL(kv_token_bytes), REAL(macs),        REAL(kv_token_macs),
    INT(layers),         INT(moe_layers),      INT(experts),      INT(top_k),
    INT(ctx_max),
};
const struct store_table model_table = {"model", columns, sizeof columns / sizeof columns[0], sizeof(struct model_row)};

/* ---- reading ---------------------------------------------------------------------------------------- */

static void read_plan(struct model_row *out, tool_planner *planner, const tool_summary *summary)
{
    const struct model_options options = {.path = out->path, .budget_bytes = (uint64_t)1 << 50};
    const tool_shape shape = {.vocab = summary->vocab, .ctx_max_tokens = summary->ctx_max_tokens};
    const struct engine_needs needs = {.shape = &shape};
    berth_model_config config;
    berth_plan plan = BERTH_PLAN_INIT;
    berth_error err;
    if (engine_config("models", &options, &needs, &config) != 0) {
        snprintf(out->problem, sizeof out->problem, "its headers give no plan");
        return;
    }
    if (tool_planner_plan(planner, &config, &plan, &err) != BERTH_OK) {
        snprintf(out->problem, sizeof out->problem, "%.255s", err.message);
        return;
    }
    berth_speed_work work;
    tool_speed_work(summary, &plan, &work);
    snprintf(out->family, sizeof out->family, "%s", summary->family);
    out->hard_floor = (int64_t)plan.hard_floor_bytes;
    out->floor = (int64_t)plan.floor_bytes;
    out->full = (int64_t)plan.full_bytes;
    out->fixed_bytes = (int64_t)(plan.run_bytes - plan.line_bytes[BERTH_LINE_SLOTS]);
    out->trunk_bytes = work.trunk_bytes;
    out->expert_bytes = work.expert_bytes;
    out->experts_bytes = work.experts_bytes;
    out->kv_token_bytes = work.kv_token_bytes;
    out->macs = work.macs;
    out->kv_token_macs = work.kv_token_macs;
    out->layers = work.layers;
    out->moe_layers = work.moe_layers;
    out->experts = work.experts;
    out->top_k = work.top_k;
}

bool models_read(const char *path, struct model_row *out)
{
    tool_planner *planner;
    berth_error err;
    snprintf(out->path, sizeof out->path, "%s", path);
    if (tool_planner_open(path, &planner, &err) != BERTH_OK) {
        snprintf(out->problem, sizeof out->problem, "%.255s", err.message);
        return err.status != BERTH_ERR_NOT_FOUND;
    }
    tool_summary summary;
    tool_summarise(tool_planner_checkpoint(planner), &summary);
    snprintf(out->name, sizeof out->name, "%s", summary.name);
    snprintf(out->problem, sizeof out->problem, "%.255s", summary.family_problem);
    snprintf(out->format, sizeof out->format, "%s", summary.format);
    snprintf(out->quant, sizeof out->quant, "%s", summary.dtypes_count > 0 ? summary.dtypes[0].dtype : "");
    snprintf(out->fingerprint, sizeof out->fingerprint, "%s", summary.fingerprint);
    out->parameters = (int64_t)summary.parameters;
    out->tensor_bytes = (int64_t)summary.tensor_bytes;
    out->ctx_max = (int64_t)summary.ctx_max_tokens;
    if (summary.family[0] != '\0') {
        read_plan(out, planner, &summary);
    }
    tool_planner_close(planner);
    return true;
}

void models_work(const struct model_row *row, berth_speed_work *work)
{
    *work = BERTH_SPEED_WORK_INIT;
    work->trunk_bytes = row->trunk_bytes;
    work->expert_bytes = row->expert_bytes;
    work->experts_bytes = row->experts_bytes;
    work->kv_token_bytes = row->kv_token_bytes;
    work->macs = row->macs;
    work->kv_token_macs = row->kv_token_macs;
    work->layers = (uint32_t)row->layers;
    work->moe_layers = (uint32_t)row->moe_layers;
    work->experts = (uint32_t)row->experts;
    work->top_k = (uint32_t)row->top_k;
}

/* ---- rows ------------------------------------------------------------------------------------------- */

static bool first_path(void *user, const void *row)
{
    snprintf(user, HOST_PATH_MAX, "%s", ((const struct model_row *)row)->path);
    return false;
}

bool models_path_by_size(struct store *store, int64_t at, char *path, size_t cap)
{
    struct model_row row;
    char tail[96];
    char found[HOST_PATH_MAX] = "";
    snprintf(tail, sizeof tail, "ORDER BY tensor_bytes DESC, path LIMIT 1 OFFSET %" PRId64, at);
    if (!store_each(store, &model_table, tail, NULL, &row, first_path, found) || found[0] == '\0') {
        return false;
    }
    snprintf(path, cap, "%s", found);
    return true;
}

bool models_add_folder(struct store *store, const char *path)
{
    const char *const texts[2] = {path, NULL};
    return store_do(store, "INSERT OR REPLACE INTO folder (path) VALUES (?1)", texts);
}

static bool has_row(void *user, const void *row)
{
    (void)row;
    *(bool *)user = true;
    return false;
}

bool models_remove_folder(struct store *store, const char *path, bool *known)
{
    static const struct store_column column[] = {{"path", STORE_TEXT, 0, HOST_PATH_MAX}};
    static const struct store_table table = {"folder", column, 1, HOST_PATH_MAX};
    char row[HOST_PATH_MAX];
    const char *const texts[2] = {path, NULL};
    *known = false;
    return store_each(store, &table, "WHERE path = ?1", texts, row, has_row, known) &&
           store_do(store, "DELETE FROM folder WHERE path = ?1", texts);
}
