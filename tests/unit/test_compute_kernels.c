/* SPDX-License-Identifier: MIT
 * Every kernel row against the reference row, bit for bit (NaN equals NaN), and the reference row against plain double
 * arithmetic. Buffers are exact heap blocks, so that the address sanitizer sees a read past a tail.
 *
 * One long program, because in the end it says how many calls of each row were compared, and none may be without.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "compute/kernels.h"

enum { ROWS_MAX = 4 };

static struct {
    const struct kernels *row;
    unsigned calls;
} rows[ROWS_MAX];
static size_t rows_count;

static uint32_t seed;

static uint32_t random_u32(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8 ^ seed << 13;
}

static uint32_t random_below(uint32_t n)
{
    return random_u32() % n;
}

/* About normal; with `wild`, magnitudes from subnormal to huge and the special values too. */
static float random_float(bool wild)
{
    if (wild) {
        switch (random_below(12)) {
        case 0:
            return f32_from_bits(random_u32()); /* anything, NaN and infinity included */
        case 1:
            return f32_from_bits(random_u32() & 0x807fffffu); /* subnormal */
        case 2:
            return random_below(2) ? 0.0f : -0.0f;
        default:
            break;
        }
    }
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += (float)(random_u32() & 0xffffu) * 0x1p-16f - 0.5f;
    }
    return sum;
}

static void random_fill(float *out, size_t n, bool wild)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = random_float(wild);
    }
}

static void *exact_alloc(size_t bytes)
{
    void *p = malloc(bytes);
    assert_non_null(p);
    return p;
}

/* Activations and outputs are promised 64-byte aligned; the size stays exact where the allocator allows. */
static void *aligned_block(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(p);
    return p;
}

/* Fingerprint of what the reference row computed since digest_begin(): the same on every processor and compiler. A NaN
 * counts as a NaN, whatever its payload. */
static uint64_t digest;

static void digest_begin(uint32_t new_seed)
{
    seed = new_seed;
    digest = HASH_SEED;
}

static void digest_add(const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = isnan(values[i]) ? 0x7fc00000u : f32_to_bits(values[i]);
        digest = hash_bytes(digest, &bits, sizeof bits);
    }
}

static void digest_is(const char *what, uint64_t want)
{
    if (digest != want) {
        fail_msg("%s: the reference row gives %016llx here, %016llx elsewhere", what, (unsigned long long)digest,
                 (unsigned long long)want);
    }
}

static void same_bits(const char *what, const char *row, const float *want, const float *got, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (f32_to_bits(want[i]) != f32_to_bits(got[i]) && !(isnan(want[i]) && isnan(got[i]))) {
            fail_msg("%s, row %s: element %zu of %zu is %a (%08x), ref has %a (%08x)", what, row, i, n, (double)got[i],
                     f32_to_bits(got[i]), (double)want[i], f32_to_bits(want[i]));
        }
    }
}

/* ---- the table itself ---- */

static void rows_differ_in_every_kernel(void **state)
{
    (void)state;
    for (size_t i = 0; i < rows_count; i++) {
        const struct kernels *a = rows[i].row;
        for (size_t j = 0; j < i; j++) {
            const struct kernels *b = rows[j].row;
            assert_string_not_equal(a->name, b->name);
            assert_true(a->isa != b->isa);
            for (int t = 0; t < DTYPE_COUNT; t++) {
                assert_true((a->matmul[t] == NULL) == (b->matmul[t] == NULL));
                assert_true(a->matmul[t] == NULL || a->matmul[t] != b->matmul[t]);
            }
            /* prepare[ACT_F32] is a copy in all of them. */
            assert_true(a->prepare[ACT_Q8] != b->prepare[ACT_Q8]);
            assert_true(a->prepare[ACT_Q8_SUPER] != b->prepare[ACT_Q8_SUPER] && a->rmsnorm != b->rmsnorm &&
                        a->rope != b->rope);
            assert_true(a->silu_mul != b->silu_mul && a->add != b->add && a->add_scaled != b->add_scaled);
            assert_true(a->scale != b->scale && a->clamp != b->clamp && a->softmax != b->softmax);
            assert_true(a->sigmoid != b->sigmoid && a->attend != b->attend && a->to_f16 != b->to_f16);
        }
    }
}

static void select_auto_is_the_last_row_that_runs(void **state)
{
    (void)state;
    assert_ptr_equal(kernels_select(BERTH_ISA_AUTO), rows[rows_count - 1].row);
    assert_ptr_equal(kernels_select(BERTH_ISA_REF), rows[0].row);
    assert_null(kernels_select((berth_isa)77));
}

