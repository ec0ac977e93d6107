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

static unsigned row_calls[BERTH_ISA_NEON + 1];

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

/* ---- any shape: exact heap blocks, so that the address sanitizer sees a read past an end ---- */

static uint32_t random_below(uint32_t n)
{
    return random_bits() % n;
}

static unsigned char *random_bytes(size_t n, size_t shift)
{
    unsigned char *p = malloc(n + shift);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        p[shift + i] = (unsigned char)random_bits();
    }
    return p;
}

/* Any bits are a scale; an ordinary one has an exponent near that of 1. */
static void tame(enum dtype type, unsigned char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += quant_row(type)->block_bytes) {
        if (type == DTYPE_U8) {
            p[i] = (unsigned char)(120 + random_below(16));
        } else if (type == DTYPE_F16) {
            p[i + 1] = (unsigned char)(0x2c | (p[i + 1] & 0x83));
        } else {
            p[i + quant_row(type)->block_bytes - 1u] = (unsigned char)(0x3c | (p[i + 1] & 0x80));
        }
    }
}

struct shape {
    enum dtype type;
    struct packed format;
    uint32_t k, rows, tokens, row_begin, row_end;
    size_t shift, gap;
    bool wild, biases, bias;
    bool huge; /* scales of 2^121 and more: nothing may be multiplied into them */
};

static struct shape random_shape(enum dtype type)
{
    static const uint16_t groups[] = {16, 32, 48, 64, 80, 128, 256, 512, 1024};
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    struct shape p = {.type = type,
                      .format = {PACKED_AFFINE, types[random_below(3)], groups[random_below(9)], 1},
                      .k = 32 * (1 + random_below(40)),
                      .rows = 1 + random_below(11),
                      .tokens = random_below(3) == 0 ? 1 : 1 + random_below(29),
                      .shift = random_below(2) ? 0 : random_below(64),
                      .gap = random_below(3) ? 0 : random_below(40),
                      .wild = random_below(3) == 0,
                      .biases = random_below(4) != 0,
                      .bias = random_below(2) != 0};
    if (random_below(12) == 0) {
        p.tokens = 90 + random_below(20); /* more than pass a panel together */
        p.k = 32 * (1 + random_below(10));
        p.rows = 1 + random_below(5);
    }
    if (type == DTYPE_MXFP4_ROWS) {
        p.format = (struct packed){PACKED_MXFP4, DTYPE_U8, 32, 1};
    } else if (type == DTYPE_F8_E4M3) {
        p.format.kind = PACKED_TILES;
        p.format.tile_rows = 1 + random_below(5);
        p.k += random_below(2) * 16;
        p.huge = random_below(4) == 0;
    }
    if (p.huge) {
        p.wild = false;
        p.format.scale_type = DTYPE_F32;
        p.k = 64;
    }
    p.biases = p.biases && p.format.kind == PACKED_AFFINE;
    p.row_begin = random_below(2) ? 0 : random_below(p.rows);
    p.row_end = random_below(2) ? p.rows : p.row_begin + random_below(p.rows - p.row_begin + 1);
    return p;
}

static void same_bits(const struct shape *p, const char *row, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (f32_to_bits(a[i]) != f32_to_bits(b[i]) && !(isnan(a[i]) && isnan(b[i]))) {
            fail_msg("%s, row %s: k %u group %u tile %u rows [%u,%u) tokens %u shift %zu gap %zu: [%zu] is %a, not %a",
                     quant_row(p->type)->name, row, p->k, p->format.group, p->format.tile_rows, p->row_begin,
                     p->row_end, p->tokens, p->shift, p->gap, i, (double)b[i], (double)a[i]);
        }
    }
}

