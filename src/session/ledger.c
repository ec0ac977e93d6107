/* SPDX-License-Identifier: MIT
 * The public ledger: experts/usage.h behind opaque handles. Structs that both have are copied member by member, so that
 * neither side's layout binds the other. */
#include <string.h>

#include "experts/usage.h"
#include "os/file.h"

static struct usage *inner(berth_ledger *ledger)
{
    return (struct usage *)(void *)ledger;
}

static const struct usage *inner_const(const berth_ledger *ledger)
{
    return (const struct usage *)(const void *)ledger;
}

static berth_status config_from(const berth_ledger_config *config, struct usage_config *out, berth_error *err)
{
    if (config == NULL || config->struct_size < sizeof *config) {
        return error_set(err, BERTH_ERR_ARGUMENT,
                         "berth_ledger_config must be initialised with BERTH_LEDGER_CONFIG_INIT");
    }
    *out = (struct usage_config){.path = config->path,
                                 .fallback_path = config->fallback_path,
                                 .layers = config->layers,
                                 .layers_count = config->layers_count,
                                 .experts = config->experts,
                                 .mode = config->mode == BERTH_LEDGER_SEED ? USAGE_SEED : USAGE_TOLERANT,
                                 .warn = config->warn,
                                 .warn_user = config->warn_user,
                                 .engine = config->engine,
                                 .any_engine = config->engine == NULL,
                                 .fingerprint = config->fingerprint,
                                 .half_life_tokens = config->half_life_tokens};
    return BERTH_OK;
}

size_t berth_ledger_bytes(const berth_ledger_config *config)
{
    struct usage_config complete;
    struct usage *usage = NULL;
    struct arena arena;
    arena_measure(&arena);
    if (config_from(config, &complete, NULL) != BERTH_OK ||
        (complete.layers == NULL || usage_layout(&arena, &complete, &usage, NULL) != BERTH_OK)) {
        return 0;
    }
    return (size_t)arena.used_bytes;
}

berth_status berth_ledger_open(void *memory, size_t bytes, const berth_ledger_config *config, berth_ledger **out,
                               berth_error *err)
{
    struct usage_config complete;
    struct usage *usage = NULL;
    struct arena arena;
    enum usage_load_result result;
    TRY(config_from(config, &complete, err));
    if (memory == NULL || (uintptr_t)memory % OS_PAGE_BYTES != 0 || out == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT,
                         "a ledger needs memory that is 4,096-byte aligned, and a place for the handle");
    }
    arena_carve(&arena, memory, bytes);
    TRY(usage_layout(&arena, &complete, &usage, err));
    TRY(usage_load(usage, &result, err));
    *out = (berth_ledger *)(void *)usage;
    return BERTH_OK;
}

berth_status berth_ledger_record(berth_ledger *ledger, int64_t layer, const int64_t *const *rows,
                                 const uint32_t *counts, uint32_t rows_count, berth_error *err)
{
    struct usage_rows all = {.int_ids = rows, .counts = counts, .rows = rows_count};
    return usage_record(inner(ledger), layer, &all, err);
}

void berth_ledger_add_tokens(berth_ledger *ledger, uint64_t tokens)
{
    usage_add_tokens(inner(ledger), tokens);
}

berth_status berth_ledger_get(const berth_ledger *ledger, int64_t layer, int64_t expert, berth_ledger_entry *out,
                              berth_error *err)
{
    struct usage_entry entry;
    TRY(usage_entry(inner_const(ledger), layer, expert, &entry, err));
    *out = (berth_ledger_entry){entry.count, entry.heat, entry.last};
    return BERTH_OK;
}

void berth_ledger_get_snapshot(const berth_ledger *ledger, berth_ledger_snapshot *out)
{
    struct usage_snapshot s;
    usage_get_snapshot(inner_const(ledger), &s);
    *out = (berth_ledger_snapshot){s.clock, s.selections, s.total_count, s.nonzero_counts, s.dirty};
}

/* The ranking sorts in the caller's array, so these two must be alike. */
_Static_assert(sizeof(berth_ledger_count) == sizeof(struct usage_count) &&
                   offsetof(berth_ledger_count, layer) == offsetof(struct usage_count, layer) &&
                   offsetof(berth_ledger_count, expert) == offsetof(struct usage_count, expert) &&
                   offsetof(berth_ledger_count, count) == offsetof(struct usage_count, count),
               "berth_ledger_count is struct usage_count");

