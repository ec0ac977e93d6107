/* SPDX-License-Identifier: MIT
 *
 * The trunk: all non-expert weights of a model, resident. Matrices keep the format of the file, vectors (norms, biases)
 * are float32. Layout hands out the places and notes what to read where; trunk_load() reads it in file order through
 * the staging buffers.
 */
#ifndef FORWARD_WEIGHTS_H
#define FORWARD_WEIGHTS_H

#include "experts/catalog.h"
#include "experts/io.h"
#include "family/family.h"
#include "memory/arena.h"

struct matrix {
    const void *data; /* [rows][k]; NULL: the model has none */
    uint64_t row_bytes;
    uint32_t rows, k;
    enum dtype dtype;
    const float *scale;      /* multiplies the product before the bias; NULL: none */
    struct packed_side side; /* format kind PACKED_NONE: the matrix is all there is */
};

struct layer_weights {
    const float *attn_norm, *ffn_norm;              /* [hidden] */
    const float *q_bias, *k_bias, *v_bias, *o_bias; /* NULL: none */
    const float *q_norm, *k_norm;                   /* [head_dim] or all heads; NULL: none */
    struct matrix q, k, v, o;     /* [heads * head_dim][hidden], [kv][hidden], [hidden][heads * head_dim] */
    struct matrix gate, up, down; /* dense layers: [ffn][hidden] x 2, [hidden][ffn] */
    struct matrix router;         /* MoE layers: [experts][hidden] */
    struct matrix shared_router, shared_gate, shared_up, shared_down;
    const float *expert_scale[EXPERT_PARTS]; /* [experts] as matrix.scale; NULL: none */
    uint32_t moe_index;                      /* number among the MoE layers */
    bool moe, slides;
};

/* One tensor to read. */
struct trunk_read {
    void *to;
    uint64_t offset, bytes; /* in the file */
    uint64_t elems;
    uint32_t file;
    uint16_t layer;
    uint8_t role;
    uint8_t dtype;
    bool widen;  /* convert to float32 */
    bool scales; /* beside a matrix: a value that is not finite would spoil its rows */
};

struct trunk {
    struct matrix embed, head; /* head is embed when tied */
    const float *out_norm;
    const float *rope_factors; /* GGUF rope_freqs.weight, or NULL */
    struct layer_weights *layers;
    struct trunk_read *reads; /* [reads_count] */
    uint32_t *order;          /* [reads_count] file order */
    uint32_t reads_count;
    uint64_t parameters; /* elements, experts not counted */
    uint64_t stored_bytes;
};

/* Formats of the routed experts, by MoE layer. */
struct expert_formats {
    enum dtype gate, up, down;
    struct packed packed[EXPERT_PARTS]; /* kind PACKED_NONE: nothing lies beside the part */
};

/* `weights` takes the tensors, `tables` the descriptors. Refuses formats without a kernel in `has_kernel`. */
berth_status trunk_layout(struct arena *weights, struct arena *tables, const struct family *family,
                          const struct checkpoint *checkpoint, const struct hparams *hparams,
                          const bool has_kernel[DTYPE_COUNT], struct trunk *out, berth_error *err);

/* Takes and fills the expert catalog and the formats [moe_layers]. */
berth_status expert_catalog(struct arena *tables, const struct family *family, const struct checkpoint *checkpoint,
                            const struct hparams *hparams, const bool has_kernel[DTYPE_COUNT], struct catalog *catalog,
                            struct expert_formats **formats, berth_error *err);

/* Staging buffers of trunk_load(). */
enum { STAGING_BUFFERS = 4, STAGING_BUFFER_BYTES = 1 << 20, STAGING_BUFFER_LEAST = 64 << 10 };
struct staging {
    unsigned char *buffers[STAGING_BUFFERS];
    uint64_t buffer_bytes;
};
/* Buffers of 1/64 of the trunk each, within the two bounds. */
berth_status staging_layout(struct arena *arena, uint64_t trunk_bytes, struct staging *out, berth_error *err);

struct trunk_load {
    const struct trunk *trunk;
    const struct staging *staging;
    struct io *io;
    const struct family *family; /* for the names in errors */
    enum checkpoint_format format;
    berth_progress_fn *progress; /* may be NULL */
    void *progress_user;
};
berth_status trunk_load(const struct trunk_load *load, berth_error *err);

#endif