/* ---- matrix products ---- */

struct product {
    enum dtype type;
    uint32_t k, rows, tokens, row_begin, row_end;
    size_t shift; /* of the weights, in bytes */
    size_t gap;   /* between weight rows, in bytes */
    bool bias, wild;
};

struct buffers {
    unsigned char *w_block, *w;
    unsigned char *x;
    float *raw, *bias;
    size_t w_row_bytes, x_row_bytes;
};

/* Random bytes make a block of any format; scales of ordinary size make it an ordinary one. */
static void tame_scales(const struct quant_row *format, unsigned char *block)
{
    for (int i = 0; i < format->halves; i++) {
        block[format->half_at + 2 * i + 1] = (unsigned char)(0x24 | (random_u32() & 0x83u)); /* about 2^-6 */
    }
    if (format->halves == 0) { /* MXFP4 */
        block[0] = (unsigned char)(120 + random_below(8));
    }
}

static struct buffers make_buffers(const struct product *p)
{
    struct buffers b = {0};
    uint64_t row_bytes = 0;
    enum act_kind act = quant_row(p->type)->act;
    assert_true(quant_row_bytes(p->type, p->k, &row_bytes));
    b.w_row_bytes = (size_t)row_bytes + p->gap;
    size_t w_bytes = b.w_row_bytes * (p->rows - 1) + (size_t)row_bytes;
    b.w_block = exact_alloc(p->shift + w_bytes);
    b.w = b.w_block + p->shift;
    memset(b.w_block, 0x5a, p->shift + w_bytes);
    float *line = exact_alloc(p->k * sizeof *line);
    for (uint32_t r = 0; r < p->rows; r++) {
        if (act == ACT_F32) {
            random_fill(line, p->k, p->wild);
            quant_row(p->type)->quantise(line, b.w + r * b.w_row_bytes, p->k);
            continue;
        }
        for (uint32_t i = 0; i < row_bytes; i++) { /* every quant including -128; wild: every scale too */
            b.w[r * b.w_row_bytes + i] = (unsigned char)random_u32();
        }
        for (uint32_t i = 0; i < row_bytes; i += quant_row(p->type)->block_bytes) {
            if (!p->wild || random_below(8) != 0) {
                tame_scales(quant_row(p->type), b.w + r * b.w_row_bytes + i);
            }
        }
    }
    free(line);
    b.x_row_bytes = (size_t)(act_row_bytes(act, p->k) + 63) / 64 * 64;
    b.raw = exact_alloc((size_t)p->k * p->tokens * sizeof(float));
    random_fill(b.raw, (size_t)p->k * p->tokens, p->wild);
    b.x = aligned_block(b.x_row_bytes * p->tokens);
    memset(b.x, 0x5a, b.x_row_bytes * p->tokens);
    for (uint32_t t = 0; t < p->tokens; t++) {
        rows[0].row->prepare[act](b.raw + (size_t)t * p->k, b.x + t * b.x_row_bytes, p->k);
    }
    b.bias = exact_alloc(p->rows * sizeof(float));
    random_fill(b.bias, p->rows, p->wild);
    return b;
}

static void free_buffers(struct buffers *b)
{
    free(b->w_block);
    free(b->x);
    free(b->raw);
    free(b->bias);
}

static void run_product(const struct kernels *row, const struct product *p, const struct buffers *b, float *y)
{
    size_t stride = p->rows + 5;
    for (size_t i = 0; i < stride * p->tokens; i++) {
        y[i] = 12345.0f; /* what must stay where no row was asked for */
    }
    struct matmul m = {.w = b->w,
                       .w_row_bytes = b->w_row_bytes,
                       .x = b->x,
                       .x_row_bytes = b->x_row_bytes,
                       .bias = p->bias ? b->bias : NULL,
                       .y = y,
                       .y_row_floats = stride,
                       .k = p->k,
                       .tokens = p->tokens};
    _Alignas(64) static unsigned char scratch[MATMUL_SCRATCH_BYTES];
    memset(scratch, 0x5a, sizeof scratch);
    m.scratch = scratch;
    row->matmul[p->type](&m, p->row_begin, p->row_end);
}

