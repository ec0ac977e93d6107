/* SPDX-License-Identifier: MIT
 *
 * Tensors with scales beside them: values of every kind against numpy's (tests/golden/packed/tensors, made by
 * tools/packed-fixtures), and files that are damaged or say what no layout means.
 */
#include "convert_help.h"

#include "support/budget.h"

#include <math.h>

/* ---- values ----------------------------------------------------------------------------------------- */

static float *values_of(const struct opened *opened, const struct tensor *tensor)
{
    uint64_t k = tensor->dims[tensor->dims_count - 1];
    uint64_t rows = tensor_elems(tensor) / k;
    uint64_t row_bytes = 0;
    assert_true(quant_row_bytes(tensor->dtype, k, &row_bytes));
    assert_int_equal(rows * row_bytes, tensor->bytes);
    unsigned char *w = help_tensor_bytes(opened, tensor);
    unsigned char *scales = help_tensor_bytes(opened, &tensor->side->scales);
    unsigned char *biases = tensor->side->biases.bytes > 0 ? help_tensor_bytes(opened, &tensor->side->biases) : NULL;
    const struct packed_side side = {.format = tensor->side->format,
                                     .scales = scales,
                                     .biases = biases,
                                     .row_bytes = packed_groups(&tensor->side->format, k) *
                                                  quant_row(tensor->side->scales.dtype)->block_bytes};
    float *out = malloc((size_t)(rows * k) * sizeof *out);
    assert_non_null(out);
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t at = 0; at < k; at += 48) { /* pieces that no group begins or ends with */
            size_t n = k - at < 48 ? (size_t)(k - at) : 48;
            packed_dequantise(tensor->dtype, &side, w + row * row_bytes, row, at, n, out + row * k + at);
        }
    }
    free(w);
    free(scales);
    free(biases);
    return out;
}

static void layouts_values_equal_numpy(void **state)
{
    (void)state;
    struct opened opened;
    size_t bytes;
    float *want = (float *)(void *)help_read_file(GOLDEN_DIR "/packed/tensors/values.f32", &bytes);
    help_open(&opened, GOLDEN_DIR "/packed/tensors");
    unsigned kinds[4] = {0};
    uint64_t at = 0;
    for (uint32_t t = 0; t < opened.checkpoint.tensors.count; t++) {
        const struct tensor *tensor = &opened.checkpoint.tensors.items[t];
        assert_non_null(tensor->side); /* scales and biases have left the directory */
        kinds[tensor->side->format.kind]++;
        float *got = values_of(&opened, tensor);
        uint64_t count = tensor_elems(tensor);
        assert_true((at + count) * sizeof *want <= bytes);
        for (uint64_t i = 0; i < count; i++) {
            double error = fabs((double)got[i] - (double)want[at + i]);
            if (!(error <= 1e-6 * fabs((double)want[at + i]))) {
                fail_msg("%.*s: value %llu is %g, numpy has %g", STR_ARG(tensor->name), (unsigned long long)i,
                         (double)got[i], (double)want[at + i]);
            }
        }
        at += count;
        free(got);
    }
    assert_int_equal(at * sizeof *want, bytes);
    assert_int_equal(kinds[PACKED_AFFINE], 19);
    assert_int_equal(kinds[PACKED_TILES], 3);
    assert_int_equal(kinds[PACKED_MXFP4], 1);
    const struct tensor *fused = tensor_find(&opened.checkpoint.tensors, STR("experts.gate_up_proj_blocks"));
    assert_non_null(fused);
    assert_int_equal(fused->dims_count, 3);
    assert_int_equal(fused->dims[2], 96);
    help_close(&opened);
    free(want);
}

