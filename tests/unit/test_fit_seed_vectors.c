/* SPDX-License-Identifier: MIT
 * Every vector about the memory contract and the fingerprints (tests/golden/seed_fit_vectors.json): exact. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/sha256.h"
#include "support/fit_config.h"

static const struct tree *models, *constants, *vectors;

static const struct tree *section(const char *name, size_t count)
{
    const struct tree *found = tree_need(vectors, name);
    assert_int_equal(found->count, count);
    return found->first;
}

#define FAIL_AT(vector, ...)                                       \
    do {                                                           \
        print_error("vector %s: ", tree_need(vector, "id")->text); \
        print_error(__VA_ARGS__);                                  \
        print_error("\n");                                         \
        fail();                                                    \
    } while (0)
#define CHECK_NUMBER(vector, got, wanted)                                                         \
    do {                                                                                          \
        double got_ = (got);                                                                      \
        double wanted_ = (wanted);                                                                \
        if (!(got_ == wanted_)) {                                                                 \
            FAIL_AT(vector, "line %d: %s is %.17g, wanted %.17g", __LINE__, #got, got_, wanted_); \
        }                                                                                         \
    } while (0)
#define CHECK_TEXT(vector, got, wanted)                                                             \
    do {                                                                                            \
        const char *got_ = (got);                                                                   \
        const char *wanted_ = (wanted);                                                             \
        if (strcmp(got_, wanted_) != 0) {                                                           \
            FAIL_AT(vector, "line %d: %s is \"%s\", wanted \"%s\"", __LINE__, #got, got_, wanted_); \
        }                                                                                           \
    } while (0)

static berth_fit_config config_of(const struct tree *in)
{
    const struct tree *model = tree_get(in, "model");
    return config_from(model != NULL ? tree_need(models, model->text) : tree_need(in, "text"));
}

static double number_or(const struct tree *in, const char *key, double otherwise)
{
    const struct tree *found = tree_get(in, key);
    return found != NULL ? found->number : otherwise;
}

static berth_kv_scheme scheme_of(const struct tree *in)
{
    berth_kv_scheme scheme = {.bits = number_or(in, "kv_bits", 0), .group_size = number_or(in, "group", 0)};
    const struct tree *rows = tree_get(in, "kv_config");
    if (rows != NULL) {
        scheme.layers = kv_rows(rows, &scheme.layers_count);
    }
    return scheme;
}

static berth_fit_request request_of(const struct tree *in)
{
    berth_fit_request request = BERTH_FIT_REQUEST_INIT;
    request.weights_bytes = tree_number(in, "weightsBytes");
    request.experts_bytes = number_or(in, "experts", number_or(in, "expertsBytes", 0));
    request.context_tokens = number_or(in, "contextTokens", 0);
    request.chunk_tokens = number_or(in, "chunk", 0);
    request.machine.ram_bytes = number_or(in, "ram", 0);
    request.machine.bandwidth_gbs = number_or(in, "bw", BERTH_FIT_DEFAULT_BANDWIDTH_GBS);
    request.has_budget = tree_get(in, "budget") != NULL;
    request.budget_bytes = number_or(in, "budget", 0);
    const struct tree *scheme = tree_get(in, "scheme");
    if (scheme != NULL) {
        request.kv = scheme_of(scheme);
    }
    return request;
}

/* Decode speed to three places at the documents' reference point. */
static void check_speed(const struct tree *vector, const berth_fit_config *config, const char *wanted)
{
    berth_fit_request request = BERTH_FIT_REQUEST_INIT;
    berth_fit_report report = BERTH_FIT_REPORT_INIT;
    berth_error err;
    char text[64];
    request.weights_bytes = 1e9;
    request.experts_bytes = 5e8;
    request.context_tokens = 4096;
    request.machine.bandwidth_gbs = 400;
    if (berth_fit_solve(config, &request, &report, &err) != BERTH_OK) {
        FAIL_AT(vector, "%s", err.message);
    }
    snprintf(text, sizeof text, "%.3f", report.predicted_decode_tps);
    CHECK_TEXT(vector, text, wanted);
}

