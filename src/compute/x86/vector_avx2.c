/* SPDX-License-Identifier: MIT
 * Kernels over one vector of floats, AVX2: docs/arithmetic.md, sections 4 and 5. */
#include "compute/x86/avx2.h"

#include "compute/vector_loop.h"

static void rope_neighbours(float *x, const float *cosines, const float *sines, uint32_t pairs)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    for (uint32_t i = 0; i < pairs; i += 4) {
        uint64_t left = pairs - i;
        uint64_t half = left < 4 ? left : 4;
        __m256 c = _mm256_permutevar8x32_ps(vec_load_some(cosines + i, half), twice);
        __m256 s = _mm256_permutevar8x32_ps(vec_load_some(sines + i, half), twice);
        __m256 v = vec_load_some(x + (size_t)i * 2, 2 * left);
        __m256 swapped = _mm256_permute_ps(v, 0xb1);
        /* Even elements subtract: x0 c - x1 s; odd ones add: x1 c + x0 s. */
        vec_store_some(x + (size_t)i * 2, 2 * left, _mm256_fmaddsub_ps(v, c, _mm256_mul_ps(swapped, s)));
    }
}

void avx2_to_f16(const float *x, uint16_t *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        uint64_t left = n - i;
        __m128i half = _mm256_cvtps_ph(vec_load_some(x + i, left), _MM_FROUND_TO_NEAREST_INT);
        if (left >= 8) {
            _mm_storeu_si128((void *)(out + i), half);
        } else {
            memcpy(out + i, &half, left * sizeof *out);
        }
    }
}
