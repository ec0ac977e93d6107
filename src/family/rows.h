/* SPDX-License-Identifier: MIT
 * Tensor rows that several families share, by group. */
#ifndef FAMILY_ROWS_H
#define FAMILY_ROWS_H

#include "family/family.h"

/* Arrays rather than groups, so that a family's const initialiser can name them: GROUP(common). */
#define ROWS_DECLARE(name, n)                      \
    extern const struct tensor_row rows_##name[n]; \
    enum { rows_##name##_count = (n) }
ROWS_DECLARE(common, 10);          /* embeddings, head, norms, attention */
ROWS_DECLARE(common_permuted, 10); /* the same where GGUF interleaves the rows of q and k */
ROWS_DECLARE(qkv_bias, 4);         /* all optional */
ROWS_DECLARE(qk_norm_head, 2);
ROWS_DECLARE(qk_norm_full, 2);
ROWS_DECLARE(dense_ffn, 3);
ROWS_DECLARE(experts, 4);       /* mlp.experts.N.gate_proj, mlp.gate */
ROWS_DECLARE(experts_w123, 4);  /* block_sparse_moe.experts.N.w1, .gate */
ROWS_DECLARE(shared_expert, 4); /* mlp.shared_expert with its sigmoid gate */

#define GROUP(name)                      \
    {                                    \
        rows_##name, rows_##name##_count \
    }

#endif
