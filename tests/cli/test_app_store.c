/* SPDX-License-Identifier: MIT
 * The store: files of earlier versions, calibration by runs that are put in by hand, the choice of a model. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/find.h"
#include "store/schema.h"
#include "store/sqlite.h"

static char home[64];
static char file[96];

static int fresh_home(void **state)
{
    (void)state;
    snprintf(home, sizeof home, "/tmp/berth_store_XXXXXX");
    assert_non_null(mkdtemp(home));
    snprintf(file, sizeof file, "%s/berth.db", home);
    assert_int_equal(setenv("BERTH_HOME", home, 1), 0);
    return 0;
}

static int remove_home(void **state)
{
    (void)state;
    unlink(file);
    rmdir(home);
    return 0;
}

static struct store *open_store(void)
{
    char problem[STORE_PROBLEM_MAX];
    struct store *store = store_open(true, problem);
    if (store == NULL) {
        fail_msg("%s", problem);
    }
    return store;
}

static bool keep_first(void *user, const void *row)
{
    memcpy(user, row, sizeof(struct run_row));
    return false;
}

static bool count_one(void *user, const void *row)
{
    (void)row;
    ++*(int *)user;
    return true;
}

/* A file that the first version wrote: brought up to date, its rows kept. */
static void old_tables_are_brought_up_to_date(void **state)
{
    (void)state;
    const struct sqlite *sqlite = sqlite_load();
    sqlite3 *db = NULL;
    assert_int_equal(sqlite->open_v2(file, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL), SQLITE_OK);
    assert_int_equal(sqlite->exec(db, schema_steps[0], NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite->exec(db,
                                  "PRAGMA application_id = 1114797160; PRAGMA user_version = 1;"
                                  "INSERT INTO run (model, tps) VALUES ('old', 12.5);"
                                  "INSERT INTO folder VALUES ('/models')",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite->close_v2(db);
    for (int opening = 0; opening < 2; opening++) {
        struct store *store = open_store();
        struct run_row row;
        struct run_row found = {.tps = 0};
        assert_true(store_each(store, &run_table, "", NULL, &row, keep_first, &found));
        assert_string_equal(found.model, "old");
        assert_true(found.tps == 12.5 && found.work_bytes == 0);
        store_close(store);
    }
}

static void an_absent_store_is_not_made_for_reading(void **state)
{
    (void)state;
    char problem[STORE_PROBLEM_MAX];
    assert_null(store_open(false, problem));
    assert_int_equal(access(file, F_OK), -1);
    store_close(NULL);
}

/* ---- calibration ------------------------------------------------------------------------------------ */

static berth_speed_work some_work(void)
{
    berth_speed_work work = BERTH_SPEED_WORK_INIT;
    work.trunk_bytes = 6e8;
    work.expert_bytes = 3.5e8;
    work.experts_bytes = 16 * 3.5e8;
    work.macs = 1e9;
    work.layers = work.moe_layers = 10;
    work.experts = 64;
    work.top_k = 4;
    return work;
}

static struct speed_request some_request(const berth_speed_work *work)
{
    return (struct speed_request){
        .work = work,
        .fingerprint = "0123456789abcdef",
        .machine = "this box",
        .dtype = "Q8_0",
        .kv = "f16",
        .policy = "next-use",
        .isa = "avx2",
        .threads = 4,
        .slots = 640,
        .experts = 640,
        .resident = true,
        .memory_rate = 100e9,
        .read_rate = 2e9,
    };
}

static struct run_row some_run(const struct speed_request *request, double tps)
{
    struct run_row row = {.tps = tps,
                          .tokens = 64,
                          .slots = request->slots,
                          .experts = request->experts,
                          .layers = 10,
                          .threads = request->threads,
                          .hit = 1,
                          .work_bytes = 9.5e8,
                          .work_macs = 1e9};
    snprintf(row.machine, sizeof row.machine, "%s", request->machine);
    snprintf(row.fingerprint, sizeof row.fingerprint, "%s", request->fingerprint);
    snprintf(row.engine, sizeof row.engine, "berth");
    snprintf(row.kv, sizeof row.kv, "%s", request->kv);
    snprintf(row.policy, sizeof row.policy, "%s", request->policy);
    snprintf(row.isa, sizeof row.isa, "%s", request->isa);
    return row;
}

static double predicted(struct store *store, const struct speed_request *request, struct speed_answer *answer)
{
    assert_true(runs_predict(store, request, answer));
    assert_true(answer->decode.low <= answer->decode.tokens_per_s);
    assert_true(answer->decode.tokens_per_s <= answer->decode.high);
    return answer->decode.tokens_per_s;
}

static void runs_of_the_model_scale_its_predictions(void **state)
{
    (void)state;
    struct store *store = open_store();
    berth_speed_work work = some_work();
    struct speed_request request = some_request(&work);
    struct speed_answer answer;
    double law = predicted(store, &request, &answer);
    assert_true(fabs(law - 1 / (9.5e8 / 95e9 + 10 * 80e-6)) < 1e-6);
    assert_non_null(strstr(answer.basis, "the law alone"));
    const double measured[] = {law / 2, law / 2.2, law / 1.9}; /* the median counts */
    for (int i = 0; i < 3; i++) {
        struct run_row row = some_run(&request, measured[i]);
        assert_true(runs_add(store, &row));
    }
    assert_true(fabs(predicted(store, &request, &answer) - law / 2) < 1e-6);
    assert_int_equal(answer.model_runs, 3);
    assert_non_null(strstr(answer.basis, "3 runs of this model"));
    /* Another machine, other threads: nothing is known of them. */
    request.machine = "that box";
    assert_true(fabs(predicted(store, &request, &answer) - law) < 1e-6);
    request = some_request(&work);
    request.threads = 8;
    assert_true(fabs(predicted(store, &request, &answer) - 1 / (9.5e8 / 95e9 + 10 * 160e-6)) < 1e-6);
    /* Another model, or this one with another policy: the cost of a layer alone is taken over. */
    request = some_request(&work);
    request.policy = "lru";
    double other = predicted(store, &request, &answer);
    assert_int_equal(answer.model_runs, 0);
    assert_int_equal(answer.machine_runs, 3);
    assert_true(other < law && other > law / 2.5);
    assert_non_null(strstr(answer.basis, "of other models"));
    /* The range holds what was seen. */
    request = some_request(&work);
    struct run_row slow = some_run(&request, law / 4);
    assert_true(runs_add(store, &slow));
    predicted(store, &request, &answer);
    assert_true(answer.decode.low <= law / 4 + 1e-9 && answer.decode.high >= law / 1.9);
    store_close(store);
}

static void hit_rates_and_waiting_are_learnt(void **state)
{
    (void)state;
    struct store *store = open_store();
    berth_speed_work work = some_work();
    struct speed_request request = some_request(&work);
    struct speed_answer answer;
    request.resident = false;
    request.slots = 160;
    predicted(store, &request, &answer);
    assert_string_equal(answer.hit_basis, "generic");
    request.known_hit = 0.5;
    predicted(store, &request, &answer);
    assert_string_equal(answer.hit_basis, "ledger");
    assert_true(fabs(answer.hit.rate - 0.5) < 1e-9);
    struct run_row row = some_run(&request, 20);
    row.hit = 0.8;
    row.steady = 1;
    row.disk_s = 0.035; /* 3.5e8 x 0.2 / 2e9 */
    row.stall_s = 0.0175;
    assert_true(runs_add(store, &row));
    double again = predicted(store, &request, &answer);
    assert_string_equal(answer.hit_basis, "runs");
    assert_true(fabs(answer.hit.rate - 0.8) < 1e-9);
    assert_true(fabs(again - 20) < 1e-6); /* the same run is predicted exactly */
    request.slots = 320;
    predicted(store, &request, &answer);
    assert_true(answer.hit.rate > 0.8 && answer.hit.rate < 1);
    /* A run from an empty cache is predicted as it was seen, and a longer one as better than that. */
    request.slots = 40;
    row = some_run(&request, 20);
    row.hit = 0.5;
    row.tokens = 20;
    row.prompt = 4;
    assert_true(runs_add(store, &row));
    request.run_tokens = 20;
    request.prompt_tokens = 4;
    predicted(store, &request, &answer);
    assert_true(fabs(answer.hit.rate - 0.5) < 1e-9);
    request.run_tokens = 500;
    predicted(store, &request, &answer);
    assert_true(answer.hit.rate > 0.55 && answer.hit.rate < 0.95);
    /* From an empty cache every expert is a miss once. */
    request.resident = true;
    request.slots = 640;
    request.run_tokens = 4;
    request.prompt_tokens = 1;
    predicted(store, &request, &answer);
    assert_true(answer.hit.rate < 0.5);
    store_close(store);
}

/* The model's kernel streams what was measured with 16 threads; 4 of them go along a power of the threads. */
static void rates_follow_the_kernel_and_its_threads(void **state)
{
    (void)state;
    struct store *store = open_store();
    berth_speed_work work = some_work();
    struct speed_request request = some_request(&work);
    struct speed_answer answer;
    request.memory_rate = 0;
    struct machine_row machine = {.key = "this box", .cpus = 16, .memory_one = 10e9, .memory_all = 80e9};
    struct kernel_row kernel = {
        .machine = "this box", .dtype = "Q8_0", .stream = 96e9, .decode_macs = 1e12, .threads = 16};
    assert_true(store_put(store, &machine_table, &machine));
    predicted(store, &request, &answer);
    assert_true(answer.machine.memory_bytes_per_s == 80e9); /* no kernel was measured: plain reads */
    assert_true(store_put(store, &kernel_table, &kernel));
    predicted(store, &request, &answer);
    assert_true(fabs(answer.machine.memory_bytes_per_s / (96e9 * pow(0.25, 0.75)) - 1) < 1e-9); /* 8 = 16^0.75 */
    assert_true(fabs(answer.machine.macs_per_s / 0.25e12 - 1) < 1e-9);
    request.threads = 32;
    predicted(store, &request, &answer);
    assert_true(answer.machine.memory_bytes_per_s == 96e9);
    request.resident = false;
    request.slots = 160;
    request.has_hit = true;
    request.hit = 0.25;
    predicted(store, &request, &answer);
    assert_string_equal(answer.hit_basis, "given");
    assert_true(answer.hit.low == 0.25 && answer.hit.rate == 0.25 && answer.hit.high == 0.25);
    store_close(store);
}

static void small_requests_are_slower(void **state)
{
    (void)state;
    struct volume_row volume = {.read_rate = 2e9, .small_rate = 0.4e9, .request_bytes = 1 << 20};
    assert_true(fabs(machine_read_rate(&volume, 1 << 20) / 2e9 - 1) < 1e-9);
    assert_true(fabs(machine_read_rate(&volume, 16 << 10) / 0.4e9 - 1) < 1e-9);
    double between = machine_read_rate(&volume, 100e3);
    assert_true(between > 0.4e9 && between < 2e9);
    assert_true(machine_read_rate(&volume, 16 << 20) > 2e9 && machine_read_rate(&volume, 16 << 20) < 2.2e9);
    assert_true(machine_read_rate(&volume, 0) == 2e9); /* unknown */
    volume.small_rate = 3e9;
    assert_true(machine_read_rate(&volume, 4096) == 2e9);
    volume = (struct volume_row){0};
    assert_true(machine_read_rate(&volume, 4096) == 0);
}

static void unknown_rates_stay_unknown(void **state)
{
    (void)state;
    berth_speed_work work = some_work();
    struct speed_request request = some_request(&work);
    struct speed_answer answer;
    request.memory_rate = 0;
    assert_true(runs_predict(NULL, &request, &answer));
    assert_true(answer.decode.tokens_per_s == 0);
    assert_string_equal(answer.memory_basis, "unknown");
    assert_non_null(strstr(answer.basis, "bench machine"));
    struct store *store = open_store();
    struct machine_row machine = {.key = "this box", .memory_all = 50e9};
    assert_true(store_put(store, &machine_table, &machine));
    assert_true(runs_predict(store, &request, &answer));
    assert_true(answer.decode.tokens_per_s > 0);
    assert_string_equal(answer.memory_basis, "measured");
    store_close(store);
}

/* ---- the choice ------------------------------------------------------------------------------------- */

static void add_model(struct store *store, const char *alias, double gib, double full_gib)
{
    struct model_row row = {.bytes = 1, .experts = 64, .top_k = 4, .layers = 10, .moe_layers = 10, .ctx_max = 4096};
    snprintf(row.path, sizeof row.path, "/models/%s.gguf", alias);
    snprintf(row.alias, sizeof row.alias, "%s", alias);
    snprintf(row.family, sizeof row.family, "olmoe");
    row.tensor_bytes = (int64_t)(gib * 1073741824.0);
    row.full = (int64_t)(full_gib * 1073741824.0);
    row.hard_floor = row.floor = row.full / 8;
    row.fixed_bytes = row.full / 16;
    row.trunk_bytes = 1e6;
    row.expert_bytes = 1e6;
    row.experts_bytes = (double)row.full * 0.9;
    row.macs = 1e6;
    assert_true(store_put(store, &model_table, &row));
}

static void the_choice_follows_the_rule(void **state)
{
    (void)state;
    struct store *store = open_store();
    tool_machine here;
    assert_int_equal(tool_machine_read(&here, NULL), BERTH_OK);
    double ram = (double)here.ram_bytes / 1073741824.0;
    add_model(store, "small", 0.1 * ram, 0.2 * ram);
    add_model(store, "shared", 0.3 * ram, 0.5 * ram);
    add_model(store, "whole", 0.6 * ram, 0.8 * ram);
    add_model(store, "huge", 2 * ram, 3 * ram);
    uint64_t all = here.ram_bytes;
    static struct model_pick pick;
    assert_true(models_pick(store, "this box", all, 5, &pick));
    assert_int_equal(pick.reason, PICK_COEXIST);
    assert_string_equal(pick.row.alias, "shared");
    assert_true(models_set_default(store, "whole"));
    assert_true(models_pick(store, "this box", all, 5, &pick));
    assert_int_equal(pick.reason, PICK_DEFAULT);
    assert_string_equal(pick.row.alias, "whole");
    assert_true(models_set_default(store, "huge")); /* does not fit: the rule goes on */
    assert_true(models_pick(store, "this box", all / 4, 5, &pick));
    assert_string_equal(pick.row.alias, "small");
    /* Nothing fits: the largest that streams, if its speed is known to be usable. */
    assert_true(models_pick(store, "this box", all / 10, 5, &pick));
    assert_int_equal(pick.reason, PICK_NONE);
    struct machine_row machine = {.key = "this box", .memory_all = 50e9};
    assert_true(store_put(store, &machine_table, &machine));
    assert_true(models_pick(store, "this box", all / 10, 5, &pick)); /* the disk is still unknown */
    assert_int_equal(pick.reason, PICK_NONE);
    struct run_row row = {.read_rate = 2e9, .threads = (int64_t)here.cpus};
    char kernels[96];
    tool_kernels(kernels, sizeof kernels);
    kernels[strcspn(kernels, " ")] = '\0';
    snprintf(row.machine, sizeof row.machine, "this box");
    snprintf(row.engine, sizeof row.engine, "berth");
    snprintf(row.kv, sizeof row.kv, "f16");
    snprintf(row.policy, sizeof row.policy, "next-use");
    snprintf(row.isa, sizeof row.isa, "%.15s", kernels);
    assert_true(runs_add(store, &row));
    assert_true(models_pick(store, "this box", all / 10, 5, &pick));
    assert_int_equal(pick.reason, PICK_STREAMS);
    assert_string_equal(pick.row.alias, "whole");
    assert_true(models_pick(store, "this box", all / 10, 1e9, &pick)); /* none is that fast */
    assert_int_equal(pick.reason, PICK_NONE);
    store_close(store);
}

static void names_match_from_best_to_worst(void **state)
{
    (void)state;
    struct store *store = open_store();
    add_model(store, "acme/Small-Moe-8B", 1, 2);
    add_model(store, "acme/Small-Moe", 1, 2);
    add_model(store, "other/Large", 1, 2);
    int count = 0;
    assert_int_equal(models_find(store, "small-moe", count_one, &count), 1); /* the whole last part */
    assert_int_equal(models_find(store, "small", count_one, &count), 2);
    assert_int_equal(models_find(store, "OE-8", count_one, &count), 1);
    assert_int_equal(models_find(store, "acme/", count_one, &count), 2);
    assert_int_equal(models_find(store, "absent", count_one, &count), 0);
    assert_int_equal(models_find(store, "", count_one, &count), 0);
    assert_int_equal(count, 6);
    store_close(store);
}

int main(void)
{
    if (sqlite_load() == NULL) {
        puts("SKIP: libsqlite3.so.0 is not here");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(old_tables_are_brought_up_to_date, fresh_home, remove_home),
        cmocka_unit_test_setup_teardown(an_absent_store_is_not_made_for_reading, fresh_home, remove_home),
        cmocka_unit_test_setup_teardown(runs_of_the_model_scale_its_predictions, fresh_home, remove_home),
        cmocka_unit_test(small_requests_are_slower),
        cmocka_unit_test_setup_teardown(hit_rates_and_waiting_are_learnt, fresh_home, remove_home),
        cmocka_unit_test_setup_teardown(rates_follow_the_kernel_and_its_threads, fresh_home, remove_home),
        cmocka_unit_test_setup_teardown(unknown_rates_stay_unknown, fresh_home, remove_home),
        cmocka_unit_test_setup_teardown(the_choice_follows_the_rule, fresh_home, remove_home),
        cmocka_unit_test_setup_teardown(names_match_from_best_to_worst, fresh_home, remove_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
