/* SPDX-License-Identifier: MIT
 * Which family a checkpoint is, and that the family knows every tensor in it. */
#include <stdio.h>

#include "family/family.h"
#include "family/hparams.h"
#include "model/json.h"

static berth_status unknown(const struct checkpoint *checkpoint, const char *what, const char *got, berth_error *err)
{
    char list[256];
    size_t at = 0;
    for (uint32_t i = 0; i < families_count && at + 32 < sizeof list; i++) {
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "", families[i]->name);
    }
    error_set(err, BERTH_ERR_UNSUPPORTED, "%s \"%s\" is not a family this version can run; it runs: %s", what, got,
              list);
    error_at_path(err, checkpoint->path);
    error_at_object(err, what, strlen(what));
    return BERTH_ERR_UNSUPPORTED;
}

static berth_status find_gguf(const struct checkpoint *checkpoint, const struct family **out, berth_error *err)
{
    struct str arch;
    char text[64];
    if (!meta_str(&checkpoint->meta, STR("general.architecture"), &arch) || arch.bytes >= sizeof text) {
        return unknown(checkpoint, "general.architecture", "(none)", err);
    }
    memcpy(text, arch.ptr, arch.bytes);
    text[arch.bytes] = '\0';
    char key[96];
    uint64_t experts = 0;
    snprintf(key, sizeof key, "%s.expert_count", text);
    meta_u64(&checkpoint->meta, str_from(key), &experts);
    for (uint32_t i = 0; i < families_count; i++) {
        if (strcmp(families[i]->gguf_arch, text) == 0 && families[i]->moe == (experts > 0)) {
            *out = families[i];
            return BERTH_OK;
        }
    }
    return unknown(checkpoint, "general.architecture", text, err);
}

static berth_status find_hf(const struct checkpoint *checkpoint, const struct family **out, berth_error *err)
{
    struct json value;
    char text[64] = "(none)";
    if (checkpoint->config_json.bytes == 0) {
        error_set(err, BERTH_ERR_NOT_FOUND, "config.json is missing beside the safetensors files");
        error_at_path(err, checkpoint->path);
        return BERTH_ERR_NOT_FOUND;
    }
    if (json_find(checkpoint->config_json, (const char *const[]){"model_type", NULL}, &value) &&
        value.token.kind == JSON_STRING && value.token.raw.bytes < sizeof text) {
        text[json_unescape(&value.token, text, sizeof text - 1)] = '\0';
    }
    for (uint32_t i = 0; i < families_count; i++) {
        if (strcmp(families[i]->hf_model_type, text) == 0) {
            *out = families[i];
            return BERTH_OK;
        }
    }
    return unknown(checkpoint, "model_type", text, err);
}

/* Tensors that carry nothing the forward pass needs: recomputed frequencies, and a stored head under tied embeddings.
 */
static bool may_ignore(struct str name, const struct hparams *hparams)
{
    return str_ends(name, STR(".rotary_emb.inv_freq")) || str_ends(name, STR(".attn_rot_embd")) ||
           str_ends(name, STR(".input_scale")) || /* ranges of activations quantised to 4 bits; ours are not */
           (hparams->tied_embeddings && str_is(name, "lm_head.weight"));
}

/* Tensors that are an expert's matrix each, where all of them are there; 0: not all are, or they lie together. */
static uint64_t count_experts(const struct family *family, const struct checkpoint *checkpoint,
                              const struct hparams *hparams)
{
    struct family_experts experts;
    struct family_expert found;
    uint64_t count = 0;
    uint64_t layers = 0;
    if (!family_experts_begin(family, checkpoint, hparams, &experts)) {
        return 0;
    }
    for (uint32_t i = 0; i < checkpoint->tensors.count; i++) {
        count += family_expert_of(&experts, &checkpoint->tensors.items[i], &found) ? 1u : 0u;
    }
    for (uint32_t layer = 0; layer < hparams->layers; layer++) {
        layers += hparams->layer_moe[layer] != 0 ? 1u : 0u;
    }
    return count == 3 * layers * hparams->experts ? count : 0;
}

