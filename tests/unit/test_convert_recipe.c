/* SPDX-License-Identifier: MIT
 * Which format each matrix gets. Expected formats: what llama.cpp 0.5.0 made of files of these shapes. */
#include "convert_help.h"

static void recipe_names_are_found(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (; convert_recipe_row(count) != NULL; count++) {
        const struct convert_recipe *row = convert_recipe_row(count);
        assert_ptr_equal(convert_recipe_find(str_from(row->name)), row);
        assert_non_null(quant_row(row->base)->quantise);
        assert_non_null(quant_row(row->head)->quantise);
    }
    assert_true(count >= 20);
    assert_int_equal(convert_recipe_find(STR("Q4_K_M"))->file_type, 15);
    assert_null(convert_recipe_find(STR("q4_k_mm")));
    assert_null(convert_recipe_find(STR("")));
    assert_null(convert_recipe_plain(DTYPE_IQ2_XXS)); /* no writer */
    assert_null(convert_recipe_plain(DTYPE_COUNT));
    assert_string_equal(convert_recipe_plain(DTYPE_Q6_K)->name, "q6_k");
}

static enum dtype type_of(const char *recipe, const struct recipe_model *model, const char *name, uint64_t k)
{
    bool fell_back = false;
    const struct convert_recipe *row = convert_recipe_find(str_from(recipe));
    assert_non_null(row);
    enum dtype type = convert_recipe_type(row, NULL, model, str_from(name), k, &fell_back);
    assert_int_equal(k % quant_row(type)->block_elems, 0);
    return type;
}