static void layouts_special_codes(void **state)
{
    (void)state;
    unsigned char codes[16] = {0x7f, 0xff, 0x00, 0x80, 0x01, 0x81, 0x08, 0x7e, 0xfe, 0x38, 0xb8};
    const float one = 1;
    float out[16];
    struct packed_side side = {.format = {PACKED_TILES, DTYPE_F32, 128, 128}, .scales = &one, .row_bytes = 4};
    packed_dequantise(DTYPE_F8_E4M3, &side, codes, 0, 0, 16, out);
    assert_true(isnan(out[0]) && isnan(out[1]));
    static const float want[] = {0, -0.0f, 0x1p-9f, -0x1p-9f, 0x1p-6f, 448, -448, 1, -1};
    for (int i = 0; i < 9; i++) {
        assert_true(out[2 + i] == want[i] && signbit(out[2 + i]) == signbit(want[i]));
    }
    unsigned char nibbles[16];
    for (int i = 0; i < 16; i++) {
        nibbles[i] = (unsigned char)(i % 8 * 2 | (i % 8 * 2 + 1) << 4);
    }
    static const float levels[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    static const unsigned char exponents[] = {127, 128, 0, 1, 254, 255};
    for (size_t e = 0; e < sizeof exponents; e++) {
        float values[32];
        side = (struct packed_side){.format = {PACKED_MXFP4, DTYPE_U8, 32, 1}, .scales = &exponents[e], .row_bytes = 1};
        packed_dequantise(DTYPE_MXFP4_ROWS, &side, nibbles, 0, 0, 32, values);
        for (int i = 0; i < 32; i++) {
            double exact = ldexp((double)levels[i % 16], exponents[e] - 127);
            assert_true(exponents[e] == 255 ? isnan(values[i]) : (double)values[i] == (double)(float)exact);
        }
    }
}

/* ---- files that are wrong --------------------------------------------------------------------------- */

/* A safetensors file whose tensors are all zeros. `tensors`: "name dtype dim,dim;..." */
static void write_checkpoint(const char *config, const char *tensors)
{
    static unsigned char file[1 << 20];
    char header[4096] = "{";
    size_t head = 1;
    uint64_t at = 0;
    char spec[2048];
    snprintf(spec, sizeof spec, "%s", tensors);
    char *rest = NULL;
    for (char *item = strtok_r(spec, ";", &rest); item != NULL; item = strtok_r(NULL, ";", &rest)) {
        char name[128];
        char dtype[16];
        char dims[64];
        assert_int_equal(sscanf(item, "%127s %15s %63s", name, dtype, dims), 3);
        uint64_t elems = 1;
        char copy[64];
        char *more = NULL;
        snprintf(copy, sizeof copy, "%s", dims);
        for (char *d = strtok_r(copy, ",", &more); d != NULL; d = strtok_r(NULL, ",", &more)) {
            elems *= strtoull(d, NULL, 10);
        }
        uint64_t bytes = elems * quant_row(quant_from_safetensors(str_from(dtype)))->block_bytes;
        head += (size_t)snprintf(header + head, sizeof header - head,
                                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
                                 head > 1 ? "," : "", name, dtype, dims, (unsigned long long)at,
                                 (unsigned long long)(at + bytes));
        at += bytes;
    }
    header[head++] = '}';
    uint64_t length = head;
    memset(file, 0, sizeof file);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, head);
    assert_true(8 + head + at <= sizeof file);
    mkdir(help_path("m"), 0700);
    help_write_file(help_path("m/config.json"), config, strlen(config));
    help_write_file(help_path("m/model.safetensors"), file, 8 + head + (size_t)at);
}

static berth_status open_status(berth_error *error)
{
    struct arena scratch;
    struct checkpoint checkpoint;
    void *base;
    help_ok(os_reserve(NULL, 64 << 20, false, &base, error), error);
    arena_carve(&scratch, base, 64 << 20);
    berth_status status = checkpoint_open(&checkpoint, help_path("m"), CHECKPOINT_WANT_TENSORS, &scratch, NULL, error);
    if (status == BERTH_OK) {
        checkpoint_close(&checkpoint);
    }
    os_release(base, 64 << 20);
    return status;
}

#define MLX "{\"quantization\": {\"group_size\": 64, \"bits\": 4}}"
#define AFFINE "a.weight U32 8,16;a.scales BF16 8,2;a.biases BF16 8,2"