static void check_product(const struct product *p)
{
    struct buffers b = make_buffers(p);
    size_t n = (size_t)(p->rows + 5) * p->tokens;
    float *want = aligned_block(n * sizeof(float));
    float *got = aligned_block(n * sizeof(float));
    run_product(rows[0].row, p, &b, want);
    digest_add(want, n);
    for (size_t r = 1; r < rows_count; r++) {
        char what[160];
        (void)snprintf(what, sizeof what, "matmul %s k %u rows %u [%u,%u) tokens %u shift %zu gap %zu%s%s",
                       quant_row(p->type)->name, p->k, p->rows, p->row_begin, p->row_end, p->tokens, p->shift, p->gap,
                       p->bias ? " bias" : "", p->wild ? " wild" : "");
        run_product(rows[r].row, p, &b, got);
        rows[r].calls++;
        same_bits(what, rows[r].row->name, want, got, n);
        /* One token of many gives the same bits as the token alone. */
        struct product one = *p;
        struct buffers alone = b;
        one.tokens = 1;
        alone.x = b.x + (p->tokens - 1) * b.x_row_bytes;
        run_product(rows[r].row, &one, &alone, got);
        rows[r].calls++;
        same_bits(what, rows[r].row->name, want + (size_t)(p->rows + 5) * (p->tokens - 1), got, p->rows + 5);
    }
    free(want);
    free(got);
    free_buffers(&b);
}

/* Block formats that convert cannot write: random bytes, whose binary16 scales are mostly finite; and what a float32
 * matrix of the dequantised values gives is the reference, for every row of the table. */
static void check_block_product(struct product p)
{
    struct product plain = p;
    plain.type = DTYPE_F32;
    plain.shift = 0;
    plain.gap = 0;
    struct buffers b = make_buffers(&plain);
    uint64_t row_bytes = 0;
    assert_true(quant_row_bytes(p.type, p.k, &row_bytes));
    struct buffers blocks = b;
    blocks.w_row_bytes = (size_t)row_bytes + p.gap;
    size_t w_bytes = p.shift + blocks.w_row_bytes * (p.rows - 1) + (size_t)row_bytes;
    blocks.w_block = exact_alloc(w_bytes);
    blocks.w = blocks.w_block + p.shift;
    for (size_t i = 0; i < w_bytes; i++) {
        blocks.w_block[i] = (unsigned char)(random_u32() & (p.wild ? 0xffu : 0xbbu)); /* bit 6: no NaN in a scale */
    }
    for (uint32_t r = 0; r < p.rows; r++) {
        float *line = (float *)(void *)(b.w + r * b.w_row_bytes);
        quant_row(p.type)->dequantise(blocks.w + r * blocks.w_row_bytes, line, p.k);
    }
    size_t n = (size_t)(p.rows + 5) * p.tokens;
    float *want = aligned_block(n * sizeof(float));
    float *got = aligned_block(n * sizeof(float));
    run_product(rows[0].row, &plain, &b, want);
    digest_add(want, n);
    for (size_t r = 0; r < rows_count; r++) {
        char what[160];
        (void)snprintf(what, sizeof what, "matmul %s k %u rows %u [%u,%u) tokens %u shift %zu gap %zu%s%s",
                       quant_row(p.type)->name, p.k, p.rows, p.row_begin, p.row_end, p.tokens, p.shift, p.gap,
                       p.bias ? " bias" : "", p.wild ? " wild" : "");
        run_product(rows[r].row, &p, &blocks, got);
        rows[r].calls++;
        same_bits(what, rows[r].row->name, want, got, n);
        struct product one = p;
        struct buffers alone = blocks;
        one.tokens = 1;
        alone.x = b.x + (p.tokens - 1) * b.x_row_bytes;
        run_product(rows[r].row, &one, &alone, got);
        same_bits(what, rows[r].row->name, want + (size_t)(p.rows + 5) * (p.tokens - 1), got, p.rows + 5);
    }
    free(want);
    free(got);
    free(blocks.w_block);
    free_buffers(&b);
}

