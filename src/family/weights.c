/* SPDX-License-Identifier: MIT
 * What a tensor is for, by its name: the spellings of GGUF, of Hugging Face checkpoints and of MLX's. */
#include "family/shape.h"

static bool contains(struct str text, const char *part)
{
    size_t bytes = strlen(part);
    for (size_t i = 0; i + bytes <= text.bytes; i++) {
        if (text.ptr[i] == part[0] && memcmp(text.ptr + i, part, bytes) == 0) {
            return true;
        }
    }
    return false;
}

static bool contains_any(struct str text, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (contains(text, parts[i])) {
            return true;
        }
    }
    return false;
}
#define ANY(text, list) contains_any((text), (list), sizeof(list) / sizeof(list)[0])

/* The block number after `prefix`, wherever it stands; UINT32_MAX: none. */
static uint32_t block_after(struct str name, const char *prefix)
{
    size_t bytes = strlen(prefix);
    for (size_t i = 0; i + bytes < name.bytes; i++) {
        if (memcmp(name.ptr + i, prefix, bytes) == 0) {
            uint32_t block = 0;
            size_t at = i + bytes;
            for (; at < name.bytes && name.ptr[at] >= '0' && name.ptr[at] <= '9' && block < 1 << 20; at++) {
                block = block * 10 + (uint32_t)(name.ptr[at] - '0');
            }
            return at > i + bytes ? block : UINT32_MAX;
        }
    }
    return UINT32_MAX;
}

/* ".ffn_gate.3.weight": one matrix an expert, as the first mixture GGUF files had it. */
static bool is_split_expert(struct str name)
{
    static const char *const parts[] = {".ffn_gate.", ".ffn_up.", ".ffn_down."};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (block_after(name, parts[i]) != UINT32_MAX) {
            return true;
        }
    }
    return false;
}

static bool is_expert(struct str name)
{
    static const char *const routed[] = {".experts.", ".switch_mlp.", "exps."};
    static const char *const fused[] = {"block_sparse_moe.input_linear", "block_sparse_moe.output_linear",
                                        "ffn.experts.mlp"};
    static const char *const beside[] = {"shared_expert", "_bias", ".bias", "exps.scale", "input_scale"};
    bool is_scale = str_ends(name, STR(".scales")) || str_ends(name, STR(".biases")); /* MLX: part of the matrix */
    if (ANY(name, fused) || is_split_expert(name)) {
        return true;
    }
    return ANY(name, routed) && (is_scale || !ANY(name, beside));
}

static bool is_lookup(struct str name)
{
    static const char *const tables[] = {"token_embd.",          "embed_tokens.", "embed_tokens_per_layer",
                                         "per_layer_token_embd", "ngram",         "engram",
                                         "word_embeddings.",     "wte.weight",    "embeddings.weight"};
    static const char *const beside[] = {"_norm", "_proj", "norm.", "proj."};
    return ANY(name, tables) && !ANY(name, beside);
}

static bool is_not_loaded(struct str name, uint32_t layers)
{
    static const char *const towers[] = {"vision_tower",          "vision_model", "visual.",
                                         "multi_modal_projector", "mm_projector", "audio_tower",
                                         "embed_vision.",         "embed_audio.", "rotary_emb.inv_freq"};
    uint32_t block = block_after(name, "blk.");
    block = block == UINT32_MAX ? block_after(name, "layers.") : block;
    return ANY(name, towers) || str_starts(name, STR("mtp.")) || contains(name, ".mtp.") ||
           str_starts(name, STR("v.")) || str_starts(name, STR("mm.")) || (block != UINT32_MAX && block >= layers);
}

enum weight_class weight_class_of(struct str name, uint32_t layers)
{
    return is_not_loaded(name, layers) ? WEIGHT_NOT_LOADED
           : is_expert(name)           ? WEIGHT_EXPERT
           : is_lookup(name)           ? WEIGHT_LOOKUP
                                       : WEIGHT_RESIDENT;
}

const char *weight_class_name(enum weight_class class)
{
    static const char *const names[WEIGHT_CLASSES] = {"resident", "experts", "lookup", "not_loaded"};
    return (unsigned)class < WEIGHT_CLASSES ? names[class] : NULL;
}
