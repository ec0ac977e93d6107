/* SPDX-License-Identifier: MIT
 * Shapes from configurations and llama.cpp's rules against sizes that engines printed and counts that were published
 * (tests/golden/fit_shapes.json): caches, states and parameters exact, compute buffers within 0.35 MiB. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fit/llama_cpp.h"
#include "model/gguf.h"
#include "support/build.h"
#include "support/json_text.h"

static const struct tree *root;
static unsigned char memory[1 << 20] __attribute__((aligned(4096)));

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
    const struct json_text *text = json_text(config);
    if (read_text(text->ptr, text->bytes, &shape, &err) != BERTH_OK) {
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
    shape = read_model("kimi-k3"); /* not counted: no number rather than a wrong one */
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

/* The header of a GGUF file with these pairs. */
static void put_pairs(struct build *file, const struct tree *pairs)
{
    const char *arch = tree_need(pairs, "arch")->text;
    build_head(file, 3, 0, pairs->count);
    build_key_str(file, "general.architecture", arch);
    for (const struct tree *at = pairs->first; at != NULL; at = at->next) {
        char key[128];
        if (strcmp(at->key, "arch") == 0) {
            continue;
        }
        snprintf(key, sizeof key, "%s.%s", arch, at->key);
        if (at->kind == JSON_NUMBER) {
            build_key_u32(file, key, (uint32_t)at->number);
            continue;
        }
        build_array(file, key, META_I32, at->count);
        for (const struct tree *item = at->first; item != NULL; item = item->next) {
            build_u32(file, (uint32_t)item->number);
        }
    }
}

static unsigned char gguf_memory[1 << 20] __attribute__((aligned(4096)));

static berth_status read_gguf(const struct build *file, struct shape *out, berth_error *err)
{
    struct gguf_scan scan;
    struct arena arena;
    struct meta meta;
    bool complete = false;
    arena_carve(&arena, gguf_memory, sizeof gguf_memory);
    gguf_scan_begin(&scan, file->bytes);
    assert_int_equal(gguf_scan_more(&scan, file->ptr, file->bytes, &complete, err), BERTH_OK);
    assert_true(complete);
    struct meta_pair *pairs = ARENA_NEW(&arena, struct meta_pair, scan.pairs_count);
    assert_int_equal(gguf_parse_meta(&scan, file->ptr, pairs, &arena, &meta, err), BERTH_OK);
    return shape_read_gguf(&meta, "model.gguf", &arena, out, err);
}

/* Metadata as llama.cpp's converters write it gives the same layers as the configuration. */
static void test_gguf(void **state)
{
    (void)state;
    const struct tree *models = tree_need(root, "gguf");
    assert_true(models->count >= 75);
    for (const struct tree *at = models->first; at != NULL; at = at->next) {
        struct build file = {NULL, 0, 0};
        struct shape shape;
        berth_error err;
        put_pairs(&file, at);
        if (read_gguf(&file, &shape, &err) != BERTH_OK || !shape.is_known) {
            fail_msg("%s: %s%s", at->key, shape.problem, shape.is_known ? err.message : "");
        }
        struct shape config = read_model(at->key);
        assert_int_equal(shape.count, config.count);
        assert_int_equal(shape.mtp_count, config.mtp_count);
        for (uint32_t i = 0; i < shape.count; i++) {
            const struct shape_layer *a = &shape.layers[i];
            const struct shape_layer *b = &config.layers[i];
            if (a->cache != b->cache || a->k_elems != b->k_elems || a->v_elems != b->v_elems ||
                a->window != b->window || a->owner != b->owner || a->state != b->state ||
                a->conv_elems != b->conv_elems || a->state_elems != b->state_elems || a->comp_elems != b->comp_elems ||
                a->comp_ratio != b->comp_ratio || a->index_elems != b->index_elems || a->heads != b->heads) {
                fail_msg("%s, layer %u: GGUF %d %u+%u window %u owner %u state %d %llu+%llu comp %u/%u index %u heads "
                         "%u; config %d %u+%u window %u owner %u state %d %llu+%llu comp %u/%u index %u heads %u",
                         at->key, (unsigned)i, a->cache, a->k_elems, a->v_elems, a->window, a->owner, a->state,
                         (unsigned long long)a->conv_elems, (unsigned long long)a->state_elems, a->comp_elems,
                         a->comp_ratio, a->index_elems, a->heads, b->cache, b->k_elems, b->v_elems, b->window, b->owner,
                         b->state, (unsigned long long)b->conv_elems, (unsigned long long)b->state_elems, b->comp_elems,
                         b->comp_ratio, b->index_elems, b->heads);
            }
        }
        build_free(&file);
    }
}