static void block_products_equal_those_of_dequantised_weights(void **state)
{
    (void)state;
    digest_begin(19);
    unsigned formats = 0;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        const struct quant_row *format = quant_row((enum dtype)t);
        if (format->block_elems == 1 || format->act != ACT_F32 || format->dequantise == NULL) {
            continue;
        }
        formats++;
        for (int round = 0; round < 30; round++) {
            struct product p = {.type = (enum dtype)t};
            p.k = format->block_elems * (1 + random_below(format->block_elems < 256 ? 21 : 4));
            p.rows = 1 + random_below(11);
            p.tokens = round % 3 == 0 ? 1 : 1 + random_below(29);
            p.row_begin = random_below(2) ? 0 : random_below(p.rows);
            p.row_end = p.row_begin + random_below(p.rows - p.row_begin + 1);
            p.row_end = random_below(2) ? p.rows : p.row_end;
            p.shift = random_below(2) ? 0 : random_below(64);
            p.gap = random_below(3) ? 0 : random_below(40);
            p.bias = random_below(2) != 0;
            p.wild = random_below(3) == 0;
            check_block_product(p);
        }
    }
    assert_int_equal(formats, 11);
    digest_is("block products", 0x192274e871a2516au);
}

static const enum dtype product_types[] = {DTYPE_F32,  DTYPE_F16,    DTYPE_BF16,   DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1,
                                           DTYPE_Q5_0, DTYPE_Q5_1,   DTYPE_Q2_K,   DTYPE_Q3_K, DTYPE_Q4_K, DTYPE_Q5_K,
                                           DTYPE_Q6_K, DTYPE_IQ4_NL, DTYPE_IQ4_XS, DTYPE_MXFP4};
enum { PRODUCT_TYPES = sizeof product_types / sizeof *product_types };

/* A depth that the format can have. */
static uint32_t depth_of(enum dtype type, uint32_t wanted)
{
    uint32_t block = quant_row(type)->block_elems;
    return (wanted + block - 1) / block * block;
}

static void matmul_equals_reference(void **state)
{
    (void)state;
    const uint32_t depths[] = {32, 64, 96, 224, 256, 288, 480, 512, 544, 768, 1056, 2080};
    digest_begin(11);
    for (size_t t = 0; t < PRODUCT_TYPES; t++) {
        for (int round = 0; round < (t < 4 ? 260 : 90); round++) {
            struct product p = {.type = product_types[t]};
            p.k = depth_of(p.type, depths[random_below(sizeof depths / sizeof *depths)]);
            if (quant_row(p.type)->block_elems == 1 && random_below(2)) {
                p.k = 1 + random_below(100);
            }
            if (quant_row(p.type)->block_elems == 256 && random_below(8) == 0) {
                p.k += 4096 * (1 + random_below(4)); /* more than 16 units */
            }
            p.rows = 1 + random_below(40);
            p.tokens = round % 3 == 0 ? 1 : 1 + random_below(9);
            p.tokens = round % 16 == 1 ? 10 + random_below(30) : p.tokens;
            p.row_begin = random_below(p.rows);
            p.row_end = p.row_begin + random_below(p.rows - p.row_begin + 1);
            if (random_below(2)) {
                p.row_begin = 0;
                p.row_end = p.rows;
            }
            p.shift = random_below(2) ? 0 : random_below(64);
            p.gap = random_below(3) ? 0 : random_below(40);
            p.bias = random_below(2) != 0;
            p.wild = random_below(3) == 0;
            check_product(&p);
        }
    }
    digest_is("matrix products", 0xb1647f68b216a485u);
}

static void matmul_every_token_count(void **state)
{
    (void)state;
    seed = 12;
    for (size_t t = 0; t < PRODUCT_TYPES; t++) {
        for (uint32_t tokens = 1; tokens <= 85; tokens += tokens < 36 ? 1 : 7) {
            struct product p = {.type = product_types[t], .rows = 19, .tokens = tokens, .row_end = 19};
            p.k = depth_of(p.type, 96);
            check_product(&p);
        }
    }
}

static void matmul_reference_is_close_to_double(void **state)
{
    (void)state;
    seed = 13;
    for (size_t t = 0; t < PRODUCT_TYPES; t++) {
        struct product p = {.type = product_types[t], .k = 768, .rows = 9, .tokens = 3, .row_end = 9, .bias = true};
        struct buffers b = make_buffers(&p);
        float *y = aligned_block((size_t)(p.rows + 5) * p.tokens * sizeof(float));
        float *w = exact_alloc(p.k * sizeof(float));
        run_product(rows[0].row, &p, &b, y);
        double worst = 0;
        for (uint32_t r = 0; r < p.rows; r++) {
            quant_row(p.type)->dequantise(b.w + r * b.w_row_bytes, w, p.k);
            for (uint32_t token = 0; token < p.tokens; token++) {
                double sum = 0;
                double size = 0;
                for (uint32_t i = 0; i < p.k; i++) {
                    double term = (double)w[i] * (double)b.raw[token * p.k + i];
                    sum += term;
                    size += fabs(term);
                }
                double got = (double)(y[token * (p.rows + 5) + r] - b.bias[r]);
                worst = fmax(worst, fabs(got - sum) / size);
            }
        }
        print_message("%s: error %.2g of the sum of magnitudes\n", quant_row(p.type)->name, worst);
        /* Q8 activations: half a step of 1/127 a value, averaged over 768. Floats: rounding only. */
        assert_true(worst < (quant_row(p.type)->act != ACT_F32 ? 2e-3 : 5e-7));
        free(w);
        free(y);
        free_buffers(&b);
    }
}