static void check_shape(const struct shape *p)
{
    uint64_t row_bytes = 0;
    assert_true(quant_row_bytes(p->type, p->k, &row_bytes));
    const size_t stride = p->rows + 3;
    const size_t w_bytes = (row_bytes + p->gap) * (p->rows - 1) + row_bytes;
    const size_t side_row = packed_groups(&p->format, p->k) * quant_row(p->format.scale_type)->block_bytes;
    const size_t side_bytes = side_row * ((p->rows - 1) / p->format.tile_rows + 1);
    unsigned char *w = random_bytes(w_bytes, p->shift);
    unsigned char *side_scales = random_bytes(side_bytes, p->shift);
    unsigned char *side_biases = random_bytes(side_bytes, p->shift);
    float *in = (float *)(void *)random_bytes((size_t)p->k * p->tokens * sizeof(float), 0);
    float *add = (float *)(void *)random_bytes(p->rows * sizeof(float), 0);
    float *plain = malloc((size_t)p->k * p->rows * sizeof(float));
    float *y = malloc(stride * p->tokens * sizeof(float));
    float *y_ref = malloc(stride * p->tokens * sizeof(float));
    assert_true(plain != NULL && y != NULL && y_ref != NULL);
    if (!p->wild) {
        tame(p->format.scale_type, side_scales + p->shift, side_bytes);
        tame(p->format.scale_type, side_biases + p->shift, side_bytes);
        tame(DTYPE_F32, (unsigned char *)in, (size_t)p->k * p->tokens * sizeof(float));
        tame(DTYPE_F32, (unsigned char *)add, p->rows * sizeof(float));
    }
    for (size_t i = 0; p->huge && i < side_bytes; i += 4) {
        side_scales[p->shift + i + 3] = (unsigned char)(0x7c | (side_scales[p->shift + i + 3] & 0x80));
    }
    for (size_t i = 0; p->huge && i < w_bytes; i++) {
        w[p->shift + i] &= 0xbf;
    }
    struct matmul m = {
        .w = w + p->shift,
        .w_row_bytes = row_bytes + p->gap,
        .x = in,
        .x_row_bytes = p->k * sizeof(float),
        .bias = p->bias ? add : NULL,
        .y = y,
        .y_row_floats = stride,
        .k = p->k,
        .tokens = p->tokens,
        .scratch = scratch,
        .side = {p->format, side_scales + p->shift, p->biases ? side_biases + p->shift : NULL, side_row}};
    for (uint32_t r = 0; r < p->rows; r++) {
        packed_dequantise(p->type, &m.side, w + p->shift + r * m.w_row_bytes, r, 0, p->k, plain + (size_t)r * p->k);
    }
    struct matmul of_values = m;
    of_values.w = plain;
    of_values.w_row_bytes = p->k * sizeof(float);
    of_values.y = y_ref;
    memset(y_ref, 0x11, stride * p->tokens * sizeof(float));
    kernels_select(BERTH_ISA_REF)->matmul[DTYPE_F32](&of_values, p->row_begin, p->row_end);
    for (int isa = BERTH_ISA_REF; isa <= BERTH_ISA_NEON; isa++) {
        const struct kernels *kernels = kernels_select((berth_isa)isa);
        if (kernels != NULL) {
            memset(y, 0x11, stride * p->tokens * sizeof(float)); /* stays where no row was asked for */
            memset(scratch, 0xff, sizeof scratch);
            kernels->matmul[p->type](&m, p->row_begin, p->row_end);
            same_bits(p, kernels->name, y_ref, y, stride * p->tokens);
            row_calls[isa]++;
        }
    }
    free(w);
    free(side_scales);
    free(side_biases);
    free(in);
    free(add);
    free(plain);
    free(y);
    free(y_ref);
}

static void packed_products_of_any_shape_and_scale(void **state)
{
    (void)state;
    state_bits = 7;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (int round = 0; round < 60; round++) {
            const struct shape p = random_shape(cases[c].type);
            check_shape(&p);
        }
    }
    for (int isa = BERTH_ISA_REF; isa <= BERTH_ISA_NEON; isa++) {
        assert_true((row_calls[isa] > 0) == (kernels_select((berth_isa)isa) != NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_products_equal_those_of_their_values),
        cmocka_unit_test(packed_products_of_any_shape_and_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
