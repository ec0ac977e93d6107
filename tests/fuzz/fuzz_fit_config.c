/* SPDX-License-Identifier: MIT
 * Fuzz target: configurations. The input is config.json, optionally followed by a NUL and kv_config.json. Whatever is
 * accepted gives sizes that are numbers and not negative, a fingerprint, and a shape whose owners exist.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "berth.h"
#include "fit/llama_cpp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

enum { SCRATCH_BYTES = 2 << 20, INPUT_MAX = 64 << 10 };

static _Alignas(4096) unsigned char scratch[SCRATCH_BYTES];

static void check_contract(const berth_fit_config *config)
{
    berth_fit_request request = BERTH_FIT_REQUEST_INIT;
    berth_fit_report report = BERTH_FIT_REPORT_INIT;
    char fingerprint[BERTH_FINGERPRINT_BYTES];
    MUST(berth_config_fingerprint(config, fingerprint, NULL, NULL) == BERTH_OK && strlen(fingerprint) == 16);
    request.weights_bytes = 1e9;
    request.experts_bytes = 9e8;
    request.context_tokens = 5000;
    request.machine = (berth_sku_machine){.ram_bytes = 8e9, .bandwidth_gbs = 100};
    request.kv.layers = config->kv_quant;
    request.kv.layers_count = config->kv_quant_count;
    if (berth_fit_solve(config, &request, &report, NULL) != BERTH_OK) {
        return;
    }
    const double values[] = {report.kv_bytes, report.transient_bytes, report.total_bytes, report.max_safe_context};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        MUST(values[i] >= 0 && isfinite(values[i]));
    }
    MUST(report.predicted_decode_tps >= 0);
    MUST(report.max_safe_context <= fmax(0, config->number[BERTH_FIT_MAX_POSITIONS]));
    MUST(report.total_bytes == report.weights_bytes + report.kv_bytes + report.transient_bytes);
}

static void check_shape(struct str document)
{
    struct arena arena;
    struct shape shape;
    struct shape_params params;
    struct llama_request request = {.ctx_tokens = 5000, .slots = 3, .k = cache_type_find("f16")};
    struct llama_report report;
    request.v = request.k;
    arena_carve(&arena, scratch, sizeof scratch);
    if (shape_read_json(document, NULL, &arena, &shape, NULL) != BERTH_OK) {
        return;
    }
    for (uint32_t i = 0; i < shape.count; i++) {
        const struct shape_layer *layer = &shape.layers[i];
        MUST(layer->owner <= i);
        MUST(shape.layers[layer->owner].cache == layer->cache);
        MUST(layer->cache == SHAPE_NO_CACHE || layer->k_elems > 0);
    }
    MUST(shape.is_known == (shape.problem[0] == '\0'));
    MUST(llama_cache_bytes(&shape, &request, &report));
    llama_solve(&shape, &request, &report);
    MUST(!shape_count_params(&shape, &params) || params.total >= params.experts);
    request.is_draft = true;
    MUST(llama_cache_bytes(&shape, &request, &report));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > INPUT_MAX) {
        return 0;
    }
    const uint8_t *end = memchr(data, 0, size);
    size_t first = end != NULL ? (size_t)(end - data) : size;
    /* Copies without slack, so that a read past the end is found. */
    char *config_json = malloc(first + 1);
    char *kv_json = malloc(size - first + 1);
    MUST(config_json != NULL && kv_json != NULL);
    memcpy(config_json, data, first);
    berth_fit_source source = BERTH_FIT_SOURCE_INIT;
    source.config_json = (berth_text){config_json, first};
    if (end != NULL && size - first > 1) {
        memcpy(kv_json, end + 1, size - first - 1);
        source.kv_config_json = (berth_text){kv_json, size - first - 1};
    }
    berth_fit_config config = BERTH_FIT_CONFIG_INIT;
    size_t bytes = berth_fit_config_bytes(&source);
    MUST(bytes <= sizeof scratch);
    berth_status status = berth_fit_config_parse(&source, scratch, bytes, &config, NULL);
    MUST(status == BERTH_OK || status == BERTH_ERR_FORMAT || status == BERTH_ERR_UNSUPPORTED ||
         status == BERTH_ERR_LIMIT);
    if (status == BERTH_OK) {
        check_contract(&config);
    }
    check_shape((struct str){config_json, first});
    free(config_json);
    free(kv_json);
    return 0;
}
