/* SPDX-License-Identifier: MIT
 * Absurd configurations: an error that names the field, or a labelled lower bound; never NaN, never a negative size. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "berth.h"

static const char base[] =
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"head_dim\":32,\"max_position_embeddings\":128";

static unsigned char memory[4 << 20] __attribute__((aligned(16)));

static berth_status parse(const char *config_json, const char *kv_json, berth_fit_config *config, berth_error *err)
{
    berth_fit_source source = BERTH_FIT_SOURCE_INIT;
    source.config_json = (berth_text){config_json, strlen(config_json)};
    source.kv_config_json = (berth_text){kv_json, kv_json != NULL ? strlen(kv_json) : 0};
    assert_true(berth_fit_config_bytes(&source) <= sizeof memory);
    *config = BERTH_FIT_CONFIG_INIT;
    return berth_fit_config_parse(&source, memory, berth_fit_config_bytes(&source), config, err);
}

static void check_report(const berth_fit_report *report)
{
    const double values[] = {report->context_tokens, report->max_safe_context, report->weights_bytes,
                             report->kv_bytes,       report->transient_bytes,  report->reserve_bytes,
                             report->total_bytes,    report->usable_bytes};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_true(values[i] >= 0 && isfinite(values[i]));
    }
    assert_true(report->predicted_decode_tps >= 0);
}

static berth_status solve(const berth_fit_config *config, berth_fit_report *report, berth_error *err)
{
    berth_fit_request request = BERTH_FIT_REQUEST_INIT;
    *report = BERTH_FIT_REPORT_INIT;
    request.weights_bytes = 1e9;
    request.experts_bytes = 5e8;
    request.context_tokens = 100;
    request.machine = (berth_sku_machine){.ram_bytes = 8e9, .bandwidth_gbs = 100};
    berth_status status = berth_fit_solve(config, &request, report, err);
    if (status == BERTH_OK) {
        check_report(report);
    }
    return status;
}

struct row {
    const char *extra; /* members behind the base's; the last of equal keys wins */
    berth_status parse, solve;
    const char *names; /* in the message */
};