/* A prepared row follows its definition, and every row of the table prepares the same. */
static void check_prepared(enum act_kind kind, uint32_t unit, const float *x, uint32_t k)
{
    size_t bytes = (size_t)act_row_bytes(kind, k);
    unsigned char *want = exact_alloc(bytes);
    unsigned char *got = exact_alloc(bytes);
    const unsigned char *scales = want + k;
    const unsigned char *sums = scales + (size_t)k / unit * 4;
    rows[0].row->prepare[kind](x, want, k);
    digest = hash_bytes(digest, want, k);
    digest = hash_bytes(digest, sums, (size_t)k / 16 * 2);
    int sum = 0;
    for (uint32_t i = 0; i < k; i++) {
        float scale = load_f32(scales + (size_t)i / unit * 4);
        int8_t q;
        memcpy(&q, want + i, 1);
        assert_true(q >= -127);
        if (!isnan(scale) && scale > 0) {
            assert_true(fabs((double)x[i] - (double)scale * q) <= 0.5001 * (double)scale);
        }
        sum += q;
        if (i % 16 == 15) {
            assert_int_equal((int16_t)load_u16(sums + (size_t)i / 16 * 2), sum);
            sum = 0;
        }
    }
    for (size_t r = 1; r < rows_count; r++) {
        memset(got, 0xa5, bytes);
        rows[r].row->prepare[kind](x, got, k);
        rows[r].calls++;
        assert_memory_equal(want, got, k);
        assert_memory_equal(sums, got + (sums - want), (size_t)k / 16 * 2);
        for (size_t i = 0; i < k / unit; i++) {
            float w = load_f32(scales + i * 4);
            float g = load_f32(got + k + i * 4);
            same_bits("prepared scales", rows[r].row->name, &w, &g, 1);
        }
    }
    free(want);
    free(got);
}

static void prepare_q8_equals_reference(void **state)
{
    (void)state;
    digest_begin(14);
    for (int round = 0; round < 500; round++) {
        uint32_t unit = round % 2 ? 256 : 32;
        uint32_t k = unit * (1 + random_below(unit == 32 ? 40 : 9));
        int kind = round / 2 % 8;
        float *x = aligned_block(k * sizeof(float));
        random_fill(x, k, kind % 2 != 0);
        for (uint32_t i = 0; i < k && kind % 4 == 2; i++) { /* exact ties: multiples of half a step */
            x[i] = (float)((int)random_below(255) - 127) * 0.5f;
            x[i / unit * unit] = 127.0f;
        }
        for (uint32_t i = 0; i < unit && kind == 0; i++) { /* around the smallest usable unit */
            x[i] *= random_below(2) ? 0x1p-99f : 0x1p-101f;
        }
        check_prepared(unit == 32 ? ACT_Q8 : ACT_Q8_SUPER, unit, x, k);
        free(x);
    }
    digest_is("prepared quants", 0x484c5bd6b80eda4eu);
    for (size_t r = 0; r < rows_count; r++) { /* a copy */
        const float x[3] = {1, -2, 3};
        float y[3] = {0};
        rows[r].row->prepare[ACT_F32](x, y, 3);
        assert_memory_equal(x, y, sizeof x);
    }
}

/* ---- vectors ---- */

enum { VECTOR_MAX = 600 };

struct vectors {
    float *x, *y, *z, *out;
};

/* Exact blocks of n, so that an overread is seen. */
static struct vectors make_vectors(size_t n, bool wild)
{
    struct vectors v = {exact_alloc(n * 4), exact_alloc(n * 4), exact_alloc(n * 4), exact_alloc(n * 4)};
    random_fill(v.x, n, wild);
    random_fill(v.y, n, wild);
    random_fill(v.z, n, wild);
    memset(v.out, 0, n * 4);
    return v;
}

