/* SPDX-License-Identifier: MIT
 * Both spellings of config.json mean the same; defaults, scalings, hostile values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "compute/kernels.h"
#include "family/hparams.h"

static const struct rope_maths maths = {math_pow, math_log};

/* A checkpoint with just the tensors that reading hparams looks at. */
struct fake {
    struct checkpoint checkpoint;
    struct tensor tensors[8];
    struct os_file file;
};

static void fake_open(struct fake *fake, const char *config, const char *router)
{
    memset(fake, 0, sizeof *fake);
    fake->checkpoint.format = CHECKPOINT_SAFETENSORS;
    fake->checkpoint.config_json = str_from(config);
    fake->checkpoint.files = &fake->file;
    snprintf(fake->checkpoint.path, sizeof fake->checkpoint.path, "model");
    uint32_t count = 0;
    fake->tensors[count++] = (struct tensor){
        .name = STR("model.embed_tokens.weight"), .dims_count = 2, .dims = {384, 64}, .dtype = DTYPE_BF16};
    if (router != NULL) {
        fake->tensors[count++] = (struct tensor){.name = str_from(router), .dims_count = 2, .dims = {8, 64}};
    }
    fake->checkpoint.tensors = (struct tensor_dir){.items = fake->tensors, .count = count};
}

static const struct family *family_named(const char *name)
{
    for (uint32_t i = 0; i < families_count; i++) {
        if (strcmp(families[i]->name, name) == 0) {
            return families[i];
        }
    }
    fail_msg("no family %s", name);
    return NULL;
}

static berth_status read_config(const char *family, const char *config, const char *router, struct hparams *out,
                                berth_error *err)
{
    static struct fake fake;
    fake_open(&fake, config, router);
    return family_hparams(&fake.checkpoint, family_named(family), out, err);
}

#define SIZES                                                                                                      \
    "\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "      \
    "\"intermediate_size\": 96, \"vocab_size\": 384, \"max_position_embeddings\": 512, \"hidden_act\": \"silu\", " \
    "\"rms_norm_eps\": 1e-6"

static const struct {
    const char *family, *router, *published, *version5;
} dialects[] = {
    {"llama", NULL,
     "{" SIZES ", \"rope_theta\": 500000.0, \"torch_dtype\": \"bfloat16\", \"tie_word_embeddings\": false, "
     "\"rope_scaling\": {\"factor\": 8.0, "
     "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64, \"rope_type\": "
     "\"llama3\"}}",
     "{" SIZES ", \"dtype\": \"bfloat16\", \"tie_word_embeddings\": false, \"rope_parameters\": {\"factor\": 8.0, "
     "\"low_freq_factor\": 1.0, "
     "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64, \"rope_theta\": 500000.0, \"rope_type\": "
     "\"llama3\"}}"},
    {"llama", NULL, "{" SIZES ", \"rope_theta\": 10000, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
     "{" SIZES ", \"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.0, \"rope_theta\": 10000.0}}"},
    {"qwen3", NULL,
     "{" SIZES
     ", \"rope_theta\": 1000000, \"rope_scaling\": null, \"sliding_window\": null, \"use_sliding_window\": false}",
     "{" SIZES ", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1000000.0}}"},
    {"qwen3-moe", "model.layers.1.mlp.gate.weight",
     "{" SIZES ", \"num_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, \"norm_topk_prob\": "
     "true, \"rope_theta\": 1000000.0}",
     "{" SIZES
     ", \"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, \"norm_topk_prob\": true, "
     "\"rope_parameters\": {\"rope_theta\": 1000000.0, \"rope_type\": \"default\"}}"},
    {"mixtral", "model.layers.0.block_sparse_moe.gate.weight",
     "{" SIZES ", \"num_local_experts\": 8, \"num_experts_per_tok\": 2}",
     "{" SIZES ", \"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"rope_parameters\": {\"rope_theta\": "
     "1000000.0, \"rope_type\": \"default\"}}"},
};

