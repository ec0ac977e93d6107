/* SPDX-License-Identifier: MIT
 * Random checkpoints: valid in every shape and type, the same for the same seed, with the spread that was asked for. */
#include "convert_help.h"

#include <math.h>

static void make(const char *path, const struct convert_random *spec, uint32_t threads, uint64_t buffer_bytes)
{
    berth_error error;
    struct convert_config config = {.threads = threads, .buffer_bytes = buffer_bytes};
    help_ok(convert_write_random(path, spec, &config, false, &error), &error);
}

static void check_values(const struct opened *opened, const struct tensor *tensor)
{
    float *values = help_tensor_floats(opened, tensor);
    uint64_t count = tensor_elems(tensor);
    double sum = 0;
    double squares = 0;
    bool norm = str_ends(tensor->name, STR("norm.weight"));
    for (uint64_t i = 0; i < count; i++) {
        assert_true(isfinite(values[i]));
        if (norm) {
            assert_true(values[i] == 1.0f);
        }
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    if (!norm) {
        double deviation = sqrt(squares / (double)count);
        assert_true(deviation > 1e-4 && deviation < 1.2);
        assert_true(fabs(sum / (double)count) < 6 * deviation / sqrt((double)count)); /* six standard errors */
    }
    free(values);
}

static void random_every_type_is_a_valid_model(void **state)
{
    (void)state;
    static const enum dtype types[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16,   DTYPE_Q8_0, DTYPE_Q4_0,
                                       DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_IQ4_NL, DTYPE_MXFP4};
    for (uint32_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        struct convert_random spec = {.shape = "tiny", .type = types[t], .seed = 7, .spread = true};
        struct opened opened;
        struct hparams hparams;
        const struct family *family;
        berth_error error;
        make(help_path("r.gguf"), &spec, 2, 0);
        help_open(&opened, help_path("r.gguf"));
        help_ok(family_read(&opened.checkpoint, &family, &hparams, &error), &error);
        assert_string_equal(family->name, "qwen3-moe");
        assert_int_equal(hparams.layers, 2);
        assert_int_equal(hparams.vocab, 256);
        assert_true(hparams.norm_topk);
        for (uint32_t i = 0; i < opened.checkpoint.tensors.count; i++) {
            check_values(&opened, &opened.checkpoint.tensors.items[i]);
        }
        const struct tensor *head = tensor_find(&opened.checkpoint.tensors, STR("output.weight"));
        assert_non_null(head);
        assert_int_equal(head->dtype, types[t] >= DTYPE_Q4_0 ? DTYPE_Q8_0 : types[t]); /* Q6_K, in rows of 64 */
        help_close(&opened);
        help_clear();
    }
}

/* Every shape with one layer of few experts (the embeddings alone are large): only shapes of at most 200 MB here. */
static void random_shapes_of_every_family(void **state)
{
    (void)state;
    static const char *const names[] = {"pocket", "olmoe-1b-7b", "mixtral-8x7b"};
    static const char *const expect[] = {"qwen3-moe", "olmoe", "mixtral"};
    static const uint32_t experts[] = {64, 8, 2};
    for (uint32_t i = 0; i < 3; i++) {
        struct convert_random spec = {
            .shape = names[i], .type = DTYPE_Q8_0, .layers = 1, .experts = experts[i], .seed = i};
        struct opened opened;
        struct hparams hparams;
        const struct family *family;
        berth_error error;
        if (i == 2) {
            spec.layers = 1;
        }
        make(help_path("r.gguf"), &spec, 0, 0);
        help_open(&opened, help_path("r.gguf"));
        help_ok(family_read(&opened.checkpoint, &family, &hparams, &error), &error);
        assert_string_equal(family->name, expect[i]);
        assert_int_equal(hparams.layers, 1);
        assert_int_equal(hparams.experts, experts[i]);
        assert_int_equal(tensor_find(&opened.checkpoint.tensors, STR("output.weight")) == NULL, i == 0);
        help_close(&opened);
        help_clear();
    }
    assert_string_equal(convert_random_shape(0), "tiny");
    uint32_t count = 0;
    while (convert_random_shape(count) != NULL) {
        count++;
    }
    assert_true(count >= 8);
}

static void random_depends_on_the_seed_alone(void **state)
{
    (void)state;
    struct convert_random spec = {.shape = "pocket", .type = DTYPE_Q8_0, .layers = 1, .seed = 3};
    make(help_path("a.gguf"), &spec, 1, 0);
    make(help_path("b.gguf"), &spec, 4, 256 * 1024);
    help_same_files(help_path("a.gguf"), help_path("b.gguf"));
    spec.seed = 4;
    make(help_path("c.gguf"), &spec, 1, 0);
    size_t bytes;
    size_t same_bytes;
    unsigned char *a = help_read_file(help_path("a.gguf"), &bytes);
    unsigned char *c = help_read_file(help_path("c.gguf"), &same_bytes);
    assert_int_equal(bytes, same_bytes);
    uint64_t equal = 0;
    for (size_t i = 0; i < bytes; i++) {
        equal += a[i] == c[i] ? 1u : 0u;
    }
    assert_true(equal < bytes / 4); /* zeros of padding, norms, scales */
    free(a);
    free(c);
    help_clear();
}

/* Block formats come from palettes: the deviation asked for, a mean of about zero, and rows that differ. */
static void random_mixes_have_the_spread_of_their_shape(void **state)
{
    (void)state;
    static const char *const recipes[] = {"q4_k_m", "q2_k", "q3_k_m", "q5_k_s", "iq4_xs", "mxfp4", "q5_1"};
    for (size_t r = 0; r < sizeof recipes / sizeof recipes[0]; r++) {
        struct convert_random spec = {.shape = "pocket",
                                      .recipe = convert_recipe_find(str_from(recipes[r])),
                                      .layers = 1,
                                      .experts = 8,
                                      .seed = 5};
        struct opened opened;
        make(help_path("r.gguf"), &spec, 2, 0);
        help_open(&opened, help_path("r.gguf"));
        const struct tensor *gate = tensor_find(&opened.checkpoint.tensors, STR("blk.0.ffn_gate_exps.weight"));
        assert_non_null(gate);
        assert_int_equal(gate->dtype, r == 5 ? DTYPE_MXFP4 : spec.recipe->base);
        float *values = help_tensor_floats(&opened, gate);
        uint64_t count = tensor_elems(gate);
        double squares = 0;
        double sum = 0;
        for (uint64_t i = 0; i < count; i++) {
            squares += (double)values[i] * (double)values[i];
            sum += (double)values[i];
        }
        double deviation = sqrt(squares / (double)count);
        assert_true(deviation > 0.9 / 16 && deviation < 1.1 / 16); /* 1 / sqrt(256) */
        assert_true(fabs(sum / (double)count) < 0.02 / 16);
        assert_memory_not_equal(values, values + 256, 256 * sizeof *values);
        free(values);
        help_close(&opened);
        help_clear();
    }
}

static void random_refuses_what_is_no_model(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config config = {.threads = 1};
    struct convert_random spec = {.shape = "no-such", .type = DTYPE_F16};
    assert_int_equal(convert_write_random(help_path("r.gguf"), &spec, &config, false, &error), BERTH_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "mixtral-8x7b"));
    spec = (struct convert_random){.shape = "tiny", .type = DTYPE_IQ2_XXS}; /* no writer */
    assert_int_equal(convert_write_random(help_path("r.gguf"), &spec, &config, false, &error), BERTH_ERR_ARGUMENT);
    spec = (struct convert_random){.shape = "tiny", .type = DTYPE_F16, .experts = 1}; /* top-2 */
    assert_int_equal(convert_write_random(help_path("r.gguf"), &spec, &config, false, &error), BERTH_ERR_ARGUMENT);
    spec = (struct convert_random){.shape = "tiny", .type = DTYPE_F16, .layers = LAYERS_MAX + 1};
    assert_int_equal(convert_write_random(help_path("r.gguf"), &spec, &config, false, &error), BERTH_ERR_ARGUMENT);
    assert_int_equal(help_count_files(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_every_type_is_a_valid_model),
        cmocka_unit_test(random_shapes_of_every_family),
        cmocka_unit_test(random_depends_on_the_seed_alone),
        cmocka_unit_test(random_mixes_have_the_spread_of_their_shape),
        cmocka_unit_test(random_refuses_what_is_no_model),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