static void layouts_damaged_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *tensors;
        const char *message; /* part of the error; NULL: opens */
        const char *object;
    } cases[] = {
        {MLX, AFFINE, NULL, NULL},
        {"{\"quantization\": {\"group_size\": 32, \"bits\": 2, \"a\": {\"group_size\": 64, \"bits\": 4}}}", AFFINE,
         NULL, NULL},
        {"{\"quantization\": null, \"quantization_config\": {\"group_size\": 64, \"bits\": 4}}", AFFINE, NULL, NULL},
        {"{}", AFFINE, "no \"quantization\" with bits and group_size", "a.weight"},
        {"{\"quantization\": {\"group_size\": 64}}", AFFINE, "no \"quantization\"", "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 7}}", AFFINE, "7 bits in groups of 64, wanted 2, 3, 4",
         "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 0}}", AFFINE, "0 bits", "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 16}}", AFFINE, "16 bits", "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 4.5}}", AFFINE, "has 4.5 for bits, wanted whole",
         "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": -1}, \"quantization_config\": {\"group_size\": 64, "
         "\"bits\": 4}}",
         AFFINE, "has -1 for bits", "a.weight"},
        {"{\"quantization\": {\"group_size\": \"x\", \"bits\": 4}, \"quantization_config\": {\"group_size\": 64, "
         "\"bits\": 4}}",
         AFFINE, "has x for group_size", "a.weight"},
        {"{\"quantization\": {\"group_size\": [], \"bits\": 4}}", AFFINE, "for group_size, wanted", "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": NaN}}", AFFINE, "for bits, wanted", "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 1e300}}", AFFINE, "has 1e300 for bits", "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 18446744073709551616}}", AFFINE, "for bits, wanted",
         "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"a\": {\"bits\": -4}}}", AFFINE, "has -4 for bits",
         "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"a\": 7}}", AFFINE, "has 7 for bits", "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"a\": {\"bits\": null}, \"b\": false}}", AFFINE, NULL,
         NULL},
        {"{\"quantization_config\": {\"fmt\": \"e4m3\", \"activation_scheme\": \"dynamic\"}}",
         "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 2,2", NULL, NULL},
        {"{\"quantization_config\": {\"fmt\": \"e5m2\"}}", "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 2,2",
         "\"fmt\" of quantization_config is not known here", "a.weight"},
        {"{\"quantization_config\": {\"fmt\": -1}}", "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 2,2",
         "\"fmt\" of quantization_config", "a.weight"},
        {"{\"quantization_config\": {\"activation_scheme\": 7}}", "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 2,2",
         "\"activation_scheme\" of quantization_config", "a.weight"},
        {"{\"quantization\": {\"group_size\": 48, \"bits\": 4}}", AFFINE, "groups of 48", "a.weight"},
        {"{\"quantization\": {\"group_size\": 0, \"bits\": 4}}", AFFINE, "groups of 0", "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 6}}", AFFINE, "rows of 16 words", "a.weight"},
        {"{\"quantization\": {\"group_size\": 32, \"bits\": 4}}", AFFINE, "shape [8, 2], wanted [8, 4]", "a.scales"},
        {MLX, "a.weight U32 8,20;a.scales BF16 8,2;a.biases BF16 8,2", "rows of 20 words", "a.weight"},
        {MLX, "a.weight U32 8,16;a.scales BF16 8,2", "no a.biases beside it", "a.weight"},
        {MLX, "a.weight U32 8,16;a.scales BF16 8,3;a.biases BF16 8,2", "shape [8, 3], wanted [8, 2]", "a.scales"},
        {MLX, "a.weight U32 8,16;a.scales BF16 7,2;a.biases BF16 8,2", "shape [7, 2], wanted [8, 2]", "a.scales"},
        {MLX, "a.weight U32 8,16;a.scales BF16 8,2;a.biases BF16 16", "shape [16], wanted [8, 2]", "a.biases"},
        {MLX, "a.weight U32 8,16;a.scales BF16 8,2;a.biases BF16 8,0", "shape [8, 0], wanted [8, 2]", "a.biases"},
        {MLX, "a.weight U32 8,16;a.scales BF16 8,2;a.biases F16 8,2", "has type F16, its scales have BF16", "a.biases"},
        {MLX, "a.weight U32 8,16;a.scales U8 8,2;a.biases U8 8,2", "has type U8, wanted F16, BF16 or F32", "a.scales"},
        {MLX, "a.weight I32 8,16;a.scales BF16 8,2;a.biases BF16 8,2", "type I32, wanted U32", "a.weight"},
        {"{\"quantization\": {\"group_size\": 32, \"bits\": 4, \"mode\": \"mxfp4\"}}",
         "a.weight U32 8,16;a.scales U8 8,4", NULL, NULL},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"mode\": \"mxfp4\"}}",
         "a.weight U32 8,16;a.scales U8 8,2", "wanted 4 bits in groups of 32", "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"mode\": \"affine\"}}", AFFINE, NULL, NULL},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"mode\": \"nvfp4\"}}", AFFINE, "wanted affine or mxfp4",
         "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"mode\": 4}}", AFFINE, "wanted affine or mxfp4",
         "a.weight"},
        {"{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"a\": {\"mode\": \"mxfp8\"}}}", AFFINE,
         "wanted affine or mxfp4", "a.weight"},
        {"{}", "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 2,2", NULL, NULL},
        {"{}", "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 1,2", "shape [1, 2], wanted [2, 2]",
         "a.weight_scale_inv"},
        {"{}", "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 1", "shape [1], wanted [2, 2]", "a.weight_scale_inv"},
        {"{}", "a.weight F8_E4M3 130,144;a.weight_scale_inv I32 2,2", "type I32, wanted F16, BF16",
         "a.weight_scale_inv"},
        {"{}", "a.weight BF16 130,144;a.weight_scale_inv F32 2,2", "type BF16, wanted F8_E4M3", "a.weight"},
        {"{}", "a.weight F8_E4M3 130,150;a.weight_scale_inv F32 2,2", "a multiple of 16", "a.weight"},
        {"{}", "a.weight F8_E4M3 2,65,144;a.weight_scale_inv F32 2,1,2", "wanted two dims", "a.weight"},
        {"{\"quantization_config\": {\"weight_block_size\": [64, 48]}}",
         "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 3,3", NULL, NULL},
        {"{\"quantization_config\": {\"weight_block_size\": [0, 128]}}",
         "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 2,2", "weight_block_size is 0 x 128", "a.weight"},
        {"{\"quantization_config\": {\"weight_block_size\": [128, 100]}}",
         "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 2,2", "128 x 100", "a.weight"},
        {"{\"quantization_config\": {\"weight_block_size\": [128]}}",
         "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 2,2", "not a list of two numbers", "a.weight"},
        {"{\"quantization_config\": {\"weight_block_size\": 128}}",
         "a.weight F8_E4M3 130,144;a.weight_scale_inv F32 2,2", "not a list of two numbers", "a.weight"},
        {"{}", "x_blocks U8 2,6,3,16;x_scales U8 2,6,3", NULL, NULL},
        {"{}", "x_blocks U8 2,6,3,8;x_scales U8 2,6,3", "wanted [.., blocks, 16]", "x_blocks"},
        {"{}", "x_blocks U8 6,16;x_scales U8 6", "wanted [.., blocks, 16]", "x_blocks"},
        {"{}", "x_blocks U8 2,6,3,16;x_scales U8 2,6,2", "shape [2, 6, 2], wanted [2, 6, 3]", "x_scales"},
        {"{}", "x_blocks U8 2,6,3,16;x_scales F32 2,6,3", "type F32, wanted U8", "x_scales"},
        {"{}", "a.scales F32 4;b.weight F32 4", NULL, NULL}, /* scales of nothing: whoever reads the tensors refuses */
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        berth_error error = {.status = BERTH_OK};
        write_checkpoint(cases[c].config, cases[c].tensors);
        berth_status status = open_status(&error);
        bool as_wanted = cases[c].message == NULL ? status == BERTH_OK
                                                  : (status == BERTH_ERR_FORMAT || status == BERTH_ERR_UNSUPPORTED) &&
                                                        strstr(error.message, cases[c].message) != NULL &&
                                                        strcmp(error.object, cases[c].object) == 0 &&
                                                        strstr(error.path, "model.safetensors") != NULL;
        if (!as_wanted) {
            fail_msg("case %zu (%s; %s): status %d, \"%s\" [%s] [%s]", c, cases[c].config, cases[c].tensors, status,
                     status == BERTH_OK ? "" : error.message, error.path, error.object);
        }
        unlink(help_path("m/config.json"));
        unlink(help_path("m/model.safetensors"));
    }
}