static void dialect_published_equals_version5(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof dialects / sizeof dialects[0]; i++) {
        static struct hparams a;
        static struct hparams b;
        berth_error err = {0};
        assert_int_equal(read_config(dialects[i].family, dialects[i].published, dialects[i].router, &a, &err),
                         BERTH_OK);
        assert_int_equal(read_config(dialects[i].family, dialects[i].version5, dialects[i].router, &b, &err), BERTH_OK);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static void moe_layers_come_from_routers(void **state)
{
    (void)state;
    static struct hparams h;
    assert_int_equal(read_config("qwen3-moe", dialects[3].published, "model.layers.1.mlp.gate.weight", &h, NULL),
                     BERTH_OK);
    assert_int_equal(h.moe_layers, 1);
    assert_int_equal(h.layer_moe[0], 0);
    assert_int_equal(h.layer_moe[1], 1);
    assert_true(h.norm_topk);
    assert_int_equal(read_config("qwen3-moe", dialects[3].published, NULL, &h, NULL), BERTH_ERR_FORMAT);
}

static void defaults_are_the_family_s(void **state)
{
    (void)state;
    static struct hparams h;
    assert_int_equal(read_config("mixtral", dialects[4].published, dialects[4].router, &h, NULL), BERTH_OK);
    assert_true(h.rope_theta == 1000000.0f);
    assert_true(h.norm_topk);
    assert_int_equal(h.expert_ffn, 96);
    assert_int_equal(
        read_config(
            "llama",
            "{\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"intermediate_size\": 96}",
            NULL, &h, NULL),
        BERTH_OK);
    assert_int_equal(h.kv_heads, 4);
    assert_int_equal(h.head_dim, 16);
    assert_int_equal(h.vocab, 384);
    assert_true(h.norm_eps == 1e-6f);
}

/* What config.json leaves out is its class's default, as transformers reads it; null is what follows from the rest. */
static void left_out_numbers_are_the_class_s(void **state)
{
    (void)state;
    static struct hparams h;
#define FEW "\"hidden_size\": 256, \"num_hidden_layers\": 2, \"num_attention_heads\": 16"
    const char *router = dialects[4].router;
    assert_int_equal(read_config("mixtral", "{" FEW "}", router, &h, NULL), BERTH_OK);
    assert_int_equal(h.kv_heads, 8);
    assert_int_equal(h.head_dim, 16); /* by heads: the class has none */
    assert_int_equal(h.ffn, 14336);
    assert_int_equal(h.experts, 8);
    assert_int_equal(h.top_k, 2);
    assert_int_equal(h.ctx_max, 131072);
    assert_int_equal(h.vocab, 384); /* the embedding's rows */
    assert_int_equal(read_config("mixtral", "{" FEW ", \"num_key_value_heads\": null}", router, &h, NULL), BERTH_OK);
    assert_int_equal(h.kv_heads, 16);
    assert_int_equal(read_config("qwen3", "{" FEW ", \"num_key_value_heads\": 4}", NULL, &h, NULL), BERTH_OK);
    assert_int_equal(h.head_dim, 128);
    assert_int_equal(read_config("qwen3", "{" FEW ", \"num_key_value_heads\": 4, \"head_dim\": null}", NULL, &h, NULL),
                     BERTH_OK);
    assert_int_equal(h.head_dim, 16);
    assert_int_equal(read_config("llama", "{\"hidden_size\": 512, \"num_hidden_layers\": 2}", NULL, &h, NULL),
                     BERTH_OK);
    assert_int_equal(h.heads, 32);
    assert_int_equal(h.kv_heads, 32);
    /* Never the number of layers or the width. */
    assert_int_equal(read_config("llama", "{\"hidden_size\": 512}", NULL, &h, NULL), BERTH_ERR_FORMAT);
    assert_int_equal(read_config("llama", "{\"num_hidden_layers\": 2}", NULL, &h, NULL), BERTH_ERR_FORMAT);
}

static void sliding_window_needs_its_flag_for_qwen(void **state)
{
    (void)state;
    static struct hparams h;
    assert_int_equal(read_config("qwen3", "{" SIZES ", \"sliding_window\": 8}", NULL, &h, NULL), BERTH_OK);
    assert_int_equal(h.sliding_window, 0);
    assert_int_equal(read_config("qwen3",
                                 "{" SIZES
                                 ", \"sliding_window\": 8, \"use_sliding_window\": true, \"max_window_layers\": 1}",
                                 NULL, &h, NULL),
                     BERTH_OK);
    assert_int_equal(h.sliding_window, 8);
    assert_int_equal(h.layer_slides[0], 0);
    assert_int_equal(h.layer_slides[1], 1);
    assert_int_equal(
        read_config("qwen3",
                    "{" SIZES
                    ", \"sliding_window\": 8, \"use_sliding_window\": true, \"layer_types\": [\"sliding_attention\", "
                    "\"full_attention\"]}",
                    NULL, &h, NULL),
        BERTH_OK);
    assert_int_equal(h.layer_slides[0], 1);
    assert_int_equal(h.layer_slides[1], 0);
}

/* Values from the formula of arXiv 2309.00071, worked out separately in double precision (numpy) for dim 64, base
 * 10000, factor 4, original context 2048: inverse frequencies 0, 8, 16, 20, 31 and the attention factor 0.1 ln 4 + 1.
 */
static void yarn_frequencies_match_the_paper(void **state)
{
    (void)state;
    static struct hparams h;
    float got[32];
    assert_int_equal(
        read_config(
            "llama",
            "{\"hidden_size\": 64, \"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"intermediate_size\": 96, "
            "\"head_dim\": 64, \"rope_theta\": 10000, \"max_position_embeddings\": 8192, \"rope_scaling\": {\"type\": "
            "\"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 2048}}",
            NULL, &h, NULL),
        BERTH_OK);
    family_rope_frequencies(&h, &maths, got);
    for (int i = 0; i < 32;
         i++) { /* low 8, high 21: floor and ceil of 64 ln(2048 / (2 pi r)) / (2 ln 10000), r = 32 and 1 */
        double plain = pow(10000.0, -i / 32.0);
        double ramp = (i - 8.0) / (21.0 - 8.0);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        double want = plain / 4.0 * ramp + plain * (1 - ramp);
        assert_true(fabs((double)got[i] / want - 1) < 1e-6);
    }
    assert_true(fabs((double)family_rope_attention(&h, &maths) - 1.1386294361119891) < 1e-6);
}

static void hostile_configs_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{" SIZES ", \"num_hidden_layers\": -1}",
        "{" SIZES ", \"num_hidden_layers\": 1e30}",
        "{" SIZES ", \"num_hidden_layers\": \"two\"}",
        "{" SIZES ", \"hidden_size\": 64.5}",
        "{" SIZES ", \"num_key_value_heads\": 3}",
        "{" SIZES ", \"head_dim\": 12}",
        "{" SIZES ", \"rope_theta\": -5}",
        "{" SIZES ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}",
        "{" SIZES ", \"hidden_act\": \"gelu\"}",
        "{" SIZES ", \"quantization_config\": {\"bits\": 4}}",
        "{" SIZES ", \"partial_rotary_factor\": 0.2}",
        "{\"num_hidden_layers\": 2}",
        "{",
        "",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        static struct hparams h;
        berth_error err = {0};
        berth_status status = read_config("llama", bad[i], NULL, &h, &err);
        if (status == BERTH_OK) {
            fail_msg("accepted: %s", bad[i]);
        }
        assert_true(err.message[0] != '\0');
        assert_int_equal(err.status, status);
    }
}