static void recipe_mixes_spend_bits_where_llama_cpp_does(void **state)
{
    (void)state;
    const struct recipe_model qwen = {.layers = 48, .experts = 128, .query_groups = 8};
    const struct recipe_model tied = {.layers = 8, .experts = 64, .query_groups = 2, .tied = true};
    const struct recipe_model mixtral = {.layers = 32, .experts = 8, .query_groups = 4};
    const struct {
        const struct recipe_model *model;
        const char *recipe, *name;
        uint64_t k;
        enum dtype want;
    } cases[] = {
        {&qwen, "q4_k_m", "output.weight", 2048, DTYPE_Q6_K},
        {&qwen, "q4_k_m", "token_embd.weight", 2048, DTYPE_Q4_K},
        {&tied, "q4_k_m", "token_embd.weight", 256, DTYPE_Q6_K},
        {&qwen, "q4_k_m", "blk.0.attn_v.weight", 2048, DTYPE_Q6_K},
        {&qwen, "q4_k_m", "blk.5.attn_v.weight", 2048, DTYPE_Q6_K},
        {&qwen, "q4_k_m", "blk.6.attn_v.weight", 2048, DTYPE_Q4_K},
        {&qwen, "q4_k_m", "blk.8.ffn_down_exps.weight", 768, DTYPE_Q6_K},
        {&qwen, "q4_k_m", "blk.9.ffn_down_exps.weight", 768, DTYPE_Q4_K},
        {&qwen, "q4_k_m", "blk.42.ffn_down_exps.weight", 768, DTYPE_Q6_K},
        {&qwen, "q4_k_m", "blk.41.ffn_down_exps.weight", 768, DTYPE_Q6_K},
        {&qwen, "q4_k_m", "blk.0.ffn_gate_exps.weight", 2048, DTYPE_Q4_K},
        {&qwen, "q4_k", "blk.0.attn_v.weight", 2048, DTYPE_Q4_K},
        {&qwen, "q4_k_s", "blk.3.attn_v.weight", 2048, DTYPE_Q5_K},
        {&qwen, "q4_k_s", "blk.4.attn_v.weight", 2048, DTYPE_Q4_K},
        {&qwen, "q4_k_s", "blk.5.ffn_down_exps.weight", 768, DTYPE_Q5_K},
        {&qwen, "q4_k_s", "blk.6.ffn_down_exps.weight", 768, DTYPE_Q4_K},
        {&qwen, "q5_k_m", "blk.0.ffn_down_exps.weight", 768, DTYPE_Q6_K},
        {&qwen, "q3_k_m", "blk.1.attn_v.weight", 2048, DTYPE_Q5_K},
        {&qwen, "q3_k_m", "blk.2.attn_v.weight", 2048, DTYPE_Q4_K},
        {&qwen, "q3_k_m", "blk.2.ffn_down_exps.weight", 768, DTYPE_Q5_K},
        {&qwen, "q3_k_m", "blk.3.ffn_down_exps.weight", 768, DTYPE_Q4_K},
        {&qwen, "q3_k_m", "blk.3.ffn_up_exps.weight", 2048, DTYPE_Q3_K},
        {&qwen, "q3_k_l", "blk.3.attn_output.weight", 4096, DTYPE_Q5_K},
        {&qwen, "q2_k", "blk.3.attn_v.weight", 2048, DTYPE_Q4_K},
        {&tied, "q2_k", "blk.3.attn_v.weight", 256, DTYPE_Q3_K},
        {&qwen, "mxfp4", "blk.3.ffn_up_exps.weight", 2048, DTYPE_MXFP4},
        {&qwen, "mxfp4", "blk.3.attn_q.weight", 2048, DTYPE_Q8_0},
        {&mixtral, "q4_k_m", "blk.9.attn_v.weight", 4096, DTYPE_Q8_0},
        {&mixtral, "q4_k_m", "blk.9.attn_k.weight", 4096, DTYPE_Q8_0},
        {&mixtral, "q4_k_m", "blk.9.attn_output.weight", 4096, DTYPE_Q5_K},
        {&mixtral, "q3_k_l", "blk.9.attn_output.weight", 4096, DTYPE_Q3_K},
        {&mixtral, "q5_k_m", "blk.9.attn_output.weight", 4096, DTYPE_Q5_K},
        /* Rows that no super-block divides, and rows that no block divides. */
        {&tied, "q4_k_m", "blk.0.ffn_down_exps.weight", 64, DTYPE_Q8_0},
        {&tied, "q4_k_m", "blk.1.ffn_down_exps.weight", 64, DTYPE_Q5_0},
        {&tied, "q5_k_m", "blk.1.ffn_down_exps.weight", 64, DTYPE_Q5_1},
        {&tied, "q3_k_s", "blk.1.ffn_down_exps.weight", 64, DTYPE_Q4_0},
        {&tied, "iq4_xs", "blk.1.ffn_down_exps.weight", 64, DTYPE_IQ4_NL},
        {&tied, "q4_k_m", "blk.1.ffn_down_exps.weight", 40, DTYPE_F16},
        {&tied, "q8_0", "blk.1.ffn_down_exps.weight", 40, DTYPE_F16},
        /* Names that only look like a layer's. */
        {&tied, "q4_k_m", "blk..attn_v.weight", 256, DTYPE_Q4_K},
        {&tied, "q4_k_m", "blk.99999999999.attn_v.weight", 256, DTYPE_Q4_K},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum dtype got = type_of(cases[i].recipe, cases[i].model, cases[i].name, cases[i].k);
        if (got != cases[i].want) {
            fail_msg("%s in %s with rows of %llu: %s, want %s", cases[i].name, cases[i].recipe,
                     (unsigned long long)cases[i].k, quant_row(got)->name, quant_row(cases[i].want)->name);
        }
    }
}

