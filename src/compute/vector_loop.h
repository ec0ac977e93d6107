/* SPDX-License-Identifier: MIT
 * Kernels over one vector of floats, in the vectors of a row (compute/vec_math.h): docs/arithmetic.md, sections 4 and
 * 5. A row's file includes this and adds rope_neighbours() and to_f16. */
#ifndef COMPUTE_VECTOR_LOOP_H
#define COMPUTE_VECTOR_LOOP_H

#include <math.h>

/* Sums and maxima go through the 16 lanes: vector v of the step from i on holds elements at.. and belongs to lane[v].
 */
#define LANE_STEP(v, i, n) UNROLLED(v, LANE_VECS) if ((i) + (uint64_t)v * VEC < (n))

INLINE void lanes_set(vec lane[LANE_VECS], float value)
{
    UNROLLED(v, LANE_VECS)
    {
        lane[v] = vec_set(value);
    }
}

void ROW(rmsnorm)(const float *x, const float *weight, float eps, float *out, uint32_t n)
{
    vec sum[LANE_VECS];
    lanes_set(sum, 0.0f);
    for (uint64_t i = 0; i < n; i += 16) {
        LANE_STEP(v, i, n)
        {
            uint64_t at = i + (uint64_t)v * VEC;
            vec xv = vec_load_some(x + at, n - at);
            sum[v] = vec_fma(xv, xv, sum[v]); /* absent: + 0 to a sum that is no -0 */
        }
    }
    const vec r = vec_set(1.0f / sqrtf(tree_sum(sum) / (float)n + eps));
    for (uint64_t i = 0; i < n; i += VEC) {
        vec xv = vec_mul(vec_load_some(x + i, n - i), r);
        vec_store_some(out + i, n - i, vec_mul(xv, vec_load_some(weight + i, n - i)));
    }
}

/* Pairs (x[2i], x[2i + 1]). */
static void rope_neighbours(float *x, const float *cosines, const float *sines, uint32_t pairs);

static void rope_halves(float *x, const float *cosines, const float *sines, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i += VEC) {
        uint64_t left = pairs - i;
        vec c = vec_load_some(cosines + i, left);
        vec s = vec_load_some(sines + i, left);
        vec x0 = vec_load_some(x + i, left);
        vec x1 = vec_load_some(x + pairs + i, left);
        vec_store_some(x + i, left, vec_fms(x0, c, vec_mul(x1, s)));
        vec_store_some(x + pairs + i, left, vec_fma(x1, c, vec_mul(x0, s)));
    }
}

void ROW(rope)(float *x, const float *cosines, const float *sines, uint32_t rotary, bool half)
{
    if (half) {
        rope_halves(x, cosines, sines, rotary / 2);
    } else {
        rope_neighbours(x, cosines, sines, rotary / 2);
    }
}

void ROW(silu_mul)(const float *gate, const float *up, float *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += VEC) {
        vec g = vec_load_some(gate + i, n - i);
        vec silu = vec_mul(g, vec_sigmoid(g));
        vec_store_some(out + i, n - i, vec_mul(silu, vec_load_some(up + i, n - i)));
    }
}

void ROW(add)(float *x, const float *y, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += VEC) {
        vec_store_some(x + i, n - i, vec_add(vec_load_some(x + i, n - i), vec_load_some(y + i, n - i)));
    }
}

void ROW(add_scaled)(float *x, const float *y, float scale, uint64_t n)
{
    const vec s = vec_set(scale);
    for (uint64_t i = 0; i < n; i += VEC) {
        vec_store_some(x + i, n - i, vec_fma(vec_load_some(y + i, n - i), s, vec_load_some(x + i, n - i)));
    }
}

void ROW(scale)(float *x, float scale, uint64_t n)
{
    const vec s = vec_set(scale);
    for (uint64_t i = 0; i < n; i += VEC) {
        vec_store_some(x + i, n - i, vec_mul(vec_load_some(x + i, n - i), s));
    }
}

void ROW(clamp)(float *x, float limit, uint64_t n)
{
    const vec high = vec_set(limit);
    const vec low = vec_set(-limit);
    for (uint64_t i = 0; i < n; i += VEC) {
        vec_store_some(x + i, n - i, vec_max(low, vec_min(high, vec_load_some(x + i, n - i))));
    }
}

void ROW(softmax)(float *x, uint32_t n)
{
    vec highest[LANE_VECS];
    vec sum[LANE_VECS];
    lanes_set(highest, -INFINITY);
    lanes_set(sum, 0.0f);
    for (uint64_t i = 0; i < n; i += 16) {
        LANE_STEP(v, i, n)
        {
            uint64_t at = i + (uint64_t)v * VEC;
            vec now = vec_max(vec_load_some(x + at, n - at), highest[v]);
            highest[v] = vec_keep(highest[v], now, vec_first(n - at));
        }
    }
    const vec max = vec_set(tree_max(highest));
    for (uint64_t i = 0; i < n; i += 16) {
        LANE_STEP(v, i, n)
        {
            uint64_t at = i + (uint64_t)v * VEC;
            vec e = vec_exp(vec_sub(vec_load_some(x + at, n - at), max));
            sum[v] = vec_keep(sum[v], vec_add(sum[v], e), vec_first(n - at));
            vec_store_some(x + at, n - at, e);
        }
    }
    const vec total = vec_set(tree_sum(sum));
    for (uint64_t i = 0; i < n; i += VEC) {
        vec_store_some(x + i, n - i, vec_div(vec_load_some(x + i, n - i), total));
    }
}

void ROW(sigmoid)(float *x, uint32_t n)
{
    for (uint64_t i = 0; i < n; i += VEC) {
        vec_store_some(x + i, n - i, vec_sigmoid(vec_load_some(x + i, n - i)));
    }
}

#endif
