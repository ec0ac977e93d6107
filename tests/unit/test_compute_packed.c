/* SPDX-License-Identifier: MIT
 * Products with formats whose scales lie beside them: every row of the kernel table gives the bits of the float32
 * matrix that the values make, for one token and for many. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "compute/kernels.h"

enum { ROWS = 130, K = 272, TOKENS = 13 };

static uint32_t state_bits = 1;

static uint32_t random_bits(void)
{
    state_bits = state_bits * 1664525u + 1013904223u;
    return state_bits >> 8;
}

static const struct {
    enum dtype type;
    struct packed format;
    uint32_t k;
} cases[] = {
    {DTYPE_MLX2, {PACKED_AFFINE, DTYPE_BF16, 32, 1}, 96},    {DTYPE_MLX3, {PACKED_AFFINE, DTYPE_F16, 64, 1}, 192},
    {DTYPE_MLX4, {PACKED_AFFINE, DTYPE_BF16, 64, 1}, 256},   {DTYPE_MLX5, {PACKED_AFFINE, DTYPE_F32, 128, 1}, 256},
    {DTYPE_MLX6, {PACKED_AFFINE, DTYPE_F16, 32, 1}, 32},     {DTYPE_MLX8, {PACKED_AFFINE, DTYPE_BF16, 32, 1}, 160},
    {DTYPE_F8_E4M3, {PACKED_TILES, DTYPE_F32, 128, 128}, K}, {DTYPE_F8_E4M3, {PACKED_TILES, DTYPE_BF16, 48, 64}, 240},
    {DTYPE_MXFP4_ROWS, {PACKED_MXFP4, DTYPE_U8, 32, 1}, 96},
};

static unsigned char weights[ROWS * K], scales[ROWS * 16 * 4], biases[ROWS * 16 * 4];
static float values[ROWS * K], x[TOKENS * K], bias[ROWS], want[TOKENS * ROWS], got[TOKENS * ROWS];
static _Alignas(64) unsigned char scratch[MATMUL_SCRATCH_BYTES];

static void fill_scales(enum dtype type, unsigned char *out, float low, float span)
{
    for (uint32_t i = 0; i < ROWS * 16; i++) {
        float value = low + span * (float)random_bits() * 0x1p-24f;
        uint16_t half = type == DTYPE_F16 ? f16_from_f32(value) : bf16_from_f32(value);
        if (type == DTYPE_U8) {
            out[i] = (unsigned char)(120 + random_bits() % 16);
        } else if (type == DTYPE_F32) {
            memcpy(out + 4 * i, &value, 4);
        } else {
            memcpy(out + 2 * i, &half, 2);
        }
    }
}

static void packed_products_equal_those_of_their_values(void **state)
{
    (void)state;
    unsigned rows_run = 0;
    for (uint32_t i = 0; i < TOKENS * K; i++) {
        x[i] = ((float)random_bits() * 0x1p-23f - 1.0f) * 2.0f;
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        bias[i] = (float)random_bits() * 0x1p-24f;
    }
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const struct packed *format = &cases[c].format;
        const uint32_t k = cases[c].k;
        uint64_t row_bytes = 0;
        assert_true(quant_row_bytes(cases[c].type, k, &row_bytes));
        for (uint32_t i = 0; i < sizeof weights; i++) {
            weights[i] = (unsigned char)random_bits();
            weights[i] = cases[c].type == DTYPE_F8_E4M3 && (weights[i] & 127) == 127 ? 0x38 : weights[i];
        }
        fill_scales(format->scale_type, scales, 0.01f, 0.1f);
        fill_scales(format->scale_type, biases, -0.2f, 0.1f);
        const struct packed_side side = {*format, scales, format->kind == PACKED_AFFINE ? biases : NULL,
                                         packed_groups(format, k) * quant_row(format->scale_type)->block_bytes};
        for (uint32_t r = 0; r < ROWS; r++) {
            packed_dequantise(cases[c].type, &side, weights + r * row_bytes, r, 0, k, values + (size_t)r * k);
        }
        for (int isa = BERTH_ISA_REF; isa <= BERTH_ISA_NEON; isa++) {
            const struct kernels *kernels = kernels_select((berth_isa)isa);
            for (uint32_t tokens = 1; kernels != NULL && tokens <= TOKENS; tokens += 4) {
                struct matmul m = {.w = values,
                                   .w_row_bytes = k * sizeof(float),
                                   .x = x,
                                   .x_row_bytes = K * sizeof(float),
                                   .bias = bias,
                                   .y = want,
                                   .y_row_floats = ROWS,
                                   .k = k,
                                   .tokens = tokens,
                                   .scratch = scratch};
                kernels_select(BERTH_ISA_REF)->matmul[DTYPE_F32](&m, 0, ROWS);
                m.w = weights;
                m.w_row_bytes = row_bytes;
                m.side = side;
                m.y = got;
                memset(got, 0, sizeof got);
                assert_non_null(kernels->matmul[cases[c].type]);
                kernels->matmul[cases[c].type](&m, 0, 32); /* as threads cut it */
                kernels->matmul[cases[c].type](&m, 32, ROWS);
                assert_memory_equal(got, want, tokens * ROWS * sizeof *got);
                assert_true(isfinite(got[0]) && got[0] != 0);
                rows_run++;
            }
        }
    }
    assert_true(rows_run >= 4 * sizeof cases / sizeof cases[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_products_equal_those_of_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
