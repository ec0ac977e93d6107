/* SPDX-License-Identifier: MIT
 *
 * Checkpoints whose scales lie in tensors of their own (tests/golden/packed, made by tools/packed-fixtures): run in
 * place and converted, against the logits of the float32 checkpoint that numpy dequantised them to.
 */
#include "convert_help.h"

#include <math.h>

#include "berth.h"
#include "support/budget.h"

static const char *const models[] = {"llama-mlx4",     "llama-fp8",     "mixtral-mlx4",
                                     "mixtral-fp8",    "olmoe-mlx4",    "olmoe-fp8",
                                     "qwen3-moe-mlx4", "qwen3-moe-fp8", "qwen3-moe-mlx-mixed"};
static const int32_t ids[] = {5, 9, 101, 44, 17, 90, 3, 88, 120, 71, 6, 127};
enum { MODELS = sizeof models / sizeof models[0], IDS = sizeof ids / sizeof ids[0], VOCAB = 128 };

struct seen {
    const float *want;
    double worst, largest;
    uint32_t positions;
};

static void on_logits(void *user, uint32_t position, const float *logits, uint32_t vocab)
{
    struct seen *seen = user;
    assert_int_equal(vocab, VOCAB);
    for (uint32_t i = 0; i < vocab; i++) {
        double want = (double)seen->want[position * VOCAB + i];
        double error = fabs((double)logits[i] - want);
        seen->worst = error <= seen->worst ? seen->worst : error;
        seen->largest = fabs(want) > seen->largest ? fabs(want) : seen->largest;
    }
    seen->positions++;
}

/* Largest logit error of the model at `path`. */
static double run(const char *path, const float *want, uint64_t budget_bytes)
{
    berth_error err;
    berth_model *model = NULL;
    berth_session *session = NULL;
    struct seen seen = {.want = want};
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.kv_type = BERTH_KV_F32;
    config.budget_bytes = budget_bytes;
    config.ctx_tokens = 64;
    help_ok(berth_model_open(path, &config, &model, &err), &err);
    help_ok(berth_session_create(model, NULL, &session, &err), &err);
    help_ok(berth_session_eval(session, ids, IDS, on_logits, &seen, &err), &err);
    berth_session_free(session);
    berth_model_close(model);
    assert_int_equal(seen.positions, IDS);
    assert_true(seen.largest > 1); /* logits of a model, not of zeros */
    return seen.worst;
}

static void packed_models_give_the_logits_of_their_values(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODELS; m++) {
        char folder[600];
        char path[640];
        size_t bytes;
        snprintf(folder, sizeof folder, "%s/packed/%s", GOLDEN_DIR, models[m]);
        snprintf(path, sizeof path, "%s/logits.f32", folder);
        float *want = (float *)(void *)help_read_file(path, &bytes);
        assert_int_equal(bytes, IDS * VOCAB * sizeof *want);
        double in_place = run(folder, want, TEST_ROOMY_BYTES);
        struct convert_config plain = {.type = DTYPE_F32, .threads = 2};
        struct convert_config small = {.type = DTYPE_F32, .threads = 1, .buffer_bytes = 256 * 1024};
        berth_error error;
        help_ok(convert_run(folder, help_path("a.gguf"), &plain, false, &error), &error);
        help_ok(convert_run(folder, help_path("b.gguf"), &small, false, &error), &error);
        help_same_files(help_path("a.gguf"), help_path("b.gguf"));
        double converted = run(help_path("a.gguf"), want, TEST_ROOMY_BYTES);
        if (!(in_place <= 1e-3 && converted <= 1e-3)) {
            fail_msg("%s: largest logit error %g in place, %g converted", models[m], in_place, converted);
        }
        free(want);
        help_clear();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_models_give_the_logits_of_their_values),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
