/* SPDX-License-Identifier: MIT */
#include "common/plan_out.h"

#include <inttypes.h>
#include <string.h>

#include "common/sizes.h"
#include "common/table.h"

/* What each line holds, and its letter in the bar (0: counted with the others). */
static const struct {
    const char *help;
    char letter;
} line_rows[BERTH_LINE_COUNT] = {
    [BERTH_LINE_TRUNK] = {"weights outside the experts", 'T'},
    [BERTH_LINE_KV] = {"KV cache", 'K'},
    [BERTH_LINE_STATE] = {"recurrent state", 0},
    [BERTH_LINE_SCRATCH] = {"activations of the largest prefill chunk", 0},
    [BERTH_LINE_SLOTS] = {"expert cache", 'E'},
    [BERTH_LINE_STAGING] = {"I/O buffers", 0},
    [BERTH_LINE_TEXT] = {"tokenizer", 0},
    [BERTH_LINE_TABLES] = {"catalog, policy, tensor table", 0},
    [BERTH_LINE_THREADS] = {"stacks", 0},
    [BERTH_LINE_PROCESS] = {"program, libraries, page tables", 0},
    [BERTH_LINE_APP] = {"this program's own buffers", 0},
    [BERTH_LINE_DEVICE] = {"device memory (its own budget)", 0},
};

const char *plan_kv_name(berth_kv_type type)
{
    return type == BERTH_KV_F32 ? "f32" : type == BERTH_KV_Q8_0 ? "q8_0" : "f16";
}

static void print_lines(const berth_plan *plan, FILE *out)
{
    struct table table;
    table_begin(&table, out, "lrl", 2);
    for (int pass = 0; pass < 2; pass++) {
        char text[FORMAT_MAX];
        for (int i = 0; i < BERTH_LINE_COUNT; i++) {
            if (plan->line_bytes[i] > 0) {
                const char *cells[] = {berth_line_name((berth_line)i), size_format(plan->line_bytes[i], text),
                                       line_rows[i].help};
                table_row(&table, cells);
            }
        }
        const char *total[] = {"total", size_format(plan->run_bytes, text), "while running"};
        table_row(&table, total);
        if (plan->open_bytes > plan->run_bytes) {
            const char *open[] = {"opening", size_format(plan->open_bytes, text), "while opening"};
            table_row(&table, open);
        }
        const char *budget[] = {"budget", size_format(plan->budget_bytes, text), plan->binding};
        table_row(&table, budget);
        table_print(&table);
    }
}

enum { BAR_WIDTH = 64 };

/* The budget (or the plan, when it is larger) as letters: T trunk, K kv, o the rest, E experts, . free. */
static void print_bar(const berth_plan *plan, FILE *out)
{
    uint64_t whole = plan->budget_bytes > plan->plan_bytes ? plan->budget_bytes : plan->plan_bytes;
    if (whole == 0) {
        return;
    }
    uint64_t others = 0;
    for (int i = 0; i < BERTH_LINE_COUNT; i++) {
        others += line_rows[i].letter == 0 && i != BERTH_LINE_DEVICE ? plan->line_bytes[i] : 0;
    }
    const struct {
        char letter;
        uint64_t bytes;
    } parts[] = {
        {'T', plan->line_bytes[BERTH_LINE_TRUNK]},
        {'K', plan->line_bytes[BERTH_LINE_KV]},
        {'o', others},
        {'E', plan->line_bytes[BERTH_LINE_SLOTS]},
    };
    char bar[BAR_WIDTH + 1];
    memset(bar, '.', BAR_WIDTH);
    bar[BAR_WIDTH] = '\0';
    uint64_t sum = 0;
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        sum += parts[i].bytes;
        size_t end = (size_t)((double)sum / (double)whole * BAR_WIDTH + 0.5);
        end = end > BAR_WIDTH ? BAR_WIDTH : end;
        memset(bar + at, parts[i].letter, end - at);
        at = end;
    }
    fprintf(out, "\n  [%s]\n  T trunk  K kv  E experts  o other  . free\n", bar);
    if (plan->budget_bytes < plan->plan_bytes) {
        size_t mark = (size_t)((double)plan->budget_bytes / (double)whole * BAR_WIDTH);
        fprintf(out, "  %*s^ budget\n", (int)mark + 1, "");
    }
}