static void test_gguf_odd(void **state)
{
    (void)state;
    struct build file = {NULL, 0, 0};
    struct shape shape;
    berth_error err;
    /* An architecture that nobody knows: a lower bound. */
    build_head(&file, 3, 0, 2);
    build_key_str(&file, "general.architecture", "brandnew");
    build_key_u32(&file, "brandnew.block_count", 4);
    assert_int_equal(read_gguf(&file, &shape, &err), BERTH_OK);
    assert_false(shape.is_known);
    assert_non_null(strstr(shape.problem, "brandnew"));
    build_free(&file);
    /* Arrays too short, numbers negative or not whole. */
    build_head(&file, 3, 0, 3);
    build_key_str(&file, "general.architecture", "llama");
    build_key_u32(&file, "llama.block_count", 4);
    build_array(&file, "llama.attention.head_count_kv", META_I32, 3);
    build_zero(&file, 12);
    assert_int_equal(read_gguf(&file, &shape, &err), BERTH_ERR_FORMAT);
    assert_non_null(strstr(err.message, "attention.head_count_kv"));
    build_free(&file);
    build_head(&file, 3, 0, 2);
    build_key_str(&file, "general.architecture", "llama");
    build_key(&file, "llama.block_count", META_I32);
    build_u32(&file, (uint32_t)-4);
    assert_int_equal(read_gguf(&file, &shape, &err), BERTH_ERR_FORMAT);
    assert_non_null(strstr(err.message, "-4"));
    build_free(&file);
    build_head(&file, 3, 0, 3);
    build_key_str(&file, "general.architecture", "qwen35");
    build_key_u32(&file, "qwen35.block_count", 4);
    build_key_u32(&file, "qwen35.nextn_predict_layers", 4);
    assert_int_equal(read_gguf(&file, &shape, &err), BERTH_ERR_FORMAT);
    build_free(&file);
}

