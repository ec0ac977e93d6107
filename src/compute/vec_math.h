/* SPDX-License-Identifier: MIT
 * exp and sigmoid in the vectors of a row: docs/arithmetic.md, section 4. Included by the header of the row
 * (x86/avx2.h, x86/avx512.h, arm/neon.h), which brings
 *   vec, VEC, LANE_VECS           a register of VEC floats; LANE_VECS of them hold the 16 virtual lanes in order
 *   vec_set vec_load vec_store    one value in all elements; any address that suits a float
 *   vec_add vec_sub vec_mul vec_div, vec_fma (a b + c), vec_fms (a b - c), one rounding each
 *   vec_max vec_min               a > b ? a : b and a < b ? a : b
 *   vec_choice vec_first vec_between vec_keep   the first `count` elements, those in [begin, end); `now` where chosen
 *   vec_load_some vec_store_some  of which `left` exist (1 and more); absent ones are not touched and read as 0
 *   vec_from_f32 _f16 _bf16       stored floats
 *   tree_sum tree_max             of the 16 lanes
 *   vec_times_two_to              p 2^n, in two steps, where t = magic + n
 *   vec_minus_magnitude           -|x|
 *   vec_if_not_negative           x >= 0 ? yes : no
 *   ROW(name)                     the row's function of that name (compute/rows.h) */
#ifndef COMPUTE_VEC_MATH_H
#define COMPUTE_VEC_MATH_H

INLINE vec vec_exp(vec x)
{
    const vec magic = vec_set(0x1.8p23f);
    x = vec_min(vec_set(89.0f), x);
    x = vec_max(vec_set(-104.0f), x);
    vec t = vec_fma(x, vec_set(0x1.715476p+0f), magic);
    vec n = vec_sub(t, magic);
    vec r = vec_fma(n, vec_set(-0x1.62e43p-1f), x);
    r = vec_fma(n, vec_set(0x1.05c61p-29f), r);
    vec p = vec_set(0x1.6a2434p-10f);
    p = vec_fma(p, r, vec_set(0x1.1239e2p-7f));
    p = vec_fma(p, r, vec_set(0x1.5558f2p-5f));
    p = vec_fma(p, r, vec_set(0x1.555492p-3f));
    p = vec_fma(p, r, vec_set(0x1.fffffcp-2f));
    p = vec_fma(p, r, vec_set(1.0f));
    p = vec_fma(p, r, vec_set(1.0f));
    return vec_times_two_to(p, t, magic);
}

INLINE vec vec_sigmoid(vec x)
{
    const vec one = vec_set(1.0f);
    vec e = vec_exp(vec_minus_magnitude(x));
    return vec_div(vec_if_not_negative(x, one, e), vec_add(one, e));
}

#endif
