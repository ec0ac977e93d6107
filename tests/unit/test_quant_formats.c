/* SPDX-License-Identifier: MIT
 * The format table, its look-ups, and the converters against ggml's blocks (tests/golden/quant). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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
        assert_true((row->act == ACT_NONE) == (row->dequantise == NULL && !row->sided));
        assert_true(row->dequantise == NULL || !row->sided);
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
    assert_int_equal(act_row_bytes(ACT_Q8, 64), 64 + 2 * 4 + 4 * 2);
    assert_int_equal(act_row_bytes(ACT_Q8_SUPER, 512), 512 + 2 * 4 + 32 * 2);
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

/* The formats that ggml wrote golden blocks for, and the fingerprint of what it makes of 65,536 values' worth of random
 * bytes (hostile_bytes()). */
static const struct {
    enum dtype type;
    uint64_t digest;
} decoded[] = {
    {DTYPE_F16, 0x1a3fd350d7602a6eu},     {DTYPE_BF16, 0xf5043f2bc4f855ffu},   {DTYPE_Q8_0, 0x5151dae71163a5cfu},
    {DTYPE_Q4_0, 0x5e4905b3c0de219du},    {DTYPE_Q4_1, 0xc534e24ca268214fu},   {DTYPE_Q5_0, 0x79614622d6f1e76fu},
    {DTYPE_Q5_1, 0xf9ca56f17db1d2e4u},    {DTYPE_Q2_K, 0xa82021a2cc77f46du},   {DTYPE_Q3_K, 0x229b3aee6020c10du},
    {DTYPE_Q4_K, 0x619f73153523dc66u},    {DTYPE_Q5_K, 0xbf9084f42e16115eu},   {DTYPE_Q6_K, 0x6a8abe6355cd2733u},
    {DTYPE_IQ2_XXS, 0x3c803939802b55afu}, {DTYPE_IQ2_XS, 0x7b3441cf185dee54u}, {DTYPE_IQ2_S, 0x0f2c891fecd79472u},
    {DTYPE_IQ3_XXS, 0xd7780a7bbfe5f090u}, {DTYPE_IQ3_S, 0x4bd653fd706fea27u},  {DTYPE_IQ1_S, 0x05213f1c1a1f8a41u},
    {DTYPE_IQ1_M, 0x9f60f1e2c1be6ec0u},   {DTYPE_IQ4_NL, 0x3e9657a27e0c511eu}, {DTYPE_IQ4_XS, 0xab936940312dffedu},
    {DTYPE_MXFP4, 0xca38e8a0cfee2208u},   {DTYPE_TQ1_0, 0x45ebccd311849732u},  {DTYPE_TQ2_0, 0x4fad6f1ff1f45f87u},
    {DTYPE_Q1_0, 0xc30dc58fbfb7c225u},    {DTYPE_Q2_0, 0xe86a1788a6b0abd1u},
};

static void dequantise_equals_ggml_bit_for_bit(void **state)
{
    (void)state;
    static float want[VALUES];
    static float got[VALUES];
    static unsigned char blocks[VALUES * 2 + 1];
    unsigned formats = 0;
    for (size_t c = 0; c < sizeof decoded / sizeof *decoded; c++) {
        const struct quant_row *row = quant_row(decoded[c].type);
        if (row->block_elems == 1 || decoded[c].type == DTYPE_Q8_0) {
            continue; /* the quantiser's tests hold these */
        }
        char name[32];
        char file[48];
        (void)snprintf(name, sizeof name, "%s", row->name);
        for (char *p = name; *p != 0; p++) {
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        }
        uint64_t bytes = 0;
        assert_true(quant_row_bytes(decoded[c].type, VALUES, &bytes));
        (void)snprintf(file, sizeof file, "%s.f32", name);
        read_golden(file, want, sizeof want);
        (void)snprintf(file, sizeof file, "%s.blocks", name);
        for (size_t shift = 0; shift < 2; shift++) { /* blocks at odd addresses too */
            read_golden(file, blocks + shift, (size_t)bytes);
            memset(got, 0xaa, sizeof got);
            row->dequantise(blocks + shift, got, VALUES);
            for (size_t i = 0; i < VALUES; i++) {
                if (f32_to_bits(want[i]) != f32_to_bits(got[i])) {
                    fail_msg("%s: value %zu is %a, ggml has %a", row->name, i, (double)got[i], (double)want[i]);
                }
            }
        }
        formats++;
    }
    assert_int_equal(formats, 23);
}

static void hostile_bytes(unsigned char *out, size_t n)
{
    uint32_t s = 12345;
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        out[i] = (unsigned char)(s >> 24);
    }
}

static void any_bytes_dequantise_to_what_ggml_makes_of_them(void **state)
{
    (void)state;
    const size_t values = 65536;
    float *out = malloc(values * sizeof *out);
    assert_non_null(out);
    for (size_t c = 0; c < sizeof decoded / sizeof *decoded; c++) {
        const struct quant_row *row = quant_row(decoded[c].type);
        size_t bytes = values / row->block_elems * row->block_bytes;
        unsigned char *blocks = malloc(bytes); /* exact, so that a sanitizer sees a read past the end */
        assert_non_null(blocks);
        hostile_bytes(blocks, bytes);
        row->dequantise(blocks, out, values);
        uint64_t digest = HASH_SEED;
        for (size_t i = 0; i < values; i++) {
            uint32_t bits = isnan(out[i]) ? 0x7fc00000u : f32_to_bits(out[i]);
            digest = hash_bytes(digest, &bits, sizeof bits);
        }
        if (digest != decoded[c].digest) {
            fail_msg("%s: random bytes give %016llx, in ggml %016llx", row->name, (unsigned long long)digest,
                     (unsigned long long)decoded[c].digest);
        }
        free(blocks);
    }
    free(out);
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
        cmocka_unit_test(dequantise_equals_ggml_bit_for_bit),
        cmocka_unit_test(any_bytes_dequantise_to_what_ggml_makes_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