/* ---- damaged models --------------------------------------------------------------------------------- */

/* A copy of a packed golden with `bytes` at the start of one tensor replaced, or one name changed. */
static void copy_model(const char *model, const char *tensor, const void *bytes, size_t count)
{
    char path[700];
    struct opened opened;
    size_t size;
    snprintf(path, sizeof path, "%s/packed/%s", GOLDEN_DIR, model);
    help_open(&opened, path);
    uint64_t at = 0;
    for (uint32_t i = 0; i < opened.checkpoint.tensors.count; i++) {
        const struct tensor *t = &opened.checkpoint.tensors.items[i];
        at = str_is(t->name, tensor) && t->side != NULL ? t->side->scales.offset : at;
    }
    help_close(&opened);
    assert_true(at > 0);
    mkdir(help_path("m"), 0700);
    snprintf(path, sizeof path, "%s/packed/%s/config.json", GOLDEN_DIR, model);
    unsigned char *file = help_read_file(path, &size);
    help_write_file(help_path("m/config.json"), file, size);
    free(file);
    snprintf(path, sizeof path, "%s/packed/%s/model.safetensors", GOLDEN_DIR, model);
    file = help_read_file(path, &size);
    memcpy(file + at, bytes, count);
    help_write_file(help_path("m/model.safetensors"), file, size);
    free(file);
}