static void free_vectors(struct vectors *v)
{
    free(v->x);
    free(v->y);
    free(v->z);
    free(v->out);
}

/* Runs kernel number `which` of a row on copies; results are left in out (n floats). False: no such number. */
static bool run_vector(const struct kernels *row, int which, const struct vectors *v, float *out, uint32_t n)
{
    memcpy(out, v->x, n * sizeof *out);
    switch (which) {
    case 0:
        row->rmsnorm(v->x, v->y, 1e-6f, out, n);
        return true;
    case 1:
        row->silu_mul(v->x, v->y, out, n);
        return true;
    case 2:
        row->silu_mul(out, v->y, out, n); /* out may be gate */
        return true;
    case 3:
        row->add(out, v->y, n);
        return true;
    case 4:
        row->add_scaled(out, v->y, v->z[0], n);
        return true;
    case 5:
        row->scale(out, v->z[0], n);
        return true;
    case 6:
        row->clamp(out, fabsf(v->z[0]), n);
        return true;
    case 7:
        row->softmax(out, n);
        return true;
    case 8:
        row->sigmoid(out, n);
        return true;
    case 9:
        row->rope(out, v->y, v->z, n / 2 * 2, true);
        return true;
    case 10:
        row->rope(out, v->y, v->z, n / 2 * 2, false);
        return true;
    case 11: {
        uint16_t *half = exact_alloc(n * sizeof *half);
        row->to_f16(v->x, half, n);
        for (uint32_t i = 0; i < n; i++) {
            out[i] = f32_from_f16(half[i]);
        }
        free(half);
        return true;
    }
    default:
        return false;
    }
}

static void vectors_equal_reference(void **state)
{
    (void)state;
    digest_begin(15);
    static const char *const names[] = {"rmsnorm",    "silu_mul", "silu_mul in place", "add",     "add_scaled",
                                        "scale",      "clamp",    "softmax",           "sigmoid", "rope half",
                                        "rope pairs", "to_f16"};
    for (int round = 0; round < 300; round++) {
        uint32_t n = round < 70 ? 1 + (uint32_t)round : 1 + random_below(VECTOR_MAX);
        struct vectors v = make_vectors(n, round % 3 == 0);
        for (uint32_t i = 0; i < n && round % 3 == 1; i++) { /* the whole range of exp */
            v.x[i] *= 60.0f;
        }
        float *want = exact_alloc(n * 4);
        for (int which = 0; run_vector(rows[0].row, which, &v, want, n); which++) {
            digest_add(want, n);
            for (size_t r = 1; r < rows_count; r++) {
                (void)run_vector(rows[r].row, which, &v, v.out, n);
                rows[r].calls++;
                same_bits(names[which], rows[r].row->name, want, v.out, n);
            }
        }
        free(want);
        free_vectors(&v);
    }
    digest_is("vectors", 0x72cc6ba0bc3b1749u);
}

static void vectors_follow_their_definitions(void **state)
{
    (void)state;
    enum { N = 37 };
    seed = 16;
    struct vectors v = make_vectors(N, false);
    double squares = 0;
    double sum = 0;
    for (int i = 0; i < N; i++) {
        squares += (double)v.x[i] * (double)v.x[i];
        sum += exp((double)v.x[i]);
    }
    rows[0].row->rmsnorm(v.x, v.y, 1e-6f, v.out, N);
    for (int i = 0; i < N; i++) {
        double want = (double)v.x[i] / sqrt(squares / N + 1e-6) * (double)v.y[i];
        assert_true(fabs((double)v.out[i] - want) < 1e-6);
    }
    memcpy(v.out, v.x, sizeof(float) * N);
    rows[0].row->softmax(v.out, N);
    for (int i = 0; i < N; i++) {
        assert_true(fabs((double)v.out[i] - exp((double)v.x[i]) / sum) < 1e-7);
    }
    const float angle = 0.3f;
    float cosines[2] = {cosf(angle), 1};
    float sines[2] = {sinf(angle), 0};
    float half[4] = {1, 5, 0, 6};
    float pairs[4] = {1, 0, 5, 6};
    rows[0].row->rope(half, cosines, sines, 4, true);
    rows[0].row->rope(pairs, cosines, sines, 4, false);
    assert_true(half[0] == cosines[0] && half[2] == sines[0] && half[1] == 5 && half[3] == 6);
    assert_true(pairs[0] == cosines[0] && pairs[1] == sines[0] && pairs[2] == 5 && pairs[3] == 6);
    float clamped[3] = {-9, 0.5f, 9};
    rows[0].row->clamp(clamped, 2, 3);
    assert_true(clamped[0] == -2 && clamped[1] == 0.5f && clamped[2] == 2);
    free_vectors(&v);
}