/* What no configuration may do: crash, or give a size that is none. Either an error that names the key, or a shape. */
static void test_odd(void **state)
{
    (void)state;
#define LLAMA "{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"num_key_value_heads\":1,\"head_dim\":4"
    static const struct {
        const char *text;
        berth_status status;
        bool known;
        const char *names;
    } rows[] = {
        {"{\"model_type\":\"llama\"}", BERTH_ERR_FORMAT, false, "num_hidden_layers"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2}", BERTH_ERR_FORMAT, false, "hidden_size"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":1e30}", BERTH_ERR_FORMAT, false, "is 1e30"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":-3}", BERTH_ERR_FORMAT, false, "is -3"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":NaN}", BERTH_ERR_FORMAT, false, "is NaN"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":Infinity}", BERTH_ERR_FORMAT, false, "is Infinity"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":\"32\"}", BERTH_ERR_FORMAT, false, "the string \"32\""},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":[[2]]}", BERTH_ERR_FORMAT, false, "a list"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":{}}", BERTH_ERR_FORMAT, false, "an object"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":true}", BERTH_ERR_FORMAT, false, "is true"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":5000}", BERTH_ERR_LIMIT, false, "num_hidden_layers"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2.5}", BERTH_ERR_FORMAT, false, "num_hidden_layers"},
        {"{\"model_type\":7,\"num_hidden_layers\":2}", BERTH_ERR_FORMAT, false, "model_type"},
        {"{\"text_config\":7,\"num_hidden_layers\":2}", BERTH_ERR_FORMAT, false, "text_config"},
        {"[1]", BERTH_ERR_FORMAT, false, "object"},
        {"{", BERTH_ERR_FORMAT, false, "JSON"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"num_key_value_heads\":1,\"head_dim\":-4}",
         BERTH_ERR_FORMAT, false, "head_dim"},
        {LLAMA "}", BERTH_OK, true, NULL},
        {LLAMA ",\"router_jitter_noise\":NaN,\"initializer_range\":-Infinity,\"x\":[Infinity]}", BERTH_OK, true, NULL},
        {LLAMA ",\"tie_word_embeddings\":\"true\"}", BERTH_ERR_FORMAT, false, "tie_word_embeddings"},
        {LLAMA ",\"layer_types\":\"full_attention\"}", BERTH_ERR_FORMAT, false, "layer_types"},
        {LLAMA ",\"layer_types\":[1,2]}", BERTH_ERR_FORMAT, false, "layer_types"},
        {LLAMA ",\"layer_types\":[\"full_attention\"]}", BERTH_ERR_FORMAT, false, "layer_types"},
        {LLAMA ",\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\"]}", BERTH_OK, true, NULL},
        {LLAMA ",\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\"]}",
         BERTH_OK, false, NULL},
        {LLAMA ",\"head_dim\":8,\"head_dim\":[]}", BERTH_ERR_FORMAT, false, "head_dim"},
        {LLAMA ",\"hidden_size\":1e300}", BERTH_ERR_FORMAT, false, "hidden_size"},
        {LLAMA ",\"hc_mult\":\"4\"}", BERTH_ERR_FORMAT, false, "hc_mult"},
        {LLAMA ",\"hc_mult\":65}", BERTH_ERR_FORMAT, false, "hc_mult"},
        {LLAMA ",\"indexer_types\":7}", BERTH_ERR_FORMAT, false, "indexer_types"},
        {LLAMA ",\"enable_moe_block\":1}", BERTH_ERR_FORMAT, false, "enable_moe_block"},
        {LLAMA ",\"num_experts\":4,\"moe_layer_freq\":[2]}", BERTH_ERR_FORMAT, false, "moe_layer_freq"},
        {LLAMA ",\"text_config\":null}", BERTH_OK, true, NULL},
        {LLAMA ",\"text_config\":{}}", BERTH_ERR_FORMAT, false, "num_hidden_layers"},
        {"{\"model_type\":\"llama\",\"text_config\":{\"num_hidden_layers\":1e9}}", BERTH_ERR_FORMAT, false,
         "num_hidden_layers"},
        {"{\"model_type\":\"jamba\",\"num_hidden_layers\":2,\"hidden_size\":64,\"mamba_dt_rank\":\"auto\"}", BERTH_OK,
         true, NULL},
        {"{\"model_type\":\"jamba\",\"num_hidden_layers\":2,\"hidden_size\":64,\"mamba_dt_rank\":\"7\"}",
         BERTH_ERR_FORMAT, false, "mamba_dt_rank"},
        {"{\"model_type\":\"lfm2\",\"num_hidden_layers\":2,\"hidden_size\":64,\"block_ffn_dim_multiplier\":-1}",
         BERTH_ERR_FORMAT, false, "block_ffn_dim_multiplier"},
        {"{\"model_type\":\"lfm2_moe\",\"num_hidden_layers\":2,\"hidden_size\":64}", BERTH_OK, false, NULL},
        {"{\"model_type\":\"deepseek_v4\",\"num_hidden_layers\":2,\"hidden_size\":64,\"compress_rates\":[4],"
         "\"layer_types\":[\"sliding_attention\",\"sliding_attention\"]}",
         BERTH_ERR_FORMAT, false, "compress_rates"},
        {"{\"model_type\":\"deepseek_v4\",\"num_hidden_layers\":1,\"hidden_size\":64,\"layer_types\":"
         "[\"compressed_sparse_attention\"],\"compress_rates\":{\"compressed_sparse_attention\":8}}",
         BERTH_OK, false, NULL},
        {"{\"model_type\":\"nemotron_h\",\"layers_block_type\":[7]}", BERTH_ERR_FORMAT, false, "num_hidden_layers"},
        {"{\"model_type\":\"nemotron_h\",\"hidden_size\":64,\"layers_block_type\":[\"mamba\",\"moe\"]}", BERTH_OK, true,
         NULL},
        {LLAMA ",\"layer_types\":[\"new_attention\",\"full_attention\"]}", BERTH_OK, false, NULL},
        {LLAMA ",\"layer_types\":[\"linear_attention\",\"full_attention\"]}", BERTH_OK, false, NULL},
        {LLAMA ",\"per_layer_config\":[]}", BERTH_ERR_FORMAT, false, "per_layer_config"},
        {LLAMA ",\"per_layer_config\":{\"1\":{\"head_dim\":\"x\"}}}", BERTH_ERR_FORMAT, false, "head_dim"},
        {LLAMA ",\"num_experts\":8,\"mlp_only_layers\":[-1]}", BERTH_ERR_FORMAT, false, "mlp_only_layers"},
        {"{\"model_type\":\"new\",\"num_hidden_layers\":2,\"num_key_value_heads\":1,\"head_dim\":4}", BERTH_OK, false,
         NULL},
        {"{\"model_type\":\"wrapper\",\"text_config\":" LLAMA "}}", BERTH_OK, true, NULL},
        {"{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":2,\"kv_lora_rank\":null}", BERTH_ERR_FORMAT, false,
         "kv_lora_rank"},
        {"{\"model_type\":\"nemotron_h\",\"num_hidden_layers\":3,\"hybrid_override_pattern\":\"-E\"}", BERTH_ERR_FORMAT,
         false, "hybrid_override_pattern"},
        {"{\"model_type\":\"nemotron_h\",\"num_hidden_layers\":2,\"hybrid_override_pattern\":\"-E\"}", BERTH_OK, true,
         NULL},
        {"{\"model_type\":\"nemotron_h\",\"num_hidden_layers\":2,\"hybrid_override_pattern\":\"Q*\","
         "\"num_key_value_heads\":1,\"head_dim\":4}",
         BERTH_OK, false, NULL},
        {"{\"model_type\":\"nemotron_h\",\"num_hidden_layers\":2}", BERTH_OK, false, NULL},
        {"{\"model_type\":\"nemotron-nas\",\"num_hidden_layers\":2,\"num_attention_heads\":4,\"block_configs\":[{}]}",
         BERTH_ERR_FORMAT, false, "block_configs"},
        {"{\"model_type\":\"kimi_linear\",\"num_hidden_layers\":2,\"kv_lora_rank\":8,\"qk_rope_head_dim\":4,"
         "\"linear_attn_config\":{\"full_attn_layers\":[3]}}",
         BERTH_ERR_FORMAT, false, "full_attn_layers"},
        {"{\"model_type\":\"deepseek_v4\",\"num_hidden_layers\":1,\"head_dim\":8,\"sliding_window\":8,"
         "\"compress_ratios\":[7]}",
         BERTH_OK, false, NULL},
        {"{\"model_type\":\"mamba\",\"num_hidden_layers\":1,\"hidden_size\":8,\"state_size\":4,\"conv_kernel\":4,"
         "\"expand\":2}",
         BERTH_OK, true, NULL},
        {"{\"model_type\":\"mamba\",\"num_hidden_layers\":1,\"hidden_size\":8,\"conv_kernel\":4,\"expand\":2,"
         "\"state_size\":0}",
         BERTH_ERR_FORMAT, false, "ssm_state_size"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct shape shape;
        berth_error err = {.message = ""};
        berth_status status = read_text(rows[i].text, strlen(rows[i].text), &shape, &err);
        if (status != rows[i].status || (status == BERTH_OK && shape.is_known != rows[i].known) ||
            (status == BERTH_OK && !shape.is_known && shape.problem[0] == '\0') ||
            (rows[i].names != NULL && strstr(err.message, rows[i].names) == NULL)) {
            fail_msg("%s: %d, %s%s", rows[i].text, status, err.message, shape.problem);
        }
    }
    /* Sums that do not fit in 64 bits are refused. */
    struct shape_layer huge = {.cache = SHAPE_FULL, .k_elems = UINT32_MAX};
    struct shape one = {.layers = &huge, .count = 1};
    struct llama_request request = {.ctx_tokens = UINT64_MAX / 2, .k = cache_type_find("f32")};
    struct llama_report report;
    assert_false(llama_cache_bytes(&one, &request, &report));
    request.ctx_tokens = UINT64_MAX;
    assert_false(llama_cache_bytes(&one, &request, &report));
    request.ctx_tokens = 256;
    request.ubatch_tokens = UINT32_MAX;
    one.number[SHAPE_VOCAB] = UINT32_MAX;
    assert_true(llama_cache_bytes(&one, &request, &report));
}