/* A wrong type is never read as "not there": the error names file, key, what it is and what is wanted. */
static void wrong_types_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *more, *key, *got, *wanted;
    } rows[] = {
        {"\"norm_topk_prob\": \"true\"", "norm_topk_prob", "the string \"true\"", "true or false"},
        {"\"norm_topk_prob\": 1", "norm_topk_prob", "is 1", "true or false"},
        {"\"tie_word_embeddings\": \"false\"", "tie_word_embeddings", "\"false\"", "true or false"},
        {"\"use_sliding_window\": 0", "use_sliding_window", "is 0", "true or false"},
        {"\"rope_scaling\": \"linear\"", "rope_scaling", "\"linear\"", "an object"},
        {"\"rope_scaling\": [\"yarn\", 4]", "rope_scaling", "a list", "an object"},
        {"\"rope_parameters\": 10000", "rope_parameters", "is 10000", "an object"},
        {"\"rope_scaling\": {\"type\": 3, \"factor\": 2}", "rope_scaling.type", "is 3", "a string"},
        {"\"rope_scaling\": {\"type\": \"yarn\"}", "rope_scaling", "no \"factor\"", "a number"},
        {"\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": null}", "rope_scaling", "no \"factor\"",
         "a number"},
        {"\"rope_scaling\": {\"type\": \"linear\", \"factor\": \"2\"}", "rope_scaling.factor", "\"2\"", "a number"},
        {"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"beta_fast\": true}", "rope_scaling.beta_fast", "true",
         "a number"},
        {"\"rope_theta\": NaN", "rope_theta", "is NaN", "a number"},
        {"\"rope_theta\": {\"a\": {\"b\": [1]}}", "rope_theta", "an object", "a number"},
        {"\"partial_rotary_factor\": \"0.5\"", "partial_rotary_factor", "\"0.5\"", "a number"},
        {"\"hidden_act\": 7", "hidden_act", "is 7", "a string"},
        {"\"layer_types\": \"full_attention\"", "layer_types", "\"full_attention\"", "a list"},
        {"\"head_dim\": \"16\"", "head_dim", "\"16\"", "a number"},
        {"\"vocab_size\": Infinity", "vocab_size", "is Infinity", "a number"},
        {"\"quantization_config\": \"fp8\"", "quantization_config", "\"fp8\"", "an object"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static struct hparams h;
        char config[1024];
        berth_error err = {0};
        snprintf(config, sizeof config, "{" SIZES ", %s}", rows[i].more);
        if (read_config("qwen3", config, NULL, &h, &err) != BERTH_ERR_FORMAT ||
            strstr(err.message, rows[i].key) == NULL || strstr(err.message, rows[i].got) == NULL ||
            strstr(err.message, rows[i].wanted) == NULL) {
            fail_msg("%s: %s", rows[i].more, err.message);
        }
        assert_string_equal(err.path, "model/config.json");
    }
    /* null is absent, and nobody reads these. */
    static struct hparams h;
    assert_int_equal(read_config("qwen3",
                                 "{" SIZES ", \"rope_scaling\": null, \"norm_topk_prob\": null, \"initializer_range\": "
                                 "NaN, \"x\": [-Infinity]}",
                                 NULL, &h, NULL),
                     BERTH_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dialect_published_equals_version5), cmocka_unit_test(moe_layers_come_from_routers),
        cmocka_unit_test(defaults_are_the_family_s),         cmocka_unit_test(sliding_window_needs_its_flag_for_qwen),
        cmocka_unit_test(yarn_frequencies_match_the_paper),  cmocka_unit_test(hostile_configs_are_refused),
        cmocka_unit_test(wrong_types_are_refused),           cmocka_unit_test(left_out_numbers_are_the_class_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
