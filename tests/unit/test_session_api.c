/* SPDX-License-Identifier: MIT
 * The public handles: states, limits, refusals, and that the token path takes no heap memory. */
#define _GNU_SOURCE /* mkdtemp, utimensat */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "berth.h"
#include "support/budget.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GUARD_ALLOCATIONS 0
#else
#define GUARD_ALLOCATIONS 1
#endif

#if GUARD_ALLOCATIONS
#include <stdatomic.h>

/* glibc's own entry points; the program's definitions below take the place of the library's. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
static atomic_int armed;
static atomic_int caught;
static void note(void)
{
    if (atomic_load(&armed) != 0) {
        atomic_fetch_add(&caught, 1);
    }
}
void *malloc(size_t bytes)
{
    note();
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes)
{
    note();
    return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes)
{
    note();
    return __libc_realloc(old, bytes);
}
#endif

static const char *const model_path = BERTH_TESTS_DIR "/golden/qwen3-moe";

static berth_model_config small_config(void)
{
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.budget_bytes = TEST_ROOMY_BYTES;
    config.ctx_tokens = 48;
    config.chunk_tokens = 8;
    config.threads = 2;
    return config;
}

static berth_model *open_small(void)
{
    berth_model_config config = small_config();
    berth_model *model = NULL;
    berth_error err;
    assert_int_equal(berth_model_open(model_path, &config, &model, &err), BERTH_OK);
    return model;
}

static berth_session *new_session(berth_model *model)
{
    berth_session *session = NULL;
    assert_int_equal(berth_session_create(model, NULL, &session, NULL), BERTH_OK);
    return session;
}

static void session_is_one_at_a_time(void **state)
{
    (void)state;
    berth_model *model = open_small();
    berth_session *session = new_session(model);
    berth_session *second = NULL;
    berth_error err;
    assert_int_equal(berth_session_create(model, NULL, &second, &err), BERTH_ERR_STATE);
    assert_null(second);
    berth_session_free(session);
    second = new_session(model);
    assert_non_null(second);
    berth_model_close(model);
    berth_model_close(NULL);
    berth_session_free(NULL);
}

static void eval_bad_ids_and_full_context_change_nothing(void **state)
{
    (void)state;
    berth_model *model = open_small();
    berth_session *session = new_session(model);
    berth_error err;
    int32_t ids[49] = {1, 2, 3};
    assert_null(berth_session_logits(session));
    assert_int_equal(berth_session_eval(session, ids, 0, NULL, NULL, &err), BERTH_ERR_ARGUMENT);
    ids[2] = 384;
    assert_int_equal(berth_session_eval(session, ids, 3, NULL, NULL, &err), BERTH_ERR_ARGUMENT);
    ids[2] = -1;
    assert_int_equal(berth_session_eval(session, ids, 3, NULL, NULL, &err), BERTH_ERR_ARGUMENT);
    ids[2] = 3;
    assert_int_equal(berth_session_eval(session, ids, 49, NULL, NULL, &err), BERTH_ERR_LIMIT);
    assert_int_equal(berth_session_length(session), 0);
    assert_int_equal(berth_session_eval(session, ids, 48, NULL, NULL, &err), BERTH_OK);
    assert_int_equal(berth_session_length(session), 48);
    assert_int_equal(berth_session_eval(session, ids, 1, NULL, NULL, &err), BERTH_ERR_LIMIT);
    assert_non_null(strstr(err.message, "48"));
    berth_model_close(model);
}

static void truncate_then_eval_equals_a_fresh_run(void **state)
{
    (void)state;
    berth_model *model = open_small();
    berth_session *session = new_session(model);
    int32_t ids[20];
    float want[384];
    for (int i = 0; i < 20; i++) {
        ids[i] = (i * 31 + 7) % 384;
    }
    assert_int_equal(berth_session_eval(session, ids, 20, NULL, NULL, NULL), BERTH_OK);
    memcpy(want, berth_session_logits(session), sizeof want);
    assert_int_equal(berth_session_truncate(session, 21), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_session_truncate(session, 5), BERTH_OK);
    assert_null(berth_session_logits(session));
    int32_t other[4] = {9, 9, 9, 9};
    assert_int_equal(berth_session_eval(session, other, 4, NULL, NULL, NULL), BERTH_OK);
    assert_int_equal(berth_session_truncate(session, 5), BERTH_OK);
    assert_int_equal(berth_session_eval(session, ids + 5, 15, NULL, NULL, NULL), BERTH_OK);
    assert_memory_equal(want, berth_session_logits(session), sizeof want);
    berth_model_close(model);
}

struct canceller {
    berth_session *session;
    uint32_t layers;
};

static void cancel_on_layer(void *user, const berth_route *route)
{
    struct canceller *c = user;
    c->layers++;
    if (route->layer == 1 && route->position == 10) {
        berth_session_cancel(c->session);
    }
}

static void cancel_keeps_finished_chunks(void **state)
{
    (void)state;
    berth_model *model = open_small();
    struct canceller c = {0};
    berth_session_config config = BERTH_SESSION_CONFIG_INIT;
    config.route = cancel_on_layer;
    config.route_user = &c;
    berth_error err;
    int32_t ids[24] = {0};
    assert_int_equal(berth_session_create(model, &config, &c.session, &err), BERTH_OK);
    assert_int_equal(berth_session_eval(c.session, ids, 24, NULL, NULL, &err), BERTH_ERR_CANCELLED);
    assert_int_equal(berth_session_length(c.session), 8);
    assert_int_equal(berth_session_truncate(c.session, 0), BERTH_OK);
    assert_int_equal(berth_session_eval(c.session, ids, 4, NULL, NULL, &err), BERTH_OK);
    berth_session_cancel(c.session); /* nothing runs: the next eval does not care */
    assert_int_equal(berth_session_eval(c.session, ids, 4, NULL, NULL, &err), BERTH_OK);
    berth_model_close(model);
}