/* ---- attention ---- */

struct scene {
    uint32_t queries, head_dim, positions, begin, end, step;
    berth_kv_type type;
    size_t kv_row_bytes;
    bool wild;
};

struct attention {
    float *q, *max, *sum, *out;
    unsigned char *k, *v;
};

static enum dtype kv_format(berth_kv_type type)
{
    return type == BERTH_KV_F16 ? DTYPE_F16 : type == BERTH_KV_Q8_0 ? DTYPE_Q8_0 : DTYPE_F32;
}

static size_t kv_bytes_of(berth_kv_type type, uint32_t head_dim)
{
    uint64_t bytes;
    assert_true(quant_row_bytes(kv_format(type), head_dim, &bytes));
    return bytes;
}

static struct attention make_attention(const struct scene *s)
{
    size_t kv_bytes = (s->positions - 1) * s->kv_row_bytes + kv_bytes_of(s->type, s->head_dim);
    struct attention a = {.q = aligned_block(sizeof(float) * s->queries * s->head_dim),
                          .max = exact_alloc(sizeof(float) * s->queries),
                          .sum = exact_alloc(sizeof(float) * s->queries),
                          .out = aligned_block(sizeof(float) * s->queries * s->head_dim),
                          .k = exact_alloc(kv_bytes),
                          .v = exact_alloc(kv_bytes)};
    float *line = exact_alloc(s->head_dim * sizeof *line);
    random_fill(a.q, (size_t)s->queries * s->head_dim, s->wild);
    memset(a.k, 0, kv_bytes);
    memset(a.v, 0, kv_bytes);
    const struct quant_row *format = quant_row(kv_format(s->type));
    for (uint32_t p = 0; p < s->positions; p++) {
        random_fill(line, s->head_dim, s->wild && p % 7 == 3);
        format->quantise(line, a.k + p * s->kv_row_bytes, s->head_dim);
        random_fill(line, s->head_dim, s->wild && p % 7 == 4);
        format->quantise(line, a.v + p * s->kv_row_bytes, s->head_dim);
    }
    free(line);
    return a;
}

static void free_attention(struct attention *a)
{
    free(a->q);
    free(a->max);
    free(a->sum);
    free(a->out);
    free(a->k);
    free(a->v);
}

static struct attend attend_args(const struct scene *s, const struct attention *a)
{
    return (struct attend){.q = a->q,
                           .q_row_floats = s->head_dim,
                           .k = a->k,
                           .v = a->v,
                           .kv_row_bytes = s->kv_row_bytes,
                           .kv_type = s->type,
                           .queries = s->queries,
                           .head_dim = s->head_dim,
                           .key_begin = s->begin,
                           .key_end = s->end,
                           .key_step = s->step,
                           .scale = 1.0f / sqrtf((float)s->head_dim),
                           .max = a->max,
                           .sum = a->sum,
                           .out = a->out};
}

static void attend_equals_reference(void **state)
{
    (void)state;
    digest_begin(17);
    const uint32_t dims[] = {8, 16, 24, 40, 64, 72, 80, 96, 112, 128, 136, 192, 256, 576};
    for (int round = 0; round < 330; round++) {
        struct scene s = {.queries = 1 + random_below(9), .head_dim = dims[random_below(14)]};
        s.type = (berth_kv_type)(BERTH_KV_F32 + random_below(3));
        s.head_dim = s.type == BERTH_KV_Q8_0 ? (s.head_dim + 31) / 32 * 32 : s.head_dim;
        s.step = random_below(2);
        s.positions = s.queries + random_below(round % 10 == 0 ? 400 : 150);
        uint32_t last = s.positions - s.step * (s.queries - 1); /* where the first query ends at most */
        s.begin = random_below(3) ? 0 : random_below(last);
        s.end = s.begin + random_below(last - s.begin + 1);
        s.wild = round % 5 == 4;
        s.kv_row_bytes = kv_bytes_of(s.type, s.head_dim) + (random_below(2) ? 0 : 4 * random_below(50));
        struct attention a = make_attention(&s);
        struct attend args = attend_args(&s, &a);
        size_t out_floats = (size_t)s.queries * s.head_dim;
        float *want = exact_alloc((out_floats + 2 * s.queries) * sizeof(float));
        rows[0].row->attend(&args);
        memcpy(want, a.out, out_floats * 4);
        memcpy(want + out_floats, a.max, s.queries * 4);
        memcpy(want + out_floats + s.queries, a.sum, s.queries * 4);
        digest_add(want, out_floats + 2 * s.queries);
        for (size_t r = 1; r < rows_count; r++) {
            char what[128];
            (void)snprintf(what, sizeof what, "attend queries %u dim %u keys [%u,%u + %u) %s%s", s.queries, s.head_dim,
                           s.begin, s.end, s.step, quant_row(kv_format(s.type))->name, s.wild ? " wild" : "");
            memset(a.out, 0x5a, out_floats * 4);
            memset(a.max, 0x5a, s.queries * 4);
            memset(a.sum, 0x5a, s.queries * 4);
            rows[r].row->attend(&args);
            rows[r].calls++;
            same_bits(what, rows[r].row->name, want, a.out, out_floats);
            same_bits(what, rows[r].row->name, want + out_floats, a.max, s.queries);
            same_bits(what, rows[r].row->name, want + out_floats + s.queries, a.sum, s.queries);
        }
        free(want);
        free_attention(&a);
    }
    digest_is("attention", 0xa3bd092901b40176u);
}

