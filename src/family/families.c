/* SPDX-License-Identifier: MIT
 * The list of families, and the lookups that read their rows. */
#include <stdio.h>
#include <string.h>

#include "family/family.h"
#include "family/hparams.h"
#include "model/layouts.h"

extern const struct family family_llama, family_mixtral, family_qwen3, family_qwen3_moe, family_qwen2_moe, family_olmoe;

const struct family *const families[] = {
    &family_llama, &family_mixtral, &family_qwen3, &family_qwen3_moe, &family_qwen2_moe, &family_olmoe,
};
const uint32_t families_count = sizeof families / sizeof families[0];

const struct tensor_row *family_row(const struct family *family, enum role role)
{
    for (uint32_t g = 0; g < FAMILY_GROUPS_MAX && family->groups[g].count > 0; g++) {
        for (uint32_t i = 0; i < family->groups[g].count; i++) {
            if (family->groups[g].rows[i].role == role) {
                return &family->groups[g].rows[i];
            }
        }
    }
    return NULL;
}

uint64_t family_dim(const struct hparams *hparams, enum dim dim)
{
    switch (dim) {
    case DIM_NONE:
        return 0;
    case DIM_ONE:
        return 1;
    case DIM_HIDDEN:
        return hparams->hidden;
    case DIM_VOCAB:
        return hparams->vocab;
    case DIM_HEAD_DIM:
        return hparams->head_dim;
    case DIM_Q:
        return (uint64_t)hparams->heads * hparams->head_dim;
    case DIM_KV:
        return (uint64_t)hparams->kv_heads * hparams->head_dim;
    case DIM_FFN:
        return hparams->ffn;
    case DIM_EXPERTS:
        return hparams->experts;
    case DIM_EXPERT_FFN:
        return hparams->expert_ffn;
    case DIM_SHARED_FFN:
        return hparams->shared_ffn;
    case DIM_ROTARY_HALF:
        return hparams->rotary_dim / 2;
    }
    return 0;
}

/* Writes a row's name with its numbers; NULL when the format has no such tensor. The patterns are our own literals with
 * at most two %u. A checkpoint has tens of thousands of names, so what lies between the numbers is copied whole. */
static const char *render(const char *pattern, uint32_t layer, uint32_t expert, char *buffer, size_t cap)
{
    if (pattern == NULL) {
        return NULL;
    }
    size_t at = 0;
    const uint32_t numbers[2] = {layer, expert};
    const char *from = pattern;
    for (uint32_t used = 0; used < 2; used++) {
        const char *sign = strchr(from, '%');
        if (sign == NULL || at + (size_t)(sign - from) + 12 >= cap) {
            break;
        }
        memcpy(buffer + at, from, (size_t)(sign - from));
        at += (size_t)(sign - from);
        from = sign + 2;
        char digits[10];
        size_t count = 0;
        uint32_t rest = numbers[used];
        do {
            digits[count++] = (char)('0' + rest % 10);
            rest /= 10;
        } while (rest > 0);
        while (count > 0) {
            buffer[at++] = digits[--count];
        }
    }
    size_t bytes = strlen(from);
    bytes = bytes < cap - at - 1 ? bytes : cap - at - 1;
    memcpy(buffer + at, from, bytes);
    buffer[at + bytes] = '\0';
    return buffer;
}

static const char *pattern_of(const struct tensor_row *row, enum checkpoint_format format)
{
    return format == CHECKPOINT_GGUF ? row->gguf : row->hf;
}

/* MLX stacks the experts of a layer in one tensor beside where the separate ones would be, whatever their family calls
 * the three matrices: "X.experts.%u.w1.weight" becomes "X.switch_mlp.gate_proj.weight". */
static const char *stacked_pattern(const struct tensor_row *row, char buffer[TENSOR_NAME_MAX])
{
    static const char separate[] = "experts.%u.";
    const char *at = row->hf == NULL || !role_is_expert(row->role) ? NULL : strstr(row->hf, separate);
    if (at == NULL) {
        return NULL;
    }
    int bytes = snprintf(buffer, TENSOR_NAME_MAX, "%.*sswitch_mlp.%s_proj.weight", (int)(at - row->hf), row->hf,
                         row->role == ROLE_EXPERT_GATE ? "gate"
                         : row->role == ROLE_EXPERT_UP ? "up"
                                                       : "down");
    return bytes > 0 && bytes < TENSOR_NAME_MAX ? buffer : NULL;
}

