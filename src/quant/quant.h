/* SPDX-License-Identifier: MIT
 * Element formats of stored tensors: one row a format. Loader, sizes, kernels and convert read the row.
 * Block layouts: GGUF specification (ggml docs/gguf.md and the k-quants pull request). */
#ifndef QUANT_QUANT_H
#define QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum dtype {
    DTYPE_F32 = 0,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_Q8_0,
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q5_0,
    DTYPE_Q5_1,
    DTYPE_Q2_K,
    DTYPE_Q3_K,
    DTYPE_Q4_K,
    DTYPE_Q5_K,
    DTYPE_Q6_K,
    DTYPE_IQ2_XXS,
    DTYPE_IQ2_XS,
    DTYPE_IQ2_S,
    DTYPE_IQ3_XXS,
    DTYPE_IQ3_S,
    DTYPE_IQ1_S,
    DTYPE_IQ1_M,
    DTYPE_IQ4_NL,
    DTYPE_IQ4_XS,
    DTYPE_MXFP4,
    DTYPE_TQ1_0,
    DTYPE_TQ2_0,
    DTYPE_Q1_0,
    DTYPE_Q2_0,
    /* Known to the loader (sizes are right), no kernels: */
    DTYPE_NVFP4,
    DTYPE_F64,
    DTYPE_I8,
    DTYPE_I16,
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_U8,
    DTYPE_U16,
    DTYPE_U32,
    DTYPE_U64,
    DTYPE_BOOL,
    DTYPE_F8_E4M3,
    DTYPE_F8_E5M2,
    DTYPE_F8_E4M3FNUZ,
    DTYPE_F8_E5M2FNUZ,
    DTYPE_F8_E8M0,
    DTYPE_F6_E2M3,
    DTYPE_F6_E3M2,
    DTYPE_F4, /* two a byte */
    DTYPE_C64,
    /* Quants whose scales lie beside them (quant/packed.h); DTYPE_F8_E4M3 may have them, too: */
    DTYPE_MLX2,
    DTYPE_MLX3,
    DTYPE_MLX4,
    DTYPE_MLX5,
    DTYPE_MLX6,
    DTYPE_MLX8,
    DTYPE_MXFP4_ROWS,
    DTYPE_COUNT
};

/* How activations are prepared (once per row) before a matrix kernel of this format reads them. */
enum act_kind {
    ACT_NONE = 0, /* no kernels */
    ACT_F32,      /* the float32 row itself */
    ACT_Q8,       /* a Q8 row in units of 32, below */
    ACT_Q8_SUPER, /* a Q8 row in units of 256 */
    ACT_COUNT
};

/* A prepared Q8 row of k values (k a multiple of the unit; docs/arithmetic.md, section 3):
 *   int8_t  quants[k]        -127..127, value = scale x quant, nearest, ties to even
 *   float   scales[k/unit]   max|x| / 127 of each unit
 *   int16_t sums[k/16]       of the quants of each 16 values: what minima and unsigned weights need
 */
enum { ACT_Q8_UNIT = 32, ACT_Q8_SUPER_UNIT = 256, ACT_SUM_VALUES = 16 };

struct quant_row {
    const char *name;        /* "Q8_0" */
    const char *safetensors; /* dtype string there, NULL: not a safetensors type */
    int32_t ggml_id;         /* type number in GGUF, -1: none */
    uint16_t block_elems;
    uint16_t block_bytes;
    enum act_kind act;
    uint8_t half_at,
        halves; /* binary16 numbers of a block that must be finite: `halves` of them from byte half_at on */
    bool sided; /* read through packed_dequantise(), with the scales beside it */
    /* n elements (a multiple of block_elems) from any alignment to float32; NULL: not readable by itself. Exact. */
    void (*dequantise)(const void *blocks, float *out, size_t n);
    /* n elements from float32 to blocks; NULL: convert cannot write it. */
    void (*quantise)(const float *in, void *blocks, size_t n);
};

extern const struct quant_row quant_rows[DTYPE_COUNT];

static inline const struct quant_row *quant_row(enum dtype type)
{
    return &quant_rows[type];
}
/* DTYPE_COUNT when unknown. */
enum dtype quant_from_ggml(uint32_t ggml_id);
enum dtype quant_from_safetensors(struct str name);
enum dtype quant_from_name(struct str name); /* "q8_0", any case */

/* Bytes of `elems` elements of a row; false when not a whole number of blocks or on overflow. */
bool quant_row_bytes(enum dtype type, uint64_t elems, uint64_t *bytes);
/* Bytes of one prepared activation row of k elements (k must be a multiple of the unit of a Q8 row). */
uint64_t act_row_bytes(enum act_kind kind, uint64_t k);

#endif