static void test_numbers(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"", BERTH_OK, BERTH_OK, NULL},
        {",\"head_dim\":-32", BERTH_OK, BERTH_ERR_FORMAT, "head_dim"},
        {",\"num_key_value_heads\":-1", BERTH_OK, BERTH_ERR_FORMAT, "num_key_value_heads"},
        {",\"num_hidden_layers\":-2", BERTH_ERR_LIMIT, 0, "num_hidden_layers"},
        {",\"num_hidden_layers\":1e30", BERTH_ERR_LIMIT, 0, "num_hidden_layers"},
        {",\"model_type\":\"x\",\"num_hidden_layers\":1e30", BERTH_OK, BERTH_ERR_FORMAT, "num_hidden_layers"},
        {",\"model_type\":\"x\",\"num_hidden_layers\":-3", BERTH_OK, BERTH_ERR_FORMAT, "num_hidden_layers"},
        {",\"model_type\":\"x\",\"num_hidden_layers\":4097", BERTH_OK, BERTH_ERR_FORMAT, "num_hidden_layers"},
        {",\"head_dim\":1e30", BERTH_OK, BERTH_ERR_FORMAT, "head_dim"},
        {",\"head_dim\":1e999", BERTH_ERR_FORMAT, 0, "head_dim"},
        {",\"head_dim\":\"32\"", BERTH_ERR_FORMAT, 0, "a string"},
        {",\"head_dim\":[32]", BERTH_ERR_FORMAT, 0, "a list"},
        {",\"head_dim\":{\"x\":1}", BERTH_ERR_FORMAT, 0, "an object"},
        {",\"head_dim\":true", BERTH_ERR_FORMAT, 0, "a truth value"},
        {",\"max_position_embeddings\":-5", BERTH_OK, BERTH_OK, NULL},
        {",\"max_position_embeddings\":1e30", BERTH_OK, BERTH_ERR_FORMAT, "max_position_embeddings"},
        {",\"max_position_embeddings\":null", BERTH_OK, BERTH_OK, NULL},
        {",\"sliding_window\":-1", BERTH_OK, BERTH_ERR_FORMAT, "sliding_window"},
        {",\"num_attention_heads\":0,\"head_dim\":null", BERTH_OK, BERTH_ERR_FORMAT, "head_dim"},
        {",\"enable_moe_block\":1", BERTH_ERR_FORMAT, 0, "enable_moe_block"},
        {",\"enable_moe_block\":true,\"num_experts\":-4", BERTH_OK, BERTH_ERR_FORMAT, "num_experts"},
        {",\"enable_moe_block\":true,\"num_experts\":4,\"num_experts_per_tok\":8", BERTH_OK, BERTH_OK, NULL},
        {",\"enable_moe_block\":true,\"num_experts\":0.001,\"num_experts_per_tok\":999999", BERTH_OK, BERTH_OK, NULL},
        {",\"layer_types\":\"full_attention\"", BERTH_ERR_FORMAT, 0, "layer_types"},
        {",\"layer_types\":[1,2]", BERTH_ERR_FORMAT, 0, "layer_types"},
        {",\"layer_types\":[\"linear_attention\",\"linear_attention\"],\"linear_num_value_heads\":-4", BERTH_OK,
         BERTH_ERR_FORMAT, "linear_num_value_heads"},
        {",\"text_config\":7", BERTH_ERR_FORMAT, 0, "text_config"},
        {",\"text_config\":{}", BERTH_OK, BERTH_OK, NULL}, /* no layers: the lower bound */
        {",\"rope_parameters\":3,\"model_type\":\"x\"", BERTH_ERR_FORMAT, 0, "rope_parameters"},
        {",\"eos_token_id\":\"</s>\"", BERTH_ERR_FORMAT, 0, "eos_token_id"},
        {",\"model_type\":\"glm_moe_dsa\"", BERTH_ERR_FORMAT, 0, "glm_moe_dsa"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        berth_fit_config config;
        berth_fit_report report;
        berth_error err = {.message = ""};
        snprintf(text, sizeof text, "%s%s}", base, rows[i].extra);
        berth_status status = parse(text, NULL, &config, &err);
        if (status != rows[i].parse) {
            fail_msg("%s: parse gave %d (%s)", rows[i].extra, status, err.message);
        }
        if (status == BERTH_OK) {
            status = solve(&config, &report, &err);
            if (status != rows[i].solve) {
                fail_msg("%s: solve gave %d (%s)", rows[i].extra, status, err.message);
            }
            assert_int_equal(status == BERTH_OK && report.lower_bound, strstr(rows[i].extra, "text_config") != NULL);
        }
        if (rows[i].names != NULL && strstr(err.message, rows[i].names) == NULL) {
            fail_msg("%s: \"%s\" does not name %s", rows[i].extra, err.message, rows[i].names);
        }
    }
}

static void test_documents(void **state)
{
    (void)state;
    static const struct {
        const char *config, *kv;
        berth_status status;
    } rows[] = {
        {"", NULL, BERTH_ERR_FORMAT},
        {"[]", NULL, BERTH_ERR_FORMAT},
        {"7", NULL, BERTH_ERR_FORMAT},
        {"{", NULL, BERTH_ERR_FORMAT},
        {"{} x", NULL, BERTH_ERR_FORMAT},
        {"{}", "{}", BERTH_ERR_FORMAT},
        {"{}", "[1]", BERTH_ERR_FORMAT},
        {"{}", "[{\"layer_idx\":0,\"bits\":4}]", BERTH_ERR_FORMAT},
        {"{}", "[{\"layer_idx\":0,\"bits\":\"4\",\"group_size\":64}]", BERTH_ERR_FORMAT},
        {"{}", "[", BERTH_ERR_FORMAT},
        {"{}", "[]", BERTH_OK},
        {"{}", "[{\"layer_idx\":0,\"bits\":4,\"group_size\":64}]", BERTH_OK},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        berth_fit_config config;
        berth_error err;
        berth_status status = parse(rows[i].config, rows[i].kv, &config, &err);
        if (status != rows[i].status) {
            fail_msg("'%s' '%s': %d (%s)", rows[i].config, rows[i].kv != NULL ? rows[i].kv : "", status, err.message);
        }
        assert_int_equal(status == BERTH_OK && config.has_kv_quant, status == BERTH_OK && rows[i].kv != NULL);
    }
}