bool family_tensor_name(const struct family *family, enum checkpoint_format format, enum role role, uint32_t layer,
                        uint32_t expert, char buffer[TENSOR_NAME_MAX])
{
    const struct tensor_row *row = family_row(family, role);
    buffer[0] = '\0';
    return row != NULL && render(pattern_of(row, format), layer, expert, buffer, TENSOR_NAME_MAX) != NULL;
}

static berth_status check_shape(const struct tensor *tensor, const uint64_t *want, uint32_t want_count,
                                const struct checkpoint *checkpoint, berth_error *err)
{
    bool same = tensor->dims_count == want_count;
    for (uint32_t i = 0; same && i < want_count; i++) {
        same = tensor->dims[i] == want[i];
    }
    if (same) {
        return BERTH_OK;
    }
    char got_text[96];
    char want_text[96];
    size_t got_at = 0;
    size_t want_at = 0;
    got_text[0] = want_text[0] = '\0';
    for (uint32_t i = 0; i < tensor->dims_count && got_at < 70; i++) {
        got_at += (size_t)snprintf(got_text + got_at, sizeof got_text - got_at, "%s%llu", i > 0 ? ", " : "",
                                   (unsigned long long)tensor->dims[i]);
    }
    for (uint32_t i = 0; i < want_count && want_at < 70; i++) {
        want_at += (size_t)snprintf(want_text + want_at, sizeof want_text - want_at, "%s%llu", i > 0 ? ", " : "",
                                    (unsigned long long)want[i]);
    }
    /* words of packed quants, taken for values */
    const char *missing = tensor->dtype == DTYPE_U32 ? layouts_companion(tensor->dtype) : NULL;
    error_set(err, BERTH_ERR_FORMAT, "tensor %.*s has shape [%s], the model's metadata asks for [%s]%s%s",
              STR_ARG(tensor->name), got_text, want_text,
              missing == NULL ? "" : "; it is packed, and its scales are missing: ", missing == NULL ? "" : missing);
    error_at_path(err, checkpoint->files[tensor->file].path);
    error_at_object(err, tensor->name.ptr, tensor->name.bytes);
    return err == NULL ? BERTH_ERR_FORMAT : err->status;
}

berth_status family_tensor(const struct family *family, const struct checkpoint *checkpoint,
                           const struct hparams *hparams, enum role role, uint32_t layer, uint32_t expert,
                           const struct tensor **out, berth_error *err)
{
    *out = NULL;
    const struct tensor_row *row = family_row(family, role);
    if (row == NULL) {
        return BERTH_OK;
    }
    if (role_is_layer(role) && (((row->flags & TENSOR_MOE_ONLY) != 0 && hparams->layer_moe[layer] == 0) ||
                                ((row->flags & TENSOR_DENSE_ONLY) != 0 && hparams->layer_moe[layer] != 0))) {
        return BERTH_OK;
    }
    if ((role == ROLE_SHARED_ROUTER || (role >= ROLE_SHARED_GATE && role <= ROLE_SHARED_DOWN)) &&
        hparams->shared_ffn == 0) {
        return BERTH_OK;
    }
    char buffer[TENSOR_NAME_MAX];
    char pattern[TENSOR_NAME_MAX];
    const char *name = render(pattern_of(row, checkpoint->format), layer, expert, buffer, sizeof buffer);
    const struct tensor *tensor = name == NULL ? NULL : tensor_find(&checkpoint->tensors, str_from(name));
    bool stacked = role_is_expert(role) && checkpoint->format == CHECKPOINT_GGUF;
    if (tensor == NULL && checkpoint->format != CHECKPOINT_GGUF) {
        char other[TENSOR_NAME_MAX];
        const char *text = render(stacked_pattern(row, pattern), layer, expert, other, sizeof other);
        tensor = text == NULL ? NULL : tensor_find(&checkpoint->tensors, str_from(text));
        stacked = tensor != NULL;
    }
    if (tensor == NULL) {
        if (name == NULL || (row->flags & TENSOR_OPTIONAL) != 0) {
            return BERTH_OK;
        }
        error_set(err, BERTH_ERR_FORMAT, "tensor %s is missing (family %s); the checkpoint is incomplete or damaged",
                  name, family->name);
        error_at_path(err, checkpoint->path);
        error_at_object(err, name, strlen(name));
        return BERTH_ERR_FORMAT;
    }
    uint64_t want[3];
    uint32_t count = 0;
    if (stacked) {
        want[count++] = hparams->experts;
    }
    want[count++] = family_dim(hparams, row->dims[0]);
    if ((row->flags & TENSOR_VECTOR) == 0) {
        want[count++] = family_dim(hparams, row->dims[1]);
    }
    if (role == ROLE_SHARED_ROUTER && tensor->dims_count == 1) { /* GGUF writers drop the leading 1 */
        want[0] = want[1];
        count = 1;
    }
    TRY(check_shape(tensor, want, count, checkpoint, err));
    *out = tensor;
    return BERTH_OK;
}

