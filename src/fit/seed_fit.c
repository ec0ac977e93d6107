/* SPDX-License-Identifier: MIT
 * The contract of the documents: total against usable, the largest context by bisection, and the decode law. */
#include <math.h>

#include "base/error.h"
#include "base/js_text.h"
#include "base/str.h"
#include "fit/seed_kv.h"

/* ---- what may be computed with ---------------------------------------------------------------------- */

static const struct {
    berth_fit_field field;
    const char *key;
    double most;
} checked[] = {
    {BERTH_FIT_LAYERS, "num_hidden_layers", BERTH_FIT_LAYERS_MAX},
    {BERTH_FIT_HEADS, "num_attention_heads", 1e6},
    {BERTH_FIT_KV_HEADS, "num_key_value_heads", 1e6},
    {BERTH_FIT_HEAD_DIM, "head_dim", 1e6},
    {BERTH_FIT_GLOBAL_KV_HEADS, "num_global_key_value_heads", 1e6},
    {BERTH_FIT_GLOBAL_HEAD_DIM, "global_head_dim", 1e6},
    {BERTH_FIT_SLIDING_WINDOW, "sliding_window", 1e12},
    {BERTH_FIT_EXPERTS, "num_experts", 1e6},
    {BERTH_FIT_TOP_K, "num_experts_per_tok", 1e6},
    {BERTH_FIT_LINEAR_VALUE_HEADS, "linear_num_value_heads", 1e6},
    {BERTH_FIT_LINEAR_KEY_HEADS, "linear_num_key_heads", 1e6},
    {BERTH_FIT_LINEAR_KEY_HEAD_DIM, "linear_key_head_dim", 1e6},
    {BERTH_FIT_LINEAR_VALUE_HEAD_DIM, "linear_value_head_dim", 1e6},
    {BERTH_FIT_LINEAR_CONV_KERNEL, "linear_conv_kernel_dim", 1e6},
};

static berth_status wrong_number(const char *key, double value, const char *wanted, berth_error *err)
{
    char text[JS_NUMBER_MAX];
    int bytes = (int)js_number(value, text); /* "null" when it is not finite */
    berth_status status = error_set(err, BERTH_ERR_FORMAT, "\"%s\" is %.*s, but %s is wanted: no size follows from it",
                                    key, isfinite(value) ? bytes : 8, isfinite(value) ? text : "infinite", wanted);
    error_at_object(err, key, strlen(key));
    return status;
}

/* The seed computes on with anything; here a dimension that would make a size negative or NaN stops it. */
static berth_status check_config(const berth_fit_config *config, berth_error *err)
{
    for (size_t i = 0; i < sizeof checked / sizeof checked[0]; i++) {
        double value = config->number[checked[i].field];
        bool absent = (config->undefined >> checked[i].field & 1) != 0 || isnan(value);
        if (!absent && !(value >= 0 && value <= checked[i].most)) {
            return wrong_number(checked[i].key, value, "a size that a model can have", err);
        }
    }
    double most = config->number[BERTH_FIT_MAX_POSITIONS];
    return most > 1e15 ? wrong_number("max_position_embeddings", most, "a context that a model can have", err)
                       : BERTH_OK;
}

static berth_status check_kv(const berth_kv_cost *cost, berth_error *err)
{
    const double bytes[] = {cost->full_bytes_per_token, cost->sliding_bytes_per_token, cost->state_bytes};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        if (!(bytes[i] >= 0 && isfinite(bytes[i]))) {
            return error_set(err, BERTH_ERR_FORMAT,
                             "the configuration does not give the size of the KV cache: heads, head_dim or the KV "
                             "scheme are missing or out of range");
        }
    }
    return BERTH_OK;
}

static berth_status check_request(const berth_fit_request *request, berth_error *err)
{
    const struct {
        const char *name;
        double value;
    } rows[] = {
        {"weights_bytes", request->weights_bytes},         {"experts_bytes", request->experts_bytes},
        {"context_tokens", request->context_tokens},       {"chunk_tokens", request->chunk_tokens},
        {"budget_bytes", request->budget_bytes},           {"ram_bytes", request->machine.ram_bytes},
        {"bandwidth_gbs", request->machine.bandwidth_gbs},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!(rows[i].value >= 0 && rows[i].value <= 1e18)) {
            berth_status status =
                error_set(err, BERTH_ERR_ARGUMENT, "%s is %g, but 0 to 1e18 is wanted", rows[i].name, rows[i].value);
            error_at_object(err, rows[i].name, strlen(rows[i].name));
            return status;
        }
    }
    if (request->experts_bytes > request->weights_bytes) {
        return error_set(err, BERTH_ERR_ARGUMENT, "experts_bytes is %g, more than weights_bytes, which is %g",
                         request->experts_bytes, request->weights_bytes);
    }
    return BERTH_OK;
}