static void budget_one_byte_under_the_hard_floor_is_refused(void **state)
{
    (void)state;
    berth_model_config config = small_config();
    berth_plan plan = BERTH_PLAN_INIT;
    berth_error err;
    berth_model *model = NULL;
    assert_int_equal(berth_plan_memory(model_path, &config, &plan, &err), BERTH_OK);
    assert_true(plan.fits && plan.hard_floor_bytes <= plan.floor_bytes && plan.floor_bytes <= plan.full_bytes);
    assert_true(plan.plan_bytes <= plan.budget_bytes);
    config.budget_bytes = plan.hard_floor_bytes;
    assert_int_equal(berth_model_open(model_path, &config, &model, &err), BERTH_OK);
    berth_model_close(model);
    model = NULL;
    config.budget_bytes = plan.hard_floor_bytes - 1;
    assert_int_equal(berth_model_open(model_path, &config, &model, &err), BERTH_ERR_BUDGET);
    assert_null(model);
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)plan.hard_floor_bytes);
    assert_non_null(strstr(err.message, number));
    config.budget_bytes = 1;
    assert_int_equal(berth_model_open(model_path, &config, &model, &err), BERTH_ERR_BUDGET);
}

/* More budget never plans less cache, never exceeds the budget, and what it opens is what it planned. */
static void plan_is_monotone_and_within_budget(void **state)
{
    (void)state;
    berth_model_config config = small_config();
    config.chunk_tokens = 0;
    berth_plan plan = BERTH_PLAN_INIT;
    assert_int_equal(berth_plan_memory(model_path, &config, &plan, NULL), BERTH_OK);
    uint64_t step = (plan.full_bytes - plan.hard_floor_bytes) / 37 + 1;
    uint64_t slots = 0;
    for (uint64_t budget = plan.hard_floor_bytes; budget < plan.full_bytes + 4 * step; budget += step) {
        berth_plan at = BERTH_PLAN_INIT;
        config.budget_bytes = budget;
        assert_int_equal(berth_plan_memory(model_path, &config, &at, NULL), BERTH_OK);
        assert_true(at.fits && at.plan_bytes <= budget);
        uint64_t sum = 0;
        for (int line = 0; line < BERTH_LINE_DEVICE; line++) {
            sum += at.line_bytes[line];
        }
        assert_true(sum == at.run_bytes);
        slots = at.slots_count > slots ? at.slots_count : slots;
        berth_model *model = NULL;
        berth_plan opened = BERTH_PLAN_INIT;
        assert_int_equal(berth_model_open(model_path, &config, &model, NULL), BERTH_OK);
        assert_int_equal(berth_model_get_plan(model, &opened), BERTH_OK);
        assert_memory_equal(opened.line_bytes, at.line_bytes, sizeof at.line_bytes);
        berth_model_close(model);
    }
    assert_true(slots == plan.experts_count);
}

static void config_of_an_older_program_is_taken(void **state)
{
    (void)state;
    berth_model_config config = small_config();
    config.struct_size = offsetof(berth_model_config, isa);
    config.isa = (berth_isa)77; /* not part of the older struct: must not be read */
    berth_model *model = NULL;
    assert_int_equal(berth_model_open(model_path, &config, &model, NULL), BERTH_OK);
    berth_model_close(model);
    config.struct_size = 3;
    assert_int_equal(berth_model_open(model_path, &config, &model, NULL), BERTH_ERR_ARGUMENT);
}