static void check_cost(const struct tree *vector, const berth_fit_config *config, const struct tree *wanted)
{
    berth_kv_cost cost;
    berth_kv_cost_of(config, NULL, &cost);
    CHECK_NUMBER(vector, cost.full_bytes_per_token, tree_number(wanted, "fullBytesPerToken"));
    CHECK_NUMBER(vector, cost.sliding_bytes_per_token, tree_number(wanted, "slidingBytesPerToken"));
    CHECK_NUMBER(vector, cost.state_bytes, tree_number(wanted, "linearStateBytes"));
    CHECK_NUMBER(vector, cost.window_tokens, tree_number(wanted, "window"));
}

/* ---- configurations --------------------------------------------------------------------------------- */

static berth_text document(const struct tree *in, const char *name)
{
    const struct tree *found = tree_get(in, name);
    if (found == NULL) {
        return (berth_text){NULL, 0};
    }
    struct text_buffer buffer = tree_text(found);
    return (berth_text){buffer.text, buffer.bytes};
}

static void check_digest(const struct tree *vector, struct text_buffer parsed, berth_text raw, const char *wanted)
{
    struct sha256 sha;
    char text[SHA256_TEXT_BYTES];
    sha256_begin(&sha);
    sha256_add(&sha, parsed.text, parsed.bytes - 1);
    sha256_add(&sha, ",\"raw\":", 7);
    sha256_add(&sha, raw.ptr, raw.bytes);
    sha256_add(&sha, "}", 1);
    sha256_end_text(&sha, text);
    text[12] = '\0';
    CHECK_TEXT(vector, text, wanted);
}

static void test_config_parse(void **state)
{
    (void)state;
    for (const struct tree *at = section("config_parse", 20); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        berth_fit_source source = BERTH_FIT_SOURCE_INIT;
        berth_fit_config config = BERTH_FIT_CONFIG_INIT;
        berth_error err;
        source.config_json = document(in, "config.json");
        source.generation_config_json = document(in, "generation_config.json");
        size_t bytes = berth_fit_config_bytes(&source);
        berth_status status = berth_fit_config_parse(&source, tree_alloc(bytes), bytes, &config, &err);
        if (tree_get(at, "error") != NULL) {
            assert_int_equal(status, BERTH_ERR_UNSUPPORTED);
            CHECK_TEXT(at, err.message, tree_get(at, "error")->text);
            continue;
        }
        if (status != BERTH_OK) {
            FAIL_AT(at, "%s", err.message);
        }
        const struct tree *out = tree_need(at, "out");
        struct text_buffer got = config_text(&config);
        struct text_buffer wanted = tree_text(tree_need(out, "parsed"));
        if (got.bytes != wanted.bytes || memcmp(got.text, wanted.text, got.bytes) != 0) {
            FAIL_AT(at, "got    %.*s\nwanted %.*s", (int)got.bytes, got.text, (int)wanted.bytes, wanted.text);
        }
        check_digest(at, got, source.config_json, tree_need(out, "digest12")->text);
        check_cost(at, &config, tree_need(out, "kv"));
        CHECK_NUMBER(at, berth_kv_sdpa_fallback_bytes(&config, 2048, 8192), tree_number(out, "sdpa_2048_8192"));
        check_speed(at, &config, tree_need(out, "decode_tps_3dp")->text);
    }
}

static void test_real_model_geometry(void **state)
{
    (void)state;
    for (const struct tree *at = section("real_model_geometry", 6); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        const struct tree *out = tree_need(at, "out");
        berth_fit_config config = config_of(in);
        check_cost(at, &config, out);
        CHECK_NUMBER(at, berth_kv_sdpa_fallback_bytes(&config, tree_number(in, "chunk"), tree_number(in, "ctx")),
                     tree_number(out, "sdpaFallbackBytes"));
        check_speed(at, &config, tree_need(out, "decode_tps_3dp_w1e9_ctx4096_bw400_experts5e8")->text);
    }
}

/* ---- fingerprints ----------------------------------------------------------------------------------- */