/* Counts the tensors that roles claim; each claimed name is distinct, so equality means that all are known. */
static berth_status check_claims(const struct family *family, const struct checkpoint *checkpoint,
                                 const struct hparams *hparams, berth_error *err)
{
    const uint64_t separate = count_experts(family, checkpoint, hparams);
    uint64_t claimed = separate;
    bool gguf = checkpoint->format == CHECKPOINT_GGUF;
    for (int role = 0; role < ROLE_COUNT; role++) {
        if ((role == ROLE_HEAD && hparams->tied_embeddings) || (separate > 0 && role_is_expert((enum role)role))) {
            continue;
        }
        uint32_t layers = role_is_layer((enum role)role) ? hparams->layers : 1;
        uint32_t experts = role_is_expert((enum role)role) && !gguf ? hparams->experts : 1;
        for (uint32_t layer = 0; layer < layers; layer++) {
            for (uint32_t expert = 0; expert < experts; expert++) {
                const struct tensor *tensor = NULL;
                TRY(family_tensor(family, checkpoint, hparams, (enum role)role, layer, expert, &tensor, err));
                if (tensor == NULL) {
                    break;
                }
                const struct tensor *scale = NULL;
                TRY(family_scale(family, checkpoint, hparams, (enum role)role, layer, &scale, err));
                claimed += scale != NULL ? 2 : 1;
                if (role_is_expert((enum role)role) && tensor_is_stacked(tensor)) {
                    break;
                }
            }
        }
    }
    uint64_t ignored = 0;
    for (uint32_t i = 0; i < checkpoint->tensors.count; i++) {
        ignored += may_ignore(checkpoint->tensors.items[i].name, hparams) ? 1u : 0u;
    }
    if (claimed + ignored == checkpoint->tensors.count) {
        return BERTH_OK;
    }
    for (uint32_t i = 0; i < checkpoint->tensors.count; i++) {
        const struct tensor *tensor = &checkpoint->tensors.items[i];
        if (!may_ignore(tensor->name, hparams) && !family_knows(family, checkpoint, hparams, tensor->name)) {
            error_set(err, BERTH_ERR_UNSUPPORTED,
                      "tensor %.*s is not part of family %s; running without it could give wrong answers",
                      STR_ARG(tensor->name), family->name);
            error_at_path(err, checkpoint->files[tensor->file].path);
            error_at_object(err, tensor->name.ptr, tensor->name.bytes);
            return BERTH_ERR_UNSUPPORTED;
        }
    }
    return error_set(err, BERTH_ERR_INTERNAL, "tensor accounting is off: %llu claimed, %llu ignored, %u in the file",
                     (unsigned long long)claimed, (unsigned long long)ignored, (unsigned)checkpoint->tensors.count);
}

berth_status family_read(const struct checkpoint *checkpoint, const struct family **family, struct hparams *out,
                         berth_error *err)
{
    const struct family *found = NULL;
    TRY(checkpoint->format == CHECKPOINT_GGUF ? find_gguf(checkpoint, &found, err) : find_hf(checkpoint, &found, err));
    TRY(family_hparams(checkpoint, found, out, err));
    if (!out->tied_embeddings) {
        const struct tensor *head = NULL;
        TRY(family_tensor(found, checkpoint, out, ROLE_HEAD, 0, 0, &head, err));
        if (head == NULL) {
            error_set(err, BERTH_ERR_FORMAT, "lm_head.weight is missing and tie_word_embeddings is false");
            error_at_path(err, checkpoint->path);
            return BERTH_ERR_FORMAT;
        }
    }
    TRY(check_claims(found, checkpoint, out, err));
    *family = found;
    return BERTH_OK;
}
