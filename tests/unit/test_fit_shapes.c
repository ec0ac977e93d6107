/* SPDX-License-Identifier: MIT
 * Shapes from configurations and llama.cpp's rules against sizes that engines printed and counts that were published
 * (tests/golden/fit_shapes.json): caches, states and parameters exact, compute buffers within 0.35 MiB. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/js_text.h"
#include "fit/llama_cpp.h"
#include "support/json_tree.h"

static const struct tree *root;
static unsigned char memory[1 << 20] __attribute__((aligned(4096)));

static char document[1 << 16];
static size_t document_bytes;

static void put(void *user, const void *text, size_t bytes)
{
    (void)user;
    assert_true(document_bytes + bytes <= sizeof document);
    memcpy(document + document_bytes, text, bytes);
    document_bytes += bytes;
}

static void put_value(const struct js_out *out, const struct tree *node)
{
    bool object = node->kind == JSON_OBJECT_BEGIN;
    if (!object && node->kind != JSON_ARRAY_BEGIN) {
        if (node->kind == JSON_STRING) {
            js_put_string(out, node->text, node->text_bytes);
        } else {
            js_put(out, node->kind == JSON_TRUE ? "true" : node->kind == JSON_FALSE ? "false" : "");
            if (node->kind == JSON_NUMBER) {
                js_put_number(out, node->number);
            }
            js_put(out, node->kind == JSON_NULL ? "null" : "");
        }
        return;
    }
    js_put(out, object ? "{" : "[");
    for (const struct tree *at = node->first; at != NULL; at = at->next) {
        js_put(out, at != node->first ? "," : "");
        if (object) {
            js_put_string(out, at->key, strlen(at->key));
            js_put(out, ":");
        }
        put_value(out, at);
    }
    js_put(out, object ? "}" : "]");
}

static berth_status read_text(const char *text, size_t bytes, struct shape *out, berth_error *err)
{
    struct arena arena;
    arena_carve(&arena, memory, sizeof memory);
    return shape_read_json((struct str){text, bytes}, "config.json", &arena, out, err);
}

static struct shape read_model(const char *name)
{
    const struct tree *config = tree_need(tree_need(root, "models"), name);
    struct shape shape;
    berth_error err;
    document_bytes = 0;
    put_value(&(struct js_out){put, NULL}, config);
    if (read_text(document, document_bytes, &shape, &err) != BERTH_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    if (!shape.is_known) {
        fail_msg("%s: %s", name, shape.problem);
    }
    return shape;
}

static double number_or(const struct tree *in, const char *key, double otherwise)
{
    const struct tree *found = tree_get(in, key);
    return found != NULL ? found->number : otherwise;
}

static enum llama_mla mla_of(const struct tree *record)
{
    const struct tree *mla = tree_get(record, "mla");
    return mla == NULL                          ? LLAMA_MLA_LATENT
           : strcmp(mla->text, "latent+v") == 0 ? LLAMA_MLA_LATENT_AND_V
                                                : LLAMA_MLA_FULL;
}

static void test_kv(void **state)
{
    (void)state;
    const struct tree *records = tree_need(root, "kv");
    assert_int_equal(records->count, 88);
    for (const struct tree *at = records->first; at != NULL; at = at->next) {
        struct shape shape = read_model(tree_need(at, "model")->text);
        const struct tree *only = tree_get(at, "only");
        struct llama_request request = {
            .ctx_tokens = (uint64_t)tree_number(at, "n_ctx"),
            .ubatch_tokens = (uint32_t)number_or(at, "n_ubatch", 0),
            .slots = (uint32_t)number_or(at, "n_seq", 0),
            .is_unified = number_or(at, "unified", 0) != 0,
            .is_swa_full = number_or(at, "swa_full", 0) != 0,
            .is_draft = number_or(at, "draft", 0) != 0,
            .mla = mla_of(at),
            .k = cache_type_find(tree_need(at, "type_k")->text),
            .v = cache_type_find(tree_need(at, "type_v")->text),
        };
        struct llama_report report;
        assert_non_null(request.k);
        assert_true(llama_cache_bytes(&shape, &request, &report));
        uint64_t bytes = report.kv_bytes;
        for (int part = 0; only != NULL && part < LLAMA_PARTS; part++) {
            if (strcmp(llama_part_name((enum llama_part)part), only->text) == 0) {
                bytes = report.part[part].k_bytes + report.part[part].v_bytes;
            }
        }
        if ((double)bytes != tree_number(at, "total_bytes")) {
            fail_msg("%s (%s): %llu, wanted %.0f", tree_need(at, "id")->text, tree_need(at, "model")->text,
                     (unsigned long long)bytes, tree_number(at, "total_bytes"));
        }
        /* And what the engine printed, to its last digit. */
        double printed = 0;
        for (const struct tree *line = tree_need(at, "logged_mib")->first; line != NULL; line = line->next) {
            printed += line->number;
        }
        double mib = (double)bytes / 1048576;
        assert_true(printed - mib < 0.0151 && mib - printed < 0.0151);
    }
}

