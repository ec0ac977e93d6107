/* SPDX-License-Identifier: MIT
 *
 * Products of Q4_K and Q6_K rows against docs/arithmetic.md, section 3. The numbers are those of a Python program that
 * was written from that page and the published layouts of the blocks, with rational numbers in place of fma(): a
 * misreading of the page that all rows share would show here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "compute/kernels.h"

enum { K_MAX = 5120, BLOCKS = 4 };

/* The golden blocks again and again; k / 256 units over 16 lanes. */
static void read_row(const char *file, uint64_t block_bytes, uint32_t k, unsigned char *out)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/golden/quant/%s.blocks", BERTH_TESTS_DIR, file);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_int_equal(fread(out, block_bytes, BLOCKS, in), BLOCKS);
    fclose(in);
    for (uint32_t unit = BLOCKS; unit < k / 256; unit++) {
        memcpy(out + unit * block_bytes, out + unit % BLOCKS * block_bytes, (size_t)block_bytes);
    }
}

static void page_products(void **state)
{
    (void)state;
    static const struct {
        enum dtype type;
        const char *file;
        uint32_t k, bits;
    } cases[] = {
        {DTYPE_Q4_K, "q4_k", 768, 0x42c54946},
        {DTYPE_Q4_K, "q4_k", 5120, 0xc45fa8c3},
        {DTYPE_Q6_K, "q6_k", 768, 0x42c1ef52},
        {DTYPE_Q6_K, "q6_k", 5120, 0xc467fcd6},
    };
    static const berth_isa isas[] = {BERTH_ISA_REF, BERTH_ISA_AVX2, BERTH_ISA_AVX512, BERTH_ISA_NEON};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const enum dtype type = cases[c].type;
        const uint32_t k = cases[c].k;
        const enum act_kind act = quant_row(type)->act;
        float *x = malloc(K_MAX * sizeof *x);
        unsigned char *w = malloc((size_t)K_MAX / 256 * quant_row(type)->block_bytes);
        void *prepared = aligned_alloc(64, 2 * (size_t)K_MAX);
        void *scratch = aligned_alloc(64, MATMUL_SCRATCH_BYTES);
        assert_true(x != NULL && w != NULL && prepared != NULL && scratch != NULL);
        read_row(cases[c].file, quant_row(type)->block_bytes, k, w);
        for (uint32_t i = 0; i < k; i++) {
            int32_t n = (int32_t)(i * 2654435761u >> 8) - (1 << 23);
            x[i] = (float)n * 0x1p-20f * (float)(1 + i / 256 % 5);
        }
        for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
            const struct kernels *row = kernels_select(isas[i]);
            if (row == NULL) { /* not on this machine */
                assert_true(isas[i] != BERTH_ISA_REF);
                continue;
            }
            float y = 0;
            row->prepare[act](x, prepared, k);
            struct matmul m = {
                .w = w, .x = prepared, .y = &y, .y_row_floats = 1, .k = k, .tokens = 1, .scratch = scratch};
            m.x_row_bytes = act_row_bytes(act, k);
            assert_true(m.x_row_bytes <= 2 * (uint64_t)K_MAX && quant_row_bytes(type, k, &m.w_row_bytes));
            row->matmul[type](&m, 0, 1);
            if (f32_to_bits(y) != cases[c].bits) {
                fail_msg("%s, k %u, %s: 0x%08x, wanted 0x%08x", cases[c].file, k, row->name, f32_to_bits(y),
                         cases[c].bits);
            }
        }
        free(scratch);
        free(prepared);
        free(w);
        free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(page_products)};
    return cmocka_run_group_tests_name("compute_page", tests, NULL, NULL);
}
