/* SPDX-License-Identifier: MIT
 * Reference attention over one segment: docs/arithmetic.md, section 6. */
#include <math.h>

#include "base/bytes.h"
#include "compute/lanes.h"
#include "compute/rows.h"

/* One element of a key or value row. */
static float kv_element(const struct attend *a, const void *base, uint32_t key, uint32_t d)
{
    const unsigned char *row = (const unsigned char *)base + key * a->kv_row_bytes;
    if (a->kv_type == BERTH_KV_Q8_0) {
        const unsigned char *block = row + d / 32 * 34;
        return f32_from_f16(load_u16(block)) * (float)(int8_t)block[2 + d % 32];
    }
    return a->kv_type == BERTH_KV_F16 ? f32_from_f16(load_u16(row + (size_t)d * 2)) : load_f32(row + (size_t)d * 4);
}

static float score(const struct attend *a, const float *q, uint32_t key)
{
    float lane[LANES] = {0};
    for (uint32_t d = 0; d < a->head_dim; d++) {
        lane[d % LANES] = fmaf(q[d], kv_element(a, a->k, key, d), lane[d % LANES]);
    }
    return lanes_sum(lane) * a->scale;
}

/* One query against keys [begin, end) of one block. */
static void attend_block(const struct attend *a, uint32_t query, uint32_t begin, uint32_t end)
{
    const float *q = a->q + query * a->q_row_floats;
    float *out = a->out + (size_t)query * a->head_dim;
    float p[ATTEND_BLOCK];
    float lane[LANES];
    for (int j = 0; j < LANES; j++) {
        lane[j] = -INFINITY;
    }
    for (uint32_t key = begin; key < end; key++) {
        p[key - begin] = score(a, q, key);
        lane[key % LANES] = max_or_second(p[key - begin], lane[key % LANES]);
    }
    float max = max_or_second(lanes_max(lane), a->max[query]);
    float shrink = math_exp(a->max[query] - max);
    float sum[LANES] = {0};
    for (uint32_t key = begin; key < end; key++) {
        p[key - begin] = math_exp(p[key - begin] - max);
        sum[key % LANES] += p[key - begin];
    }
    a->max[query] = max;
    a->sum[query] = fmaf(a->sum[query], shrink, lanes_sum(sum));
    for (uint32_t d = 0; d < a->head_dim; d++) {
        float v = out[d] * shrink;
        for (uint32_t key = begin; key < end; key++) {
            v = fmaf(p[key - begin], kv_element(a, a->v, key, d), v);
        }
        out[d] = v;
    }
}

void ref_attend(const struct attend *a)
{
    for (uint32_t query = 0; query < a->queries; query++) {
        a->max[query] = -INFINITY;
        a->sum[query] = 0.0f;
        for (uint32_t d = 0; d < a->head_dim; d++) {
            a->out[(size_t)query * a->head_dim + d] = 0.0f;
        }
        uint32_t end = a->key_end + query * a->key_step;
        for (uint32_t key = a->key_begin; key < end;) {
            uint32_t stop = (key / ATTEND_BLOCK + 1) * ATTEND_BLOCK;
            stop = stop < end ? stop : end;
            attend_block(a, query, key, stop);
            key = stop;
        }
    }
}