static void test_recurrent(void **state)
{
    (void)state;
    const struct tree *records = tree_need(root, "recurrent");
    assert_int_equal(records->count, 10);
    for (const struct tree *at = records->first; at != NULL; at = at->next) {
        struct shape shape = read_model(tree_need(at, "model")->text);
        uint32_t count = 0;
        for (uint32_t i = 0; i < shape.count; i++) {
            const struct shape_layer *layer = &shape.layers[i];
            if (layer->conv_elems > 0) {
                count++;
                assert_true((double)layer->conv_elems == tree_number(at, "conv_elems"));
                assert_true((double)layer->state_elems == tree_number(at, "state_elems"));
            }
        }
        assert_int_equal(count, (int)tree_number(at, "layers"));
        struct llama_request request = {.ctx_tokens = 256, .slots = (uint32_t)tree_number(at, "n_seq")};
        struct llama_report report;
        assert_true(llama_cache_bytes(&shape, &request, &report));
        if ((double)report.state_bytes != tree_number(at, "total_bytes")) {
            fail_msg("%s (%s): %llu, wanted %.0f", tree_need(at, "id")->text, tree_need(at, "model")->text,
                     (unsigned long long)report.state_bytes, tree_number(at, "total_bytes"));
        }
    }
}

static void test_params(void **state)
{
    (void)state;
    const struct tree *records = tree_need(root, "params");
    uint32_t totals = 0;
    uint32_t wrong = 0;
    for (const struct tree *at = records->first; at != NULL; at = at->next) {
        const char *name = tree_need(at, "model")->text;
        struct shape shape = read_model(name);
        struct shape_params params;
        assert_true(shape_count_params(&shape, &params));
        double experts = shape.number[SHAPE_EXPERTS] > 0 ? (double)shape.number[SHAPE_EXPERTS] : 1;
        double active = (double)(params.total - params.experts) +
                        (double)params.experts / experts * (double)shape.number[SHAPE_TOP_K];
        double want[3] = {number_or(at, "total", (double)params.total), number_or(at, "active", active),
                          number_or(at, "experts", (double)params.experts)};
        double got[3] = {(double)params.total, active, (double)params.experts};
        totals += tree_get(at, "total") != NULL ? 1 : 0;
        for (int i = 0; i < 3; i++) {
            if (got[i] != want[i]) {
                print_error("%s: %d is %.0f, wanted %.0f (%+.0f)\n", name, i, got[i], want[i], got[i] - want[i]);
                wrong++;
            }
        }
    }
    assert_int_equal(totals, 41);
    assert_int_equal(wrong, 0);
}

/* The count of a model card leaves the indexer out; the repository has it: two bytes a parameter, and the router's
 * corrections in four. */
static void test_indexer(void **state)
{
    (void)state;
    struct shape shape = read_model("glm-5.2");
    struct shape_params params;
    assert_true(shape_count_params(&shape, &params));
    assert_true((params.total + params.index) * 2 + 75 * 256 * 2 == 1487822475264u);
}