berth_status family_scale(const struct family *family, const struct checkpoint *checkpoint,
                          const struct hparams *hparams, enum role role, uint32_t layer, const struct tensor **out,
                          berth_error *err)
{
    static const char weight[] = ".weight";
    static const char scale[] = ".scale";
    char name[TENSOR_NAME_MAX];
    *out = NULL;
    const struct tensor_row *row = family_row(family, role);
    if (checkpoint->format != CHECKPOINT_GGUF || row == NULL || (row->flags & TENSOR_VECTOR) != 0 ||
        !family_tensor_name(family, checkpoint->format, role, layer, 0, name)) {
        return BERTH_OK;
    }
    size_t bytes = strlen(name);
    if (bytes < sizeof weight || strcmp(name + bytes - (sizeof weight - 1), weight) != 0) {
        return BERTH_OK;
    }
    memcpy(name + bytes - (sizeof weight - 1), scale, sizeof scale);
    const struct tensor *tensor = tensor_find(&checkpoint->tensors, str_from(name));
    if (tensor == NULL) {
        return BERTH_OK;
    }
    uint64_t want = role_is_expert(role) ? hparams->experts : 1;
    TRY(check_shape(tensor, &want, 1, checkpoint, err));
    *out = tensor;
    return BERTH_OK;
}

/* Whether a role's tensor, or its scale, has this name. */
static bool role_knows(const struct family *family, const struct checkpoint *checkpoint, const struct hparams *hparams,
                       enum role role, uint32_t layer, uint32_t expert, struct str name, bool *absent)
{
    const struct tensor *tensor = NULL;
    const struct tensor *scale = NULL;
    *absent =
        family_tensor(family, checkpoint, hparams, role, layer, expert, &tensor, NULL) != BERTH_OK || tensor == NULL;
    if (*absent) {
        return false;
    }
    return str_equal(tensor->name, name) ||
           (family_scale(family, checkpoint, hparams, role, layer, &scale, NULL) == BERTH_OK && scale != NULL &&
            str_equal(scale->name, name));
}

bool family_knows(const struct family *family, const struct checkpoint *checkpoint, const struct hparams *hparams,
                  struct str name)
{
    bool gguf = checkpoint->format == CHECKPOINT_GGUF;
    for (int role = 0; role < ROLE_COUNT; role++) {
        uint32_t layers = role_is_layer((enum role)role) ? hparams->layers : 1;
        uint32_t experts = role_is_expert((enum role)role) && !gguf ? hparams->experts : 1;
        for (uint32_t layer = 0; layer < layers; layer++) {
            for (uint32_t expert = 0; expert < experts; expert++) {
                bool absent = false;
                if (role_knows(family, checkpoint, hparams, (enum role)role, layer, expert, name, &absent)) {
                    return true;
                }
                if (absent) {
                    break;
                }
            }
        }
    }
    return false;
}
