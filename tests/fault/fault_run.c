/* SPDX-License-Identifier: MIT
 *
 * fault_run MODEL: opens a model and evaluates tokens while the Nth read or the Nth reservation fails, N upward until a
 * run completes. Every failure must come back as the right status with a text that says where, and leave nothing behind
 * (run under ASan to see leaks). Short and interrupted reads must not show at all.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "session/model.h"
#include "support/golden.h"

enum fault { FAULT_NONE, FAULT_EIO, FAULT_END, FAULT_SHORT, FAULT_EINTR, FAULT_RESERVE };

struct injector {
    enum fault fault;
    long at; /* the operation that fails, from 1 */
    bool persistent;
    atomic_long reads, reserves, fired;
};

static bool due(struct injector *injector, long number)
{
    bool now = injector->persistent ? number >= injector->at : number == injector->at;
    if (now) {
        atomic_fetch_add(&injector->fired, 1);
    }
    return now;
}

static int64_t read_at(void *user, int fd, void *buffer, size_t bytes, uint64_t offset)
{
    struct injector *injector = user;
    long number = atomic_fetch_add(&injector->reads, 1) + 1;
    if (injector->fault == FAULT_EIO && due(injector, number)) {
        return -EIO;
    }
    if (injector->fault == FAULT_END && due(injector, number)) {
        return 0; /* as after truncation */
    }
    if (injector->fault == FAULT_EINTR && number % 3 != 0) {
        return -EINTR;
    }
    if (injector->fault == FAULT_SHORT && bytes > 512 && number % 2 == 0) {
        bytes = bytes / 2 / 512 * 512;
    }
    ssize_t got = pread(fd, buffer, bytes, (off_t)offset);
    return got < 0 ? -errno : got;
}

static bool may_reserve(void *user, uint64_t bytes)
{
    (void)bytes;
    struct injector *injector = user;
    long number = atomic_fetch_add(&injector->reserves, 1) + 1;
    return !(injector->fault == FAULT_RESERVE && due(injector, number));
}

static void on_logits(void *user, uint32_t position, const float *logits, uint32_t vocab)
{
    (void)position;
    uint64_t *hash = user;
    *hash = hash_bytes(*hash, logits, vocab * sizeof *logits);
}

/* Opens, evaluates 12 tokens, and 6 more one by one. A failure while evaluating must leave the session usable: the same
 * tokens then give the right logits once the fault is over. */
static berth_status run_once(const char *path, uint64_t budget, struct injector *injector, uint64_t *hash,
                             berth_error *err)
{
    struct os_hooks hooks = {injector, read_at, may_reserve};
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.ctx_tokens = 32;
    config.chunk_tokens = 4;
    config.threads = 2;
    config.io_threads = 2;
    config.budget_bytes = budget;
    berth_model *model = NULL;
    berth_session *session = NULL;
    TRY(model_open_hooked(path, &config, &hooks, &model, err));
    berth_status status = berth_session_create(model, NULL, &session, err);
    int32_t ids[18];
    for (int i = 0; i < 18; i++) {
        ids[i] = (i * 37 + 5) % 384;
    }
    *hash = HASH_SEED;
    if (status == BERTH_OK) {
        status = berth_session_eval(session, ids, 12, on_logits, hash, err);
    }
    for (int i = 12; i < 18 && status == BERTH_OK; i++) {
        status = berth_session_eval(session, ids + i, 1, on_logits, hash, err);
    }
    if (status != BERTH_OK &&
        session != NULL) { /* the fault is over: the same handle must still give the right answer */
        enum fault fault = injector->fault;
        injector->fault = FAULT_NONE;
        uint64_t again = HASH_SEED;
        berth_error ignored;
        CHECK(berth_session_truncate(session, 0) == BERTH_OK, "truncate");
        CHECK(berth_session_eval(session, ids, 12, on_logits, &again, &ignored) == BERTH_OK, "after a fault: %s",
              ignored.message);
        for (int i = 12; i < 18; i++) {
            CHECK(berth_session_eval(session, ids + i, 1, on_logits, &again, &ignored) == BERTH_OK, "%s",
                  ignored.message);
        }
        *hash = again;
        injector->fault = fault;
    }
    berth_model_close(model);
    return status;
}

static void sweep(const char *path, uint64_t budget, enum fault fault, const char *name, bool persistent, uint64_t want)
{
    long failures = 0;
    long in_session = 0;
    for (long at = 1; at < 100000; at++) {
        struct injector injector = {.fault = fault, .at = at, .persistent = persistent};
        uint64_t hash = 0;
        berth_error err = {0};
        berth_status status = run_once(path, budget, &injector, &hash, &err);
        if (status == BERTH_OK) {
            CHECK(atomic_load(&injector.fired) == 0, "%s %ld was swallowed", name, at);
            CHECK(hash == want, "%s: hash", name);
            break;
        }
        failures++;
        berth_status expected = fault == FAULT_RESERVE ? BERTH_ERR_MEMORY : BERTH_ERR_IO;
        CHECK(atomic_load(&injector.fired) > 0, "%s %ld: failed without a fault: %s", name, at, err.message);
        CHECK(status == expected && err.status == status && err.message[0] != '\0', "%s %ld: status %d, message \"%s\"",
              name, at, status, err.message);
        CHECK(fault == FAULT_RESERVE || err.path[0] != '\0', "%s %ld: no path in \"%s\"", name, at, err.message);
        if (hash != 0) {
            in_session++;
            CHECK(hash == want, "%s %ld: wrong logits after a fault", name, at);
            CHECK(err.layer >= 0 && err.expert >= 0, "%s %ld: no layer or expert in \"%s\"", name, at, err.message);
        }
    }
    CHECK(failures > 0, "%s never failed", name);
    printf("%s%s: %ld failures reported, %ld of them while evaluating\n", name, persistent ? " (persistent)" : "",
           failures, in_session);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: fault_run MODEL");
    berth_error err = {0};
    berth_plan plan = BERTH_PLAN_INIT;
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.ctx_tokens = 32;
    config.chunk_tokens = 4;
    config.threads = 2;
    config.io_threads = 2;
    config.budget_bytes = 1ull << 30;
    CHECK(berth_plan_memory(argv[1], &config, &plan, &err) == BERTH_OK, "%s", err.message);
    uint64_t budgets[2] = {plan.hard_floor_bytes, plan.floor_bytes};
    for (int b = 0; b < 2; b++) {
        struct injector none = {.fault = FAULT_NONE};
        struct injector shorts = {.fault = FAULT_SHORT};
        struct injector interrupts = {.fault = FAULT_EINTR};
        uint64_t want = 0;
        uint64_t hash = 0;
        CHECK(run_once(argv[1], budgets[b], &none, &want, &err) == BERTH_OK, "%s", err.message);
        CHECK(run_once(argv[1], budgets[b], &shorts, &hash, &err) == BERTH_OK && hash == want, "short reads: %s",
              err.message);
        CHECK(run_once(argv[1], budgets[b], &interrupts, &hash, &err) == BERTH_OK && hash == want, "EINTR: %s",
              err.message);
        printf("budget %llu: %ld reads, %ld reservations\n", (unsigned long long)budgets[b], atomic_load(&none.reads),
               atomic_load(&none.reserves));
        sweep(argv[1], budgets[b], FAULT_EIO, "EIO", false, want);
        sweep(argv[1], budgets[b], FAULT_EIO, "EIO", true, want);
        sweep(argv[1], budgets[b], FAULT_END, "end of file", true, want);
        sweep(argv[1], budgets[b], FAULT_RESERVE, "reservation", false, want);
    }
    return 0;
}
