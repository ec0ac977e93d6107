/* SPDX-License-Identifier: MIT
 * The layer table and llama.cpp's cache rule against sizes that engines printed (tests/golden/fit_layers.json):
 * configurations as published, totals in bytes, exact. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/js_text.h"
#include "fit/layers.h"
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

static berth_status read_text(const char *text, size_t bytes, struct layers *out, berth_error *err)
{
    struct arena arena;
    arena_carve(&arena, memory, sizeof memory);
    return layers_read((struct str){text, bytes}, &arena, out, err);
}

static struct layers read_model(const char *name)
{
    const struct tree *config = tree_need(tree_need(root, "models"), name);
    struct layers layers;
    berth_error err;
    document_bytes = 0;
    put_value(&(struct js_out){put, NULL}, config);
    if (read_text(document, document_bytes, &layers, &err) != BERTH_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    assert_true(layers.is_known);
    return layers;
}

static double number_or(const struct tree *in, const char *key, double otherwise)
{
    const struct tree *found = tree_get(in, key);
    return found != NULL ? found->number : otherwise;
}

static void test_kv(void **state)
{
    (void)state;
    const struct tree *records = tree_need(root, "kv");
    assert_int_equal(records->count, 78);
    for (const struct tree *at = records->first; at != NULL; at = at->next) {
        struct layers layers = read_model(tree_need(at, "model")->text);
        const struct tree *only = tree_get(at, "only");
        for (uint32_t i = 0; only != NULL && i < layers.count; i++) {
            bool wanted = (layers.items[i].cache == LAYER_FULL) == (strcmp(only->text, "full") == 0);
            layers.items[i].cache = wanted ? layers.items[i].cache : LAYER_NO_CACHE;
        }
        struct llama_cache cache = {
            .ctx_tokens = (uint64_t)tree_number(at, "n_ctx"),
            .batch_tokens = (uint32_t)number_or(at, "n_ubatch", 0),
            .slots = (uint32_t)number_or(at, "n_seq", 0),
            .is_unified = number_or(at, "unified", 0) != 0,
            .is_swa_full = number_or(at, "swa_full", 0) != 0,
            .k = cache_type_find(tree_need(at, "type_k")->text),
            .v = cache_type_find(tree_need(at, "type_v")->text),
        };
        assert_non_null(cache.k);
        uint64_t bytes;
        assert_true(layers_llama_kv_bytes(&layers, &cache, &bytes));
        if ((double)bytes != tree_number(at, "total_bytes")) {
            fail_msg("%s (%s): %llu, wanted %.0f", tree_need(at, "id")->text, tree_need(at, "model")->text,
                     (unsigned long long)bytes, tree_number(at, "total_bytes"));
        }
    }
}

static void test_recurrent(void **state)
{
    (void)state;
    const struct tree *records = tree_need(root, "recurrent");
    assert_int_equal(records->count, 9);
    for (const struct tree *at = records->first; at != NULL; at = at->next) {
        struct layers layers = read_model(tree_need(at, "model")->text);
        uint32_t count = 0;
        uint64_t bytes;
        for (uint32_t i = 0; i < layers.count; i++) {
            count += layers.items[i].conv_elems > 0 ? 1 : 0;
        }
        assert_int_equal(count, (int)tree_number(at, "layers"));
        assert_true(layers_llama_state_bytes(&layers, (uint32_t)tree_number(at, "n_seq"), &bytes));
        if ((double)bytes != tree_number(at, "total_bytes")) {
            fail_msg("%s (%s): %llu, wanted %.0f", tree_need(at, "id")->text, tree_need(at, "model")->text,
                     (unsigned long long)bytes, tree_number(at, "total_bytes"));
        }
    }
}

static void test_owners(void **state)
{
    (void)state;
    struct layers layers = read_model("gemma-4-e4b");
    uint32_t own = 0;
    for (uint32_t i = 0; i < layers.count; i++) {
        const struct layer *layer = &layers.items[i];
        own += layer->owner == i ? 1 : 0;
        assert_true(layer->owner <= i && layers.items[layer->owner].cache == layer->cache);
        assert_true(i < 24 || layer->owner == (layer->cache == LAYER_FULL ? 23 : 22));
    }
    assert_int_equal(own, 24);
}

static void test_odd(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        berth_status status;
        bool known;
        const char *names;
    } rows[] = {
        {"{\"model_type\":\"llama\"}", BERTH_ERR_FORMAT, false, "num_hidden_layers"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2}", BERTH_ERR_FORMAT, false, "head_dim"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":1e30}", BERTH_ERR_FORMAT, false, "num_hidden_layers"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":5000}", BERTH_ERR_LIMIT, false, "num_hidden_layers"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2.5}", BERTH_ERR_FORMAT, false, "num_hidden_layers"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"num_key_value_heads\":1,\"head_dim\":-4}",
         BERTH_ERR_FORMAT, false, "head_dim"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"num_key_value_heads\":1,\"head_dim\":4}", BERTH_OK, true,
         NULL},
        {"{\"model_type\":\"new\",\"num_hidden_layers\":2,\"num_key_value_heads\":1,\"head_dim\":4}", BERTH_OK, false,
         NULL},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"num_key_value_heads\":1,\"head_dim\":4,"
         "\"layer_types\":[\"new_attention\"]}",
         BERTH_OK, false, NULL},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"num_key_value_heads\":1,\"head_dim\":4,"
         "\"layer_types\":[\"full_attention\"]}",
         BERTH_ERR_FORMAT, false, "layer_types"},
        {"{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":2,\"qk_rope_head_dim\":4}", BERTH_ERR_FORMAT, false,
         "kv_lora_rank"},
        {"{\"model_type\":\"nemotron_h\",\"num_hidden_layers\":3,\"hybrid_override_pattern\":\"-E\"}", BERTH_ERR_FORMAT,
         false, "hybrid_override_pattern"},
        {"{\"model_type\":\"nemotron_h\",\"num_hidden_layers\":2,\"hybrid_override_pattern\":\"-E\"}", BERTH_OK, true,
         NULL},
        {"{\"model_type\":\"nemotron-nas\",\"num_hidden_layers\":2,\"num_attention_heads\":4,\"block_configs\":[{}]}",
         BERTH_ERR_FORMAT, false, "block_configs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct layers layers;
        berth_error err = {.message = ""};
        berth_status status = read_text(rows[i].text, strlen(rows[i].text), &layers, &err);
        if (status != rows[i].status || (status == BERTH_OK && layers.is_known != rows[i].known) ||
            (rows[i].names != NULL && strstr(err.message, rows[i].names) == NULL)) {
            fail_msg("%s: %d, %s", rows[i].text, status, err.message);
        }
    }
    /* Sums that do not fit in 64 bits are refused. */
    struct layer huge = {.cache = LAYER_FULL, .k_elems = UINT32_MAX};
    struct layers one = {.items = &huge, .count = 1};
    struct llama_cache cache = {.ctx_tokens = UINT64_MAX / 2, .k = cache_type_find("f32")};
    uint64_t bytes;
    assert_false(layers_llama_kv_bytes(&one, &cache, &bytes));
    cache.ctx_tokens = UINT64_MAX;
    assert_false(layers_llama_kv_bytes(&one, &cache, &bytes));
}

int main(void)
{
    root = tree_read(BERTH_TESTS_DIR "/golden/fit_layers.json");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kv), cmocka_unit_test(test_recurrent),
                                       cmocka_unit_test(test_owners), cmocka_unit_test(test_odd)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