static void attend_reference_is_close_to_double(void **state)
{
    (void)state;
    seed = 18;
    struct scene s = {
        .queries = 3, .head_dim = 64, .positions = 1500, .end = 1500, .type = BERTH_KV_F32, .kv_row_bytes = 256};
    struct attention a = make_attention(&s);
    struct attend args = attend_args(&s, &a);
    float out[3 * 64] = {0};
    float max[3] = {-INFINITY, -INFINITY, -INFINITY};
    float sum[3] = {0};
    for (uint32_t segment = 0; segment < 2; segment++) {
        args.key_begin = segment * ATTEND_SEGMENT;
        args.key_end = segment == 0 ? ATTEND_SEGMENT : s.end;
        rows[0].row->attend(&args);
        for (uint32_t q = 0; q < 3; q++) {
            attend_merge(&max[q], &sum[q], out + q * 64, a.max[q], a.sum[q], a.out + q * 64, 64);
        }
    }
    for (uint32_t q = 0; q < 3; q++) {
        double total = 0;
        double want[64] = {0};
        for (uint32_t p = 0; p < s.positions; p++) {
            double dot = 0;
            for (uint32_t d = 0; d < 64; d++) {
                dot += (double)a.q[q * 64 + d] * (double)load_f32(a.k + p * 256 + d * 4);
            }
            double weight = exp(dot / 8);
            total += weight;
            for (uint32_t d = 0; d < 64; d++) {
                want[d] += weight * (double)load_f32(a.v + p * 256 + d * 4);
            }
        }
        for (uint32_t d = 0; d < 64; d++) {
            assert_true(fabs((double)(out[q * 64 + d] / sum[q]) - want[d] / total) < 1e-6);
        }
    }
    free_attention(&a);
}

int main(void)
{
    const berth_isa order[] = {BERTH_ISA_REF, BERTH_ISA_NEON, BERTH_ISA_AVX2, BERTH_ISA_AVX512};
    const char *const names[] = {"ref", "neon", "avx2", "avx512"};
    for (size_t i = 0; i < 4; i++) {
        const struct kernels *row = kernels_select(order[i]);
        if (row != NULL) {
            rows[rows_count++].row = row;
        } else {
            print_message("SKIPPED: row %s: this CPU or this build cannot run it\n", names[i]);
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_differ_in_every_kernel),
        cmocka_unit_test(select_auto_is_the_last_row_that_runs),
        cmocka_unit_test(matmul_reference_is_close_to_double),
        cmocka_unit_test(matmul_equals_reference),
        cmocka_unit_test(matmul_every_token_count),
        cmocka_unit_test(block_products_equal_those_of_dequantised_weights),
        cmocka_unit_test(prepare_q8_equals_reference),
        cmocka_unit_test(vectors_follow_their_definitions),
        cmocka_unit_test(vectors_equal_reference),
        cmocka_unit_test(attend_reference_is_close_to_double),
        cmocka_unit_test(attend_equals_reference),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 1; i < rows_count; i++) {
        print_message("row %s: %u kernel calls compared with ref\n", rows[i].row->name, rows[i].calls);
        failed += rows[i].calls == 0;
    }
    return failed;
}
