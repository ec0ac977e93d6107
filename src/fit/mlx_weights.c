/* SPDX-License-Identifier: MIT
 * Weights of a model that is not here yet, as MLX would hold them: parameters by the shape, times MLX's bytes. */
#include <math.h>

#include "base/checked.h"
#include "family/shape.h"
#include "family/shape_source.h"
#include "os/memory.h"

enum { REGION_BYTES = 64 << 20 }; /* address space: members of the configuration and layers, both limited */

static berth_status none(berth_status status, berth_error *err)
{
    error_at_object(err, "quantization", 12);
    return status;
}

/* What MLX's own block says. Others' quantization_config counts groups in other ways. */
static berth_status read_block(berth_text config_json, struct arena arena, uint32_t *bits, uint32_t *group,
                               berth_error *err)
{
    struct shape_source source = {.err = err};
    struct json block;
    struct json value;
    TRY(source_open_json(&source, (struct str){config_json.ptr, config_json.bytes}, &arena));
    source.nested = NULL;
    if (!source_find(&source, "quantization", &block)) {
        return none(error_set(err, BERTH_ERR_NOT_FOUND, "the configuration has no \"quantization\""), err);
    }
    if (block.token.kind != JSON_OBJECT_BEGIN) {
        return source_wrong(&source, "quantization", &block, "an object");
    }
    if (source_inside(&block, "mode", &value) && !json_token_is(&value.token, "affine")) {
        return none(error_set(err, BERTH_ERR_UNSUPPORTED, "a \"quantization\" whose mode is not affine is not known"),
                    err);
    }
    static const char *const keys[] = {"bits", "group_size"};
    uint32_t *const out[] = {bits, group};
    for (size_t i = 0; i < 2; i++) {
        if (!source_inside(&block, keys[i], &value)) {
            return none(error_set(err, BERTH_ERR_FORMAT, "\"quantization\" has no \"%s\"", keys[i]), err);
        }
        TRY(source_json_u32(&source, keys[i], &value, i == 0 ? 16 : 4096, out[i]));
    }
    return BERTH_OK;
}

static berth_status weigh(berth_text config_json, uint32_t bits, uint32_t group, struct arena arena,
                          berth_fit_weights *out, berth_error *err)
{
    struct shape shape;
    struct shape_params params;
    uint64_t bytes;
    if (bits == 0) {
        TRY(read_block(config_json, arena, &bits, &group, err));
    }
    if (bits == 0 || bits > 8 || group == 0) {
        return error_set(err, BERTH_ERR_ARGUMENT, "%lu bits in groups of %lu are not MLX's: 1 to 8, and 1 or more",
                         (unsigned long)bits, (unsigned long)group);
    }
    TRY(shape_read_json((struct str){config_json.ptr, config_json.bytes}, NULL, &arena, &shape, err));
    TRY(shape_check_whole(&shape, NULL, err));
    if (!shape_count_params(&shape, &params) || !shape_mlx_bytes(&shape, bits, group, &bytes)) {
        return error_set(err, BERTH_ERR_UNSUPPORTED, "the parameters of model_type \"%s\" are not counted%s%s",
                         shape.family, shape.is_known ? "" : ": ", shape.is_known ? "" : shape.problem);
    }
    *out = (berth_fit_weights){.struct_size = out->struct_size};
    out->weights_bytes = (double)bytes;
    out->experts_bytes = floor((double)params.experts * (bits + 32.0 / group) / 8);
    return BERTH_OK;
}

berth_status berth_fit_weights_mlx(berth_text config_json, uint32_t bits, uint32_t group, berth_fit_weights *out,
                                   berth_error *err)
{
    void *region = NULL;
    struct arena arena;
    if (config_json.ptr == NULL || out == NULL || out->struct_size < sizeof *out) {
        return error_set(err, BERTH_ERR_ARGUMENT,
                         "a configuration and sums from BERTH_FIT_WEIGHTS_INIT are needed for berth_fit_weights_mlx()");
    }
    if (config_json.bytes > BERTH_FIT_DOCUMENT_MAX) {
        return error_set(err, BERTH_ERR_LIMIT, "config.json has more than %zu bytes, the limit",
                         BERTH_FIT_DOCUMENT_MAX);
    }
    TRY(os_reserve(NULL, REGION_BYTES, false, &region, err));
    arena_carve(&arena, region, REGION_BYTES);
    berth_status status = weigh(config_json, bits, group, arena, out, err);
    os_release(region, REGION_BYTES);
    return status;
}