static void two_models_in_one_process_are_independent(void **state)
{
    (void)state;
    berth_model *a = open_small();
    berth_model *b = open_small();
    berth_session *x = new_session(a);
    berth_session *y = new_session(b);
    int32_t ids[6] = {5, 6, 7, 8, 9, 10};
    assert_int_equal(berth_session_eval(x, ids, 3, NULL, NULL, NULL), BERTH_OK);
    assert_int_equal(berth_session_eval(y, ids, 6, NULL, NULL, NULL), BERTH_OK);
    assert_int_equal(berth_session_eval(x, ids + 3, 3, NULL, NULL, NULL), BERTH_OK);
    assert_memory_equal(berth_session_logits(x), berth_session_logits(y), 384 * sizeof(float));
    berth_model_close(a);
    berth_model_close(b);
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    size_t count = fread(bytes, 1, sizeof bytes, in);
    assert_true(count > 0 && count < sizeof bytes);
    assert_int_equal(fwrite(bytes, 1, count, out), count);
    assert_int_equal(fclose(in), 0);
    assert_int_equal(fclose(out), 0);
}

/* The last weight of the file is written again, with the bytes that it has: only the time of modification tells. */
static void model_file_written_to_stops_the_run(void **state)
{
    (void)state;
    char folder[] = "./berth-session-XXXXXX";
    char config_path[64], weights_path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(config_path, sizeof config_path, "%s/config.json", folder);
    snprintf(weights_path, sizeof weights_path, "%s/model.safetensors", folder);
    copy_file(BERTH_TESTS_DIR "/golden/qwen3-moe/config.json", config_path);
    copy_file(BERTH_TESTS_DIR "/golden/qwen3-moe/model.safetensors", weights_path);
    /* Written long ago: two writes in one tick of the clock would look like one. */
    struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, weights_path, times, 0), 0);
    berth_model_config config = small_config();
    berth_plan plan = BERTH_PLAN_INIT;
    berth_error err;
    assert_int_equal(berth_plan_memory(folder, &config, &plan, &err), BERTH_OK);
    config.budget_bytes = plan.hard_floor_bytes; /* every expert is read when it is used */
    berth_model *model = NULL;
    assert_int_equal(berth_model_open(folder, &config, &model, &err), BERTH_OK);
    berth_session *session = new_session(model);
    int32_t ids[4] = {1, 2, 3, 4};
    assert_int_equal(berth_session_eval(session, ids, 4, NULL, NULL, &err), BERTH_OK);
    FILE *file = fopen(weights_path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    int last = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    fputc(last, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(berth_session_eval(session, ids, 4, NULL, NULL, &err), BERTH_ERR_IO);
    assert_non_null(strstr(err.message, "changed while in use"));
    assert_non_null(strstr(err.path, "model.safetensors"));
    assert_int_equal(berth_session_length(session), 4);
    berth_model_close(model);
    remove(config_path);
    remove(weights_path);
    remove(folder);
}

static void token_path_takes_no_heap_memory(void **state)
{
    (void)state;
#if GUARD_ALLOCATIONS
    berth_model *model = open_small();
    berth_session *session = new_session(model);
    int32_t ids[20] = {1, 2, 3};
    atomic_store(&armed, 1);
    void *volatile probe = malloc(16); /* the guard itself works; volatile, or clang leaves the pair out */
    free(probe);
    assert_int_equal(atomic_exchange(&caught, 0), 1);
    berth_status status = berth_session_eval(session, ids, 20, NULL, NULL, NULL);
    for (int i = 0; i < 8 && status == BERTH_OK; i++) {
        status = berth_session_eval(session, ids, 1, NULL, NULL, NULL);
    }
    atomic_store(&armed, 0);
    assert_int_equal(status, BERTH_OK);
    assert_int_equal(atomic_load(&caught), 0);
    berth_model_close(model);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_is_one_at_a_time),
        cmocka_unit_test(eval_bad_ids_and_full_context_change_nothing),
        cmocka_unit_test(truncate_then_eval_equals_a_fresh_run),
        cmocka_unit_test(cancel_keeps_finished_chunks),
        cmocka_unit_test(budget_one_byte_under_the_hard_floor_is_refused),
        cmocka_unit_test(plan_is_monotone_and_within_budget),
        cmocka_unit_test(config_of_an_older_program_is_taken),
        cmocka_unit_test(two_models_in_one_process_are_independent),
        cmocka_unit_test(model_file_written_to_stops_the_run),
        cmocka_unit_test(token_path_takes_no_heap_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
