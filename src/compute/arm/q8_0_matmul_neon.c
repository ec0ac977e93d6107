/* SPDX-License-Identifier: MIT
 * Q8_0 matrix product, NEON with SDOT: docs/arithmetic.md, section 3.
 *
 * Two SDOT a block leave four partial sums; pairwise adds turn those of four blocks into four block dots, which are
 * four neighbouring lanes. A row's blocks are loaded once for up to four tokens, whose 16 lanes wait in memory.
 */
#include "compute/arm/neon.h"

enum { BLOCK = ACT_Q8_BLOCK, BLOCK_BYTES = 34, TILE_TOKENS = 4, GROUP = 4 /* blocks */ };

INLINE int8x16_t load_quants(const unsigned char *p)
{
    return vreinterpretq_s8_u8(vld1q_u8(p));
}

/* `count` blocks (1..4) of a row from block b into the lanes of each token. */
INLINE void dot_group(const struct matmul *m, const unsigned char *w, uint32_t token, int tokens, uint32_t b,
                      uint32_t count, float32x4_t lanes[TILE_TOKENS][4])
{
    int8x16_t low[GROUP];
    int8x16_t high[GROUP];
    uint16_t scale[GROUP] = {0};
    UNROLLED(j, GROUP)
    {
        const unsigned char *block = w + ((size_t)b + (size_t)j) * BLOCK_BYTES;
        if ((uint32_t)j < count) {
            scale[j] = load_u16(block);
            low[j] = load_quants(block + 2);
            high[j] = load_quants(block + 18);
        } else {
            low[j] = high[j] = vdupq_n_s8(0);
        }
    }
    float32x4_t w_scale = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(scale)));
    UNROLLED(t, tokens)
    {
        const unsigned char *x = (const unsigned char *)m->x + (token + (uint32_t)t) * m->x_row_bytes;
        int32x4_t d[GROUP];
        UNROLLED(j, GROUP)
        {
            d[j] = vdupq_n_s32(0);
            if ((uint32_t)j < count) {
                const unsigned char *quants = x + ((size_t)b + (size_t)j) * BLOCK;
                d[j] = vdotq_s32(d[j], low[j], load_quants(quants));
                d[j] = vdotq_s32(d[j], high[j], load_quants(quants + 16));
            }
        }
        int32x4_t dots = vpaddq_s32(vpaddq_s32(d[0], d[1]), vpaddq_s32(d[2], d[3]));
        float x_scale[GROUP] = {0};
        memcpy(x_scale, x + m->k + (size_t)b * 4, count * sizeof(float));
        float32x4_t *lane = &lanes[t][b / GROUP % 4];
        float32x4_t now = vfmaq_f32(*lane, vcvtq_f32_s32(dots), vmulq_f32(w_scale, vld1q_f32(x_scale)));
        *lane = count == GROUP ? now : vbslq_f32(mask4(count), now, *lane);
    }
}

INLINE void row_dots(const struct matmul *m, uint32_t row, uint32_t token, int tokens)
{
    const unsigned char *w = (const unsigned char *)m->w + row * m->w_row_bytes;
    float32x4_t lanes[TILE_TOKENS][4];
    UNROLLED(t, tokens)
    {
        UNROLLED(q, 4)
        {
            lanes[t][q] = vdupq_n_f32(0.0f);
        }
    }
    uint32_t blocks = m->k / BLOCK;
    uint32_t b = 0;
    for (; b + GROUP <= blocks; b += GROUP) {
        dot_group(m, w, token, tokens, b, GROUP, lanes);
    }
    if (b < blocks) {
        dot_group(m, w, token, tokens, b, blocks - b, lanes);
    }
    UNROLLED(t, tokens)
    {
        float v = tree_sum(lanes[t]);
        m->y[(token + (uint32_t)t) * m->y_row_floats + row] = m->bias != NULL ? v + m->bias[row] : v;
    }
}

void neon_matmul_q8_0(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    for (uint32_t row = row_begin; row < row_end; row++) {
        uint32_t token = 0;
        for (; token + TILE_TOKENS <= m->tokens; token += TILE_TOKENS) {
            row_dots(m, row, token, TILE_TOKENS);
        }
        for (; token < m->tokens; token++) {
            row_dots(m, row, token, 1);
        }
    }
}

/* ---- activations ---- */

void neon_prepare_q8(const float *x, void *out, uint32_t k)
{
    unsigned char *quants = out;
    unsigned char *scales = quants + k;
    unsigned char *offsets = scales + (size_t)k / BLOCK * 4;
    const uint32x4_t magnitude = vdupq_n_u32(0x7fffffffu);
    for (uint32_t b = 0; b < k / BLOCK; b++) {
        float32x4_t v[8];
        uint32x4_t bits = vdupq_n_u32(0);
        UNROLLED(i, 8)
        {
            v[i] = vld1q_f32(x + (size_t)b * BLOCK + 4 * i);
            bits = vmaxq_u32(bits, vandq_u32(vreinterpretq_u32_f32(v[i]), magnitude));
        }
        uint32_t largest_bits = vmaxvq_u32(bits);
        float largest = f32_from_bits(largest_bits);
        bool finite = largest_bits < 0x7f800000u;
        bool usable = finite && largest >= 0x1p-100f;
        float scale = usable ? largest / 127.0f : finite ? 0.0f : f32_from_bits(0x7fc00000u);
        const float32x4_t factor = vdupq_n_f32(usable ? 127.0f / largest : 0.0f);
        int32x4_t q[8];
        int32x4_t sum = vdupq_n_s32(0);
        UNROLLED(i, 8)
        {
            q[i] = usable ? vcvtnq_s32_f32(vmulq_f32(v[i], factor)) : vdupq_n_s32(0); /* ties to even */
            sum = vaddq_s32(sum, q[i]);
        }
        UNROLLED(i, 4)
        {
            int16x8_t words = vcombine_s16(vmovn_s32(q[2 * i]), vmovn_s32(q[2 * i + 1]));
            vst1_u8(quants + (size_t)b * BLOCK + (size_t)i * 8, vreinterpret_u8_s8(vmovn_s16(words)));
        }
        int32_t offset = -128 * vaddvq_s32(sum);
        memcpy(scales + (size_t)b * 4, &scale, sizeof scale);
        memcpy(offsets + (size_t)b * 4, &offset, sizeof offset);
    }
}
