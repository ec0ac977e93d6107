/* SPDX-License-Identifier: MIT
 * The format table and its look-ups. ggml ids and block sizes: GGUF specification; dtype names: safetensors. */
#include "quant/quant.h"

#include "base/checked.h"
#include "quant/formats.h"

/* clang-format off */
#define WRITTEN(name, st, id, elems, bytes, act, half_at, halves, fn) \
    {name, st, id, elems, bytes, act, half_at, halves, false, fn##_dequantise, fn##_quantise}
#define DECODED(name, st, id, elems, bytes, fn)       {name, st, id, elems, bytes, ACT_F32, 0, 0, false, fn##_dequantise, NULL}
#define SIZED(name, st, id, elems, bytes)             {name, st, id, elems, bytes, ACT_NONE, 0, 0, false, NULL, NULL}
#define SIDED(name, st, elems, bytes)                 {name, st, -1, elems, bytes, ACT_F32, 0, 0, true, NULL, NULL}

const struct quant_row quant_rows[DTYPE_COUNT] = {
    [DTYPE_F32] =     WRITTEN("F32",    "F32",  0,  1,   4,   ACT_F32, 0, 0, f32),
    [DTYPE_F16] =     WRITTEN("F16",    "F16",  1,  1,   2,   ACT_F32, 0, 1, f16),
    [DTYPE_BF16] =    WRITTEN("BF16",   "BF16", 30, 1,   2,   ACT_F32, 0, 0, bf16),
    [DTYPE_Q8_0] =    WRITTEN("Q8_0",   NULL,   8,  32,  34,  ACT_Q8,  0, 1, q8_0),
    [DTYPE_Q4_0] =    WRITTEN("Q4_0",   NULL,   2,  32,  18,  ACT_Q8,  0, 1, q4_0),
    [DTYPE_Q4_1] =    WRITTEN("Q4_1",   NULL,   3,  32,  20,  ACT_Q8,  0, 2, q4_1),
    [DTYPE_Q5_0] =    WRITTEN("Q5_0",   NULL,   6,  32,  22,  ACT_Q8,  0, 1, q5_0),
    [DTYPE_Q5_1] =    WRITTEN("Q5_1",   NULL,   7,  32,  24,  ACT_Q8,  0, 2, q5_1),
    [DTYPE_Q2_K] =    WRITTEN("Q2_K",   NULL,   10, 256, 84,  ACT_Q8_SUPER, 80, 2, q2_k),
    [DTYPE_Q3_K] =    WRITTEN("Q3_K",   NULL,   11, 256, 110, ACT_Q8_SUPER, 108, 1, q3_k),
    [DTYPE_Q4_K] =    WRITTEN("Q4_K",   NULL,   12, 256, 144, ACT_Q8_SUPER, 0, 2, q4_k),
    [DTYPE_Q5_K] =    WRITTEN("Q5_K",   NULL,   13, 256, 176, ACT_Q8_SUPER, 0, 2, q5_k),
    [DTYPE_Q6_K] =    WRITTEN("Q6_K",   NULL,   14, 256, 210, ACT_Q8_SUPER, 208, 1, q6_k),
    [DTYPE_IQ2_XXS] = DECODED("IQ2_XXS", NULL, 16, 256, 66, iq2_xxs),
    [DTYPE_IQ2_XS]  = DECODED("IQ2_XS",  NULL, 17, 256, 74, iq2_xs),
    [DTYPE_IQ2_S]   = DECODED("IQ2_S",   NULL, 22, 256, 82, iq2_s),
    [DTYPE_IQ3_XXS] = DECODED("IQ3_XXS", NULL, 18, 256, 98, iq3_xxs),
    [DTYPE_IQ3_S]   = DECODED("IQ3_S",   NULL, 21, 256, 110, iq3_s),
    [DTYPE_IQ1_S]   = DECODED("IQ1_S",   NULL, 19, 256, 50, iq1_s),
    [DTYPE_IQ1_M]   = DECODED("IQ1_M",   NULL, 29, 256, 56, iq1_m),
    [DTYPE_IQ4_NL] =  WRITTEN("IQ4_NL", NULL,   20, 32,  18,  ACT_Q8,  0, 1, iq4_nl),
    [DTYPE_IQ4_XS] =  WRITTEN("IQ4_XS", NULL,   23, 256, 136, ACT_Q8_SUPER, 0, 1, iq4_xs),
    [DTYPE_MXFP4] =   WRITTEN("MXFP4",  NULL,   39, 32,  17,  ACT_Q8,  0, 0, mxfp4),
    [DTYPE_TQ1_0]   = DECODED("TQ1_0", NULL, 34, 256, 54, tq1_0),
    [DTYPE_TQ2_0]   = DECODED("TQ2_0", NULL, 35, 256, 66, tq2_0),
    [DTYPE_Q1_0]    = DECODED("Q1_0",  NULL, 41, 128, 18, q1_0),
    [DTYPE_Q2_0]    = DECODED("Q2_0",  NULL, 42, 64,  18, q2_0),
    [DTYPE_NVFP4]   = SIZED("NVFP4",   NULL, 40, 64, 36),
    [DTYPE_F64]     = SIZED("F64",  "F64",  28, 1, 8),
    [DTYPE_I8]      = SIZED("I8",   "I8",   24, 1, 1),
    [DTYPE_I16]     = SIZED("I16",  "I16",  25, 1, 2),
    [DTYPE_I32]     = SIZED("I32",  "I32",  26, 1, 4),
    [DTYPE_I64]     = SIZED("I64",  "I64",  27, 1, 8),
    [DTYPE_U8]      = SIZED("U8",   "U8",   -1, 1, 1),
    [DTYPE_U16]     = SIZED("U16",  "U16",  -1, 1, 2),
    [DTYPE_U32]     = SIZED("U32",  "U32",  -1, 1, 4),
    [DTYPE_U64]     = SIZED("U64",  "U64",  -1, 1, 8),
    [DTYPE_BOOL]    = SIZED("BOOL", "BOOL", -1, 1, 1),
    [DTYPE_F8_E4M3] = SIDED("F8_E4M3", "F8_E4M3", 1, 1),
    [DTYPE_F8_E5M2] = SIZED("F8_E5M2", "F8_E5M2", -1, 1, 1),
    [DTYPE_F8_E4M3FNUZ] = SIZED("F8_E4M3FNUZ", "F8_E4M3FNUZ", -1, 1, 1),
    [DTYPE_F8_E5M2FNUZ] = SIZED("F8_E5M2FNUZ", "F8_E5M2FNUZ", -1, 1, 1),
    [DTYPE_F8_E8M0] = SIZED("F8_E8M0", "F8_E8M0", -1, 1, 1),
    [DTYPE_F6_E2M3] = SIZED("F6_E2M3", "F6_E2M3", -1, 4, 3),
    [DTYPE_F6_E3M2] = SIZED("F6_E3M2", "F6_E3M2", -1, 4, 3),
    [DTYPE_F4]      = SIZED("F4",   "F4",   -1, 2, 1),
    [DTYPE_C64]     = SIZED("C64",  "C64",  -1, 1, 8),
    [DTYPE_MLX2]    = SIDED("MLX2", NULL, 32, 8),
    [DTYPE_MLX3]    = SIDED("MLX3", NULL, 32, 12),
    [DTYPE_MLX4]    = SIDED("MLX4", NULL, 32, 16),
    [DTYPE_MLX5]    = SIDED("MLX5", NULL, 32, 20),
    [DTYPE_MLX6]    = SIDED("MLX6", NULL, 32, 24),
    [DTYPE_MLX8]    = SIDED("MLX8", NULL, 32, 32),
    [DTYPE_MXFP4_ROWS] = SIDED("MXFP4_ROWS", NULL, 32, 16),
};
/* clang-format on */

enum dtype quant_from_ggml(uint32_t ggml_id)
{
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (quant_rows[t].ggml_id >= 0 && (uint32_t)quant_rows[t].ggml_id == ggml_id) {
            return (enum dtype)t;
        }
    }
    return DTYPE_COUNT;
}

