/* SPDX-License-Identifier: MIT */
#include "fit/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "os/memory.h"

/* A model whose tokenizer we do not know still runs on token ids; who asks for text is told why it does not work. */
static berth_status read_text(struct spec *spec, bool text_only, berth_error *err)
{
    berth_error problem = {0};
    spec->text_bytes = 0;
    berth_status status = text_measure(&spec->scratch, &spec->checkpoint, &spec->text_size, &problem);
    if (status == BERTH_ERR_UNSUPPORTED && !text_only) {
        snprintf(spec->text_problem, sizeof spec->text_problem, "%.255s", problem.message);
        return BERTH_OK;
    }
    if (status != BERTH_OK) {
        if (err != NULL) {
            *err = problem;
        }
        return status;
    }
    return text_size_bytes(&spec->text_size, &spec->checkpoint, spec->text_bytes_max, &spec->text_bytes, err);
}

static berth_status read_weights(struct spec *spec, berth_error *err)
{
    if (spec->family_status != BERTH_OK) {
        if (err != NULL) {
            *err = spec->family_problem;
        }
        return spec->family_status;
    }
    for (int type = 0; type < DTYPE_COUNT; type++) {
        spec->has_kernel[type] =
            spec->kernels->matmul[type] != NULL &&
            (quant_row((enum dtype)type)->dequantise != NULL || quant_row((enum dtype)type)->sided);
    }
    if (spec->hparams.moe_layers > 0) {
        TRY(expert_catalog(&spec->scratch, spec->family, &spec->checkpoint, &spec->hparams, spec->has_kernel,
                           &spec->catalog, &spec->formats, err));
    }
    return BERTH_OK;
}

static berth_status no_room(const char *path, uint64_t cap_bytes, berth_error *err)
{
    error_set(err, BERTH_ERR_BUDGET,
              "reading the headers and the tokenizer needs more than %llu bytes; raise the budget",
              (unsigned long long)cap_bytes);
    error_at_path(err, path);
    return BERTH_ERR_BUDGET;
}

/* Turns "no room for the headers" into what it means here. */
static berth_status explain(const struct spec *spec, const char *path, berth_status status, berth_error *err)
{
    return spec->scratch.failed ? no_room(path, spec->scratch.cap_bytes, err) : status;
}

berth_status spec_within(const struct spec *spec, uint64_t cap_bytes, berth_error *err)
{
    uint64_t cap = size_round_up((size_t)cap_bytes, OS_PAGE_BYTES);
    return spec->scratch.peak_bytes <= cap ? BERTH_OK : no_room(spec->checkpoint.path, cap, err);
}

static berth_status reserve(const struct spec_request *request, void **region, uint64_t *bytes, berth_error *err)
{
    enum { LEAST = 64 << 20 };
    *bytes = size_round_up((size_t)request->cap_bytes, OS_PAGE_BYTES);
    berth_status status = os_reserve(request->hooks, *bytes, false, region, err);
    while (status != BERTH_OK && request->may_be_less && *bytes / 4 >= LEAST) {
        *bytes /= 4;
        status = os_reserve(request->hooks, *bytes, false, region, err);
    }
    return status;
}

berth_status spec_begin(const struct spec_request *request, unsigned want, struct spec **out, berth_error *err)
{
    void *region = NULL;
    uint64_t bytes = 0;
    struct arena arena;
    TRY(reserve(request, &region, &bytes, err));
    arena_carve(&arena, region, bytes);
    struct spec *spec = ARENA_NEW(&arena, struct spec, 1);
    berth_status status = arena_check(&arena, "open phase", err);
    if (status != BERTH_OK) {
        os_release(region, bytes);
        return status;
    }
    spec->region = region;
    spec->region_bytes = bytes;
    spec->scratch = arena;
    status = checkpoint_open(&spec->checkpoint, request->path, want, &spec->scratch, request->hooks, err);
    if (status != BERTH_OK) {
        status = explain(spec, request->path, status, err);
        os_release(region, bytes);
        return status;
    }
    if ((want & CHECKPOINT_WANT_TENSORS) != 0) {
        spec->family_status = family_read(&spec->checkpoint, &spec->family, &spec->hparams, &spec->family_problem);
        if (spec->family_status != BERTH_OK) {
            spec->family = NULL;
            memset(&spec->hparams, 0, sizeof spec->hparams);
        }
    }
    spec->before_weights = spec->scratch;
    *out = spec;
    return BERTH_OK;
}

berth_status spec_finish(struct spec *spec, const struct spec_request *request, berth_error *err)
{
    spec->scratch = spec->before_weights;
    spec->text_bytes_max = request->text_bytes_max;
    spec->kernels = kernels_select(request->isa);
    if (spec->kernels == NULL) {
        return error_set(err, BERTH_ERR_UNSUPPORTED,
                         "this processor (or this build) cannot run the instruction set asked for");
    }
    berth_status status = request->text_only ? BERTH_OK : read_weights(spec, err);
    if (status == BERTH_OK) {
        status = read_text(spec, request->text_only, err);
    }
    spec->is_whole = status == BERTH_OK;
    return explain(spec, request->path, status, err);
}

berth_status spec_open(const struct spec_request *request, struct spec **out, berth_error *err)
{
    struct spec *spec = NULL;
    TRY(spec_begin(request, CHECKPOINT_WANT_TEXT | (request->text_only ? 0u : (unsigned)CHECKPOINT_WANT_TENSORS), &spec,
                   err));
    berth_status status = spec_finish(spec, request, err);
    if (status != BERTH_OK) {
        spec_close(spec);
        return status;
    }
    *out = spec;
    return BERTH_OK;
}

berth_status spec_text_again(struct spec *spec, uint64_t text_bytes_max, berth_error *err)
{
    spec->text_bytes_max = text_bytes_max;
    return text_size_bytes(&spec->text_size, &spec->checkpoint, text_bytes_max, &spec->text_bytes, err);
}

void spec_close(struct spec *spec)
{
    if (spec == NULL) {
        return;
    }
    if (spec->checkpoint.files != NULL) {
        checkpoint_close(&spec->checkpoint);
    }
    os_release(spec->region, spec->region_bytes);
}

uint64_t spec_peak_bytes(const struct spec *spec)
{
    return size_round_up((size_t)spec->scratch.peak_bytes, OS_PAGE_BYTES);
}
