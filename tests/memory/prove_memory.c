/* SPDX-License-Identifier: MIT
 *
 * The memory proof of one model: prove_memory TOOLS BERTH MODEL WORK [USER]
 *
 * Four budgets (hard floor, one and a half cycles, half of all experts, everything resident). For each, `berth run` in
 * a real memory cgroup with cold files: (a) no limit: peak <= plan <= budget, and peak >= 0.9 plan (from 256 MiB;
 * within 8 MiB below it) once all slots were filled; (b) limit = budget: success, no limit hit, no kill, no major fault
 * after opening. One byte under the hard floor is refused with exit status 3. USER: the command runs as that user
 * (needs root). Exit 77: no usable memory cgroup, or USER cannot reach the folder.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "model/json.h"
#include "os/cpu.h"
#include "support/golden.h"

enum { PROMPT_TOKENS = 96, ANSWER_TOKENS = 8, CHUNK_TOKENS = 64, SKIP = 77 };

static const char *tools, *berth, *model, *work, *user;

BASE_PRINTF(1, 2) static int shell(const char *format, ...)
{
    char command[8192];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static uint64_t number(const char *file, const char *a, const char *b)
{
    char path[1024];
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", work, file);
    char *text = test_read_file(path, &bytes);
    struct json value;
    uint64_t out = 0;
    const char *keys[] = {a, b, NULL};
    CHECK(json_find((struct str){text, bytes}, keys, &value) && json_token_u64(&value.token, &out),
          "%s: no number %s.%s in: %.400s", file, a, b != NULL ? b : "", text);
    free(text);
    return out;
}

static const char *common_flags(char *buffer, size_t cap)
{
    snprintf(buffer, cap, "--ctx %d --chunk %d --threads 2", PROMPT_TOKENS + ANSWER_TOKENS, CHUNK_TOKENS);
    return buffer;
}

static void ids(char *buffer, size_t cap)
{
    size_t at = 0;
    for (int i = 0; i < PROMPT_TOKENS; i++) {
        at += (size_t)snprintf(buffer + at, cap - at, "%s%u", i > 0 ? "," : "",
                               (unsigned)(((unsigned)i * 2654435761u >> 9) % 8000u));
    }
}

/* One run; returns run_capped's status. Its report and the run's JSON lie in the work folder. */
static int run_capped(uint64_t limit, uint64_t budget)
{
    char flags[256];
    char prompt[2048];
    char who[128] = "";
    char cap[64] = "";
    ids(prompt, sizeof prompt);
    if (user != NULL) {
        snprintf(who, sizeof who, "--user %s", user);
    }
    if (limit > 0) {
        snprintf(cap, sizeof cap, "--limit %llu", (unsigned long long)limit);
    }
    return shell(
        "%s/run_capped %s %s --copies %s --evict %s --report %s/report.json --stdout %s/run.json --timeout 300 -- "
        "%s run %s --ids %s -n %d %s --budget %llu --json --quiet",
        tools, who, cap, work, model, work, work, berth, model, prompt, ANSWER_TOKENS,
        common_flags(flags, sizeof flags), (unsigned long long)budget);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static void prove(const char *name, uint64_t budget)
{
    int status = run_capped(0, budget);
    if (status == SKIP) {
        exit(SKIP);
    }
    CHECK(status == 0 && number("report.json", "rc", NULL) == 0, "%s: run (a) failed", name);
    uint64_t peak = number("report.json", "peak_bytes", NULL);
    uint64_t plan = number("run.json", "plan", "plan_bytes");
    uint64_t used = number("run.json", "experts", "slots_used");
    uint64_t slots = number("run.json", "plan", "slots");
    printf("%s: budget %.2f MiB, plan %.2f, peak %.2f (%.1f %%), slots %llu of %llu", name, mib(budget), mib(plan),
           mib(peak), 100.0 * (double)peak / (double)plan, (unsigned long long)used, (unsigned long long)slots);
    CHECK(plan <= budget, "%s: plan %llu over budget %llu", name, (unsigned long long)plan, (unsigned long long)budget);
    CHECK(peak <= plan, "%s: peak %llu over plan %llu", name, (unsigned long long)peak, (unsigned long long)plan);
    /* What the plan counts for charges in batches goes unused on CPUs that the run never visits. */
    uint64_t slack = (plan >= 256ull << 20 ? plan / 10 : 8ull << 20) + os_cpu_online() * (256ull << 10);
    CHECK(used < slots || plan < slack || peak >= plan - slack, "%s: peak %llu is far under the plan %llu", name,
          (unsigned long long)peak, (unsigned long long)plan);
    CHECK(run_capped(budget, budget) == 0, "%s: run (b)", name);
    uint64_t hits = number("report.json", "limit_hits", NULL);
    uint64_t kills = number("report.json", "oom_kills", NULL);
    uint64_t faults = number("run.json", "compute", "major_faults");
    printf("; capped: rc %llu, limit hits %llu, kills %llu, major faults after open %llu\n",
           (unsigned long long)number("report.json", "rc", NULL), (unsigned long long)hits, (unsigned long long)kills,
           (unsigned long long)faults);
    CHECK(number("report.json", "rc", NULL) == 0 && hits == 0 && kills == 0 && faults == 0, "%s: run (b)", name);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 5, "usage: prove_memory TOOLS BERTH MODEL WORK [USER]");
    setvbuf(stdout, NULL, _IOLBF, 0);
    tools = argv[1];
    berth = argv[2];
    model = argv[3];
    work = argv[4];
    user = argc > 5 ? argv[5] : NULL;
    char flags[256];
    common_flags(flags, sizeof flags);
    CHECK(shell("mkdir -p %s && chmod 777 %s", work, work) == 0, "cannot make %s", work);
    /* A checkout under a closed home, /root for one, is out of another user's reach. */
    if (user != NULL &&
        shell("p=$(cd %s && pwd -P); while [ \"$p\" != / ]; do case $(stat -c %%A \"$p\") in *[xt]) ;; "
              "*) echo \"SKIP: %s cannot reach the build: $p is closed to other users\"; exit %d ;; esac; "
              "p=$(dirname \"$p\"); done",
              work, user, SKIP) == SKIP) {
        return SKIP;
    }
    CHECK(shell("%s fit %s %s --budget 1TiB --json > %s/fit.json", berth, model, flags, work) == 0, "fit");
    uint64_t hard = number("fit.json", "plan", "hard_floor_bytes");
    uint64_t floor = number("fit.json", "plan", "floor_bytes");
    uint64_t cycle = number("fit.json", "plan", "cycle_bytes");
    uint64_t full = number("fit.json", "plan", "full_bytes");
    prove("hard floor", hard);
    prove("1.5 cycles", floor + cycle / 2);
    prove("half", floor + (full - floor) / 2);
    prove("all", full);
    int refused = shell("%s run %s --ids 1 -n 1 %s --budget %llu --quiet 2> %s/refused.txt", berth, model, flags,
                        (unsigned long long)(hard - 1), work);
    CHECK(refused == 3, "one byte under the hard floor: exit %d, want 3", refused);
    printf("one byte under the hard floor (%llu): refused with exit 3\n", (unsigned long long)(hard - 1));
    return 0;
}