static void test_config_fingerprint(void **state)
{
    (void)state;
    for (const struct tree *at = section("config_fingerprint", 13); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        const struct tree *out = tree_need(at, "out");
        const struct tree *rows = tree_need(in, "kvQuant");
        berth_fit_config config = config_of(in);
        if (rows->kind == JSON_ARRAY_BEGIN) {
            config.has_kv_quant = true;
            config.kv_quant = kv_rows(rows, &config.kv_quant_count);
        }
        char fingerprint[BERTH_FINGERPRINT_BYTES];
        char sha256[BERTH_SHA256_TEXT_BYTES];
        char payload[16384] = "";
        size_t bytes;
        berth_error err;
        assert_int_equal(berth_config_fingerprint_payload(&config, payload, sizeof payload - 1, &bytes, &err), 0);
        CHECK_TEXT(at, payload, tree_need(out, "payload")->text);
        assert_int_equal(berth_config_fingerprint(&config, fingerprint, sha256, &err), BERTH_OK);
        CHECK_TEXT(at, sha256, tree_need(out, "sha256")->text);
        CHECK_TEXT(at, fingerprint, tree_need(out, "fingerprint")->text);
        size_t short_bytes;
        assert_int_equal(berth_config_fingerprint_payload(&config, payload, 10, &short_bytes, &err), BERTH_ERR_LIMIT);
        assert_int_equal(short_bytes, bytes);
    }
}

static berth_status read_item(void *user, size_t index, uint64_t offset, size_t bytes, void *buffer, berth_error *err)
{
    (void)err;
    const unsigned char *const *data = user;
    memcpy(buffer, data[index] + offset, bytes);
    return BERTH_OK;
}

