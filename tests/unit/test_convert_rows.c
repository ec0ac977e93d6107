/* SPDX-License-Identifier: MIT
 * Gate and up rows that alternate in one stored tensor, as gpt-oss has them (tests/golden/packed/tensors), come apart
 * on the way to GGUF; in one buffer and in many. */
#include "convert_help.h"

#include "convert/output.h"

enum { EXPERTS = 2, ROWS = 3, K = 96 };

static void write_parts(const struct checkpoint *checkpoint, const char *path, enum dtype type, uint64_t buffer_bytes)
{
    const struct tensor *source = tensor_find(&checkpoint->tensors, STR("experts.gate_up_proj_blocks"));
    assert_non_null(source);
    struct gguf_tensor tensors[2];
    struct convert_item items[2];
    uint64_t bytes = 0;
    assert_true(quant_row_bytes(type, (uint64_t)EXPERTS * ROWS * K, &bytes));
    for (uint32_t i = 0; i < 2; i++) {
        tensors[i] = (struct gguf_tensor){.name = i == 0 ? STR("gate") : STR("up"),
                                          .dtype = type,
                                          .dims_count = 3,
                                          .dims = {EXPERTS, ROWS, K},
                                          .bytes = bytes};
        items[i] = (struct convert_item){
            .source = SOURCE_TENSOR, .tensor = source, .rows = EXPERTS * ROWS, .k = K, .row_step = 2, .row_first = i};
    }
    struct convert_plan plan = {.tensors = tensors, .items = items, .count = 2, .cap = 2, .bytes = 2 * bytes};
    struct convert_config config = {.type = type, .threads = 2, .buffer_bytes = buffer_bytes};
    struct arena scratch;
    struct gguf_meta meta;
    berth_error error;
    help_ok(convert_reserve_scratch(&scratch, &error), &error);
    help_ok(convert_take_meta(&scratch, 1024, &meta, &error), &error);
    struct convert_output output = {.path = path,
                                    .config = &config,
                                    .recipe = convert_recipe_plain(type),
                                    .scratch = &scratch,
                                    .plan = &plan,
                                    .meta = &meta,
                                    .checkpoint = checkpoint};
    help_ok(convert_write(&output, &error), &error);
    os_release(scratch.base, scratch.cap_bytes);
}

static void rows_that_alternate_come_apart(void **state)
{
    (void)state;
    struct opened source;
    size_t bytes;
    float *values = (float *)(void *)help_read_file(GOLDEN_DIR "/packed/tensors/values.f32", &bytes);
    help_open(&source, GOLDEN_DIR "/packed/tensors");
    uint64_t at = 0; /* of the tensor's values: the file is in order of names */
    for (uint32_t i = 0; !str_is(source.checkpoint.tensors.items[i].name, "experts.gate_up_proj_blocks"); i++) {
        at += tensor_elems(&source.checkpoint.tensors.items[i]);
    }
    static const enum dtype types[] = {DTYPE_F32, DTYPE_MXFP4}; /* MXFP4 holds MXFP4 values without loss */
    for (int t = 0; t < 2; t++) {
        write_parts(&source.checkpoint, help_path("a.gguf"), types[t], 0);
        write_parts(&source.checkpoint, help_path("b.gguf"), types[t], 256 * 1024);
        help_same_files(help_path("a.gguf"), help_path("b.gguf"));
        struct opened result;
        help_open(&result, help_path("a.gguf"));
        for (uint32_t part = 0; part < 2; part++) {
            const struct tensor *tensor = tensor_find(&result.checkpoint.tensors, part == 0 ? STR("gate") : STR("up"));
            float *got = help_tensor_floats(&result, tensor);
            for (uint32_t row = 0; row < EXPERTS * ROWS; row++) {
                const float *want = values + at + (size_t)(2 * row + part) * K;
                for (uint32_t i = 0; i < K; i++) {
                    assert_true(got[row * K + i] == want[i]);
                }
            }
            free(got);
        }
        help_close(&result);
        help_clear();
    }
    help_close(&source);
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_alternate_come_apart),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
