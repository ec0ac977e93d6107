/* SPDX-License-Identifier: MIT
 * KV bytes, the score matrix of unfused head sizes, and the prefill chunk that follows from it. */
#include <math.h>

#include "base/str.h"
#include "fit/seed_kv.h"

enum { KV_BF16_BYTES = 2, SCORE_BYTES = 2, FUSED_QUERIES_MAX = 8, CONV_BYTES = 2, STATE_BYTES = 4 };

/* Arithmetic as in the documents: a NaN operand gives NaN. */
static double smaller(double a, double b)
{
    return isnan(a) || isnan(b) ? (double)NAN : a < b ? a : b;
}

enum seed_layer seed_layer_kind(const berth_fit_config *config, size_t layer)
{
    if (layer >= config->layer_types_count) {
        return SEED_LAYER_FULL;
    }
    struct str type = {config->layer_types[layer].ptr, config->layer_types[layer].bytes};
    return str_is(type, "sliding_attention")  ? SEED_LAYER_SLIDING
           : str_is(type, "linear_attention") ? SEED_LAYER_LINEAR
                                              : SEED_LAYER_FULL;
}

double berth_kv_quant_bytes_per_element(double bits, double group_size)
{
    return bits / 8 + 4 / group_size;
}

static double element_bytes(const berth_kv_scheme *scheme, size_t layer)
{
    if (scheme == NULL) {
        return KV_BF16_BYTES;
    }
    if (scheme->layers_count > 0) {
        for (size_t i = scheme->layers_count; i > 0; i--) { /* the last of equal rows wins */
            const berth_kv_quant *row = &scheme->layers[i - 1];
            if (row->layer_idx == (double)layer) {
                return berth_kv_quant_bytes_per_element(row->bits, row->group_size);
            }
        }
        return KV_BF16_BYTES;
    }
    return scheme->bits == 0
               ? KV_BF16_BYTES
               : berth_kv_quant_bytes_per_element(scheme->bits, scheme->group_size == 0 ? 64 : scheme->group_size);
}

static double linear_state_bytes(const double *number)
{
    double values = number[BERTH_FIT_LINEAR_VALUE_HEADS] * number[BERTH_FIT_LINEAR_VALUE_HEAD_DIM];
    double keys = number[BERTH_FIT_LINEAR_KEY_HEADS] * number[BERTH_FIT_LINEAR_KEY_HEAD_DIM];
    double kept = number[BERTH_FIT_LINEAR_CONV_KERNEL] - 1;
    return values * number[BERTH_FIT_LINEAR_KEY_HEAD_DIM] * STATE_BYTES +
           (kept < 0 ? 0 : kept) * (2 * keys + values) * CONV_BYTES;
}

static void cost_of_first(const berth_fit_config *config, const berth_kv_scheme *scheme, double layers,
                          berth_kv_cost *out)
{
    const double *number = config->number;
    double linear = 0;
    *out = (berth_kv_cost){.window_tokens = number[BERTH_FIT_SLIDING_WINDOW]};
    if (layers > BERTH_FIT_LAYERS_MAX) {
        out->full_bytes_per_token = (double)NAN;
        return;
    }
    for (size_t i = 0; (double)i < layers; i++) {
        double bytes = element_bytes(scheme, i);
        switch (seed_layer_kind(config, i)) {
        case SEED_LAYER_SLIDING:
            out->sliding_bytes_per_token += 2 * number[BERTH_FIT_KV_HEADS] * number[BERTH_FIT_HEAD_DIM] * bytes;
            break;
        case SEED_LAYER_LINEAR:
            linear++;
            break;
        case SEED_LAYER_FULL:
        default:
            out->full_bytes_per_token +=
                2 * number[BERTH_FIT_GLOBAL_KV_HEADS] * number[BERTH_FIT_GLOBAL_HEAD_DIM] * bytes;
            break;
        }
    }
    out->state_bytes = linear > 0 ? linear * linear_state_bytes(number) : 0;
}

void berth_kv_cost_of(const berth_fit_config *config, const berth_kv_scheme *scheme, berth_kv_cost *out)
{
    cost_of_first(config, scheme, config->number[BERTH_FIT_LAYERS], out);
}

double seed_kv_bytes(const berth_kv_cost *cost, double tokens)
{
    return cost->full_bytes_per_token * tokens + cost->sliding_bytes_per_token * smaller(tokens, cost->window_tokens) +
           cost->state_bytes;
}

double berth_kv_bytes_at(const berth_fit_config *config, double tokens, const berth_kv_scheme *scheme)
{
    berth_kv_cost cost;
    berth_kv_cost_of(config, scheme, &cost);
    return seed_kv_bytes(&cost, tokens);
}

double berth_kv_owned_bytes_at(const berth_fit_config *config, double tokens, const berth_kv_scheme *scheme)
{
    berth_kv_cost cost;
    double shared = config->number[BERTH_FIT_KV_SHARED_LAYERS];
    double owned = config->number[BERTH_FIT_LAYERS] - (shared > 0 ? shared : 0);
    cost_of_first(config, scheme, owned, &cost);
    return seed_kv_bytes(&cost, tokens);
}

/* Head sizes that the fused prefill kernel takes (MLX 0.32.2 on M1 to M4). */
static bool is_fused(double head_dim)
{
    return head_dim == 64 || head_dim == 72 || head_dim == 80 || head_dim == 96 || head_dim == 128;
}

double berth_kv_sdpa_fallback_bytes(const berth_fit_config *config, double chunk_tokens, double ctx_tokens)
{
    const double *number = config->number;
    double heads = number[BERTH_FIT_HEADS];
    double queries = smaller(chunk_tokens, ctx_tokens);
    double layers = number[BERTH_FIT_LAYERS];
    double window = number[BERTH_FIT_SLIDING_WINDOW];
    double most = 0;
    if (heads <= 0 || queries <= FUSED_QUERIES_MAX || layers > BERTH_FIT_LAYERS_MAX) {
        return 0;
    }
    for (size_t i = 0; (double)i < layers; i++) {
        enum seed_layer kind = seed_layer_kind(config, i);
        bool sliding = kind == SEED_LAYER_SLIDING && window > 0;
        if (kind == SEED_LAYER_LINEAR || is_fused(number[sliding ? BERTH_FIT_HEAD_DIM : BERTH_FIT_GLOBAL_HEAD_DIM])) {
            continue;
        }
        double keys = sliding ? smaller(ctx_tokens, window + queries) : ctx_tokens;
        double bytes = heads * queries * keys * SCORE_BYTES;
        most = bytes > most ? bytes : most; /* one layer lives at a time */
    }
    return most;
}

uint32_t berth_kv_prefill_chunk(const berth_fit_config *config, double prompt_tokens, uint32_t wanted,
                                bool bounded_workspace)
{
    const double scores_max = 1073741824.0;
    uint32_t chunk = wanted > 0 ? wanted : BERTH_FIT_DEFAULT_CHUNK;
    while (wanted == 0 && bounded_workspace && chunk > FUSED_QUERIES_MAX &&
           berth_kv_sdpa_fallback_bytes(config, chunk, prompt_tokens) > scores_max) {
        chunk /= 2;
    }
    return chunk;
}
