/* SPDX-License-Identifier: MIT
 * The format table, its look-ups, and the converters against ggml's blocks (tests/golden/quant). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "quant/quant.h"

enum { VALUES = 1024 };

static void read_golden(const char *name, void *out, size_t bytes)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/golden/quant/%s", BERTH_TESTS_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(out, 1, bytes, file), bytes);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}

static void table_every_row_is_filled(void **state)
{
    (void)state;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        const struct quant_row *row = quant_row((enum dtype)t);
        assert_non_null(row->name);
        assert_true(row->block_elems >= 1 && row->block_bytes >= 1);
        assert_int_equal(quant_from_name(str_from(row->name)), t);
        if (row->ggml_id >= 0) {
            assert_int_equal(quant_from_ggml((uint32_t)row->ggml_id), t);
        }
        if (row->safetensors != NULL) {
            assert_int_equal(quant_from_safetensors(str_from(row->safetensors)), t);
        }
        assert_true((row->act == ACT_NONE) == (row->dequantise == NULL));
    }
}

static void lookup_unknown_gives_count(void **state)
{
    (void)state;
    assert_int_equal(quant_from_ggml(9), DTYPE_COUNT); /* Q8_1: an activation format, never stored */
    assert_int_equal(quant_from_ggml(4), DTYPE_COUNT);
    assert_int_equal(quant_from_ggml(UINT32_MAX), DTYPE_COUNT); /* must not match the -1 of "no id" */
    assert_int_equal(quant_from_safetensors(STR("f32")), DTYPE_COUNT);
    assert_int_equal(quant_from_safetensors(STR("Q8_0")), DTYPE_COUNT);
    assert_int_equal(quant_from_safetensors(STR("")), DTYPE_COUNT);
    assert_int_equal(quant_from_name(STR("q8_0x")), DTYPE_COUNT);
    assert_int_equal(quant_from_name(STR("q4_k")), DTYPE_Q4_K);
    assert_int_equal(quant_from_name(STR("bF16")), DTYPE_BF16);
}

static void row_bytes_checks_blocks_and_overflow(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    assert_true(quant_row_bytes(DTYPE_Q8_0, 2048, &bytes));
    assert_int_equal(bytes, 2176);
    assert_true(quant_row_bytes(DTYPE_Q4_K, 512, &bytes));
    assert_int_equal(bytes, 288);
    assert_false(quant_row_bytes(DTYPE_Q8_0, 33, &bytes));
    assert_false(quant_row_bytes(DTYPE_Q6_K, 128, &bytes));
    assert_false(quant_row_bytes(DTYPE_F32, UINT64_MAX / 4 + 1, &bytes));
    assert_true(quant_row_bytes(DTYPE_F32, UINT64_MAX / 4, &bytes));
    assert_int_equal(act_row_bytes(ACT_F32, 100), 400);
    assert_int_equal(act_row_bytes(ACT_Q8, 64), 64 + 2 * 8);
    assert_int_equal(act_row_bytes(ACT_NONE, 64), 0);
}

static void quantise_equals_ggml_bit_for_bit(void **state)
{
    (void)state;
    static float input[VALUES];
    static unsigned char want[VALUES * 2];
    static unsigned char got[VALUES * 2 + 1];
    read_golden("input.f32", input, sizeof input);
    const struct {
        enum dtype type;
        const char *file;
    } cases[] = {{DTYPE_Q8_0, "q8_0.blocks"}, {DTYPE_F16, "f16.blocks"}, {DTYPE_BF16, "bf16.blocks"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint64_t bytes = 0;
        assert_true(quant_row_bytes(cases[c].type, VALUES, &bytes));
        read_golden(cases[c].file, want, (size_t)bytes);
        for (size_t shift = 0; shift < 2; shift++) { /* blocks at odd addresses too */
            memset(got, 0xaa, sizeof got);
            quant_row(cases[c].type)->quantise(input, got + shift, VALUES);
            assert_memory_equal(got + shift, want, (size_t)bytes);
        }
    }
}

static void dequantise_then_quantise_keeps_every_16_bit_pattern(void **state)
{
    (void)state;
    const enum dtype types[] = {DTYPE_F16, DTYPE_BF16};
    for (size_t t = 0; t < 2; t++) {
        for (uint32_t h = 0; h < 0x10000; h++) {
            uint16_t in = (uint16_t)h;
            uint16_t back = 0;
            float value = 0;
            quant_row(types[t])->dequantise(&in, &value, 1);
            quant_row(types[t])->quantise(&value, &back, 1);
            if (isnan(value)) {
                float again = 0;
                quant_row(types[t])->dequantise(&back, &again, 1);
                assert_true(isnan(again));
            } else {
                assert_int_equal(back, in);
            }
        }
    }
}

static void q8_0_dequantise_is_scale_times_quant(void **state)
{
    (void)state;
    unsigned char block[35];
    float out[32];
    uint16_t d = f16_from_f32(0.25f);
    memcpy(block + 1, &d, 2);
    for (int i = 0; i < 32; i++) {
        block[3 + i] = (unsigned char)(i * 8 - 128);
    }
    quant_row(DTYPE_Q8_0)->dequantise(block + 1, out, 32);
    for (int i = 0; i < 32; i++) {
        assert_true(out[i] == 0.25f * (float)(i * 8 - 128));
    }
}

static void q8_0_quantise_edge_blocks(void **state)
{
    (void)state;
    float in[32] = {0};
    float out[32];
    unsigned char block[34];
    quant_row(DTYPE_Q8_0)->quantise(in, block, 32); /* zeros stay zeros */
    for (int i = 0; i < 34; i++) {
        assert_int_equal(block[i], 0);
    }
    in[3] = 1e-45f; /* the reciprocal would overflow */
    quant_row(DTYPE_Q8_0)->quantise(in, block, 32);
    quant_row(DTYPE_Q8_0)->dequantise(block, out, 32);
    assert_true(out[3] == 0.0f);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t b = 0; b < 3; b++) {
        in[3] = bad[b];
        quant_row(DTYPE_Q8_0)->quantise(in, block, 32);
        quant_row(DTYPE_Q8_0)->dequantise(block, out, 32);
        assert_true(isnan(out[3]) && isnan(out[0]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_every_row_is_filled),
        cmocka_unit_test(lookup_unknown_gives_count),
        cmocka_unit_test(row_bytes_checks_blocks_and_overflow),
        cmocka_unit_test(quantise_equals_ggml_bit_for_bit),
        cmocka_unit_test(dequantise_then_quantise_keeps_every_16_bit_pattern),
        cmocka_unit_test(q8_0_dequantise_is_scale_times_quant),
        cmocka_unit_test(q8_0_quantise_edge_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