static void test_memory(void **state)
{
    (void)state;
    berth_fit_source source = BERTH_FIT_SOURCE_INIT;
    berth_fit_config config = BERTH_FIT_CONFIG_INIT;
    berth_error err;
    char text[1024];
    snprintf(text, sizeof text, "{\"model_type\":\"llama\",\"num_hidden_layers\":%d}", BERTH_FIT_LAYERS_MAX);
    source.config_json = (berth_text){text, strlen(text)};
    assert_int_equal(berth_fit_config_parse(&source, memory, 1000, &config, &err), BERTH_ERR_LIMIT);
    assert_int_equal(config.layer_types_count, 0);
    assert_int_equal(berth_fit_config_parse(&source, memory, berth_fit_config_bytes(&source), &config, &err), BERTH_OK);
    assert_int_equal(config.layer_types_count, BERTH_FIT_LAYERS_MAX);
    assert_int_equal(berth_fit_config_parse(&source, memory + 1, 100000, &config, &err), BERTH_ERR_ARGUMENT);
}

static void test_requests(void **state)
{
    (void)state;
    char text[1024];
    snprintf(text, sizeof text, "%s}", base);
    berth_fit_config config;
    berth_fit_report report = BERTH_FIT_REPORT_INIT;
    berth_error err;
    assert_int_equal(parse(text, NULL, &config, &err), BERTH_OK);
    static const double bad[] = {-1, (double)NAN, (double)INFINITY, 1e30};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (int field = 0; field < 6; field++) {
            berth_fit_request request = BERTH_FIT_REQUEST_INIT;
            double *const fields[] = {&request.weights_bytes, &request.experts_bytes,     &request.context_tokens,
                                      &request.budget_bytes,  &request.machine.ram_bytes, &request.chunk_tokens};
            *fields[field] = bad[i];
            assert_int_equal(berth_fit_solve(&config, &request, &report, &err), BERTH_ERR_ARGUMENT);
        }
    }
    berth_fit_request request = BERTH_FIT_REQUEST_INIT;
    assert_int_equal(berth_fit_solve(&config, &request, &report, &err), BERTH_OK); /* all zero: nothing over nothing */
    check_report(&report);
    request.kv.bits = 4;
    request.kv.group_size = -1e-9;
    assert_int_equal(berth_fit_solve(&config, &request, &report, &err), BERTH_ERR_FORMAT);
    berth_admission_result result = BERTH_ADMISSION_RESULT_INIT;
    assert_int_equal(berth_fit_admit(BERTH_ADMISSION_CAP, -1, 1, 1, &result, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_fit_admit(BERTH_ADMISSION_CAP, 1.5, 1, 1, &result, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_fit_admit((berth_admission)9, 1, 1, 1, &result, &err), BERTH_ERR_ARGUMENT);
}

/* Small enough to count its bytes by hand. */
#define MOE                                                                                                          \
    "{\"model_type\":\"mixtral\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":2,"              \
    "\"num_key_value_heads\":1,\"head_dim\":32,\"vocab_size\":128,\"intermediate_size\":32,\"num_local_experts\":4," \
    "\"num_experts_per_tok\":2,\"tie_word_embeddings\":true"
#define BLOCK MOE ",\"quantization\":"

static berth_status weigh(const char *text, uint32_t bits, berth_fit_weights *weights, berth_error *err)
{
    *weights = (berth_fit_weights)BERTH_FIT_WEIGHTS_INIT;
    *err = (berth_error){.message = ""};
    return berth_fit_weights_mlx((berth_text){text, strlen(text)}, bits, 32, weights, err);
}

static void test_mlx_weights(void **state)
{
    (void)state;
    berth_fit_weights weights;
    berth_error err;
    /* A layer: q 64 x 64, k and v 64 x 32 each, o 64 x 64, a router 64 x 4, experts 4 x 3 x 64 x 32, two norms. */
    const double experts = 2 * 4 * 3 * 64 * 32;
    const double matrices = 128 * 64 + 2 * (64 * 64 + 2 * 64 * 32 + 64 * 64 + 64 * 4) + experts;
    const double vectors = 2 * 2 * 64 + 64;
    static const char four[] = BLOCK "{\"group_size\":64,\"bits\":4,\"mode\":\"affine\",\"x\":false}}";
    assert_int_equal(weigh(four, 0, &weights, &err), BERTH_OK);
    assert_true(weights.weights_bytes == matrices * 4.5 / 8 + vectors * 2);
    assert_true(weights.experts_bytes == experts * 4.5 / 8);
    assert_int_equal(weights.files, 0);
    assert_int_equal(weigh(MOE "}", 8, &weights, &err), BERTH_OK);
    assert_true(weights.weights_bytes == matrices * 9 / 8 + vectors * 2);

    static const struct {
        const char *text;
        uint32_t bits;
        berth_status status;
        const char *names;
    } rows[] = {
        {MOE "}", 0, BERTH_ERR_NOT_FOUND, "quantization"},
        {BLOCK "null}", 0, BERTH_ERR_NOT_FOUND, "quantization"},
        {MOE ",\"quantization_config\":{\"bits\":4,\"group_size\":128}}", 0, BERTH_ERR_NOT_FOUND, "quantization"},
        {BLOCK "[4]}", 0, BERTH_ERR_FORMAT, "quantization"},
        {BLOCK "{\"bits\":4}}", 0, BERTH_ERR_FORMAT, "group_size"},
        {BLOCK "{\"bits\":\"4\",\"group_size\":64}}", 0, BERTH_ERR_FORMAT, "bits"},
        {BLOCK "{\"bits\":0,\"group_size\":64}}", 0, BERTH_ERR_ARGUMENT, "0 bits"},
        {BLOCK "{\"bits\":4,\"group_size\":0}}", 0, BERTH_ERR_ARGUMENT, "groups of 0"},
        {BLOCK "{\"bits\":4,\"group_size\":32,\"mode\":\"mxfp4\"}}", 0, BERTH_ERR_UNSUPPORTED, "mode"},
        {MOE "}", 16, BERTH_ERR_ARGUMENT, "16 bits"},
        {MOE ",\"vocab_size\":null}", 4, BERTH_ERR_FORMAT, "vocab_size"},
        {MOE ",\"hidden_size\":[64]}", 4, BERTH_ERR_FORMAT, "hidden_size"},
        {"{\"model_type\":\"new\",\"num_hidden_layers\":2}", 4, BERTH_ERR_UNSUPPORTED, "new"},
        {"[]", 4, BERTH_ERR_FORMAT, "object"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        berth_status status = weigh(rows[i].text, rows[i].bits, &weights, &err);
        if (status != rows[i].status || strstr(err.message, rows[i].names) == NULL) {
            fail_msg("%s: %d, %s", rows[i].text, status, err.message);
        }
        assert_true(weights.weights_bytes == 0);
    }
    assert_int_equal(berth_fit_weights_mlx((berth_text){NULL, 0}, 4, 64, &weights, &err), BERTH_ERR_ARGUMENT);
    weights.struct_size = 0;
    assert_int_equal(berth_fit_weights_mlx((berth_text){four, 3}, 4, 64, &weights, &err), BERTH_ERR_ARGUMENT);
}

static bool stop(void *user, const char *what, uint64_t done_bytes, uint64_t total_bytes)
{
    (void)what;
    assert_true(done_bytes <= total_bytes);
    return ++*(int *)user < 2;
}

static void test_tensors(void **state)
{
    (void)state;
    static const char data[] = "abc";
    uint32_t work[4];
    char digest[65];
    berth_error err;
    int calls = 0;
    berth_tensor_item items[2] = {{.name = "a", .data = data, .data_bytes = 3},
                                  {.name = "caf\xc3\xa9", .data = data, .data_bytes = 3}};
    berth_tensor_set set = BERTH_TENSOR_SET_INIT;
    set.items = items;
    set.count = 2;
    set.work = work;
    assert_int_equal(berth_tensor_fingerprint(&set, digest, &err), BERTH_ERR_UNSUPPORTED);
    assert_string_equal(err.object, "caf\xc3\xa9");
    set.order = BERTH_TENSOR_ORDER_BYTES;
    assert_int_equal(berth_tensor_fingerprint(&set, digest, &err), BERTH_OK);
    assert_string_equal(digest, "545c3bf032f1885acd3726e8abaf2fdb024126d82957ff0fd137e09fbe6e533a");
    set.progress = stop;
    set.progress_user = &calls;
    assert_int_equal(berth_tensor_fingerprint(&set, digest, &err), BERTH_ERR_CANCELLED);
    items[1].name = "\xff";
    assert_int_equal(berth_tensor_fingerprint(&set, digest, &err), BERTH_ERR_UNSUPPORTED);
    items[1].name = "b";
    items[1].data = NULL;
    assert_int_equal(berth_tensor_fingerprint(&set, digest, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(berth_tensor_dtype("BF16"), 12);
    assert_int_equal(berth_tensor_dtype("float32"), 10);
    assert_int_equal(berth_tensor_dtype("F8_E4M3"), -1);
    assert_int_equal(berth_tensor_dtype(NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_documents),
                                       cmocka_unit_test(test_memory),  cmocka_unit_test(test_requests),
                                       cmocka_unit_test(test_tensors), cmocka_unit_test(test_mlx_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
