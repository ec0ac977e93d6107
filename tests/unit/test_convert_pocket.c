/* SPDX-License-Identifier: MIT
 * The bundled model: what its card promises, and that converting it to itself gives the same bytes, tokenizer and all.
 */
#include "convert_help.h"

static const char *const pocket = BERTH_ROOT_DIR "/models/pocket-moe-q8_0.gguf";

static void pocket_is_what_the_card_says(void **state)
{
    (void)state;
    struct opened opened;
    struct hparams h;
    const struct family *family;
    berth_error error;
    struct str text;
    uint64_t id;
    help_open(&opened, pocket);
    help_ok(family_read(&opened.checkpoint, &family, &h, &error), &error);
    assert_string_equal(family->name, "qwen3-moe");
    assert_true(h.layers == 8 && h.hidden == 256 && h.heads == 4 && h.kv_heads == 2 && h.head_dim == 64);
    assert_true(h.experts == 64 && h.top_k == 8 && h.expert_ffn == 64 && h.norm_topk && h.tied_embeddings);
    assert_true(h.vocab == 8192 && h.ctx_max == 1024 && h.rope_theta == 10000.0f);
    assert_true(meta_str(&opened.checkpoint.meta, STR("tokenizer.ggml.pre"), &text) && str_is(text, "qwen2"));
    assert_true(meta_u64(&opened.checkpoint.meta, STR("tokenizer.ggml.eos_token_id"), &id) && id == 2);
    assert_true(meta_str(&opened.checkpoint.meta, STR("tokenizer.chat_template"), &text) && text.bytes > 100);
    uint64_t elems = 0;
    uint64_t expert_elems = 0;
    for (uint32_t i = 0; i < opened.checkpoint.tensors.count; i++) {
        const struct tensor *tensor = &opened.checkpoint.tensors.items[i];
        assert_int_equal(tensor->offset % 4096, 0);
        assert_int_equal(tensor->dtype == DTYPE_Q8_0,
                         tensor->dims_count > 1 && !str_ends(tensor->name, STR("ffn_gate_inp.weight")));
        elems += tensor_elems(tensor);
        expert_elems += tensor->dims_count == 3 ? tensor_elems(tensor) : 0;
        if (tensor->dims_count == 3) {
            assert_int_equal(tensor->bytes / 64, 17408);
        }
    }
    assert_int_equal(elems, 28972288);
    assert_int_equal(expert_elems, 25165824);
    help_close(&opened);
}

static void pocket_copies_to_itself(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config config = {.type = DTYPE_Q8_0, .alignment = 4096};
    help_ok(convert_run(pocket, help_path("again.gguf"), &config, false, &error), &error);
    help_same_files(pocket, help_path("again.gguf"));
    help_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pocket_is_what_the_card_says),
        cmocka_unit_test(pocket_copies_to_itself),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