static void layouts_scales_that_are_not_finite(void **state)
{
    (void)state;
    static const unsigned char nan_bf16[2] = {0xc0, 0x7f};
    static const struct {
        const char *model, *tensor, *gguf;
    } cases[] = {
        {"qwen3-moe-mlx4", "model.layers.1.self_attn.q_proj.weight", "blk.1.attn_q.weight"},
        {"qwen3-moe-fp8", "model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight"},
        {"qwen3-moe-mlx4", "model.layers.0.mlp.switch_mlp.up_proj.weight", "blk.0.ffn_up_exps.weight"},
    };
    for (size_t c = 0; c < 3; c++) {
        berth_error error;
        copy_model(cases[c].model, cases[c].tensor, nan_bf16, sizeof nan_bf16);
        static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_Q8_0};
        for (int t = 0; t < 3; t++) {
            struct convert_config config = {.type = types[t]};
            assert_int_equal(convert_run(help_path("m"), help_path("o.gguf"), &config, false, &error),
                             BERTH_ERR_FORMAT);
            assert_non_null(strstr(error.message, "not finite"));
            assert_string_equal(error.object, cases[c].gguf);
        }
        if (c < 2) { /* the trunk is read when the model opens */
            berth_model *model = NULL;
            berth_model_config config = BERTH_MODEL_CONFIG_INIT;
            config.budget_bytes = TEST_ROOMY_BYTES;
            config.ctx_tokens = 64;
            assert_int_equal(berth_model_open(help_path("m"), &config, &model, &error), BERTH_ERR_FORMAT);
            assert_non_null(strstr(error.message, "is not finite"));
            assert_string_equal(error.object, cases[c].tensor);
        }
        unlink(help_path("m/config.json"));
        unlink(help_path("m/model.safetensors"));
    }
}

/* Words of packed quants that have lost their scales are not just a wrong shape. */
static void layouts_scales_that_are_missing(void **state)
{
    (void)state;
    size_t size;
    unsigned char *file = help_read_file(GOLDEN_DIR "/packed/qwen3-moe-mlx4/config.json", &size);
    mkdir(help_path("m"), 0700);
    help_write_file(help_path("m/config.json"), file, size);
    free(file);
    file = help_read_file(GOLDEN_DIR "/packed/qwen3-moe-mlx4/model.safetensors", &size);
    static const char name[] = "layers.1.self_attn.q_proj.scales";
    size_t at = 0;
    while (at + sizeof name < size && memcmp(file + at, name, sizeof name - 1) != 0) {
        at++;
    }
    assert_true(at + sizeof name < size);
    file[at + sizeof name - 2] = 'z';
    help_write_file(help_path("m/model.safetensors"), file, size);
    free(file);
    struct convert_config config = {.type = DTYPE_F32};
    berth_error error;
    assert_int_equal(convert_run(help_path("m"), help_path("o.gguf"), &config, false, &error), BERTH_ERR_FORMAT);
    assert_non_null(strstr(error.message, "its scales are missing: .scales"));
    assert_string_equal(error.object, "model.layers.1.self_attn.q_proj.weight");
    unlink(help_path("m/config.json"));
    unlink(help_path("m/model.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_values_equal_numpy),        cmocka_unit_test(layouts_special_codes),
        cmocka_unit_test(layouts_damaged_files_are_refused), cmocka_unit_test(layouts_scales_that_are_not_finite),
        cmocka_unit_test(layouts_scales_that_are_missing),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