static void recipe_overrides_come_first(void **state)
{
    (void)state;
    const struct recipe_model model = {.layers = 8, .experts = 64, .query_groups = 2};
    const struct convert_recipe *recipe = convert_recipe_find(STR("q4_k_m"));
    const char *list = "blk.1.ffn_gate=Q5_K,ffn_gate=q6_k,attn_q=mxfp4,norm=q8_0";
    bool fell_back = false;
    berth_error error;
    help_ok(convert_check_overrides(list, &error), &error);
    const struct {
        const char *name;
        enum dtype want;
    } cases[] = {{"blk.1.ffn_gate_exps.weight", DTYPE_Q5_K},
                 {"blk.2.ffn_gate_exps.weight", DTYPE_Q6_K},
                 {"blk.2.attn_q.weight", DTYPE_MXFP4},
                 {"blk.1.attn_k.weight", DTYPE_Q4_K}};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(convert_recipe_type(recipe, list, &model, str_from(cases[i].name), 2048, &fell_back),
                         cases[i].want);
    }
    static const char *const bad[] = {"a", "a=", "=q8_0", "a=q8_0,b", "a=q8_1", "a=iq2_xxs", "a=q4_k_m", ",a=q8_0"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(convert_check_overrides(bad[i], &error), BERTH_ERR_ARGUMENT);
    }
    help_ok(convert_check_overrides("", &error), &error);
    /* Vectors and routers are no matrices. */
    struct convert_config config = {.recipe = recipe, .overrides = "=q8_0"};
    assert_int_equal(convert_run(help_golden("olmoe"), help_path("o.gguf"), &config, false, &error),
                     BERTH_ERR_ARGUMENT);
    config.overrides = "blk.=q8_0";
    help_ok(convert_run(help_golden("olmoe"), help_path("o.gguf"), &config, false, &error), &error);
    struct opened opened;
    help_open(&opened, help_path("o.gguf"));
    assert_int_equal(tensor_find(&opened.checkpoint.tensors, STR("blk.0.attn_norm.weight"))->dtype, DTYPE_F32);
    assert_int_equal(tensor_find(&opened.checkpoint.tensors, STR("blk.0.ffn_gate_inp.weight"))->dtype, DTYPE_F32);
    assert_int_equal(tensor_find(&opened.checkpoint.tensors, STR("blk.0.attn_q.weight"))->dtype, DTYPE_Q8_0);
    help_close(&opened);
    help_clear();
}

/* Every recipe: written from safetensors and from the F32 file of it, in one buffer and in many, the same bytes; a file
 * that is converted to its own recipe stays as it is. */
static void recipe_files_do_not_depend_on_the_way(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config wide = {.type = DTYPE_F32};
    help_ok(convert_run(help_golden("qwen3-moe"), help_path("wide.gguf"), &wide, false, &error), &error);
    for (uint32_t i = 0; convert_recipe_row(i) != NULL; i++) {
        struct convert_config config = {.recipe = convert_recipe_row(i), .threads = 1};
        struct convert_config small = {.recipe = convert_recipe_row(i), .threads = 3, .buffer_bytes = 256 * 1024};
        help_ok(convert_run(help_golden("qwen3-moe"), help_path("a.gguf"), &config, true, &error), &error);
        help_ok(convert_run(help_golden("qwen3-moe"), help_path("b.gguf"), &small, true, &error), &error);
        help_same_files(help_path("a.gguf"), help_path("b.gguf"));
        help_ok(convert_run(help_path("a.gguf"), help_path("b.gguf"), &config, true, &error), &error);
        help_same_files(help_path("a.gguf"), help_path("b.gguf"));
        struct opened direct;
        struct opened via;
        help_ok(convert_run(help_path("wide.gguf"), help_path("b.gguf"), &config, true, &error), &error);
        help_open(&direct, help_path("a.gguf"));
        help_open(&via, help_path("b.gguf"));
        uint64_t file_type = 0;
        assert_true(meta_u64(&direct.checkpoint.meta, STR("general.file_type"), &file_type));
        assert_int_equal(file_type, convert_recipe_row(i)->file_type);
        for (uint32_t t = 0; t < direct.checkpoint.tensors.count; t++) {
            const struct tensor *a = &direct.checkpoint.tensors.items[t];
            const struct tensor *b = &via.checkpoint.tensors.items[t];
            assert_true(str_equal(a->name, b->name));
            assert_int_equal(a->dtype, b->dtype);
            unsigned char *x = help_tensor_bytes(&direct, a);
            unsigned char *y = help_tensor_bytes(&via, b);
            assert_memory_equal(x, y, (size_t)a->bytes);
            free(x);
            free(y);
        }
        help_close(&direct);
        help_close(&via);
    }
    help_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recipe_names_are_found),
        cmocka_unit_test(recipe_mixes_spend_bits_where_llama_cpp_does),
        cmocka_unit_test(recipe_overrides_come_first),
        cmocka_unit_test(recipe_files_do_not_depend_on_the_way),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