uint64_t berth_ledger_ranked(const berth_ledger *ledger, berth_ledger_count *out, uint64_t cap)
{
    return usage_ranked(inner_const(ledger), (struct usage_count *)(void *)out, cap);
}

uint64_t berth_lfru_score(uint32_t heat, uint32_t last_access, uint32_t clock)
{
    return usage_lfru_score(heat, last_access, clock);
}

berth_status berth_ledger_candidate(const berth_ledger *ledger, int64_t layer, const int64_t *pinned,
                                    uint32_t pinned_count, berth_lfru_candidate *out, bool *found, berth_error *err)
{
    struct usage_candidate c;
    TRY(usage_lfru_candidate(inner_const(ledger), layer, pinned, pinned_count, &c, found, err));
    if (*found) {
        *out = (berth_lfru_candidate){c.layer,      c.cold_slot, c.cold_expert, c.hot_expert,
                                      c.cold_score, c.hot_score, c.gain};
    }
    return BERTH_OK;
}

_Static_assert(sizeof(berth_lfru_candidate) == sizeof(struct usage_candidate) &&
                   offsetof(berth_lfru_candidate, hot_expert) == offsetof(struct usage_candidate, hot_expert) &&
                   offsetof(berth_lfru_candidate, gain) == offsetof(struct usage_candidate, gain),
               "berth_lfru_candidate is struct usage_candidate");

berth_status berth_lfru_select(berth_lfru_candidate *candidates, uint32_t *count, int64_t limit, berth_error *err)
{
    return usage_select_candidates((struct usage_candidate *)(void *)candidates, count, limit, err);
}

void berth_ledger_decay_heat(berth_ledger *ledger)
{
    usage_decay_heat(inner(ledger));
}

berth_status berth_ledger_flush(berth_ledger *ledger, berth_error *err)
{
    return usage_flush(inner(ledger), err);
}

berth_status berth_ledger_import(berth_ledger *ledger, const char *path, berth_ledger_import_counts *out,
                                 berth_error *err)
{
    struct usage_import counts;
    TRY(usage_import(inner(ledger), path, &counts, err));
    if (out != NULL) {
        *out = (berth_ledger_import_counts){counts.rows, counts.skipped, counts.damaged, counts.first_damaged_line};
    }
    return BERTH_OK;
}

berth_status berth_ledger_scale(berth_ledger *ledger, double factor, berth_error *err)
{
    if (!(factor >= 0.0) || factor > 1e9) {
        return error_set(err, BERTH_ERR_ARGUMENT, "counts can be multiplied by 0 to 1e9");
    }
    usage_scale(inner(ledger), factor);
    return BERTH_OK;
}

const char *berth_ledger_path(const berth_ledger *ledger)
{
    return usage_path(inner_const(ledger));
}

berth_status berth_ledger_default_path(const char *model_path, const char *state_dir, char *out, size_t cap,
                                       berth_error *err)
{
    bool directory = false;
    uint64_t bytes = 0;
    TRY(os_path_info(model_path, &directory, &bytes, err));
    return usage_default_path(model_path, directory, state_dir, out, cap)
               ? BERTH_OK
               : error_set(err, BERTH_ERR_LIMIT, "the path of the ledger needs more than %llu bytes",
                           (unsigned long long)cap);
}

berth_status berth_ledger_auto_pins(const berth_ledger *ledger, const berth_autopin_config *config,
                                    berth_ledger_count *pins, uint64_t cap, berth_autopin_plan *out, berth_error *err)
{
    if (config == NULL || config->struct_size < sizeof *config || config->slot_bytes == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT,
                         "berth_autopin_config needs BERTH_AUTOPIN_CONFIG_INIT and a slot_bytes callback");
    }
    struct autopin_config inside = {.resident_bytes = config->resident_bytes,
                                    .mandatory_bytes = config->mandatory_bytes,
                                    .slot_bytes = config->slot_bytes,
                                    .user = config->user,
                                    .min_history = config->min_history_selections,
                                    .full_history = config->full_confidence_selections,
                                    .min_pin_bytes = config->min_pin_bytes,
                                    .share = config->pin_share};
    struct autopin_plan plan;
    TRY(usage_autopin(inner_const(ledger), &inside, (struct usage_count *)(void *)pins, cap, &plan, err));
    *out = (berth_autopin_plan){plan.history,      plan.confidence,    plan.requested_bytes,
                                plan.usable_bytes, plan.planned_bytes, plan.pins};
    return BERTH_OK;
}