/* Growth of the cache in 16 bits, per token. */
static void test_per_token(void **state)
{
    (void)state;
    const struct tree *records = tree_need(root, "per_token");
    assert_int_equal(records->count, 8);
    for (const struct tree *at = records->first; at != NULL; at = at->next) {
        struct shape shape = read_model(tree_need(at, "model")->text);
        struct llama_request request = {
            .ctx_tokens = 1 << 17, .k = cache_type_find("f16"), .v = cache_type_find("f16")};
        struct llama_report one;
        struct llama_report two;
        assert_true(llama_cache_bytes(&shape, &request, &one));
        request.ctx_tokens *= 2;
        assert_true(llama_cache_bytes(&shape, &request, &two));
        double bytes = (double)(two.kv_bytes - one.kv_bytes) / (1 << 17);
        if (bytes != tree_number(at, "bytes_per_token")) {
            fail_msg("%s: %.0f, wanted %.0f", tree_need(at, "model")->text, bytes, tree_number(at, "bytes_per_token"));
        }
    }
}

static void test_mlx_bytes(void **state)
{
    (void)state;
    struct shape shape = read_model("llama-3.3-70b");
    uint64_t bytes;
    assert_true(shape_mlx_bytes(&shape, 4, 64, &bytes));
    assert_true(bytes == 39688355840u);
    assert_false(shape_mlx_bytes(&shape, 0, 64, &bytes));
    assert_false(shape_mlx_bytes(&shape, 4, 0, &bytes));
    shape = read_model("mimo-v2-flash"); /* not counted: no number rather than a wrong one */
    assert_false(shape_mlx_bytes(&shape, 4, 64, &bytes));
}

static void test_owners(void **state)
{
    (void)state;
    struct shape shape = read_model("gemma-4-e4b");
    uint32_t own = 0;
    for (uint32_t i = 0; i < shape.count; i++) {
        const struct shape_layer *layer = &shape.layers[i];
        own += layer->owner == i ? 1 : 0;
        assert_true(layer->owner <= i && shape.layers[layer->owner].cache == layer->cache);
        assert_true(i < 24 || layer->owner == (layer->cache == SHAPE_FULL ? 23 : 22));
    }
    assert_int_equal(own, 24);
}

/* What engines printed of their compute buffers: on the host when an accelerator has the layers, and all of it without
 * flash attention. The builds that printed them keep one or two copies of the embeddings and a mask in 16 or 32 bits.
 */
static void test_compute(void **state)
{
    (void)state;
    const struct tree *records = tree_need(root, "compute");
    assert_int_equal(records->count, 14);
    for (const struct tree *at = records->first; at != NULL; at = at->next) {
        const char *formula = tree_need(at, "formula")->text;
        struct shape shape = read_model(tree_need(at, "model")->text);
        bool flash = tree_number(at, "flash_attn") != 0;
        bool two = strstr(formula, "2 x n_embd") != NULL;
        bool half = strstr(formula, "f16 mask") != NULL;
        struct llama_request request = {
            .ctx_tokens = (uint64_t)tree_number(at, "n_ctx"),
            .ubatch_tokens = (uint32_t)tree_number(at, "n_ubatch"),
            .no_flash_attention = !flash,
            .is_device = flash,
            .build = llama_build_find(half  ? "ik-2026"
                                      : two ? "2026"
                                            : "2025"),
            .k = cache_type_find("f16"),
            .v = cache_type_find("f16"),
        };
        struct llama_report report;
        assert_non_null(request.build);
        assert_true(llama_solve(&shape, &request, &report));
        const struct tree *logged = tree_need(at, "logged_mib");
        const struct tree *line = tree_get(logged, "CUDA_Host");
        line = line != NULL ? line : tree_get(logged, "CPU");
        line = !flash && tree_get(logged, "Metal") != NULL ? tree_get(logged, "Metal") : line;
        assert_non_null(line);
        double got = (double)report.host_compute_bytes / 1048576;
        if (got - line->number > 0.35 || line->number - got > 0.35) {
            fail_msg("%s (%s): %.2f MiB, printed %.2f", tree_need(at, "id")->text, tree_need(at, "model")->text, got,
                     line->number);
        }
    }
}

int main(void)
{
    root = tree_read(BERTH_TESTS_DIR "/golden/fit_shapes.json");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv),        cmocka_unit_test(test_recurrent), cmocka_unit_test(test_params),
        cmocka_unit_test(test_per_token), cmocka_unit_test(test_mlx_bytes), cmocka_unit_test(test_owners),
        cmocka_unit_test(test_indexer),   cmocka_unit_test(test_compute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
