/* SPDX-License-Identifier: MIT
 * Numbers of a shape held against each other: what contradicts itself is no model, and what is missing makes a total
 * that looks like one and is too small. */
#include <stdio.h>

#include "family/shape_rows.h"

static bool has(const struct shape_reading *r, uint32_t flag)
{
    return r->row != NULL && (r->row->flags & flag) != 0;
}

static const char *name_of(const struct shape_reading *r, enum shape_number number)
{
    return source_name(&r->source, &shape_keys[number]);
}

void shape_lack_text(const struct shape_reading *r, enum shape_number number, const char *what, char *text,
                     size_t bytes)
{
    if (r->source.meta != NULL && r->row == NULL) { /* which names its keys may have is anybody's guess */
        snprintf(text, bytes,
                 "architecture \"%.*s\" is not known to this version, and \"%s\" is missing or 0, so %s has no size",
                 (int)(r->source.arch.bytes < 80 ? r->source.arch.bytes : 80), r->source.arch.ptr, name_of(r, number),
                 what);
        return;
    }
    bool listed = r->row != NULL && r->type.bytes > 0;
    bool said = source_mentions(&r->source, &shape_keys[number]);
    snprintf(text, bytes, "\"%s\" is missing or 0, so %s has no size%s; add it to the %s", name_of(r, number), what,
             r->source.meta != NULL ? ""
             : said                 ? ", and null or 0 asks for no default"
             : listed               ? ", and its model_type has no default for it"
                                    : ", and there is no default for this model_type",
             r->source.meta != NULL ? "metadata" : "configuration");
}

/* ---- contradictions --------------------------------------------------------------------------------- */

static berth_status contradiction(struct shape_reading *r, enum shape_number number, uint32_t value, const char *wanted,
                                  uint32_t other)
{
    const char *name = name_of(r, number);
    berth_status status = error_set(r->source.err, BERTH_ERR_FORMAT, "\"%s\" is %lu, but %s %lu is wanted", name,
                                    (unsigned long)value, wanted, (unsigned long)other);
    error_at_object(r->source.err, name, strlen(name));
    if (r->source.path != NULL) {
        error_at_path(r->source.err, r->source.path);
    }
    return status;
}

berth_status shape_check_layers(struct shape_reading *r)
{
    const uint32_t *n = r->out->number;
    if (n[SHAPE_EXPERTS] > 0 && n[SHAPE_TOP_K] > n[SHAPE_EXPERTS] && !r->out->is_default[SHAPE_TOP_K]) {
        return contradiction(r, SHAPE_TOP_K, n[SHAPE_TOP_K], "at most the number of experts, which is",
                             n[SHAPE_EXPERTS]);
    }
    for (uint32_t i = 0; i < r->out->count; i++) {
        const struct shape_layer *layer = &r->out->layers[i];
        bool heads = layer->cache == SHAPE_FULL || layer->cache == SHAPE_SLIDING || layer->cache == SHAPE_CHUNKED;
        uint32_t dim = layer->heads > 0 ? layer->q_elems / layer->heads : 0;
        uint32_t kv = dim > 0 ? layer->k_elems / dim : 0;
        if (heads && kv > 0 && layer->heads % kv != 0) {
            return contradiction(r, SHAPE_KV_HEADS, kv, "a divisor of the number of heads, which is", layer->heads);
        }
    }
    return BERTH_OK;
}

/* ---- what is missing -------------------------------------------------------------------------------- */

/* Whether a layer without experts has a feed-forward whose width is intermediate_size. */
static bool has_dense(const struct shape_reading *r)
{
    bool granite = r->row->pattern == PATTERN_STATE_HEADS && r->row->state == SHAPE_MAMBA;
    return has(r, SHAPE_COUNTED) && !has(r, SHAPE_MIXER_ONLY | SHAPE_ONE_NORM) && !granite;
}

static enum shape_number layer_lacks(const struct shape_reading *r, const struct shape_layer *layer)
{
    const uint32_t *n = r->out->number;
    bool json = r->source.meta == NULL;
    if (layer->cache != SHAPE_NO_CACHE && layer->heads == 0) {
        return SHAPE_HEADS;
    }
    if (json && layer->cache == SHAPE_LATENT && has(r, SHAPE_COUNTED) && n[SHAPE_V_DIM] == 0) {
        return SHAPE_V_DIM;
    }
    if (json && layer->cache == SHAPE_LATENT && has(r, SHAPE_COUNTED) && n[SHAPE_NOPE_DIM] == 0) {
        return SHAPE_NOPE_DIM;
    }
    if (layer->cache != SHAPE_NO_CACHE && layer->cache != SHAPE_LATENT &&
        source_says_zero(&r->source, &shape_keys[SHAPE_HEAD_DIM])) {
        return SHAPE_HEAD_DIM; /* null is what heads leave of the width; 0 is nothing */
    }
    if (layer->is_moe && n[SHAPE_TOP_K] == 0) {
        return SHAPE_TOP_K;
    }
    if (layer->is_moe && n[SHAPE_EXPERT_FFN] == 0 &&
        (n[SHAPE_FFN] == 0 || source_mentions(&r->source, &shape_keys[SHAPE_EXPERT_FFN]))) {
        return SHAPE_EXPERT_FFN;
    }
    if (json && !layer->is_moe && has_dense(r) && n[SHAPE_FFN] == 0 && n[SHAPE_DENSE_FFN] == 0) {
        return SHAPE_FFN;
    }
    return SHAPE_NUMBERS;
}

void shape_note_lacks(struct shape_reading *r)
{
    struct shape *out = r->out;
    enum shape_number lack = out->number[SHAPE_HIDDEN] == 0 ? SHAPE_HIDDEN : SHAPE_NUMBERS;
    if (r->row == NULL || has(r, SHAPE_NO_CACHE_AT_ALL)) {
        return; /* a lower bound already; an encoder */
    }
    for (uint32_t i = 0; i < out->count && lack == SHAPE_NUMBERS; i++) {
        lack = layer_lacks(r, &out->layers[i]);
    }
    if (lack == SHAPE_NUMBERS && out->number[SHAPE_VOCAB] == 0) { /* last: the rows of an embedding may say it */
        lack = SHAPE_VOCAB;
    }
    if (lack != SHAPE_NUMBERS) {
        snprintf(out->lack_key, sizeof out->lack_key, "%s", name_of(r, lack));
        shape_lack_text(r, lack, "the model", out->lack, sizeof out->lack);
    }
}

berth_status shape_check_whole(const struct shape *shape, const char *path, berth_error *err)
{
    if (shape->lack[0] == '\0') {
        return BERTH_OK;
    }
    berth_status status = error_set(err, BERTH_ERR_FORMAT, "%s", shape->lack);
    error_at_object(err, shape->lack_key, strlen(shape->lack_key));
    if (path != NULL) {
        error_at_path(err, path);
    }
    return status;
}