static void test_classes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum weight_class class;
    } rows[] = {
        {"token_embd.weight", WEIGHT_LOOKUP},
        {"model.embed_tokens.weight", WEIGHT_LOOKUP},
        {"model.embed_tokens.scales", WEIGHT_LOOKUP},
        {"per_layer_token_embd.weight", WEIGHT_LOOKUP},
        {"model.language_model.embed_tokens_per_layer.weight", WEIGHT_LOOKUP},
        {"model.layers.3.engram.tables.weight", WEIGHT_LOOKUP},
        {"token_embd_norm.weight", WEIGHT_RESIDENT},
        {"output.weight", WEIGHT_RESIDENT},
        {"output_norm.weight", WEIGHT_RESIDENT},
        {"lm_head.weight", WEIGHT_RESIDENT},
        {"blk.3.ffn_gate_exps.weight", WEIGHT_EXPERT},
        {"blk.3.ffn_gate_up_exps.weight", WEIGHT_EXPERT},
        {"blk.3.ffn_down_exps.bias", WEIGHT_RESIDENT},
        {"blk.3.ffn_down_exps.scale", WEIGHT_RESIDENT},
        {"blk.3.ffn_gate_shexp.weight", WEIGHT_RESIDENT},
        {"blk.3.ffn_gate_inp.weight", WEIGHT_RESIDENT},
        {"blk.3.ffn_gate.7.weight", WEIGHT_EXPERT},
        {"blk.3.ffn_gate.weight", WEIGHT_RESIDENT},
        {"blk.3.exp_probs_b.bias", WEIGHT_RESIDENT},
        {"model.layers.3.mlp.experts.17.gate_proj.weight", WEIGHT_EXPERT},
        {"model.layers.3.mlp.experts.gate_up_proj", WEIGHT_EXPERT},
        {"model.layers.3.mlp.experts.gate_up_proj_blocks", WEIGHT_EXPERT},
        {"model.layers.3.mlp.experts.gate_up_proj_scales", WEIGHT_EXPERT},
        {"model.layers.3.mlp.experts.gate_up_proj_bias", WEIGHT_RESIDENT},
        {"model.layers.3.mlp.shared_experts.up_proj.weight", WEIGHT_RESIDENT},
        {"model.layers.3.mlp.shared_expert.up_proj.weight", WEIGHT_RESIDENT},
        {"model.layers.3.mlp.switch_mlp.gate_proj.weight", WEIGHT_EXPERT},
        {"model.layers.3.mlp.switch_mlp.gate_proj.scales", WEIGHT_EXPERT},
        {"model.layers.3.mlp.switch_mlp.gate_proj.biases", WEIGHT_EXPERT},
        {"model.layers.3.block_sparse_moe.experts.2.w1.weight", WEIGHT_EXPERT},
        {"model.layers.3.block_sparse_moe.input_linear.weight", WEIGHT_EXPERT},
        {"model.layers.3.feed_forward.experts.down_proj", WEIGHT_EXPERT},
        {"model.layers.3.self_attn.q_proj.weight", WEIGHT_RESIDENT},
        {"model.layers.9.self_attn.q_proj.weight", WEIGHT_NOT_LOADED},
        {"model.layers.9.mlp.experts.0.up_proj.weight", WEIGHT_NOT_LOADED},
        {"blk.8.ffn_gate_exps.weight", WEIGHT_NOT_LOADED},
        {"mtp.layers.0.self_attn.q_proj.weight", WEIGHT_NOT_LOADED},
        {"model.visual.blocks.0.attn.qkv.weight", WEIGHT_NOT_LOADED},
        {"v.blk.0.attn_q.weight", WEIGHT_NOT_LOADED},
        {"model.layers.0.self_attn.rotary_emb.inv_freq", WEIGHT_NOT_LOADED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum weight_class got = weight_class_of(str_from(rows[i].name), 8);
        if (got != rows[i].class) {
            fail_msg("%s is %s", rows[i].name, weight_class_name(got));
        }
    }
    /* One after the other, with other numbers in them, and too long to be remembered. */
    struct weight_memo memo = {.rows = {{.bytes = 0}}};
    static const char long_name[] =
        "a.very.long.name.that.goes.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on."
        "model.layers.9.mlp.experts.3.up_proj.weight";
    static const char *const more[] = {
        "", "7", "blk.", "blk.1", "blk.x.layers.9", "layers.4294967304.x", "1.2.3.4.5.6.7.8.9.blk.9", long_name};
    size_t count = sizeof rows / sizeof rows[0] + sizeof more / sizeof more[0];
    for (uint32_t turn = 0; turn < 4; turn++) {
        for (size_t i = 0; i < count; i++) {
            char name[TENSOR_NAME_MAX];
            bool row = i < sizeof rows / sizeof rows[0];
            snprintf(name, sizeof name, "%s", row ? rows[i].name : more[i - sizeof rows / sizeof rows[0]]);
            for (char *at = name; turn > 1 && *at != '\0'; at++) {
                *at = *at >= '0' && *at <= '8' ? (char)(*at + 1) : *at;
            }
            uint32_t layers = turn % 2 == 0 ? 8 : 4;
            assert_int_equal(weight_class_next(&memo, str_from(name), layers), weight_class_of(str_from(name), layers));
        }
    }
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
            .is_device = flash || tree_get(tree_need(at, "logged_mib"), "Metal") != NULL,
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
        double got = (double)(flash || report.device_compute_bytes == 0 ? report.host_compute_bytes
                                                                        : report.device_compute_bytes) /
                     1048576;
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
        cmocka_unit_test(test_indexer),   cmocka_unit_test(test_compute),   cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_gguf_odd),  cmocka_unit_test(test_odd),       cmocka_unit_test(test_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