static void print_floors(const berth_plan *plan, FILE *out)
{
    struct table table;
    table_begin(&table, out, "lrl", 2);
    for (int pass = 0; pass < 2; pass++) {
        char text[FORMAT_MAX];
        const char *hard[] = {"hard floor", size_format(plan->hard_floor_bytes, text), "refused below it"};
        table_row(&table, hard);
        const char *floor[] = {"floor", size_format(plan->floor_bytes, text),
                               "one token's experts fit; uncached below it"};
        table_row(&table, floor);
        const char *full[] = {"full", size_format(plan->full_bytes, text), "every expert stays in memory"};
        table_row(&table, full);
        table_print(&table);
    }
}

static double cycles(const berth_plan *plan)
{
    return plan->cycle_bytes > 0 ? (double)plan->line_bytes[BERTH_LINE_SLOTS] / (double)plan->cycle_bytes : 0;
}

void plan_print(const berth_plan *plan, FILE *out)
{
    print_lines(plan, out);
    print_bar(plan, out);
    fputc('\n', out);
    print_floors(plan, out);
    fputs("\nVerdict: ", out);
    if (!plan->fits) {
        char missing[FORMAT_MAX];
        uint64_t short_bytes = plan->hard_floor_bytes - plan->budget_bytes;
        fprintf(out, "does not fit: %s (%" PRIu64 " bytes) short of the hard floor\n",
                size_format(short_bytes, missing), short_bytes);
        return;
    }
    if (plan->resident) {
        fputs("fits; every expert stays in memory\n", out);
    } else if (plan->cached) {
        fprintf(out, "fits; %" PRIu64 " of %" PRIu64 " experts in memory (%.0f %%), %.1f cycles\n", plan->slots_count,
                plan->experts_count, 100 * (double)plan->slots_count / (double)plan->experts_count, cycles(plan));
    } else {
        fprintf(out, "fits, but uncached: every expert is read from disk for every token\n");
    }
    fprintf(out, "Largest context in this budget: %" PRIu32 " tokens\n", plan->ctx_max_tokens);
}

void plan_print_short(const berth_plan *plan, FILE *out)
{
    char used[FORMAT_MAX];
    char budget[FORMAT_MAX];
    fprintf(out, "plan %s of %s (%s), context %" PRIu32, size_format(plan->plan_bytes, used),
            size_format(plan->budget_bytes, budget), plan->binding, plan->ctx_tokens);
    if (plan->experts_count > 0) {
        fprintf(out, ", %" PRIu64 " of %" PRIu64 " experts in memory", plan->slots_count, plan->experts_count);
    }
    fputc('\n', out);
}

void plan_json(struct json_out *json, const char *key, const berth_plan *plan)
{
    json_out_object(json, key);
    json_out_object(json, "lines");
    for (int i = 0; i < BERTH_LINE_COUNT; i++) {
        json_out_u64(json, berth_line_name((berth_line)i), plan->line_bytes[i]);
    }
    json_out_close(json);
    json_out_u64(json, "run_bytes", plan->run_bytes);
    json_out_u64(json, "open_bytes", plan->open_bytes);
    json_out_u64(json, "plan_bytes", plan->plan_bytes);
    json_out_u64(json, "budget_bytes", plan->budget_bytes);
    json_out_string(json, "binding", plan->binding);
    json_out_u64(json, "hard_floor_bytes", plan->hard_floor_bytes);
    json_out_u64(json, "floor_bytes", plan->floor_bytes);
    json_out_u64(json, "full_bytes", plan->full_bytes);
    json_out_u64(json, "cycle_bytes", plan->cycle_bytes);
    json_out_real(json, "cycles", cycles(plan));
    json_out_u64(json, "slots", plan->slots_count);
    json_out_u64(json, "experts", plan->experts_count);
    json_out_u64(json, "token_expert_bytes", plan->token_expert_bytes);
    json_out_u64(json, "experts_bytes", plan->experts_bytes);
    json_out_u64(json, "ctx", plan->ctx_tokens);
    json_out_u64(json, "ctx_max", plan->ctx_max_tokens);
    json_out_u64(json, "chunk", plan->chunk_tokens);
    json_out_u64(json, "threads", plan->threads);
    json_out_u64(json, "io_threads", plan->io_threads);
    json_out_string(json, "kv", plan_kv_name(plan->kv_type));
    json_out_bool(json, "fits", plan->fits);
    json_out_bool(json, "cached", plan->cached);
    json_out_bool(json, "resident", plan->resident);
    json_out_close(json);
}