static unsigned char *from_hex(const char *hex, uint64_t *bytes)
{
    *bytes = strlen(hex) / 2;
    unsigned char *data = tree_alloc(*bytes);
    for (uint64_t i = 0; i < *bytes; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        data[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    return data;
}

/* A set of the vectors; from memory, or through a reader with a buffer of three bytes. */
static void check_tensors(const struct tree *at, bool with_reader)
{
    const struct tree *in = tree_need(at, "in");
    const struct tree *out = tree_need(at, "out");
    berth_tensor_item items[8] = {{0}};
    unsigned char *data[8];
    uint32_t work[16];
    char buffer[3];
    size_t count = 0;
    for (const struct tree *item = in->first; item != NULL; item = item->next, count++) {
        const struct tree *shape = tree_need(item, "shape");
        uint64_t *dims = tree_alloc(8 * sizeof *dims);
        for (const struct tree *dim = shape->first; dim != NULL; dim = dim->next) {
            dims[items[count].dims_count++] = (uint64_t)dim->number;
        }
        items[count].name = tree_need(item, "name")->text;
        items[count].dtype = (uint32_t)tree_number(item, "dtype");
        items[count].dims = dims;
        data[count] = from_hex(tree_need(item, "hex")->text, &items[count].data_bytes);
        items[count].data = with_reader ? NULL : data[count];
    }
    berth_tensor_set set = BERTH_TENSOR_SET_INIT;
    set.items = items;
    set.count = count;
    set.work = work;
    set.read = read_item;
    set.read_user = data;
    set.buffer = buffer;
    set.buffer_bytes = sizeof buffer;
    char digest[BERTH_SHA256_TEXT_BYTES];
    berth_error err;
    if (berth_tensor_fingerprint(&set, digest, &err) != BERTH_OK) {
        FAIL_AT(at, "%s", err.message);
    }
    CHECK_TEXT(at, digest, tree_need(out, "sha256")->text);
    const struct tree *order = tree_need(out, "order")->first;
    for (size_t i = 0; i < count; i++, order = order->next) {
        CHECK_TEXT(at, items[work[i]].name, order->text);
    }
}

static void check_order(const struct tree *at, const struct tree *names, berth_tensor_order order,
                        const struct tree *wanted)
{
    berth_tensor_item items[32] = {{0}};
    uint32_t work[64];
    size_t count = 0;
    for (const struct tree *name = names->first; name != NULL; name = name->next) {
        items[count++].name = name->text;
    }
    berth_tensor_set set = BERTH_TENSOR_SET_INIT;
    set.items = items;
    set.count = count;
    set.work = work;
    set.order = order;
    char digest[BERTH_SHA256_TEXT_BYTES];
    berth_error err;
    assert_int_equal(berth_tensor_fingerprint(&set, digest, &err), BERTH_OK);
    assert_int_equal(wanted->count, count);
    for (size_t i = 0; i < count; i++) {
        CHECK_TEXT(at, items[work[i]].name, tree_at(wanted, i)->text);
    }
}

static void test_tensor_fingerprint(void **state)
{
    (void)state;
    for (const struct tree *at = section("tensor_fingerprint", 3); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        const struct tree *out = tree_need(at, "out");
        if (in->kind == JSON_ARRAY_BEGIN) {
            check_tensors(at, false);
            check_tensors(at, true);
        } else {
            const struct tree *names = tree_need(in, "names");
            check_order(at, names, BERTH_TENSOR_ORDER_LOCALE, tree_need(out, "icu_en_order"));
            check_order(at, names, BERTH_TENSOR_ORDER_BYTES, tree_need(out, "byte_order"));
        }
    }
}

/* ---- KV and transient ------------------------------------------------------------------------------- */

static void test_kv(void **state)
{
    (void)state;
    for (const struct tree *at = section("kv_quant_bytes_per_element", 18); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        CHECK_NUMBER(at, berth_kv_quant_bytes_per_element(tree_number(in, "bits"), tree_number(in, "groupSize")),
                     tree_number(at, "out"));
    }
    for (const struct tree *at = section("kv_bytes", 21); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        berth_fit_config config = config_of(in);
        berth_kv_scheme scheme = scheme_of(in);
        CHECK_NUMBER(at, berth_kv_bytes_at(&config, tree_number(in, "tokens"), &scheme), tree_number(at, "out"));
    }
    for (const struct tree *at = section("kv_shared_corrected", 2); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        const struct tree *out = tree_need(at, "out");
        berth_fit_config config = config_of(in);
        double tokens = tree_number(in, "tokens");
        CHECK_NUMBER(at, config.number[BERTH_FIT_KV_SHARED_LAYERS], tree_number(in, "numKvSharedLayers"));
        CHECK_NUMBER(at, berth_kv_bytes_at(&config, tokens, NULL), tree_number(out, "seed"));
        CHECK_NUMBER(at, berth_kv_owned_bytes_at(&config, tokens, NULL), tree_number(out, "owning_layers_only"));
    }
}

static void test_sdpa_and_chunk(void **state)
{
    (void)state;
    for (const struct tree *at = section("sdpa_fallback", 12); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        berth_fit_config config = config_of(in);
        CHECK_NUMBER(at, berth_kv_sdpa_fallback_bytes(&config, tree_number(in, "chunk"), tree_number(in, "ctx")),
                     tree_number(at, "out"));
    }
    for (const struct tree *at = section("prefill_chunk", 4); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        berth_fit_config config = config_of(in);
        double prompt = tree_number(in, "promptTokens");
        CHECK_NUMBER(at, berth_kv_prefill_chunk(&config, prompt, 0, true), tree_number(at, "out"));
        assert_int_equal(berth_kv_prefill_chunk(&config, prompt, 0, false), BERTH_FIT_DEFAULT_CHUNK);
        assert_int_equal(berth_kv_prefill_chunk(&config, prompt, 777, true), 777);
    }
}

/* ---- fit -------------------------------------------------------------------------------------------- */

static void test_fit(void **state)
{
    (void)state;
    for (const struct tree *at = section("fit", 20); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        const struct tree *out = tree_need(at, "out");
        berth_fit_config config = config_of(in);
        berth_fit_request request = request_of(in);
        berth_fit_report report = BERTH_FIT_REPORT_INIT;
        berth_error err;
        if (berth_fit_solve(&config, &request, &report, &err) != BERTH_OK) {
            FAIL_AT(at, "%s", err.message);
        }
        CHECK_NUMBER(at, report.schema_version, 1);
        CHECK_TEXT(at, report.strategy, "generic-kv");
        CHECK_NUMBER(at, report.fits, tree_number(out, "fits"));
        CHECK_NUMBER(at, report.context_tokens, tree_number(out, "contextTokens"));
        CHECK_NUMBER(at, report.weights_bytes, tree_number(out, "weightsBytes"));
        CHECK_NUMBER(at, report.kv_bytes, tree_number(out, "kvBytes"));
        CHECK_NUMBER(at, report.transient_bytes, tree_number(out, "transientBytes"));
        CHECK_NUMBER(at, report.reserve_bytes, tree_number(out, "reserveBytes"));
        CHECK_NUMBER(at, report.total_bytes, tree_number(out, "totalBytes"));
        CHECK_NUMBER(at, report.usable_bytes, tree_number(out, "usableBytes"));
        CHECK_NUMBER(at, report.max_safe_context, tree_number(out, "maxSafeContext"));
        CHECK_NUMBER(at, report.predicted_decode_tps, tree_number(out, "predictedDecodeTps"));
    }
    for (const struct tree *at = section("max_context", 16); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        berth_fit_config config = config_of(in);
        berth_fit_request request = request_of(in);
        berth_fit_report report = BERTH_FIT_REPORT_INIT;
        berth_error err;
        if (berth_fit_solve(&config, &request, &report, &err) != BERTH_OK) {
            FAIL_AT(at, "%s", err.message);
        }
        CHECK_NUMBER(at, report.max_safe_context, tree_number(at, "out"));
    }
}

static void test_sku_matrix(void **state)
{
    (void)state;
    for (const struct tree *at = section("sku_matrix", 2); at != NULL; at = at->next) {
        berth_fit_config config = config_of(tree_need(at, "in"));
        berth_fit_request request = request_of(tree_need(at, "in"));
        berth_sku_row rows[BERTH_SKU_ROWS];
        berth_error err;
        assert_int_equal(berth_sku_matrix(&config, &request, rows, &err), BERTH_OK);
        assert_int_equal(tree_need(at, "out")->count, BERTH_SKU_ROWS);
        size_t i = 0;
        for (const struct tree *row = tree_need(at, "out")->first; row != NULL; row = row->next, i++) {
            CHECK_TEXT(at, rows[i].sku, tree_need(row, "sku")->text);
            CHECK_NUMBER(at, rows[i].ram_gb, tree_number(row, "ramGB"));
            CHECK_NUMBER(at, rows[i].fits, tree_number(row, "fits"));
            CHECK_NUMBER(at, rows[i].max_context, tree_number(row, "maxContext"));
            CHECK_NUMBER(at, rows[i].decode_tps, tree_number(row, "decodeTps"));
        }
    }
}

/* ---- choice and admission --------------------------------------------------------------------------- */

static bool is_in(const struct tree *list, const char *name)
{
    for (const struct tree *at = list->first; at != NULL; at = at->next) {
        if (strcmp(at->text, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool fits_full(void *user, const berth_choose_candidate *candidate)
{
    return is_in(tree_need(user, "fitsFull"), candidate->repo_id);
}

static bool fits_coexist(void *user, const berth_choose_candidate *candidate)
{
    return is_in(tree_need(user, "fitsCoexist"), candidate->repo_id);
}

static void test_choice(void **state)
{
    (void)state;
    for (const struct tree *at = section("choose_auto_model", 7); at != NULL; at = at->next) {
        struct tree in = *tree_need(at, "in");
        berth_choose_candidate candidates[8];
        size_t count = 0;
        for (const struct tree *one = tree_need(&in, "candidates")->first; one != NULL; one = one->next) {
            candidates[count++] =
                (berth_choose_candidate){tree_need(one, "repoId")->text, tree_number(one, "sizeBytes")};
        }
        int64_t chosen =
            berth_choose_auto_model(candidates, count, tree_need(&in, "default")->text, fits_full, fits_coexist, &in);
        const struct tree *out = tree_need(at, "out");
        CHECK_TEXT(at, chosen < 0 ? "(none)" : candidates[chosen].repo_id,
                   out->kind == JSON_STRING ? out->text : "(none)");
    }
    for (const struct tree *at = section("recommended_tier", 7); at != NULL; at = at->next) {
        double ram = tree_number(tree_need(at, "in"), "ramBytes");
        char wanted[128];
        snprintf(wanted, sizeof wanted, "mlx-community/gemma-4-%s-it-OptiQ-4bit", tree_need(at, "out")->text);
        CHECK_TEXT(at, berth_choose_largest_recommended(ram), wanted);
        CHECK_TEXT(at, berth_choose_recommended(ram), BERTH_FIT_DEFAULT_REPO_ID);
    }
}

static void test_admission(void **state)
{
    (void)state;
    for (const struct tree *at = section("admission", 4); at != NULL; at = at->next) {
        const struct tree *in = tree_need(at, "in");
        const struct tree *out = tree_need(at, "out");
        bool reject = strncmp(tree_need(at, "id")->text, "v0.0.9", 6) == 0;
        double wanted = tree_number(in, "max_tokens");
        berth_admission_result result = BERTH_ADMISSION_RESULT_INIT;
        berth_error err;
        assert_int_equal(berth_fit_admit(reject ? BERTH_ADMISSION_REJECT : BERTH_ADMISSION_CAP,
                                         tree_number(in, "prompt"), wanted, tree_number(in, "maxSafeContext"), &result,
                                         &err),
                         BERTH_OK);
        CHECK_NUMBER(at, result.http_status, tree_number(out, "status"));
        CHECK_TEXT(at, result.type, tree_get(out, "type") != NULL ? tree_get(out, "type")->text : "");
        if (tree_get(out, "code") != NULL) {
            CHECK_TEXT(at, result.code, tree_get(out, "code")->text);
        }
        if (result.admitted) {
            CHECK_NUMBER(at, result.max_tokens, number_or(out, "max_tokens", wanted));
        }
        assert_int_equal(berth_fit_admit(BERTH_ADMISSION_ADVISE, tree_number(in, "prompt"), wanted,
                                         tree_number(in, "maxSafeContext"), &result, &err),
                         BERTH_OK);
        assert_true(result.admitted);
        CHECK_NUMBER(at, result.max_tokens, wanted);
        assert_int_equal(result.exceeds, tree_number(in, "prompt") + wanted > tree_number(in, "maxSafeContext"));
    }
}

static void test_constants(void **state)
{
    (void)state;
    assert_true(BERTH_FIT_DECODE_EFFICIENCY == tree_number(constants, "DECODE_EFFICIENCY"));
    assert_true(BERTH_FIT_MOE_DECODE_EFFICIENCY == tree_number(constants, "MOE_DECODE_EFFICIENCY"));
    assert_true(BERTH_FIT_TRANSIENT_PER_TOKEN == tree_number(constants, "TRANSIENT_PER_TOKEN"));
    assert_true(BERTH_FIT_WIRED_FRACTION == tree_number(constants, "WIRED_FRACTION"));
    assert_true(BERTH_FIT_COEXIST_FRACTION == tree_number(constants, "COEXIST_FRACTION"));
    assert_true(BERTH_FIT_DEFAULT_CHUNK == tree_number(constants, "DEFAULT_CHUNK"));
}

int main(void)
{
    const struct tree *root = tree_read(BERTH_TESTS_DIR "/golden/seed_fit_vectors.json");
    models = tree_need(root, "models");
    constants = tree_need(root, "constants");
    vectors = tree_need(root, "vectors");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_parse),
        cmocka_unit_test(test_real_model_geometry),
        cmocka_unit_test(test_config_fingerprint),
        cmocka_unit_test(test_tensor_fingerprint),
        cmocka_unit_test(test_kv),
        cmocka_unit_test(test_sdpa_and_chunk),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_sku_matrix),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_admission),
        cmocka_unit_test(test_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
