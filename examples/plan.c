/* SPDX-License-Identifier: MIT
 * plan MODEL [BUDGET_MIB [MEMORY_GBPS [DISK_GBPS]]]: what a model would need, the largest context, and the speed to
 * expect, without loading it. The two rates, in 10^9 bytes a second, are what `berth bench machine` measures.
 *
 *     cc plan.c -o plan $(pkg-config --cflags --libs berth)
 */
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

static const double mib = 1048576.0;

static int fail(const berth_error *err)
{
    fprintf(stderr, "plan: %s%s%s\n", err->path, err->path[0] != '\0' ? ": " : "", err->message);
    return 1;
}

static void print_memory(const berth_plan *plan)
{
    for (int line = 0; line < BERTH_LINE_COUNT; line++) {
        if (plan->line_bytes[line] > 0) {
            printf("%-16s %10.1f MiB\n", berth_line_name((berth_line)line), (double)plan->line_bytes[line] / mib);
        }
    }
    printf("%-16s %10.1f MiB of %.1f (%s)\n", "needs", (double)plan->plan_bytes / mib, (double)plan->budget_bytes / mib,
           plan->binding);
    if (!plan->fits) {
        printf("%-16s does not fit: it needs at least %.1f MiB\n", "verdict", (double)plan->hard_floor_bytes / mib);
    } else if (plan->resident) {
        printf("%-16s fits\n", "verdict");
    } else {
        printf("%-16s %s: %llu of %llu experts in memory\n", "verdict", plan->cached ? "streams" : "runs uncached",
               (unsigned long long)plan->slots_count, (unsigned long long)plan->experts_count);
    }
    printf("%-16s %u tokens (%u planned)\n", "largest context", (unsigned)plan->ctx_max_tokens,
           (unsigned)plan->ctx_tokens);
}

/* One token with the whole context before it. */
static berth_status print_speed(const char *path, const berth_plan *plan, double memory_gbps, double disk_gbps,
                                berth_error *err)
{
    berth_speed_work work = BERTH_SPEED_WORK_INIT;
    berth_status status = berth_speed_work_of(path, plan, &work, err);
    if (status != BERTH_OK) {
        return status;
    }
    berth_speed_machine machine = BERTH_SPEED_MACHINE_INIT;
    berth_speed_machine_class(BERTH_SPEED_MEASURED, &machine);
    machine.memory_bytes_per_s = memory_gbps * 1e9; /* 0: unknown */
    machine.read_bytes_per_s = disk_gbps * 1e9;
    double share = plan->experts_count > 0 ? (double)plan->slots_count / (double)plan->experts_count : 1;
    berth_speed_hit hit = berth_speed_hit_of(share, 0);
    berth_speed speed = BERTH_SPEED_INIT;
    status = berth_speed_decode(&work, &machine, plan->ctx_tokens, plan->resident ? NULL : &hit, &speed, err);
    if (status == BERTH_OK && speed.tokens_per_s > 0) {
        printf("%-16s %.1f tokens a second (%.1f to %.1f), limited by %s\n", "speed", speed.tokens_per_s, speed.low,
               speed.high, speed.binding);
    } else if (status == BERTH_OK) {
        printf("%-16s unknown: give the rates of memory%s\n", "speed", plan->resident ? "" : " and disk");
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: plan MODEL [BUDGET_MIB [MEMORY_GBPS [DISK_GBPS]]]\n");
        return 2;
    }
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.budget_bytes = argc > 2 ? strtoull(argv[2], NULL, 10) << 20 : 0; /* 0: what the machine can give */
    berth_plan plan = BERTH_PLAN_INIT;
    berth_error err;
    if (berth_plan_memory(argv[1], &config, &plan, &err) != BERTH_OK) {
        return fail(&err);
    }
    print_memory(&plan);
    if (!plan.fits) {
        return 3;
    }
    double memory_gbps = argc > 3 ? strtod(argv[3], NULL) : 0;
    double disk_gbps = argc > 4 ? strtod(argv[4], NULL) : 0;
    if (print_speed(argv[1], &plan, memory_gbps, disk_gbps, &err) != BERTH_OK) {
        return fail(&err);
    }
    return 0;
}
