/* SPDX-License-Identifier: MIT
 * Nineteen answers that other estimators gave, and what was there (tests/golden/fit_errors.json): ours is within the
 * truth and is not theirs. One that cannot be put to us says why. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "berth.h"
#include "fit/llama_cpp.h"
#include "support/json_text.h"

static unsigned char memory[1 << 20] __attribute__((aligned(4096)));

static const struct tree *counted; /* whole configurations */
static const struct tree *models;

static double number_or(const struct tree *in, const char *key, double otherwise)
{
    const struct tree *found = tree_get(in, key);
    return found != NULL ? found->number : otherwise;
}

static const struct tree *find_config(const char *name)
{
    for (const struct tree *at = counted->first; at != NULL; at = at->next) {
        const struct tree *own = tree_get(at, "name");
        if (own != NULL && strcmp(own->text, name) == 0) {
            return tree_need(at, "config");
        }
    }
    return tree_need(models, name);
}

static void read_shape(const char *name, struct shape *out)
{
    const struct json_text *text = json_text(find_config(name));
    struct arena arena;
    berth_error err = {.message = ""};
    arena_carve(&arena, memory, sizeof memory);
    if (shape_read_json((struct str){text->ptr, text->bytes}, NULL, &arena, out, &err) != BERTH_OK || !out->is_known) {
        fail_msg("%s: %s%s", name, err.message, out->problem);
    }
}

static struct llama_request request_of(const struct tree *at)
{
    const struct tree *build = tree_get(at, "build");
    return (struct llama_request){.ctx_tokens = (uint64_t)number_or(at, "n_ctx", 0),
                                  .slots = (uint32_t)number_or(at, "n_seq", 0),
                                  .is_draft = number_or(at, "draft", 0) != 0,
                                  .is_swa_full = number_or(at, "swa_full", 0) != 0,
                                  .no_flash_attention = number_or(at, "no_flash_attn", 0) != 0,
                                  .build = build != NULL ? llama_build_find(build->text) : NULL,
                                  .k = cache_type_find("f16"),
                                  .v = cache_type_find("f16")};
}

static double tokens_per_s(const struct tree *at, const struct shape *shape, const struct shape_params *params)
{
    berth_speed_machine machine = BERTH_SPEED_MACHINE_INIT;
    berth_speed_work work = BERTH_SPEED_WORK_INIT;
    berth_speed speed = BERTH_SPEED_INIT;
    double share = (double)shape->number[SHAPE_TOP_K] / (double)shape->number[SHAPE_EXPERTS];
    double lookup = shape->tied ? 0 : (double)shape->embed_params;
    berth_speed_machine_class(BERTH_SPEED_GPU, &machine);
    machine.memory_bytes_per_s = tree_number(at, "gbs") * 1e9;
    work.trunk_bytes = ((double)(params->total - params->experts) - lookup + (double)params->experts * share) *
                       tree_number(at, "bits") / 8;
    work.layers = shape->count;
    work.moe_layers = shape->count;
    assert_int_equal(berth_speed_decode(&work, &machine, 0, NULL, &speed, NULL), BERTH_OK);
    return speed.tokens_per_s;
}

static double answer(const struct tree *at)
{
    const char *what = tree_need(at, "what")->text;
    struct shape shape;
    struct shape_params params = {.total = 0};
    struct llama_report report;
    struct llama_report twice;
    struct llama_request request = request_of(at);
    read_shape(tree_need(at, "model")->text, &shape);
    assert_true(llama_solve(&shape, &request, &report));
    double compute = (double)(report.host_compute_bytes + report.device_compute_bytes);
    if (strcmp(what, "kv") == 0) {
        return (double)report.kv_bytes;
    }
    if (strcmp(what, "state") == 0) {
        return (double)report.state_bytes;
    }
    if (strcmp(what, "compute") == 0) {
        return compute;
    }
    if (strcmp(what, "per_token") == 0) {
        request.ctx_tokens *= 2;
        assert_true(llama_solve(&shape, &request, &twice));
        return (double)(twice.kv_bytes - report.kv_bytes) / (double)report.part[LLAMA_PART_FULL].cells;
    }
    assert_true(shape_count_params(&shape, &params));
    if (strcmp(what, "speed") == 0) {
        return tokens_per_s(at, &shape, &params);
    }
    assert_string_equal(what, "total");
    return (double)params.total * tree_number(at, "bits") / 8 + (double)(report.kv_bytes + report.state_bytes) +
           compute;
}

static void none_is_ours(void **state)
{
    (void)state;
    const struct tree *errors = tree_read(BERTH_TESTS_DIR "/golden/fit_errors.json");
    uint32_t asked = 0;
    uint32_t wrong = 0;
    assert_int_equal(errors->count, 19);
    for (const struct tree *at = errors->first; at != NULL; at = at->next) {
        if (tree_get(at, "why") != NULL) {
            continue;
        }
        double got = answer(at);
        double said = tree_number(at, "said");
        bool theirs = fabs(got - said) <= 0.15 * said;
        if (theirs || got < tree_number(at, "low") || got > tree_number(at, "high")) {
            print_error("%s %s: %.6g, wanted %.6g to %.6g, not %.6g\n", tree_need(at, "tool")->text,
                        tree_need(at, "model")->text, got, tree_number(at, "low"), tree_number(at, "high"), said);
            wrong++;
        }
        asked++;
    }
    assert_int_equal(asked, 18);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    counted = tree_read(BERTH_TESTS_DIR "/golden/fit_params.json");
    models = tree_need(tree_read(BERTH_TESTS_DIR "/golden/fit_shapes.json"), "models");
    const struct CMUnitTest tests[] = {cmocka_unit_test(none_is_ours)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
