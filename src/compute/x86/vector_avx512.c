/* SPDX-License-Identifier: MIT
 * Kernels over one vector of floats, AVX-512: docs/arithmetic.md, sections 4 and 5. */
#include "compute/x86/avx512.h"

#include "compute/vector_loop.h"

static void rope_neighbours(float *x, const float *cosines, const float *sines, uint32_t pairs)
{
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    for (uint32_t i = 0; i < pairs; i += 8) {
        uint64_t left = pairs - i;
        uint64_t half = left < 8 ? left : 8;
        __m512 c = _mm512_permutexvar_ps(twice, vec_load_some(cosines + i, half));
        __m512 s = _mm512_permutexvar_ps(twice, vec_load_some(sines + i, half));
        __m512 v = vec_load_some(x + (size_t)i * 2, 2 * left);
        __m512 swapped = _mm512_permute_ps(v, 0xb1);
        /* Even elements subtract: x0 c - x1 s; odd ones add: x1 c + x0 s. */
        v = _mm512_fmaddsub_ps(v, c, _mm512_mul_ps(swapped, s));
        vec_store_some(x + (size_t)i * 2, 2 * left, v);
    }
}

void avx512_to_f16(const float *x, uint16_t *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __m256i half = _mm512_cvtps_ph(vec_load_some(x + i, n - i), _MM_FROUND_TO_NEAREST_INT);
        _mm256_mask_storeu_epi16(out + i, vec_first(n - i), half);
    }
}