/* ---- the sums --------------------------------------------------------------------------------------- */

struct sums {
    const berth_fit_config *config;
    berth_kv_cost cost;
    double weights, chunk;
};

static double transient_at(const struct sums *sums, double n)
{
    return (sums->chunk < n ? sums->chunk : n) * BERTH_FIT_TRANSIENT_PER_TOKEN +
           berth_kv_sdpa_fallback_bytes(sums->config, sums->chunk, n);
}

static double total_at(const struct sums *sums, double n)
{
    return sums->weights + seed_kv_bytes(&sums->cost, n) + transient_at(sums, n);
}

/* Largest n with total_at(n) <= usable, never above the model's own maximum. */
static double max_context(const struct sums *sums, double usable)
{
    double lo = 0;
    double hi = floor(sums->config->number[BERTH_FIT_MAX_POSITIONS]);
    hi = hi > 0 && isfinite(hi) ? hi : 0;
    if (total_at(sums, hi) <= usable) {
        return hi;
    }
    if (total_at(sums, 0) > usable) {
        return 0;
    }
    while (hi - lo > 1) {
        double mid = floor((lo + hi) / 2);
        if (total_at(sums, mid) <= usable) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static double decode_tps(const berth_fit_config *config, const berth_fit_request *request, double kv)
{
    const double *number = config->number;
    bool moe = config->enable_moe_block && number[BERTH_FIT_EXPERTS] > 0;
    double skipped = moe ? request->experts_bytes * (1 - number[BERTH_FIT_TOP_K] / number[BERTH_FIT_EXPERTS]) : 0;
    double read = request->weights_bytes - skipped + kv;
    return request->machine.bandwidth_gbs * 1e9 / read *
           (moe ? BERTH_FIT_MOE_DECODE_EFFICIENCY : BERTH_FIT_DECODE_EFFICIENCY);
}

berth_status berth_fit_solve(const berth_fit_config *config, const berth_fit_request *request, berth_fit_report *report,
                             berth_error *err)
{
    if (config == NULL || request == NULL || report == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT, "a configuration, a request and a place for the report are needed");
    }
    TRY(check_request(request, err));
    TRY(check_config(config, err));
    struct sums sums = {.config = config,
                        .weights = request->weights_bytes,
                        .chunk = request->chunk_tokens > 0 ? request->chunk_tokens : BERTH_FIT_DEFAULT_CHUNK};
    berth_kv_cost_of(config, &request->kv, &sums.cost);
    TRY(check_kv(&sums.cost, err));
    double kv = seed_kv_bytes(&sums.cost, request->context_tokens);
    double transient = transient_at(&sums, request->context_tokens);
    double usable = request->has_budget ? request->budget_bytes : request->machine.ram_bytes * BERTH_FIT_WIRED_FRACTION;
    double total = request->weights_bytes + kv + transient;
    double tps = decode_tps(config, request, kv);
    if (!(total >= 0 && isfinite(total))) {
        return error_set(err, BERTH_ERR_FORMAT, "the configuration does not give a finite size at this context");
    }
    *report = (berth_fit_report){
        .struct_size = sizeof *report,
        .schema_version = 1,
        .strategy = "generic-kv",
        .fits = total <= usable,
        .lower_bound = (config->undefined >> BERTH_FIT_LAYERS & 1) != 0,
        .context_tokens = request->context_tokens,
        .max_safe_context = max_context(&sums, usable),
        .weights_bytes = request->weights_bytes,
        .kv_bytes = kv,
        .transient_bytes = transient,
        .reserve_bytes = 0,
        .total_bytes = total,
        .usable_bytes = usable,
        .predicted_decode_tps = isnan(tps) ? 0 : tps, /* 0 / 0: no bandwidth, nothing to read */
    };
    return BERTH_OK;
}