enum dtype quant_from_safetensors(struct str name)
{
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (quant_rows[t].safetensors != NULL && str_is(name, quant_rows[t].safetensors)) {
            return (enum dtype)t;
        }
    }
    return DTYPE_COUNT;
}

enum dtype quant_from_name(struct str name)
{
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (str_same(name, str_from(quant_rows[t].name))) {
            return (enum dtype)t;
        }
    }
    return DTYPE_COUNT;
}

bool quant_row_bytes(enum dtype type, uint64_t elems, uint64_t *bytes)
{
    const struct quant_row *row = quant_row(type);
    if (elems % row->block_elems != 0) {
        return false;
    }
    return !u64_mul_overflows(elems / row->block_elems, row->block_bytes, bytes);
}

uint64_t act_row_bytes(enum act_kind kind, uint64_t k)
{
    switch (kind) {
    case ACT_F32:
        return k * sizeof(float);
    case ACT_Q8:
        return k + k / ACT_Q8_UNIT * sizeof(float) + k / ACT_SUM_VALUES * sizeof(int16_t);
    case ACT_Q8_SUPER:
        return k + k / ACT_Q8_SUPER_UNIT * sizeof(float) + k / ACT_SUM_VALUES * sizeof(int16_t);
    case ACT_NONE:
    case ACT_COUNT:
        break;
    }
    return 0;
}
